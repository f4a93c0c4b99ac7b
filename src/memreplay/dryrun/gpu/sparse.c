/* cuSPARSE and cuSPARSELt: descriptors. Neither the memory that a call needs nor the number of
 * elements in a product or sum of sparse matrices is known. */
#include "unknown.h"

#include <stdlib.h>

MAKES_HANDLE(cusparseCreate)
MAKES_HANDLE(cusparseCreateMatDescr)
MAKES_HANDLE(cusparseSpGEMM_createDescr)
MAKES_HANDLE(cusparseSpSM_createDescr)
MAKES_HANDLE(cusparseSpSV_createDescr)

API const char *cusparseGetErrorString(int status) {
    return status ? "an error of cuSPARSE, which is not there" : "success";
}

API const char *cusparseGetErrorName(int status) {
    return cusparseGetErrorString(status);
}

/* --- matrices ----------------------------------------------------------------------------------- */

struct matrix {
    int64_t rows, columns, elements;
};

static int new_matrix(struct matrix **made, int64_t rows, int64_t columns, int64_t elements) {
    *made = malloc(sizeof **made);
    if (!*made)
        return 2; /* CUSPARSE_STATUS_ALLOC_FAILED */
    **made = (struct matrix){rows, columns, elements};
    return SUCCESS;
}

/* The arrays and types that follow are ignored. */
#define MAKES_MATRIX(function)                                                              \
    API int function(struct matrix **made, int64_t rows, int64_t columns, int64_t elements) { \
        CALLED;                                                                             \
        return new_matrix(made, rows, columns, elements);                                   \
    }

MAKES_MATRIX(cusparseCreateCsr)
MAKES_MATRIX(cusparseCreateConstCsr)
MAKES_MATRIX(cusparseCreateCsc)
MAKES_MATRIX(cusparseCreateConstCsc)
MAKES_MATRIX(cusparseCreateCoo)
MAKES_MATRIX(cusparseCreateConstCoo)
MAKES_MATRIX(cusparseCreateBsr)
MAKES_MATRIX(cusparseCreateConstBsr)

API int cusparseDestroySpMat(struct matrix *it) {
    free(it);
    return SUCCESS;
}

/* Called after a product of two matrices. The number of elements in the product depends on which
 * elements of the factors are set. */
API int cusparseSpMatGetSize(const struct matrix *it, int64_t *rows, int64_t *columns,
                             int64_t *elements) {
    CALLED;
    *rows = it->rows;
    *columns = it->columns;
    *elements = it->elements;
    not_known(CUSPARSE);
    return SUCCESS;
}

/* --- products, sums, sorting -------------------------------------------------------------------- */

NEEDS(CUSPARSE, 9, size_t, cusparseSpMV_bufferSize)
NEEDS(CUSPARSE, 10, size_t, cusparseSpMM_bufferSize)
NEEDS(CUSPARSE, 10, size_t, cusparseSDDMM_bufferSize)
NEEDS(CUSPARSE, 9, size_t, cusparseSpSV_bufferSize)
NEEDS(CUSPARSE, 10, size_t, cusparseSpSM_bufferSize)
NEEDS(CUSPARSE, 11, size_t, cusparseSpGEMM_workEstimation)
NEEDS(CUSPARSE, 11, size_t, cusparseSpGEMM_compute)
NEEDS(CUSPARSE, 6, size_t, cusparseXcoosort_bufferSizeExt)
NEEDS(CUSPARSE, 6, size_t, cusparseXcsrsort_bufferSizeExt)
NEEDS(CUSPARSE, 6, size_t, cusparseXcscsort_bufferSizeExt)

/* The number of elements in a sum, if the host asks for it. */
API int cusparseXcsrgeam2Nnz(ANY_13, int *elements) {
    CALLED;
    if (!is_device_address(elements))
        *elements = 0;
    not_known(CUSPARSE);
    return SUCCESS;
}

#define EACH(before, type, name)                          \
    NEEDS(CUSPARSE, before, type, cusparseS##name)        \
    NEEDS(CUSPARSE, before, type, cusparseD##name)        \
    NEEDS(CUSPARSE, before, type, cusparseC##name)        \
    NEEDS(CUSPARSE, before, type, cusparseZ##name)

EACH(19, size_t, csrgeam2_bufferSizeExt)
EACH(11, int, bsrsv2_bufferSize)
EACH(13, int, bsrsm2_bufferSize)

/* --- cuSPARSELt --------------------------------------------------------------------------------- */

NEEDS(CUSPARSELT, 2, size_t, cusparseLtMatmulGetWorkspace)
NEEDS_TWO(CUSPARSELT, 2, cusparseLtSpMMACompressedSize2)
NEEDS_TWO(CUSPARSELT, 2, cusparseLtSpMMACompressedSize)
