/* Load and store quads, which are four values, and find the largest magnitude of an array. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Quads that a work-item of dense.cl or largest_sum handles. They are GROUP_SIZE quads apart. */
#define QUADS 4U

/* One or two numbers that dense.cl passes to a codec's functions. twobit: one is the threshold.
 * int8: one is the scale, two its inverse; before dense_head, two is the largest magnitude. */
typedef struct scales {
    float one, two;
} scales;
#define QUAD_BAD  1U
#define QUAD_FULL 2U

/* Are all values of this work-group within the array? If so, no quad needs a check. */
FUNC int group_whole(u32 n) {
    return (u64)(GROUP + 1) * GROUP_SIZE * QUADS * 4 <= n;
}

FUNC u32 quad_count(u32 at, u32 n) {
    const u32 first = 4 * at;
    return first >= n ? 0 : n - first < 4 ? n - first : 4;
}

FUNC f32x4 quad_load(GLOBAL const float *from, u32 at, u32 count) {
    GLOBAL const float *v = from + 4 * (u64)at;
    if (count == 4) {
        return LOAD4(v);
    }
    return F32X4(count > 0 ? v[0] : 0.0f, count > 1 ? v[1] : 0.0f, count > 2 ? v[2] : 0.0f, 0.0f);
}

FUNC void quad_store(GLOBAL float *to, u32 at, u32 count, f32x4 v) {
    GLOBAL float *y = to + 4 * (u64)at;
    if (count == 4) {
        STORE4(y, v);
        return;
    }
    if (count > 0) {
        y[0] = v.x;
    }
    if (count > 1) {
        y[1] = v.y;
    }
    if (count > 2) {
        y[2] = v.z;
    }
}

/* Return residual + x of a quad; one of the two may be NULL. */
FUNC f32x4 quad_sum(GLOBAL const float *residual, GLOBAL const float *x, u32 at, u32 count) {
    f32x4 v = quad_load(residual != 0 ? residual : x, at, count);
    if (residual != 0 && x != 0) {
        const f32x4 more = quad_load(x, at, count);
        v = F32X4(v.x + more.x, v.y + more.y, v.z + more.z, v.w + more.w);
    }
    return v;
}

FUNC u32 magnitude_of(float v) {
    return BITS_OF(v) & 0x7fffffffU;
}

FUNC u32 larger(u32 a, u32 b) {
    return a > b ? a : b;
}

FUNC u32 largest_of(GLOBAL const float *residual, GLOBAL const float *x, u32 n, int whole) {
    const u32 first = GROUP * GROUP_SIZE * QUADS + LANE;
    u32 max = 0;
#pragma unroll
    for (u32 k = 0; k < QUADS; k++) {
        const u32 at = first + k * GROUP_SIZE;
        const f32x4 v = quad_sum(residual, x, at, whole ? 4 : quad_count(at, n));
        max = larger(max, larger(larger(magnitude_of(v.x), magnitude_of(v.y)),
                                 larger(magnitude_of(v.z), magnitude_of(v.w))));
    }
    return max;
}

/* Store the bits of the largest |residual + x| in *most, which must be 0 at the launch. NaN's bits
 * are above those of infinity. */
KERNEL largest_sum(GLOBAL const float *residual, GLOBAL const float *x, u32 n, GLOBAL u32 *most) {
    LOCAL u32 room[GROUP_SIZE];
    u32 max = group_whole(n) ? largest_of(residual, x, n, 1) : largest_of(residual, x, n, 0);
    max = wg_max(room, max);
    if (LANE == 0) {
        ATOMIC_MAX(most, max);
    }
}
