/* Largest magnitudes, found on the bits: a float comparison would overlook NaN. */
#include "codecs/prim/floats.h"

/* Signed, so that the compiler finds a vector instruction for the maximum. */
static int32_t magnitude(float v) {
    return (int32_t)(fedcodec_bits(v) & FEDCODEC_MAGNITUDE);
}

float fedcodec_max_magnitude(const float *x, size_t n) {
    int32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t m = magnitude(x[i]);
        max = m > max ? m : max;
    }
    return fedcodec_float((uint32_t)max);
}

float fedcodec_max_magnitude_sum(const float *x, const float *y, size_t n) {
    int32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t m = magnitude(x[i] + y[i]);
        max = m > max ? m : max;
    }
    return fedcodec_float((uint32_t)max);
}
