/* cuDNN's descriptors of tensors and of filters, which keep what was set. */
#ifndef MEMREPLAY_TENSORS_H
#define MEMREPLAY_TENSORS_H

enum { MOST_DIMENSIONS = 8 }; /* CUDNN_DIM_MAX */

struct tensor {
    int type; /* cudnnDataType_t */
    int format;
    int n;
    int dimensions[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
};

/* A tensor of three dimensions, the first of which is 1; of none, where there are no rows. */
void set_matrix(struct tensor *it, int type, int rows, int columns);

#endif
