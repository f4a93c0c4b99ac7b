/* Kernels: they are asked about, and launched, and nothing happens. */
#include "gpu.h"

#include <string.h>

API int cudaLaunchKernel(const void *function, uint64_t grid_xy, unsigned grid_z) {
    (void)function, (void)grid_xy, (void)grid_z; /* and more, which is not looked at */
    CALLED;
    return SUCCESS;
}

/* cudaFuncAttributes, as far as it is set: 56 bytes in CUDA 11, 144 since. */
struct function_attributes {
    size_t shared_bytes, constant_bytes, local_bytes;
    int threads_block, registers, ptx, binary, cache_mode, dynamic_shared_bytes, carveout;
};

API int cudaFuncGetAttributes(struct function_attributes *out, const void *function) {
    CALLED;
    memset(out, 0, card()->cuda >= 12 ? 144 : 56);
    if (!compiled_for(function, &out->ptx, &out->binary))
        return failed(NO_KERNEL_IMAGE);
    out->threads_block = 1024;
    out->registers = 32;
    out->dynamic_shared_bytes = (int)card()->shared_block;
    return SUCCESS;
}

/* By what a kernel of 32 registers a thread can have: threads and blocks of a multiprocessor. What
 * shared memory it takes by itself is not known. */
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                               int threads, size_t shared_bytes,
                                                               unsigned flags) {
    CALLED;
    (void)function, (void)flags;
    const struct card *it = card();
    int warps = (threads + 31) / 32;
    if (warps < 1)
        return failed(INVALID_VALUE);
    int most = it->threads_sm / (32 * warps);
    if (most > it->blocks_sm)
        most = it->blocks_sm;
    if (shared_bytes && most > it->shared_sm / (int64_t)shared_bytes)
        most = (int)(it->shared_sm / (int64_t)shared_bytes);
    *blocks = most;
    return SUCCESS;
}

API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                      size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                  shared_bytes, 0);
}

/* A variable of a kernel's module: some room, the same for all. */
API int cudaGetSymbolAddress(void **at, const void *symbol) {
    static char somewhere[1 << 16];
    (void)symbol;
    *at = somewhere;
    return SUCCESS;
}
