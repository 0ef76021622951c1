/* trunc: drop the low bits of each value. Eight values of w bits make w bytes. The kernels have the
 * names and arguments of dense.cl's kernels. Format: docs/codec-formats.md#trunc */
/* SPDX-License-Identifier: Apache-2.0 */

#define HEAD   1U
#define EIGHTS 2U /* how many groups of eight values a work-item handles */

FUNC u64 trunc_len(u32 n, u32 width) {
    return HEAD + ((u64)n * width + 7) / 8;
}

FUNC u32 eight_count(u32 at, u32 n) {
    const u64 first = 8 * (u64)at;
    return first >= n ? 0 : n - first < 8 ? (u32)(n - first) : 8;
}

/* Launched with one work-group. */
KERNEL dense_begin(u32 n, float p, GLOBAL float *scale, GLOBAL u8 *dst, GLOBAL head *h) {
    if (LANE == 0) {
        scale[0] = p;
        dst[0] = (u8)p;
        h->len = (u32)trunc_len(n, 32 - (u32)p);
    }
}

FUNC void put_eight(GLOBAL u8 *to, GLOBAL const float *x, u32 count, u32 b) {
    u64 bits = 0;
    u32 waiting = 0;
    for (u32 k = 0; k < count; k++) {
        bits = bits << (32 - b) | BITS_OF(x[k]) >> b;
        for (waiting += 32 - b; waiting >= 8; to++) {
            waiting -= 8;
            *to = (u8)(bits >> waiting);
        }
    }
    if (waiting > 0) {
        *to = (u8)(bits << (8 - waiting));
    }
}

KERNEL dense_encode(GLOBAL float *residual, GLOBAL const float *x, u32 n, GLOBAL const float *scale,
                    GLOBAL u8 *dst, GLOBAL head *h) {
    const u32 b = (u32)scale[0];
    int bad = 0;
    for (u32 k = 0; k < EIGHTS; k++) {
        const u32 at = (GROUP * EIGHTS + k) * GROUP_SIZE + LANE, count = eight_count(at, n);
        if (count > 0) {
            GLOBAL const float *v = x + 8 * (u64)at;
            for (u32 i = 0; i < count; i++) {
                bad |= !is_finite(v[i]);
            }
            put_eight(dst + HEAD + (u64)at * (32 - b), v, count, b);
        }
    }
    if (bad) {
        fail(h, FED_ENONFINITE);
        h->len = 0;
    }
}

typedef struct bit_reader {
    GLOBAL const u8 *at;
    u64 bits;
    u32 waiting;
} bit_reader;

FUNC bit_reader bits_at(GLOBAL const u8 *src, u32 eight, u32 width) {
    bit_reader r;
    r.at = src + HEAD + (u64)eight * width;
    r.bits = 0;
    r.waiting = 0;
    return r;
}

#define NEXT_VALUE(r, b, v)                                                                        \
    for (; (r).waiting < 32 - (b); (r).waiting += 8) {                                             \
        (r).bits = (r).bits << 8 | *(r).at++;                                                      \
    }                                                                                              \
    (r).waiting -= 32 - (b);                                                                       \
    (v) = FLOAT_OF((u32)((r).bits >> (r).waiting) << (b))

KERNEL dense_check(GLOBAL const u8 *src, u32 cap, u32 n, GLOBAL u32 *seen, GLOBAL head *h) {
    const u32 len = h->len;
    if (len < HEAD || len > cap || src[0] < 1 || src[0] > 31 || len != trunc_len(n, 32U - src[0])) {
        fail(h, FED_EFORMAT);
        return;
    }
    const u32 b = src[0];
    int bad = 0;
    for (u32 k = 0; k < EIGHTS; k++) {
        const u32 at = (GROUP * EIGHTS + k) * GROUP_SIZE + LANE, count = eight_count(at, n);
        bit_reader r = bits_at(src, at, 32 - b);
        for (u32 i = 0; i < count; i++) {
            float v;
            NEXT_VALUE(r, b, v);
            bad |= !is_finite(v);
        }
        bad |= count > 0 && (r.bits & ((1U << r.waiting) - 1)) != 0;
    }
    if (bad) {
        fail(h, FED_EFORMAT);
    }
}

KERNEL dense_read(GLOBAL const u8 *src, u32 n, float w, u32 set, GLOBAL const u32 *seen,
                  GLOBAL float *y, GLOBAL head *h) {
    if (h->status != 0) {
        return;
    }
    const u32 b = src[0];
    for (u32 k = 0; k < EIGHTS; k++) {
        const u32 at = (GROUP * EIGHTS + k) * GROUP_SIZE + LANE, count = eight_count(at, n);
        GLOBAL float *to = y + 8 * (u64)at;
        bit_reader r = bits_at(src, at, 32 - b);
        for (u32 i = 0; i < count; i++) {
            float v;
            NEXT_VALUE(r, b, v);
            to[i] = set != 0 ? v : to[i] + w * v;
        }
    }
}
