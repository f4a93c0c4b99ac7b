/* Find the blocks that a call may have written to, because it got their addresses. A kernel's
 * arguments are on the caller's stack, but their number and sizes aren't known. More of the stack
 * is searched than necessary so that no argument is missed. As a result, old addresses on the stack
 * count as arguments, too. */
#define _GNU_SOURCE
#include "contents.h"

#include <pthread.h>

/* The maximum size of a kernel's arguments in bytes (CUDA 12.1 and later), and a number of
 * arguments that kernels hardly ever reach. */
enum { MOST_BYTES = 32768, MOST_VALUES = 256 };

/* Return where this thread's stack ends; 0 if unknown. */
static uintptr_t end_of_stack(void) {
    static __thread uintptr_t end;
    pthread_attr_t attributes;
    void *from;
    size_t bytes;
    if (!end && !pthread_getattr_np(pthread_self(), &attributes)) {
        if (!pthread_attr_getstack(&attributes, &from, &bytes))
            end = (uintptr_t)from + bytes;
        pthread_attr_destroy(&attributes);
    }
    return end;
}

void may_write(void **arguments) {
    if (!is_anything_known())
        return;
    uintptr_t low = (uintptr_t)&arguments & ~(uintptr_t)7, high = end_of_stack();
    uintptr_t first = high, last = 0;
    /* If the arguments are elsewhere, e.g. on a coroutine's stack, their end isn't known. */
    if ((uintptr_t)arguments < low || (uintptr_t)arguments >= high) {
        doubt_all();
        return;
    }
    for (int i = 0; i < MOST_VALUES && (uintptr_t)(arguments + i + 1) <= high; i++) {
        uintptr_t at = (uintptr_t)arguments[i];
        if (at < low || at >= high)
            break; /* past the last one, or not on the stack */
        first = at < first ? at : first;
        last = at > last ? at : last;
    }
    if (!last) {
        if (arguments[0])
            doubt_all();
        return;
    }
    uintptr_t end = high - last > MOST_BYTES ? last + MOST_BYTES : high;
    doubt_blocks_of((const uint64_t *)(first & ~(uintptr_t)7), (const uint64_t *)(end & ~(uintptr_t)7));
}

/* Which of the words below is the address that the stub function returns to. */
#if defined(__x86_64__)
enum { RETURN_ADDRESS = 6 };
#else
enum { RETURN_ADDRESS = 1 };
#endif

/* unanswered.c calls this when a stub function was called with these words, in registers and on the
 * stack. */
API void memreplay_touch(const uint64_t *words, uint64_t n) {
    uintptr_t high = end_of_stack();
    const uint64_t *end = words + n;
    if (!is_anything_known() || are_writes_noted((const void *)(uintptr_t)words[RETURN_ADDRESS]))
        return;
    if ((uintptr_t)words < high && (uintptr_t)end > high)
        end = (const uint64_t *)high;
    doubt_blocks_of(words, end);
}
