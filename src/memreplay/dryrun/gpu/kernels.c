/* Kernels can be queried and launched. A launch only marks the memory passed to it as doubtful,
 * unless the operator that launches it is one whose writes are noted (values.c). */
#include "contents.h"

#include <string.h>

/* `caller`: the kernel, or the code that launches it. */
static int launched(const void *caller, void **arguments, void *stream) {
    outside_once(KERNELS);
    if (is_captured(stream) || !are_writes_noted(caller))
        may_write(arguments);
    return SUCCESS;
}

/* A dim3 is passed by value, in two registers. */
API int cudaLaunchKernel(const void *function, uint64_t grid_xy, unsigned grid_z, uint64_t block_xy,
                         unsigned block_z, void **arguments, size_t shared_bytes, void *stream) {
    CALLED;
    (void)grid_xy, (void)grid_z, (void)block_xy, (void)block_z, (void)shared_bytes;
    return launched(function, arguments, stream);
}

/* What code compiled with CUDA 13 calls. It passes a handle instead of the kernel. */
API int __cudaLaunchKernel(const void *handle, uint64_t grid_xy, unsigned grid_z, uint64_t block_xy,
                           unsigned block_z, void **arguments, size_t shared_bytes, void *stream) {
    CALLED;
    (void)handle, (void)grid_xy, (void)grid_z, (void)block_xy, (void)block_z, (void)shared_bytes;
    return launched(__builtin_return_address(0), arguments, stream);
}

API int cudaLaunchCooperativeKernel(const void *function, uint64_t grid_xy, unsigned grid_z,
                                    uint64_t block_xy, unsigned block_z, void **arguments,
                                    size_t shared_bytes, void *stream) {
    return cudaLaunchKernel(function, grid_xy, grid_z, block_xy, block_z, arguments, shared_bytes,
                            stream);
}

/* cudaLaunchConfig_t. */
struct configuration {
    unsigned grid[3], block[3];
    size_t shared_bytes;
    void *stream;
};

API int cudaLaunchKernelExC(const struct configuration *how, const void *function,
                            void **arguments) {
    CALLED;
    return launched(function, arguments, how->stream);
}

/* The fields of cudaFuncAttributes that are set. The struct has 56 bytes in CUDA 11, 144 since
 * then. */
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

/* Computed for a kernel with 32 registers per thread, from the limits on threads and blocks per
 * multiprocessor. The kernel's own shared memory isn't known. */
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

/* A variable in a kernel's module. All variables share the same memory. */
API int cudaGetSymbolAddress(void **at, const void *symbol) {
    static char somewhere[1 << 16];
    (void)symbol;
    *at = somewhere;
    return SUCCESS;
}
