/* Reference code of the codecs with buckets. Never optimise it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_buckets.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fed/rng.h"
#include "reference_values.h"

typedef struct layout {
    size_t n, bucket, head, codes; /* codes: offset of the first code */
    unsigned bits;
} layout;

static layout layout_of(unsigned bits, unsigned shift, size_t n, size_t head) {
    layout l = {.n = n, .bucket = (size_t)1 << shift, .head = head, .bits = bits};
    l.codes = 2 + head * ((n + l.bucket - 1) / l.bucket);
    return l;
}

static size_t message_len(const layout *l) {
    return l->codes + (size_t)(((uint64_t)l->n * l->bits + 7) / 8);
}

static void put_level(const layout *l, size_t i, int level, uint8_t *out) {
    for (unsigned k = 0; k < l->bits; k++) {
        uint64_t at = (uint64_t)i * l->bits + k;
        unsigned bit = (unsigned)level >> (l->bits - 1 - k) & 1;
        out[l->codes + at / 8] |= (uint8_t)(bit << (7 - at % 8));
    }
}

static int get_level(const layout *l, size_t i, const uint8_t *src) {
    int level = 0;
    for (unsigned k = 0; k < l->bits; k++) {
        uint64_t at = (uint64_t)i * l->bits + k;
        level = 2 * level + (src[l->codes + at / 8] >> (7 - at % 8) & 1);
    }
    return level >= 1 << (l->bits - 1) ? level - (1 << l->bits) : level;
}

/* lot(i) of docs/codec-formats.md, section qsgd. rng: at the start of its stream. */
static uint32_t lot_of(fed_rng rng, size_t i) {
    size_t place = i % 256 % 128, word = i / 256 * 128 + place;
    rng.counter[0] = (uint32_t)(word / 4);
    for (size_t k = 0; k < word % 4; k++) {
        (void)fed_rng_u32(&rng);
    }
    uint32_t w = fed_rng_u32(&rng);
    return i % 256 < 128 ? w & 0xffff : w >> 16;
}

/* Write the levels of values first to end - 1. Returns the bucket's scale. */
static float qsgd_bucket(const layout *l, const float *x, size_t first, size_t end,
                         const fed_rng *rng, uint8_t *out) {
    int s = (1 << (l->bits - 1)) - 1;
    float max = fed_reference_largest(x + first, end - first), scale = max / (float)s;
    if (!isfinite((float)s * scale)) {
        scale = nextafterf(scale, 0.0f);
    }
    scale = scale < FLT_MIN ? 0.0f : scale;
    float inverse = (float)s / max;
    if (inverse * max < (float)s) {
        inverse = nextafterf(inverse, INFINITY);
    }
    for (size_t i = first; i < end; i++) {
        float lot = (float)lot_of(*rng, i) + 0.5f;
        float a = fminf(fabsf(x[i]) * inverse, (float)s);
        if (scale > 0.0f) {
            int level = (int)truncf(a) + (lot < (a - truncf(a)) * 65536.0f);
            put_level(l, i, x[i] < 0.0f ? -level : level, out);
        }
    }
    return scale;
}

static void qsgd_decode(const uint8_t *src, float *y, size_t n) {
    layout l = layout_of(src[0], src[1], n, 4);
    for (size_t i = 0; i < n; i++) {
        float scale = fed_reference_get_f32(src + 2 + 4 * (i / l.bucket));
        y[i] = (float)get_level(&l, i, src) * scale;
    }
}

static uint32_t magnitude_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits & 0x7fffffff;
}

static int least_of(int top, unsigned bits) {
    int s = (1 << (bits - 1)) - 1;
    return top - s + 1 > 1 ? top - s + 1 : 1;
}

static float power_of(int exponent) {
    return ldexpf(1.0f, exponent - 127);
}

/* Write the levels of values first to end - 1. Returns the bucket's largest exponent. */
static uint8_t natural_bucket(const layout *l, const float *x, size_t first, size_t end,
                              const fed_rng *rng, uint8_t *out) {
    uint32_t max = magnitude_bits(fed_reference_largest(x + first, end - first));
    int top = (int)((max + 8388607) / 8388608);
    top = top < 254 ? top : 254;
    int least = least_of(top, l->bits);
    for (size_t i = first; i < end && top > 0; i++) {
        uint32_t lot = lot_of(*rng, i), m = magnitude_bits(x[i]);
        int level = 0;
        if (fabsf(x[i]) >= power_of(least)) {
            int e = (int)((m + 128 * lot + 64) / 8388608);
            level = (e < top ? e : top) - least + 1;
        } else {
            double part = ldexp((double)fabsf(x[i]), 127 - least) * 65536.0;
            level = (double)lot + 0.5 < part;
        }
        put_level(l, i, x[i] < 0.0f ? -level : level, out);
    }
    return (uint8_t)top;
}

static void natural_decode(const uint8_t *src, float *y, size_t n) {
    layout l = layout_of(src[0], src[1], n, 1);
    for (size_t i = 0; i < n; i++) {
        int level = get_level(&l, i, src), least = least_of(src[2 + i / l.bucket], l.bits);
        float power = power_of(least + abs(level) - 1);
        y[i] = level > 0 ? power : level < 0 ? -power : 0.0f;
    }
}

uint8_t *fed_reference_buckets_encode(const fedcodec *codec, float *residual, size_t n,
                                      size_t *len) {
    bool qsgd = strcmp(codec->vtable->name, "qsgd") == 0;
    if (!qsgd && strcmp(codec->vtable->name, "natural") != 0) {
        return NULL;
    }
    unsigned shift = 6 + (unsigned)codec->param[1];
    layout l = layout_of((unsigned)codec->param[0], shift, n, qsgd ? 4 : 1);
    uint8_t *out = calloc(*len = message_len(&l), 1);
    if (out == NULL) {
        abort();
    }
    uint64_t digest = fed_digest(residual, n);
    fed_rng rng;
    fed_rng_init(&rng, (uint64_t)codec->param[2], (uint32_t)digest, (uint32_t)(digest >> 32));
    out[0] = (uint8_t)l.bits;
    out[1] = (uint8_t)shift;
    for (size_t i = 0; i < n; i += l.bucket) {
        size_t end = n - i < l.bucket ? n : i + l.bucket;
        if (qsgd) {
            fed_reference_put_f32(out + 2 + 4 * (i / l.bucket),
                                  qsgd_bucket(&l, residual, i, end, &rng, out));
        } else {
            out[2 + i / l.bucket] = natural_bucket(&l, residual, i, end, &rng, out);
        }
    }
    for (size_t i = 0; i < n; i++) {
        residual[i] = 0.0f;
    }
    return out;
}

bool fed_reference_buckets_decode(const fedcodec_vtable *codec, const uint8_t *src, float *y,
                                  size_t n) {
    if (strcmp(codec->name, "qsgd") == 0) {
        qsgd_decode(src, y, n);
    } else if (strcmp(codec->name, "natural") == 0) {
        natural_decode(src, y, n);
    } else {
        return false;
    }
    return true;
}
