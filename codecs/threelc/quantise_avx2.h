/* 3LC's digits, 32 bytes of them at a time, with AVX2. */
#ifndef FEDCODEC_THREELC_QUANTISE_AVX2_H
#define FEDCODEC_THREELC_QUANTISE_AVX2_H

#include <immintrin.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"

#define QUANTISED 32
enum { AHEAD = 512 };

/* 8 values to 8 digits, -1 to 1. */
static inline __m256i quantise_8(float *e, const float *x, __m256 m, __m256 half) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 v = _mm256_loadu_ps(e);
    if (x != NULL) {
        v = _mm256_add_ps(v, _mm256_loadu_ps(x));
    }
    __m256 plus = _mm256_cmp_ps(v, half, _CMP_GT_OQ);
    __m256 minus = _mm256_cmp_ps(v, _mm256_xor_ps(half, sign), _CMP_LT_OQ);
    __m256 sent =
        _mm256_or_ps(_mm256_and_ps(plus, m), _mm256_and_ps(minus, _mm256_xor_ps(m, sign)));
    _mm256_storeu_ps(e, _mm256_sub_ps(v, sent));
    return _mm256_sub_epi32(_mm256_castps_si256(minus), _mm256_castps_si256(plus));
}

static inline __m256i quantise_32(float *e, const float *x, __m256 m, __m256 half) {
    __m256i digit[4];
    for (size_t j = 0; j < 4; j++) {
        const float *y = x != NULL ? x + 8 * j : NULL;
        if (j % 2 == 0) { /* a cache line */
            fedcodec_fetch(e + 8 * j, AHEAD);
            fedcodec_fetch(y, AHEAD);
        }
        digit[j] = quantise_8(e + 8 * j, y, m, half);
    }
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0); /* packing interleaves halves */
    __m256i low = _mm256_packs_epi32(digit[0], digit[1]);
    __m256i high = _mm256_packs_epi32(digit[2], digit[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

static inline void quantise_group(float *e, const float *x, size_t stride, float m,
                                  uint8_t *bytes) {
    const __m256 step = _mm256_set1_ps(m), half = _mm256_set1_ps(0.5f * m);
    __m256i sum = _mm256_setzero_si256();
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        const float *y = x != NULL ? x + k * stride : NULL;
        __m256i digit = quantise_32(e + k * stride, y, step, half);
        __m256i twice = _mm256_add_epi8(sum, sum);
        sum = _mm256_add_epi8(_mm256_add_epi8(sum, twice), digit);
    }
    sum = _mm256_add_epi8(sum, _mm256_set1_epi8(FEDCODEC_QUARTIC_ZERO));
    _mm256_storeu_si256((__m256i *)(void *)bytes, sum);
}

#endif
