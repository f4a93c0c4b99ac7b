/* Make memory requests fail in a build with sanitizers. This is compiled into each native module, and controlled by
   tests/faults/allocations.py. For a whole program, shim.c does the same. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* must come before the first header, as in Python.h */
#endif
#include <stdlib.h>
/* These headers declare the functions, so include them before defining the macros. */
#if defined(__has_include)
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#endif

#define SHARED __attribute__((weak, visibility("default")))
SHARED long memreplay_asked = 0;   /* number of memory requests so far */
SHARED long memreplay_failing = -1; /* the request that fails, counted from 0; -1 for none */
SHARED long memreplay_goes_on = 0;  /* whether all later requests fail too */
#undef SHARED

static inline int memreplay_memory_fails(void) {
    long number = __atomic_fetch_add(&memreplay_asked, 1, __ATOMIC_RELAXED);
    return memreplay_failing >= 0 && (memreplay_goes_on ? number >= memreplay_failing : number == memreplay_failing);
}

#define malloc(size) (memreplay_memory_fails() ? NULL : (malloc)(size))
#define calloc(n, size) (memreplay_memory_fails() ? NULL : (calloc)(n, size))
#define realloc(from, size) (memreplay_memory_fails() ? NULL : (realloc)(from, size))
