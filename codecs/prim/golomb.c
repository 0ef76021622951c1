/* Golomb coding: its parameter and its worst case. */
#include "codecs/prim/golomb.h"

#include <math.h>

unsigned fedcodec_golomb_b(double p) {
    const double phi = 1.6180339887498949; /* (sqrt(5) + 1) / 2 */
    double b = 1.0 + floor(log2(log(phi - 1.0) / log1p(-p)));
    return b < 0.0 ? 0 : b > FEDCODEC_GOLOMB_B_MAX ? FEDCODEC_GOLOMB_B_MAX : (unsigned)b;
}

size_t fedcodec_golomb_bound(size_t n, size_t k, unsigned b) {
    uint64_t bits = (uint64_t)k * (b + 1) + ((uint64_t)n >> b); /* the gaps' sum is at most n */
    return (size_t)((bits + 7) / 8);
}
