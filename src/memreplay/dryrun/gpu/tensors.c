/* cuDNN's tensor and filter descriptors, which store the values that were set. */
#include "tensors.h"

#include "gpu.h"

#include <stdlib.h>
#include <string.h>

enum { ALLOC_FAILED = 2, BAD_PARAM = 3 };

API int cudnnCreateTensorDescriptor(struct tensor **made) {
    CALLED;
    *made = calloc(1, sizeof **made);
    return *made ? SUCCESS : ALLOC_FAILED;
}

API int cudnnCreateFilterDescriptor(struct tensor **made) {
    return cudnnCreateTensorDescriptor(made);
}

API int cudnnDestroyTensorDescriptor(struct tensor *it) {
    free(it);
    return SUCCESS;
}

API int cudnnDestroyFilterDescriptor(struct tensor *it) {
    return cudnnDestroyTensorDescriptor(it);
}

void set_matrix(struct tensor *it, int type, int rows, int columns) {
    *it = (struct tensor){.type = type, .n = rows ? 3 : 0};
    if (rows) {
        memcpy(it->dimensions, (int[]){1, rows, columns}, 3 * sizeof(int));
        memcpy(it->strides, (int[]){rows * columns, columns, 1}, 3 * sizeof(int));
    }
}

API int cudnnSetTensorNdDescriptor(struct tensor *it, int type, int n, const int *dimensions,
                                   const int *strides) {
    CALLED;
    if (n < 0 || n > MOST_DIMENSIONS)
        return BAD_PARAM;
    *it = (struct tensor){.type = type, .n = n};
    memcpy(it->dimensions, dimensions, n * sizeof(int));
    memcpy(it->strides, strides, n * sizeof(int));
    return SUCCESS;
}

API int cudnnSetFilterNdDescriptor(struct tensor *it, int type, int format, int n,
                                   const int *dimensions) {
    CALLED;
    if (n < 0 || n > MOST_DIMENSIONS)
        return BAD_PARAM;
    *it = (struct tensor){.type = type, .format = format, .n = n};
    memcpy(it->dimensions, dimensions, n * sizeof(int));
    return SUCCESS;
}

/* Return the number of values, and as many of them as requested. */
static int said(const struct tensor *it, int asked, int *type, int *n, int *dimensions) {
    *type = it->type;
    *n = it->n;
    int most = asked < it->n ? asked : it->n;
    if (most > 0)
        memcpy(dimensions, it->dimensions, most * sizeof(int));
    return most;
}

API int cudnnGetTensorNdDescriptor(const struct tensor *it, int asked, int *type, int *n,
                                   int *dimensions, int *strides) {
    CALLED;
    int most = said(it, asked, type, n, dimensions);
    if (most > 0)
        memcpy(strides, it->strides, most * sizeof(int));
    return SUCCESS;
}

API int cudnnGetFilterNdDescriptor(const struct tensor *it, int asked, int *type, int *format,
                                   int *n, int *dimensions) {
    CALLED;
    *format = it->format;
    said(it, asked, type, n, dimensions);
    return SUCCESS;
}
