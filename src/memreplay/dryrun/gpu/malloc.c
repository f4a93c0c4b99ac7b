/* cudaMalloc and related functions: hand out addresses, and count the bytes on the card. */
#include "gpu.h"

enum { PAGE = 2 << 20 };

API int cudaMalloc(void **at, size_t bytes) {
    CALLED;
    int device = current_device();
    uint64_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    *at = NULL;
    if (!bytes)
        return SUCCESS;
    if (whole < bytes || !take_bytes(device, whole))
        return failed(OUT_OF_MEMORY);
    uint64_t found_at = take_addresses(whole, device);
    if (!found_at) {
        give_bytes(device, whole);
        return no_addresses();
    }
    *at = (void *)(uintptr_t)found_at;
    return SUCCESS;
}

API int cudaFree(void *at) {
    CALLED;
    int device = 0;
    if (!at)
        return SUCCESS;
    uint64_t bytes = give_addresses((uint64_t)(uintptr_t)at, &device);
    if (!bytes)
        return failed(INVALID_VALUE);
    give_bytes(device, bytes);
    memreplay_block((uint64_t)(uintptr_t)at, 0);
    return SUCCESS;
}

API int cudaMallocAsync(void **at, size_t bytes, void *stream) {
    (void)stream;
    return cudaMalloc(at, bytes);
}

API int cudaFreeAsync(void *at, void *stream) {
    (void)stream;
    return cudaFree(at);
}

API int cudaMallocManaged(void **at, size_t bytes, unsigned flags) {
    (void)flags;
    return cudaMalloc(at, bytes);
}

static int memory_info(size_t *free_bytes, size_t *total, const void *caller) {
    *total = card()->bytes;
    *free_bytes = free_bytes_of(current_device());
    estimated_memory(caller);
    return SUCCESS;
}

API int cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    CALLED;
    return memory_info(free_bytes, total, __builtin_return_address(0));
}

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CALLED;
    return memory_info(free_bytes, total, __builtin_return_address(0));
}

