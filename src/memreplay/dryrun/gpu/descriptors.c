/* cuDNN's operations by descriptors: convolutions, attention. A descriptor remembers what's needed to
 * estimate a convolution's workspace. That's handed on from tensors to operations, graphs, engines,
 * configurations and plans. */
#include "contents.h"
#include "convolutions.h"
#include "unknown.h"

#include <stdlib.h>
#include <string.h>

struct descriptor {
    int type;
    struct convolution of; /* a tensor is `x` */
};

/* cudnnBackendAttributeName_t and cudnnBackendAttributeType_t (cudnn_graph.h; only the values that
 * programs use). */
enum {
    DILATIONS = 102,
    STRIDES = 103,
    PADDING = 105,
    GRAPH_OF_HEURISTIC = 201,
    HEURISTIC_RESULTS = 202,
    ENGINE_OF_CONFIGURATION = 300,
    CONFIGURATION_OF_PLAN = 401,
    PLAN_WORKSPACE_BYTES = 402,
    /* Each pass has a convolution, weights, input and output, in this order. */
    FORWARD_CONVOLUTION = 702,
    OF_INPUT_CONVOLUTION = 708,
    OF_WEIGHTS_CONVOLUTION = 714,
    OPERATIONS_OF_GRAPH = 801,
    ENGINES_OF_GRAPH = 802,
    TENSOR_TYPE = 901,
    TENSOR_SIZES = 902,
    TENSOR_STRIDES = 903,
    POINTERS = 1001,
    GRAPH_OF_ENGINE = 1300
};
enum { TYPE_INT64 = 3, TYPE_DESCRIPTOR = 15, TYPE_INT32 = 23 };

API int cudnnBackendCreateDescriptor(int type, struct descriptor **made) {
    CALLED;
    *made = calloc(1, sizeof **made);
    if (!*made)
        return 2; /* CUDNN_STATUS_ALLOC_FAILED */
    (*made)->type = type;
    return SUCCESS;
}

API int cudnnBackendDestroyDescriptor(struct descriptor *it) {
    free(it);
    return SUCCESS;
}

/* Return how many numbers were copied. */
static int copy(int64_t *into, const void *values, int64_t count) {
    if (count < 0 || count > MOST_AXES)
        return 0;
    memcpy(into, values, (size_t)count * sizeof *into);
    return (int)count;
}

/* Set one operand of a pass, or its strides, padding and dilation. */
static void set_part(struct convolution *it, enum pass pass, int which,
                     const struct convolution *part) {
    struct operand *operands[] = {&it->w, &it->x, &it->y};
    it->pass = pass;
    if (which) {
        *operands[which - 1] = part->x;
        return;
    }
    it->n = part->n;
    memcpy(it->stride, part->stride, sizeof it->stride);
    memcpy(it->padding, part->padding, sizeof it->padding);
    memcpy(it->dilation, part->dilation, sizeof it->dilation);
}

static void set_descriptors(struct convolution *it, int name, int64_t count,
                            struct descriptor *const *values) {
    if (count < 1 || !values[0])
        return;
    const struct convolution *first = &values[0]->of;
    switch (name) {
    case GRAPH_OF_HEURISTIC:
    case GRAPH_OF_ENGINE:
    case ENGINE_OF_CONFIGURATION:
    case CONFIGURATION_OF_PLAN: *it = *first; return;
    case OPERATIONS_OF_GRAPH: /* others are fused with the convolution, such as its bias */
        for (int64_t i = 0; i < count; i++)
            if (values[i] && values[i]->of.pass != NO_PASS)
                *it = values[i]->of;
        return;
    }
    if (name >= FORWARD_CONVOLUTION && name < FORWARD_CONVOLUTION + 4)
        set_part(it, FORWARD, name - FORWARD_CONVOLUTION, first);
    else if (name >= OF_INPUT_CONVOLUTION && name < OF_INPUT_CONVOLUTION + 4)
        set_part(it, OF_INPUT, name - OF_INPUT_CONVOLUTION, first);
    else if (name >= OF_WEIGHTS_CONVOLUTION && name < OF_WEIGHTS_CONVOLUTION + 4)
        set_part(it, OF_WEIGHTS, name - OF_WEIGHTS_CONVOLUTION, first);
}

API int cudnnBackendSetAttribute(struct descriptor *it, int name, int type, int64_t count,
                                 const void *values) {
    CALLED;
    if (!it || !values || count < 1)
        return SUCCESS;
    struct convolution *of = &it->of;
    if (type == TYPE_DESCRIPTOR) {
        set_descriptors(of, name, count, values);
        return SUCCESS;
    }
    switch (name) {
    case DILATIONS: of->n = copy(of->dilation, values, count); break;
    case STRIDES: of->n = copy(of->stride, values, count); break;
    case PADDING: of->n = copy(of->padding, values, count); break;
    case TENSOR_TYPE: memcpy(&of->x.type, values, sizeof of->x.type); break;
    case TENSOR_SIZES: of->x.n = copy(of->x.sizes, values, count); break;
    case TENSOR_STRIDES: copy(of->x.strides, values, count); break;
    case POINTERS: /* the plan that gets these may write to them */
        if (is_anything_known() && !are_writes_noted(__builtin_return_address(0)))
            doubt_blocks_of(values, (const uint64_t *)values + count);
        break;
    }
    return SUCCESS;
}

API int cudnnBackendGetAttribute(struct descriptor *it, int name, int type, int64_t asked,
                                 int64_t *count, void *values) {
    CALLED;
    int64_t none = 0, *found = count ? count : &none;
    size_t bytes = type == TYPE_INT64 ? sizeof(int64_t) : type == TYPE_INT32 ? sizeof(int32_t) : 0;
    int is_engine = name == HEURISTIC_RESULTS || name == ENGINE_OF_CONFIGURATION;
    *found = is_engine || bytes;
    if (!values || asked < 1)
        return SUCCESS;
    memset(values, 0, bytes); /* for example, no shared memory is needed */
    if (it && is_engine && *(struct descriptor **)values)
        (*(struct descriptor **)values)->of = it->of; /* one engine, which can do everything */
    if (name == ENGINES_OF_GRAPH && bytes)
        *(int64_t *)values = 1024; /* every engine number that a program asks for exists */
    if (it && name == PLAN_WORKSPACE_BYTES && bytes == sizeof(int64_t))
        *(int64_t *)values = convolution_workspace(&it->of);
    return SUCCESS;
}
