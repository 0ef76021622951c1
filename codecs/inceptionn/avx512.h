/* inceptionn's inner loops for AVX-512: sixteen values at a time, bytes moved by masks. */
#ifndef FEDCODEC_INCEPTIONN_AVX512_H
#define FEDCODEC_INCEPTIONN_AVX512_H

#include <immintrin.h>

enum { LANES = 16, GROUPS = BLOCK / LANES };

/* Each nibble of a mask over bytes is a value's word. */
#define EACH_WORD(nibble) (UINT64_C(0x1111111111111111) * (nibble))

/* Two tags, a nibble, as masks of two words: `m1` for tag 1, `m2` for tag 2, `m3` for 3. */
#define PAIRS_OF(t, m1, m2, m3)                                                                    \
    (char)((t) << 4), (char)((t) << 4 | (m1)), (char)((t) << 4 | (m2)), (char)((t) << 4 | (m3))
#define PAIR_MASKS(m1, m2, m3)                                                                     \
    _mm_setr_epi8(PAIRS_OF(0, m1, m2, m3), PAIRS_OF(m1, m1, m2, m3), PAIRS_OF(m2, m1, m2, m3),     \
                  PAIRS_OF(m3, m1, m2, m3))

/* The masks of a block's words. */
static inline void masks_of_tags(__m128i tags, __m128i pair_masks, uint64_t masks[GROUPS]) {
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i even = _mm_shuffle_epi8(pair_masks, _mm_and_si128(tags, nibble));
    __m128i odd = _mm_shuffle_epi8(pair_masks, _mm_and_si128(_mm_srli_epi16(tags, 4), nibble));
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
        /* Denormals would be slow to multiply. */
        __m512 scaled = _mm512_maskz_mul_ps(sent, _mm512_castsi512_ps(m), _mm512_set1_ps(0x1p31f));
        /* bits & SIGN | fixed; but bits where they are sent as they are */
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

static inline const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src, float *y) {
    uint64_t masks[GROUPS];
    masks_of_tags(_mm_loadu_si128((const __m128i *)tags), PAIR_MASKS(8, 12, 15), masks);
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i word = _mm512_maskz_expand_epi8(masks[k], _mm512_loadu_si512(src));
        src += _mm_popcnt_u64(masks[k]);
        __mmask16 small = (__mmask16)~_pext_u64(masks[k], EACH_WORD(1));
        __m512 fixed =
            _mm512_cvtepi32_ps(_mm512_and_si512(word, _mm512_set1_epi32(FEDCODEC_MAGNITUDE)));
        __m512 value =
            _mm512_mask_mul_ps(_mm512_castsi512_ps(word), small, fixed, _mm512_set1_ps(0x1p-31f));
        _mm512_storeu_si512(y + k * LANES, /* value | word & SIGN */
                            _mm512_ternarylogic_epi32(_mm512_castps_si512(value), word,
                                                      _mm512_set1_epi32(INT32_MIN), 0xf8));
    }
    return src;
}

/* Words of the two short classes are laid out for check so that each has a half of its own: 8 bits
 * are byte 1, 16 bits are bytes 2 and 3. */
typedef struct seen {
    __m512i most;  /* of such halves, of 16 bits */
    __m512i least; /* bytes: in byte 1 the 8 bits, in byte 3 the upper ones of 16 */
    __m512i least32, most32;
} seen;

static inline seen nothing_seen(void) {
    return (seen){_mm512_setzero_si512(), _mm512_set1_epi8(INT8_MAX), _mm512_set1_epi32(INT32_MAX),
                  _mm512_setzero_si512()};
}

/* Has one of 64 values the tag 3? */
static inline bool any_large(__m128i tags) {
    __m128i both = _mm_and_si128(tags, _mm_srli_epi16(tags, 1));
    return !_mm_testz_si128(both, _mm_set1_epi8(0x55));
}

static inline const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s) {
    uint64_t masks[GROUPS], tops[GROUPS];
    __m128i plane = _mm_loadu_si128((const __m128i *)tags);
    masks_of_tags(plane, PAIR_MASKS(2, 12, 15), masks);
    masks_of_tags(plane, PAIR_MASKS(2, 8, 0), tops);
    const bool large_too = any_large(plane);
    for (size_t k = 0; k < GROUPS; k++) {
        __m512i word = _mm512_maskz_expand_epi8(masks[k], _mm512_loadu_si512(src));
        src += _mm_popcnt_u64(masks[k]);
        if (large_too) {
            __mmask16 large = (__mmask16)_pext_u64(masks[k], EACH_WORD(1));
            __m512i m = _mm512_and_si512(word, _mm512_set1_epi32(FEDCODEC_MAGNITUDE));
            s->least32 = _mm512_mask_min_epi32(s->least32, large, s->least32, m);
            s->most32 = _mm512_mask_max_epi32(s->most32, large, s->most32, m);
            word = _mm512_maskz_mov_epi32((__mmask16)~large, word);
        }
        __m512i m = _mm512_and_si512(word, _mm512_set1_epi16(INT16_MAX));
        s->most = _mm512_max_epu16(s->most, m);
        s->least = _mm512_mask_min_epu8(s->least, tops[k], s->least, m);
    }
    return src;
}

static inline ranges ranges_seen(const seen *s) {
    const __m512i half = _mm512_set1_epi32(0xffff);
    __m512i top8 = _mm512_and_si512(_mm512_srli_epi32(s->least, 8), _mm512_set1_epi32(0xff));
    return (ranges){.least8 = (int16_t)(_mm512_reduce_min_epu32(top8) << 8),
                    .most8 = (int16_t)_mm512_reduce_max_epu32(_mm512_and_si512(s->most, half)),
                    .least16 =
                        (int16_t)(_mm512_reduce_min_epu32(_mm512_srli_epi32(s->least, 24)) << 8),
                    .most16 = (int16_t)_mm512_reduce_max_epu32(_mm512_srli_epi32(s->most, 16)),
                    .least32 = _mm512_reduce_min_epi32(s->least32),
                    .most32 = _mm512_reduce_max_epi32(s->most32)};
}

#endif
