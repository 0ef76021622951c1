/* eden: rotate each bucket at random, so that its values are nearly normally distributed, then send
 * each value in one to four bits. Format: docs/codec-formats.md#eden
 * Papers: DRIVE (Vargaftik et al., NeurIPS 2021), sections 3 to 5; EDEN (ICML 2022), section 3 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "codecs/eden/rotation.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/pack.h"
#include "codecs/prim/parts.h"
#include "codecs/registry.h"
#include "fed/hash.h"

/* A message begins with LEAD bytes: the number of bits of a code, the binary logarithm of the
 * bucket size, and the draw, which seeds the random signs. A float32 scale for each bucket follows,
 * then the codes. A code is a sign and the index of a magnitude. */
enum {
    LEAD = 6,
    SCALE = 4,
    BITS_MAX = 4,
    MAGNITUDES = 1 << (BITS_MAX - 1),
    SHIFT_MIN = 6,
    SHIFT_MAX = 10,
    BUCKET_MAX = 1 << SHIFT_MAX,
    BUCKET_MIN = EDEN_LANES,
    SUMS = 16
};

enum { PARAM_BITS, PARAM_BUCKET, PARAM_SEED };

static const char *const bucket_words[] = {"64", "128", "256", "512", "1024", NULL};
static const fedcodec_param eden_params[] = {
    {.key = "bits",
     .preset = 1,
     .low = 1,
     .high = BITS_MAX,
     .help = "of a value, with its sign",
     .whole = true},
    {.key = "bucket",
     .preset = SHIFT_MAX - SHIFT_MIN,
     .low = 0,
     .high = SHIFT_MAX - SHIFT_MIN,
     .help = "values that are rotated together",
     .names = bucket_words},
    {.key = "seed",
     .preset = 1,
     .low = 1,
     .high = UINT32_MAX,
     .help = "of the random numbers",
     .whole = true},
    {.key = NULL},
};

/* The magnitudes for bits = 1 to 4: the best levels for a normal distribution, in 1/1024 of its
 * standard deviation (Max, "Quantizing for minimum distortion", 1960). A single bit needs no other
 * magnitude than 1, as the scale is fitted to it. */
static const float magnitudes[BITS_MAX][MAGNITUDES] = {
    {1},
    {464, 1546},
    {251, 774, 1376, 2204},
    {131, 397, 673, 965, 1286, 1657, 2119, 2798},
};

typedef struct parts {
    unsigned bits, shift;
    size_t n, buckets, codes, len; /* codes: offset of the codes; len: length of the message */
} parts;

static size_t padded(size_t count) {
    size_t wide = BUCKET_MIN;
    while (wide < count) {
        wide *= 2;
    }
    return wide;
}

static parts parts_of(unsigned bits, unsigned shift, size_t n) {
    parts p = {.bits = bits, .shift = shift, .n = n};
    const size_t rest = n & (((size_t)1 << shift) - 1), whole = n - rest;
    p.buckets = (n >> shift) + (rest != 0);
    p.codes = LEAD + SCALE * p.buckets;
    p.len = p.codes + whole / 8 * bits + (rest > 0 ? padded(rest) / 8 * bits : 0);
    return p;
}

static parts parts_for(const double *param, size_t n) {
    return parts_of((unsigned)param[PARAM_BITS], (unsigned)param[PARAM_BUCKET] + SHIFT_MIN, n);
}

static size_t count_of(const parts *p, size_t k) {
    const size_t bucket = (size_t)1 << p->shift, left = p->n - (k << p->shift);
    return left < bucket ? left : bucket;
}

static size_t eden_bound(const double *param, size_t n) {
    return parts_for(param, n).len;
}

/* Return a scale at which a sum of `wide` scaled magnitudes, each below 2^12, is finite. */
static float scale_max(size_t wide) {
    return 0x1p115f / (float)wide;
}

/* Add up the partial sums. Lane i mod SUMS has value i, so all vector units add in the same
 * order. */
static double add_lanes(const double lane[SUMS]) {
    double sum = 0.0;
    for (size_t k = 0; k < SUMS; k++) {
        sum += lane[k];
    }
    return sum;
}

static double sum_squares(const float *v, size_t n) {
    double lane[SUMS] = {0.0};
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        for (size_t k = 0; k < SUMS; k++) {
            lane[k] += (double)v[i + k] * (double)v[i + k];
        }
    }
    for (; i < n; i++) {
        lane[i % SUMS] += (double)v[i] * (double)v[i];
    }
    return add_lanes(lane);
}

/* first: the least magnitude. step[k]: magnitude k minus magnitude k - 1. limit[k]: a larger value
 * gets at least magnitude k. */
typedef struct steps {
    float first, step[MAGNITUDES], limit[MAGNITUDES];
} steps;

static steps steps_of(unsigned bits, double norm) {
    const float *magnitude = magnitudes[bits - 1];
    steps s = {.first = magnitude[0]};
    for (size_t k = 1; k < (size_t)1 << (bits - 1); k++) {
        s.step[k] = magnitude[k] - magnitude[k - 1];
        s.limit[k] = (float)((double)(magnitude[k - 1] + magnitude[k]) / 2048.0 * norm);
    }
    return s;
}

/* Write the code of each value, and set v[i] = |v[i]| * the code's magnitude. bits is a constant at
 * each call, so that the compiler can unroll the inner loop. */
static inline void choose_with(float *restrict v, size_t n, unsigned bits, const steps *by,
                               uint8_t *restrict code) {
    for (size_t i = 0; i < n; i++) {
        const float x = fabsf(v[i]);
        float sent = by->first;
        int32_t number = v[i] < 0.0f ? 1 << (bits - 1) : 0;
        for (size_t k = 1; k < (size_t)1 << (bits - 1); k++) {
            number += x > by->limit[k];
            sent += x > by->limit[k] ? by->step[k] : 0.0f;
        }
        code[i] = (uint8_t)number;
        v[i] = x * sent;
    }
}

static void choose_codes(float *v, size_t n, unsigned bits, double norm, uint8_t *code) {
    const steps by = steps_of(bits, norm);
    switch (bits) {
    case 1:
        choose_with(v, n, 1, &by, code);
        return;
    case 2:
        choose_with(v, n, 2, &by, code);
        return;
    case 3:
        choose_with(v, n, 3, &by, code);
        return;
    default:
        choose_with(v, n, BITS_MAX, &by, code);
    }
}

static double sum_all(const float *v, size_t n) {
    double lane[SUMS] = {0.0};
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        for (size_t k = 0; k < SUMS; k++) {
            lane[k] += (double)v[i + k];
        }
    }
    for (; i < n; i++) {
        lane[i % SUMS] += (double)v[i];
    }
    return add_lanes(lane);
}

typedef struct writer {
    parts to;
    const float *x;
    uint8_t *dst;
    uint32_t draw;
    size_t parts;
    bool wrong[FEDCODEC_PARTS_MAX]; /* [k]: part k of the tensor has a NaN or an infinity */
} writer;

/* Rotate bucket k and choose a code for each of its values. wide: the number of values with
 * padding. largest: the bits of the largest magnitude. Returns the bucket's scale. The values are
 * first multiplied by a power of two, so that no sum is infinite. */
static float encode_bucket(const writer *w, size_t k, int32_t largest, size_t wide, uint8_t *code) {
    const size_t count = count_of(&w->to, k);
    const float *x = w->x + (k << w->to.shift);
    const int32_t exponent = largest >> 23;
    float v[BUCKET_MAX];
    if (exponent == 0) {
        return 0.0f; /* all values are 0 or denormal */
    }
    const float up = fedcodec_float((uint32_t)(255 - exponent) << 23);
    for (size_t i = 0; i < count; i++) {
        v[i] = x[i] * up;
    }
    memset(v + count, 0, (wide - count) * sizeof *v);
    const double squares = sum_squares(v, count);
    eden_signs(w->draw, k << w->to.shift, v, wide);
    eden_rotate(v, wide);
    choose_codes(v, wide, w->to.bits, sqrt(squares), code);
    const double scale = squares / sum_all(v, wide) / (double)up;
    return scale < (double)FLT_MIN ? 0.0f : (float)fmin(scale, (double)scale_max(wide));
}

static void write_bucket(const writer *w, size_t k, int32_t largest) {
    uint8_t code[BUCKET_MAX + FEDCODEC_PACK_MORE],
        packed[BUCKET_MAX / 8 * BITS_MAX + FEDCODEC_PACK_MORE];
    const size_t wide = padded(count_of(&w->to, k)), len = wide / 8 * w->to.bits;
    uint8_t *dst = w->dst + w->to.codes + (k << w->to.shift) / 8 * w->to.bits;
    const float scale = encode_bucket(w, k, largest, wide, code);
    fedcodec_store_f32(w->dst + LEAD + SCALE * k, scale);
    if (scale > 0.0f) {
        fedcodec_pack(code, wide, w->to.bits, packed);
        memcpy(dst, packed, len);
    } else {
        memset(dst, 0, len);
    }
}

static void write_part(void *job, size_t part) {
    writer *w = job;
    const size_t end = fedcodec_part_start(w->to.buckets, w->parts, part + 1, 1);
    for (size_t k = fedcodec_part_start(w->to.buckets, w->parts, part, 1); k < end; k++) {
        const int32_t largest = fedcodec_largest(w->x + (k << w->to.shift), count_of(&w->to, k));
        w->wrong[part] |= largest >= FEDCODEC_INFINITY;
        if (!w->wrong[part]) {
            write_bucket(w, k, largest);
        }
    }
}

static fed_status eden_encode(const fedcodec_job *job, size_t *len) {
    writer w = {.to = parts_for(job->param, job->n), .x = job->x, .dst = job->dst};
    w.draw = (uint32_t)fed_digest(job->x, job->n) ^ (uint32_t)job->param[PARAM_SEED];
    w.parts = fedcodec_parts(job->pool, job->n);
    fedcodec_run_parts(job->pool, w.parts, write_part, &w);
    for (size_t k = 0; k < w.parts; k++) {
        FED_REQUIRE(!w.wrong[k], FED_ENONFINITE);
    }
    job->dst[0] = (uint8_t)w.to.bits;
    job->dst[1] = (uint8_t)w.to.shift;
    fedcodec_store_u32(job->dst + 2, w.draw);
    *len = w.to.len;
    return FED_OK;
}

static size_t decode_bucket(const uint8_t *src, const parts *p, size_t k, float *v) {
    uint8_t code[BUCKET_MAX + FEDCODEC_PACK_MORE],
        packed[BUCKET_MAX / 8 * BITS_MAX + FEDCODEC_PACK_MORE];
    float value[1 << BITS_MAX];
    const size_t count = count_of(p, k), wide = padded(count), first = k << p->shift;
    const float scale = fedcodec_load_f32(src + LEAD + SCALE * k);
    assert(count <= wide && wide >= EDEN_LANES);
    const int signs = 1 << (p->bits - 1);
    for (int i = 0; i < signs; i++) {
        value[i] = magnitudes[p->bits - 1][i];
        value[i + signs] = -value[i];
    }
    memcpy(packed, src + p->codes + first / 8 * p->bits, wide / 8 * p->bits);
    memset(packed + wide / 8 * p->bits, 0, FEDCODEC_PACK_MORE);
    fedcodec_unpack(packed, wide, p->bits, code);
    for (size_t i = 0; i < wide; i++) {
        v[i] = value[code[i]];
    }
    eden_rotate(v, wide);
    eden_signs(fedcodec_load_u32(src + 2), first, v, count);
    for (size_t i = 0; i < count; i++) {
        v[i] = v[i] * scale + 0.0f; /* adding 0 turns -0 into +0 */
    }
    return count;
}

static bool all_zero(const uint8_t *src, size_t len) {
    uint8_t any = 0;
    for (size_t i = 0; i < len; i++) {
        any |= src[i];
    }
    return any == 0;
}

static bool bucket_valid(const uint8_t *src, const parts *p, size_t k) {
    const float scale = fedcodec_load_f32(src + LEAD + SCALE * k);
    const size_t wide = padded(count_of(p, k)), at = p->codes + (k << p->shift) / 8 * p->bits;
    return fedcodec_bits(scale) == 0 ? all_zero(src + at, wide / 8 * p->bits)
                                     : scale >= FLT_MIN && scale <= scale_max(wide);
}

static fed_status eden_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= LEAD && src[0] >= 1 && src[0] <= BITS_MAX, FED_EFORMAT);
    FED_REQUIRE(src[1] >= SHIFT_MIN && src[1] <= SHIFT_MAX, FED_EFORMAT);
    const parts p = parts_of(src[0], src[1], n);
    FED_REQUIRE(len == p.len, FED_EFORMAT);
    int32_t max = 0;
    float v[BUCKET_MAX];
    for (size_t k = 0; k < p.buckets; k++) {
        FED_REQUIRE(bucket_valid(src, &p, k), FED_EFORMAT);
        const size_t count = decode_bucket(src, &p, k, v);
        max = fedcodec_larger(max, fedcodec_largest(v, count));
    }
    *max_abs = fedcodec_float((uint32_t)max);
    return FED_OK;
}

static void eden_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    const parts p = parts_of(src[0], src[1], n);
    float v[BUCKET_MAX];
    for (size_t k = 0; k < p.buckets; k++) {
        const size_t count = decode_bucket(src, &p, k, v);
        memcpy(y + (k << p.shift), v, count * sizeof *v);
    }
}

static void eden_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    const parts p = parts_of(src[0], src[1], n);
    float v[BUCKET_MAX];
    for (size_t k = 0; k < p.buckets; k++) {
        const size_t count = decode_bucket(src, &p, k, v);
        for (size_t i = 0; i < count; i++) {
            y[(k << p.shift) + i] += w * v[i];
        }
    }
}

static void eden_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    const parts p = parts_of(src[0], src[1], n);
    float v[BUCKET_MAX];
    for (size_t k = 0; k < p.buckets; k++) {
        const size_t count = decode_bucket(src, &p, k, v);
        for (size_t i = 0; i < count; i++) {
            acc[(k << p.shift) + i] += weight * fedcodec_fixed(v[i]);
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(eden) = {
    .id = FEDCODEC_ID_eden,
    .name = "eden",
    .about = "each bucket rotated at random, one to four bits a value (DRIVE, EDEN)",
    .params = eden_params,
    .feedback = false,
    .bound = eden_bound,
    .scan = fedcodec_scan_sum,
    .encode = eden_encode,
    .check = eden_check,
    .decode = eden_decode,
    .axpy = eden_axpy,
    .fold = eden_fold,
};
