/* What a CUDA program asks of the libraries below it, in declarations of our own: nothing here needs
 * NVIDIA's headers to compile. Numbers and layouts are those of CUDA 11.8, 12.x and 13.x, from
 * driver_types.h and cuda.h; a test compares them where those headers can be had. */
#ifndef MEMREPLAY_GPU_H
#define MEMREPLAY_GPU_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

/* cudaError_t; those of the driver, CUresult, have the same numbers. */
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

/* The card, as the launcher describes it. Sizes are bytes. */
struct card {
    char name[256];
    uint64_t bytes;
    uint64_t context; /* what CUDA takes of it for itself */
    int cuda;  /* the CUDA that the program was built with: 11, 12 or 13 */
    int count; /* how many cards there are */
    int major, minor;
    int sms;
    int64_t shared_block, shared_block_optin, shared_sm;
    int threads_sm, blocks_sm, regs_sm;
    int64_t l2;
    int bus_width; /* bits */
    int lag;       /* how many queries of an event say that it is not ready */
};

const struct card *card(void);

/* This thread's device. */
int current_device(void);

/* Keeps an error for cudaGetLastError, and returns it. */
int failed(int error);

/* --- address space ------------------------------------------------------------------------------ */

/* Addresses for so many bytes, a multiple of 2 MiB; 0 where none are left. */
uint64_t take_addresses(uint64_t bytes, int device);
/* Gives them back. Returns how many bytes they were, 0 if nothing begins there; `device` is set. */
uint64_t give_addresses(uint64_t at, int *device);
/* Says that no addresses are left, which is no fault of the card's; the error to return. */
int no_addresses(void);
int is_device_address(const void *at);
/* The device that an address is of; -1 where it is none's. */
int device_of(const void *at);

/* Counts bytes of a card as taken, if it has so many. */
int take_bytes(int device, uint64_t bytes);
void give_bytes(int device, uint64_t bytes);

/* --- streams ------------------------------------------------------------------------------------ */

/* Whether what is launched there becomes a part of a graph. */
int is_captured(void *stream);

/* --- arrays that grow --------------------------------------------------------------------------- */

/* Room for `n` elements. Returns 0 where there is no memory. */
int have_room(void **elements, int64_t n, int64_t *room, size_t element_bytes);

/* --- kernels ------------------------------------------------------------------------------------ */

/* The compute capabilities, as 86, that the image of a kernel has that this card would take: of the
 * PTX it is made from, and of the binary. The card's own where its module is not known. Returns 0
 * where it has none for this card. */
int compiled_for(const void *function, int *ptx, int *binary);

/* --- what a call may have written --------------------------------------------------------------- */

/* A kernel got these arguments: pointers to their values, as cudaLaunchKernel has them. */
void may_write(void **arguments);
/* Device memory of the blocks that these words are addresses in is in doubt. */
void doubt_blocks_of(const uint64_t *words, const uint64_t *end);
/* All of it is. */
void doubt_all(void);
/* Whether anything ever was known; else there is nothing to doubt. */
int is_anything_known(void);

/* --- what the libraries call of each other ------------------------------------------------------ */

API int cudaMalloc(void **at, size_t bytes);
API int cudaFree(void *at);
API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
API int cudaDriverGetVersion(int *version);
API int cudaRuntimeGetVersion(int *version);
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                      size_t shared_bytes);
/* An allocator has taken or let go of a block that begins there: what was in it is known no more. */
API void memreplay_block(uint64_t at, int taken);

/* Counts that values were read that are not known. Returns the number that they would be if all that is
 * computed were zeros. */
int64_t unknown_read(void);
/* The same of a time between two events. */
void unknown_time(void);
/* Counts what an operator did, whether it makes sizes of it, and where in the program that was. */
void count_place(const char *operator, int sizes);
int is_place_counted(void);

/* --- the recording ------------------------------------------------------------------------------- */

/* Lets Python prepare it where that has not happened at its start. */
void begin_recording(void);

/* --- what is said at the end -------------------------------------------------------------------- */

/* Notes the call, as the last one of this process, and counts it. */
void called(const char *name);
/* That memory of a card was asked for: the process uses it. */
void asked_for_memory(void);
/* That a card was asked for, which there may not be. */
void asked_for_card(int device);
#define CALLED called(__func__)

/* Handles: nothing is behind any of them. */
#define HANDLE ((void *)0x10)
/* One that is not used twice, of a stream, a graph or a library: PyTorch keeps things by them, as
 * cuBLAS's workspaces. */
void *new_handle(void);
#define MAKES_HANDLE(function)      \
    API int function(void **made) { \
        CALLED;                     \
        *made = new_handle();       \
        return SUCCESS;             \
    }

#endif
