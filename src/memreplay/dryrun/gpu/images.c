/* Find what a kernel was compiled for, that is, the image in its module that a driver would choose
 * for this card. Libraries such as CUB make choices based on it and fail if it's wrong. */
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* nvcc adds this struct to a program for each module. It points to the module's images
 * (fatbinary_section.h). */
struct module {
    uint32_t magic, version;
    const unsigned char *images;
};
enum { MODULE_MAGIC = 0x466243b1, IMAGES_MAGIC = (int)0xba55ed50 };

/* The header of the list of images, and the header of each image. Only the fields that are read. */
struct images {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};
struct image {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t unread[3], capability; /* e.g. 86 */
};
enum { PTX = 1, BINARY = 2 };

struct kernel {
    const void *function;
    const struct module *module;
    int64_t order;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *kernels; /* if `sorted`, by function, latest first */
static int64_t n_kernels, room;
static int sorted;

/* The handle is simply the module. */
API void **__cudaRegisterFatBinary(void *module) {
    return module;
}

API void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

API void __cudaUnregisterFatBinary(void **handle) {
    (void)handle;
}

/* Further arguments are ignored. */
API void __cudaRegisterFunction(void **handle, const void *function) {
    pthread_mutex_lock(&lock);
    if (have_room((void **)&kernels, n_kernels + 1, &room, sizeof *kernels)) {
        kernels[n_kernels] = (struct kernel){function, (const struct module *)handle, n_kernels};
        n_kernels++;
        sorted = 0;
    }
    pthread_mutex_unlock(&lock);
}

static int by_function(const void *one, const void *other) {
    const struct kernel *a = one, *b = other;
    if (a->function != b->function)
        return (uintptr_t)a->function < (uintptr_t)b->function ? -1 : 1;
    return a->order > b->order ? -1 : a->order < b->order;
}

static const struct module *module_of(const void *function) {
    const struct module *found = NULL;
    pthread_mutex_lock(&lock);
    if (!sorted)
        qsort(kernels, n_kernels, sizeof *kernels, by_function);
    sorted = 1;
    int64_t low = 0, high = n_kernels;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if ((uintptr_t)kernels[middle].function < (uintptr_t)function)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < n_kernels && kernels[low].function == function)
        found = kernels[low].module;
    pthread_mutex_unlock(&lock);
    return found;
}

int compiled_for(const void *function, int *ptx, int *binary) {
    const struct module *module = module_of(function);
    int own = 10 * card()->major + card()->minor, text = 0, best = 0;
    struct images all;
    *ptx = *binary = own;
    if (!module || module->magic != MODULE_MAGIC || !module->images)
        return 1;
    memcpy(&all, module->images, sizeof all);
    if (all.magic != (uint32_t)IMAGES_MAGIC)
        return 1;
    const unsigned char *at = module->images + all.header_bytes, *end = at + all.bytes;
    struct image one;
    for (; at + sizeof one <= end; at += one.header_bytes + one.bytes) {
        memcpy(&one, at, sizeof one);
        if (one.header_bytes < sizeof one)
            return 1; /* an unknown format */
        int capability = (int)one.capability;
        if (capability > own)
            continue;
        /* Binaries run on later minor versions of the same major version, PTX on all later
         * versions. */
        if (one.kind == BINARY && capability / 10 == card()->major && capability > best)
            best = capability;
        if (one.kind == PTX && capability > text)
            text = capability;
    }
    if (best)
        *ptx = *binary = best;
    else
        *ptx = text;
    return best || text;
}
