/* Memory that fails, in a build with sanitizers: compiled into each native module, and told what to do by
   tests/faults/allocations.py. The library shim.c does the same to a whole program. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* before the first header, as Python's own has it */
#endif
#include <stdlib.h>
/* Their declarations come before the macros. */
#if defined(__has_include)
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#endif

#define SHARED __attribute__((weak, visibility("default")))
SHARED long memreplay_asked = 0;   /* how often memory was asked for */
SHARED long memreplay_failing = -1; /* the request that fails, from 0; -1 for none */
SHARED long memreplay_goes_on = 0;  /* and all after it */
#undef SHARED

static inline int memreplay_memory_fails(void) {
    long number = __atomic_fetch_add(&memreplay_asked, 1, __ATOMIC_RELAXED);
    return memreplay_failing >= 0 && (memreplay_goes_on ? number >= memreplay_failing : number == memreplay_failing);
}

#define malloc(size) (memreplay_memory_fails() ? NULL : (malloc)(size))
#define calloc(n, size) (memreplay_memory_fails() ? NULL : (calloc)(n, size))
#define realloc(from, size) (memreplay_memory_fails() ? NULL : (realloc)(from, size))
