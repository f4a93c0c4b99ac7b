/* What is in device memory. Kernels do nothing here, so that next to all of it is unknown and reads as
 * zeros. What is known are small copies from the host, until the allocator lets the block go that they
 * are in: a learning rate, a step's number, a few sizes come back as they were. */
#include "arrivals.h"

#include <pthread.h>
#include <string.h>

struct range {
    uint64_t at, end;
};

/* In order of their addresses, none of them in another. */
struct ranges {
    struct range *them;
    int64_t n, room;
};

/* More known ranges than this are not remembered: all are forgotten, and read as zeros. */
enum { MOST = 1 << 18 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ranges known;
static struct ranges blocks; /* where the allocator's blocks begin; `end` says nothing */

/* The first that ends behind an address. */
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

/* Puts `n` in the place of those from `from` to `to`. Returns 0 where there is no memory. */
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

/* Takes a stretch of addresses out of what is known; what stands out at its ends stays. */
static void forget(uint64_t at, uint64_t end) {
    int64_t from = first_behind(&known, at), to = from, n = 0;
    struct range kept[2];
    while (to < known.n && known.them[to].at < end)
        to++;
    if (from == to)
        return;
    if (known.them[from].at < at)
        kept[n++] = (struct range){known.them[from].at, at};
    if (known.them[to - 1].end > end)
        kept[n++] = (struct range){end, known.them[to - 1].end};
    if (!replace(&known, from, to, kept, n))
        known.n = 0;
}

static void know(uint64_t at, uint64_t end) {
    forget(at, end);
    if (known.n >= MOST)
        known.n = 0;
    replace(&known, first_behind(&known, at), first_behind(&known, at),
            &(struct range){at, end}, 1);
}

static int is_known(uint64_t at, uint64_t end) {
    int64_t i = first_behind(&known, at);
    while (i < known.n && known.them[i].at <= at && known.them[i].end < end)
        at = known.them[i++].end; /* one behind the other */
    return i < known.n && known.them[i].at <= at && known.them[i].end >= end;
}

int read_known(uint64_t at, void *into, uint64_t bytes) {
    if (!at || bytes > SMALL)
        return 0;
    arrive(at, at + bytes);
    pthread_mutex_lock(&lock);
    int readable = is_known(at, at + bytes);
    if (readable)
        memcpy(into, (const void *)(uintptr_t)at, bytes);
    pthread_mutex_unlock(&lock);
    return readable;
}

void write_known(uint64_t at, const void *from, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    memcpy((void *)(uintptr_t)at, from, bytes);
    know(at, at + bytes);
    pthread_mutex_unlock(&lock);
}

void forget_known(uint64_t at, uint64_t bytes) {
    expect_no_more(at, at + bytes);
    pthread_mutex_lock(&lock);
    forget(at, at + bytes);
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
    int readable = bytes <= SMALL && (!from_device || is_known(source, source + bytes));
    if (readable)
        memmove(to, from, bytes);
    else if (!to_device)
        memset(to, 0, bytes);
    if (to_device && readable)
        know(at, at + bytes);
    else if (to_device)
        forget(at, at + bytes);
    pthread_mutex_unlock(&lock);
    if (!to_device && !readable)
        unknown_read(bytes);
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
        know(at, at + bytes);
    } else {
        forget(at, at + bytes);
    }
    pthread_mutex_unlock(&lock);
}

API void memreplay_block(uint64_t at, int taken) {
    pthread_mutex_lock(&lock);
    /* Blocks are ranges of one byte: where they begin. */
    int64_t i = first_behind(&blocks, at);
    int there = i < blocks.n && blocks.them[i].at == at;
    int64_t next = i + there;
    uint64_t end = next < blocks.n ? blocks.them[next].at : UINT64_MAX;
    expect_no_more(at, end);
    forget(at, end);
    if (taken && !there)
        replace(&blocks, i, i, &(struct range){at, at + 1}, 1);
    else if (!taken && there)
        replace(&blocks, i, i + 1, NULL, 0);
    pthread_mutex_unlock(&lock);
}

/* --- what programs call ------------------------------------------------------------------------- */

API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    CALLED;
    (void)kind, (void)stream; /* addresses say where they are */
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
