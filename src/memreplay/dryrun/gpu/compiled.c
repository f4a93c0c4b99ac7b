/* Kernels compiled while a program runs: NVRTC's programs and the driver's modules. Any program
 * compiles, and launching one does nothing. */
#include "contents.h"

#include <string.h>

/* --- NVRTC -------------------------------------------------------------------------------------- */

API int nvrtcVersion(int *major, int *minor) {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    *major = version / 1000;
    *minor = version % 1000 / 10;
    return SUCCESS;
}

API const char *nvrtcGetErrorString(int error) {
    return error ? "an error of NVRTC, which is not there" : "NVRTC_SUCCESS";
}

MAKES_HANDLE(nvrtcCreateProgram)

#define DOES_NOTHING(function) \
    API int function(void) {   \
        CALLED;                \
        return SUCCESS;        \
    }

DOES_NOTHING(nvrtcCompileProgram)
DOES_NOTHING(nvrtcDestroyProgram)
DOES_NOTHING(nvrtcAddNameExpression)

/* The compiled code and the compiler's log, both of which are empty strings. */
#define SAYS_NOTHING(function, size)                \
    API int size(void *program, size_t *bytes) {    \
        (void)program;                              \
        *bytes = 1;                                 \
        return SUCCESS;                             \
    }                                               \
    API int function(void *program, char *text) {   \
        (void)program;                              \
        *text = 0;                                  \
        return SUCCESS;                             \
    }

SAYS_NOTHING(nvrtcGetPTX, nvrtcGetPTXSize)
SAYS_NOTHING(nvrtcGetCUBIN, nvrtcGetCUBINSize)
SAYS_NOTHING(nvrtcGetProgramLog, nvrtcGetProgramLogSize)

API int nvrtcGetLoweredName(void *program, const char *name, const char **lowered) {
    (void)program;
    *lowered = name;
    return SUCCESS;
}

/* --- the driver's modules ----------------------------------------------------------------------- */

/* Other arguments (options and images) are ignored. */
MAKES_HANDLE(cuModuleLoad)
MAKES_HANDLE(cuModuleLoadData)
MAKES_HANDLE(cuModuleLoadDataEx)
MAKES_HANDLE(cuModuleLoadFatBinary)
MAKES_HANDLE(cuModuleGetFunction)

DOES_NOTHING(cuModuleUnload)
DOES_NOTHING(cuFuncSetAttribute)
DOES_NOTHING(cuFuncSetCacheConfig)
DOES_NOTHING(cuTensorMapEncodeTiled)
DOES_NOTHING(cuTensorMapEncodeIm2col)

API int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       void *stream, void **arguments, void **packed) {
    CALLED;
    outside_once(KERNELS);
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
    (void)block_z, (void)shared_bytes, (void)packed;
    if (is_captured(stream) || !are_writes_noted(NULL))
        may_write(arguments); /* NULL if the arguments are packed */
    return SUCCESS;
}

API int cuLaunchCooperativeKernel(void *function, unsigned grid_x, unsigned grid_y,
                                  unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, void *stream,
                                  void **arguments) {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                          stream, arguments, NULL);
}

API int cuLaunchKernelEx(const void *configuration, void *function, void **arguments,
                         void **packed) {
    CALLED;
    outside_once(KERNELS);
    (void)configuration, (void)function, (void)packed;
    if (!are_writes_noted(NULL))
        may_write(arguments);
    return SUCCESS;
}

/* CUfunction_attribute */
enum { MOST_THREADS = 0, SHARED_BYTES, CONSTANT_BYTES, LOCAL_BYTES, REGISTERS };

API int cuFuncGetAttribute(int *value, int which, void *function) {
    CALLED;
    (void)function;
    *value = which == MOST_THREADS ? 1024 : which == REGISTERS ? 32 : 0;
    return SUCCESS;
}

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                    size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}

/* For blocks launched in clusters, return as many clusters as there are multiprocessors. */
API int cuOccupancyMaxActiveClusters(int *clusters, void *function, const void *configuration) {
    CALLED;
    (void)function, (void)configuration;
    *clusters = card()->sms;
    return SUCCESS;
}
