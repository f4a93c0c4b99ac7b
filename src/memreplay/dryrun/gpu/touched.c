/* Which blocks a call may have written to: those whose addresses are among what it was given. How many
 * arguments a kernel has, and how long they are, is not said; they lie on the stack of whoever launches
 * it. More is searched than there is, so that nothing is missed: addresses that were left on the stack
 * are taken for arguments, too. */
#define _GNU_SOURCE
#include "gpu.h"

#include <pthread.h>

/* A kernel's arguments have no more than so many bytes (CUDA 12.1 and later), and hardly so many
 * values. */
enum { MOST_BYTES = 32768, MOST_VALUES = 256 };

/* Where this thread's stack ends; 0 where that is not said. */
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
    /* Elsewhere, as on the stack of a coroutine, nobody knows where they end. */
    if ((uintptr_t)arguments < low || (uintptr_t)arguments >= high) {
        doubt_all();
        return;
    }
    for (int i = 0; i < MOST_VALUES && (uintptr_t)(arguments + i + 1) <= high; i++) {
        uintptr_t at = (uintptr_t)arguments[i];
        if (at < low || at >= high)
            break; /* behind the last one, or not on the stack */
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

/* A function of a library that does nothing here was given these words, in registers and on the stack;
 * unanswered.c calls it. */
API void memreplay_touch(const uint64_t *words, uint64_t n) {
    uintptr_t high = end_of_stack();
    const uint64_t *end = words + n;
    if (!is_anything_known())
        return;
    if ((uintptr_t)words < high && (uintptr_t)end > high)
        end = (const uint64_t *)high;
    doubt_blocks_of(words, end);
}
