/* cuDNN. Every query gets the same answer: an engine that needs no workspace. The real workspace
 * size depends on the library and the GPU, so each query for it is counted as an unknown of the
 * run. */
#include "unknown.h"

#include <stdlib.h>
#include <string.h>

/* Return the version that PyTorch was built with, which the launcher passes. */
API size_t cudnnGetVersion(void) {
    const char *version = getenv("MEMREPLAY_CUDNN");
    return version ? strtoull(version, NULL, 10) : 90100;
}

/* libraryPropertyType: major, minor, patch. Since cuDNN 9, versions look like 90100; before, like
 * 8907. */
API int cudnnGetProperty(int which, int *value) {
    size_t version = cudnnGetVersion();
    size_t major = version >= 10000 ? version / 10000 : version / 1000;
    size_t minor = version >= 10000 ? version / 100 % 100 : version / 100 % 10;
    *value = (int)(which == 0 ? major : which == 1 ? minor : version % 100);
    return SUCCESS;
}

API size_t cudnnGetCudartVersion(void) {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    return version;
}

API const char *cudnnGetErrorString(int status) {
    return status ? "an error of a library that is not there" : "CUDNN_STATUS_SUCCESS";
}

API int cudnnGetLastErrorString(char *text, size_t bytes) {
    if (bytes)
        *text = 0;
    return SUCCESS;
}

API int cudnnGetStream(void *handle, void **stream) {
    (void)handle;
    *stream = NULL;
    return SUCCESS;
}

API int cudnnCreate(void **made) {
    CALLED;
    *made = new_handle();
    outside_each(DNN);
    return SUCCESS;
}

MAKES_HANDLE(cudnnCreateActivationDescriptor)
MAKES_HANDLE(cudnnCreateConvolutionDescriptor)
MAKES_HANDLE(cudnnCreateCTCLossDescriptor)
MAKES_HANDLE(cudnnCreateDropoutDescriptor)
MAKES_HANDLE(cudnnCreatePoolingDescriptor)
MAKES_HANDLE(cudnnCreateSpatialTransformerDescriptor)

/* --- operations by descriptors: convolutions, attention ------------------------------------------ */

/* cudnnBackendAttributeName_t and cudnnBackendAttributeType_t (cudnn_graph.h; only the values that
 * programs use). */
enum {
    HEURISTIC_RESULTS = 202,
    ENGINE_OF_CONFIGURATION = 300,
    PLAN_WORKSPACE_BYTES = 402,
    ENGINES_OF_GRAPH = 802
};
enum { TYPE_INT64 = 3, TYPE_INT32 = 23 };

API int cudnnBackendCreateDescriptor(int type, void **made) {
    CALLED;
    (void)type;
    *made = HANDLE;
    return SUCCESS;
}

API int cudnnBackendDestroyDescriptor(void *descriptor) {
    (void)descriptor;
    return SUCCESS;
}

API int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t asked,
                                 int64_t *count, void *values) {
    CALLED;
    (void)descriptor;
    int64_t none = 0, *found = count ? count : &none;
    size_t bytes = type == TYPE_INT64 ? sizeof(int64_t) : type == TYPE_INT32 ? sizeof(int32_t) : 0;
    *found = name == HEURISTIC_RESULTS || name == ENGINE_OF_CONFIGURATION || bytes;
    if (bytes && values && asked > 0)
        memset(values, 0, bytes); /* neither a workspace nor shared memory is needed */
    if (name == ENGINES_OF_GRAPH && bytes && values && asked > 0)
        *(int64_t *)values = 1024; /* every engine number that a program asks for exists */
    if (name == PLAN_WORKSPACE_BYTES)
        not_known(CUDNN);
    return SUCCESS;
}

/* --- convolutions with the functions that predate descriptors ------------------------------------ */

/* cudnnConvolutionFwdAlgoPerf_t. The structs for backward passes have the same layout. */
struct measured {
    int algorithm, status;
    float ms;
    size_t workspace_bytes;
    int deterministic, math, reserved[3];
};

/* Return one algorithm, which is deterministic. */
static int one_algorithm(int asked, int *found, struct measured *results) {
    *found = asked > 0;
    if (asked > 0)
        results[0] = (struct measured){.algorithm = 1, .deterministic = 1};
    return SUCCESS;
}

#define CONVOLUTION(which)                                                                       \
    API int cudnnGetConvolution##which##Algorithm_v7(ANY_5, int asked, int *found,               \
                                                     struct measured *results) {                 \
        CALLED;                                                                                  \
        return one_algorithm(asked, found, results);                                             \
    }                                                                                            \
    API int cudnnFindConvolution##which##AlgorithmEx(ANY_8, int asked, int *found,               \
                                                     struct measured *results) {                 \
        CALLED;                                                                                  \
        return one_algorithm(asked, found, results);                                             \
    }                                                                                            \
    NEEDS(CUDNN, 6, size_t, cudnnGetConvolution##which##WorkspaceSize)

CONVOLUTION(Forward)
CONVOLUTION(BackwardData)
CONVOLUTION(BackwardFilter)

/* --- normalization, dropout, losses -------------------------------------------------------------- */

NEEDS(CUDNN, 8, size_t, cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)
NEEDS(CUDNN, 10, size_t, cudnnGetBatchNormalizationBackwardExWorkspaceSize)
NEEDS(CUDNN, 5, size_t, cudnnGetBatchNormalizationTrainingExReserveSpaceSize)
NEEDS(CUDNN, 1, size_t, cudnnDropoutGetStatesSize)
NEEDS(CUDNN, 8, size_t, cudnnGetCTCLossWorkspaceSize)
NEEDS(CUDNN, 5, size_t, cudnnGetCTCLossWorkspaceSize_v8)
