/* Allocate page-locked host memory, and find out whether an address is on the host or on a card. */
#define _GNU_SOURCE
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct locked {
    uintptr_t at, end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct locked *locked; /* by address */
static int64_t n, room;

/* Return the first range that ends after an address. */
static int64_t first_behind(uintptr_t at) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (locked[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int add(void *begin, size_t bytes) {
    uintptr_t at = (uintptr_t)begin;
    pthread_mutex_lock(&lock);
    int there = have_room((void **)&locked, n + 1, &room, sizeof *locked);
    if (there) {
        int64_t i = first_behind(at);
        memmove(locked + i + 1, locked + i, (n - i) * sizeof *locked);
        locked[i] = (struct locked){at, at + (bytes ? bytes : 1)};
        n++;
    }
    pthread_mutex_unlock(&lock);
    return there;
}

static void take_out(void *begin) {
    uintptr_t at = (uintptr_t)begin;
    pthread_mutex_lock(&lock);
    int64_t i = first_behind(at);
    if (i < n && locked[i].at == at) {
        memmove(locked + i, locked + i + 1, (n - i - 1) * sizeof *locked);
        n--;
    }
    pthread_mutex_unlock(&lock);
}

static int is_locked(const void *address) {
    uintptr_t at = (uintptr_t)address;
    pthread_mutex_lock(&lock);
    int64_t i = first_behind(at);
    int found = i < n && locked[i].at <= at;
    pthread_mutex_unlock(&lock);
    return found;
}

/* --- what programs call ------------------------------------------------------------------------- */

/* Allocate page-locked host memory. Its amount isn't limited. */
API int cudaHostAlloc(void **at, size_t bytes, unsigned flags) {
    CALLED;
    (void)flags;
    *at = NULL;
    if (posix_memalign(at, 4096, bytes ? bytes : 1))
        return failed(OUT_OF_MEMORY);
    add(*at, bytes);
    return SUCCESS;
}

API int cudaMallocHost(void **at, size_t bytes) {
    return cudaHostAlloc(at, bytes, 0);
}

API int cudaFreeHost(void *at) {
    CALLED;
    take_out(at);
    free(at);
    return SUCCESS;
}

API int cudaHostRegister(void *at, size_t bytes, unsigned flags) {
    CALLED;
    (void)flags;
    add(at, bytes);
    return SUCCESS;
}

API int cudaHostUnregister(void *at) {
    CALLED;
    take_out(at);
    return SUCCESS;
}

/* cudaPointerAttributes has 24 bytes, and 88 from CUDA 13 on. */
struct pointer_attributes {
    int type, device;
    void *on_device, *on_host;
};

API int cudaPointerGetAttributes(struct pointer_attributes *out, const void *at) {
    int device = device_of(at);
    memset(out, 0, card()->cuda >= 13 ? 88 : sizeof *out);
    int pinned = device < 0 && is_locked(at);
    out->type = pinned ? MEMORY_HOST : device < 0 ? MEMORY_UNREGISTERED : MEMORY_DEVICE;
    out->device = device < 0 ? current_device() : device;
    if (device < 0)
        out->on_host = (void *)at;
    if (device >= 0 || pinned)
        out->on_device = (void *)at;
    return SUCCESS;
}

/* The values of CUpointer_attribute that are supported. */
enum { OF_TYPE = 2, OF_DEVICE_POINTER = 3, OF_ORDINAL = 9 };

API int cuPointerGetAttribute(void *out, int which, uint64_t at) {
    CALLED;
    int device = device_of((void *)(uintptr_t)at);
    int pinned = device < 0 && is_locked((void *)(uintptr_t)at);
    if (device < 0 && !pinned)
        return INVALID_VALUE; /* the driver doesn't know memory that wasn't registered */
    switch (which) {
    case OF_TYPE: *(unsigned *)out = pinned ? MEMORY_HOST : MEMORY_DEVICE; return SUCCESS;
    case OF_DEVICE_POINTER: *(uint64_t *)out = at; return SUCCESS;
    case OF_ORDINAL: *(int *)out = pinned ? current_device() : device; return SUCCESS;
    default: return INVALID_VALUE;
    }
}
