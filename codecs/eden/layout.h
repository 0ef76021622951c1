/* eden: rotate a bucket of values, and rotate it back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_EDEN_LAYOUT_H
#define FEDCODEC_EDEN_LAYOUT_H

#include "codecs/eden/rotation.h"
#include "codecs/prim/eden_message.h"
#include "codecs/prim/floats.h"

_Static_assert((int)EDEN_WIDTH_MIN >= (int)EDEN_LANES, "a bucket fills vectors");

/**
 * Return the largest scale of a bucket. Before the scale, a decoded value is below 2^12 d after one
 * rotation: d magnitudes, each below 2^12. Two rotations multiply the 2-norm, which is below
 * 2^12 sqrt(d), by d: the value is below 2^12 d^2. So the scaled value is finite.
 */
static inline float eden_scale_max(const eden_layout *l, size_t wide) {
    return 0x1p115f / (float)(l->twice ? wide * wide : wide);
}

/** Rotate bucket k. v has its values, and zeros up to its width. */
static inline void eden_turn(const eden_layout *l, uint32_t draw, size_t k, float *v, size_t wide) {
    eden_signs signs;
    for (uint32_t stream = 0; stream < (l->twice ? 2 : 1); stream++) {
        eden_signs_draw(&signs, draw, stream, eden_first(l, k), wide);
        eden_negate(&signs, v, wide);
        eden_rotate(v, wide);
    }
}

/** Undo eden_turn, but multiply by the width once a rotation. */
static inline void eden_turn_back(const eden_layout *l, uint32_t draw, size_t k, float *v,
                                  size_t wide) {
    eden_signs signs;
    for (uint32_t stream = l->twice ? 2 : 1; stream-- > 0;) {
        eden_rotate(v, wide);
        eden_signs_draw(&signs, draw, stream, eden_first(l, k), wide);
        eden_negate(&signs, v, wide);
    }
}

/** As eden_turn_back, for whole numbers of -1 to 1, at least one of them 0. After two rotations
 * they are below 1024 sqrt(1024) = 2^15 by the 2-norm, so they fit into 16 bits. */
static inline void eden_turn_back_wholes(const eden_layout *l, uint32_t draw, size_t k, int16_t *v,
                                         size_t wide) {
    eden_signs signs;
    for (uint32_t stream = l->twice ? 2 : 1; stream-- > 0;) {
        eden_rotate_wholes(v, wide);
        eden_signs_draw(&signs, draw, stream, eden_first(l, k), wide);
        eden_negate_wholes(&signs, v, wide);
    }
}

/** Copy a bucket's values, multiplied by *up, a power of two, so that no sum of a rotation is
 * infinite. largest: the bits of the largest magnitude. Returns false, and copies nothing, if all
 * values are 0 or denormal. */
static inline bool eden_copy(const float *x, size_t count, size_t wide, int32_t largest, float *v,
                             float *up) {
    const int32_t exponent = largest >> 23;
    if (exponent == 0) {
        return false;
    }
    *up = fedcodec_float((uint32_t)(255 - exponent) << 23);
    for (size_t i = 0; i < count; i++) {
        v[i] = x[i] * *up;
    }
    memset(v + count, 0, (wide - count) * sizeof *v);
    return true;
}

enum { EDEN_SUMS = 16 };

/** Return the sum of v[i]^2. Value i is added to partial sum i mod EDEN_SUMS, so all vector units
 * add in the same order. */
static inline double eden_squares(const float *v, size_t n) {
    double lane[EDEN_SUMS] = {0.0}, sum = 0.0;
    size_t i = 0;
    for (; i + EDEN_SUMS <= n; i += EDEN_SUMS) {
        for (size_t k = 0; k < EDEN_SUMS; k++) {
            lane[k] += (double)v[i + k] * (double)v[i + k];
        }
    }
    for (; i < n; i++) {
        lane[i % EDEN_SUMS] += (double)v[i] * (double)v[i];
    }
    for (size_t k = 0; k < EDEN_SUMS; k++) {
        sum += lane[k];
    }
    return sum;
}

#endif
