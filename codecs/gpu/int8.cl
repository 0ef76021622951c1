/* int8: each value as one of 255 multiples of a scale. Format: docs/codec-formats.md#int8 */
/* SPDX-License-Identifier: Apache-2.0 */
#define DENSE_SKIPS 0
#define DENSE_HEAD  4U
#define SCALE_MIN   0x00800000U /* bits of 2^-126 */
#define SCALE_MAX   0x7c010203U /* 127 times this scale is finite */

/* s->two holds the largest magnitude. Divide in binary64 and round to binary32, which gives the
 * correctly rounded quotient. OpenCL's own binary32 division may be less exact. */
FUNC void dense_head(u32 n, float p, GLOBAL scales *s, GLOBAL u8 *dst, GLOBAL head *h) {
    const float max = s->two;
    u32 scale = is_finite(max) ? BITS_OF((float)((double)max / 127.0)) : 0;
    scale = scale < SCALE_MIN ? 0 : scale < SCALE_MAX ? scale : SCALE_MAX;
    s->one = FLOAT_OF(scale);
    s->two = scale > 0 ? (float)(127.0 / (double)max) : 0.0f;
    store_u32(dst, scale);
    h->len = DENSE_HEAD + (scale > 0 ? n : 0);
    if (!is_finite(max)) {
        fail(h, FED_ENONFINITE);
        h->len = 0;
    }
}

/* Return a value's level. Floats near 12582912 = 1.5 * 2^23 are integers, so adding that number
 * rounds, ties to even. */
FUNC float int8_level(float v, float inverse) {
    return (v * inverse + 12582912.0f) - 12582912.0f;
}

FUNC u32 int8_byte(float level) {
    return (u32)(i32)level & 0xffU;
}

FUNC f32x4 quad_put(GLOBAL u8 *dst, u32 at, u32 count, f32x4 v, scales s) {
    const float a = int8_level(v.x, s.two), b = int8_level(v.y, s.two), c = int8_level(v.z, s.two),
                d = int8_level(v.w, s.two);
    GLOBAL u8 *to = dst + DENSE_HEAD + 4 * (u64)at;
    const u32 word = int8_byte(a) | int8_byte(b) << 8 | int8_byte(c) << 16 | int8_byte(d) << 24;
    if (count == 4) {
        *(GLOBAL u32 *)to = word;
    } else {
        for (u32 k = 0; k < count; k++) {
            to[k] = (u8)(word >> 8 * k);
        }
    }
    return F32X4(a * s.one, b * s.one, c * s.one, d * s.one);
}

FUNC u32 int8_load(GLOBAL const u8 *src, u32 at, u32 count) {
    GLOBAL const u8 *from = src + DENSE_HEAD + 4 * (u64)at;
    if (count == 4) {
        return *(GLOBAL const u32 *)from;
    }
    u32 word = 0;
    for (u32 k = 0; k < count; k++) {
        word |= (u32)from[k] << 8 * k;
    }
    return word;
}

FUNC float int8_value(u32 word, u32 k, float scale) {
    return (float)((i32)(word << (24 - 8 * k)) >> 24) * scale;
}

FUNC f32x4 quad_get(GLOBAL const u8 *src, u32 at, u32 count, scales s) {
    const u32 word = int8_load(src, at, count);
    return F32X4(int8_value(word, 0, s.one), int8_value(word, 1, s.one), int8_value(word, 2, s.one),
                 int8_value(word, 3, s.one));
}

FUNC int head_bad(GLOBAL const u8 *src, u32 len, u32 n) {
    if (len < DENSE_HEAD) {
        return 1;
    }
    const u32 scale = load_u32(src);
    return scale == 0
               ? len != DENSE_HEAD
               : scale < SCALE_MIN || scale > SCALE_MAX || n == 0 || len != DENSE_HEAD + (u64)n;
}

/* The level -128 is invalid. A valid message with levels has one that is 127 or -127. */
FUNC u32 quad_seen(GLOBAL const u8 *src, u32 at, u32 count) {
    const u32 word = int8_load(src, at, count);
    u32 seen = 0;
    for (u32 k = 0; k < count; k++) {
        const u32 byte = word >> 8 * k & 0xffU;
        seen |= byte == 0x80U ? QUAD_BAD : byte == 0x7fU || byte == 0x81U ? QUAD_FULL : 0;
    }
    return seen;
}

FUNC scales dense_scales(GLOBAL const u8 *src) {
    scales s = {FLOAT_OF(load_u32(src)), 0.0f};
    return s;
}

FUNC int dense_missing(u32 len, GLOBAL const u32 *seen) {
    return len > DENSE_HEAD && *seen == 0;
}
