/* Layers that work on each value by itself. */
/* SPDX-License-Identifier: Apache-2.0 */

KERNEL relu_forward(GLOBAL const float *x, GLOBAL float *y, u32 n) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        y[i] = x[i] > 0.0f || x[i] != x[i] ? x[i] : 0.0f;
    }
}

KERNEL relu_backward(GLOBAL const float *y, GLOBAL const float *dy, GLOBAL float *dx, u32 adds,
                     u32 n) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        put(dx + i, adds, y[i] > 0.0f ? dy[i] : 0.0f);
    }
}
