/* The values that Python computes on the host for PyTorch's operators (inside/memreplay_values.py).
 * Python notes everything that such an operator writes, so its kernels put nothing in doubt. */
#define _GNU_SOURCE
#include "contents.h"

#include <dlfcn.h>
#include <string.h>

/* c10::impl::tls_is_dispatch_key_included, and the key whose operators are hooked: whether this
 * thread's operators are. */
static _Bool (*is_included)(uint16_t key);
static uint16_t key;

/* What runs in this thread: code outside of hooked operators, an operator whose writes are noted
 * afterwards, or one that writes to memory that isn't noted. */
enum { OUTSIDE, NOTED, NOT_NOTED };
static __thread int inside;

API void memreplay_values_begin(_Bool (*is_hooked)(uint16_t), int of_key) {
    is_included = is_hooked;
    key = (uint16_t)of_key;
}

API int memreplay_values_inside(int what) {
    int before = inside;
    inside = what;
    return before;
}

/* Whose code this is: PyTorch's operators, which are hooked, or its core, which launches no kernels. */
enum { OTHER, OPERATORS, CORE };

static int owner_of(const void *code) {
    enum { SLOTS = 4096 };
    static __thread struct {
        const void *code;
        int owner;
    } known[SLOTS];
    size_t slot = ((uintptr_t)code >> 4) % SLOTS;
    if (known[slot].code != code) {
        Dl_info info;
        int found = dladdr(code, &info) && info.dli_fname;
        known[slot].owner = !found                                ? OTHER
                            : strstr(info.dli_fname, "/libtorch_") ? OPERATORS
                            : strstr(info.dli_fname, "/libc10")    ? CORE
                                                                   : OTHER;
        known[slot].code = code;
    }
    return known[slot].owner;
}

int is_core(const void *code) {
    return owner_of(code) == CORE;
}

int are_writes_noted(const void *code) {
    if (!is_included)
        return 0;
    int owner = code ? owner_of(code) : OTHER;
    if (owner == CORE)
        return 1;
    if (inside)
        return inside == NOTED;
    return owner == OPERATORS && is_included(key);
}

/* --- what the host computed ----------------------------------------------------------------------- */

API int memreplay_knowledge(uint64_t at, uint64_t bytes) {
    return bytes ? look_up(at, bytes) : KNOWN;
}

API int memreplay_is_on_card(uint64_t at) {
    return is_device_address((const void *)(uintptr_t)at);
}

API int memreplay_is_any_known(uint64_t at, uint64_t bytes) {
    return is_any_known(at, bytes);
}

API int memreplay_know(uint64_t at, uint64_t bytes, int as) {
    if (as == UNKNOWN)
        forget_known(at, bytes);
    else
        return set_known(at, bytes, as);
    return 1;
}

API void memreplay_doubt_all(void) {
    doubt_all();
}

/* --- numbers that an operator is about to read ---------------------------------------------------- */

/* For example, nonzero reads how many elements it found. The last number is for all further reads.
 * `rest`: whatever else it reads doesn't matter, because its result is written afterwards. */
enum { MOST_ANSWERS = 8 };
static __thread struct {
    int64_t them[MOST_ANSWERS];
    int n, next, rest, as;
} answers;

API void memreplay_answers(const int64_t *them, int n, int rest, int as) {
    answers.n = n > MOST_ANSWERS ? MOST_ANSWERS : n;
    answers.next = 0;
    answers.rest = rest;
    answers.as = as;
    if (n)
        memcpy(answers.them, them, (size_t)answers.n * sizeof *them);
}

enum knowledge next_answer(void *into, uint64_t bytes) {
    if (!answers.n || bytes > sizeof *answers.them)
        return answers.rest ? (enum knowledge)answers.as : UNKNOWN;
    memcpy(into, &answers.them[answers.next], bytes);
    answers.next += answers.next + 1 < answers.n;
    return (enum knowledge)answers.as;
}
