/* natural: each value as a power of two, rounded at random, so that its mean is the value. Format:
 * docs/codec-formats.md#natural
 * Paper: Natural Compression (Horvath et al., MSML 2022), definitions 1 and 2 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/buckets.h"
#include "codecs/registry.h"

/* A bucket's head is the exponent field of its highest power, as in a float. EXPONENT: the number
 * of bits below that field. EXPONENT_MAX: the field of the largest power of two. */
enum { HEAD = 1, EXPONENT = 23, EXPONENT_MAX = 254 };

static const char *const bucket_words[] = FEDCODEC_BUCKET_WORDS;
static const fedcodec_param natural_params[] =
    FEDCODEC_BUCKET_PARAMS(8, "of a value, with its sign", bucket_words);

/* The powers of a bucket. Level k is the float whose exponent field is least + k - 1. */
typedef struct powers {
    int32_t least, highest;
} powers;

static powers powers_of(int32_t highest, unsigned bits) {
    const int32_t least = highest - (1 << (bits - 1)) + 2;
    return (powers){.least = least > 1 ? least : 1, .highest = highest};
}

/* Round at random so that the mean is the value. Between two powers of two, a float's fraction is
 * the probability of the upper one. Adding a random number below 2^23 to the float's bits carries
 * into the exponent with that probability. The number has 16 random bits, plus half of their unit.
 * Below the least power, choose between that power and 0. */
static void choose_powers(const float *restrict x, const uint32_t *restrict word, size_t n,
                          unsigned half, const void *with, uint8_t *restrict to) {
    enum { LOT = 16, MORE = EXPONENT - LOT };
    const powers p = *(const powers *)with;
    const float inverse = 1.0f / fedcodec_float((uint32_t)p.least << EXPONENT);
    for (size_t i = 0; i < n; i++) {
        const int32_t all = (int32_t)fedcodec_bits(x[i]), sign = all >> 31;
        const int32_t bits = all & FEDCODEC_MAGNITUDE, below = -(bits < p.least << EXPONENT);
        const int32_t lot = fedcodec_bucket_lot(word[i], half);
        int32_t up = (bits + (lot << MORE) + (1 << (MORE - 1))) >> EXPONENT;
        up = (up < p.highest ? up : p.highest) - p.least + 1;
        const float part = fedcodec_float((uint32_t)bits) * inverse * 0x1p16f;
        const int32_t one = (float)lot + 0.5f < part;
        const int32_t level = up ^ ((up ^ one) & below);
        to[i] = (uint8_t)((level ^ sign) - sign);
    }
}

static void write_bucket(const fedcodec_bucket *b) {
    enum { ROUND_UP = (1 << EXPONENT) - 1 };
    const int32_t up = (fedcodec_magnitude(b->largest) + ROUND_UP) >> EXPONENT;
    const powers p = powers_of(up < EXPONENT_MAX ? up : EXPONENT_MAX, b->bits);
    b->head[0] = (uint8_t)p.highest;
    if (p.highest > 0) {
        fedcodec_bucket_fill(b, choose_powers, &p);
    } else {
        fedcodec_bucket_clear(b);
    }
}

/* Check a bucket's head. The encoder's largest value was at most the highest power, and more than
 * half of it. So rounding made it the highest level or the one below. */
static bool bucket_valid(const uint8_t *head, unsigned bits, int largest, float *max) {
    const powers p = powers_of(head[0], bits);
    const int highest = (int)(p.highest - p.least + 1);
    *max = largest > 0 ? fedcodec_float((uint32_t)(p.least + largest - 1) << EXPONENT) : 0.0f;
    return p.highest <= EXPONENT_MAX && largest <= highest && largest >= highest - 1;
}

static void find_values(const fedcodec_bucket_levels *k, float *restrict value) {
    const powers p = powers_of(k->head[0], k->bits);
    for (size_t i = 0; i < k->count; i++) {
        const int32_t level = (int32_t)k->level[i], magnitude = level < 0 ? -level : level;
        uint32_t sign = level < 0 ? UINT32_C(1) << 31 : 0;
        uint32_t bits = (uint32_t)(p.least - 1 + magnitude) << EXPONENT;
        value[i] = fedcodec_float(level != 0 ? bits | sign : 0);
    }
}

FEDCODEC_BUCKET_FUNCTIONS(HEAD, write_bucket, bucket_valid, find_values)

const fedcodec_vtable FEDCODEC_VTABLE(natural) = {
    .id = FEDCODEC_ID_natural,
    .name = "natural",
    .about = "each value as a power of two, at random (natural compression)",
    .params = natural_params,
    FEDCODEC_BUCKET_MEMBERS,
};
