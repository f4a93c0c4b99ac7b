/* Convolutions as cuDNN's descriptors give them, and how much workspace they need. */
#ifndef MEMREPLAY_CONVOLUTIONS_H
#define MEMREPLAY_CONVOLUTIONS_H

#include "gpu.h"

enum { MOST_AXES = 8 }; /* CUDNN_DIM_MAX */

/* What is computed: the output, or the gradient of the input or of the weights. */
enum pass { NO_PASS, FORWARD, OF_INPUT, OF_WEIGHTS };

struct operand {
    int type, n; /* cudnnDataType_t, number of dimensions */
    int64_t sizes[MOST_AXES], strides[MOST_AXES];
};

struct convolution {
    enum pass pass;
    struct operand x, w, y;
    int n; /* number of spatial dimensions */
    int64_t stride[MOST_AXES], padding[MOST_AXES], dilation[MOST_AXES];
};

/* Return the size of a workspace in bytes; 0 if it isn't known, which is counted. */
int64_t convolution_workspace(const struct convolution *it);

#endif
