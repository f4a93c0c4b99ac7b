/* NVIDIA's other libraries: handles, versions, and one plan for all matrix products. unanswered.c
 * handles their other functions, which do nothing and return 0 (success). */
#include "unknown.h"

#include <stdlib.h>
#include <string.h>

MAKES_HANDLE(cublasCreate_v2)
MAKES_HANDLE(cublasLtCreate)

/* --- cuBLAS ------------------------------------------------------------------------------------- */

API int cublasGetVersion_v2(void *handle, int *version) {
    (void)handle;
    *version = card()->cuda * 10000;
    return SUCCESS;
}

API size_t cublasLtGetVersion(void) {
    return (size_t)card()->cuda * 10000;
}

API int cublasGetPointerMode_v2(void *handle, int *mode) {
    (void)handle;
    *mode = 0; /* scalars are in host memory */
    return SUCCESS;
}

API int cublasGetMathMode(void *handle, int *mode) {
    (void)handle;
    *mode = 0;
    return SUCCESS;
}

API int cublasGetStream_v2(void *handle, void **stream) {
    (void)handle;
    *stream = NULL;
    return SUCCESS;
}

/* cublasLtMatmulHeuristicResult_t */
struct heuristic {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

/* Return one algorithm, which needs no workspace. PyTorch has already allocated its own. */
API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                       void *d, void *preference, int asked,
                                       struct heuristic *results, int *found) {
    CALLED;
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *found = asked > 0;
    if (asked > 0)
        memset(results, 0, sizeof *results);
    return SUCCESS;
}

/* Functions for batches of small matrices also tell the host whether the arguments were valid. */
#define BATCHED(function, before)                    \
    API int function(ANY_##before, int *info) {      \
        CALLED;                                      \
        *info = 0;                                   \
        return SUCCESS;                              \
    }
#define EACH(name, before)                           \
    BATCHED(cublasS##name##Batched, before)          \
    BATCHED(cublasD##name##Batched, before)          \
    BATCHED(cublasC##name##Batched, before)          \
    BATCHED(cublasZ##name##Batched, before)

EACH(geqrf, 6)
EACH(gels, 9)
EACH(getrs, 9)

/* --- NVML, which programs query about other processes and the fabric ---------------------------- */

enum { NVML_NOT_SUPPORTED = 3 };

API int nvmlInit_v2(void) {
    return SUCCESS;
}

API int nvmlShutdown(void) {
    return SUCCESS;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    (void)bus;
    *device = HANDLE;
    return SUCCESS;
}

API int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = card()->count;
    return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    (void)index;
    *device = HANDLE;
    return SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes) {
    (void)device, (void)processes;
    *count = 0;
    return SUCCESS;
}

API int nvmlDeviceGetGpuFabricInfoV(void *device, void *info) {
    (void)device, (void)info; /* state 0: not part of a fabric */
    return SUCCESS;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type) {
    (void)device, (void)link;
    *type = 255; /* not known */
    return NVML_NOT_SUPPORTED;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *pci) {
    (void)device, (void)link, (void)pci;
    return NVML_NOT_SUPPORTED;
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return cudaDriverGetVersion(version);
}
