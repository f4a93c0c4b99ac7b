/* Estimate how much workspace cuDNN takes for a convolution. Measured with cuDNN 9.19 on an H200: 2,546
 * convolutions of torchvision's models and of a diffusion UNet, forward and backward, in fp32 (with
 * TF32), fp16 and bf16. docs/dryrun.md says how accurate this is. Tensor cores want channels last, so
 * most of it is copies of operands in that layout; the rest are partial sums of weights' gradients, for
 * which the multiprocessors divide up the batch and the positions. */
#include "convolutions.h"

#include "unknown.h"

#include <stdio.h>

/* cudnnDataType_t. */
enum { FLOAT = 0, HALF = 2, BFLOAT16 = 9 };

struct facts {
    enum pass pass;
    int64_t element; /* bytes */
    int is_last;     /* whether channels are the last dimension in memory */
    int64_t batch, channels, filters, groups, taps, in, out; /* in, out: number of positions */
    int is_strided, is_dilated;
    int64_t x, w, y; /* bytes of the operands */
    int64_t sums;    /* bytes of the weights' gradients in fp32 */
};

static int64_t up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

static int64_t least(int64_t one, int64_t other) {
    return one < other ? one : other;
}

static int64_t product(const int64_t *of, int n) {
    int64_t found = 1;
    for (int i = 0; i < n; i++)
        found *= of[i];
    return found;
}

static int any_above_1(const int64_t *of, int n) {
    for (int i = 0; i < n; i++)
        if (of[i] > 1)
            return 1;
    return 0;
}

static int is_whole(const struct operand *of, int n) {
    if (of->n != n)
        return 0;
    for (int i = 0; i < n; i++)
        if (of->sizes[i] < 1)
            return 0;
    return 1;
}

/* Returns 0 if such convolutions weren't measured. */
static int look_at(const struct convolution *it, struct facts *out) {
    int n = it->n, type = it->x.type;
    int64_t element = type == FLOAT ? 4 : type == HALF || type == BFLOAT16 ? 2 : 0;
    if (it->pass == NO_PASS || !element || card()->major < 8 || n < 1 || n + 2 > MOST_AXES ||
        !is_whole(&it->x, n + 2) || !is_whole(&it->w, n + 2) || !is_whole(&it->y, n + 2))
        return 0;
    int64_t channels = it->x.sizes[1], filters = it->y.sizes[1];
    *out = (struct facts){
        .pass = it->pass,
        .element = element,
        .is_last = it->x.strides[1] == 1,
        .batch = it->x.sizes[0],
        .channels = channels,
        .filters = filters,
        .groups = channels / it->w.sizes[1],
        .taps = product(it->w.sizes + 2, n),
        .in = product(it->x.sizes + 2, n),
        .out = product(it->y.sizes + 2, n),
        .is_strided = any_above_1(it->stride, n),
        .is_dilated = any_above_1(it->dilation, n),
    };
    out->x = out->batch * channels * out->in * element;
    out->y = out->batch * filters * out->out * element;
    out->sums = product(it->w.sizes, n + 2) * 4;
    out->w = out->sums / 4 * element;
    return out->groups >= 1;
}

/* Partial sums: one copy of the weights' gradients for each share of the work. Shares are such that
 * each multiprocessor gets a tile. */
static int64_t partial_sums(const struct facts *it) {
    enum { TILE = 128 };
    int is_single = it->element == 4, is_point = it->taps == 1;
    int is_wide = is_single && it->is_last;
    int64_t columns = it->sums / 4 / it->filters, width = columns % TILE && !is_wide ? TILE / 2 : TILE;
    int64_t tiles = up(it->filters, TILE) / TILE * (up(columns, width) / width);
    int64_t shares = card()->sms * (is_wide ? 2 : 1);
    shares = is_single && !is_wide ? up(shares, tiles) / tiles : shares / tiles;
    /* A share has at least so many positions. */
    int64_t positions = is_single ? (is_wide ? (is_point ? 150 : 1500) : 800) : (is_point ? 1500 : 3000);
    shares = least(shares, it->batch * it->out / positions);
    return shares > 1 ? shares * it->sums : 0;
}

/* The input padded to a multiple of this many channels. */
static int64_t padded(const struct facts *it, int64_t to) {
    return it->x / it->channels * up(it->channels, to);
}

enum { FEW = 4 }; /* so few channels that cuDNN has kernels of their own for them, such as RGB */

static int64_t channels_last(const struct facts *it) {
    int64_t sums = it->pass == OF_WEIGHTS ? partial_sums(it) : 0;
    if (it->channels <= FEW && it->element == 2) {
        int is_large = it->taps > 16 && it->pass != OF_INPUT;
        if (it->pass == FORWARD && it->channels == 3 && !is_large)
            return 0;
        return padded(it, is_large ? 4 : 8) + sums;
    }
    if (it->channels <= FEW && it->pass == OF_WEIGHTS)
        return (it->channels == 3 && !it->is_strided ? padded(it, 4) : it->x + it->y) + sums;
    if (it->channels <= FEW)
        return it->pass == FORWARD ? it->x + it->w : 0;
    if (it->element == 4 && it->pass == OF_WEIGHTS && (it->groups > 1 || it->is_dilated))
        return it->x + it->y + sums;
    if (it->element == 4 && it->pass == OF_INPUT && it->groups > 1 && it->is_strided)
        return it->w + it->y;
    return sums;
}

static int64_t few_channels_first(const struct facts *it) {
    if (it->element == 4 && it->pass == OF_WEIGHTS)
        return it->w >= 5000 * 4 ? it->x + it->y + partial_sums(it) : 0;
    if (it->element == 4)
        return it->pass == FORWARD && it->w >= 9000 * 4 ? it->x + it->w + it->y : 0;
    if (it->pass == FORWARD)
        return it->taps > 16 || it->channels > 3 ? padded(it, 4) + it->y : 0;
    if (it->pass == OF_INPUT)
        return padded(it, it->is_strided ? 8 : 4) + it->y;
    return padded(it, 4) + it->y + partial_sums(it);
}

/* With a filter of one position, a convolution is a matrix product for each image. */
static int64_t products(const struct facts *it) {
    if (it->pass != OF_WEIGHTS)
        return 0;
    int64_t of_images = it->batch * it->sums, copied = it->x + it->y;
    if (it->element == 2)
        return least(of_images, copied + partial_sums(it));
    if (it->channels <= 32 && it->in >= 3000)
        return copied + partial_sums(it);
    return it->sums / 4 < 1280 * 1280 ? of_images : copied;
}

static int64_t channels_first(const struct facts *it) {
    int is_point = it->taps == 1;
    if (it->channels <= FEW)
        return few_channels_first(it);
    if (is_point && !it->is_strided)
        return products(it);
    if (is_point && it->channels <= 64 && (it->pass == FORWARD || it->element == 4) &&
        it->pass != OF_WEIGHTS)
        return 0;
    if (it->pass == OF_WEIGHTS) {
        int64_t sums = partial_sums(it);
        return it->x + it->y + (sums ? sums : it->w);
    }
    if (it->pass == FORWARD && it->element == 4 && it->channels <= 64 && it->filters >= 128 &&
        !is_point)
        return it->x + it->w; /* these kernels write the output in its own layout */
    return it->x + it->y + (is_point ? 0 : it->w);
}

static int64_t depthwise(const struct facts *it) {
    if (it->pass != OF_WEIGHTS || !it->is_last)
        return 0;
    if (it->element == 2)
        return 8 * it->batch * up(it->channels, 32) * it->taps * 4;
    return it->taps >= 49 && it->channels < 384 ? 8 * it->x : 0;
}

static int64_t estimate(const struct facts *it) {
    if (it->out == 1) /* a matrix product */
        return it->in > 1 && it->pass == FORWARD ? it->x + it->w : 0;
    if (it->groups > 1 && it->groups == it->channels)
        return depthwise(it);
    return it->is_last ? channels_last(it) : channels_first(it);
}

/* --- measured by the user ------------------------------------------------------------------------- */

static int append(char *text, int at, const char *name, const int64_t *numbers, int n) {
    at += snprintf(text + at, at < KEY ? KEY - at : 0, " %s=", name);
    for (int i = 0; i < n && at < KEY; i++)
        at += snprintf(text + at, KEY - at, "%s%lld", i ? "," : "", (long long)numbers[i]);
    return at < KEY ? at : KEY;
}

/* dryrun/workspaces.py writes the same keys. */
static void write_key(const struct convolution *it, const struct facts *facts, char *text) {
    static const char *const passes[] = {"", "forward", "input", "weights"};
    static const char *const types[] = {"float32", "", "float16", "", "", "", "", "", "", "bfloat16"};
    int n = it->n, at = snprintf(text, KEY, "convolution %s %s %s", passes[it->pass],
                                 types[it->x.type], facts->is_last ? "last" : "first");
    at = append(text, at, "x", it->x.sizes, n + 2);
    at = append(text, at, "w", it->w.sizes, n + 2);
    at = append(text, at, "stride", it->stride, n);
    at = append(text, at, "padding", it->padding, n);
    append(text, at, "dilation", it->dilation, n);
}

int64_t convolution_workspace(const struct convolution *it) {
    struct facts facts;
    char key[KEY];
    uint64_t found[2];
    if (!look_at(it, &facts)) {
        not_known(CUDNN);
        return 0;
    }
    write_key(it, &facts, key);
    int is_measured = find_measured(key, found);
    int64_t bytes = is_measured ? (int64_t)found[0] : estimate(&facts);
    estimated(is_measured ? MEASURED : facts.is_last ? CHANNELS_LAST : CONVOLUTIONS, bytes);
    return bytes;
}
