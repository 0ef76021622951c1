/* eden's messages: their lead, how a tensor is divided into buckets, and how many values are sent.
 * Shared by eden and its GPU kernels. Format: docs/codec-formats.md#eden */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_EDEN_MESSAGE_H
#define FEDCODEC_PRIM_EDEN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A message begins with EDEN_LEAD bytes: a byte with the flags below and the number of bits of a
 * code, the binary logarithm of the bucket size, and the draw, which seeds the random signs.
 */
enum {
    EDEN_LEAD = 6,
    EDEN_BITS_MAX = 4,
    EDEN_SHIFT_MIN = 6,
    EDEN_SHIFT_MAX = 10,
    EDEN_BUCKET_MAX = 1 << EDEN_SHIFT_MAX,
    EDEN_WIDTH_MIN = 8
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

/** Return a message's flags, and the binary logarithm of the bucket size, for these parameters. */
static inline uint8_t eden_flags_of(const double *param) {
    const bool few = param[EDEN_PARAM_P] < 1.0;
    const bool twice = param[EDEN_PARAM_ROTATIONS] == EDEN_ROTATIONS_TWO ||
                       (few && param[EDEN_PARAM_ROTATIONS] == EDEN_ROTATIONS_AUTO);
    return (uint8_t)((unsigned)param[EDEN_PARAM_BITS] | (twice ? EDEN_TWICE : 0) |
                     (few ? EDEN_FEW : 0) | (param[EDEN_PARAM_SCALE] > 0.0 ? EDEN_ONE_SCALE : 0));
}

static inline unsigned eden_shift_of(const double *param) {
    return (unsigned)param[EDEN_PARAM_BUCKET] + EDEN_SHIFT_MIN;
}

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
    size_t wide = EDEN_WIDTH_MIN;
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

/** Return how many values of a whole bucket are sent if not all are: an odd number. */
static inline unsigned eden_most_of(double p, unsigned shift) {
    return 1 + 2 * (unsigned)(p * (double)(1u << (shift - 1)));
}

/** Return how many values are sent of a bucket of this width. The number is odd: after one
 * rotation, an even number of signs could add up to 0. */
static inline size_t eden_sent_of(unsigned most, unsigned shift, size_t wide) {
    return 1 + 2 * (most * wide >> (shift + 1));
}

static inline size_t eden_sent_of_all(unsigned most, const eden_layout *l) {
    size_t sent = 0;
    if (l->buckets > 0) {
        const size_t last = eden_width(eden_count(l, l->buckets - 1));
        sent = (l->buckets - 1) * most + eden_sent_of(most, l->shift, last);
    }
    return sent;
}

/** Return the fraction of a whole bucket's values that is sent. */
static inline double eden_share_of(unsigned most, const eden_layout *l) {
    return (double)most / (double)((size_t)1 << l->shift);
}

#endif
