/* Pooling: the largest value of each window, or their mean. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Padding is never the largest value, and counts as 0 in a mean. In the backward pass, each input
 * sums the gradients of its windows in order, so no two work-items write to one place. */
typedef struct pool_sizes {
    u32 in_h, in_w, out_h, out_w, kh, kw, stride, pad;
    u32 n; /* number of outputs; in the backward pass, of inputs */
} pool_sizes;

/* A range of rows or columns: begin .. end - 1. */
typedef struct pool_span {
    u32 begin, end;
} pool_span;

FUNC pool_span pool_window(u32 out, u32 k, u32 stride, u32 pad, u32 size) {
    u32 first = out * stride, last = first + k; /* counted from the padding on */
    pool_span found = {first > pad ? first - pad : 0, last - pad < size ? last - pad : size};
    return found;
}

FUNC pool_span pool_readers(u32 at, u32 k, u32 stride, u32 pad, u32 outputs) {
    u32 padded = at + pad, last = padded / stride + 1;
    pool_span found = {padded < k ? 0 : (padded - k) / stride + 1, last < outputs ? last : outputs};
    return found;
}

/* For an output: its plane, and the inputs of its window. For an input: its plane, and the outputs
 * whose windows include it. */
typedef struct pool_place {
    u32 plane;
    pool_span v, h;
} pool_place;

FUNC pool_place pool_output(pool_sizes s, u32 i) {
    u32 row = i / s.out_w;
    pool_place p;
    p.plane = row / s.out_h;
    p.v = pool_window(row % s.out_h, s.kh, s.stride, s.pad, s.in_h);
    p.h = pool_window(i % s.out_w, s.kw, s.stride, s.pad, s.in_w);
    return p;
}

FUNC pool_place pool_input(pool_sizes s, u32 i) {
    u32 row = i / s.in_w;
    pool_place p;
    p.plane = row / s.in_h;
    p.v = pool_readers(row % s.in_h, s.kh, s.stride, s.pad, s.out_h);
    p.h = pool_readers(i % s.in_w, s.kw, s.stride, s.pad, s.out_w);
    return p;
}

/* There is a work-item for each of n outputs. winner: the index of the largest value in its plane;
 * of equal values, the first. */
KERNEL maxpool_forward(pool_sizes s, GLOBAL const float *x, GLOBAL float *y, GLOBAL u32 *winner) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i >= s.n) {
        return;
    }
    pool_place p = pool_output(s, i);
    GLOBAL const float *from = x + p.plane * s.in_h * s.in_w;
    u32 best = p.v.begin * s.in_w + p.h.begin;
    float most = from[best];
    for (u32 r = p.v.begin; r < p.v.end; r++) {
        for (u32 q = p.h.begin; q < p.h.end; q++) {
            float value = from[r * s.in_w + q];
            best = value > most ? r * s.in_w + q : best;
            most = value > most ? value : most;
        }
    }
    y[i] = most;
    winner[i] = best;
}

KERNEL maxpool_backward(pool_sizes s, GLOBAL const u32 *winner, GLOBAL const float *dy,
                        GLOBAL float *dx, u32 adds) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i >= s.n) {
        return;
    }
    pool_place p = pool_input(s, i);
    u32 self = i - p.plane * s.in_h * s.in_w;
    float sum = 0.0f;
    for (u32 r = p.v.begin; r < p.v.end; r++) {
        for (u32 q = p.h.begin; q < p.h.end; q++) {
            u32 o = (p.plane * s.out_h + r) * s.out_w + q;
            sum += winner[o] == self ? dy[o] : 0.0f;
        }
    }
    put(dx + i, adds, sum);
}

KERNEL avgpool_forward(pool_sizes s, GLOBAL const float *x, GLOBAL float *y) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i >= s.n) {
        return;
    }
    pool_place p = pool_output(s, i);
    GLOBAL const float *from = x + p.plane * s.in_h * s.in_w;
    float sum = 0.0f;
    for (u32 r = p.v.begin; r < p.v.end; r++) {
        for (u32 q = p.h.begin; q < p.h.end; q++) {
            sum += from[r * s.in_w + q];
        }
    }
    y[i] = sum / ((float)s.kh * (float)s.kw);
}

KERNEL avgpool_backward(pool_sizes s, GLOBAL const float *dy, GLOBAL float *dx, u32 adds) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i >= s.n) {
        return;
    }
    pool_place p = pool_input(s, i);
    float sum = 0.0f;
    for (u32 r = p.v.begin; r < p.v.end; r++) {
        for (u32 q = p.h.begin; q < p.h.end; q++) {
            sum += dy[(p.plane * s.out_h + r) * s.out_w + q];
        }
    }
    put(dx + i, adds, sum / ((float)s.kh * (float)s.kw));
}
