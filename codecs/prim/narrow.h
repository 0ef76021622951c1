/* The part that float16 and bfloat16 share: everything but the conversions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_NARROW_H
#define FEDCODEC_PRIM_NARROW_H

#include <assert.h>

#include "codecs/prim/dense.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"

/* Conversions of one value: to the nearest finite two-byte float, and back. The loops below are
 * inline, so that the compiler inlines the conversions into them. */
typedef uint16_t (*fedcodec_narrow_fn)(float v);
typedef float (*fedcodec_widen_fn)(uint16_t v);

/** Encode a block, as a fedcodec_dense_fn does, with the conversions given. */
static inline void fedcodec_narrow_encode(const fedcodec_job *block, fedcodec_narrow_fn narrow,
                                          fedcodec_widen_fn widen) {
    assert(block->residual != NULL);
    float *restrict residual = block->residual;
    const float *restrict x = block->x;
    uint8_t *restrict dst = block->dst;
    fedcodec_dense_fetch(block);
    for (size_t i = 0, n = block->n; i < n; i++) {
        float sum = fedcodec_sum(residual, x, i);
        uint16_t v = narrow(sum);
        residual[i] = sum - widen(v);
        fedcodec_store_u16(dst + 2 * i, v);
    }
}

/** Check a message. infinity: magnitudes from these bits on are infinite or NaN. */
static inline fed_status fedcodec_narrow_check(const uint8_t *src, size_t len, size_t n,
                                               uint16_t infinity, uint16_t *max) {
    FED_REQUIRE(len % 2 == 0 && len / 2 == n, FED_EFORMAT);
    int16_t most = 0; /* signed: each vector unit has a maximum of signed 16-bit words */
    for (size_t i = 0; i < n; i++) {
        int16_t m = (int16_t)(fedcodec_load_u16(src + 2 * i) & 0x7fff);
        most = m > most ? m : most;
    }
    FED_REQUIRE(most < infinity, FED_EFORMAT);
    *max = (uint16_t)most;
    return FED_OK;
}

static inline void fedcodec_narrow_decode(const uint8_t *restrict src, float *restrict y, size_t n,
                                          fedcodec_widen_fn widen) {
    enum { BLOCK = FEDCODEC_DENSE_BLOCK };
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t end = n - start < BLOCK ? n : start + BLOCK;
        fedcodec_fetch_block(y + start, BLOCK);
        for (size_t i = start; i < end; i++) {
            y[i] = widen(fedcodec_load_u16(src + 2 * i));
        }
    }
}

static inline void fedcodec_narrow_axpy(const uint8_t *restrict src, float w, float *restrict y,
                                        size_t n, fedcodec_widen_fn widen) {
    for (size_t i = 0; i < n; i++) {
        y[i] += w * widen(fedcodec_load_u16(src + 2 * i));
    }
}

static inline void fedcodec_narrow_fold(const uint8_t *restrict src, int64_t weight,
                                        int64_t *restrict acc, size_t n, fedcodec_widen_fn widen) {
    for (size_t i = 0; i < n; i++) {
        acc[i] += weight * fedcodec_fixed(widen(fedcodec_load_u16(src + 2 * i)));
    }
}

/** Define all functions of a vtable, from the two conversions and the argument infinity of
 * fedcodec_narrow_check. FEDCODEC_NARROW_MEMBERS puts them into the vtable. */
// clang-format off
#define FEDCODEC_NARROW_FUNCTIONS(narrow, widen, infinity)                                         \
    static size_t narrow_bound(const double *param, size_t n) {                                    \
        (void)param;                                                                               \
        return 2 * n;                                                                              \
    }                                                                                              \
    static void encode_block(const fedcodec_job *block, size_t k, void *with) {                    \
        (void)k, (void)with;                                                                       \
        fedcodec_narrow_encode(block, narrow, widen);                                              \
    }                                                                                              \
    static fed_status narrow_encode(const fedcodec_job *job, size_t *len) {                        \
        FED_TRY(fedcodec_dense_encode_added(job, 0, 16, encode_block, NULL));                      \
        *len = 2 * job->n;                                                                         \
        return FED_OK;                                                                             \
    }                                                                                              \
    static fed_status narrow_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {     \
        uint16_t max = 0;                                                                          \
        FED_TRY(fedcodec_narrow_check(src, len, n, infinity, &max));                               \
        *max_abs = widen(max);                                                                     \
        return FED_OK;                                                                             \
    }                                                                                              \
    static void narrow_decode(const uint8_t *src, size_t len, float *y, size_t n) {                \
        (void)len;                                                                                 \
        fedcodec_narrow_decode(src, y, n, widen);                                                  \
    }                                                                                              \
    static void narrow_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {         \
        (void)len;                                                                                 \
        fedcodec_narrow_axpy(src, w, y, n, widen);                                                 \
    }                                                                                              \
    static void narrow_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc,          \
                            size_t n) {                                                            \
        (void)len;                                                                                 \
        fedcodec_narrow_fold(src, weight, acc, n, widen);                                          \
    }

#define FEDCODEC_NARROW_MEMBERS                                                                    \
    .feedback = true, .bound = narrow_bound, .scan = fedcodec_scan_added, .encode = narrow_encode, \
    .check = narrow_check, .decode = narrow_decode, .axpy = narrow_axpy, .fold = narrow_fold
// clang-format on

#endif
