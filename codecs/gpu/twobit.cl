/* twobit: a work-item makes a byte of four values. Format: docs/codec-formats.md#twobit */
/* SPDX-License-Identifier: Apache-2.0 */

#define TWOBIT_HEAD 4U

/* A byte for each work-item. */
KERNEL twobit_encode(GLOBAL float *residual, GLOBAL const float *x, u32 n, float t, GLOBAL u8 *dst,
                     GLOBAL head *h) {
    u32 at = GROUP * GROUP_SIZE + LANE, first = 4 * at, byte = 0;
    for (u32 k = 0; k < 4; k++) {
        u32 i = first + k;
        if (first < n && i < n) {
            float v = x != 0 ? residual[i] + x[i] : residual[i];
            u32 plus = v >= t, minus = v <= -t;
            residual[i] = v - (float)((i32)plus - (i32)minus) * t;
            byte |= (3 * plus | 2 * minus) << (6 - 2 * k);
            if (!is_finite(v)) {
                fail(h, FED_ENONFINITE);
            }
        }
    }
    if (first < n) {
        dst[TWOBIT_HEAD + at] = (u8)byte;
    }
}

/* One group. */
KERNEL twobit_finish(u32 n, float t, GLOBAL u8 *dst, GLOBAL head *h) {
    if (LANE == 0) {
        store_u32(dst, BITS_OF(t));
        h->len = h->status == 0 ? TWOBIT_HEAD + n / 4 + (n % 4 != 0) : 0;
    }
}

/* Code 01 is none, t is finite and above 0, the padding is 0. */
KERNEL twobit_check(GLOBAL const u8 *src, u32 cap, u32 n, GLOBAL head *h) {
    u32 at = GROUP * GROUP_SIZE + LANE, bytes = n / 4 + (n % 4 != 0);
    if (h->len != TWOBIT_HEAD + bytes || h->len > cap) {
        fail(h, FED_EFORMAT);
        return;
    }
    float t = FLOAT_OF(load_u32(src));
    if (at == 0 && !(t > 0.0f && is_finite(t))) {
        fail(h, FED_EFORMAT);
    }
    if (at < bytes) {
        u32 byte = src[TWOBIT_HEAD + at];
        u32 padding = at + 1 == bytes && n % 4 != 0 ? byte & (0xffU >> 2 * (n % 4)) : 0;
        if ((byte & ~(byte >> 1) & 0x55U) != 0 || padding != 0) {
            fail(h, FED_EFORMAT);
        }
    }
}

KERNEL twobit_read(GLOBAL const u8 *src, u32 n, float w, u32 set, GLOBAL float *y,
                   GLOBAL const head *h) {
    u32 at = GROUP * GROUP_SIZE + LANE;
    if (h->status != 0 || 4 * at >= n) {
        return;
    }
    float t = FLOAT_OF(load_u32(src));
    u32 byte = src[TWOBIT_HEAD + at];
    for (u32 k = 0; k < 4 && 4 * at + k < n; k++) {
        u32 code = byte >> (6 - 2 * k) & 3, i = 4 * at + k;
        float v = code == 3 ? t : code == 2 ? -t : 0.0f;
        if (set != 0) {
            y[i] = code == 0 ? 0.0f : v;
        } else if (code != 0) {
            y[i] += w * v;
        }
    }
}
