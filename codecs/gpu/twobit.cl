/* twobit: a quad of four values is a byte. Format: docs/codec-formats.md#twobit */
/* SPDX-License-Identifier: Apache-2.0 */
#define DENSE_SKIPS 1
#define DENSE_HEAD  4U

FUNC void dense_head(u32 n, float p, GLOBAL scales *s, GLOBAL u8 *dst, GLOBAL head *h) {
    s->one = p;
    store_u32(dst, BITS_OF(p));
    h->len = DENSE_HEAD + n / 4 + (n % 4 != 0);
}

/* Return the code of a value: 3 if v >= t, 2 if v <= -t, else 0. */
FUNC u32 twobit_code(float v, float t) {
    return (0U - (u32)(v >= t) & 3U) | (u32)(v <= -t) << 1;
}

/* Return t, -t or 0. Bit 1 of a code is set if the value is not 0, bit 0 if it is positive. */
FUNC float twobit_value(u32 code, float t) {
    return FLOAT_OF((BITS_OF(t) | (~code & 1U) << 31) & (0U - (code >> 1)));
}

FUNC f32x4 quad_put(GLOBAL u8 *dst, u32 at, u32 count, f32x4 v, scales s) {
    const u32 a = twobit_code(v.x, s.one), b = twobit_code(v.y, s.one), c = twobit_code(v.z, s.one),
              d = twobit_code(v.w, s.one);
    dst[DENSE_HEAD + at] = (u8)(a << 6 | b << 4 | c << 2 | d);
    return F32X4(twobit_value(a, s.one), twobit_value(b, s.one), twobit_value(c, s.one),
                 twobit_value(d, s.one));
}

FUNC f32x4 quad_get(GLOBAL const u8 *src, u32 at, u32 count, scales s) {
    const u32 byte = src[DENSE_HEAD + at];
    return F32X4(twobit_value(byte >> 6, s.one), twobit_value(byte >> 4 & 3, s.one),
                 twobit_value(byte >> 2 & 3, s.one), twobit_value(byte & 3, s.one));
}

FUNC int head_bad(GLOBAL const u8 *src, u32 len, u32 n) {
    if (len != DENSE_HEAD + n / 4 + (n % 4 != 0)) {
        return 1;
    }
    const float t = FLOAT_OF(load_u32(src));
    return !(t > 0.0f && is_finite(t));
}

/* The code 01 is invalid, and the padding must be 0. */
FUNC u32 quad_seen(GLOBAL const u8 *src, u32 at, u32 count) {
    const u32 byte = src[DENSE_HEAD + at], padding = byte & 0xffU >> 2 * count;
    return (byte & ~(byte >> 1) & 0x55U) != 0 || padding != 0 ? QUAD_BAD : 0;
}

FUNC int dense_missing(u32 len, GLOBAL const u32 *seen) {
    return 0;
}

FUNC scales dense_scales(GLOBAL const u8 *src) {
    scales s = {FLOAT_OF(load_u32(src)), 0.0f};
    return s;
}
