/* Device memory: addresses that take no memory until something is copied there. */
#define _GNU_SOURCE
#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t PAGE = 2 << 20;

struct span {
    uint64_t at, bytes;
    int device, live;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t base, end, fresh; /* the mapping, and the start of its unused part */
static struct span *spans;        /* spans of the used part, by address, without gaps */
static int64_t n_spans, room;
static uint64_t used[MAX_DEVICES], outside[MAX_DEVICES];

int have_room(void **elements, int64_t n, int64_t *room, size_t element_bytes) {
    int64_t more = 2 * n + 64;
    if (n <= *room)
        return 1;
    void *larger = realloc(*elements, more * element_bytes);
    if (!larger)
        return 0;
    *elements = larger;
    *room = more;
    return 1;
}

/* Reserve the largest possible mapping. Some machines limit its size. */
static int reserve(void) {
    for (uint64_t bytes = 1ull << 45; !base && bytes >= 1ull << 33; bytes >>= 1) {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED) {
            base = fresh = ((uint64_t)(uintptr_t)at + PAGE - 1) & ~(PAGE - 1);
            end = (uint64_t)(uintptr_t)at + bytes;
            /* A few known bytes would take 2 MiB of the host where these are the default. */
            madvise(at, bytes, MADV_NOHUGEPAGE);
        }
    }
    return base != 0;
}

static struct span *found(uint64_t at) {
    int64_t low = 0, high = n_spans;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (spans[middle].at + spans[middle].bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_spans && spans[low].at <= at ? &spans[low] : NULL;
}

/* Remove a span's entry, and move up the entries after it. */
static void remove_span(int64_t i) {
    memmove(spans + i, spans + i + 1, (n_spans - i - 1) * sizeof *spans);
    n_spans--;
}

/* Merge a free span with the next one if both are free. There are no gaps between spans. */
static void join(int64_t i) {
    if (i < 0 || i + 1 >= n_spans || spans[i].live || spans[i + 1].live)
        return;
    spans[i].bytes += spans[i + 1].bytes;
    remove_span(i + 1);
}

/* Hand out this many bytes of a free span. The rest of the span stays free. */
static int take_span(int64_t i, uint64_t bytes, int device) {
    if (spans[i].bytes > bytes) {
        if (!have_room((void **)&spans, n_spans + 1, &room, sizeof *spans))
            return 0;
        memmove(spans + i + 1, spans + i, (n_spans - i) * sizeof *spans);
        n_spans++;
        spans[i + 1].at += bytes;
        spans[i + 1].bytes -= bytes;
        spans[i].bytes = bytes;
    }
    spans[i].live = 1;
    spans[i].device = device;
    return 1;
}

uint64_t take_addresses(uint64_t bytes, int device) {
    uint64_t at = 0;
    bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
    pthread_mutex_lock(&lock);
    if ((base || reserve()) && bytes) {
        /* Take the smallest span that fits, because allocators request the same few sizes again and
         * again. */
        int64_t best = -1;
        for (int64_t i = 0; i < n_spans; i++)
            if (!spans[i].live && spans[i].bytes >= bytes &&
                (best < 0 || spans[i].bytes < spans[best].bytes))
                best = i;
        if (best >= 0 && take_span(best, bytes, device)) {
            at = spans[best].at;
        } else if (bytes <= end - fresh &&
                   have_room((void **)&spans, n_spans + 1, &room, sizeof *spans)) {
            at = fresh;
            fresh += bytes;
            spans[n_spans++] = (struct span){at, bytes, device, 1};
        }
    }
    pthread_mutex_unlock(&lock);
    return at;
}

uint64_t give_addresses(uint64_t at, int *device) {
    uint64_t bytes = 0;
    pthread_mutex_lock(&lock);
    struct span *span = found(at);
    if (span && span->at == at && span->live) {
        bytes = span->bytes;
        *device = span->device;
        /* Clear the memory before anyone else gets it. */
        madvise((void *)(uintptr_t)at, bytes, MADV_DONTNEED);
        span->live = 0;
        int64_t i = span - spans;
        join(i);
        join(i - 1);
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* The last page, for the probe of values at start. A card never gets that far. */
API uint64_t memreplay_last_page(void) {
    pthread_mutex_lock(&lock);
    uint64_t at = base || reserve() ? (end - PAGE) & ~(PAGE - 1) : 0;
    pthread_mutex_unlock(&lock);
    return at;
}

int no_addresses(void) {
    static int said;
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        fputs("memreplay: this machine gives a process too few addresses for the card's memory"
              " (ulimit -v, vm.overcommit_memory)\n",
              stderr);
    return failed(NOT_SUPPORTED);
}

int is_device_address(const void *at) {
    uint64_t asked = (uint64_t)(uintptr_t)at;
    return base && asked >= base && asked < end;
}

int device_of(const void *at) {
    pthread_mutex_lock(&lock);
    struct span *span = is_device_address(at) ? found((uint64_t)(uintptr_t)at) : NULL;
    int device = span && span->live ? span->device : -1;
    pthread_mutex_unlock(&lock);
    return device;
}

static uint64_t left_of(int device) {
    uint64_t whole = card()->bytes - card()->context - bytes_of_others();
    uint64_t taken = used[device] + outside[device];
    return taken < whole ? whole - taken : 0;
}

uint64_t free_bytes_of(int device) {
    pthread_mutex_lock(&lock);
    uint64_t bytes = left_of(device);
    pthread_mutex_unlock(&lock);
    return bytes;
}

int take_bytes(int device, uint64_t bytes) {
    asked_for_memory();
    pthread_mutex_lock(&lock);
    int enough = device >= 0 && device < MAX_DEVICES && bytes <= left_of(device);
    if (enough)
        used[device] += bytes;
    pthread_mutex_unlock(&lock);
    return enough;
}

void give_bytes(int device, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    used[device] -= bytes;
    pthread_mutex_unlock(&lock);
}

void take_outside(int device, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    outside[device] += bytes;
    pthread_mutex_unlock(&lock);
}

void give_outside(int device, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    outside[device] -= bytes;
    pthread_mutex_unlock(&lock);
}
