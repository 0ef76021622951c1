/* stoch3: for each value -m, 0 or m at random, with the value as the mean; five values a byte.
 * Format: docs/codec-formats.md#stoch3
 * Paper: 3LC, section 5 ("Stoch 3-value + QE"), after TernGrad */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/parts.h"
#include "codecs/prim/quartic.h"
#include "codecs/prim/random.h"
#include "codecs/registry.h"

/* A message is m, then the bytes of digits. If m is 0, no such bytes follow. */
enum { HEAD = 4, BLOCK = 1024 };

static const fedcodec_param stoch3_params[] = {
    {.key = "seed",
     .preset = 1,
     .low = 1,
     .high = UINT32_MAX,
     .help = "of the random numbers",
     .whole = true},
    {.key = NULL},
};

static size_t stoch3_bound(const double *param, size_t n) {
    (void)param;
    return HEAD + fedcodec_quartic_len(n);
}

/* Append a digit for each of n <= BLOCK values to the digits that the bytes hold already; value i
 * goes into byte i. The upper 24 bits of a random number decide whether a value is sent. */
static void push_digits(const float *restrict x, size_t n, float m, const uint32_t *restrict random,
                        uint8_t *restrict bytes) {
    for (size_t i = 0; i < n; i++) {
        float v = x[i];
        int sent = (float)(int)(random[i] >> 8) < fabsf(v) / m * 0x1p24f;
        bytes[i] = (uint8_t)(3 * bytes[i] + 1 + (v < 0.0f ? -sent : sent));
    }
}

typedef struct packing {
    const float *x;
    size_t n;
    float m;
    fed_rng rng; /* nothing has been drawn from it yet */
    uint8_t *bytes;
    size_t len, parts;
} packing;

/* Append digit k to `block` bytes, from byte start on. The last digits may be padding. */
static void push_block(const packing *p, size_t k, size_t start, size_t block) {
    uint32_t random[BLOCK + FEDCODEC_RANDOM_MORE];
    size_t first = k * p->len + start;
    size_t left = first < p->n ? p->n - first : 0;
    size_t values = left < block ? left : block;
    push_digits(p->x + (p->n - left), values, p->m,
                fedcodec_random_draw(&p->rng, p->n - left, values, random), p->bytes + start);
    for (size_t i = start + values; i < start + block; i++) {
        p->bytes[i] = (uint8_t)(3 * p->bytes[i] + 1);
    }
}

/* Make the bytes of one part, digit by digit, so that values are read in the order of memory. */
static void pack_part(void *job, size_t part) {
    const packing *p = job;
    size_t begin = fedcodec_part_start(p->len, p->parts, part, BLOCK);
    size_t end = fedcodec_part_start(p->len, p->parts, part + 1, BLOCK);
    memset(p->bytes + begin, 0, end - begin);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        for (size_t start = begin; start < end; start += BLOCK) {
            push_block(p, k, start, end - start < BLOCK ? end - start : BLOCK);
        }
    }
}

static fed_status stoch3_encode(const fedcodec_job *job, size_t *len) {
    float m = fedcodec_scan_sum(job->x, NULL, job->n);
    FED_REQUIRE(isfinite(m), FED_ENONFINITE);
    fedcodec_store_f32(job->dst, m);
    *len = HEAD;
    if (m > 0.0f) {
        packing p = {.x = job->x, .n = job->n, .m = m, .bytes = job->dst + HEAD};
        fedcodec_random_start(&p.rng, job->param[0], job->x, job->n);
        p.len = fedcodec_quartic_len(job->n);
        p.parts = fedcodec_parts(job->pool, job->n);
        fedcodec_run_parts(job->pool, p.parts, pack_part, &p);
        *len += p.len;
    }
    return FED_OK;
}

static fed_status stoch3_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= HEAD, FED_EFORMAT);
    float m = fedcodec_load_f32(src);
    FED_REQUIRE(isfinite(m) && !signbit(m), FED_EFORMAT);
    size_t packed = m > 0.0f ? fedcodec_quartic_len(n) : 0;
    FED_REQUIRE(len - HEAD == packed, FED_EFORMAT);
    FED_REQUIRE(m == 0.0f || fedcodec_quartic_valid(src + HEAD, packed, n), FED_EFORMAT);
    *max_abs = m;
    return FED_OK;
}

/* Extract digit k of n <= BLOCK bytes, as values -1, 0 or 1. Multiplying a byte by 2^16 / divisor,
 * rounded up, and shifting by 16 divides the byte exactly. */
static void take_digits(const uint8_t *restrict bytes, size_t n, size_t k, int8_t *restrict value) {
    static const unsigned divisor[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    const uint32_t inverse = 65535 / divisor[k] + 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t quotient = bytes[i] * inverse >> 16;
        value[i] = (int8_t)(quotient % 3 - 1);
    }
}

/* Neighbouring values, which are the same digit of neighbouring bytes. */
typedef struct stretch {
    size_t first, count;
    int8_t value[BLOCK];
} stretch;

static void load_stretch(const uint8_t *src, size_t len, size_t n, size_t k, size_t start,
                         stretch *to) {
    size_t packed = len - HEAD, left = packed - start;
    to->first = k * packed + start;
    to->count = to->first < n ? n - to->first : 0; /* without the padding */
    to->count = to->count < left ? to->count : left;
    to->count = to->count < BLOCK ? to->count : BLOCK;
    take_digits(src + HEAD + start, to->count, k, to->value);
}

static void stoch3_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    const float m = fedcodec_load_f32(src);
    if (len == HEAD) {
        memset(y, 0, n * sizeof *y);
    }
    stretch s;
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        for (size_t start = 0; start < len - HEAD; start += BLOCK) {
            load_stretch(src, len, n, k, start, &s);
            for (size_t i = 0; i < s.count; i++) {
                y[s.first + i] = (float)s.value[i] * m;
            }
        }
    }
}

static void stoch3_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    const float m = fedcodec_load_f32(src); /* w * m may be infinite, and 0 * infinity is NaN */
    stretch s;
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        for (size_t start = 0; start < len - HEAD; start += BLOCK) {
            load_stretch(src, len, n, k, start, &s);
            for (size_t i = 0; i < s.count; i++) {
                y[s.first + i] += w * ((float)s.value[i] * m);
            }
        }
    }
}

static void stoch3_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    const int64_t m = weight * fedcodec_fixed(fedcodec_load_f32(src)), step[3] = {-m, 0, m};
    stretch s;
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        for (size_t start = 0; start < len - HEAD; start += BLOCK) {
            load_stretch(src, len, n, k, start, &s);
            for (size_t i = 0; i < s.count; i++) {
                acc[s.first + i] += step[s.value[i] + 1];
            }
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(stoch3) = {
    .id = FEDCODEC_ID_stoch3,
    .name = "stoch3",
    .about = "-m, 0 or m for each value, at random, five a byte",
    .params = stoch3_params,
    .feedback = false,
    .bound = stoch3_bound,
    .scan = fedcodec_scan_sum,
    .encode = stoch3_encode,
    .check = stoch3_check,
    .decode = stoch3_decode,
    .axpy = stoch3_axpy,
    .fold = stoch3_fold,
};
