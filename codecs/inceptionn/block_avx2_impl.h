/* inceptionn's inner loops for AVX2: eight values at a time, bytes moved by a table of shuffles. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_AVX2_IMPL_H
#define FEDCODEC_INCEPTIONN_BLOCK_AVX2_IMPL_H

#include <immintrin.h>

#include "codecs/inceptionn/burst_avx2_impl.h"

enum { LANES = 8 };

typedef __m256i largest;

static inline int32_t largest_of(__m256i max) {
    int32_t m[LANES], most = 0;
    _mm256_storeu_si256((__m256i *)m, max);
    for (size_t k = 0; k < LANES; k++) {
        most = m[k] > most ? m[k] : most;
    }
    return most;
}

static inline uint8_t *encode_block(const float *x, classes c, uint8_t *tags, uint8_t *out,
                                    largest *max) {
    for (size_t i = 0; i < BLOCK; i += LANES, tags += 2) {
        out = encode_eight(x + i, c, tags, out, max);
    }
    return out;
}

static inline const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src, float *y) {
    const __m256i magnitude = _mm256_set1_epi32(FEDCODEC_MAGNITUDE);
    for (size_t i = 0; i < BLOCK; i += LANES, tags += 2) {
        __m256i rows = rows_of(get_rows, tags), word = get_words(rows, tags, &src);
        __m256i m = _mm256_and_si256(word, magnitude);
        __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(m), _mm256_set1_ps(0x1p-31f));
        value = _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_andnot_si256(magnitude, word)));
        _mm256_storeu_ps(y + i, large_or(rows, word, value));
    }
    return src;
}

/* A shuffle for check_block. It puts the payload of the two short classes into different halves of
 * a word: 8 bits into byte 1, 16 bits into bytes 2 and 3. */
#define GET_APART(b, i, j)                                                                         \
    (FEDCODEC_TAG_BYTES(b, i) == 1 ? ((j) == 1 ? FEDCODEC_TAGS_BYTES_##i(b) : NOWHERE)             \
                                   : GET(b, i, j))
#define GET_APART_ROW(b) SIXTEEN(GET_APART, b)
static const uint8_t get_apart_rows[256][16] = {FEDCODEC_TAGS_ROWS(GET_APART_ROW)};

typedef struct seen {
    __m256i most;  /* the largest magnitudes, by 16-bit halves */
    __m256i least; /* least upper bytes: byte 1 for 8-bit values, byte 3 for 16-bit values */
    __m256i least32, most32;
} seen;

static inline seen nothing_seen(void) {
    return (seen){_mm256_setzero_si256(), _mm256_set1_epi8(INT8_MAX), _mm256_set1_epi32(INT32_MAX),
                  _mm256_setzero_si256()};
}

/* Does any of 64 values have the tag 3, for 32 bits? */
static inline bool any_large(__m128i tags) {
    __m128i both = _mm_and_si128(tags, _mm_srli_epi16(tags, 1));
    return !_mm_testz_si128(both, _mm_set1_epi8(0x55));
}

static inline const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s) {
    const bool large_too = any_large(_mm_loadu_si128((const __m128i *)tags));
    for (size_t i = 0; i < BLOCK; i += LANES, tags += 2) {
        __m256i rows = rows_of(get_apart_rows, tags), word = get_words(rows, tags, &src);
        __m256i none = _mm256_and_si256(rows, _mm256_set1_epi8((char)NOWHERE));
        if (large_too) {
            __m256i large = _mm256_cmpgt_epi32(_mm256_slli_epi32(rows, 24), _mm256_set1_epi32(-1));
            __m256i m = _mm256_and_si256(word, _mm256_set1_epi32(FEDCODEC_MAGNITUDE));
            s->most32 = _mm256_max_epi32(s->most32, _mm256_and_si256(m, large));
            s->least32 = _mm256_min_epi32(s->least32, _mm256_blendv_epi8(s->least32, m, large));
            word = _mm256_andnot_si256(large, word);
            none = _mm256_or_si256(none, large);
        }
        __m256i m = _mm256_and_si256(word, _mm256_set1_epi16(INT16_MAX));
        s->most = _mm256_max_epu16(s->most, m);
        s->least = _mm256_min_epu8(s->least, _mm256_or_si256(m, none));
    }
    return src;
}

/* Return the least of eight values. most: an upper bound of all of them. */
static inline int32_t least_of(__m256i values, int32_t most) {
    return most - largest_of(_mm256_sub_epi32(_mm256_set1_epi32(most), values));
}

static inline ranges ranges_seen(const seen *s) {
    const __m256i half = _mm256_set1_epi32(0xffff), byte = _mm256_set1_epi32(0xff);
    __m256i top8 = _mm256_and_si256(_mm256_srli_epi32(s->least, 8), byte);
    __m256i top16 = _mm256_srli_epi32(s->least, 24);
    return (ranges){.least8 = (int16_t)(least_of(top8, INT8_MAX) << 8),
                    .most8 = (int16_t)largest_of(_mm256_and_si256(s->most, half)),
                    .least16 = (int16_t)(least_of(top16, INT8_MAX) << 8),
                    .most16 = (int16_t)largest_of(_mm256_srli_epi32(s->most, 16)),
                    .least32 = least_of(s->least32, INT32_MAX),
                    .most32 = largest_of(s->most32)};
}

#endif
