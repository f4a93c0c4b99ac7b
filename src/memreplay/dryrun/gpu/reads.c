/* Record which operators read values that are unknown because no kernel has computed them. What the
 * program does next may depend on such a value. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* PyTorch's operators (at::_ops::NAME::call, or NAME_OVERLOAD), and the names that people use for
 * them. */
static const struct {
    const char *name, *operator;
    int sizes;  /* whether it uses the value as a size; the outermost such operator counts */
    int zeros; /* the value that it reads if all computed values are zero */
} OPERATORS[] = {
    {"nonzero", "nonzero", 1, 0},
    {"masked_select", "masked_select", 1, 0},
    {"unique", "unique", 1, 1},
    {"_unique", "unique", 1, 1},
    {"_unique2", "unique", 1, 1},
    {"repeat_interleave", "repeat_interleave", 1, 0},
    {"bincount", "bincount", 1, 0},
    {"one_hot", "one_hot", 1, 0},
    {"coalesce", "coalesce", 1, 1},
    {"_coalesce", "coalesce", 1, 1},
    {"sparse_coo_tensor", "sparse_coo_tensor", 1, 0},
    {"_sparse_sparse_matmul", "sparse matmul", 1, 0},
    {"_sparse_sum", "sparse sum", 1, 0},
    {"_local_scalar_dense", "item", 0, 0},
    {"equal", "equal", 0, 0},
    {"copy_", "copy", 0, 0},
};
enum { DEPTH = 64, N_OPERATORS = sizeof OPERATORS / sizeof *OPERATORS };

/* Return the operator for a mangled C++ function name, `…4_ops4item4call…`; -1 if none. */
static int operator_named(const char *mangled) {
    const char *at = strstr(mangled, "4_ops");
    if (!at)
        return -1;
    char *name;
    unsigned long length = strtoul(at + 5, &name, 10);
    if (!length || strnlen(name, length) < length)
        return -1;
    for (int i = 0; i < N_OPERATORS; i++) {
        size_t own = strlen(OPERATORS[i].name);
        /* An overload's name may follow after another underscore. */
        if (own <= length && !memcmp(name, OPERATORS[i].name, own) &&
            (own == length || (OPERATORS[i].sizes && name[own] == '_')))
            return i;
    }
    return -1;
}

/* The same few call sites read values again and again, and looking up a symbol is slow. */
enum { SITES = 1024 };
static struct {
    void *at;
    int operator; /* the operator's index in OPERATORS; -1 if none */
} sites[SITES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int operator_at(void *at) {
    size_t slot = ((uintptr_t)at >> 2) % SITES;
    if (sites[slot].at == at)
        return sites[slot].operator;
    Dl_info info;
    int found = -1;
    if (dladdr(at, &info) && info.dli_sname)
        found = operator_named(info.dli_sname);
    sites[slot].at = at;
    sites[slot].operator = found;
    return found;
}

void unknown_time(void) {
    count_place("elapsed_time", 0);
}

void estimated_memory(const void *caller) {
    if (!is_core(caller))
        count_place("mem_get_info", 0);
}

int64_t unknown_read(int kind) {
    if (!is_place_counted())
        return 0;
    void *frames[DEPTH];
    int n = backtrace(frames, DEPTH);
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int i = 1; i < n; i++) {
        int one = operator_at(frames[i]);
        if (one >= 0 && (found < 0 || OPERATORS[one].sizes))
            found = one;
    }
    pthread_mutex_unlock(&lock);
    int sizes = found >= 0 && OPERATORS[found].sizes;
    count_place(found < 0 ? "read" : OPERATORS[found].operator,
                (sizes ? OF_SIZES : 0) | kind);
    return found < 0 ? 0 : OPERATORS[found].zeros;
}
