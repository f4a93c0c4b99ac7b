/* Reads of values that nobody knows here, since no kernel has computed them: which operator asked, told
 * to whoever listens. What a program does next may depend on it. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <string.h>

typedef void (*listener)(const char *operator, uint64_t bytes);
static listener listening;

/* Parts of the names of PyTorch's operators (at::_ops::NAME::call) as C++ mangles them, and how people
 * call these. */
static const struct {
    const char *part, *operator;
    int sizes; /* whether it makes sizes of what it reads: then it is the one, the outermost */
} OPERATORS[] = {
    {"_ops7nonzero", "nonzero", 1},
    {"_ops13masked_select", "masked_select", 1},
    {"_ops7_unique", "unique", 1},
    {"_ops8_unique2", "unique", 1},
    {"_ops10unique_dim", "unique", 1},
    {"_ops18unique_consecutive", "unique", 1},
    {"_ops17repeat_interleave", "repeat_interleave", 1},
    {"_ops8bincount", "bincount", 1},
    {"_ops19_local_scalar_dense", "item", 0},
    {"_ops5equal", "equal", 0},
    {"_ops5copy_", "copy", 0},
};
enum { DEPTH = 64, N_OPERATORS = sizeof OPERATORS / sizeof *OPERATORS };

/* The same few call sites ask again and again, and to look a symbol up is slow. */
enum { SITES = 1024 };
static struct {
    void *at;
    int operator; /* its place in OPERATORS; -1 for none */
} sites[SITES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int operator_at(void *at) {
    size_t slot = ((uintptr_t)at >> 2) % SITES;
    if (sites[slot].at == at)
        return sites[slot].operator;
    Dl_info info;
    int found = -1;
    if (dladdr(at, &info) && info.dli_sname)
        for (int i = 0; i < N_OPERATORS && found < 0; i++)
            if (strstr(info.dli_sname, OPERATORS[i].part))
                found = i;
    sites[slot].at = at;
    sites[slot].operator = found;
    return found;
}

/* Who is to be told of each such read, by any thread; NULL for nobody. */
API void memreplay_listen(listener to) {
    __atomic_store_n(&listening, to, __ATOMIC_RELEASE);
}

void unknown_time(void) {
    listener to = __atomic_load_n(&listening, __ATOMIC_ACQUIRE);
    if (to)
        to("elapsed_time", sizeof(float));
}

void unknown_read(uint64_t bytes) {
    listener to = __atomic_load_n(&listening, __ATOMIC_ACQUIRE);
    if (!to)
        return;
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
    to(found < 0 ? "read" : OPERATORS[found].operator, bytes);
}
