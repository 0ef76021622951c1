/* 3LC's digits, 64 bytes of them at a time, with AVX-512: from values, and back. */
#ifndef FEDCODEC_THREELC_DIGITS_AVX512_H
#define FEDCODEC_THREELC_DIGITS_AVX512_H

#include <immintrin.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"
#include "codecs/threelc/values.h"

/* Of 64 values: which are sent as 1, and which as -1. */
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

/* Where a byte's five digits are in its code, two bits each. */
static const unsigned digit_at[FEDCODEC_QUARTIC_DIGITS] = {0, 2, 8, 10, 4};

/* The codes of 32 bytes. Each is first a fraction of 243, in 65536ths. Nine times that is a number
 * of two digits, which a table writes in two bits each, and a fraction again. */
static inline __m512i codes_of(const uint8_t *bytes) {
    enum { NINE = 9 * (65536 / FEDCODEC_QUARTIC_BYTES + 1) };
    const __m512i pairs =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 0, 0, 0, 0, 0, 0, 0));
    __m512i b = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)bytes));
    __m512i first = _mm512_mulhi_epu16(b, _mm512_set1_epi16(NINE));
    __m512i f = _mm512_mullo_epi16(b, _mm512_set1_epi16(NINE));
    __m512i second = _mm512_mulhi_epu16(f, _mm512_set1_epi16(9));
    f = _mm512_mullo_epi16(b, _mm512_set1_epi16(9 * NINE));
    __m512i both = _mm512_or_si512(first, _mm512_slli_epi16(second, 8));
    __m512i last = _mm512_slli_epi16(_mm512_mulhi_epu16(f, _mm512_set1_epi16(3)), 4);
    return _mm512_or_si512(_mm512_shuffle_epi8(pairs, both), last);
}

static inline __m512i lower_16(__m512i codes) {
    return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(codes));
}

static inline __m512i upper_16(__m512i codes) {
    return _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(codes, 1));
}

/* What the k-th digit of each chooses among four values, which are there four times. */
static inline __m512 choose_16(__m512i codes, size_t k, __m512 values) {
    return _mm512_permutevar_ps(values, _mm512_srli_epi32(codes, digit_at[k]));
}

/* `count` bytes, a multiple of GROUPED, to values: those at y, and stride, and so on behind. */
static inline void set_groups(float *y, size_t stride, const uint8_t *bytes, size_t count,
                              float step) {
    const __m512 values = _mm512_broadcast_f32x4(_mm_setr_ps(-step, 0.0f, step, 0.0f));
    for (size_t i = 0; i < count; i += 32, y += 32) {
        const __m512i codes = codes_of(bytes + i), low = lower_16(codes), high = upper_16(codes);
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            float *at = y + k * stride;
            fedcodec_fetch(at, AHEAD);
            fedcodec_fetch(at + 16, AHEAD);
            _mm512_storeu_ps(at, choose_16(low, k, values));
            _mm512_storeu_ps(at + 16, choose_16(high, k, values));
        }
    }
}

/* -0 is the one number that changes nothing when it is added, not even the sign of a zero. */
static inline void add_groups(float *y, size_t stride, const uint8_t *bytes, size_t count,
                              float step) {
    const __m512 values = _mm512_broadcast_f32x4(_mm_setr_ps(-step, -0.0f, step, 0.0f));
    for (size_t i = 0; i < count; i += 32, y += 32) {
        const __m512i codes = codes_of(bytes + i), low = lower_16(codes), high = upper_16(codes);
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            float *at = y + k * stride;
            fedcodec_fetch(at, AHEAD);
            fedcodec_fetch(at + 16, AHEAD);
            __m512 first = _mm512_add_ps(_mm512_loadu_ps(at), choose_16(low, k, values));
            __m512 second = _mm512_add_ps(_mm512_loadu_ps(at + 16), choose_16(high, k, values));
            _mm512_storeu_ps(at, first);
            _mm512_storeu_ps(at + 16, second);
        }
    }
}

static inline void fold_groups(int64_t *acc, size_t stride, const uint8_t *bytes, size_t count,
                               int64_t step) {
    const __m512i up = _mm512_set1_epi64(step), one = _mm512_set1_epi64(1);
    for (size_t i = 0; i < count; i += 32) {
        uint16_t code[32];
        _mm512_storeu_si512(code, codes_of(bytes + i));
        for (size_t j = 0; j < 32; j += 8, acc += 8) {
            __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)(code + j));
            const __m512i codes = _mm512_cvtepu16_epi64(eight), bits = _mm512_set1_epi64(3);
            for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
                int64_t *at = acc + k * stride;
                __m512i digit = _mm512_and_si512(_mm512_srli_epi64(codes, digit_at[k]), bits);
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
