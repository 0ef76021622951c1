/* Encode and decode 3LC's digits with AVX2, 32 bytes at a time. Included by threelc.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_THREELC_DIGITS_AVX2_IMPL_H
#define FEDCODEC_THREELC_DIGITS_AVX2_IMPL_H

#include <immintrin.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"
#include "codecs/threelc/values.h"

static inline void quantise_group(float *e, const float *x, size_t stride, float m,
                                  uint8_t *bytes) {
    static const int8_t weight[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    __m256i sum = _mm256_set1_epi8(FEDCODEC_QUARTIC_ZERO);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        __m256i trits = quantise_values(e + k * stride, x != NULL ? x + k * stride : NULL, m);
        sum = _mm256_add_epi8(sum, _mm256_sign_epi8(_mm256_set1_epi8(weight[k]), trits));
    }
    _mm256_storeu_si256((__m256i *)(void *)bytes, fedcodec_ternary_order(sum));
}

/* The bit offset of each of a byte's five digits in its code, which has two bits a digit. */
static const int digit_at[FEDCODEC_QUARTIC_DIGITS] = {0, 2, 8, 10, 4};

/* Return the codes of sixteen bytes in eight lanes of 32 bits. The first eight bytes have the
 * lower halves of the lanes, the others the upper halves. A byte is first multiplied to a fraction
 * of 243, in units of 1/65536. Nine times the fraction is two digits and the next fraction; a
 * table gives the two digits as two bits each. */
static inline __m256i codes_of(const uint8_t *bytes) {
    enum { NINE = 9 * (65536 / FEDCODEC_QUARTIC_BYTES + 1) };
    const __m256i pairs =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 0, 0, 0, 0, 0, 0, 0));
    __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)bytes);
    __m128i high = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + 8));
    __m256i b = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(low, high));
    __m256i first = _mm256_mulhi_epu16(b, _mm256_set1_epi16(NINE));
    __m256i f = _mm256_mullo_epi16(b, _mm256_set1_epi16(NINE));
    __m256i second = _mm256_mulhi_epu16(f, _mm256_set1_epi16(9));
    f = _mm256_mullo_epi16(b, _mm256_set1_epi16(9 * NINE));
    __m256i both = _mm256_or_si256(first, _mm256_slli_epi16(second, 8));
    __m256i last = _mm256_slli_epi16(_mm256_mulhi_epu16(f, _mm256_set1_epi16(3)), 4);
    return _mm256_or_si256(_mm256_shuffle_epi8(pairs, both), last);
}

/* Return eight values, chosen among four by digit k of the first eight bytes, or of the others.
 * The vector values holds the four values twice. */
static inline __m256 choose_8(__m256i codes, int others, size_t k, __m256 values) {
    return _mm256_permutevar_ps(values, _mm256_srli_epi32(codes, 16 * others + digit_at[k]));
}

/* Decode count bytes, a multiple of GROUPED, to the values at y, y + stride and so on. */
static inline void set_groups(float *y, size_t stride, const uint8_t *bytes, size_t count,
                              float step) {
    const __m256 values = _mm256_setr_ps(-step, 0.0f, step, 0.0f, -step, 0.0f, step, 0.0f);
    for (size_t i = 0; i < count; i += 16, y += 16) {
        const __m256i codes = codes_of(bytes + i);
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            float *at = y + k * stride;
            fedcodec_fetch(at, AHEAD);
            _mm256_storeu_ps(at, choose_8(codes, 0, k, values));
            _mm256_storeu_ps(at + 8, choose_8(codes, 1, k, values));
        }
    }
}

/* Decode as set_groups does, but add to y. Zeros are added as -0, which keeps the sign of a
 * zero. */
static inline void add_groups(float *y, size_t stride, const uint8_t *bytes, size_t count,
                              float step) {
    const __m256 values = _mm256_setr_ps(-step, -0.0f, step, 0.0f, -step, -0.0f, step, 0.0f);
    for (size_t i = 0; i < count; i += 16, y += 16) {
        const __m256i codes = codes_of(bytes + i);
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            float *at = y + k * stride;
            fedcodec_fetch(at, AHEAD);
            __m256 first = _mm256_add_ps(_mm256_loadu_ps(at), choose_8(codes, 0, k, values));
            __m256 second = _mm256_add_ps(_mm256_loadu_ps(at + 8), choose_8(codes, 1, k, values));
            _mm256_storeu_ps(at, first);
            _mm256_storeu_ps(at + 8, second);
        }
    }
}

static inline void fold_groups(int64_t *acc, size_t stride, const uint8_t *bytes, size_t count,
                               int64_t step) {
    const __m256i up = _mm256_set1_epi64x(step), one = _mm256_set1_epi64x(1);
    for (size_t i = 0; i < count; i += 16) {
        uint32_t code[8];
        _mm256_storeu_si256((__m256i *)(void *)code, codes_of(bytes + i));
        for (size_t j = 0; j < 16; j += 4, acc += 4) {
            __m128i four = _mm_loadu_si128((const __m128i *)(const void *)(code + j % 8));
            four = _mm_srli_epi32(four, j < 8 ? 0 : 16);
            const __m256i codes = _mm256_cvtepu32_epi64(four), bits = _mm256_set1_epi64x(3);
            for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
                __m256i *at = (__m256i *)(void *)(acc + k * stride), v = _mm256_loadu_si256(at);
                __m256i digit = _mm256_and_si256(_mm256_srli_epi64(codes, digit_at[k]), bits);
                fedcodec_fetch(at, AHEAD);
                v = _mm256_add_epi64(v, _mm256_and_si256(_mm256_cmpgt_epi64(digit, one), up));
                v = _mm256_sub_epi64(v, _mm256_and_si256(_mm256_cmpgt_epi64(one, digit), up));
                _mm256_storeu_si256(at, v);
            }
        }
    }
}

#endif
