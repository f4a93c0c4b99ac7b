/* NVIDIA's other libraries: handles, versions, and one plan for all matrix products. unanswered.c
 * handles their other functions, which do nothing and return 0 (success). */
#include "contents.h"
#include "unknown.h"

#include <stdlib.h>
#include <string.h>

/* --- cuBLAS ------------------------------------------------------------------------------------- */

/* A program's second handle is that of the backward pass. In the programs that were measured, cuBLAS
 * had taken more memory for kernels by then, as it does for products in half precision. */
API int cublasCreate_v2(void **made) {
    CALLED;
    *made = new_handle();
    if (outside_each(BLAS) > 1)
        outside_once(BLAS_MORE);
    return SUCCESS;
}

MAKES_HANDLE(cublasLtCreate)

/* Note that a product was written here, unless Python notes that. */
static void product(void *to, const void *caller) {
    uint64_t word = (uint64_t)(uintptr_t)to;
    if (is_anything_known() && !are_writes_noted(caller))
        doubt_blocks_of(&word, &word + 1);
}

/* cudaDataType */
enum { FLOAT32 = 0, FLOAT64 = 1, COMPLEX64 = 4, COMPLEX128 = 5 };

static void product_of(int type) {
    if (type != FLOAT32 && type != FLOAT64 && type != COMPLEX64 && type != COMPLEX128)
        outside_once(BLAS_MORE);
}

API int cublasGemmEx(ANY_7, const void *a, int a_type, ANY(8), ANY(9), ANY(10), ANY(11), ANY(12),
                     void *c) {
    CALLED;
    (void)a;
    product_of(a_type);
    product(c, __builtin_return_address(0));
    return SUCCESS;
}

API int cublasGemmStridedBatchedEx(ANY_7, const void *a, int a_type, ANY(8), int64_t a_stride,
                                   ANY(9), ANY(10), ANY(11), int64_t b_stride, ANY(12), void *c) {
    CALLED;
    (void)a, (void)a_stride, (void)b_stride;
    product_of(a_type);
    product(c, __builtin_return_address(0));
    return SUCCESS;
}

API int cublasLtMatmul(ANY_10, void *d) {
    CALLED;
    outside_once(BLAS_MORE);
    product(d, __builtin_return_address(0));
    return SUCCESS;
}

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
