/* int8: each value as one of 255 multiples of a scale. Format: docs/codec-formats.md#int8
 * Paper: 3LC, section 5 ("8-bit int") */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "codecs/prim/dense.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/rounding.h"
#include "codecs/registry.h"

/* A message is the scale, then a byte for each value unless the scale is 0. UNUSED: the byte of
 * the level -128, which is invalid. BLOCK: values that a decode prefetches at once. */
enum { HEAD = 4, LEVELS = FEDCODEC_LEVELS, BLOCK = 256, UNUSED = 0x80 };

static const fedcodec_param int8_params[] = {{.key = NULL}};

static size_t int8_bound(const double *param, size_t n) {
    (void)param;
    return HEAD + n;
}

static void quantise(const fedcodec_job *block, size_t k, void *with) {
    (void)k;
    const fedcodec_scale by = *(const fedcodec_scale *)with;
    assert(block->residual != NULL);
    float *restrict e = block->residual;
    const float *restrict x = block->x;
    uint8_t *restrict dst = block->dst;
    fedcodec_dense_fetch(block);
    for (size_t i = 0, n = block->n; i < n; i++) {
        float v = fedcodec_sum(e, x, i), level = fedcodec_level(v, by.inverse);
        e[i] = v - level * by.scale;
        dst[i] = (uint8_t)(int)level;
    }
}

static fed_status int8_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_scale by = fedcodec_scale_of(job->max);
    fedcodec_store_f32(job->dst, by.scale);
    *len = HEAD;
    if (by.scale > 0.0f) {
        FED_TRY(fedcodec_dense_encode(job, HEAD, 8, quantise, &by));
        *len += job->n;
    } else {
        fedcodec_add(job->residual, job->x, job->n);
    }
    return FED_OK;
}

/* Is there a level of 127 or -127, which the largest magnitude always gets, and none of -128? */
static bool levels_valid(const uint8_t *src, size_t n) {
    uint8_t unused = 0, full = 0;
    for (size_t i = 0; i < n; i++) {
        unused |= src[i] == UNUSED;
        full |= (src[i] == LEVELS) | (src[i] == 256 - LEVELS);
    }
    return unused == 0 && full != 0;
}

static fed_status int8_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= HEAD, FED_EFORMAT);
    float scale = fedcodec_load_f32(src);
    if (scale == 0.0f) {
        FED_REQUIRE(len == HEAD && !signbit(scale), FED_EFORMAT);
    } else {
        FED_REQUIRE(fedcodec_scale_valid(scale), FED_EFORMAT);
        FED_REQUIRE(len - HEAD == n && levels_valid(src + HEAD, n), FED_EFORMAT);
    }
    *max_abs = LEVELS * scale;
    return FED_OK;
}

static void int8_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    const float scale = fedcodec_load_f32(src);
    if (len == HEAD) {
        memset(y, 0, n * sizeof *y);
        return;
    }
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t end = n - start < BLOCK ? n : start + BLOCK;
        fedcodec_fetch_block(y + start, BLOCK);
        for (size_t i = start; i < end; i++) {
            y[i] = fedcodec_level_value(src[HEAD + i], scale);
        }
    }
}

static void int8_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    const float scale = fedcodec_load_f32(src);
    for (size_t i = 0; i < n && len > HEAD; i++) {
        y[i] += w * fedcodec_level_value(src[HEAD + i], scale);
    }
}

static void int8_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    const float scale = fedcodec_load_f32(src);
    for (size_t i = 0; i < n && len > HEAD; i++) {
        acc[i] += weight * fedcodec_fixed(fedcodec_level_value(src[HEAD + i], scale));
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(int8) = {
    .id = FEDCODEC_ID_int8,
    .name = "int8",
    .about = "each value as one of 255 multiples of a scale",
    .params = int8_params,
    .feedback = true,
    .bound = int8_bound,
    .scan = fedcodec_scan_sum,
    .absorb = fedcodec_absorb,
    .encode = int8_encode,
    .check = int8_check,
    .decode = int8_decode,
    .axpy = int8_axpy,
    .fold = int8_fold,
};
