/* cuDNN: one answer to each question, an engine that needs no workspace. How much the real one would
 * take depends on the library and on the card: each such question is counted, as what is not known of
 * a run. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* How often it was asked how much memory a plan needs. */
API uint64_t memreplay_workspaces;

static int not_known(size_t *bytes) {
    __atomic_add_fetch(&memreplay_workspaces, 1, __ATOMIC_RELAXED);
    *bytes = 0;
    return SUCCESS;
}

/* Of what PyTorch was built with: the launcher says it. */
API size_t cudnnGetVersion(void) {
    const char *version = getenv("MEMREPLAY_CUDNN");
    return version ? strtoull(version, NULL, 10) : 90100;
}

/* libraryPropertyType: major, minor, patch. Since cuDNN 9 a version is 90100, before it 8907. */
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

MAKES_HANDLE(cudnnCreate)

/* --- convolutions ------------------------------------------------------------------------------- */

/* cudnnBackendAttributeName_t and cudnnBackendAttributeType_t (cudnn_graph.h), as far as they are
 * asked for. */
enum { HEURISTIC_RESULTS = 202, ENGINE_OF_CONFIGURATION = 300, PLAN_WORKSPACE_BYTES = 402 };
enum { TYPE_INT64 = 3 };

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
    *found = name == HEURISTIC_RESULTS || name == ENGINE_OF_CONFIGURATION || type == TYPE_INT64;
    if (type == TYPE_INT64 && values && asked > 0)
        memset(values, 0, sizeof(int64_t));
    size_t bytes;
    return name == PLAN_WORKSPACE_BYTES ? not_known(&bytes) : SUCCESS;
}

/* --- normalization, dropout --------------------------------------------------------------------- */

API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int operation,
                                                                 void *x, void *z, void *y,
                                                                 void *scale, void *activation,
                                                                 size_t *bytes) {
    (void)handle, (void)mode, (void)operation, (void)x, (void)z, (void)y;
    (void)scale, (void)activation;
    return not_known(bytes);
}

API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operation,
                                                          void *x, void *y, void *dy, void *dz,
                                                          void *dx, void *scale, void *activation,
                                                          size_t *bytes) {
    (void)handle, (void)mode, (void)operation, (void)x, (void)y, (void)dy, (void)dz, (void)dx;
    (void)scale, (void)activation;
    return not_known(bytes);
}

API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operation,
                                                             void *activation, void *x,
                                                             size_t *bytes) {
    (void)handle, (void)mode, (void)operation, (void)activation, (void)x;
    return not_known(bytes);
}

API int cudnnDropoutGetStatesSize(void *handle, size_t *bytes) {
    (void)handle;
    return not_known(bytes);
}
