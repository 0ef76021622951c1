/* Sums and checks of float32 values, for exchanges whose gradients are on a GPU. */
/* SPDX-License-Identifier: Apache-2.0 */

/* y += x */
KERNEL values_add(GLOBAL float *y, GLOBAL const float *x, u32 n) {
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        y[i] += x[i];
    }
}

/* y = residual + x, and the residual becomes 0. */
KERNEL values_carry(GLOBAL float *residual, GLOBAL const float *x, u32 n, GLOBAL float *y) {
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        y[i] = residual[i] + x[i];
        residual[i] = 0.0f;
    }
}

/* y -= rate x */
KERNEL values_descend(GLOBAL float *y, GLOBAL const float *x, float rate, u32 n) {
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        y[i] -= rate * x[i];
    }
}

KERNEL values_swap(GLOBAL float *x, GLOBAL float *y, u32 n) {
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        float was = x[i];
        x[i] = y[i];
        y[i] = was;
    }
}

/* Set *found to 1 if a value is not finite. */
KERNEL values_check(GLOBAL const float *x, u32 n, GLOBAL u32 *found) {
    u32 bad = 0;
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        bad |= (BITS_OF(x[i]) & 0x7f800000U) == 0x7f800000U;
    }
    if (bad != 0) {
        ATOMIC_OR(found, 1U);
    }
}

/* *found += number of values that are 0 in back and not 0 in x. */
KERNEL values_zeroed(GLOBAL const float *x, GLOBAL const float *back, u32 n, GLOBAL u32 *found) {
    u32 zeroed = 0;
    for (u64 i = GROUP * GROUP_SIZE + LANE; i < n; i += (u64)GROUPS * GROUP_SIZE) {
        zeroed += x[i] != 0.0f && back[i] == 0.0f;
    }
    if (zeroed != 0) {
        ATOMIC_ADD(found, zeroed);
    }
}
