/* float32: the values themselves. Format: docs/codec-formats.md#float32 */
/* SPDX-License-Identifier: Apache-2.0 */
#define DENSE_SKIPS 0
#define DENSE_HEAD  0U

FUNC void dense_head(u32 n, float p, GLOBAL scales *s, GLOBAL u8 *dst, GLOBAL head *h) {
    h->len = 4 * n;
}

FUNC f32x4 quad_put(GLOBAL u8 *dst, u32 at, u32 count, f32x4 v, scales s) {
    GLOBAL float *to = (GLOBAL float *)dst + 4 * (u64)at;
    if (count == 4) {
        STORE4(to, v);
        return v;
    }
    to[0] = v.x;
    if (count > 1) {
        to[1] = v.y;
    }
    if (count > 2) {
        to[2] = v.z;
    }
    return v;
}

FUNC f32x4 quad_get(GLOBAL const u8 *src, u32 at, u32 count, scales s) {
    GLOBAL const float *v = (GLOBAL const float *)src + 4 * (u64)at;
    return F32X4(v[0], count > 1 ? v[1] : 0.0f, count > 2 ? v[2] : 0.0f, count > 3 ? v[3] : 0.0f);
}

FUNC int head_bad(GLOBAL const u8 *src, u32 len, u32 n) {
    return len != 4 * (u64)n;
}

FUNC u32 quad_seen(GLOBAL const u8 *src, u32 at, u32 count) {
    GLOBAL const float *v = (GLOBAL const float *)src + 4 * (u64)at;
    u32 bad = 0;
    for (u32 k = 0; k < count; k++) {
        bad |= !is_finite(v[k]);
    }
    return bad != 0 ? QUAD_BAD : 0;
}

FUNC int dense_missing(u32 len, GLOBAL const u32 *seen) {
    return 0;
}

FUNC scales dense_scales(GLOBAL const u8 *src) {
    scales s = {0.0f, 0.0f};
    return s;
}
