/* Count queries of how much memory a library needs. A dry run doesn't know it, but can estimate some. */
#include "unknown.h"

#include <pthread.h>

/* Names for `enum library`, in the same order. */
API const char memreplay_libraries[] = "cuDNN,cuSOLVER,cuFFT,cuSPARSE,cuSPARSELt";
/* How often each library was asked for a size that can't be estimated, and the total. */
API uint64_t memreplay_workspaces_of[LIBRARIES];
API uint64_t memreplay_workspaces;

/* Likewise for each kind of estimate, and the different sizes: how it was estimated, and bytes. A
 * program with more sizes than this is hardly possible. */
enum { MOST_SIZES = 8192 };
API uint64_t memreplay_estimates_of[ESTIMATES];
API uint64_t memreplay_estimated[MOST_SIZES][2];
API uint64_t memreplay_n_estimated;

void not_known(enum library of) {
    __atomic_add_fetch(&memreplay_workspaces_of[of], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&memreplay_workspaces, 1, __ATOMIC_RELAXED);
}

void estimated(enum estimate how, int64_t bytes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    memreplay_estimates_of[how]++;
    uint64_t i = 0;
    while (i < memreplay_n_estimated && (memreplay_estimated[i][0] != how ||
                                         memreplay_estimated[i][1] != (uint64_t)bytes))
        i++;
    if (i == memreplay_n_estimated && i < MOST_SIZES && bytes > 0) {
        memreplay_estimated[i][0] = how;
        memreplay_estimated[i][1] = (uint64_t)bytes;
        memreplay_n_estimated++;
    }
    pthread_mutex_unlock(&lock);
}
