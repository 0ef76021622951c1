/* bfloat16: the upper half of a float32, rounded, and back. Format: docs/codec-formats.md#bfloat16 */
/* SPDX-License-Identifier: Apache-2.0 */
#define DENSE_SKIPS     0
#define NARROW_INFINITY 0x7f80U
#define LARGEST         0x7f7f0000U

FUNC u32 narrow(float v) {
    const u32 bits = BITS_OF(v), all = bits & 0x7fffffffU, m = all < LARGEST ? all : LARGEST;
    return (bits >> 16 & 0x8000U) | (m + 0x7fffU + (m >> 16 & 1)) >> 16;
}

FUNC float widen(u32 v) {
    return FLOAT_OF(v << 16);
}
