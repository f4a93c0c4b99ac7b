/* Count queries of how much memory a library needs, which a dry run doesn't know. */
#include "unknown.h"

/* Names for `enum library`, in the same order. */
API const char memreplay_libraries[] = "cuDNN,cuSOLVER,cuFFT,cuSPARSE,cuSPARSELt";
/* How often each library was asked, and the total. */
API uint64_t memreplay_workspaces_of[LIBRARIES];
API uint64_t memreplay_workspaces;

void not_known(enum library of) {
    __atomic_add_fetch(&memreplay_workspaces_of[of], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&memreplay_workspaces, 1, __ATOMIC_RELAXED);
}
