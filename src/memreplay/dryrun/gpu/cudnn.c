/* cuDNN's versions and handles, and functions whose workspaces aren't known. The real sizes depend on
 * the library and the GPU, so each query is counted as an unknown of the run. */
#include "unknown.h"

#include <stdlib.h>

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
MAKES_HANDLE(cudnnCreatePoolingDescriptor)
MAKES_HANDLE(cudnnCreateSpatialTransformerDescriptor)

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

/* --- normalization, losses ----------------------------------------------------------------------- */

/* cudnnBatchNormMode_t: one mean for each channel. A recording on an H200 shows that it needs neither
 * a workspace nor reserve space; nothing is known of PERSISTENT (channels last). */
enum { SPATIAL = 1 };

#define NORMALIZATION(before, function)                                                          \
    API int function(void *handle, int mode, ANY_##before, size_t *needed) {                     \
        CALLED;                                                                                  \
        (void)handle;                                                                            \
        *needed = 0;                                                                             \
        if (mode != SPATIAL)                                                                     \
            not_known(CUDNN);                                                                    \
        return SUCCESS;                                                                          \
    }

NORMALIZATION(6, cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)
NORMALIZATION(8, cudnnGetBatchNormalizationBackwardExWorkspaceSize)
NORMALIZATION(3, cudnnGetBatchNormalizationTrainingExReserveSpaceSize)
NEEDS(CUDNN, 8, size_t, cudnnGetCTCLossWorkspaceSize)
NEEDS(CUDNN, 5, size_t, cudnnGetCTCLossWorkspaceSize_v8)
