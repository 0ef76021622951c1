/* 3LC's digits with NEON, 16 bytes at a time. Included by threelc.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_THREELC_DIGITS_NEON_IMPL_H
#define FEDCODEC_THREELC_DIGITS_NEON_IMPL_H

#include <arm_neon.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"
#include "codecs/threelc/values.h"

static inline void quantise_group(float *e, const float *x, size_t stride, float m,
                                  uint8_t *bytes) {
    int8x16_t sum = vdupq_n_s8(FEDCODEC_QUARTIC_ZERO);
    static const int8_t weight[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        int8x16_t digit = quantise_values(e + k * stride, x != NULL ? x + k * stride : NULL, m);
        sum = vmlaq_s8(sum, digit, vdupq_n_s8(weight[k]));
    }
    vst1q_u8(bytes, vreinterpretq_u8_s8(sum));
}

#endif
