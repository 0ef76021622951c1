/* Dense layers, forward and backward. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"
#include "fedclient/train/kernels/tile.h"

/*
 * With few samples, loading the weights from memory takes most of the time. So a few rows are
 * multiplied with a few samples at once, and each weight is loaded once for all of these samples.
 *
 * If the inputs are no whole number of vectors, the last vector overlaps the one before, and lanes
 * in both count once. With less than one vector of inputs, values are computed one by one.
 */
enum { SAMPLES = FED_SMALL ? 1 : 2, SUMS = WIDE ? 16 : 8, ROWS = SUMS / 2 };
enum { SQUARE = 4 }; /* rows and samples of a square tile, which needs the fewest loads */

/* Not inlined: its shuffle masks would take registers from the loops that sum. */
static __attribute__((noinline)) vec sums_of(vec v[LANES]) {
    return vec_sums(v);
}

/* y[s, r] = bias[r] + dot product of w[r, :] and x[s, :]. */
KERNEL_INLINE void forward_tile(const fedtrain_dense *d, const float *w, const float *bias,
                                const float *x, float *y, const size_t rows, const size_t samples) {
    vec sum[SUMS] = {0};
    size_t i = 0;
    for (; i + LANES <= d->in; i += LANES) {
        KERNEL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            vec weight = vec_apart(vec_load(w + r * d->in + i));
            KERNEL_UNROLL
            for (size_t s = 0; s < samples; s++) {
                sum[s * rows + r] += weight * vec_load(x + s * d->in + i);
            }
        }
    }
    if (i < d->in) {
        const ivec fresh = lanes_from(LANES - (d->in - i));
        const size_t last = d->in - LANES;
        KERNEL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            vec weight = vec_select(fresh, vec_load(w + r * d->in + last), (vec){0});
            KERNEL_UNROLL
            for (size_t s = 0; s < samples; s++) {
                sum[s * rows + r] += weight * vec_load(x + s * d->in + last);
            }
        }
    }
    float total[SUMS];
    KERNEL_UNROLL
    for (size_t k = 0; k < rows * samples; k += LANES) {
        vec_store(total + k, sums_of(sum + k));
    }
    for (size_t s = 0; s < samples; s++) {
        for (size_t r = 0; r < rows; r++) {
            y[s * d->out + r] = total[s * rows + r] + bias[r];
        }
    }
}

KERNEL_INLINE void forward_rows(const fedtrain_dense *d, const float *w, const float *bias,
                                const float *x, float *y, const size_t rows, const size_t most) {
    size_t b = 0;
    for (; b + most <= d->batch; b += most) {
        forward_tile(d, w, bias, x + b * d->in, y + b * d->out, rows, most);
    }
    for (; most > 2 && b + 2 <= d->batch; b += 2) {
        forward_tile(d, w, bias, x + b * d->in, y + b * d->out, rows, 2);
    }
    for (; most > 1 && b < d->batch; b++) {
        forward_tile(d, w, bias, x + b * d->in, y + b * d->out, rows, 1);
    }
}

static void forward_one_by_one(const fedtrain_dense *d, const float *w, const float *bias,
                               const float *x, float *y) {
    for (size_t b = 0; b < d->batch; b++) {
        for (size_t r = 0; r < d->rows; r++) {
            float sum = bias[r];
            for (size_t i = 0; i < d->in; i++) {
                sum += w[r * d->in + i] * x[b * d->in + i];
            }
            y[b * d->out + r] = sum;
        }
    }
}

void KERNEL(dense)(const fedtrain_dense *d, const float *w, const float *bias, const float *x,
                   float *y) {
    if (d->in < LANES) {
        forward_one_by_one(d, w, bias, x, y);
        return;
    }
    size_t o = 0;
    for (; WIDE && d->batch >= SQUARE && o + SQUARE <= d->rows; o += SQUARE) {
        forward_rows(d, w + o * d->in, bias + o, x, y + o, SQUARE, SQUARE);
    }
    for (; o + ROWS <= d->rows; o += ROWS) {
        forward_rows(d, w + o * d->in, bias + o, x, y + o, ROWS, SAMPLES);
    }
    for (; o < d->rows; o++) {
        forward_rows(d, w + o * d->in, bias + o, x, y + o, 1, SAMPLES);
    }
}

/* Forward, many samples: a vector holds one input of several samples. */

/* Rows computed at once, to load the inputs from the second-level cache less often. */
enum { MANY_ROWS = WIDE ? 10 : HEIGHT_2 };

/* y[s, r] = bias[r] + sum_i w[r, i] xt[i, s] for `samples` samples, at most the vectors' lanes. */
KERNEL_INLINE void many_tile(const fedtrain_dense *d, const float *w, const float *bias,
                             const float *xt, float *y, size_t samples, const size_t rows,
                             const size_t vectors) {
    tile sum;
    KERNEL_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = bias[r] - (vec){0};
        }
    }
    const operand weights = {w, d->in, 1}, inputs = {xt, 0, d->batch};
    tile_add(sum, weights, inputs, d->in, rows, vectors);
    float outputs[MAX_HEIGHT * MAX_VECTORS * LANES];
    tile_store(sum, outputs, vectors * LANES, rows, vectors);
    for (size_t s = 0; s < samples; s++) {
        for (size_t r = 0; r < rows; r++) {
            y[s * d->out + r] = outputs[r * vectors * LANES + s];
        }
    }
}

KERNEL_INLINE void many_rows(const fedtrain_dense *d, const float *w, const float *bias,
                             const float *xt, float *y, size_t samples, const size_t rows,
                             const size_t vectors) {
    size_t o = 0;
    for (; o + rows <= d->rows; o += rows) {
        many_tile(d, w + o * d->in, bias + o, xt, y + o, samples, rows, vectors);
    }
    for (; o + 2 <= d->rows; o += 2) {
        many_tile(d, w + o * d->in, bias + o, xt, y + o, samples, 2, vectors);
    }
    for (; o < d->rows; o++) {
        many_tile(d, w + o * d->in, bias + o, xt, y + o, samples, 1, vectors);
    }
}

void KERNEL(dense_many)(const fedtrain_dense *d, const float *w, const float *bias, const float *xt,
                        float *y) {
    for (size_t b = 0; b < d->batch; b += 2 * LANES) {
        size_t samples = kernel_smaller(d->batch - b, 2 * LANES);
        if (samples > LANES) {
            many_rows(d, w, bias, xt + b, y + b * d->out, samples, MANY_ROWS, 2);
        } else {
            many_rows(d, w, bias, xt + b, y + b * d->out, samples, HEIGHT_1, 1);
        }
    }
}

/* Gradients of few samples: the outputs' gradients stay in registers. */

enum { FEW = 4, FACTORS = WIDE ? 16 : 8 };

/* Pointers to the same column in some rows of the four arrays. dx may be NULL. */
typedef struct cursor {
    const float *w, *x;
    float *dx, *dw;
} cursor;

KERNEL_INLINE cursor cursor_right(cursor c, size_t columns) {
    c.w += columns;
    c.x += columns;
    c.dw += columns;
    c.dx = c.dx != NULL ? c.dx + columns : NULL;
    return c;
}

/* Move to the next vector. kernel_apart hides from the compiler how far that is. Otherwise the
 * compiler would keep an address for each row, for which there are not enough registers. */
KERNEL_INLINE cursor cursor_next(cursor c) {
    c = cursor_right(c, LANES);
    if (WIDE) {
        c.w = kernel_apart(c.w);
        c.x = kernel_apart(c.x);
        c.dw = kernel_apart_to(c.dw);
        c.dx = c.dx != NULL ? kernel_apart_to(c.dx) : NULL;
    }
    return c;
}

/* For one vector of some rows: dx[s] += sum_r dy[r, s] w[r], unless dx is NULL, and dw[r] = sum_s
 * dy[r, s] x[s]. With `step`, dw is the weights, and takes a step of `rate` down that gradient,
 * rounded as in step.c. `fresh`: the lanes to change; NULL: all lanes. */
KERNEL_INLINE void few_vector(const cursor c, const size_t in, const vec *dy, const float rate,
                              const bool step, const ivec *fresh, const size_t rows,
                              const size_t samples) {
    vec input[FEW], sum[FEW];
    KERNEL_UNROLL
    for (size_t s = 0; s < samples; s++) {
        input[s] = vec_load(c.x + s * in);
        sum[s] = c.dx != NULL ? vec_load(c.dx + s * in) : (vec){0};
    }
    KERNEL_UNROLL
    for (size_t r = 0; r < rows; r++) {
        const vec *by = dy + r * samples;
        const vec weight = vec_apart(vec_load((step ? c.dw : c.w) + r * in));
        vec grad = vec_apart(by[0] * input[0]);
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            sum[s] += by[s] * weight;
            grad = s > 0 ? grad + by[s] * input[s] : grad;
        }
        const vec after = step ? weight - vec_apart(rate * grad) : grad;
        const bool all = !step || fresh == NULL;
        vec_store(c.dw + r * in, all ? after : vec_select(*fresh, after, weight));
    }
    if (c.dx == NULL) {
        return;
    }
    KERNEL_UNROLL
    for (size_t s = 0; s < samples; s++) {
        float *to = c.dx + s * in;
        vec_store(to, fresh != NULL ? vec_select(*fresh, sum[s], vec_load(to)) : sum[s]);
    }
}

KERNEL_INLINE void few_rows(const fedtrain_dense *d, cursor c, const float *dy, const float rate,
                            const bool step, const size_t rows, const size_t samples) {
    const size_t in = d->in; /* stores to dw can't change a copy, which stays in a register */
    vec grads[FACTORS];
    KERNEL_UNROLL
    for (size_t k = 0; k < rows * samples; k++) {
        grads[k] = dy[k % samples * d->out + k / samples] - (vec){0};
    }
    const cursor last = cursor_right(c, in - LANES);
    size_t i = 0;
    for (; i + LANES <= in; i += LANES, c = cursor_next(c)) {
        few_vector(c, in, grads, rate, step, NULL, rows, samples);
    }
    if (i < in) {
        const ivec fresh = lanes_from(i - (in - LANES));
        few_vector(last, in, grads, rate, step, &fresh, rows, samples);
    }
}

/* Compute blocks of rows, from the last one on. Returns how many rows are left. */
KERNEL_INLINE size_t few_blocks(const fedtrain_dense *d, const cursor c, const float *dy,
                                const float rate, const bool step, const size_t samples) {
    const size_t rows = kernel_smaller(FACTORS / samples, samples > 1 ? 8 : 4);
    size_t end = d->rows;
    for (; end >= rows; end -= rows) {
        const size_t r = end - rows, at = r * d->in;
        if (c.dx != NULL) {
            few_rows(d, (cursor){c.w + at, c.x, c.dx, c.dw + at}, dy + r, rate, step, rows,
                     samples);
        } else {
            few_rows(d, (cursor){c.w + at, c.x, NULL, c.dw + at}, dy + r, rate, step, rows,
                     samples);
        }
    }
    return end;
}

KERNEL_INLINE size_t grad_few(const fedtrain_dense *d, const cursor c, const float *dy,
                              const float rate, const bool step) {
    switch (d->batch) {
    case 1:
        return few_blocks(d, c, dy, rate, step, 1);
    case 2:
        return few_blocks(d, c, dy, rate, step, 2);
    case 3:
        return few_blocks(d, c, dy, rate, step, 3);
    case FEW:
        return few_blocks(d, c, dy, rate, step, FEW);
    default:
        return d->rows;
    }
}

/* A block's rows, and the vectors in the width of its tiles. The rows are many, so that the
 * inputs' gradient is seldom loaded and stored. */
enum { DEEP = 64, ACROSS = WIDE ? 3 : 2 };

/* dx[s, :] += sum_r dy[s, r] w[r, :], for `vectors` vectors, without their first `done` lanes. */
KERNEL_INLINE void input_grad_tile(const fedtrain_dense *d, const float *w, const float *dy,
                                   float *dx, size_t done, const size_t rows, const size_t samples,
                                   const size_t vectors) {
    tile sum;
    const operand grads = {dy, d->out, 1}, weights = {w, 0, d->in};
    tile_load(sum, dx, d->in, samples, vectors);
    tile_add(sum, grads, weights, rows, samples, vectors);
    if (done > 0) {
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            sum[s][0] = vec_select(lanes_from(done), sum[s][0], vec_load(dx + s * d->in));
        }
    }
    tile_store(sum, dx, d->in, samples, vectors);
}

KERNEL_INLINE void input_grad_samples(const fedtrain_dense *d, const float *w, const float *dy,
                                      float *dx, size_t done, const size_t rows, const size_t most,
                                      const size_t vectors) {
    size_t b = 0;
    for (; b + most <= d->batch; b += most) {
        input_grad_tile(d, w, dy + b * d->out, dx + b * d->in, done, rows, most, vectors);
    }
    for (; !FED_SMALL && most > 2 && b + 2 <= d->batch; b += 2) {
        input_grad_tile(d, w, dy + b * d->out, dx + b * d->in, done, rows, 2, vectors);
    }
    for (; b < d->batch; b++) {
        input_grad_tile(d, w, dy + b * d->out, dx + b * d->in, done, rows, 1, vectors);
    }
}

/* dw[r, :] = sum_b dy[b, r] x[b, :]; with a rate > 0 a step down that gradient instead. The first
 * `done` lanes are left out. */
KERNEL_INLINE void weight_grad_tile(const fedtrain_dense *d, const float *x, const float *dy,
                                    float *dw, float rate, size_t done, const size_t rows,
                                    const size_t vectors) {
    tile sum = {0};
    const operand grads = {dy, 1, d->out}, inputs = {x, 0, d->in};
    const size_t row = d->in; /* stores to dw can't change a copy, which stays in a register */
    tile_add(sum, grads, inputs, d->batch, rows, vectors);
    if (FED_SMALL || !(rate > 0)) {
        tile_store(sum, dw, row, rows, vectors);
        return;
    }
    KERNEL_UNROLL
    for (size_t r = 0; r < rows; r++, dw = kernel_apart_to(dw + row)) {
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            float *at = dw + v * LANES;
            const vec before = vec_load(at), after = before - vec_apart(rate * sum[r][v]);
            vec_store(at, v > 0 || done == 0 ? after : vec_select(lanes_from(done), after, before));
        }
    }
}

KERNEL_INLINE void weight_grad_rows(const fedtrain_dense *d, const float *x, const float *dy,
                                    float *dw, float rate, size_t done, const size_t vectors) {
    size_t r = 0;
    for (; r + HEIGHT_2 <= d->rows; r += HEIGHT_2) {
        weight_grad_tile(d, x, dy + r, dw + r * d->in, rate, done, HEIGHT_2, vectors);
    }
    for (; WIDE && r + HEIGHT_2 / 2 <= d->rows; r += HEIGHT_2 / 2) {
        weight_grad_tile(d, x, dy + r, dw + r * d->in, rate, done, HEIGHT_2 / 2, vectors);
    }
    for (; r < d->rows; r++) {
        weight_grad_tile(d, x, dy + r, dw + r * d->in, rate, done, 1, vectors);
    }
}

/* Not inlined: in one function the compiler would have too few registers for the tiles. */
#define APART static __attribute__((noinline)) void

APART input_grad_across(const fedtrain_dense *d, const float *w, const float *dy, float *dx) {
    input_grad_samples(d, w, dy, dx, 0, d->rows, HEIGHT_2, ACROSS);
}

APART input_grad_one(const fedtrain_dense *d, const float *w, const float *dy, float *dx,
                     size_t done) {
    input_grad_samples(d, w, dy, dx, done, d->rows, HEIGHT_2, 1);
}

APART weight_grad_across(const fedtrain_dense *d, const float *x, const float *dy, float *dw,
                         float rate) {
    weight_grad_rows(d, x, dy, dw, rate, 0, ACROSS);
}

APART weight_grad_one(const fedtrain_dense *d, const float *x, const float *dy, float *dw,
                      float rate, size_t done) {
    weight_grad_rows(d, x, dy, dw, rate, done, 1);
}

/* For a block of rows, do all work with some columns while these are in the first-level cache. */
static void grad_rows(const fedtrain_dense *d, const float *w, const float *x, const float *dy,
                      float *dx, float *dw, float rate) {
    size_t i = 0;
    for (; i + ACROSS * LANES <= d->in; i += ACROSS * LANES) {
        if (dx != NULL) {
            input_grad_across(d, w + i, dy, dx + i);
        }
        weight_grad_across(d, x + i, dy, dw + i, rate);
    }
    for (; i < d->in; i += LANES) {
        const size_t from = kernel_smaller(i, d->in - LANES);
        if (dx != NULL) {
            input_grad_one(d, w + from, dy, dx + from, i - from);
        }
        weight_grad_one(d, x + from, dy, dw + from, rate, i - from);
    }
}

static void grad_one_by_one(const fedtrain_dense *d, const float *w, const float *x,
                            const float *dy, float *dx, float *dw) {
    for (size_t r = 0; r < d->rows; r++) {
        for (size_t i = 0; i < d->in; i++) {
            float sum = 0;
            for (size_t b = 0; b < d->batch; b++) {
                const float grad = dy[b * d->out + r];
                sum += grad * x[b * d->in + i];
                if (dx != NULL) {
                    dx[b * d->in + i] += grad * w[r * d->in + i];
                }
            }
            dw[r * d->in + i] = sum;
        }
    }
}

/* Begin with the last rows, which the forward pass left in cache. The first rows are then in cache
 * for the next forward pass. */
void KERNEL(dense_grad)(const fedtrain_dense *d, const float *w, const float *x, const float *dy,
                        float *dx, float *dw, float rate) {
    if (d->in < LANES) {
        grad_one_by_one(d, w, x, dy, dx, dw);
        return;
    }
    const cursor all = {w, x, dx, dw};
    size_t end = FED_SMALL  ? d->rows
                 : rate > 0 ? grad_few(d, all, dy, rate, true)
                            : grad_few(d, all, dy, 0, false);
    fedtrain_dense part = *d;
    for (; end > 0; end -= part.rows) {
        part.rows = kernel_smaller(DEEP, end);
        const size_t r = end - part.rows;
        grad_rows(&part, w + r * d->in, x, dy + r, dx, dw + r * d->in, rate);
    }
}
