/* Kernels that convert float32 to bfloat16 and back. */
/* SPDX-License-Identifier: Apache-2.0 */

/* y = x rounded to nearest even. NaN, and magnitudes above the largest finite bfloat16, become that
 * largest one. */
KERNEL nccl_narrow(GLOBAL const float *x, u32 n, GLOBAL u16 *y) {
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        const u32 bits = BITS_OF(x[i]), all = bits & 0x7fffffffU;
        const u32 m = all < 0x7f7f0000U ? all : 0x7f7f0000U;
        y[i] = (u16)((bits >> 16 & 0x8000U) | (m + 0x7fffU + (m >> 16 & 1)) >> 16);
    }
}

KERNEL nccl_widen(GLOBAL const u16 *x, u32 n, GLOBAL float *y) {
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        y[i] = FLOAT_OF((u32)x[i] << 16);
    }
}
