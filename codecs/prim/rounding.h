/* A value as bfloat16, and as one of 255 levels: what the codecs of these names and the narrow
 * values of sparse codecs share. Formats: docs/codec-formats.md#bfloat16, #int8 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_ROUNDING_H
#define FEDCODEC_PRIM_ROUNDING_H

#include <stdbool.h>

#include "codecs/prim/floats.h"

/* ---- bfloat16 ---- */

/** Magnitudes from these bits on are infinite or NaN. */
enum { FEDCODEC_BFLOAT16_INFINITY = 0x7f80 };

/** The nearest finite one, ties to even. */
static inline uint16_t fedcodec_to_bfloat16(float v) {
    enum { LARGEST = 0x7f7f0000 }; /* bits of a float32 */
    uint32_t bits = fedcodec_bits(v), m = bits & FEDCODEC_MAGNITUDE;
    m = m < LARGEST ? m : LARGEST;
    uint32_t rounded = (m + 0x7fff + (m >> 16 & 1)) >> 16;
    return (uint16_t)((bits >> 16 & 0x8000) | rounded);
}

static inline float fedcodec_from_bfloat16(uint16_t v) {
    return fedcodec_float((uint32_t)v << 16);
}

/* ---- Levels ---- */

/* A value is a level, -127 to 127, times the scale. The largest scale's multiples are all
 * finite. */
#define FEDCODEC_LEVELS    127
#define FEDCODEC_SCALE_MAX 0x1.020406p+121f

/** A scale, and what a value is multiplied with to become its level. */
typedef struct fedcodec_scale {
    float scale, inverse;
} fedcodec_scale;

/** For values of at most this magnitude. The scale is 0 for denormals, where it would be too coarse
 * for 127 different levels. */
static inline fedcodec_scale fedcodec_scale_of(float max) {
    const float scale = max / FEDCODEC_LEVELS;
    if (scale < FLT_MIN) {
        return (fedcodec_scale){0.0f, 0.0f};
    }
    return (fedcodec_scale){scale < FEDCODEC_SCALE_MAX ? scale : FEDCODEC_SCALE_MAX,
                            FEDCODEC_LEVELS / max};
}

/** Is it one that fedcodec_scale_of returns, other than 0? */
static inline bool fedcodec_scale_valid(float scale) {
    return scale >= FLT_MIN && scale <= FEDCODEC_SCALE_MAX;
}

/* |v * inverse| is at most 127. Near 1.5 * 2^23 a float's last bit is worth one, so adding that
 * rounds to an integer, ties to even. */
static inline float fedcodec_level(float v, float inverse) {
    const float shift = 0x1.8p23f;
    return (v * inverse + shift) - shift;
}

static inline float fedcodec_level_value(uint8_t level, float scale) {
    return (float)(int8_t)level * scale;
}

#endif
