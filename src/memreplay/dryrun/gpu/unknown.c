/* How often a library was asked how much memory it needs: what is not known of a run. */
#include "unknown.h"

/* Names of `enum library`, in its order. */
API const char memreplay_libraries[] = "cuDNN,cuSOLVER,cuFFT,cuSPARSE,cuSPARSELt";
/* How often each was asked, and all of them. */
API uint64_t memreplay_workspaces_of[LIBRARIES];
API uint64_t memreplay_workspaces;

void not_known(enum library of) {
    __atomic_add_fetch(&memreplay_workspaces_of[of], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&memreplay_workspaces, 1, __ATOMIC_RELAXED);
}
