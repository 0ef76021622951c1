/* exp, the logistic function and tanh of a vector. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_EXPONENTIAL_H
#define FEDTRAIN_EXPONENTIAL_H

#include "fedclient/train/kernels/vector.h"

KERNEL_INLINE vec vec_all(float x) {
    return x - (vec){0};
}

/* e^x = 2^n e^r with n whole and |r| <= ln(2) / 2; e^r = 1 + r + r^2 P(r) with a polynomial P.
 * Below -87 the result is 0, from 88 on e^88; NaN stays NaN. */
KERNEL_INLINE vec vec_exp(vec x) {
    const float rounder = 12582912.0F; /* 1.5 * 2^23: adding it rounds away the fraction */
    const float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
    ivec is_small = x < -87.0F;
    x = vec_select(x > 88.0F, vec_all(88.0F), x);
    vec shifted = x * 1.44269504F + rounder;
    vec n = shifted - rounder;
    vec r = x - n * ln2_high - n * ln2_low;
    vec p = vec_all(1.38145e-3F);
    p = p * r + 8.36878e-3F;
    p = p * r + 4.166839e-2F;
    p = p * r + 1.666652e-1F;
    p = p * r + 4.9999993e-1F;
    p = p * (r * r) + r + 1.0F;
    ivec exponent = (ivec)shifted - (ivec)vec_all(rounder);
    vec power = (vec)((exponent + 127) << 23);
    return vec_select(is_small, (vec){0}, p * power);
}

/* The logistic function, 1 / (1 + e^-x). */
KERNEL_INLINE vec vec_sigmoid(vec x) {
    return 1.0F / (1.0F + vec_exp(-x));
}

/* tanh x = 1 - 2 / (e^2x + 1). Near 0, where the difference loses digits, it is x + x^3 P(x^2). */
KERNEL_INLINE vec vec_tanh(vec x) {
    const ivec sign_bit = (ivec)vec_all(-0.0F);
    vec size = (vec)((ivec)x & ~sign_bit);
    vec square = x * x;
    vec p = vec_all(-5.70497e-3F);
    p = p * square + 2.063908e-2F;
    p = p * square - 5.373971e-2F;
    p = p * square + 1.3331442e-1F;
    p = p * square - 3.3333282e-1F;
    vec near = x + x * square * p;
    vec far = 1.0F - 2.0F / (vec_exp(size + size) + 1.0F);
    return vec_select(size < 0.625F, near, (vec)((ivec)far | ((ivec)x & sign_bit)));
}

#endif
