/* cuSOLVER: handles. How much memory a factorization needs isn't known. Its status is stored in
 * device memory, which reads as zeros, meaning no error. */
#include "unknown.h"

API int cusolverDnCreate(void **made) {
    CALLED;
    *made = new_handle();
    outside_once(SOLVER);
    return SUCCESS;
}

MAKES_HANDLE(cusolverDnCreateParams)
MAKES_HANDLE(cusolverDnCreateGesvdjInfo)
MAKES_HANDLE(cusolverDnCreateSyevjInfo)

#define REAL(before, name)                                            \
    NEEDS(CUSOLVER, before, int, cusolverDnS##name##_bufferSize)      \
    NEEDS(CUSOLVER, before, int, cusolverDnD##name##_bufferSize)
#define COMPLEX(before, name)                                         \
    NEEDS(CUSOLVER, before, int, cusolverDnC##name##_bufferSize)      \
    NEEDS(CUSOLVER, before, int, cusolverDnZ##name##_bufferSize)
#define ALL(before, name) REAL(before, name) COMPLEX(before, name)

ALL(5, potrf)
ALL(5, geqrf)
ALL(5, getrf)
ALL(4, sytrf)
ALL(3, gesvd)
ALL(12, gesvdj)
ALL(11, gesvdjBatched)
ALL(16, gesvdaStridedBatched)
REAL(7, syevd)
COMPLEX(7, heevd)
REAL(7, syevj)
COMPLEX(7, heevj)
REAL(7, syevjBatched)
COMPLEX(7, heevjBatched)
REAL(7, orgqr)
COMPLEX(7, ungqr)
REAL(11, ormqr)
COMPLEX(11, unmqr)

NEEDS_TWO(CUSOLVER, 10, cusolverDnXgeqrf_bufferSize)
NEEDS_TWO(CUSOLVER, 8, cusolverDnXpotrf_bufferSize)
NEEDS_TWO(CUSOLVER, 11, cusolverDnXsyevd_bufferSize)
NEEDS_TWO(CUSOLVER, 11, cusolverDnXsyevBatched_bufferSize)
NEEDS_TWO(CUSOLVER, 11, cusolverDnXsytrs_bufferSize)
NEEDS_TWO(CUSOLVER, 17, cusolverDnXgeev_bufferSize)
