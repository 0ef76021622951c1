/* eden's messages: how a tensor is divided into buckets, and what a message begins with. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_EDEN_LAYOUT_H
#define FEDCODEC_EDEN_LAYOUT_H

#include <stdbool.h>

#include "codecs/eden/rotation.h"
#include "codecs/prim/floats.h"

/*
 * A message begins with EDEN_LEAD bytes: a byte with the flags below and the number of bits of a
 * code, the binary logarithm of the bucket size, and the draw, which seeds the random signs.
 */
enum {
    EDEN_LEAD = 6,
    EDEN_BITS_MAX = 4,
    EDEN_SHIFT_MIN = 6,
    EDEN_SHIFT_MAX = 10,
    EDEN_BUCKET_MAX = 1 << EDEN_SHIFT_MAX
};
enum { EDEN_BITS = 7, EDEN_TWICE = 8, EDEN_FEW = 16, EDEN_ONE_SCALE = 32 };

/** The values of the parameter rotations. Auto is 1 for p = 1, else 2. */
enum { EDEN_ROTATIONS_AUTO, EDEN_ROTATIONS_ONE, EDEN_ROTATIONS_TWO };

/** The parameters, in this order. */
enum {
    EDEN_PARAM_BITS,
    EDEN_PARAM_BUCKET,
    EDEN_PARAM_SEED,
    EDEN_PARAM_P,
    EDEN_PARAM_ROTATIONS,
    EDEN_PARAM_SCALE,
    EDEN_PARAM_POS
};

typedef struct eden_layout {
    unsigned bits, shift; /* of a code; of a bucket's size */
    bool twice;           /* buckets are rotated twice */
    bool few;             /* only values of large magnitude are sent */
    bool one_scale;       /* of the tensor, not of each bucket */
    size_t n, buckets;
} eden_layout;

static inline eden_layout eden_layout_of(uint8_t flags, unsigned shift, size_t n) {
    return (eden_layout){.bits = flags & EDEN_BITS,
                         .shift = shift,
                         .twice = (flags & EDEN_TWICE) != 0,
                         .few = (flags & EDEN_FEW) != 0,
                         .one_scale = (flags & EDEN_ONE_SCALE) != 0,
                         .n = n,
                         .buckets = (n >> shift) + ((n & (((size_t)1 << shift) - 1)) != 0)};
}

/** Return the number of bucket k's first value. */
static inline size_t eden_first(const eden_layout *l, size_t k) {
    return k << l->shift;
}

/** Return how many values bucket k has. */
static inline size_t eden_count(const eden_layout *l, size_t k) {
    const size_t bucket = (size_t)1 << l->shift, left = l->n - eden_first(l, k);
    return left < bucket ? left : bucket;
}

/** Return the width of a bucket of `count` values: the least power of two that holds them. */
static inline size_t eden_width(size_t count) {
    size_t wide = EDEN_LANES;
    while (wide < count) {
        wide *= 2;
    }
    return wide;
}

/** Return the widths of all buckets together. */
static inline size_t eden_width_of_all(const eden_layout *l) {
    return l->buckets == 0
               ? 0
               : eden_first(l, l->buckets - 1) + eden_width(eden_count(l, l->buckets - 1));
}

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
