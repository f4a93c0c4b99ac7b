/* Functions that return how much memory a library call needs. The real size depends on the library
 * and the GPU. For convolutions and recurrent networks it's estimated, otherwise it's 0. Each query is
 * counted. */
#ifndef MEMREPLAY_UNKNOWN_H
#define MEMREPLAY_UNKNOWN_H

#include "gpu.h"

/* In the same order as memreplay_libraries. */
enum library { CUDNN, CUSOLVER, CUFFT, CUSPARSE, CUSPARSELT, LIBRARIES };

/* Count a query that can't be answered here. */
void not_known(enum library of);

/* How a size was found: by an estimate, or in the user's measurements. In the same order as in
 * commands/dryrun/estimates.py. */
enum estimate { CONVOLUTIONS, CHANNELS_LAST, RECURRENT, MEASURED, ESTIMATES };

/* Count a query that's answered with an estimate, and remember its size. */
void estimated(enum estimate how, int64_t bytes);

/* --- measured.c --------------------------------------------------------------------------------- */

enum { KEY = 512 }; /* the maximum length of a key */

/* Find a configuration in the user's measurements, and its two sizes in bytes: of the workspace and of
 * the reserve space. Returns 0 if it's not there. */
int find_measured(const char *key, uint64_t sizes[2]);

/* Ignored arguments. None is a floating-point number, so each takes the next position, whatever its
 * type. */
#define ANY(n) void *argument_##n __attribute__((unused))
#define ANY_1 ANY(1)
#define ANY_2 ANY_1, ANY(2)
#define ANY_3 ANY_2, ANY(3)
#define ANY_4 ANY_3, ANY(4)
#define ANY_5 ANY_4, ANY(5)
#define ANY_6 ANY_5, ANY(6)
#define ANY_7 ANY_6, ANY(7)
#define ANY_8 ANY_7, ANY(8)
#define ANY_9 ANY_8, ANY(9)
#define ANY_10 ANY_9, ANY(10)
#define ANY_11 ANY_10, ANY(11)
#define ANY_12 ANY_11, ANY(12)
#define ANY_13 ANY_12, ANY(13)
#define ANY_14 ANY_13, ANY(14)
#define ANY_15 ANY_14, ANY(15)
#define ANY_16 ANY_15, ANY(16)
#define ANY_17 ANY_16, ANY(17)
#define ANY_18 ANY_17, ANY(18)
#define ANY_19 ANY_18, ANY(19)

/* A function that returns the size through a pointer that follows this many arguments. */
#define NEEDS(library, before, type, function)  \
    API int function(ANY_##before, type *needed) {    \
        CALLED;                                 \
        *needed = 0;                            \
        not_known(library);                     \
        return SUCCESS;                         \
    }

/* A function that returns two sizes through pointers, which may be NULL. */
#define NEEDS_TWO(library, before, function)                               \
    API int function(ANY_##before, size_t *one, size_t *other) {           \
        CALLED;                                                            \
        if (one)                                                           \
            *one = 0;                                                      \
        if (other)                                                         \
            *other = 0;                                                    \
        not_known(library);                                                \
        return SUCCESS;                                                    \
    }

#endif
