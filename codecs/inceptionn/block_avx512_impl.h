/* inceptionn's inner loops for AVX-512: sixteen values at a time, bytes moved by masks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_AVX512_IMPL_H
#define FEDCODEC_INCEPTIONN_BLOCK_AVX512_IMPL_H

#include <immintrin.h>

#include "codecs/inceptionn/burst_avx2_impl.h"
#include "codecs/inceptionn/short_avx2_impl.h"

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

static inline __m512i magnitudes_of(__m512i bits) {
    return _mm512_and_si512(bits, _mm512_set1_epi32(FEDCODEC_MAGNITUDE));
}

/* Return the words of values below 1.0: the sign bit, and the scaled integer. Only values that are
 * sent are multiplied: denormals would be slow. */
static inline __m512i words_of(__m512i bits, __mmask16 sent) {
    __m512 m = _mm512_castsi512_ps(magnitudes_of(bits));
    __m512i fixed = _mm512_cvttps_epi32(_mm512_maskz_mul_ps(sent, m, _mm512_set1_ps(0x1p31f)));
    return _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(INT32_MIN), fixed, 0xea);
}

/* Encode a block in which values may take more than 8 bits. */
static inline uint8_t *encode_long(const float *x, classes c, uint8_t *tags, uint8_t *out) {
    const __m512i low = _mm512_set1_epi32(c.low), middle = _mm512_set1_epi32(c.middle);
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i bits = _mm512_loadu_si512(x + k * LANES), m = magnitudes_of(bits);
        __mmask16 sent = _mm512_cmpge_epi32_mask(m, low);
        __mmask16 middling = _mm512_cmpge_epi32_mask(m, middle);
        __mmask16 large = _mm512_cmpge_epi32_mask(m, _mm512_set1_epi32(ONE));
        /* A value of 1.0 or more keeps its own bits. */
        __m512i word = _mm512_mask_mov_epi32(words_of(bits, sent), large, bits);
        uint64_t bytes = _pdep_u64(sent, EACH_WORD(8)) | _pdep_u64(middling, EACH_WORD(4)) |
                         3 * _pdep_u64(large, EACH_WORD(1));
        uint32_t four = _pdep_u32((uint32_t)(sent ^ middling ^ large), (uint32_t)LOWER) |
                        _pdep_u32(middling, (uint32_t)UPPER);
        memcpy(tags + 4 * k, &four, sizeof four);
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(bytes, word));
        out += _mm_popcnt_u64(bytes);
    }
    return out;
}

/* Return the 64 bytes that a short block's values would be sent as. */
static inline __m512i short_bytes(const float *x, uint64_t sent) {
    __m128i byte[GROUPS];
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i bits = _mm512_loadu_si512(x + k * LANES);
        __m512i word = words_of(bits, (__mmask16)(sent >> k * LANES));
        byte[k] = _mm512_cvtepi32_epi8(_mm512_srli_epi32(word, 24));
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(byte[1], byte[0])),
                              _mm256_set_m128i(byte[3], byte[2]), 1);
}

static inline uint8_t *encode_block(const float *x, classes c, uint8_t *tags, uint8_t *out,
                                    largest *max) {
    __m512i most = _mm512_setzero_si512();
    uint64_t sent = 0, negative = 0;
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i bits = _mm512_loadu_si512(x + k * LANES), m = magnitudes_of(bits);
        most = _mm512_max_epi32(most, m);
        sent |= (uint64_t)_mm512_cmpge_epi32_mask(m, _mm512_set1_epi32(c.low)) << k * LANES;
        negative |= (uint64_t)_mm512_movepi32_mask(bits) << k * LANES;
    }
    *max = _mm512_max_epi32(*max, most);
    if (_mm512_cmpge_epi32_mask(most, _mm512_set1_epi32(c.middle)) != 0) {
        return encode_long(x, c, tags, out);
    }
    __m512i bytes;
    if (_mm512_cmpge_epi32_mask(most, _mm512_set1_epi32(LEAST_IN_8)) == 0) {
        bytes = _mm512_maskz_set1_epi8(_pext_u64(negative, sent), INT8_MIN); /* only signs */
    } else {
        bytes = _mm512_maskz_compress_epi8(sent, short_bytes(x, sent));
    }
    put_sent(sent, tags);
    _mm512_storeu_si512(out, bytes);
    return out + _mm_popcnt_u64(sent);
}

/* Does any of 64 values have the tag 3, for 32 bits? */
static inline bool any_large(__m128i tags) {
    __m128i both = _mm_and_si128(tags, _mm_srli_epi16(tags, 1));
    return !_mm_testz_si128(both, _mm_set1_epi8(0x55));
}

/* Are all values of a short block zero? len: the bytes of its payload. */
static inline bool only_zeros(const uint8_t *src, size_t len) {
    __mmask64 some = _mm512_test_epi8_mask(_mm512_loadu_si512(src), _mm512_set1_epi8(MAGNITUDE_8));
    return _bzhi_u64(some, (uint32_t)len) == 0;
}

/* Return the values of words. They are floats, of which 0 has the word's sign. */
static inline __m512i values_of(__m512i word) {
    const __m512i magnitude = _mm512_set1_epi32(FEDCODEC_MAGNITUDE);
    __m512 fixed = _mm512_cvtepi32_ps(_mm512_and_si512(word, magnitude));
    __m512i value = _mm512_castps_si512(_mm512_mul_ps(fixed, _mm512_set1_ps(0x1p-31f)));
    /* Take the magnitude bits of value, and the sign bit of word. */
    return _mm512_ternarylogic_epi32(magnitude, value, word, 0xca);
}

static inline void decode_short(const uint8_t *tags, const uint8_t *src, size_t len, float *y) {
    const __m512i bytes = _mm512_loadu_si512(src);
    const uint64_t sent = sent_of(tags);
    if (only_zeros(src, len)) {
        uint64_t negative = _pdep_u64(_mm512_movepi8_mask(bytes), sent);
        for (size_t k = 0; k < GROUPS; k++, negative >>= LANES) {
            _mm512_storeu_si512(y + k * LANES,
                                _mm512_maskz_set1_epi32((__mmask16)negative, INT32_MIN));
        }
        return;
    }
    __m512i all = _mm512_maskz_expand_epi8(sent, bytes);
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i word = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(all)), 24);
        _mm512_storeu_si512(y + k * LANES, values_of(word));
        all = _mm512_alignr_epi64(all, all, 2);
    }
}

static inline const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src, float *y) {
    size_t len;
    if (is_short(tags, &len)) {
        decode_short(tags, src, len, y);
        return src + len;
    }
    const __m128i plane = _mm_loadu_si128((const __m128i *)tags);
    const bool large_too = any_large(plane);
    uint64_t masks[GROUPS];
    masks_of_tags(plane, masks);
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i word = _mm512_maskz_expand_epi8(masks[k], _mm512_loadu_si512(src));
        src += _mm_popcnt_u64(masks[k]);
        __m512i value = values_of(word);
        if (large_too) {
            __mmask16 large = (__mmask16)_pext_u64(masks[k], EACH_WORD(1));
            value = _mm512_mask_mov_epi32(value, large, word);
        }
        _mm512_storeu_si512(y + k * LANES, value);
    }
    return src;
}

/* The least and largest magnitudes of each class. Values of 8 and 16 bits take lanes of 16 bits,
 * and those of short blocks lanes of 8 bits. */
typedef struct seen {
    __m512i least_short, most_short;
    __m512i least8, most8, least16, most16;
    __m512i least32, most32;
} seen;

static inline seen nothing_seen(void) {
    const __m512i most = _mm512_set1_epi16(INT16_MAX), none = _mm512_setzero_si512();
    return (seen){_mm512_set1_epi8(INT8_MAX),   none, most, none, most, none,
                  _mm512_set1_epi32(INT32_MAX), none};
}

static inline void see_short(seen *s, __m512i m, __mmask32 in8, __mmask32 in16) {
    s->least8 = _mm512_mask_min_epu16(s->least8, in8, s->least8, m);
    s->most8 = _mm512_mask_max_epu16(s->most8, in8, s->most8, m);
    s->least16 = _mm512_mask_min_epu16(s->least16, in16, s->least16, m);
    s->most16 = _mm512_mask_max_epu16(s->most16, in16, s->most16, m);
}

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

static inline void check_short(const uint8_t *src, size_t len, seen *s) {
    __m512i m = _mm512_and_si512(_mm512_loadu_si512(src), _mm512_set1_epi8(MAGNITUDE_8));
    __mmask64 is = _bzhi_u64(UINT64_MAX, (uint32_t)len);
    s->least_short = _mm512_mask_min_epu8(s->least_short, is, s->least_short, m);
    s->most_short = _mm512_mask_max_epu8(s->most_short, is, s->most_short, m);
}

/* Collect the magnitudes of a block. If no value has 32 bits, 16-bit lanes are enough. */
static inline const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s) {
    size_t len;
    if (is_short(tags, &len)) {
        check_short(src, len, s);
        return src + len;
    }
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
    /* Every second byte is a lane's upper byte already. */
    const __m512i upper = _mm512_set1_epi16((short)0xff00);
    __m512i least = _mm512_min_epu16(_mm512_and_si512(s->least_short, upper),
                                     _mm512_slli_epi16(s->least_short, 8));
    __m512i most = _mm512_max_epu16(_mm512_and_si512(s->most_short, upper),
                                    _mm512_slli_epi16(s->most_short, 8));
    return (ranges){.least8 = least_of(_mm512_min_epu16(s->least8, least)),
                    .most8 = most_of(_mm512_max_epu16(s->most8, most)),
                    .least16 = least_of(s->least16),
                    .most16 = most_of(s->most16),
                    .least32 = _mm512_reduce_min_epi32(s->least32),
                    .most32 = _mm512_reduce_max_epi32(s->most32)};
}

#endif
