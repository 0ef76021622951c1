/* inceptionn's inner loops for AVX2: eight values at a time, bytes moved by a table of shuffles. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_AVX2_IMPL_H
#define FEDCODEC_INCEPTIONN_BLOCK_AVX2_IMPL_H

#include <immintrin.h>

#include "codecs/inceptionn/burst_avx2_impl.h"
#include "codecs/inceptionn/short_avx2_impl.h"
#include "codecs/prim/lanes.h"

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

/* QUAD: vectors whose lanes become 32 bytes, or 32 bits. */
enum { QUAD = 4, QUADS = BLOCK / (QUAD * LANES) };

/* Put the bytes of four vectors in order: packing narrows each half of a vector by itself. */
static inline __m256i in_order(__m256i bytes) {
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Return 32 bytes, of which the upper bit of byte i is bit i of the argument. */
static inline __m256i signs_to_bytes(uint32_t bits) {
    const __m256i bit = _mm256_set1_epi64x((long long)UINT64_C(0x8040201008040201));
    __m256i each = _mm256_shuffle_epi8(
        _mm256_set1_epi32((int)bits),
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    __m256i is = _mm256_cmpeq_epi8(_mm256_and_si256(each, bit), bit);
    return _mm256_and_si256(is, _mm256_set1_epi8(INT8_MIN));
}

/* Return a mask of the bytes that 8 bits stand for. */
static inline uint64_t bytes_mask(uint64_t bits) {
    return _pdep_u64(bits, UINT64_C(0x0101010101010101)) * 0xff;
}

/* Write the bytes of a short block's values that are sent. */
static inline void put_short(const float *x, uint64_t sent, uint8_t *out) {
    for (size_t i = 0; i < BLOCK; i += QUAD * LANES) {
        __m256i top[QUAD];
        uint64_t bytes[QUAD];
        for (size_t k = 0; k < QUAD; k++) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(x + i + k * LANES));
            __m256i m = _mm256_and_si256(bits, _mm256_set1_epi32(FEDCODEC_MAGNITUDE));
            /* Small values become 0 before they are multiplied: denormals would be slow. */
            __m256i some = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(LEAST_IN_8 - 1));
            __m256 inside = _mm256_castsi256_ps(_mm256_and_si256(m, some));
            __m256i fixed = _mm256_cvttps_epi32(_mm256_mul_ps(inside, _mm256_set1_ps(0x1p7f)));
            __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(bits, 31), 7);
            top[k] = _mm256_or_si256(fixed, sign);
        }
        _mm256_storeu_si256((__m256i *)bytes,
                            in_order(_mm256_packus_epi16(_mm256_packus_epi32(top[0], top[1]),
                                                         _mm256_packus_epi32(top[2], top[3]))));
        for (size_t k = 0; k < QUAD; k++, sent >>= 8) {
            const uint64_t kept = _pext_u64(bytes[k], bytes_mask(sent & 0xff));
            memcpy(out, &kept, sizeof kept);
            out += _mm_popcnt_u64(sent & 0xff);
        }
    }
}

static inline uint8_t *encode_long(const float *x, classes c, uint8_t *tags, uint8_t *out) {
    __m256i max = _mm256_setzero_si256();
    for (size_t i = 0; i < BLOCK; i += LANES, tags += 2) {
        out = encode_eight(x + i, c, tags, out, &max);
    }
    return out;
}

static inline bool any_from(__m256i most, int32_t limit) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(most, _mm256_set1_epi32(limit - 1))) != 0;
}

static inline uint8_t *encode_block(const float *x, classes c, uint8_t *tags, uint8_t *out,
                                    largest *max) {
    __m256i most = _mm256_setzero_si256();
    uint64_t sent = 0, negative = 0;
    for (size_t i = 0; i < BLOCK; i += QUAD * LANES) {
        __m256i bits[QUAD], kept[QUAD];
        for (size_t k = 0; k < QUAD; k++) {
            bits[k] = _mm256_loadu_si256((const __m256i *)(x + i + k * LANES));
            __m256i m = _mm256_and_si256(bits[k], _mm256_set1_epi32(FEDCODEC_MAGNITUDE));
            most = _mm256_max_epi32(most, m);
            kept[k] = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(c.low - 1));
        }
        sent |= (uint64_t)fedcodec_lanes_signs(kept) << i;
        negative |= (uint64_t)fedcodec_lanes_signs(bits) << i;
    }
    *max = _mm256_max_epi32(*max, most);
    if (any_from(most, c.middle)) {
        return encode_long(x, c, tags, out);
    }
    put_sent(sent, tags);
    if (any_from(most, LEAST_IN_8)) {
        put_short(x, sent, out);
    } else {
        uint64_t signs = _pext_u64(negative, sent);
        _mm256_storeu_si256((__m256i *)out, signs_to_bytes((uint32_t)signs));
        _mm256_storeu_si256((__m256i *)(out + 32), signs_to_bytes((uint32_t)(signs >> 32)));
    }
    return out + _mm_popcnt_u64(sent);
}

/* Are all values of a short block zero? len: the bytes of its payload. */
static inline bool only_zeros(const uint8_t *src, size_t len) {
    const __m256i magnitude = _mm256_set1_epi8(MAGNITUDE_8);
    uint64_t some = 0;
    for (size_t i = 0; i < BLOCK; i += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(src + i));
        __m256i m = _mm256_add_epi8(_mm256_and_si256(bytes, magnitude), magnitude);
        some |= (uint64_t)(uint32_t)_mm256_movemask_epi8(m) << i;
    }
    return _bzhi_u64(some, (uint32_t)len) == 0;
}

static inline uint64_t signs_of_bytes(const uint8_t *src) {
    __m256i first = _mm256_loadu_si256((const __m256i *)src);
    __m256i second = _mm256_loadu_si256((const __m256i *)(src + 32));
    return (uint32_t)_mm256_movemask_epi8(first) | (uint64_t)(uint32_t)_mm256_movemask_epi8(second)
                                                       << 32;
}

static inline void decode_short(const uint8_t *tags, const uint8_t *src, size_t len, float *y) {
    const __m256i sign = _mm256_set1_epi32(INT32_MIN);
    uint64_t sent = sent_of(tags);
    if (only_zeros(src, len)) {
        const __m256i to_top = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
        uint64_t negative = _pdep_u64(signs_of_bytes(src), sent);
        for (size_t i = 0; i < BLOCK; i += LANES, negative >>= LANES) {
            __m256i all = _mm256_set1_epi32((int)(uint32_t)negative);
            _mm256_storeu_si256((__m256i *)(y + i),
                                _mm256_and_si256(_mm256_sllv_epi32(all, to_top), sign));
        }
        return;
    }
    for (size_t i = 0; i < BLOCK; i += LANES, sent >>= LANES) {
        uint64_t bytes;
        memcpy(&bytes, src, sizeof bytes);
        src += _mm_popcnt_u64(sent & 0xff);
        bytes = _pdep_u64(bytes, bytes_mask(sent & 0xff));
        __m256i each = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
        __m256i m = _mm256_and_si256(each, _mm256_set1_epi32(MAGNITUDE_8));
        __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(m), _mm256_set1_ps(0x1p-7f));
        __m256i signs = _mm256_and_si256(_mm256_slli_epi32(each, 24), sign);
        _mm256_storeu_ps(y + i, _mm256_or_ps(value, _mm256_castsi256_ps(signs)));
    }
}

static inline const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src, float *y) {
    const __m256i magnitude = _mm256_set1_epi32(FEDCODEC_MAGNITUDE);
    size_t len;
    if (is_short(tags, &len)) {
        decode_short(tags, src, len, y);
        return src + len;
    }
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
    __m256i least_short, most_short; /* of short blocks, by bytes */
} seen;

static inline seen nothing_seen(void) {
    return (seen){_mm256_setzero_si256(), _mm256_set1_epi8(INT8_MAX), _mm256_set1_epi32(INT32_MAX),
                  _mm256_setzero_si256(), _mm256_set1_epi8(INT8_MAX), _mm256_setzero_si256()};
}

/* Does any of 64 values have the tag 3, for 32 bits? */
static inline bool any_large(__m128i tags) {
    __m128i both = _mm_and_si128(tags, _mm_srli_epi16(tags, 1));
    return !_mm_testz_si128(both, _mm_set1_epi8(0x55));
}

static inline void check_short(const uint8_t *src, size_t len, seen *s) {
    static const uint8_t is[2 * BLOCK] = {
#define EIGHT 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
        EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, 0};
    const __m256i magnitude = _mm256_set1_epi8(MAGNITUDE_8);
    for (size_t i = 0; i < BLOCK; i += 32) {
        __m256i in = _mm256_loadu_si256((const __m256i *)(is + BLOCK - len + i));
        __m256i m = _mm256_loadu_si256((const __m256i *)(src + i));
        m = _mm256_and_si256(m, magnitude);
        s->most_short = _mm256_max_epu8(s->most_short, _mm256_and_si256(m, in));
        s->least_short =
            _mm256_min_epu8(s->least_short, _mm256_or_si256(m, _mm256_andnot_si256(in, magnitude)));
    }
}

static inline const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s) {
    size_t len;
    if (is_short(tags, &len)) {
        check_short(src, len, s);
        return src + len;
    }
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
    __m256i least8 = _mm256_and_si256(_mm256_srli_epi32(s->least, 8), byte);
    __m256i most8 = _mm256_and_si256(s->most, half);
    for (int k = 0; k < 32; k += 8) { /* the bytes of short blocks, one of each lane at a time */
        __m256i least = _mm256_and_si256(_mm256_srli_epi32(s->least_short, k), byte);
        __m256i most = _mm256_and_si256(_mm256_srli_epi32(s->most_short, k), byte);
        least8 = _mm256_min_epi32(least8, least);
        most8 = _mm256_max_epi32(most8, _mm256_slli_epi32(most, 8));
    }
    return (ranges){.least8 = (int16_t)(least_of(least8, INT8_MAX) << 8),
                    .most8 = (int16_t)largest_of(most8),
                    .least16 = (int16_t)(least_of(_mm256_srli_epi32(s->least, 24), INT8_MAX) << 8),
                    .most16 = (int16_t)largest_of(_mm256_srli_epi32(s->most, 16)),
                    .least32 = least_of(s->least32, INT32_MAX),
                    .most32 = largest_of(s->most32)};
}

#endif
