/* The operands of products of matrices: float32, or pairs of bfloat16. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_PRODUCT_H
#define FEDTRAIN_PRODUCT_H

#include "fedclient/train/kernels/vector.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

/*
 * A lane of an operand holds PAIR consecutive terms of the sum: one float32, or two bfloat16, the
 * first in the lower half. Each bfloat16 is the upper half of a float32, and the product of two is
 * exact in float32. The upper halves' product is added first, as AVX512_BF16 does. Without
 * AVX512_BF16, each half is a pass over the tile.
 */
#if defined(FEDTRAIN_PRODUCTS) && !defined(__AVX512BF16__)
enum { PASSES = 2 };
#else
enum { PASSES = 1 };
#endif

/** The operand's values for one pass: the upper halves, then the lower halves. */
KERNEL_INLINE vec vec_half(vec pairs, const size_t pass) {
    if (PASSES == 1) {
        return pairs;
    }
    return (vec)(pass == 0 ? (ivec)pairs & (int32_t)0xffff0000 : (ivec)pairs << 16);
}

/** Fill all lanes with the operand, copied as bits: a pair of bfloat16 is not one number. */
KERNEL_INLINE vec vec_all(const float *operand) {
    typedef int32_t word __attribute__((may_alias));
    return PAIR == 1 ? *operand - (vec){0} : (vec)(*(const word *)operand - (ivec){0});
}

KERNEL_INLINE vec vec_add_product(vec sum, vec a, vec b) {
#if defined(FEDTRAIN_PRODUCTS) && defined(__AVX512BF16__)
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    return sum + a * b;
#endif
}

#endif
