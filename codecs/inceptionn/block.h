/* inceptionn's inner loops over blocks of 64 values: classify the values, and pack their bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_H
#define FEDCODEC_INCEPTIONN_BLOCK_H

#include "codecs/prim/floats.h"
#include "codecs/prim/tags.h"

enum { BLOCK = 64, BLOCK_TAGS = BLOCK / FEDCODEC_TAGS };

/* BURSTS: bursts that are coded together. BURSTS_MOST: the most bytes they take. */
enum { BURST = FEDCODEC_BURST, BURSTS = BLOCK / BURST, BURST_TAGS = FEDCODEC_BURST_TAGS };
enum { BURSTS_MOST = BURSTS * FEDCODEC_BURST_MOST };

enum { ONE = 0x3f800000 }; /* the bits of 1.0 */
#define SIGN UINT32_C(0x80000000)

/* low: bits of the least magnitude that is sent at all. middle: bits of the least magnitude that is
 * sent in 16 bits. */
typedef struct classes {
    int32_t low, middle;
} classes;

/* `when` makes a mask, with which `pick` chooses without a branch. Branches would hinder
 * vectorisation. */

static inline uint32_t when(bool holds) {
    return 0u - (uint32_t)holds;
}

static inline uint32_t pick(uint32_t mask, uint32_t yes, uint32_t no) {
    return (yes & mask) | (no & ~mask);
}

/* Convert a magnitude in units of 2^-31 to a float with the sign of like; zero becomes +0. */
static inline float signed_value(int32_t m, uint32_t like) {
    const int32_t sign = 0 - (int32_t)(like >> 31);
    return (float)((m ^ sign) - sign) * 0x1p-31f;
}

/*
 * The least and the largest magnitude of each class, from which the codec's check decides whether a
 * message is valid. Magnitudes of the classes of 8 and 16 bits are in units of 2^-15; magnitudes of
 * the class of 32 bits are the float's bits. The 8 low bits of least16 may be cleared. In an empty
 * class the largest is 0, and the least is the maximum of the member's type.
 */
typedef struct ranges {
    int16_t least8, most8, least16, most16;
    int32_t least32, most32;
} ranges;

/*
 * Each value first becomes a word: the sign, and the magnitude times 2^31. A value of 1.0 or more
 * keeps its own bits. The word's most significant bytes are sent. So the byte of the 8-bit class is
 * the upper byte of the 16-bit class.
 *
 * Each vector unit defines the functions below, which return where the next block's payload is. It
 * also defines the types largest and seen, which collect results over blocks, with largest_of,
 * nothing_seen and ranges_seen.
 *
 * The buffer out has room for 4 bytes a value; FEDCODEC_TAGS_AHEAD bytes of src are readable. The
 * functions for bursts take values as bytes, which need not be aligned. encode_bursts reads a
 * whole block, and needs room for FEDCODEC_BURST_MOST bytes a burst. decode_bursts gives each zero
 * that it computes as +0, so that a second encoding changes nothing.
 *
 *     uint8_t *encode_block(const float *x, classes c, uint8_t *tags, uint8_t *out, largest *max)
 *     const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src, float *y)
 *     bool only_zeros(const uint8_t *src, size_t len)
 *     const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s)
 *     uint8_t *encode_bursts(const uint8_t *x, size_t count, classes c, uint8_t *out)
 *     const uint8_t *decode_bursts(const uint8_t *src, size_t count, uint8_t *y)
 */
#if defined(FEDCODEC_AVX512)
#include "codecs/inceptionn/block_avx512_impl.h"
#elif defined(FEDCODEC_AVX2)
#include "codecs/inceptionn/block_avx2_impl.h"
#else
#include "codecs/inceptionn/block_plain_impl.h"
#endif

#endif
