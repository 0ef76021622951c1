/* 3LC's digits, 32 bytes of them at a time, with AVX2: from values, and back. */
#ifndef FEDCODEC_THREELC_DIGITS_AVX2_H
#define FEDCODEC_THREELC_DIGITS_AVX2_H

#include <immintrin.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"
#include "codecs/threelc/values.h"

static inline void quantise_group(float *e, const float *x, size_t stride, float m,
                                  uint8_t *bytes) {
    __m256i sum = _mm256_setzero_si256();
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        __m256i digit = quantise_values(e + k * stride, x != NULL ? x + k * stride : NULL, m);
        __m256i twice = _mm256_add_epi8(sum, sum);
        sum = _mm256_add_epi8(_mm256_add_epi8(sum, twice), digit);
    }
    sum = _mm256_add_epi8(sum, _mm256_set1_epi8(FEDCODEC_QUARTIC_ZERO));
    _mm256_storeu_si256((__m256i *)(void *)bytes, sum);
}

/* Of 32 values: 0, 1 or 2 for -1, 0 or 1. */
typedef struct digits {
    uint8_t digit[GROUPED];
} digits;

/* A digit is how often its power goes in: 0 to 2 times. */
static inline void split_group(const uint8_t *bytes, digits *d) {
    static const uint8_t power[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    __m256i rest = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        __m256i once = _mm256_set1_epi8((char)power[k]);
        __m256i some = _mm256_cmpeq_epi8(_mm256_max_epu8(rest, once), rest);
        rest = _mm256_sub_epi8(rest, _mm256_and_si256(some, once));
        __m256i twice = _mm256_cmpeq_epi8(_mm256_max_epu8(rest, once), rest);
        rest = _mm256_sub_epi8(rest, _mm256_and_si256(twice, once));
        __m256i times = _mm256_abs_epi8(_mm256_add_epi8(some, twice));
        _mm256_storeu_si256((__m256i *)(void *)d[k].digit, times);
    }
}

/* Eight of them, as a choice among three values. */
static inline __m256 choose_8(const uint8_t *digit, __m256 values) {
    __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)digit);
    return _mm256_permutevar8x32_ps(values, _mm256_cvtepu8_epi32(eight));
}

static inline void set_group(float *y, const digits *d, float step) {
    const __m256 values = _mm256_setr_ps(-step, 0.0f, step, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f);
    for (size_t j = 0; j < GROUPED; j += 8) {
        fedcodec_fetch(y + j, AHEAD);
        _mm256_storeu_ps(y + j, choose_8(d->digit + j, values));
    }
}

/* -0 is the one number that changes nothing when it is added, not even the sign of a zero. */
static inline void add_group(float *y, const digits *d, float step) {
    const __m256 values = _mm256_setr_ps(-step, -0.0f, step, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f);
    for (size_t j = 0; j < GROUPED; j += 8) {
        fedcodec_fetch(y + j, AHEAD);
        __m256 v = choose_8(d->digit + j, values);
        _mm256_storeu_ps(y + j, _mm256_add_ps(_mm256_loadu_ps(y + j), v));
    }
}

static inline void fold_group(int64_t *acc, const digits *d, int64_t step) {
    const __m256i up = _mm256_set1_epi64x(step), one = _mm256_set1_epi64x(1);
    for (size_t j = 0; j < GROUPED; j += 4) {
        int32_t four;
        memcpy(&four, d->digit + j, sizeof four);
        fedcodec_fetch(acc + j, AHEAD);
        __m256i *at = (__m256i *)(void *)(acc + j), v = _mm256_loadu_si256(at);
        __m256i digit = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
        v = _mm256_add_epi64(v, _mm256_and_si256(_mm256_cmpgt_epi64(digit, one), up));
        v = _mm256_sub_epi64(v, _mm256_and_si256(_mm256_cmpgt_epi64(one, digit), up));
        _mm256_storeu_si256(at, v);
    }
}

#endif
