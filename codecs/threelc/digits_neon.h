/* 3LC's digits, 16 bytes of them at a time, with NEON. */
#ifndef FEDCODEC_THREELC_DIGITS_NEON_H
#define FEDCODEC_THREELC_DIGITS_NEON_H

#include <arm_neon.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"

#define GROUPED 16
enum { AHEAD = 256 };

/* 4 values to 4 digits, -1 to 1. */
static inline int32x4_t quantise_4(float *e, const float *x, float32x4_t m, float32x4_t half) {
    float32x4_t v = vld1q_f32(e);
    if (x != NULL) {
        v = vaddq_f32(v, vld1q_f32(x));
    }
    uint32x4_t plus = vcgtq_f32(v, half), minus = vcltq_f32(v, vnegq_f32(half));
    uint32x4_t bits = vreinterpretq_u32_f32(m), negative = vreinterpretq_u32_f32(vnegq_f32(m));
    uint32x4_t sent = vorrq_u32(vandq_u32(plus, bits), vandq_u32(minus, negative));
    vst1q_f32(e, vsubq_f32(v, vreinterpretq_f32_u32(sent)));
    return vreinterpretq_s32_u32(vsubq_u32(minus, plus));
}

static inline int8x16_t quantise_16(float *e, const float *x, float32x4_t m, float32x4_t half) {
    int32x4_t digit[4];
    fedcodec_fetch(e, AHEAD); /* a cache line */
    fedcodec_fetch(x, AHEAD);
    for (size_t j = 0; j < 4; j++) {
        digit[j] = quantise_4(e + 4 * j, x != NULL ? x + 4 * j : NULL, m, half);
    }
    int16x8_t low = vcombine_s16(vmovn_s32(digit[0]), vmovn_s32(digit[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(digit[2]), vmovn_s32(digit[3]));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

static inline void quantise_group(float *e, const float *x, size_t stride, float m,
                                  uint8_t *bytes) {
    const float32x4_t step = vdupq_n_f32(m), half = vdupq_n_f32(0.5f * m);
    int8x16_t sum = vdupq_n_s8(FEDCODEC_QUARTIC_ZERO);
    static const int8_t weight[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        const float *y = x != NULL ? x + k * stride : NULL;
        sum = vmlaq_s8(sum, quantise_16(e + k * stride, y, step, half), vdupq_n_s8(weight[k]));
    }
    vst1q_u8(bytes, vreinterpretq_u8_s8(sum));
}

#endif
