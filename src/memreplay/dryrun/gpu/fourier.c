/* cuFFT: plans. How much memory a plan needs isn't known. */
#include "unknown.h"

API int cufftCreate(int *plan) {
    CALLED;
    outside_once(FFT);
    *plan = 1;
    return SUCCESS;
}

NEEDS(CUFFT, 12, size_t, cufftXtMakePlanMany)
NEEDS(CUFFT, 11, size_t, cufftMakePlanMany)
NEEDS(CUFFT, 11, size_t, cufftMakePlanMany64)
NEEDS(CUFFT, 1, size_t, cufftGetSize)
