/* Encode and decode 3LC's digits with AVX-512, 64 bytes at a time. Included by threelc.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_THREELC_DIGITS_AVX512_IMPL_H
#define FEDCODEC_THREELC_DIGITS_AVX512_IMPL_H

#include <immintrin.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"
#include "codecs/threelc/values.h"

/* One bit for each of 64 values in each of two masks: is it sent as 1, and is it sent as -1? */
typedef fedcodec_trits digits;

static inline void quantise_group(float *e, const float *x, size_t stride, float m,
                                  uint8_t *bytes) {
    static const int8_t weight[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    __m512i sum = _mm512_set1_epi8(FEDCODEC_QUARTIC_ZERO);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        digits d = quantise_values(e + k * stride, x != NULL ? x + k * stride : NULL, m);
        __m512i w = _mm512_set1_epi8(weight[k]);
        sum = _mm512_mask_add_epi8(sum, d.plus, sum, w);
        sum = _mm512_mask_sub_epi8(sum, d.minus, sum, w);
    }
    _mm512_storeu_si512(bytes, sum);
}

/* The codes of 64 bytes, with two bits a digit. half[0] has the codes of the first 32 bytes,
 * half[1] those of the others. Of 32 codes, the first 16 have the lower halves of the 32-bit
 * lanes, the others the upper halves. */
typedef struct codes {
    __m512i half[2];
} codes;

static const unsigned digit_at[FEDCODEC_QUARTIC_DIGITS] = {0, 2, 4, 6, 8};

/* Tables of the two bytes of a code: the first four digits, and the last digit. */
#define FOUR(b) (b) / 81 | (b) / 27 % 3 << 2 | (b) / 9 % 3 << 4 | (b) / 3 % 3 << 6,
#define LAST(b) (b) % 3,
static const uint8_t first_four[256] = {FEDCODEC_QUARTIC_EACH(FOUR)};
static const uint8_t last_one[256] = {FEDCODEC_QUARTIC_EACH(LAST)};

/* The order of the bytes that makes unpacking put each code into its lane. */
#define PAIR(i)  (i), (i) + 16
#define PAIRS(i) PAIR(i), PAIR((i) + 1), PAIR((i) + 2), PAIR((i) + 3)
static const uint8_t order[64] = {PAIRS(0), PAIRS(32), PAIRS(4),  PAIRS(36),
                                  PAIRS(8), PAIRS(40), PAIRS(12), PAIRS(44)};

static inline __m512i look_up(const uint8_t *table, __m512i at) {
    const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64);
    const __m512i c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
    return _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(a, at, b), _mm512_movepi8_mask(at),
                                _mm512_permutex2var_epi8(c, at, d));
}

static inline codes codes_of(const uint8_t *bytes) {
    const __m512i at =
        _mm512_permutexvar_epi8(_mm512_loadu_si512(order), _mm512_loadu_si512(bytes));
    const __m512i four = look_up(first_four, at), one = look_up(last_one, at);
    return (codes){{_mm512_unpacklo_epi8(four, one), _mm512_unpackhi_epi8(four, one)}};
}

/* Return 16 values, chosen among four by digit k of 16 bytes. The vector values holds the four
 * values four times. */
static inline __m512 choose_16(const codes *c, unsigned sixteen, size_t k, __m512 values) {
    const __m512i code = _mm512_srli_epi32(c->half[sixteen / 2], 16 * (sixteen % 2) + digit_at[k]);
    return _mm512_permutevar_ps(values, code);
}

/* Decode count bytes, a multiple of GROUPED, to the values at y, y + stride and so on. */
static inline void set_groups(float *y, size_t stride, const uint8_t *bytes, size_t count,
                              float step) {
    const __m512 values = _mm512_broadcast_f32x4(_mm_setr_ps(-step, 0.0f, step, 0.0f));
    for (size_t i = 0; i < count; i += GROUPED, y += GROUPED) {
        const codes c = codes_of(bytes + i);
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            float *at = y + k * stride;
            for (unsigned j = 0; j < GROUPED / 16; j++, at += 16) {
                fedcodec_fetch(at, AHEAD);
                _mm512_storeu_ps(at, choose_16(&c, j, k, values));
            }
        }
    }
}

/* Decode as set_groups does, but add to y. Zeros are added as -0, which keeps the sign of a
 * zero. */
static inline void add_groups(float *y, size_t stride, const uint8_t *bytes, size_t count,
                              float step) {
    const __m512 values = _mm512_broadcast_f32x4(_mm_setr_ps(-step, -0.0f, step, 0.0f));
    for (size_t i = 0; i < count; i += GROUPED, y += GROUPED) {
        const codes c = codes_of(bytes + i);
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            float *at = y + k * stride;
            for (unsigned j = 0; j < GROUPED / 16; j++, at += 16) {
                fedcodec_fetch(at, AHEAD);
                __m512 sum = _mm512_add_ps(_mm512_loadu_ps(at), choose_16(&c, j, k, values));
                _mm512_storeu_ps(at, sum);
            }
        }
    }
}

static inline void fold_groups(int64_t *acc, size_t stride, const uint8_t *bytes, size_t count,
                               int64_t step) {
    const __m512i up = _mm512_set1_epi64(step), one = _mm512_set1_epi64(1);
    for (size_t i = 0; i < count; i += GROUPED) {
        uint32_t code[2][16];
        const codes c = codes_of(bytes + i);
        _mm512_storeu_si512(code[0], c.half[0]);
        _mm512_storeu_si512(code[1], c.half[1]);
        for (size_t j = 0; j < GROUPED; j += 8, acc += 8) {
            __m256i eight = _mm256_loadu_si256((const __m256i *)(void *)(code[j / 32] + j % 16));
            eight = _mm256_srli_epi32(eight, j % 32 < 16 ? 0 : 16);
            const __m512i wide = _mm512_cvtepu32_epi64(eight), bits = _mm512_set1_epi64(3);
            for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
                int64_t *at = acc + k * stride;
                __m512i digit = _mm512_and_si512(_mm512_srli_epi64(wide, digit_at[k]), bits);
                fedcodec_fetch(at, AHEAD);
                __m512i v = _mm512_loadu_si512(at);
                v = _mm512_mask_add_epi64(v, _mm512_cmpgt_epi64_mask(digit, one), v, up);
                v = _mm512_mask_sub_epi64(v, _mm512_cmplt_epi64_mask(digit, one), v, up);
                _mm512_storeu_si512(at, v);
            }
        }
    }
}

#endif
