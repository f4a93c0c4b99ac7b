/* The fake cards: how many there are, and their properties. */
#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct card the_card;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread int device;
static __thread int last_error;

/* Return the value in `key=value;` from the launcher's description; `otherwise` if it's missing. */
static int64_t number(const char *text, const char *key, int64_t otherwise) {
    size_t length = strlen(key);
    for (const char *at = text; at; at = strchr(at, ';'), at = at ? at + 1 : NULL)
        if (!strncmp(at, key, length) && at[length] == '=')
            return strtoll(at + length + 1, NULL, 10);
    return otherwise;
}

/* Return how many cards the program sees: those named in CUDA_VISIBLE_DEVICES, up to the first
 * invalid name. A program may set that variable before it calls CUDA. */
static int visible(int count) {
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    int seen = 0;
    if (!at)
        return count;
    while (*at && seen < count) {
        char *end;
        long number = strtol(at, &end, 10);
        int of_name = end == at && (!strncmp(at, "GPU-", 4) || !strncmp(at, "MIG-", 4));
        if (end != at)
            asked_for_card((int)number);
        if (!of_name && (end == at || number < 0 || number >= count))
            break;
        seen++;
        at = strchr(at, ',');
        if (!at++)
            break;
    }
    return seen;
}

static void describe(void) {
    /* The default is an A100 with 80 GB. */
    const char *text = getenv("MEMREPLAY_GPU");
    const char *name = getenv("MEMREPLAY_GPU_NAME");
    if (!text)
        text = "";
    snprintf(the_card.name, sizeof the_card.name, "%s", name ? name : "NVIDIA A100-SXM4-80GB");
    the_card.bytes = number(text, "bytes", 85094825984);
    the_card.context = number(text, "context", 0);
    static const char *const parts[OUTSIDE_PARTS] = {"kernels", "cublas", "cublas_more", "cudnn",
                                                     "cusolver", "cufft", "nccl"};
    for (int i = 0; i < OUTSIDE_PARTS; i++)
        the_card.outside[i] = number(text, parts[i], 0);
    if (the_card.context > the_card.bytes)
        the_card.context = the_card.bytes;
    the_card.cuda = number(text, "cuda", 13);
    the_card.count = number(text, "count", 1);
    if (the_card.count < 0 || the_card.count > MAX_DEVICES)
        the_card.count = 1;
    the_card.count = visible(the_card.count);
    the_card.major = number(text, "major", 8);
    the_card.minor = number(text, "minor", 0);
    the_card.sms = number(text, "sms", 108);
    the_card.shared_block = number(text, "shared_block", 49152);
    the_card.shared_block_optin = number(text, "shared_block_optin", 166912);
    the_card.shared_sm = number(text, "shared_sm", 167936);
    the_card.threads_sm = number(text, "threads_sm", 2048);
    the_card.blocks_sm = number(text, "blocks_sm", 32);
    the_card.regs_sm = number(text, "regs_sm", 65536);
    the_card.l2 = number(text, "l2", 41943040);
    the_card.bus_width = number(text, "bus_width", 5120);
    the_card.lag = number(text, "lag", 0);
}

const struct card *card(void) {
    pthread_once(&once, describe);
    return &the_card;
}

int current_device(void) {
    return device;
}

int failed(int error) {
    last_error = error;
    return error;
}

API int cudaGetLastError(void) {
    int error = last_error;
    last_error = SUCCESS;
    return error;
}

API int cudaPeekAtLastError(void) {
    return last_error;
}

static const char *text_of(int error) {
    switch (error) {
    case SUCCESS: return "no error";
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case INVALID_DEVICE: return "invalid device ordinal";
    case NO_KERNEL_IMAGE: return "no kernel image is available for execution on the device";
    case INVALID_HANDLE: return "invalid resource handle";
    case NOT_READY: return "device not ready";
    case NOT_SUPPORTED: return "operation not supported (memreplay: too few addresses)";
    default: return "unrecognized error code";
    }
}

API const char *cudaGetErrorString(int error) {
    return text_of(error);
}

API const char *cudaGetErrorName(int error) {
    switch (error) {
    case SUCCESS: return "cudaSuccess";
    case INVALID_VALUE: return "cudaErrorInvalidValue";
    case OUT_OF_MEMORY: return "cudaErrorMemoryAllocation";
    case INVALID_DEVICE: return "cudaErrorInvalidDevice";
    case NO_KERNEL_IMAGE: return "cudaErrorNoKernelImageForDevice";
    case INVALID_HANDLE: return "cudaErrorInvalidResourceHandle";
    case NOT_READY: return "cudaErrorNotReady";
    case NOT_SUPPORTED: return "cudaErrorNotSupported";
    default: return "cudaErrorUnknown";
    }
}

API int cuGetErrorString(int error, const char **text) {
    *text = text_of(error);
    return SUCCESS;
}

API int cuGetErrorName(int error, const char **text) {
    *text = cudaGetErrorName(error);
    return SUCCESS;
}

/* --- devices ------------------------------------------------------------------------------------ */

API int cudaGetDeviceCount(int *count) {
    CALLED;
    begin_recording();
    *count = card()->count;
    return *count ? SUCCESS : failed(100); /* cudaErrorNoDevice */
}

API int cudaGetDevice(int *found) {
    *found = device;
    return SUCCESS;
}

API int cudaSetDevice(int asked) {
    CALLED;
    asked_for_card(asked);
    if (asked < 0 || asked >= card()->count)
        return failed(INVALID_DEVICE);
    device = asked;
    return SUCCESS;
}

static int version(void) {
    return card()->cuda == 11 ? 11080 : card()->cuda == 12 ? 12080 : 13020;
}

API int cudaDriverGetVersion(int *found) {
    *found = version();
    return SUCCESS;
}

API int cudaRuntimeGetVersion(int *found) {
    *found = version();
    return SUCCESS;
}

/* cudaDeviceProp has two layouts: one up to CUDA 12, and one from 13 on without the deprecated
 * fields. The fields that CUDA 12 appended to 11.8's layout aren't set here. */
enum { BEFORE_13, FROM_13 };

/* The part of a block's shared memory that the system uses from compute capability 8.0 on. */
static int64_t reserved_shared(void) {
    return card()->major >= 8 ? card()->shared_sm - card()->shared_block_optin : 0;
}

struct properties {
    char *at;
    int layout;
};

/* Set a field of this many bytes. Its offset depends on the layout. */
static void put(struct properties to, int before_13, int from_13, int bytes, int64_t value) {
    memcpy(to.at + (to.layout == FROM_13 ? from_13 : before_13), &value, bytes);
}

static int describe_to(void *out, int asked, int layout, size_t bytes) {
    const struct card *it = card();
    struct properties to = {out, layout};
    if (asked < 0 || asked >= it->count)
        return failed(INVALID_DEVICE);
    memset(out, 0, bytes);
    memcpy(out, it->name, sizeof it->name);
    put(to, 256, 256, 8, 'm' + ((int64_t)asked << 8)); /* uuid, which differs for each card */
    put(to, 288, 288, 8, it->bytes);                   /* totalGlobalMem */
    put(to, 296, 296, 8, it->shared_block);            /* sharedMemPerBlock */
    put(to, 304, 304, 4, 65536);                       /* regsPerBlock */
    put(to, 308, 308, 4, 32);                          /* warpSize */
    put(to, 312, 312, 8, 2147483647);                  /* memPitch */
    put(to, 320, 320, 4, 1024);                        /* maxThreadsPerBlock */
    put(to, 324, 324, 4, 1024);                        /* maxThreadsDim[0] */
    put(to, 328, 328, 4, 1024);                        /* maxThreadsDim[1] */
    put(to, 332, 332, 4, 64);                          /* maxThreadsDim[2] */
    put(to, 336, 336, 4, 2147483647);                  /* maxGridSize[0] */
    put(to, 340, 340, 4, 65535);                       /* maxGridSize[1] */
    put(to, 344, 344, 4, 65535);                       /* maxGridSize[2] */
    put(to, 352, 352, 8, 65536);                       /* totalConstMem */
    put(to, 360, 360, 4, it->major);                   /* major */
    put(to, 364, 364, 4, it->minor);                   /* minor */
    put(to, 368, 368, 8, 512);                         /* textureAlignment */
    put(to, 388, 384, 4, it->sms);                     /* multiProcessorCount */
    put(to, 400, 392, 4, 1);                           /* canMapHostMemory */
    put(to, 576, 560, 4, 1);                           /* concurrentKernels */
    put(to, 584, 568, 4, asked + 1);                   /* pciBusID */
    put(to, 600, 584, 4, 3);                           /* asyncEngineCount */
    put(to, 604, 588, 4, 1);                           /* unifiedAddressing */
    put(to, 612, 592, 4, it->bus_width);               /* memoryBusWidth */
    put(to, 616, 596, 4, it->l2);                      /* l2CacheSize */
    put(to, 624, 604, 4, it->threads_sm);              /* maxThreadsPerMultiProcessor */
    put(to, 628, 608, 4, 1);                           /* streamPrioritiesSupported */
    put(to, 640, 624, 8, it->shared_sm);               /* sharedMemPerMultiprocessor */
    put(to, 648, 632, 4, it->regs_sm);                 /* regsPerMultiprocessor */
    put(to, 688, 668, 4, 1);                           /* cooperativeLaunch */
    put(to, 696, 672, 8, it->shared_block_optin);      /* sharedMemPerBlockOptin */
    put(to, 712, 688, 4, it->blocks_sm);               /* maxBlocksPerMultiProcessor */
    put(to, 720, 696, 8, reserved_shared());           /* reservedSharedMemPerBlock */
    return SUCCESS;
}

/* CUDA 11 and 13 use this name for their layout; CUDA 12 renamed the function to _v2. */
API int cudaGetDeviceProperties(void *out, int asked) {
    CALLED;
    return card()->cuda >= 13 ? describe_to(out, asked, FROM_13, 1008)
                              : describe_to(out, asked, BEFORE_13, 728);
}

API int cudaGetDeviceProperties_v2(void *out, int asked) {
    CALLED;
    return describe_to(out, asked, BEFORE_13, 1032);
}

/* cudaDeviceAttr and CUdevice_attribute use the same numbers. */
static int attribute(int which) {
    const struct card *it = card();
    switch (which) {
    case 1: return 1024; /* maximum number of threads per block */
    case 2: case 3: return 1024;
    case 4: return 64;
    case 5: return 2147483647;
    case 6: case 7: return 65535;
    case 8: return it->shared_block;
    case 9: return 65536; /* constant memory */
    case 10: return 32;   /* warp */
    case 11: return 2147483647;
    case 12: return 65536; /* maximum number of registers per block */
    case 14: return 512;   /* texture alignment */
    case 15: case 19: case 31: case 41: case 78: case 95: return 1;
    case 16: return it->sms;
    case 37: return it->bus_width;
    case 38: return it->l2;
    case 39: return it->threads_sm;
    case 40: return 3; /* copy engines */
    case 75: return it->major;
    case 76: return it->minor;
    case 81: return it->shared_sm;
    case 82: return it->regs_sm;
    case 97: return it->shared_block_optin;
    case 102: return 1; /* virtual memory */
    case 103: return 1; /* handles are file descriptors */
    case 106: return it->blocks_sm;
    case 111: return reserved_shared();
    case 115: return 1; /* memory pools */
    case 120: return it->major >= 9;
    default: return 0; /* fabric, multicast, RDMA, managed memory … */
    }
}

API int cudaDeviceGetAttribute(int *value, int which, int asked) {
    CALLED;
    if (asked < 0 || asked >= card()->count)
        return failed(INVALID_DEVICE);
    *value = which == 33 ? asked + 1 : attribute(which); /* 33: the PCI bus */
    return SUCCESS;
}

API int cuDeviceGetAttribute(int *value, int which, int asked) {
    return cudaDeviceGetAttribute(value, which, asked);
}

API int cudaDeviceGetPCIBusId(char *text, int length, int asked) {
    snprintf(text, length, "0000:%02x:00.0", asked + 1);
    return SUCCESS;
}

API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return SUCCESS;
}

API int cudaDeviceCanAccessPeer(int *can, int one, int other) {
    *can = one != other;
    return SUCCESS;
}

/* --- the driver's versions ---------------------------------------------------------------------- */

API int cuInit(unsigned flags) {
    (void)flags;
    return SUCCESS;
}

API int cuDriverGetVersion(int *found) {
    *found = version();
    return SUCCESS;
}

API int cuDeviceGet(int *found, int asked) {
    if (asked < 0 || asked >= card()->count)
        return INVALID_DEVICE;
    *found = asked;
    return SUCCESS;
}

API int cuDeviceGetCount(int *count) {
    *count = card()->count;
    return SUCCESS;
}

API int cuDeviceGetName(char *text, int length, int asked) {
    (void)asked;
    snprintf(text, length, "%s", card()->name);
    return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int asked) {
    (void)asked;
    *bytes = card()->bytes;
    return SUCCESS;
}

/* Each device has one context, whose handle is made from the device's number. */
API int cuCtxGetCurrent(void **context) {
    *context = (void *)(uintptr_t)(0x100 + device);
    return SUCCESS;
}

API int cuCtxSetCurrent(void *context) {
    uintptr_t asked = (uintptr_t)context - 0x100;
    if (context && asked < (uintptr_t)card()->count)
        device = (int)asked;
    return SUCCESS;
}

API int cuCtxGetDevice(int *found) {
    *found = device;
    return SUCCESS;
}

/* Limits for kernels (printf buffer, stack, …), with their default values. */
API int cuCtxGetLimit(size_t *bytes, int which) {
    CALLED;
    *bytes = which == 0 ? 1024 : which == 1 ? 1 << 20 : which == 2 ? 8 << 20 : 0;
    return SUCCESS;
}

API int cuCtxSetLimit(int which, size_t bytes) {
    CALLED;
    (void)which, (void)bytes;
    return SUCCESS;
}

API int cuDevicePrimaryCtxGetState(int asked, unsigned *flags, int *active) {
    (void)asked;
    *flags = 0;
    *active = 1;
    return SUCCESS;
}

API int cuDevicePrimaryCtxRetain(void **context, int asked) {
    *context = (void *)(uintptr_t)(0x100 + asked);
    return SUCCESS;
}
