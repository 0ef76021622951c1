/* trunc's packing and unpacking by shuffles, eight values of at most 25 bits at a time. Included by
 * trunc.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_TRUNC_SHUFFLE_IMPL_H
#define FEDCODEC_TRUNC_SHUFFLE_IMPL_H

#include "codecs/prim/floats.h"

#if defined(FEDCODEC_AVX2) || defined(FEDCODEC_NEON)
#define FEDCODEC_SHUFFLE 1

/* The shuffles for eight values. second: the offset of the packed bytes of the last four values.
 * The byte there may also hold bits of the fourth value. */
typedef struct shuffle {
    uint8_t from[32];  /* unpacking: which byte of 16 goes to each byte of a word */
    uint8_t to[2][32]; /* packing: which byte of the even or the odd values goes to each byte */
    int32_t up[8];     /* by how many bits a value must be shifted in its word */
    size_t second;
} shuffle;

/* Do the four bytes from a value's first byte on hold all its bits? */
static inline bool shuffles_unpack(unsigned width) {
    return width <= 25;
}

/* Does no byte hold bits of three values, so that even and odd values can be packed separately? */
static inline bool shuffles_pack(unsigned width) {
    return width >= 8 && width <= 25;
}

static inline shuffle shuffle_of(unsigned width) {
    shuffle s = {.second = width / 2};
    memset(s.to, 0x80, sizeof s.to); /* 0x80 makes a shuffle write 0 */
    for (unsigned i = 0; i < 8 && shuffles_unpack(width); i++) {
        unsigned half = i / 4 * 16, at = i < 4 ? i * width : i * width - width / 2 * 8;
        s.up[i] = (int32_t)(at % 8);
        for (unsigned j = 0; j < 4; j++) {
            s.from[4 * i + j] = (uint8_t)(at / 8 + 3 - j);
            if (8 * j < at % 8 + width) {
                s.to[i % 2][half + at / 8 + j] = (uint8_t)(4 * (i % 4) + 3 - j);
            }
        }
    }
    return s;
}

#if defined(FEDCODEC_AVX2)
#include <immintrin.h>

static inline __m256i load_32(const void *src) {
    return _mm256_loadu_si256((const __m256i *)src);
}

static inline __m256i kept_bits(unsigned b) {
    return _mm256_set1_epi32((int32_t)(UINT32_MAX << b));
}

static inline void pack_eight(const float *x, const shuffle *s, unsigned b, uint8_t *dst) {
    __m256i word = _mm256_and_si256(load_32(x), kept_bits(b));
    word = _mm256_srlv_epi32(word, load_32(s->up));
    __m256i bytes = _mm256_or_si256(_mm256_shuffle_epi8(word, load_32(s->to[0])),
                                    _mm256_shuffle_epi8(word, load_32(s->to[1])));
    _mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(bytes));
    uint8_t shared = dst[s->second];
    _mm_storeu_si128((__m128i *)(dst + s->second), _mm256_extracti128_si256(bytes, 1));
    dst[s->second] |= shared;
}

static inline void unpack_eight(const uint8_t *src, const shuffle *s, unsigned b, float *x) {
    __m128i first = _mm_loadu_si128((const __m128i *)src);
    __m128i second = _mm_loadu_si128((const __m128i *)(src + s->second));
    __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
    __m256i word = _mm256_shuffle_epi8(bytes, load_32(s->from));
    word = _mm256_and_si256(_mm256_sllv_epi32(word, load_32(s->up)), kept_bits(b));
    _mm256_storeu_si256((__m256i *)x, word);
}
#else
#include <arm_neon.h>

static inline uint8x16_t pack_four(const float *x, const shuffle *s, size_t half, unsigned b) {
    uint32x4_t word = vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x)), vdupq_n_u32(UINT32_MAX << b));
    word = vshlq_u32(word, vnegq_s32(vld1q_s32(s->up + 4 * half)));
    uint8x16_t bytes = vreinterpretq_u8_u32(word);
    return vorrq_u8(vqtbl1q_u8(bytes, vld1q_u8(s->to[0] + 16 * half)),
                    vqtbl1q_u8(bytes, vld1q_u8(s->to[1] + 16 * half)));
}

static inline void pack_eight(const float *x, const shuffle *s, unsigned b, uint8_t *dst) {
    vst1q_u8(dst, pack_four(x, s, 0, b));
    uint8_t shared = dst[s->second];
    vst1q_u8(dst + s->second, pack_four(x + 4, s, 1, b));
    dst[s->second] |= shared;
}

static inline void unpack_four(const uint8_t *src, const shuffle *s, size_t half, unsigned b,
                               float *x) {
    uint8x16_t bytes = vqtbl1q_u8(vld1q_u8(src), vld1q_u8(s->from + 16 * half));
    uint32x4_t word = vshlq_u32(vreinterpretq_u32_u8(bytes), vld1q_s32(s->up + 4 * half));
    word = vandq_u32(word, vdupq_n_u32(UINT32_MAX << b));
    vst1q_f32(x, vreinterpretq_f32_u32(word));
}

static inline void unpack_eight(const uint8_t *src, const shuffle *s, unsigned b, float *x) {
    unpack_four(src, s, 0, b, x);
    unpack_four(src + s->second, s, 1, b, x + 4);
}
#endif
#endif

#endif
