/* eden's rotation: negate values at random, then apply a Hadamard transform. There are functions
 * for floats and for whole numbers of 16 bits, of which a vector holds twice as many. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_EDEN_ROTATION_H
#define FEDCODEC_EDEN_ROTATION_H

#include "codecs/prim/floats.h"
#include "codecs/prim/random.h"

/* EDEN_LANES: floats in one vector. EDEN_WORD: signs that one random number gives. */
enum { EDEN_LANES = 8, EDEN_WHOLE_LANES = 16, EDEN_WORD = 32, EDEN_WIDTH_MAX = 1024 };

typedef float eden_floats __attribute__((vector_size(4 * EDEN_LANES)));
typedef uint32_t eden_bits __attribute__((vector_size(4 * EDEN_LANES)));
typedef int16_t eden_wholes __attribute__((vector_size(2 * EDEN_WHOLE_LANES)));

/** The random signs of a bucket. Value i is negated where bit i mod 32 of word[i / 32] is 1. */
typedef struct eden_signs {
    uint32_t random[EDEN_WIDTH_MAX / EDEN_WORD + FEDCODEC_RANDOM_MORE];
    const uint32_t *word;
} eden_signs;

/** Draw the signs of the n values from `first` on, a multiple of 32, from a stream of the draw. */
static inline void eden_signs_draw(eden_signs *signs, uint32_t draw, uint32_t stream, size_t first,
                                   size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, draw, stream, 0);
    signs->word = fedcodec_random_draw(&rng, first / EDEN_WORD, (n + EDEN_WORD - 1) / EDEN_WORD,
                                       signs->random);
}

static inline float eden_negated(float v, uint32_t word, uint32_t i) {
    return fedcodec_float(fedcodec_bits(v) ^ word >> i << 31);
}

static inline void eden_negate(const eden_signs *signs, float *v, size_t n) {
    size_t i = 0;
    for (; i + EDEN_WORD <= n; i += EDEN_WORD) {
        const uint32_t word = signs->word[i / EDEN_WORD];
        for (uint32_t k = 0; k < EDEN_WORD; k++) {
            v[i + k] = eden_negated(v[i + k], word, k);
        }
    }
    for (uint32_t k = 0; i + k < n; k++) {
        v[i + k] = eden_negated(v[i + k], signs->word[i / EDEN_WORD], k);
    }
}

/** As eden_negate. v has room for a multiple of EDEN_WHOLE_LANES. */
static inline void eden_negate_wholes(const eden_signs *signs, int16_t *v, size_t n) {
    const eden_wholes bit = {1,       1 << 1,  1 << 2,  1 << 3,   1 << 4,  1 << 5,
                             1 << 6,  1 << 7,  1 << 8,  1 << 9,   1 << 10, 1 << 11,
                             1 << 12, 1 << 13, 1 << 14, INT16_MIN};
    for (size_t i = 0; i < n; i += EDEN_WHOLE_LANES) {
        const int16_t bits = (int16_t)(signs->word[i / EDEN_WORD] >> i % EDEN_WORD & UINT16_MAX);
        eden_wholes values;
        memcpy(&values, v + i, sizeof values);
        const eden_wholes minus = (bit & bits) == bit; /* -1 for yes */
        values = (values ^ minus) - minus;
        memcpy(v + i, &values, sizeof values);
    }
}

/* Replace a pair of vectors by its sum and its difference. */
#define EDEN_PAIR(vector, a, b)                                                                    \
    do {                                                                                           \
        const vector sum = (a) + (b);                                                              \
        (b) = (a) - (b);                                                                           \
        (a) = sum;                                                                                 \
    } while (0)

#define EDEN_LOAD(v, from)  memcpy(&(v), (from), sizeof(v))
#define EDEN_STORE(v, into) memcpy((into), &(v), sizeof(v))

/* Define a function with three steps of the transform on the eight vectors at[0], at[stride] and so
 * on. The steps are written out, so that the vectors stay in registers. */
#define EDEN_EIGHT(name, type, vector)                                                             \
    static inline void name(type at[], size_t stride) {                                            \
        vector a, b, c, d, e, f, g, h;                                                             \
        EDEN_LOAD(a, at);                                                                          \
        EDEN_LOAD(b, at + stride);                                                                 \
        EDEN_LOAD(c, at + 2 * stride);                                                             \
        EDEN_LOAD(d, at + 3 * stride);                                                             \
        EDEN_LOAD(e, at + 4 * stride);                                                             \
        EDEN_LOAD(f, at + 5 * stride);                                                             \
        EDEN_LOAD(g, at + 6 * stride);                                                             \
        EDEN_LOAD(h, at + 7 * stride);                                                             \
        EDEN_PAIR(vector, a, e);                                                                   \
        EDEN_PAIR(vector, b, f);                                                                   \
        EDEN_PAIR(vector, c, g);                                                                   \
        EDEN_PAIR(vector, d, h);                                                                   \
        EDEN_PAIR(vector, a, c);                                                                   \
        EDEN_PAIR(vector, b, d);                                                                   \
        EDEN_PAIR(vector, e, g);                                                                   \
        EDEN_PAIR(vector, f, h);                                                                   \
        EDEN_PAIR(vector, a, b);                                                                   \
        EDEN_PAIR(vector, c, d);                                                                   \
        EDEN_PAIR(vector, e, f);                                                                   \
        EDEN_PAIR(vector, g, h);                                                                   \
        EDEN_STORE(a, at);                                                                         \
        EDEN_STORE(b, at + stride);                                                                \
        EDEN_STORE(c, at + 2 * stride);                                                            \
        EDEN_STORE(d, at + 3 * stride);                                                            \
        EDEN_STORE(e, at + 4 * stride);                                                            \
        EDEN_STORE(f, at + 5 * stride);                                                            \
        EDEN_STORE(g, at + 6 * stride);                                                            \
        EDEN_STORE(h, at + 7 * stride);                                                            \
    }

/* Define a function with all steps of the transform on n values, a power of two, down to the steps
 * within a vector of `lanes` values. */
#define EDEN_STEPS(name, type, vector, lanes, eight)                                               \
    static inline void name(type v[], size_t n) {                                                  \
        size_t step = n / 2;                                                                       \
        for (; step >= 4 * (lanes); step /= 8) {                                                   \
            for (size_t start = 0; start < n; start += 2 * step) {                                 \
                for (size_t i = 0; i < step / 4; i += (lanes)) {                                   \
                    eight(v + start + i, step / 4);                                                \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (; step >= (lanes); step /= 2) {                                                       \
            for (size_t start = 0; start < n; start += 2 * step) {                                 \
                for (size_t i = start; i < start + step; i += (lanes)) {                           \
                    vector a, b;                                                                   \
                    EDEN_LOAD(a, v + i);                                                           \
                    EDEN_LOAD(b, v + i + step);                                                    \
                    EDEN_PAIR(vector, a, b);                                                       \
                    EDEN_STORE(a, v + i);                                                          \
                    EDEN_STORE(b, v + i + step);                                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

EDEN_EIGHT(eden_eight, float, eden_floats)
EDEN_EIGHT(eden_eight_wholes, int16_t, eden_wholes)
EDEN_STEPS(eden_steps, float, eden_floats, EDEN_LANES, eden_eight)
EDEN_STEPS(eden_steps_wholes, int16_t, eden_wholes, EDEN_WHOLE_LANES, eden_eight_wholes)

/* Do the steps 4, 2 and 1 of the transform on eight values. */
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

/* Do the steps 8 (if n is more than 8), 4, 2 and 1 on sixteen whole numbers. */
static inline void eden_rotate_lanes_wholes(int16_t *at, size_t n) {
    const eden_wholes eight = {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
    const eden_wholes four = {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1};
    const eden_wholes two = {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1};
    const eden_wholes one = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1};
    eden_wholes v;
    memcpy(&v, at, sizeof v);
    if (n > EDEN_LANES) {
        v = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7) +
            v * eight;
    }
    v = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11) +
        v * four;
    v = __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13) +
        v * two;
    v = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14) +
        v * one;
    memcpy(at, &v, sizeof v);
}

/** Multiply v by the unscaled n x n Hadamard matrix. n must be a power of two of at least
 * EDEN_LANES. */
static inline void eden_rotate(float *v, size_t n) {
    eden_steps(v, n);
    for (size_t i = 0; i < n; i += EDEN_LANES) {
        eden_rotate_lanes(v + i);
    }
}

/** As eden_rotate; all results must fit into 16 bits. v has room for a multiple of
 * EDEN_WHOLE_LANES. */
static inline void eden_rotate_wholes(int16_t *v, size_t n) {
    eden_steps_wholes(v, n);
    for (size_t i = 0; i < n; i += EDEN_WHOLE_LANES) {
        eden_rotate_lanes_wholes(v + i, n);
    }
}

#endif
