/* The kernels of codecs that write the same number of bits for each value. The codec's own source
 * is placed before this file and defines the functions below. A quad is four values.
 *
 *     DENSE_SKIPS                              1: axpy leaves y alone where the value is 0
 *     void dense_head(n, p, scales, dst, h)    encode: write the message's head, set its length
 *     f32x4 quad_put(dst, at, count, v, s)     write count values of quad at; return them decoded
 *     int head_bad(src, len, n)                is the length or the head wrong for n values?
 *     u32 quad_seen(src, at, count)            QUAD_BAD: an invalid code; QUAD_FULL: a top level
 *     f32x4 quad_get(src, at, count, s)        the values; those past count are arbitrary
 *     int dense_missing(len, seen)             is a QUAD_FULL required that no quad had?
 *     scales dense_scales(src)                 the scales for quad_get
 *
 * A top level is the largest one, of either sign: 127 or -127 for int8. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Launched with one work-group. */
KERNEL dense_begin(u32 n, float p, GLOBAL scales *s, GLOBAL u8 *dst, GLOBAL head *h) {
    if (LANE == 0) {
        dense_head(n, p, s, dst, h);
    }
}

FUNC int encode_quads(GLOBAL float *residual, GLOBAL const float *x, u32 n, scales by,
                      GLOBAL u8 *dst, int whole) {
    const u32 first = GROUP * GROUP_SIZE * QUADS + LANE;
    f32x4 v[QUADS];
    int bad = 0;
#pragma unroll
    for (u32 k = 0; k < QUADS; k++) {
        const u32 at = first + k * GROUP_SIZE;
        const f32x4 sum = quad_sum(residual, x, at, whole ? 4 : quad_count(at, n));
        bad |= !is_finite(sum.x) | !is_finite(sum.y) | !is_finite(sum.z) | !is_finite(sum.w);
        v[k] = sum;
    }
#pragma unroll
    for (u32 k = 0; k < QUADS; k++) {
        const u32 at = first + k * GROUP_SIZE, count = whole ? 4 : quad_count(at, n);
        if (count > 0) {
            const f32x4 sent = quad_put(dst, at, count, v[k], by);
            if (residual != 0) {
                quad_store(
                    residual, at, count,
                    F32X4(v[k].x - sent.x, v[k].y - sent.y, v[k].z - sent.z, v[k].w - sent.w));
            }
        }
    }
    return bad;
}

KERNEL dense_encode(GLOBAL float *residual, GLOBAL const float *x, u32 n, GLOBAL const scales *s,
                    GLOBAL u8 *dst, GLOBAL head *h) {
    const int bad = group_whole(n) ? encode_quads(residual, x, n, *s, dst, 1)
                                   : encode_quads(residual, x, n, *s, dst, 0);
    if (bad) {
        fail(h, FED_ENONFINITE);
        h->len = 0;
    }
}

/* Check a message. int8 demands a level of 127 or -127: *seen, 0 at the launch, becomes 1 if a quad
 * has one (QUAD_FULL). */
KERNEL dense_check(GLOBAL const u8 *src, u32 cap, u32 n, GLOBAL u32 *seen, GLOBAL head *h) {
    const u32 first = GROUP * GROUP_SIZE * QUADS + LANE, len = h->len;
    if (len > cap || head_bad(src, len, n)) {
        fail(h, FED_EFORMAT);
        return;
    }
    u32 found = 0;
    for (u32 k = 0; k < QUADS; k++) {
        const u32 at = first + k * GROUP_SIZE, count = quad_count(at, n);
        found |= count > 0 && len > DENSE_HEAD ? quad_seen(src, at, count) : 0;
    }
    if ((found & QUAD_BAD) != 0) {
        fail(h, FED_EFORMAT);
    }
    if ((found & QUAD_FULL) != 0) {
        *seen = 1;
    }
}

/* Return y + w * v. Where the codec sent nothing, adding -0 keeps the sign of a zero in y. */
FUNC float dense_sum(float y, float w, float v) {
    return y + (DENSE_SKIPS && v == 0.0f ? -0.0f : w * v);
}

KERNEL dense_read(GLOBAL const u8 *src, u32 n, float w, u32 set, GLOBAL const u32 *seen,
                  GLOBAL float *y, GLOBAL head *h) {
    const u32 first = GROUP * GROUP_SIZE * QUADS + LANE, len = h->len;
    if (dense_missing(len, seen)) {
        fail(h, FED_EFORMAT); /* all work-items return here, so none reads the new status */
        return;
    }
    if (h->status != 0) {
        return;
    }
    const scales by = dense_scales(src);
    for (u32 k = 0; k < QUADS; k++) {
        const u32 at = first + k * GROUP_SIZE, count = quad_count(at, n);
        if (count > 0 && (set != 0 || len > DENSE_HEAD)) {
            f32x4 v = F32X4(0.0f, 0.0f, 0.0f, 0.0f);
            if (len > DENSE_HEAD) {
                v = quad_get(src, at, count, by);
            }
            if (set == 0) {
                const f32x4 old = quad_load(y, at, count);
                v = F32X4(dense_sum(old.x, w, v.x), dense_sum(old.y, w, v.y),
                          dense_sum(old.z, w, v.z), dense_sum(old.w, w, v.w));
            }
            quad_store(y, at, count, v);
        }
    }
}
