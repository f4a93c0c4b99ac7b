/* cuDNN's recurrent networks. The descriptor determines the weights' sizes and positions. How much
 * memory a pass needs is estimated by formulas that were fitted to measurements of 392 networks, LSTM
 * and GRU in fp32 and fp16, with cuDNN 9.19 on an H200. docs/dryrun.md says how accurate they are. */
#include "tensors.h"
#include "unknown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cudnnRNNMode_t, cudnnRNNBiasMode_t. */
enum { RELU, TANH, LSTM, GRU };
enum { NO_BIAS, INPUT_BIAS, DOUBLE_BIAS, RECURRENT_BIAS };

/* cudnnRNNAlgo_t. */
enum { STANDARD, STATIC, DYNAMIC, SMALL };

struct network {
    int algorithm, mode, bias, type; /* cudnnDataType_t */
    int drops; /* whether there is dropout between layers */
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

struct dropout {
    float probability;
};

API int cudnnCreateDropoutDescriptor(struct dropout **made) {
    CALLED;
    *made = calloc(1, sizeof **made);
    return *made ? SUCCESS : 2;
}

API int cudnnDestroyDropoutDescriptor(struct dropout *it) {
    free(it);
    return SUCCESS;
}

API int cudnnSetDropoutDescriptor(struct dropout *it, void *handle, float probability, void *states,
                                  size_t bytes, unsigned long long seed) {
    CALLED;
    (void)handle, (void)states, (void)bytes, (void)seed;
    it->probability = probability;
    return SUCCESS;
}

API int cudnnRestoreDropoutDescriptor(struct dropout *it, void *handle, float probability,
                                      void *states, size_t bytes, unsigned long long seed) {
    return cudnnSetDropoutDescriptor(it, handle, probability, states, bytes, seed);
}

/* A generator of random numbers for each thread that fits the card. An H200 needs 6,488,064 bytes. */
API int cudnnDropoutGetStatesSize(void *handle, size_t *bytes) {
    enum { GENERATOR = 24 };
    CALLED;
    (void)handle;
    *bytes = (size_t)card()->sms * card()->threads_sm * GENERATOR;
    estimated(RECURRENT, (int64_t)*bytes);
    return SUCCESS;
}

API int cudnnSetRNNDescriptor_v8(struct network *it, int algorithm, int mode, int bias,
                                 int direction, int input_mode, int type, int precision, int math,
                                 int input, int hidden, int projected, int layers,
                                 const struct dropout *dropout, unsigned flags) {
    CALLED;
    (void)precision, (void)math, (void)flags;
    *it = (struct network){.algorithm = algorithm,
                           .mode = mode,
                           .bias = bias,
                           .type = type,
                           .drops = dropout && dropout->probability > 0,
                           .skips_input = input_mode,
                           .directions = direction ? 2 : 1,
                           .layers = layers,
                           .input = input,
                           .hidden = hidden,
                           .projected = projected};
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

/* --- memory for a pass ---------------------------------------------------------------------------- */

/* A batch of sequences. */
struct sequences {
    int64_t longest, batch;
    int64_t steps; /* of all sequences, with padding unless they are packed */
};

API int cudnnCreateRNNDataDescriptor(struct sequences **made) {
    CALLED;
    *made = calloc(1, sizeof **made);
    return *made ? SUCCESS : 2;
}

API int cudnnDestroyRNNDataDescriptor(struct sequences *it) {
    free(it);
    return SUCCESS;
}

API int cudnnSetRNNDataDescriptor(struct sequences *it, int type, int layout, int longest, int batch,
                                  int vector, const int *lengths, void *padding) {
    enum { PACKED = 1 }; /* cudnnRNNDataLayout_t */
    CALLED;
    (void)type, (void)vector, (void)padding;
    *it = (struct sequences){longest, batch, (int64_t)longest * batch};
    if (layout == PACKED && lengths) {
        it->steps = 0;
        for (int i = 0; i < batch; i++)
            it->steps += lengths[i];
    }
    return SUCCESS;
}

/* What the backward pass needs from the forward pass: gates and states of each layer, inputs of all
 * layers but the first, and which of these inputs were dropped. */
static int64_t reserve(const struct network *it, const struct sequences *of) {
    int64_t kept = it->mode == LSTM ? 5 : it->mode == GRU ? 6 : 1; /* RNNs weren't measured */
    int64_t vectors = of->steps * it->hidden * it->directions, between = it->layers - 1;
    int64_t dropped = it->drops ? vectors * between * it->directions / 8 : 0;
    return 256 + bytes_of(it->type) * vectors * (kept * it->layers + between) + dropped;
}

/* How many vectors of `hidden` elements a workspace has, in halves for each step, and in wholes for each
 * layer and sequence. */
struct vectors {
    int64_t halves_of_step, of_sequence;
};

static struct vectors vectors(const struct network *it) {
    int both = it->directions == 2, more = it->layers > 1;
    int is_small = it->algorithm == SMALL || (it->algorithm == STATIC && it->mode == LSTM);
    int dropped = !both && more && it->drops ? 2 : 0; /* the input without what was dropped */
    if (it->mode == GRU && is_small)
        return (struct vectors){both ? 49 + 4 * more : 37 + 2 * more, both ? 14 : 6};
    if (it->mode == GRU)
        return (struct vectors){both ? 24 + more : 9 - more + dropped, both ? 14 : 5};
    if (it->mode == LSTM)
        return (struct vectors){(both ? 28 : 10) + 32 * is_small + dropped,
                                is_small ? (both ? 18 : 8) : (both ? 24 : 10)};
    /* not measured */
    return (struct vectors){(both ? 16 : 4) + 32 * is_small + dropped, both ? 12 : 5};
}

/* 8 MiB for the matrix products of each layer and direction, and copies of matrices and vectors. */
static int64_t workspace(const struct network *it, const struct sequences *of) {
    struct vectors n = vectors(it);
    int64_t products = (int64_t)8 << 20, layers = it->layers * it->directions;
    int64_t elements = in_front_of_matrix(it, layers, 0) +
                       of->steps * it->hidden * n.halves_of_step / 2 + of->steps * it->input +
                       it->layers * of->batch * it->hidden * n.of_sequence;
    return 256 + 8 * of->batch + layers * products + bytes_of(it->type) * elements;
}

static int write_key(const struct network *it, const struct sequences *of, char *text) {
    static const char *const modes[] = {"RNN", "RNN", "LSTM", "GRU"};
    const char *type = it->type == 0 ? "float32" : it->type == 2 ? "float16" : "bfloat16";
    int n = snprintf(text, KEY,
                     "%s %s input=%lld hidden=%lld layers=%lld directions=%lld dropout=%d batch=%lld"
                     " time=%lld",
                     modes[it->mode & 3], type, (long long)it->input, (long long)it->hidden,
                     (long long)it->layers, (long long)it->directions, it->drops,
                     (long long)of->batch, (long long)of->longest);
    int is_other = it->type != 0 && it->type != 2 && it->type != 9;
    return n < KEY && !is_other && it->projected == it->hidden &&
           of->steps == of->longest * of->batch;
}

API int cudnnGetRNNTempSpaceSizes(void *handle, const struct network *it, int is_training,
                                  const struct sequences *of, size_t *workspace_bytes,
                                  size_t *reserve_bytes) {
    CALLED;
    (void)handle;
    char key[KEY];
    uint64_t found[2];
    int is_measured = write_key(it, of, key) && find_measured(key, found);
    if (!is_measured) {
        found[0] = (uint64_t)workspace(it, of);
        found[1] = (uint64_t)reserve(it, of);
    }
    size_t *sizes[] = {workspace_bytes, reserve_bytes};
    for (int i = 0; i < 2; i++)
        if (sizes[i]) {
            *sizes[i] = i && !is_training ? 0 : found[i];
            estimated(is_measured ? MEASURED : RECURRENT, (int64_t)*sizes[i]);
        }
    return SUCCESS;
}
