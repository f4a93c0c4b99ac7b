/* cuDNN's tensor and filter descriptors, which store the values that were set. */
#ifndef MEMREPLAY_TENSORS_H
#define MEMREPLAY_TENSORS_H

enum { MOST_DIMENSIONS = 8 }; /* CUDNN_DIM_MAX */

struct tensor {
    int type; /* cudnnDataType_t */
    int format;
    int n;
    int dimensions[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
};

/* Set a tensor with three dimensions, the first of which is 1, or without dimensions if there are
 * no rows. */
void set_matrix(struct tensor *it, int type, int rows, int columns);

#endif
