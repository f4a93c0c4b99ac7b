/* cuDNN's recurrent networks. The descriptor determines the weights' sizes and positions. How much
 * memory a pass needs isn't known. */
#include "tensors.h"
#include "unknown.h"

#include <stdlib.h>

/* cudnnRNNMode_t, cudnnRNNBiasMode_t. */
enum { RELU, TANH, LSTM, GRU };
enum { NO_BIAS, INPUT_BIAS, DOUBLE_BIAS, RECURRENT_BIAS };

struct network {
    int mode, bias, type; /* cudnnDataType_t */
    int skips_input;      /* the first layer has no matrix for the input */
    int64_t directions, layers;
    /* vector sizes; without projection, `projected` equals `hidden` */
    int64_t input, hidden, projected;
};

API int cudnnCreateRNNDescriptor(struct network **made) {
    CALLED;
    *made = calloc(1, sizeof **made);
    return *made ? SUCCESS : 2; /* CUDNN_STATUS_ALLOC_FAILED */
}

API int cudnnDestroyRNNDescriptor(struct network *it) {
    free(it);
    return SUCCESS;
}

API int cudnnSetRNNDescriptor_v8(struct network *it, int algorithm, int mode, int bias,
                                 int direction, int input_mode, int type, int precision, int math,
                                 int input, int hidden, int projected, int layers, void *dropout,
                                 unsigned flags) {
    CALLED;
    (void)algorithm, (void)precision, (void)math, (void)dropout, (void)flags;
    *it = (struct network){mode, bias, type, input_mode, direction ? 2 : 1, layers,
                           input, hidden, projected};
    return SUCCESS;
}

static int gates(const struct network *it) {
    return it->mode == LSTM ? 4 : it->mode == GRU ? 3 : 1;
}

/* The matrices of each layer and direction are numbered: one per gate for the input, one per gate
 * for the layer's own output, and one that projects the output. */
struct shape {
    int64_t rows, columns;
};

static struct shape matrix(const struct network *it, int64_t layer, int number) {
    int n = gates(it), is_first = layer < it->directions;
    if (number < n && is_first && it->skips_input)
        return (struct shape){0, 0};
    if (number < n)
        return (struct shape){it->hidden, is_first ? it->input : it->directions * it->projected};
    if (number < 2 * n)
        return (struct shape){it->hidden, it->projected};
    if (number == 2 * n && it->projected != it->hidden)
        return (struct shape){it->projected, it->hidden};
    return (struct shape){0, 0};
}

/* Likewise the biases. */
static int64_t bias(const struct network *it, int number) {
    int of_input = number < gates(it);
    int has = it->bias == DOUBLE_BIAS || it->bias == (of_input ? INPUT_BIAS : RECURRENT_BIAS);
    return has && number < 2 * gates(it) ? it->hidden : 0;
}

/* Return how many elements precede a matrix. Layers follow each other, and all matrices come before
 * all biases. */
static int64_t in_front_of_matrix(const struct network *it, int64_t layer, int number) {
    int64_t elements = 0;
    for (int64_t of = 0; of <= layer; of++)
        for (int i = 0; i < (of < layer ? 2 * gates(it) + 1 : number); i++) {
            struct shape shape = matrix(it, of, i);
            elements += shape.rows * shape.columns;
        }
    return elements;
}

static int64_t in_front_of_bias(const struct network *it, int64_t layer, int number) {
    int64_t elements = in_front_of_matrix(it, it->layers * it->directions, 0), of_layer = 0;
    for (int i = 0; i < 2 * gates(it); i++) {
        of_layer += bias(it, i);
        if (i < number)
            elements += bias(it, i);
    }
    return elements + layer * of_layer;
}

static int64_t bytes_of(int type) {
    switch (type) {
    case 1: return 8;         /* double */
    case 2: case 9: return 2; /* half, bfloat16 */
    default: return 4;
    }
}

API int cudnnGetRNNWeightSpaceSize(void *handle, const struct network *it, size_t *bytes) {
    CALLED;
    (void)handle;
    *bytes = in_front_of_bias(it, it->layers * it->directions, 0) * bytes_of(it->type);
    return SUCCESS;
}

API int cudnnGetRNNWeightParams(void *handle, const struct network *it, int layer,
                                size_t weight_bytes, char *weights, int number,
                                struct tensor *matrix_is, void **matrix_at, struct tensor *bias_is,
                                void **bias_at) {
    CALLED;
    (void)handle, (void)weight_bytes;
    int64_t element = bytes_of(it->type);
    if (matrix_is) {
        struct shape shape = matrix(it, layer, number);
        set_matrix(matrix_is, it->type, (int)shape.rows, (int)shape.columns);
        if (matrix_at)
            *matrix_at =
                shape.rows ? weights + in_front_of_matrix(it, layer, number) * element : NULL;
    }
    if (bias_is) {
        int64_t rows = bias(it, number);
        set_matrix(bias_is, it->type, (int)rows, 1);
        if (bias_at)
            *bias_at = rows ? weights + in_front_of_bias(it, layer, number) * element : NULL;
    }
    return SUCCESS;
}

MAKES_HANDLE(cudnnCreateRNNDataDescriptor)
/* The size of a workspace, and of the data that the backward pass needs from the forward pass. */
NEEDS_TWO(CUDNN, 4, cudnnGetRNNTempSpaceSizes)
