/* eden's rotation: negate values at random, then apply a Hadamard transform. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_EDEN_ROTATION_H
#define FEDCODEC_EDEN_ROTATION_H

#include "codecs/prim/floats.h"
#include "fed/rng.h"

/* EDEN_LANES: values in one vector. EDEN_WORD: signs that one random number gives. */
enum { EDEN_LANES = 8, EDEN_WORD = 32 };

typedef float eden_floats __attribute__((vector_size(4 * EDEN_LANES)));
typedef uint32_t eden_bits __attribute__((vector_size(4 * EDEN_LANES)));

/* Negate v[i] where bit i of word is 1. n is at most 32. */
static inline void eden_negate(float *v, size_t n, uint32_t word) {
    for (uint32_t i = 0; i < n; i++) {
        v[i] = fedcodec_float(fedcodec_bits(v[i]) ^ word >> i << 31);
    }
}

/** Negate v[i] where bit i mod 32 of random number (first + i) / 32 is 1. first must be a multiple
 * of 32. */
static inline void eden_signs(uint32_t draw, size_t first, float *v, size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, draw, 0, 0);
    rng.counter[0] = (uint32_t)(first / EDEN_WORD / 4);
    for (size_t k = first / EDEN_WORD % 4; k > 0; k--) {
        (void)fed_rng_u32(&rng);
    }
    size_t i = 0;
    for (; i + EDEN_WORD <= n; i += EDEN_WORD) {
        eden_negate(v + i, EDEN_WORD, fed_rng_u32(&rng));
    }
    if (i < n) {
        eden_negate(v + i, n - i, fed_rng_u32(&rng));
    }
}

/* Do the steps 4, 2 and 1 of the Hadamard transform on eight values. Each step replaces a pair by
 * its sum and its difference. */
static inline void eden_rotate_lanes(float *at) {
    const uint32_t s = UINT32_C(1) << 31;
    const eden_bits four = {0, 0, 0, 0, s, s, s, s}, two = {0, 0, s, s, 0, 0, s, s};
    const eden_bits one = {0, s, 0, s, 0, s, 0, s};
    eden_floats v;
    memcpy(&v, at, sizeof v);
    v = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3) + (eden_floats)((eden_bits)v ^ four);
    v = __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5) + (eden_floats)((eden_bits)v ^ two);
    v = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6) + (eden_floats)((eden_bits)v ^ one);
    memcpy(at, &v, sizeof v);
}

/** Multiply v by the unscaled n x n Hadamard matrix. n must be a power of two of at least
 * EDEN_LANES. */
static inline void eden_rotate(float *v, size_t n) {
    for (size_t step = n / 2; step >= EDEN_LANES; step /= 2) {
        for (size_t start = 0; start < n; start += 2 * step) {
            float *restrict low = v + start, *restrict high = v + start + step;
            for (size_t i = 0; i < step; i++) {
                const float a = low[i], b = high[i];
                low[i] = a + b;
                high[i] = a - b;
            }
        }
    }
    for (size_t i = 0; i < n; i += EDEN_LANES) {
        eden_rotate_lanes(v + i);
    }
}

#endif
