/* qsgd: divide each value by a scale of its bucket and round it to a level at random, so that its
 * mean is the value. Format: docs/codec-formats.md#qsgd
 * Paper: QSGD (Alistarh et al., NeurIPS 2017), sections 3.1 and 5 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "codecs/prim/buckets.h"
#include "codecs/registry.h"

/* A bucket's head is its scale: the value of level 1. */
enum { HEAD = 4 };

static const char *const bucket_words[] = FEDCODEC_BUCKET_WORDS;
static const fedcodec_param qsgd_params[] =
    FEDCODEC_BUCKET_PARAMS(4, "of a value, with its sign", bucket_words);

/* A bucket's scale, the scale's inverse, and the highest level. Levels have both signs. */
typedef struct levels {
    float scale, inverse, most;
} levels;

static int most_of(unsigned bits) {
    return (1 << (bits - 1)) - 1;
}

/* Compute a bucket's levels. scale is 0 if the largest value is so small that the scale would be
 * denormal. The largest value times inverse is at least the highest level. */
static levels find_levels(float largest, unsigned bits) {
    levels l = {.most = (float)most_of(bits)};
    l.scale = largest / l.most;
    if (l.scale < FLT_MIN) {
        l.scale = 0.0f;
        return l;
    }
    l.scale = isfinite(l.scale * l.most) ? l.scale : nextafterf(l.scale, 0.0f);
    l.inverse = l.most / largest;
    if (l.inverse * largest < l.most) {
        l.inverse = nextafterf(l.inverse, FLT_MAX);
    }
    return l;
}

/* Round each value to one of its two neighbouring levels, by a random number of 16 bits. Adding 0.5
 * to that number rounds the upper level's probability to the nearest multiple of 2^-16. */
static void choose_levels(const float *restrict x, const uint32_t *restrict word, size_t n,
                          unsigned half, const void *with, uint8_t *restrict to) {
    const levels l = *(const levels *)with;
    for (size_t i = 0; i < n; i++) {
        const int32_t sign = (int32_t)fedcodec_bits(x[i]) >> 31;
        float lot = (float)fedcodec_bucket_lot(word[i], half) + 0.5f, a = fabsf(x[i]) * l.inverse;
        a = a < l.most ? a : l.most;
        int level = (int)a;
        level += lot < (a - (float)level) * 0x1p16f;
        to[i] = (uint8_t)((level ^ sign) - sign);
    }
}

static void write_bucket(const fedcodec_bucket *b) {
    const levels l = find_levels(b->largest, b->bits);
    fedcodec_store_f32(b->head, l.scale);
    if (l.scale > 0.0f) {
        fedcodec_bucket_fill(b, choose_levels, &l);
    } else {
        fedcodec_bucket_clear(b);
    }
}

/* Check a bucket. Unless its scale is 0, its largest value must have the highest level. */
static bool bucket_valid(const uint8_t *head, unsigned bits, int largest, float *max) {
    const float scale = fedcodec_load_f32(head);
    const int most = most_of(bits);
    *max = (float)most * scale;
    return fedcodec_bits(scale) == 0 ? largest == 0
                                     : scale >= FLT_MIN && *max <= FLT_MAX && largest == most;
}

static void find_values(const fedcodec_bucket_levels *k, float *restrict value) {
    const float scale = fedcodec_load_f32(k->head);
    for (size_t i = 0; i < k->count; i++) {
        value[i] = (float)k->level[i] * scale;
    }
}

FEDCODEC_BUCKET_FUNCTIONS(HEAD, write_bucket, bucket_valid, find_values)

const fedcodec_vtable FEDCODEC_VTABLE(qsgd) = {
    .id = FEDCODEC_ID_qsgd,
    .name = "qsgd",
    .about = "each value as a level of its bucket's largest, at random (QSGD)",
    .params = qsgd_params,
    FEDCODEC_BUCKET_MEMBERS,
};
