/* Round a value to bfloat16 or to one of 255 levels. The codecs bfloat16 and int8 and the narrow
 * values of sparse codecs share this. Formats: docs/codec-formats.md#bfloat16, #int8 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_ROUNDING_H
#define FEDCODEC_PRIM_ROUNDING_H

#include <stdbool.h>

#include "codecs/prim/floats.h"

/** Magnitudes from these bits on are infinite or NaN. */
enum { FEDCODEC_BFLOAT16_INFINITY = 0x7f80 };

/** Return the nearest finite bfloat16, ties to even. */
static inline uint16_t fedcodec_to_bfloat16(float v) {
    enum { LARGEST = 0x7f7f0000 }; /* the largest bfloat16, as float32 bits */
    uint32_t bits = fedcodec_bits(v), m = bits & FEDCODEC_MAGNITUDE;
    m = m < LARGEST ? m : LARGEST;
    uint32_t rounded = (m + 0x7fff + (m >> 16 & 1)) >> 16;
    return (uint16_t)((bits >> 16 & 0x8000) | rounded);
}

static inline float fedcodec_from_bfloat16(uint16_t v) {
    return fedcodec_float((uint32_t)v << 16);
}

/* A decoded value is a level, -127 to 127, times a scale. SCALE_MAX keeps each decoded value
 * finite. */
#define FEDCODEC_LEVELS    127
#define FEDCODEC_SCALE_MAX 0x1.020406p+121f

/** A scale, and the factor by which a value is multiplied to get its level. */
typedef struct fedcodec_scale {
    float scale, inverse;
} fedcodec_scale;

/** Return the scale for magnitudes up to max. Return 0 where the scale would be denormal. */
static inline fedcodec_scale fedcodec_scale_of(float max) {
    const float scale = max / FEDCODEC_LEVELS;
    if (scale < FLT_MIN) {
        return (fedcodec_scale){0.0f, 0.0f};
    }
    return (fedcodec_scale){scale < FEDCODEC_SCALE_MAX ? scale : FEDCODEC_SCALE_MAX,
                            FEDCODEC_LEVELS / max};
}

/** Could fedcodec_scale_of return this scale? 0 is not accepted. */
static inline bool fedcodec_scale_valid(float scale) {
    return scale >= FLT_MIN && scale <= FEDCODEC_SCALE_MAX;
}

/* Return the level of a value; |v * inverse| is at most 127. Adding 1.5 * 2^23 rounds to an
 * integer, ties to even, since the last bit of a float of that size is worth 1. */
static inline float fedcodec_level(float v, float inverse) {
    const float shift = 0x1.8p23f;
    return (v * inverse + shift) - shift;
}

static inline float fedcodec_level_value(uint8_t level, float scale) {
    return (float)(int8_t)level * scale;
}

#endif
