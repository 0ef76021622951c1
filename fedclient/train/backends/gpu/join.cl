/* Layers that join values: add, concat, widen. */
/* SPDX-License-Identifier: Apache-2.0 */

KERNEL add_forward(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *y, u32 n) {
    u32 i = 4 * (GROUP * GROUP_SIZE + LANE);
    if (i + 4 <= n) {
        f32x4 v = LOAD4(a + i), w = LOAD4(b + i);
        STORE4(y + i, F32X4(v.x + w.x, v.y + w.y, v.z + w.z, v.w + w.w));
        return;
    }
    for (; i < n; i++) {
        y[i] = a[i] + b[i];
    }
}

/* Copy or add `width` values of each row. Rows are from_step and to_step values apart in the two
 * arrays; n values are copied in all. */
KERNEL move_channels(GLOBAL const float *from, u32 from_step, GLOBAL float *to, u32 to_step,
                     u32 width, u32 adds, u32 n) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        u32 row = i / width, at = i - row * width;
        float v = from[row * from_step + at];
        GLOBAL float *place = to + row * to_step + at;
        *place = (adds != 0 ? *place : 0.0f) + v;
    }
}
