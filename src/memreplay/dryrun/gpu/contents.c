/* The contents of device memory. Kernels do nothing here, so almost all of it is unknown and reads
 * as zeros. Only small copies from the host (a learning rate, a step number, a few sizes) and what
 * the host has computed (values.c) are known, until the allocator frees the block they are in. Once
 * a kernel that isn't PyTorch's has been given that block, these values are doubtful, because the
 * kernel may have changed them. They are still returned, but the read is counted as if the value
 * were unknown. */
#include "contents.h"
#include "arrivals.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct range {
    uint64_t at, end;
    enum knowledge as;
};

/* In order of their addresses; ranges don't overlap. */
struct ranges {
    struct range *them;
    int64_t n, room;
};

/* Beyond this many known ranges, all of them are forgotten and read as zeros. */
enum { MOST = 1 << 18 };
/* Known values take memory of the host. Beyond this many bytes, only small ranges become known. */
#define MOST_BYTES ((uint64_t)1 << 30)
/* Fewer pages aren't worth a system call. */
enum { PAGE = 4096, LARGE = 4 * PAGE };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ranges known;
static uint64_t known_bytes;
static int anything; /* whether `known` ever had a range; read without the lock */
static struct ranges blocks; /* where the allocator's blocks begin; `end` has no meaning */

/* Return the first range that ends after an address. */
static int64_t first_behind(const struct ranges *in, uint64_t at) {
    int64_t low = 0, high = in->n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (in->them[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Replace the ranges from `from` to `to` by `n` others. Returns 0 when out of memory. */
static int replace(struct ranges *in, int64_t from, int64_t to, const struct range *by, int64_t n) {
    int64_t length = in->n - (to - from) + n;
    if (!have_room((void **)&in->them, length, &in->room, sizeof *in->them))
        return 0;
    memmove(in->them + from + n, in->them + to, (in->n - to) * sizeof *in->them);
    if (n)
        memcpy(in->them + from, by, n * sizeof *by);
    in->n = length;
    return 1;
}

static void forget_all(void) {
    known.n = 0;
    known_bytes = 0;
}

/* Remove a range of addresses from the known ones. Parts of known ranges outside it stay. */
static void forget(uint64_t at, uint64_t end) {
    int64_t from = first_behind(&known, at), to = from, n = 0;
    struct range kept[2];
    while (to < known.n && known.them[to].at < end)
        to++;
    if (from == to)
        return;
    for (int64_t i = from; i < to; i++) {
        uint64_t first = known.them[i].at > at ? known.them[i].at : at;
        uint64_t last = known.them[i].end < end ? known.them[i].end : end;
        known_bytes -= last - first;
    }
    if (known.them[from].at < at)
        kept[n++] = (struct range){known.them[from].at, at, known.them[from].as};
    if (known.them[to - 1].end > end)
        kept[n++] = (struct range){end, known.them[to - 1].end, known.them[to - 1].as};
    if (!replace(&known, from, to, kept, n))
        forget_all();
}

static void give_back_pages(uint64_t at, uint64_t end) {
    uint64_t first = (at + PAGE - 1) / PAGE * PAGE, last = end / PAGE * PAGE;
    if (last > first + LARGE)
        madvise((void *)(uintptr_t)first, last - first, MADV_DONTNEED);
}

/* Return the pages of known ranges to the system, before they are forgotten. */
static void give_back(uint64_t at, uint64_t end) {
    uint64_t first = 0, last = 0; /* of adjacent ranges */
    for (int64_t i = first_behind(&known, at); i < known.n && known.them[i].at < end; i++) {
        const struct range *it = &known.them[i];
        if (it->at < at || it->end > end)
            continue;
        if (it->at != last) {
            give_back_pages(first, last);
            first = it->at;
        }
        last = it->end;
    }
    give_back_pages(first, last);
}

/* Forget values that something unknown replaces. */
static void give_up(uint64_t at, uint64_t end) {
    give_back(at, end);
    forget(at, end);
}

/* Returns 0 if too much is known already; the range is unknown then. */
static int know(uint64_t at, uint64_t end, enum knowledge as) {
    forget(at, end);
    if (end - at > SMALL && known_bytes + (end - at) > MOST_BYTES) {
        give_back_pages(at, end);
        return 0;
    }
    if (known.n >= MOST)
        forget_all();
    int64_t i = first_behind(&known, at);
    if (!replace(&known, i, i, &(struct range){at, end, as}, 1))
        return 0;
    known_bytes += end - at;
    __atomic_store_n(&anything, 1, __ATOMIC_RELAXED);
    return 1;
}

static enum knowledge knowledge_of(uint64_t at, uint64_t end) {
    int64_t i = first_behind(&known, at);
    enum knowledge as = KNOWN;
    for (; i < known.n && known.them[i].at <= at; i++) { /* adjacent ranges */
        if (known.them[i].as > as)
            as = known.them[i].as;
        if (known.them[i].end >= end)
            return as;
        at = known.them[i].end;
    }
    return UNKNOWN;
}

static void write_known(uint64_t at, const void *from, uint64_t bytes, enum knowledge as) {
    pthread_mutex_lock(&lock);
    memcpy((void *)(uintptr_t)at, from, bytes);
    know(at, at + bytes, as);
    pthread_mutex_unlock(&lock);
}

/* Wait for data that other ranks have sent to this range, as a program on a real GPU would. */
static void arrive(uint64_t at, uint64_t end) {
    struct arrival it;
    enum knowledge as;
    void *bytes;
    while ((bytes = next_arrival(at, end, &it, &as))) {
        write_known(it.at, bytes, it.bytes, as);
        free(bytes);
    }
}

enum knowledge read_known(uint64_t at, void *into, uint64_t bytes) {
    if (!at || bytes > SMALL)
        return UNKNOWN;
    arrive(at, at + bytes);
    pthread_mutex_lock(&lock);
    enum knowledge found = knowledge_of(at, at + bytes);
    if (found)
        memcpy(into, (const void *)(uintptr_t)at, bytes);
    pthread_mutex_unlock(&lock);
    return found;
}

enum knowledge look_up(uint64_t at, uint64_t bytes) {
    if (bytes <= SMALL)
        arrive(at, at + bytes);
    pthread_mutex_lock(&lock);
    enum knowledge found = knowledge_of(at, at + bytes);
    pthread_mutex_unlock(&lock);
    return found;
}

int is_any_known(uint64_t at, uint64_t bytes) {
    if (!is_anything_known())
        return 0;
    pthread_mutex_lock(&lock);
    int64_t i = first_behind(&known, at);
    int found = i < known.n && known.them[i].at < at + bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

int set_known(uint64_t at, uint64_t bytes, enum knowledge as) {
    pthread_mutex_lock(&lock);
    int done = know(at, at + bytes, as);
    pthread_mutex_unlock(&lock);
    return done;
}

void forget_known(uint64_t at, uint64_t bytes) {
    expect_no_more(at, at + bytes);
    pthread_mutex_lock(&lock);
    give_up(at, at + bytes);
    pthread_mutex_unlock(&lock);
}

static void known_copy(void *to, const void *from, uint64_t bytes) {
    uint64_t at = (uint64_t)(uintptr_t)to, source = (uint64_t)(uintptr_t)from;
    int to_device = is_device_address(to), from_device = is_device_address(from);
    if (!to || !from || !bytes)
        return;
    if (!to_device && !from_device) {
        memmove(to, from, bytes);
        return;
    }
    if (from_device && bytes <= SMALL)
        arrive(source, source + bytes);
    if (to_device)
        expect_no_more(at, at + bytes);
    pthread_mutex_lock(&lock);
    enum knowledge found = from_device    ? knowledge_of(source, source + bytes)
                           : bytes > SMALL ? UNKNOWN
                                           : KNOWN;
    if (found)
        memmove(to, from, bytes);
    else if (!to_device)
        memset(to, 0, bytes);
    if (to_device && found)
        know(at, at + bytes, found);
    else if (to_device)
        give_up(at, at + bytes);
    pthread_mutex_unlock(&lock);
    if (!to_device && !found)
        found = next_answer(to, bytes);
    if (to_device || found == KNOWN)
        return;
    int64_t likely = unknown_read(found == SAMPLED   ? OF_RANDOM
                                  : found == ASSUMED ? OF_ASSUMED
                                  : found == CHOSEN  ? OF_CHOSEN
                                                     : 0);
    /* This read is a single number. Naming the operator that reads it is more useful than only
     * counting an unknown value. */
    if (!found && likely && (bytes == sizeof(int32_t) || bytes == sizeof likely))
        memcpy(to, &likely, bytes);
}

static void known_set(void *to, int value, uint64_t bytes) {
    uint64_t at = (uint64_t)(uintptr_t)to;
    if (!to || !bytes)
        return;
    if (!is_device_address(to)) {
        memset(to, value, bytes);
        return;
    }
    expect_no_more(at, at + bytes);
    pthread_mutex_lock(&lock);
    if (bytes <= SMALL) {
        memset(to, value, bytes);
        know(at, at + bytes, KNOWN);
    } else {
        give_up(at, at + bytes);
    }
    pthread_mutex_unlock(&lock);
}

/* --- what a call may have written ---------------------------------------------------------------- */

int is_anything_known(void) {
    return __atomic_load_n(&anything, __ATOMIC_RELAXED);
}

static void doubt(uint64_t at, uint64_t end) {
    for (int64_t i = first_behind(&known, at); i < known.n && known.them[i].at < end; i++)
        known.them[i].as = DOUBTFUL;
}

void doubt_all(void) {
    pthread_mutex_lock(&lock);
    doubt(0, UINT64_MAX);
    pthread_mutex_unlock(&lock);
}

void doubt_blocks_of(const uint64_t *words, const uint64_t *end) {
    pthread_mutex_lock(&lock);
    for (; known.n && words < end; words++) {
        uint64_t at = *words;
        if (!is_device_address((const void *)(uintptr_t)at))
            continue;
        /* Find the block that contains the address: it extends to where the next one begins. */
        int64_t next = first_behind(&blocks, at);
        next += next < blocks.n && blocks.them[next].at == at;
        if (!next) {
            doubt(0, UINT64_MAX); /* its allocator doesn't report blocks */
            break;
        }
        doubt(blocks.them[next - 1].at, next < blocks.n ? blocks.them[next].at : UINT64_MAX);
    }
    pthread_mutex_unlock(&lock);
}

API void memreplay_block(uint64_t at, int taken) {
    pthread_mutex_lock(&lock);
    /* Blocks are stored as ranges of one byte, where they begin. */
    int64_t i = first_behind(&blocks, at);
    int there = i < blocks.n && blocks.them[i].at == at;
    int64_t next = i + there;
    uint64_t end = next < blocks.n ? blocks.them[next].at : UINT64_MAX;
    expect_no_more(at, end);
    give_up(at, end);
    if (taken && !there)
        replace(&blocks, i, i, &(struct range){at, at + 1, KNOWN}, 1);
    else if (!taken && there)
        replace(&blocks, i, i + 1, NULL, 0);
    pthread_mutex_unlock(&lock);
}

/* --- what programs call -------------------------------------------------------------------------- */

API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    CALLED;
    (void)kind, (void)stream; /* the addresses show whether they are the host's or a card's */
    known_copy(to, from, bytes);
    return SUCCESS;
}

API int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

API int cudaMemcpyPeerAsync(void *to, int one, const void *from, int other, size_t bytes,
                            void *stream) {
    (void)one, (void)other;
    return cudaMemcpyAsync(to, from, bytes, 0, stream);
}

API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t height, int kind, void *stream) {
    for (size_t row = 0; row < height; row++)
        cudaMemcpyAsync((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width,
                        kind, stream);
    return SUCCESS;
}

API int cudaMemsetAsync(void *at, int value, size_t bytes, void *stream) {
    CALLED;
    (void)stream;
    known_set(at, value, bytes);
    return SUCCESS;
}

API int cudaMemset(void *at, int value, size_t bytes) {
    return cudaMemsetAsync(at, value, bytes, NULL);
}
