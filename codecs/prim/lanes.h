/* Vectors of 32-bit lanes, for loops that keep only some of the values, as compilers do not
 * vectorise such loops. On machines without these vectors FEDCODEC_LANES is undefined, and callers
 * use plain loops. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_LANES_H
#define FEDCODEC_PRIM_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"

/*
 * In a mask, bit i stands for lane i. fedcodec_lanes_above compares signed integers.
 * fedcodec_lanes_pack moves the lanes of a mask to the front. Then a full vector is stored, since
 * packing in memory is slow on some machines. So the destination needs room for a vector after the
 * last value.
 */

#if FEDCODEC_AVX512
#include <immintrin.h>

#define FEDCODEC_LANES 16
typedef __m512i fedcodec_lanes;

static inline fedcodec_lanes fedcodec_lanes_load(const void *src) {
    return _mm512_loadu_si512(src);
}

static inline void fedcodec_lanes_store(void *dst, fedcodec_lanes v) {
    _mm512_storeu_si512(dst, v);
}

static inline fedcodec_lanes fedcodec_lanes_all(uint32_t v) {
    return _mm512_set1_epi32((int)v);
}

static inline fedcodec_lanes fedcodec_lanes_add(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm512_add_epi32(a, b);
}

static inline fedcodec_lanes fedcodec_lanes_add_floats(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}

static inline fedcodec_lanes fedcodec_lanes_and(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm512_and_si512(a, b);
}

static inline fedcodec_lanes fedcodec_lanes_xor(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm512_xor_si512(a, b);
}

/* The empty assembly keeps the bits in a general register. Without it gcc 12 may run out of
 * registers, store 16 bits of the mask and read back 32. This happened in rank_impl.h's narrow at
 * -O1 with a sanitizer. */
static inline uint32_t fedcodec_lanes_above(fedcodec_lanes a, fedcodec_lanes b) {
    uint32_t bits = _mm512_cmpgt_epi32_mask(a, b);
    __asm__("" : "+r"(bits));
    return bits;
}

static inline fedcodec_lanes fedcodec_lanes_pack(uint32_t mask, fedcodec_lanes v) {
    return _mm512_maskz_compress_epi32((__mmask16)mask, v);
}

#elif FEDCODEC_AVX2
#include <immintrin.h>

#define FEDCODEC_LANES     8
typedef __m256i fedcodec_lanes;

static inline fedcodec_lanes fedcodec_lanes_load(const void *src) {
    return _mm256_loadu_si256(src);
}

static inline void fedcodec_lanes_store(void *dst, fedcodec_lanes v) {
    _mm256_storeu_si256(dst, v);
}

static inline fedcodec_lanes fedcodec_lanes_all(uint32_t v) {
    return _mm256_set1_epi32((int)v);
}

static inline fedcodec_lanes fedcodec_lanes_add(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm256_add_epi32(a, b);
}

static inline fedcodec_lanes fedcodec_lanes_add_floats(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
}

static inline fedcodec_lanes fedcodec_lanes_and(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm256_and_si256(a, b);
}

static inline fedcodec_lanes fedcodec_lanes_xor(fedcodec_lanes a, fedcodec_lanes b) {
    return _mm256_xor_si256(a, b);
}

static inline uint32_t fedcodec_lanes_above(fedcodec_lanes a, fedcodec_lanes b) {
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)));
}

/** Return the sign bits of four vectors' lanes. Packing narrows each half of a vector by itself,
 * and so needs the bytes put in order. */
static inline uint32_t fedcodec_lanes_signs(const fedcodec_lanes v[4]) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i first = _mm256_packs_epi32(v[0], v[1]), second = _mm256_packs_epi32(v[2], v[3]);
    __m256i bytes = _mm256_packs_epi16(first, second);
    return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order));
}

/* For each mask, the indices of its lanes, the first one in the lowest byte. */
#define FEDCODEC_BIT(m, i) ((m) >> (i)&1u)
#define FEDCODEC_LOW3(m, i)                                                                        \
    (FEDCODEC_BIT(m, i) + FEDCODEC_BIT(m, (i) + 1) + FEDCODEC_BIT(m, (i) + 2))
#define FEDCODEC_LANE(m, i, before)                                                                \
    (FEDCODEC_BIT(m, i) * ((uint64_t)(i) << 8 * (FEDCODEC_BIT(m, i) * (before))))
#define FEDCODEC_PACK1(m)                                                                          \
    (FEDCODEC_LANE(m, 1, FEDCODEC_BIT(m, 0)) |                                                     \
     FEDCODEC_LANE(m, 2, FEDCODEC_BIT(m, 0) + FEDCODEC_BIT(m, 1)) |                                \
     FEDCODEC_LANE(m, 3, FEDCODEC_LOW3(m, 0)) |                                                    \
     FEDCODEC_LANE(m, 4, FEDCODEC_LOW3(m, 0) + FEDCODEC_BIT(m, 3)) |                               \
     FEDCODEC_LANE(m, 5, FEDCODEC_LOW3(m, 0) + FEDCODEC_BIT(m, 3) + FEDCODEC_BIT(m, 4)) |          \
     FEDCODEC_LANE(m, 6, FEDCODEC_LOW3(m, 0) + FEDCODEC_LOW3(m, 3)) |                              \
     FEDCODEC_LANE(m, 7, FEDCODEC_LOW3(m, 0) + FEDCODEC_LOW3(m, 3) + FEDCODEC_BIT(m, 6)))
#define FEDCODEC_PACK4(m)                                                                          \
    FEDCODEC_PACK1(m), FEDCODEC_PACK1((m) + 1), FEDCODEC_PACK1((m) + 2), FEDCODEC_PACK1((m) + 3)
#define FEDCODEC_PACK16(m)                                                                         \
    FEDCODEC_PACK4(m), FEDCODEC_PACK4((m) + 4), FEDCODEC_PACK4((m) + 8), FEDCODEC_PACK4((m) + 12)
#define FEDCODEC_PACK64(m)                                                                         \
    FEDCODEC_PACK16(m), FEDCODEC_PACK16((m) + 16), FEDCODEC_PACK16((m) + 32),                      \
        FEDCODEC_PACK16((m) + 48)

static const uint64_t fedcodec_lanes_packs[256] = {FEDCODEC_PACK64(0u), FEDCODEC_PACK64(64u),
                                                   FEDCODEC_PACK64(128u), FEDCODEC_PACK64(192u)};

static inline fedcodec_lanes fedcodec_lanes_pack(uint32_t mask, fedcodec_lanes v) {
    __m128i lanes = _mm_loadl_epi64((const void *)&fedcodec_lanes_packs[mask]);
    return _mm256_permutevar8x32_epi32(v, _mm256_cvtepu8_epi32(lanes));
}

#elif FEDCODEC_NEON
#include <arm_neon.h>

#define FEDCODEC_LANES 4
typedef uint32x4_t fedcodec_lanes;

static inline fedcodec_lanes fedcodec_lanes_load(const void *src) {
    return vreinterpretq_u32_u8(vld1q_u8(src));
}

static inline void fedcodec_lanes_store(void *dst, fedcodec_lanes v) {
    vst1q_u8(dst, vreinterpretq_u8_u32(v));
}

static inline fedcodec_lanes fedcodec_lanes_all(uint32_t v) {
    return vdupq_n_u32(v);
}

static inline fedcodec_lanes fedcodec_lanes_add(fedcodec_lanes a, fedcodec_lanes b) {
    return vaddq_u32(a, b);
}

static inline fedcodec_lanes fedcodec_lanes_add_floats(fedcodec_lanes a, fedcodec_lanes b) {
    return vreinterpretq_u32_f32(vaddq_f32(vreinterpretq_f32_u32(a), vreinterpretq_f32_u32(b)));
}

static inline fedcodec_lanes fedcodec_lanes_and(fedcodec_lanes a, fedcodec_lanes b) {
    return vandq_u32(a, b);
}

static inline fedcodec_lanes fedcodec_lanes_xor(fedcodec_lanes a, fedcodec_lanes b) {
    return veorq_u32(a, b);
}

static inline uint32_t fedcodec_lanes_above(fedcodec_lanes a, fedcodec_lanes b) {
    static const uint32_t bit[4] = {1, 2, 4, 8};
    uint32x4_t above = vcgtq_s32(vreinterpretq_s32_u32(a), vreinterpretq_s32_u32(b));
    return vaddvq_u32(vandq_u32(above, vld1q_u32(bit)));
}

static inline fedcodec_lanes fedcodec_lanes_pack(uint32_t mask, fedcodec_lanes v) {
    enum { A = 0x03020100, B = 0x07060504, C = 0x0b0a0908, D = 0x0f0e0d0c }; /* byte indices */
    static const uint32_t packs[16][4] = {
        {0}, {A},    {B},    {A, B},    {C},    {A, C},    {B, C},    {A, B, C},
        {D}, {A, D}, {B, D}, {A, B, D}, {C, D}, {A, C, D}, {B, C, D}, {A, B, C, D},
    };
    uint8x16_t bytes = vreinterpretq_u8_u32(vld1q_u32(packs[mask]));
    return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(v), bytes));
}
#endif

#ifdef FEDCODEC_LANES
/** Return the numbers first, first + 1 and so on, one in each lane. */
static inline fedcodec_lanes fedcodec_lanes_from(uint32_t first) {
    static const uint32_t step[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return fedcodec_lanes_add(fedcodec_lanes_load(step), fedcodec_lanes_all(first));
}

/** Store the lanes of a mask one after another. Returns their number. */
static inline size_t fedcodec_lanes_put(void *dst, uint32_t mask, fedcodec_lanes v) {
    fedcodec_lanes_store(dst, fedcodec_lanes_pack(mask, v));
    return (size_t)__builtin_popcount(mask);
}
#endif

#if FEDCODEC_AVX512
static inline __m512i fedcodec_lanes_numbers(void) {
    static const uint8_t place[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    return _mm512_loadu_si512(place);
}
#endif

/** Store first + i for each bit i of a mask that is 1. Returns how many there are. Overwrites up to
 * 64 numbers. */
static inline size_t fedcodec_list_positions(uint32_t *dst, uint64_t mask, uint32_t first) {
    const size_t count = (size_t)__builtin_popcountll(mask);
    size_t i = 0;
#if FEDCODEC_AVX512
    __m512i places = _mm512_maskz_compress_epi8(mask, fedcodec_lanes_numbers());
    do {
        __m512i some = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(places));
        fedcodec_lanes_store(dst + i, fedcodec_lanes_add(some, fedcodec_lanes_all(first)));
        places = _mm512_alignr_epi64(places, places, 2);
        i += FEDCODEC_LANES;
    } while (i < count);
#else
    enum { AT_ONCE = 4 };                    /* enough for most masks */
    const uint64_t last = UINT64_C(1) << 63; /* a sentinel: the word is never 0 */
    do {
        for (size_t k = 0; k < AT_ONCE; k++, mask &= mask - 1) {
            dst[i + k] = first + (uint32_t)__builtin_ctzll(mask | last);
            __asm__("" ::: "memory"); /* keeps the compiler from joining the stores to vectors */
        }
        i += AT_ONCE;
    } while (i < count);
#endif
    return count;
}

#endif
