/* The common part of float16 and bfloat16. The source of each codec, which comes first, defines
 * narrow, widen and NARROW_INFINITY. NARROW_INFINITY is the first code that is infinite or NaN. */
/* SPDX-License-Identifier: Apache-2.0 */
#define DENSE_HEAD 0U

FUNC void dense_head(u32 n, float p, GLOBAL scales *s, GLOBAL u8 *dst, GLOBAL head *h) {
    h->len = 2 * n;
}

FUNC f32x4 quad_put(GLOBAL u8 *dst, u32 at, u32 count, f32x4 v, scales s) {
    const u32 a = narrow(v.x), b = narrow(v.y), c = narrow(v.z), d = narrow(v.w);
    if (count == 4) {
        GLOBAL u32 *word = (GLOBAL u32 *)dst + 2 * (u64)at;
        word[0] = a | b << 16;
        word[1] = c | d << 16;
    } else {
        GLOBAL u16 *number = (GLOBAL u16 *)dst + 4 * (u64)at;
        number[0] = (u16)a;
        if (count > 1) {
            number[1] = (u16)b;
        }
        if (count > 2) {
            number[2] = (u16)c;
        }
    }
    return F32X4(widen(a), widen(b), widen(c), widen(d));
}

FUNC f32x4 quad_get(GLOBAL const u8 *src, u32 at, u32 count, scales s) {
    GLOBAL const u16 *number = (GLOBAL const u16 *)src + 4 * (u64)at;
    return F32X4(widen(number[0]), count > 1 ? widen(number[1]) : 0.0f,
                 count > 2 ? widen(number[2]) : 0.0f, count > 3 ? widen(number[3]) : 0.0f);
}

FUNC int head_bad(GLOBAL const u8 *src, u32 len, u32 n) {
    return len != 2 * (u64)n;
}

FUNC u32 quad_seen(GLOBAL const u8 *src, u32 at, u32 count) {
    GLOBAL const u16 *number = (GLOBAL const u16 *)src + 4 * (u64)at;
    u32 bad = 0;
    for (u32 k = 0; k < count; k++) {
        bad |= (number[k] & 0x7fffU) >= NARROW_INFINITY;
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
