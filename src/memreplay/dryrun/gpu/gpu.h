/* Our own declarations of what a CUDA program needs from NVIDIA's libraries, so that NVIDIA's
 * headers aren't needed to compile. Numbers and layouts are those of CUDA 11.8, 12.x and 13.x
 * (driver_types.h and cuda.h); if these headers are available, a test compares them. */
#ifndef MEMREPLAY_GPU_H
#define MEMREPLAY_GPU_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

/* cudaError_t. The driver's CUresult uses the same numbers. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    NO_KERNEL_IMAGE = 209,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    NOT_SUPPORTED = 801
};

/* cudaMemoryType. */
enum { MEMORY_UNREGISTERED = 0, MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

enum { MAX_DEVICES = 64 };

/* What takes memory outside the program's allocator, after the context: the first kernel, a cuBLAS
 * handle, cuBLAS's further kernels, a cuDNN handle, cuSOLVER, cuFFT, an NCCL communicator. Must be
 * in the same order as `Outside` in snapshot/cards.py. */
enum outside { KERNELS, BLAS, BLAS_MORE, DNN, SOLVER, FFT, COMMUNICATOR, OUTSIDE_PARTS };

/* The card, as the launcher describes it. Sizes are bytes. */
struct card {
    char name[256];
    uint64_t bytes;
    uint64_t context; /* bytes that CUDA itself takes */
    uint64_t outside[OUTSIDE_PARTS]; /* bytes of each part, per use */
    int cuda;  /* the CUDA version that the program was built with: 11, 12 or 13 */
    int count; /* number of cards */
    int major, minor;
    int sms;
    int64_t shared_block, shared_block_optin, shared_sm;
    int threads_sm, blocks_sm, regs_sm;
    int64_t l2;
    int bus_width; /* bits */
    int lag;       /* number of queries after which an event becomes ready */
};

const struct card *card(void);

/* This thread's device. */
int current_device(void);

/* Store an error for cudaGetLastError, and return it. */
int failed(int error);

/* --- address space ------------------------------------------------------------------------------ */

/* Reserve addresses for this many bytes, rounded up to 2 MiB. Returns 0 if none are left. */
uint64_t take_addresses(uint64_t bytes, int device);
/* Free the addresses that begin here. Returns the number of bytes, 0 if nothing begins there; sets
 * `device`. */
uint64_t give_addresses(uint64_t at, int *device);
/* Print that no addresses are left, which isn't the card's fault. Returns the error to report. */
int no_addresses(void);
int is_device_address(const void *at);
/* Return the device that an address belongs to; -1 if none. */
int device_of(const void *at);

/* Count this many bytes of a card as used, if that many are left. */
int take_bytes(int device, uint64_t bytes);
void give_bytes(int device, uint64_t bytes);
uint64_t free_bytes_of(int device);
/* Count these bytes as used or freed outside the program's allocator. The card may be full. */
void take_outside(int device, uint64_t bytes);
void give_outside(int device, uint64_t bytes);

/* --- what libraries take (outside.c) ------------------------------------------------------------ */

/* Take this part's memory on the current device once more. Returns how often it's taken now. */
int outside_each(enum outside part);
/* Take this part's memory on the current device unless that has happened before. */
void outside_once(enum outside part);
/* Note that a communicator's memory is free again. */
void outside_gone(enum outside part, int device);
/* Return how many bytes of each card other processes hold. */
uint64_t bytes_of_others(void);

/* --- streams ------------------------------------------------------------------------------------ */

/* Whether work launched in this stream becomes part of a graph. */
int is_captured(void *stream);

/* --- arrays that grow --------------------------------------------------------------------------- */

/* Make room for `n` elements. Returns 0 when out of memory. */
int have_room(void **elements, int64_t n, int64_t *room, size_t element_bytes);

/* --- kernels ------------------------------------------------------------------------------------ */

/* Find the kernel image that this card would use. Sets two compute capabilities (e.g. 86): that of
 * the image's PTX and that of its binary. If the kernel's module isn't known, both are the card's.
 * Returns 0 if there is no image for this card. */
int compiled_for(const void *function, int *ptx, int *binary);

/* --- what a call may have written --------------------------------------------------------------- */

/* Note that a kernel got these arguments (pointers to their values, as for cudaLaunchKernel). */
void may_write(void **arguments);
/* Mark the blocks that these words point into as doubtful. */
void doubt_blocks_of(const uint64_t *words, const uint64_t *end);
/* Mark all device memory as doubtful. */
void doubt_all(void);
/* Whether any contents were ever known. If not, nothing can become doubtful. */
int is_anything_known(void);

/* --- functions that these libraries call -------------------------------------------------------- */

API int cudaMalloc(void **at, size_t bytes);
API int cudaFree(void *at);
API int cudaSetDevice(int asked);
API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
API int cudaDriverGetVersion(int *version);
API int cudaRuntimeGetVersion(int *version);
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                      size_t shared_bytes);
/* Note that an allocator allocated or freed a block that begins here, so its contents are
 * unknown. */
API void memreplay_block(uint64_t at, int taken);

/* Count a read of values that aren't known for sure: 0, OF_RANDOM, OF_ASSUMED or OF_CHOSEN. Returns the value
 * that would be read if all computed values were zero. */
int64_t unknown_read(int kind);
/* Count a read of the time between two events, which is unknown, too. */
void unknown_time(void);
/* Count a read of how much of the card is free, which is an estimate. `caller`: the code that reads
 * it, as PyTorch's allocator does before it raises an error. */
void estimated_memory(const void *caller);
/* Whether code belongs to PyTorch's core, which contains the allocator. */
int is_core(const void *code);
/* Count a read by an operator: which operator, what kind of read, and where in the program. */
enum { OF_SIZES = 1, OF_RANDOM = 2, OF_ASSUMED = 4, OF_CHOSEN = 8 };
void count_place(const char *operator, int kind);
int is_place_counted(void);

/* --- the recording ------------------------------------------------------------------------------ */

/* Let Python prepare the recording, unless it did so at startup. */
void begin_recording(void);

/* --- counts reported at the end ----------------------------------------------------------------- */

/* Count a call, and note it as this process's last one. */
void called(const char *name);
/* Note that memory was requested, which means that the process uses the card. */
void asked_for_memory(void);
/* Note that the program requested this card, which may not exist. */
void asked_for_card(int device);
#define CALLED called(__func__)

/* Handles don't refer to anything. */
#define HANDLE ((void *)0x10)
/* Return a unique handle for a stream, graph or library. They must be unique because PyTorch uses
 * them as keys, for example for cuBLAS's workspaces. */
void *new_handle(void);
#define MAKES_HANDLE(function)      \
    API int function(void **made) { \
        CALLED;                     \
        *made = new_handle();       \
        return SUCCESS;             \
    }

#endif
