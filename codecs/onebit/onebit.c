/* onebit: a sign for each value, and the mean of each sign's values.
 * Format: docs/codec-formats.md#onebit
 * Paper: 3LC, section 5 ("MQE 1-bit int"), after 1-bit SGD */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/dense.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/registry.h"

/* A message is the mean of the values from 0 on, the mean of the negative ones, and the signs. */
enum { HEAD = 8, LANES = 16, BLOCK = FEDCODEC_DENSE_BLOCK };

typedef struct means {
    float up, down; /* 0 if there are no values of this sign */
} means;

static const fedcodec_param onebit_params[] = {{.key = NULL}};

static size_t onebit_bound(const double *param, size_t n) {
    (void)param;
    return HEAD + fedcodec_bitmap_len(n);
}

/* Return a mean of at most FLT_MAX: rounding in a long sum could give more. */
static float mean(double sum, size_t count) {
    return count > 0 ? (float)fmin(sum / (double)count, (double)FLT_MAX) : 0.0f;
}

/* Independent sums of each sign's magnitudes: value i belongs to lane i mod LANES. */
typedef struct lanes {
    double up[LANES], down[LANES];
    uint32_t negative[LANES];
} lanes;

/* Add the first `whole` values to the lanes; whole is a multiple of LANES. Masks instead of "?:"
 * help compilers to vectorise the loop. */
static void add_lanes(lanes *restrict sum, const float *restrict e, const float *restrict x,
                      size_t whole) {
    for (size_t i = 0; i < whole; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            float v = fedcodec_sum(e, x, i + k);
            uint32_t bits = fedcodec_bits(v), sign = 0u - (bits >> 31);
            sum->up[k] += (double)fedcodec_float(bits & ~sign);
            sum->down[k] += (double)fedcodec_float(bits & sign & FEDCODEC_MAGNITUDE);
            sum->negative[k] += v < 0.0f;
        }
    }
}

/* FED_ENONFINITE: a value is NaN or infinite. Sums of finite floats are finite as doubles. */
static fed_status find_means(const float *e, const float *x, size_t n, means *found) {
    lanes sum = {.up = {0.0}};
    float rest[LANES] = {0.0f};
    size_t whole = n - n % LANES, negatives = 0;
    add_lanes(&sum, e, x, whole);
    for (size_t i = whole; i < n; i++) {
        rest[i - whole] = fedcodec_sum(e, x, i);
    }
    add_lanes(&sum, rest, NULL, LANES);
    double up = 0.0, down = 0.0;
    for (size_t k = 0; k < LANES; k++) {
        up += sum.up[k];
        down += sum.down[k];
        negatives += sum.negative[k];
    }
    FED_REQUIRE(isfinite(up) && isfinite(down), FED_ENONFINITE);
    *found = (means){.up = mean(up, n - negatives), .down = 0.0f - mean(down, negatives)};
    return FED_OK;
}

static void put_signs(const fedcodec_job *block, size_t k, void *with) {
    (void)k;
    const means m = *(const means *)with;
    assert(block->residual != NULL);
    float *restrict e = block->residual;
    const float *restrict x = block->x;
    uint8_t *restrict dst = block->dst;
    const size_t n = block->n;
    uint8_t negative[BLOCK + 8] = {0};
    fedcodec_dense_fetch(block);
    for (size_t i = 0; i < n; i++) {
        float v = fedcodec_sum(e, x, i);
        negative[i] = v < 0.0f;
        e[i] = v - (v < 0.0f ? m.down : m.up);
    }
    memset(negative + n, 0, 8);
    for (size_t i = 0; i < n; i += 8) {
        dst[i / 8] = fedcodec_bitmap_byte(negative + i);
    }
}

static fed_status onebit_encode(const fedcodec_job *job, size_t *len) {
    means m;
    fedcodec_job finite = *job;
    FED_TRY(find_means(job->residual, job->x, job->n, &m));
    finite.scanned = true;
    fedcodec_store_f32(job->dst, m.up);
    fedcodec_store_f32(job->dst + 4, m.down);
    FED_TRY(fedcodec_dense_encode(&finite, HEAD, 1, put_signs, &m));
    *len = HEAD + fedcodec_bitmap_len(job->n);
    return FED_OK;
}

static means load_means(const uint8_t *src) {
    return (means){.up = fedcodec_load_f32(src), .down = fedcodec_load_f32(src + 4)};
}

static fed_status onebit_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len == HEAD + fedcodec_bitmap_len(n), FED_EFORMAT);
    FED_REQUIRE(fedcodec_bitmap_padded(src + HEAD, n), FED_EFORMAT);
    means m = load_means(src);
    size_t negatives = fedcodec_bitmap_count(src + HEAD, len - HEAD);
    /* Where there are no values of a sign, their mean must be +0. A mean of negative values must
     * be negative. */
    bool up = isfinite(m.up) && !signbit(m.up) && (m.up == 0.0f || negatives < n);
    bool down = isfinite(m.down) && (negatives > 0 ? m.down < 0.0f : fedcodec_bits(m.down) == 0);
    FED_REQUIRE(up && down, FED_EFORMAT);
    *max_abs = fmaxf(m.up, fabsf(m.down));
    return FED_OK;
}

/* Unpack the signs of the values from start on, a multiple of BLOCK. Each value gets a byte, which
 * is not 0 if the value is negative. Returns the number of values: BLOCK, or fewer at the end. */
static size_t unpack_block(const uint8_t *restrict src, size_t n, size_t start,
                           uint8_t *restrict negative) {
    size_t count = n - start < BLOCK ? n - start : BLOCK;
    for (size_t i = 0; i < fedcodec_bitmap_len(count); i++) {
        uint32_t signs = src[HEAD + start / 8 + i] * UINT32_C(0x01010101);
        fedcodec_store_u32(negative + 8 * i, signs & UINT32_C(0x10204080));
        fedcodec_store_u32(negative + 8 * i + 4, signs & UINT32_C(0x01020408));
    }
    return count;
}

static void onebit_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    const means m = load_means(src);
    uint8_t negative[BLOCK + 8] = {0};
    for (size_t start = 0; start < n; start += BLOCK) {
        fedcodec_fetch_block(y + start, BLOCK);
        size_t count = unpack_block(src, n, start, negative);
        for (size_t i = 0; i < count; i++) {
            y[start + i] = negative[i] != 0 ? m.down : m.up;
        }
    }
}

static void onebit_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    const means m = load_means(src), step = {.up = w * m.up, .down = w * m.down};
    uint8_t negative[BLOCK + 8] = {0};
    for (size_t start = 0; start < n; start += BLOCK) {
        fedcodec_fetch_block(y + start, BLOCK);
        size_t count = unpack_block(src, n, start, negative);
        for (size_t i = 0; i < count; i++) {
            y[start + i] += negative[i] != 0 ? step.down : step.up;
        }
    }
}

static void onebit_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    const means m = load_means(src);
    const int64_t up = weight * fedcodec_fixed(m.up), down = weight * fedcodec_fixed(m.down);
    uint8_t negative[BLOCK + 8] = {0};
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t count = unpack_block(src, n, start, negative);
        for (size_t i = 0; i < count; i++) {
            acc[start + i] += up ^ ((up ^ down) & -(int64_t)(negative[i] != 0));
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(onebit) = {
    .id = FEDCODEC_ID_onebit,
    .name = "onebit",
    .about = "a sign for each value, and the mean of each sign's values",
    .params = onebit_params,
    .feedback = true,
    .bound = onebit_bound,
    .scan = fedcodec_scan_added,
    .encode = onebit_encode,
    .check = onebit_check,
    .decode = onebit_decode,
    .axpy = onebit_axpy,
    .fold = onebit_fold,
};
