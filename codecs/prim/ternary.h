/* Quantise values to -m, 0 or m, FEDCODEC_TERNARY of them at once, with vectors. On machines
 * without these vectors that macro is undefined, and callers use plain loops. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_TERNARY_H
#define FEDCODEC_PRIM_TERNARY_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/prim/fetch.h"
#include "codecs/unit.h"

/*
 * fedcodec_ternary: e += x (x may be NULL); then a value above half is sent as m, a value below
 * -half as -m, any other as 0. e keeps the rest. Returns what is sent as fedcodec_trits, whose
 * form differs between vector units.
 */

#if FEDCODEC_AVX512
#include <immintrin.h>

#define FEDCODEC_TERNARY 64

/* One bit a value, the first value in the lowest bit: plus if m is sent, minus if -m is sent. */
typedef struct fedcodec_trits {
    uint64_t plus, minus;
} fedcodec_trits;

static inline fedcodec_trits fedcodec_ternary(float *e, const float *x, float m, float half) {
    const __m512 step = _mm512_set1_ps(m);
    const __m512 above = _mm512_set1_ps(half), below = _mm512_set1_ps(-half);
    fedcodec_trits trits = {0, 0};
    for (unsigned j = 0; j < FEDCODEC_TERNARY; j += 16) {
        __m512 v = _mm512_loadu_ps(e + j);
        if (x != NULL) {
            v = _mm512_add_ps(v, _mm512_loadu_ps(x + j));
        }
        __mmask16 plus = _mm512_cmp_ps_mask(v, above, _CMP_GT_OQ);
        __mmask16 minus = _mm512_cmp_ps_mask(v, below, _CMP_LT_OQ);
        v = _mm512_mask_sub_ps(v, plus, v, step);
        v = _mm512_mask_add_ps(v, minus, v, step);
        _mm512_storeu_ps(e + j, v);
        trits.plus |= (uint64_t)plus << j;
        trits.minus |= (uint64_t)minus << j;
    }
    return trits;
}

#elif FEDCODEC_AVX2
#include <immintrin.h>

#define FEDCODEC_TERNARY 32

/* One byte a value: above 0, 0, or below 0. The order differs from that of the values, as packing
 * works in halves of a vector. Of each eight values, four are in the lower half and four in the
 * upper half. */
typedef __m256i fedcodec_trits;

/* Quantise eight values. Returns the bits of the values sent. */
static inline __m256i fedcodec_ternary_8(float *e, const float *x, __m256 m, __m256 half) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 v = _mm256_loadu_ps(e);
    if (x != NULL) {
        v = _mm256_add_ps(v, _mm256_loadu_ps(x));
    }
    __m256 above = _mm256_cmp_ps(_mm256_andnot_ps(sign, v), half, _CMP_GT_OQ);
    __m256 sent = _mm256_and_ps(above, _mm256_or_ps(m, _mm256_and_ps(sign, v)));
    _mm256_storeu_ps(e, _mm256_sub_ps(v, sent));
    return _mm256_castps_si256(sent);
}

/* Packing 32-bit integers to bytes saturates, so it keeps their signs. The bits of a float, taken
 * as an integer, have the float's sign. */
static inline fedcodec_trits fedcodec_ternary(float *e, const float *x, float m, float half) {
    const __m256 step = _mm256_set1_ps(m), above = _mm256_set1_ps(half);
    __m256i sent[4];
    for (size_t j = 0; j < 4; j++) {
        sent[j] = fedcodec_ternary_8(e + 8 * j, x != NULL ? x + 8 * j : NULL, step, above);
    }
    __m256i low = _mm256_packs_epi32(sent[0], sent[1]);
    __m256i high = _mm256_packs_epi32(sent[2], sent[3]);
    return _mm256_packs_epi16(low, high);
}

/* Put bytes from the order of fedcodec_trits into the order of the values. */
static inline __m256i fedcodec_ternary_order(__m256i bytes) {
    return _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
}

#elif FEDCODEC_NEON
#include <arm_neon.h>

#define FEDCODEC_TERNARY 16

/* One byte a value: 1, 0 or -1. */
typedef int8x16_t fedcodec_trits;

static inline int32x4_t fedcodec_ternary_4(float *e, const float *x, float32x4_t m,
                                           float32x4_t half) {
    float32x4_t v = vld1q_f32(e);
    if (x != NULL) {
        v = vaddq_f32(v, vld1q_f32(x));
    }
    uint32x4_t plus = vcgtq_f32(v, half), minus = vcltq_f32(v, vnegq_f32(half));
    uint32x4_t bits = vreinterpretq_u32_f32(m), negative = vreinterpretq_u32_f32(vnegq_f32(m));
    uint32x4_t sent = vorrq_u32(vandq_u32(plus, bits), vandq_u32(minus, negative));
    vst1q_f32(e, vsubq_f32(v, vreinterpretq_f32_u32(sent)));
    return vreinterpretq_s32_u32(vsubq_u32(minus, plus));
}

static inline fedcodec_trits fedcodec_ternary(float *e, const float *x, float m, float half) {
    const float32x4_t step = vdupq_n_f32(m), above = vdupq_n_f32(half);
    int32x4_t trit[4];
    for (size_t j = 0; j < 4; j++) {
        trit[j] = fedcodec_ternary_4(e + 4 * j, x != NULL ? x + 4 * j : NULL, step, above);
    }
    int16x8_t low = vcombine_s16(vmovn_s32(trit[0]), vmovn_s32(trit[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(trit[2]), vmovn_s32(trit[3]));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}
#endif

#ifdef FEDCODEC_TERNARY
/** Prefetch FEDCODEC_TERNARY values of e and x, from index ahead on. */
static inline void fedcodec_ternary_fetch(const float *e, const float *x, ptrdiff_t ahead) {
    for (size_t j = 0; j < FEDCODEC_TERNARY; j += FEDCODEC_FETCH_LINE) {
        fedcodec_fetch(e + j, ahead);
        if (x != NULL) {
            fedcodec_fetch(x + j, ahead);
        }
    }
}
#endif

#endif
