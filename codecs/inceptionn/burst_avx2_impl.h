/* inceptionn's bursts for AVX2 and AVX-512: eight values at a time, bytes moved by shuffles. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BURST_AVX2_IMPL_H
#define FEDCODEC_INCEPTIONN_BURST_AVX2_IMPL_H

#include <immintrin.h>

#include "codecs/inceptionn/block_rows.h"

static inline uint8_t *put_words(__m128i words, uint8_t tags, uint8_t *out) {
    __m128i row = _mm_loadu_si128((const __m128i *)put_rows[tags]);
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(words, row));
    return out + fedcodec_tags_bytes[tags];
}

static inline uint8_t *encode_eight(const void *x, classes c, uint8_t *tags, uint8_t *out,
                                    __m256i *max) {
    __m256i bits = _mm256_loadu_si256((const __m256i *)x);
    __m256i m = _mm256_and_si256(bits, _mm256_set1_epi32(FEDCODEC_MAGNITUDE));
    __m256i sent = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(c.low - 1));
    __m256i middling = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(c.middle - 1));
    __m256i large = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(ONE - 1));
    *max = _mm256_max_epi32(*max, m);
    /* Multiply only values that are sent below 1.0: multiplying denormals would be slow. */
    __m256 inside = _mm256_castsi256_ps(_mm256_andnot_si256(large, _mm256_and_si256(m, sent)));
    __m256i fixed = _mm256_cvttps_epi32(_mm256_mul_ps(inside, _mm256_set1_ps(0x1p31f)));
    __m256i kept = _mm256_or_si256(large, _mm256_set1_epi32(INT32_MIN));
    __m256i word = _mm256_or_si256(_mm256_and_si256(bits, kept), fixed);
    /* Each value has two 16-bit halves: the lower one holds the lower bit of its tag, the upper
     * one the upper bit. */
    __m256i lower = _mm256_xor_si256(_mm256_xor_si256(sent, middling), large);
    __m256i halves = _mm256_blend_epi16(lower, middling, 0xaa);
    uint32_t both = (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(halves, halves));
    uint8_t first = (uint8_t)both, second = (uint8_t)(both >> 16);
    tags[0] = first;
    tags[1] = second;
    out = put_words(_mm256_castsi256_si128(word), first, out);
    return put_words(_mm256_extracti128_si256(word, 1), second, out);
}

static inline uint8_t *encode_bursts(const uint8_t *x, size_t count, classes c, uint8_t *out) {
    __m256i max = _mm256_setzero_si256();
    for (size_t k = 0; k < count; k++) {
        out = encode_eight(x + 4 * BURST * k, c, out, out + BURST_TAGS, &max);
    }
    return out;
}

/* Load the shuffles of eight words from a table, by two bytes of tags. */
static inline __m256i rows_of(const uint8_t rows[256][16], const uint8_t *tags) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)rows[tags[0]])),
        _mm_loadu_si128((const __m128i *)rows[tags[1]]), 1);
}

static inline __m256i get_words(__m256i rows, const uint8_t *tags, const uint8_t **src) {
    __m128i first = _mm_loadu_si128((const __m128i *)*src);
    *src += fedcodec_tags_bytes[tags[0]];
    __m128i second = _mm_loadu_si128((const __m128i *)*src);
    *src += fedcodec_tags_bytes[tags[1]];
    return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1),
                               rows);
}

/* Return the lanes of word where a value has all 32 bits, else those of value. A value has all 32
 * bits if the first index of its shuffle, in rows, is not NOWHERE. */
static inline __m256 large_or(__m256i rows, __m256i word, __m256 value) {
    __m256 small = _mm256_castsi256_ps(_mm256_slli_epi32(rows, 24));
    return _mm256_blendv_ps(_mm256_castsi256_ps(word), value, small);
}

static inline const uint8_t *decode_burst(const uint8_t *src, uint8_t *y) {
    const uint8_t *tags = src;
    src += BURST_TAGS;
    __m256i rows = rows_of(get_rows, tags), word = get_words(rows, tags, &src);
    __m256i m = _mm256_and_si256(word, _mm256_set1_epi32(FEDCODEC_MAGNITUDE));
    __m256 fixed = _mm256_cvtepi32_ps(_mm256_sign_epi32(m, word)); /* a zero becomes +0 */
    __m256 value = _mm256_mul_ps(fixed, _mm256_set1_ps(0x1p-31f));
    _mm256_storeu_ps((float *)y, large_or(rows, word, value));
    return src;
}

static inline const uint8_t *decode_bursts(const uint8_t *src, size_t count, uint8_t *y) {
    for (size_t k = 0; k < count; k++) {
        src = decode_burst(src, y + 4 * BURST * k);
    }
    return src;
}

#endif
