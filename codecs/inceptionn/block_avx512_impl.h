/* inceptionn's inner loops for AVX-512: sixteen values at a time, bytes moved by masks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_AVX512_IMPL_H
#define FEDCODEC_INCEPTIONN_BLOCK_AVX512_IMPL_H

#include <immintrin.h>

#include "codecs/inceptionn/burst_avx2_impl.h"

enum { LANES = 16, GROUPS = BLOCK / LANES };

/* A mask over the 64 bytes of 16 words: the same four bits, nibble, for each word. */
#define EACH_WORD(nibble) (UINT64_C(0x1111111111111111) * (nibble))

/* The byte masks of two words, for a nibble of two tags. A tag selects a word's upper bytes. */
#define PAIRS_OF(t)                                                                                \
    (char)((t) << 4), (char)((t) << 4 | 8), (char)((t) << 4 | 12), (char)((t) << 4 | 15)

static inline void masks_of_tags(__m128i tags, uint64_t masks[GROUPS]) {
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i pairs = _mm_setr_epi8(PAIRS_OF(0), PAIRS_OF(8), PAIRS_OF(12), PAIRS_OF(15));
    __m128i even = _mm_shuffle_epi8(pairs, _mm_and_si128(tags, nibble));
    __m128i odd = _mm_shuffle_epi8(pairs, _mm_and_si128(_mm_srli_epi16(tags, 4), nibble));
    _mm_storeu_si128((__m128i *)masks, _mm_unpacklo_epi8(even, odd));
    _mm_storeu_si128((__m128i *)(masks + 2), _mm_unpackhi_epi8(even, odd));
}

typedef __m512i largest;

static inline int32_t largest_of(largest max) {
    return _mm512_reduce_max_epi32(max);
}

static inline uint8_t *encode_block(const float *x, classes c, uint8_t *tags, uint8_t *out,
                                    largest *max) {
    const __m512i magnitude = _mm512_set1_epi32(FEDCODEC_MAGNITUDE);
    const __m512i low = _mm512_set1_epi32(c.low), middle = _mm512_set1_epi32(c.middle);
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i bits = _mm512_loadu_si512(x + k * LANES);
        __m512i m = _mm512_and_si512(bits, magnitude);
        __mmask16 sent = _mm512_cmpge_epi32_mask(m, low);
        __mmask16 middling = _mm512_cmpge_epi32_mask(m, middle);
        __mmask16 large = _mm512_cmpge_epi32_mask(m, _mm512_set1_epi32(ONE));
        *max = _mm512_max_epi32(*max, m);
        /* Multiply only values that are sent: multiplying denormals would be slow. */
        __m512 scaled = _mm512_maskz_mul_ps(sent, _mm512_castsi512_ps(m), _mm512_set1_ps(0x1p31f));
        /* Each word is the value's sign bit and the scaled integer. A value of 1.0 or more keeps
         * its own bits. */
        __m512i word =
            _mm512_mask_ternarylogic_epi32(bits, (__mmask16)~large, _mm512_set1_epi32(INT32_MIN),
                                           _mm512_cvttps_epi32(scaled), 0xea);
        uint64_t bytes = _pdep_u64(sent, EACH_WORD(8)) | _pdep_u64(middling, EACH_WORD(4)) |
                         3 * _pdep_u64(large, EACH_WORD(1));
        uint32_t four = _pdep_u32((uint32_t)(sent ^ middling ^ large), 0x55555555u) |
                        _pdep_u32(middling, 0xaaaaaaaau);
        memcpy(tags + 4 * k, &four, sizeof four);
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(bytes, word));
        out += _mm_popcnt_u64(bytes);
    }
    return out;
}

/* Does any of 64 values have the tag 3, for 32 bits? */
static inline bool any_large(__m128i tags) {
    __m128i both = _mm_and_si128(tags, _mm_srli_epi16(tags, 1));
    return !_mm_testz_si128(both, _mm_set1_epi8(0x55));
}

static inline const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src, float *y) {
    const __m512i magnitude = _mm512_set1_epi32(FEDCODEC_MAGNITUDE);
    const __m128i plane = _mm_loadu_si128((const __m128i *)tags);
    const bool large_too = any_large(plane);
    uint64_t masks[GROUPS];
    masks_of_tags(plane, masks);
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i word = _mm512_maskz_expand_epi8(masks[k], _mm512_loadu_si512(src));
        src += _mm_popcnt_u64(masks[k]);
        __m512 fixed = _mm512_cvtepi32_ps(_mm512_and_si512(word, magnitude));
        __m512i value = _mm512_castps_si512(_mm512_mul_ps(fixed, _mm512_set1_ps(0x1p-31f)));
        /* Take the magnitude bits of value, and the sign bit of word. */
        value = _mm512_ternarylogic_epi32(magnitude, value, word, 0xca);
        if (large_too) {
            __mmask16 large = (__mmask16)_pext_u64(masks[k], EACH_WORD(1));
            value = _mm512_mask_mov_epi32(value, large, word);
        }
        _mm512_storeu_si512(y + k * LANES, value);
    }
    return src;
}

/* The least and largest magnitudes of each class. Values of 8 and 16 bits take lanes of 16 bits. */
typedef struct seen {
    __m512i least8, most8, least16, most16;
    __m512i least32, most32;
} seen;

static inline seen nothing_seen(void) {
    const __m512i most = _mm512_set1_epi16(INT16_MAX), none = _mm512_setzero_si512();
    return (seen){most, none, most, none, _mm512_set1_epi32(INT32_MAX), none};
}

static inline void see_short(seen *s, __m512i m, __mmask32 in8, __mmask32 in16) {
    s->least8 = _mm512_mask_min_epu16(s->least8, in8, s->least8, m);
    s->most8 = _mm512_mask_max_epu16(s->most8, in8, s->most8, m);
    s->least16 = _mm512_mask_min_epu16(s->least16, in16, s->least16, m);
    s->most16 = _mm512_mask_max_epu16(s->most16, in16, s->most16, m);
}

/* Masks for the lower bit and for the upper bit of every tag. */
#define LOWER UINT64_C(0x5555555555555555)
#define UPPER UINT64_C(0xaaaaaaaaaaaaaaaa)

/* Collect the magnitudes of a block in which values of 32 bits may occur. */
static inline const uint8_t *check_words(const uint8_t *tags, const uint8_t *src, seen *s) {
    uint64_t masks[GROUPS];
    masks_of_tags(_mm_loadu_si128((const __m128i *)tags), masks);
    for (size_t k = 0; k < GROUPS; k++) {
        uint32_t t;
        memcpy(&t, tags + 4 * k, sizeof t);
        __m512i word = _mm512_maskz_expand_epi8(masks[k], _mm512_loadu_si512(src));
        src += _mm_popcnt_u64(masks[k]);
        __m512i m = _mm512_and_si512(word, _mm512_set1_epi32(FEDCODEC_MAGNITUDE));
        uint32_t large = t & t >> 1 & (uint32_t)LOWER, in16 = t >> 1 & (uint32_t)LOWER;
        see_short(s, _mm512_srli_epi32(m, 16), t & (uint32_t)LOWER & ~large, in16 & ~large);
        __mmask16 in32 = (__mmask16)_pext_u32(large, (uint32_t)LOWER);
        s->least32 = _mm512_mask_min_epi32(s->least32, in32, s->least32, m);
        s->most32 = _mm512_mask_max_epi32(s->most32, in32, s->most32, m);
    }
    return src;
}

/* Collect the magnitudes of a block. If no value has 32 bits, 16-bit lanes are enough. */
static inline const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s) {
    if (any_large(_mm_loadu_si128((const __m128i *)tags))) {
        return check_words(tags, src, s);
    }
    for (size_t k = 0; k < BLOCK_TAGS; k += sizeof(uint64_t)) {
        uint64_t t;
        memcpy(&t, tags + k, sizeof t);
        uint64_t bytes = (t & UPPER) | (t & LOWER) << 1 | (t & UPPER) >> 1;
        __m512i v = _mm512_maskz_expand_epi8(bytes, _mm512_loadu_si512(src));
        src += _mm_popcnt_u64(bytes);
        see_short(s, _mm512_and_si512(v, _mm512_set1_epi16(INT16_MAX)),
                  (__mmask32)_pext_u64(t, LOWER), (__mmask32)_pext_u64(t, UPPER));
    }
    return src;
}

static inline int16_t least_of(__m512i v) {
    __m512i low = _mm512_and_si512(v, _mm512_set1_epi32(0xffff));
    return (int16_t)_mm512_reduce_min_epu32(_mm512_min_epu32(low, _mm512_srli_epi32(v, 16)));
}

static inline int16_t most_of(__m512i v) {
    __m512i low = _mm512_and_si512(v, _mm512_set1_epi32(0xffff));
    return (int16_t)_mm512_reduce_max_epu32(_mm512_max_epu32(low, _mm512_srli_epi32(v, 16)));
}

static inline ranges ranges_seen(const seen *s) {
    return (ranges){.least8 = least_of(s->least8),
                    .most8 = most_of(s->most8),
                    .least16 = least_of(s->least16),
                    .most16 = most_of(s->most16),
                    .least32 = _mm512_reduce_min_epi32(s->least32),
                    .most32 = _mm512_reduce_max_epi32(s->most32)};
}

#endif
