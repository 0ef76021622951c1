/* Reference code of the codec eden. Never optimise it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_eden.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fed/rng.h"
#include "reference_values.h"

static const float table[5][8] = {
    {0}, {1}, {464, 1546}, {251, 774, 1376, 2204}, {131, 397, 673, 965, 1286, 1657, 2119, 2798}};

static void put_u32(uint8_t *dst, uint32_t v) {
    for (unsigned k = 0; k < 4; k++) {
        dst[k] = (uint8_t)(v >> 8 * k);
    }
}

static uint32_t get_u32(const uint8_t *src) {
    return src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16 | (uint32_t)src[3] << 24;
}

static float to_float(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static size_t width_of(size_t first, size_t bucket, size_t n) {
    size_t width = 8, count = n - first < bucket ? n - first : bucket;
    while (width < count) {
        width *= 2;
    }
    return width;
}

static float *signs_of(uint32_t draw, size_t n) {
    float *sign = fed_reference_make(n, sizeof *sign);
    fed_rng rng;
    fed_rng_init(&rng, draw, 0, 0);
    uint32_t word = 0;
    for (size_t i = 0; i < n; i++) {
        word = i % 32 == 0 ? fed_rng_u32(&rng) : word;
        sign[i] = word >> i % 32 & 1 ? -1.0f : 1.0f;
    }
    return sign;
}

static void rotate(float *v, size_t d) {
    for (size_t h = d / 2; h >= 1; h /= 2) {
        for (size_t j = 0; j < d; j++) {
            if (j / h % 2 == 0) {
                float a = v[j], b = v[j + h];
                v[j] = a + b;
                v[j + h] = a - b;
            }
        }
    }
}

static double sum_products(const float *a, const float *b, size_t n) {
    double lane[16] = {0.0}, sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        lane[i % 16] += (double)a[i] * (double)b[i];
    }
    for (size_t k = 0; k < 16; k++) {
        sum += lane[k];
    }
    return sum;
}

static void put_code(uint8_t *codes, size_t at, unsigned bits, unsigned code) {
    for (unsigned k = 0; k < bits; k++) {
        size_t place = at * bits + k;
        codes[place / 8] |= (uint8_t)((code >> (bits - 1 - k) & 1) << (7 - place % 8));
    }
}

static unsigned get_code(const uint8_t *codes, size_t at, unsigned bits) {
    unsigned code = 0;
    for (unsigned k = 0; k < bits; k++) {
        size_t place = at * bits + k;
        code = 2 * code + (codes[place / 8] >> (7 - place % 8) & 1);
    }
    return code;
}

/* Encode the `count` values of a bucket of width d. first: index of its first code. Returns the
 * scale. */
static float encode_bucket(unsigned bits, const float *x, const float *sign, size_t count, size_t d,
                           uint8_t *codes, size_t first) {
    float max = 0.0f, *v = fed_reference_make(d, sizeof *v), *p = fed_reference_make(d, sizeof *p),
          *ones = fed_reference_make(d, sizeof *v);
    unsigned *code = fed_reference_make(d, sizeof *code);
    for (size_t i = 0; i < count; i++) {
        max = fmaxf(max, fabsf(x[i]));
    }
    int e = (int)(fed_reference_bits(max) >> 23);
    for (size_t i = 0; i < count; i++) {
        v[i] = e > 0 ? ldexpf(x[i], 128 - e) : 0.0f;
    }
    double q = sum_products(v, v, count);
    for (size_t i = 0; i < count; i++) {
        v[i] *= sign[i];
    }
    rotate(v, d);
    for (size_t i = 0; i < d; i++) {
        unsigned number = 0;
        for (unsigned k = 1; k < 1u << (bits - 1); k++) {
            double middle = (double)(table[bits][k - 1] + table[bits][k]) / 2048.0;
            number += fabsf(v[i]) > (float)(middle * sqrt(q));
        }
        code[i] = number + (v[i] < 0.0f ? 1u << (bits - 1) : 0);
        p[i] = fabsf(v[i]) * table[bits][number];
        ones[i] = 1.0f;
    }
    double scale = e > 0 ? ldexp(q / sum_products(p, ones, d), e - 128) : 0.0;
    scale = fmin(scale, ldexp(1.0, 115) / (double)d);
    for (size_t i = 0; i < d && scale >= (double)FLT_MIN; i++) {
        put_code(codes, first + i, bits, code[i]);
    }
    free(v);
    free(p);
    free(ones);
    free(code);
    return scale < (double)FLT_MIN ? 0.0f : (float)scale;
}

uint8_t *fed_reference_eden_encode(const double *param, float *residual, size_t n, size_t *len) {
    const unsigned bits = (unsigned)param[0], shift = 6 + (unsigned)param[1];
    const size_t bucket = (size_t)1 << shift, buckets = (n + bucket - 1) / bucket;
    const size_t codes =
        n > 0 ? (buckets - 1) * bucket + width_of((buckets - 1) * bucket, bucket, n) : 0;
    const uint32_t draw = (uint32_t)fed_digest(residual, n) ^ (uint32_t)param[2];
    uint8_t *out = fed_reference_make(*len = 6 + 4 * buckets + codes * bits / 8, 1);
    float *sign = signs_of(draw, n);
    out[0] = (uint8_t)bits;
    out[1] = (uint8_t)shift;
    put_u32(out + 2, draw);
    for (size_t k = 0; k < buckets; k++) {
        size_t first = k * bucket, count = n - first < bucket ? n - first : bucket;
        float scale = encode_bucket(bits, residual + first, sign + first, count,
                                    width_of(first, bucket, n), out + 6 + 4 * buckets, first);
        put_u32(out + 6 + 4 * k, fed_reference_bits(scale));
    }
    for (size_t i = 0; i < n; i++) {
        residual[i] = 0.0f;
    }
    free(sign);
    return out;
}

void fed_reference_eden_decode(const uint8_t *src, float *y, size_t n) {
    const unsigned bits = src[0];
    const size_t bucket = (size_t)1 << src[1], buckets = (n + bucket - 1) / bucket;
    float *sign = signs_of(get_u32(src + 2), n);
    for (size_t first = 0; first < n; first += bucket) {
        size_t d = width_of(first, bucket, n);
        float *v = fed_reference_make(d, sizeof *v),
              scale = to_float(get_u32(src + 6 + 4 * (first / bucket)));
        for (size_t i = 0; i < d; i++) {
            unsigned code = get_code(src + 6 + 4 * buckets, first + i, bits),
                     half = 1u << (bits - 1);
            v[i] = code < half ? table[bits][code] : -table[bits][code - half];
        }
        rotate(v, d);
        for (size_t i = 0; i < d && first + i < n; i++) {
            y[first + i] = v[i] * scale * sign[first + i] + 0.0f;
        }
        free(v);
    }
    free(sign);
}
