/* Reference code of the codec eden. Never optimise it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_eden.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fed/rng.h"
#include "reference_positions.h"
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

static float *signs_of(uint32_t draw, uint32_t stream, size_t n) {
    float *sign = fed_reference_make(n, sizeof *sign);
    fed_rng rng;
    fed_rng_init(&rng, draw, stream, 0);
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

/* A message's parameters, and the signs of its two rotations. */
typedef struct shape {
    unsigned bits, shift;
    bool twice, few, one_scale;
    size_t n, buckets;
    float *sign[2];
} shape;

static shape shape_of(unsigned flags, unsigned shift, uint32_t draw, size_t n) {
    const size_t bucket = (size_t)1 << shift;
    shape s = {.bits = flags % 8, .shift = shift, .n = n, .buckets = (n + bucket - 1) / bucket};
    s.twice = flags / 8 % 2 == 1;
    s.few = flags / 16 % 2 == 1;
    s.one_scale = flags / 32 % 2 == 1;
    s.sign[0] = signs_of(draw, 0, n + bucket);
    s.sign[1] = signs_of(draw, 1, n + bucket);
    return s;
}

static void drop_shape(shape *s) {
    free(s->sign[0]);
    free(s->sign[1]);
}

static size_t width(const shape *s, size_t k) {
    return width_of(k << s->shift, (size_t)1 << s->shift, s->n);
}

static size_t width_of_all(const shape *s) {
    size_t all = 0;
    for (size_t k = 0; k < s->buckets; k++) {
        all += width(s, k);
    }
    return all;
}

static double scale_limit(const shape *s, size_t d) {
    return ldexp(1.0, 115) / (double)(s->twice ? d * d : d);
}

/* A rotated bucket: its values are those of the tensor times 2^(128 - e). */
typedef struct rotated {
    size_t first, d;
    int e;
    double squares;
    float v[1024];
} rotated;

static rotated rotate_bucket(const shape *s, const float *x, size_t k) {
    rotated r = {.first = k << s->shift, .d = width(s, k)};
    float max = 0.0f;
    for (size_t i = 0; i < r.d && r.first + i < s->n; i++) {
        max = fmaxf(max, fabsf(x[r.first + i]));
    }
    r.e = (int)(fed_reference_bits(max) >> 23);
    for (size_t i = 0; i < r.d && r.first + i < s->n; i++) {
        r.v[i] = r.e > 0 ? ldexpf(x[r.first + i], 128 - r.e) : 0.0f;
    }
    r.squares = sum_products(r.v, r.v, r.d);
    for (int turn = 0; turn < (s->twice ? 2 : 1); turn++) {
        for (size_t i = 0; i < r.d; i++) {
            r.v[i] *= s->sign[turn][r.first + i];
        }
        rotate(r.v, r.d);
    }
    return r;
}

static float to_scale(double scale, double limit) {
    scale = fmin(scale, limit);
    return scale < (double)FLT_MIN ? 0.0f : (float)scale;
}

/* Write the codes of a bucket. Returns its scale. */
static float put_codes(const shape *s, rotated *r, uint8_t *codes) {
    float ones[1024], p[1024];
    unsigned code[1024];
    for (size_t i = 0; i < r->d; i++) {
        unsigned number = 0;
        const double norm = sqrt(s->twice ? r->squares * (double)r->d : r->squares);
        for (unsigned k = 1; k < 1u << (s->bits - 1); k++) {
            double middle = (double)(table[s->bits][k - 1] + table[s->bits][k]) / 2048.0;
            number += fabsf(r->v[i]) > (float)(middle * norm);
        }
        code[i] = number + (r->v[i] < 0.0f ? 1u << (s->bits - 1) : 0);
        p[i] = fabsf(r->v[i]) * table[s->bits][number];
        ones[i] = 1.0f;
    }
    double scale = r->e > 0 ? ldexp(r->squares / sum_products(p, ones, r->d), r->e - 128) : 0.0;
    float sent = to_scale(scale, scale_limit(s, r->d));
    for (size_t i = 0; i < r->d && sent > 0.0f; i++) {
        put_code(codes, r->first + i, s->bits, code[i]);
    }
    return sent;
}

/* What is sent of all buckets together. */
typedef struct few {
    uint32_t *index;
    bool *negative;
    size_t count;
    double *squares, *products; /* of each bucket, with the tensor's magnitudes */
    uint32_t *high;             /* of each bucket; with one scale 1 if it is sent */
    uint32_t base;
    float one;
} few_values;

static size_t few_of(unsigned k, unsigned shift, size_t d) {
    return 1 + 2 * (k * d / ((size_t)2 << shift));
}

static void choose(const shape *s, unsigned k, size_t bucket, const rotated *r, few_values *f) {
    reference_place *order = fed_reference_make(r->d, sizeof *order);
    bool *chosen = fed_reference_make(r->d, sizeof *chosen);
    for (size_t i = 0; i < r->d; i++) {
        order[i] = (reference_place){fabsf(r->v[i]), i};
    }
    qsort(order, r->d, sizeof *order, fed_reference_larger_first);
    for (size_t i = 0; i < few_of(k, s->shift, r->d); i++) {
        chosen[order[i].index] = true;
    }
    double products = 0.0;
    for (size_t i = 0; i < r->d; i++) {
        if (chosen[i]) {
            f->index[f->count] = (uint32_t)(r->first + i);
            f->negative[f->count++] = r->v[i] < 0.0f;
            products += (double)fabsf(r->v[i]);
        }
    }
    f->squares[bucket] = ldexp(r->squares, 2 * (r->e - 128));
    f->products[bucket] = ldexp(products, r->e - 128);
    free(order);
    free(chosen);
}

static void set_one_scale(const shape *s, few_values *f) {
    double squares = 0.0, products = 0.0;
    for (size_t k = 0; k < s->buckets; k++) {
        squares += f->squares[k];
        products += f->products[k];
    }
    f->one =
        products > 0.0 ? to_scale(squares / products, scale_limit(s, (size_t)1 << s->shift)) : 0.0f;
    for (size_t k = 0; k < s->buckets; k++) {
        f->high[k] = f->one > 0.0f && f->products[k] > 0.0;
    }
}

static void set_scales(const shape *s, uint32_t draw, few_values *f) {
    fed_rng rng;
    fed_rng_init(&rng, draw, 2, 0);
    uint32_t largest = 0;
    for (size_t k = 0; k < s->buckets; k++) {
        const uint32_t random = fed_rng_u32(&rng) % (1u << 20);
        const double limit = scale_limit(s, width(s, k));
        const float scale =
            f->products[k] > 0.0 ? to_scale(f->squares[k] / f->products[k], limit) : 0.0f;
        const uint32_t most = fed_reference_bits((float)limit) >> 20;
        f->high[k] = scale > 0.0f ? (fed_reference_bits(scale) + random) >> 20 : 0;
        f->high[k] = f->high[k] < most ? f->high[k] : most;
        largest = f->high[k] > largest ? f->high[k] : largest;
    }
    f->base = largest == 0 ? 0 : largest - 255 > 7 && largest > 255 ? largest - 255 : 7;
    for (size_t k = 0; k < s->buckets; k++) {
        f->high[k] = f->high[k] > f->base ? f->high[k] - f->base : 0;
    }
}

/* Leave out what belongs to buckets that are not sent. */
static void drop_unsent(const shape *s, few_values *f) {
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (f->high[f->index[i] >> s->shift] != 0) {
            f->index[kept] = f->index[i];
            f->negative[kept++] = f->negative[i];
        }
    }
    f->count = kept;
}

static uint8_t *put_few(const shape *s, unsigned most, unsigned pos, const few_values *f,
                        size_t *len) {
    const size_t marks = 8 + (s->one_scale ? 4 : 2);
    const size_t signs = marks + (s->one_scale ? (s->buckets + 7) / 8 : s->buckets);
    const size_t how = signs + (f->count + 7) / 8;
    size_t size = 0;
    uint8_t code = 0, *positions = NULL;
    if (f->count > 0) {
        positions = fed_reference_positions_put(pos, true, (double)most / (double)(1u << s->shift),
                                                f->index, f->count, width_of_all(s), &size, &code);
    }
    uint8_t *out = fed_reference_make(how + 1 + size, 1);
    *len = f->count > 0 ? how + 1 + size : signs;
    out[6] = (uint8_t)most;
    out[7] = (uint8_t)(most >> 8);
    if (s->one_scale) {
        put_u32(out + 8, fed_reference_bits(f->one));
    } else {
        out[8] = (uint8_t)f->base;
        out[9] = (uint8_t)(f->base >> 8);
    }
    for (size_t k = 0; k < s->buckets; k++) {
        if (s->one_scale) {
            put_code(out + marks, k, 1, f->high[k]);
        } else {
            out[marks + k] = (uint8_t)f->high[k];
        }
    }
    for (size_t i = 0; i < 8 * (how - signs); i++) {
        put_code(out + signs, i, 1, i >= f->count || f->negative[i]);
    }
    if (f->count > 0) {
        out[how] = code;
        memcpy(out + how + 1, positions, size);
    }
    free(positions);
    return out;
}

static uint8_t *encode_few(const double *param, const shape *s, uint32_t draw, const float *x,
                           size_t *len) {
    const unsigned most = 1 + 2 * (unsigned)floor(param[3] * (double)(1u << s->shift) / 2.0);
    few_values f = {.index = fed_reference_make(width_of_all(s), sizeof *f.index),
                    .negative = fed_reference_make(width_of_all(s), sizeof *f.negative),
                    .squares = fed_reference_make(s->buckets, sizeof *f.squares),
                    .products = fed_reference_make(s->buckets, sizeof *f.products),
                    .high = fed_reference_make(s->buckets, sizeof *f.high)};
    for (size_t k = 0; k < s->buckets; k++) {
        const rotated r = rotate_bucket(s, x, k);
        if (r.e > 0) {
            choose(s, most, k, &r, &f);
        }
    }
    if (s->one_scale) {
        set_one_scale(s, &f);
    } else {
        set_scales(s, draw, &f);
    }
    drop_unsent(s, &f);
    uint8_t *out = put_few(s, most, (unsigned)param[6], &f, len);
    free(f.index);
    free(f.negative);
    free(f.squares);
    free(f.products);
    free(f.high);
    return out;
}

static uint8_t *encode_all(const shape *s, const float *x, size_t *len) {
    uint8_t *out = fed_reference_make(*len = 6 + 4 * s->buckets + width_of_all(s) * s->bits / 8, 1);
    for (size_t k = 0; k < s->buckets; k++) {
        rotated r = rotate_bucket(s, x, k);
        float scale = put_codes(s, &r, out + 6 + 4 * s->buckets);
        put_u32(out + 6 + 4 * k, fed_reference_bits(scale));
    }
    return out;
}

uint8_t *fed_reference_eden_encode(const double *param, float *residual, size_t n, size_t *len) {
    const bool few = param[3] < 1.0, twice = param[4] == 2.0 || (param[4] == 0.0 && few);
    const unsigned flags =
        (unsigned)param[0] + (twice ? 8 : 0) + (few ? 16 : 0) + (param[5] == 1.0 ? 32 : 0);
    const uint32_t draw = (uint32_t)fed_digest(residual, n) ^ (uint32_t)param[2];
    shape s = shape_of(flags, 6 + (unsigned)param[1], draw, n);
    uint8_t *out = few ? encode_few(param, &s, draw, residual, len) : encode_all(&s, residual, len);
    out[0] = (uint8_t)flags;
    out[1] = (uint8_t)s.shift;
    put_u32(out + 2, draw);
    for (size_t i = 0; i < n; i++) {
        residual[i] = 0.0f;
    }
    drop_shape(&s);
    return out;
}

/* Multiply back the d values of a bucket, and write those that the tensor has. */
static void rotate_back(const shape *s, size_t k, float *v, float scale, float *y) {
    const size_t first = k << s->shift, d = width(s, k);
    rotate(v, d);
    if (s->twice) {
        for (size_t i = 0; i < d; i++) {
            v[i] *= s->sign[1][first + i];
        }
        rotate(v, d);
    }
    for (size_t i = 0; i < d && first + i < s->n; i++) {
        y[first + i] = v[i] * scale * s->sign[0][first + i] + 0.0f;
    }
}

static void decode_all(const shape *s, const uint8_t *src, float *y) {
    for (size_t k = 0; k < s->buckets; k++) {
        float v[1024];
        for (size_t i = 0; i < width(s, k); i++) {
            unsigned code = get_code(src + 6 + 4 * s->buckets, (k << s->shift) + i, s->bits),
                     half = 1u << (s->bits - 1);
            v[i] = code < half ? table[s->bits][code] : -table[s->bits][code - half];
        }
        rotate_back(s, k, v, to_float(get_u32(src + 6 + 4 * k)), y);
    }
}

static void decode_few(const shape *s, const uint8_t *src, size_t len, float *y) {
    const unsigned most = src[6] + 256u * src[7], base = src[8] + 256u * src[9];
    const uint8_t *marks = src + 8 + (s->one_scale ? 4 : 2);
    size_t count = 0;
    float *v = fed_reference_make(width_of_all(s) + 1024, sizeof *v);
    for (size_t k = 0; k < s->buckets; k++) {
        const bool sent = s->one_scale ? get_code(marks, k, 1) != 0 : marks[k] != 0;
        count += sent ? few_of(most, s->shift, width(s, k)) : 0;
    }
    const uint8_t *signs = marks + (s->one_scale ? (s->buckets + 7) / 8 : s->buckets);
    const uint8_t *how = signs + (count + 7) / 8;
    uint32_t *index = fed_reference_make(count, sizeof *index);
    if (count > 0) {
        fed_reference_positions_get(*how, how + 1, (size_t)(src + len - how - 1), count,
                                    width_of_all(s), index);
    }
    for (size_t i = 0; i < count; i++) {
        v[index[i]] = get_code(signs, i, 1) ? -1.0f : 1.0f;
    }
    for (size_t k = 0; k < s->buckets; k++) {
        const float scale = s->one_scale    ? to_float(get_u32(src + 8))
                            : marks[k] != 0 ? to_float((base + marks[k]) << 20)
                                            : 0.0f;
        rotate_back(s, k, v + (k << s->shift), scale, y);
    }
    free(index);
    free(v);
}

void fed_reference_eden_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    shape s = shape_of(src[0], src[1], get_u32(src + 2), n);
    if (s.few) {
        decode_few(&s, src, len, y);
    } else {
        decode_all(&s, src, y);
    }
    drop_shape(&s);
}
