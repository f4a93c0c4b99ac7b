/* A library of functions that do nothing and return 0. memreplay gives them the names of those
 * functions that a program's libraries need but that the other files here don't implement. Calls
 * are counted by function number, and their arguments are passed to the card's library, because the
 * real function may have written to memory there. */

#ifdef THIN
/* The same library without functions. Under the name of one of NVIDIA's libraries, it takes that
 * library's place. */
int memreplay_thin;
#else
#include <stdint.h>

#define FUNCTIONS 4096

__attribute__((visibility("default"))) uint32_t memreplay_counts[FUNCTIONS];
__attribute__((visibility("default"))) uint32_t memreplay_last = FUNCTIONS;

/* Defined in the card's library (touched.c); missing if this library is loaded without it. */
__asm__(".weak memreplay_touch\n");

#if defined(__x86_64__)
#define FUNCTION "  movl $\\number, %eax\n  jmp memreplay_count\n"
__asm__(".text\n"
        "memreplay_count:\n"
        "  movl %eax, memreplay_last_here(%rip)\n"
        "  leaq memreplay_counts_here(%rip), %r11\n"
        "  lock incl (%r11, %rax, 4)\n"
        "  movq memreplay_touch@GOTPCREL(%rip), %r11\n"
        "  testq %r11, %r11\n"
        "  je 1f\n"
        /* Push the arguments in registers below the return address and the other arguments. */
        "  pushq %r9\n  pushq %r8\n  pushq %rcx\n  pushq %rdx\n  pushq %rsi\n  pushq %rdi\n"
        "  movq %rsp, %rdi\n"
        "  movl $31, %esi\n"
        "  subq $8, %rsp\n"
        "  call *%r11\n"
        "  addq $56, %rsp\n"
        "1:\n"
        "  xorl %eax, %eax\n"
        "  ret\n");
#elif defined(__aarch64__)
#define FUNCTION "  mov w16, #\\number\n  b memreplay_count\n"
__asm__(".text\n"
        "memreplay_count:\n"
        "  adrp x17, memreplay_last_here\n"
        "  str w16, [x17, #:lo12:memreplay_last_here]\n"
        "  adrp x17, memreplay_counts_here\n"
        "  add x17, x17, #:lo12:memreplay_counts_here\n"
        "  add x17, x17, x16, lsl #2\n"
        "1: ldxr w15, [x17]\n"
        "  add w15, w15, #1\n"
        "  stxr w14, w15, [x17]\n"
        "  cbnz w14, 1b\n"
        "  adrp x17, :got:memreplay_touch\n"
        "  ldr x17, [x17, #:got_lo12:memreplay_touch]\n"
        "  cbz x17, 2f\n"
        /* Push the arguments in registers below those on the stack. */
        "  stp x29, x30, [sp, #-80]!\n"
        "  stp x0, x1, [sp, #16]\n"
        "  stp x2, x3, [sp, #32]\n"
        "  stp x4, x5, [sp, #48]\n"
        "  stp x6, x7, [sp, #64]\n"
        "  mov x29, sp\n"
        "  mov x0, sp\n"
        "  mov x1, #34\n"
        "  blr x17\n"
        "  ldp x29, x30, [sp], #80\n"
        "2:\n"
        "  mov x0, #0\n"
        "  ret\n");
#else
#error "dry runs are for x86-64 and aarch64"
#endif

/* Aliases of the same variables that are local to this library, so they need no symbol lookup. */
extern uint32_t memreplay_counts_here[FUNCTIONS]
    __attribute__((alias("memreplay_counts"), visibility("hidden")));
extern uint32_t memreplay_last_here
    __attribute__((alias("memreplay_last"), visibility("hidden")));

/* The names are long so that any other name fits in their place. */
__asm__(".altmacro\n"
        ".macro function number\n"
        "  .globl memreplay_nothing_\\number\\()_____________________________________________________"
        "_____________________________________________________\n"
        "  .type memreplay_nothing_\\number\\()_____________________________________________________"
        "_____________________________________________________, @function\n"
        "memreplay_nothing_\\number\\()_____________________________________________________"
        "_____________________________________________________:\n" FUNCTION ".endm\n"
        ".set n, 0\n"
        ".rept 4096\n"
        "  function %n\n"
        "  .set n, n + 1\n"
        ".endr\n");
#endif
