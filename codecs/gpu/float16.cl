/* float16: a value as the nearest half, and back. Format: docs/codec-formats.md#float16 */
/* SPDX-License-Identifier: Apache-2.0 */
#define DENSE_SKIPS     0
#define NARROW_INFINITY 0x7c00U
#define REBIAS          0x38000000U /* difference of the exponents' biases */
#define NORMAL          0x38800000U /* bits of 2^-14, the least normal half */
#define LARGEST         0x477fe000U /* bits of 65504 */

FUNC u32 narrow(float v) {
    const u32 bits = BITS_OF(v), all = bits & 0x7fffffffU, m = all < LARGEST ? all : LARGEST;
    const u32 normal = (m - REBIAS + 0xfffU + (m >> 13 & 1)) >> 13;
    /* Magnitudes below 2^-14 are denormal halves, multiples of 2^-24. Adding 0.5 rounds to such a
     * multiple, since 2^-24 is the last bit of a float32 near 0.5. */
    const u32 small = BITS_OF(FLOAT_OF(m) + 0.5f) - BITS_OF(0.5f);
    return (bits >> 16 & 0x8000U) | (m < NORMAL ? small : normal);
}

FUNC float widen(u32 v) {
    const u32 sign = (v & 0x8000U) << 16, m = v & 0x7fffU;
    const u32 small = BITS_OF((float)m * 5.9604644775390625e-8f);
    return FLOAT_OF(sign | (m < 0x400U ? small : (m << 13) + REBIAS));
}
