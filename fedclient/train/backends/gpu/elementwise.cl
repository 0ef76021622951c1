/* Layers that work on each value by itself. */
/* SPDX-License-Identifier: Apache-2.0 */

/* A work-item computes 4 values that lie side by side. */
#define FIRST_OF_4 (4 * (GROUP * GROUP_SIZE + LANE))

#define RELU    0U
#define TANH_OF 1U

/* NaN stays NaN, so that a diverged model is noticed. */
FUNC float squash(u32 kind, float x) {
    return kind == RELU      ? (x < 0.0f ? 0.0f : x)
           : kind == TANH_OF ? TANH(x)
                             : 1.0f / (1.0f + EXP(-x));
}

/* The derivative of squash times dy, computed from the output y. */
FUNC float squash_slope(u32 kind, float y, float dy) {
    return kind == RELU      ? (y > 0.0f ? dy : 0.0f)
           : kind == TANH_OF ? dy * (1.0f - y * y)
                             : dy * y * (1.0f - y);
}

FUNC void put4(GLOBAL float *to, u32 adds, f32x4 v) {
    if (adds != 0) {
        f32x4 old = LOAD4(to);
        v = F32X4(old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w);
    }
    STORE4(to, v);
}

KERNEL squash_forward(u32 kind, GLOBAL const float *x, GLOBAL float *y, u32 n) {
    u32 i = FIRST_OF_4;
    if (i + 4 <= n) {
        f32x4 v = LOAD4(x + i);
        STORE4(y + i,
               F32X4(squash(kind, v.x), squash(kind, v.y), squash(kind, v.z), squash(kind, v.w)));
        return;
    }
    for (; i < n; i++) {
        y[i] = squash(kind, x[i]);
    }
}

KERNEL squash_backward(u32 kind, GLOBAL const float *y, GLOBAL const float *dy, GLOBAL float *dx,
                       u32 adds, u32 n) {
    u32 i = FIRST_OF_4;
    if (i + 4 <= n) {
        f32x4 v = LOAD4(y + i), d = LOAD4(dy + i);
        d = F32X4(squash_slope(kind, v.x, d.x), squash_slope(kind, v.y, d.y),
                  squash_slope(kind, v.z, d.z), squash_slope(kind, v.w, d.w));
        put4(dx + i, adds, d);
        return;
    }
    for (; i < n; i++) {
        put(dx + i, adds, squash_slope(kind, y[i], dy[i]));
    }
}

/* ---- Dropout: the same random numbers as on the processor, from the stream (layer, "drop") of
 * the seed in fed/rng.h ---- */

#define STREAM_DROPOUT 0x64726f70U

typedef struct dropout_draw {
    u32 x0, x1, x2, x3;
} dropout_draw;

/* Philox4x32-10: the block of 4 random numbers with this counter. */
FUNC dropout_draw philox(u64 seed, u32 counter, u32 layer) {
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    u32 x0 = counter, x1 = 0, x2 = layer, x3 = STREAM_DROPOUT;
    for (u32 round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53U * x0, p1 = (u64)0xCD9E8D57U * x2;
        x0 = (u32)(p1 >> 32) ^ x1 ^ k0;
        x2 = (u32)(p0 >> 32) ^ x3 ^ k1;
        x1 = (u32)p1;
        x3 = (u32)p0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    dropout_draw draw = {x0, x1, x2, x3};
    return draw;
}

/* Each half of a random number decides about one value: bit 0 of the result is 1 if the first value
 * stays, bit 1 if the second one does. A value is dropped if its half is below `least`. */
FUNC u32 two_stay(u32 number, u32 least) {
    return ((number & 0xffffU) >= least ? 1U : 0U) | (number >> 16 >= least ? 2U : 0U);
}

/* Bit k of keep[i] is 1 if value 8 i + k stays, in the order [sample, h, w, c]. */
KERNEL dropout_keep(GLOBAL const u64 *seed, u32 layer, u32 least, GLOBAL u8 *keep, u32 n) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        dropout_draw d = philox(*seed, i, layer);
        keep[i] = (u8)(two_stay(d.x0, least) | two_stay(d.x1, least) << 2 |
                       two_stay(d.x2, least) << 4 | two_stay(d.x3, least) << 6);
    }
}

/* Multiply values that stay by `scale`, and others by 0; n values [sample, c, area]. The backward
 * pass does the same with gradients. */
KERNEL dropout_apply(GLOBAL const u8 *keep, float scale, u32 channels, u32 area,
                     GLOBAL const float *x, GLOBAL float *y, u32 adds, u32 n) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        u32 row = i / area, at = i - row * area;
        u32 sample = row / channels, c = row - sample * channels;
        u32 drawn = (sample * area + at) * channels + c;
        float v = (keep[drawn / 8] >> drawn % 8 & 1) != 0 ? x[i] * scale : 0.0f;
        y[i] = (adds != 0 ? y[i] : 0.0f) + v;
    }
}
