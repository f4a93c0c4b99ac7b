/* Data that other ranks have sent to device memory. As on a real GPU, the program only waits for
 * the data when it reads that memory. */
#include "arrivals.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Beyond this many arrivals, the oldest are forgotten, because nothing has read them for a long
 * time. */
enum { MOST = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct arrival *expected;
static int64_t n, room;

static int overlaps(const struct arrival *it, uint64_t at, uint64_t end) {
    return it->at < end && it->at + it->bytes > at;
}

static void remove_at(int64_t i) {
    memmove(expected + i, expected + i + 1, (n - i - 1) * sizeof *expected);
    __atomic_store_n(&n, n - 1, __ATOMIC_RELAXED);
}

void expect(struct arrival it) {
    pthread_mutex_lock(&lock);
    if (n >= MOST)
        remove_at(0);
    if (have_room((void **)&expected, n + 1, &room, sizeof *expected)) {
        expected[n] = it;
        __atomic_store_n(&n, n + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
}

void expect_no_more(uint64_t at, uint64_t end) {
    if (!__atomic_load_n(&n, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&lock);
    for (int64_t i = n; i-- > 0;)
        if (overlaps(&expected[i], at, end))
            remove_at(i);
    pthread_mutex_unlock(&lock);
}

/* --- reductions --------------------------------------------------------------------------------- */

/* Reductions are computed for these values of ncclDataType_t and ncclRedOp_t. */
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE };
enum { SUM, PROD, MAX, MIN, AVG };

#define FOLD(type)                                                        \
    {                                                                     \
        type *to = into;                                                  \
        const type *from = more;                                          \
        for (uint64_t i = 0; i < bytes / sizeof(type); i++)               \
            to[i] = operation == PROD  ? (type)(to[i] * from[i])          \
                    : operation == MAX ? to[i] > from[i] ? to[i] : from[i] \
                    : operation == MIN ? to[i] < from[i] ? to[i] : from[i] \
                                       : (type)(to[i] + from[i]);         \
        return 1;                                                         \
    }
#define DIVIDE(type)                                                      \
    {                                                                     \
        type *to = into;                                                  \
        for (uint64_t i = 0; i < bytes / sizeof(type); i++)               \
            to[i] = (type)(to[i] / (type)by);                             \
        return;                                                           \
    }

static int fold(void *into, const void *more, uint64_t bytes, int type, int operation) {
    switch (type) {
    case INT8: FOLD(int8_t)
    case UINT8: FOLD(uint8_t)
    case INT32: FOLD(int32_t)
    case UINT32: FOLD(uint32_t)
    case INT64: FOLD(int64_t)
    case UINT64: FOLD(uint64_t)
    case FLOAT: FOLD(float)
    case DOUBLE: FOLD(double)
    default: return 0; /* types of at most 16 bits aren't reduced, so the result is unknown */
    }
}

static void divide(void *into, uint64_t bytes, int type, int by) {
    switch (type) {
    case INT8: DIVIDE(int8_t)
    case UINT8: DIVIDE(uint8_t)
    case INT32: DIVIDE(int32_t)
    case UINT32: DIVIDE(uint32_t)
    case INT64: DIVIDE(int64_t)
    case UINT64: DIVIDE(uint64_t)
    case FLOAT: DIVIDE(float)
    case DOUBLE: DIVIDE(double)
    }
}

static enum knowledge received(const struct arrival *it, char *into, char *more) {
    enum knowledge all = KNOWN;
    if (it->from >= 0) {
        uint64_t bytes = it->bytes / it->times;
        all = fetch(it->by, it->from, it->to, it->number, into, it->offset, bytes);
        for (int i = 1; all && i < it->times; i++)
            memcpy(into + i * bytes, into, bytes);
        return all;
    }
    if (it->operation < SUM || it->operation > AVG)
        return UNKNOWN;
    for (int rank = 0; rank < it->ranks; rank++) {
        char *here = rank ? more : into;
        /* Ranks that don't run are assumed to send the same. */
        int is_same = rank > 1 && !does_run(it->by, rank) && !does_run(it->by, rank - 1);
        enum knowledge one =
            is_same ? all
                    : fetch(it->by, rank, EVERYBODY, it->number, here, it->offset, it->bytes);
        if (!one || (rank && !fold(into, more, it->bytes, it->type, it->operation)))
            return UNKNOWN;
        if (one > all)
            all = one;
    }
    if (it->operation == AVG)
        divide(into, it->bytes, it->type, it->ranks);
    return all;
}

void *next_arrival(uint64_t at, uint64_t end, struct arrival *it, enum knowledge *as) {
    while (__atomic_load_n(&n, __ATOMIC_RELAXED)) {
        it->bytes = 0;
        pthread_mutex_lock(&lock);
        for (int64_t i = 0; i < n && !it->bytes; i++)
            if (overlaps(&expected[i], at, end)) {
                *it = expected[i];
                remove_at(i);
            }
        pthread_mutex_unlock(&lock);
        if (!it->bytes)
            break;
        char *into = malloc(2 * it->bytes);
        *as = into ? received(it, into, into + it->bytes) : UNKNOWN;
        if (*as)
            return into;
        free(into);
    }
    return NULL;
}
