/* Dense layers. A weight's row is contiguous along its inputs, so everything streams that way. */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"
#include "fedclient/train/kernels/tile.h"

/*
 * With few samples the weights' way through memory is what takes time. So a few rows meet a few
 * samples at once: each weight is then loaded once for all of them.
 *
 * Where the inputs are no whole vectors, the last one overlaps the one before, and the lanes that
 * both have count once. With less than one vector of inputs, all is done one by one.
 */
enum { ROWS = WIDE ? 8 : 4, SAMPLES = FED_SMALL ? 1 : 2, SUMS = 2 * ROWS };

enum { FEW = 4 }; /* so many samples at most are too few for tiles on the way back */

/* Rows are too short for the processor to see where they lead, so the next ones are fetched early.
 */
enum { AHEAD = 2 * ROWS };

/* ---- Forward ---- */

/* y[s, r] = bias[r] + w[r, :] . x[s, :] for `rows` rows and `samples` samples. */
KERNEL_INLINE void forward_tile(const fedtrain_dense *d, const float *w, const float *bias,
                                const float *x, float *y, const size_t rows, const size_t samples) {
    vec sum[SUMS] = {0};
    size_t i = 0;
    for (; i + LANES <= d->in; i += LANES) {
        KERNEL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            vec weight = vec_load(w + r * d->in + i);
            vec_prefetch(w + r * d->in + i, AHEAD * d->in);
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
        vec_store(total + k, vec_sums(sum + k));
    }
    for (size_t s = 0; s < samples; s++) {
        for (size_t r = 0; r < rows; r++) {
            y[s * d->out + r] = total[s * rows + r] + bias[r];
        }
    }
}

/* All samples, for a block of rows. */
KERNEL_INLINE void forward_rows(const fedtrain_dense *d, const float *w, const float *bias,
                                const float *x, float *y, const size_t rows) {
    size_t b = 0;
    for (; b + SAMPLES <= d->batch; b += SAMPLES) {
        forward_tile(d, w, bias, x + b * d->in, y + b * d->out, rows, SAMPLES);
    }
    for (; SAMPLES > 1 && b < d->batch; b++) {
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
    for (; o + ROWS <= d->rows; o += ROWS) {
        forward_rows(d, w + o * d->in, bias + o, x, y + o, ROWS);
    }
    for (; o < d->rows; o++) {
        forward_rows(d, w + o * d->in, bias + o, x, y + o, 1);
    }
}

/* ---- Forward, many samples: a vector holds one input of several ---- */

/* y[s, r] = bias[r] + sum_i w[r, i] xt[i, s] for `samples` samples, at most what the vectors hold.
 */
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
            many_rows(d, w, bias, xt + b, y + b * d->out, samples, HEIGHT_2, 2);
        } else {
            many_rows(d, w, bias, xt + b, y + b * d->out, samples, HEIGHT_1, 1);
        }
    }
}

/* ---- The inputs' gradient ---- */

/* dx[s, :] += sum_r dy[s, r] w[r, :], `vectors` vectors of them; not the first `done` lanes. */
KERNEL_INLINE void input_grad_tile(const fedtrain_dense *d, const float *w, const float *dy,
                                   float *dx, size_t done, const size_t samples,
                                   const size_t vectors) {
    tile sum;
    const operand grads = {dy, d->out, 1}, weights = {w, 0, d->in};
    tile_load(sum, dx, d->in, samples, vectors);
    tile_add(sum, grads, weights, d->rows, samples, vectors);
    if (done > 0) {
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            sum[s][0] = vec_select(lanes_from(done), sum[s][0], vec_load(dx + s * d->in));
        }
    }
    tile_store(sum, dx, d->in, samples, vectors);
}

KERNEL_INLINE void input_grad_samples(const fedtrain_dense *d, const float *w, const float *dy,
                                      float *dx, const size_t samples) {
    size_t i = 0;
    for (; i + 2 * LANES <= d->in; i += 2 * LANES) {
        input_grad_tile(d, w + i, dy, dx + i, 0, samples, 2);
    }
    for (; i < d->in; i += LANES) {
        size_t from = kernel_smaller(i, d->in - LANES);
        input_grad_tile(d, w + from, dy, dx + from, i - from, samples, 1);
    }
}

/* sum[s] = sum_r grad[r, s] w[r, :], a vector of them. */
KERNEL_INLINE void tile_few(const fedtrain_dense *d, const float *w, vec grad[ROWS][SAMPLES],
                            vec *sum, const size_t samples) {
    KERNEL_UNROLL
    for (size_t r = 0; r < ROWS; r++) {
        vec weight = vec_load(w + r * d->in);
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            sum[s] = r == 0 ? grad[r][s] * weight : sum[s] + grad[r][s] * weight;
        }
    }
}

/* The same for ROWS rows and few samples, whose gradients stay in registers all along the rows. */
KERNEL_INLINE void input_grad_few(const fedtrain_dense *d, const float *w, const float *dy,
                                  float *dx, const size_t samples) {
    vec grad[ROWS][SAMPLES];
    KERNEL_UNROLL
    for (size_t r = 0; r < ROWS; r++) {
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            grad[r][s] = dy[s * d->out + r] - (vec){0};
        }
    }
    size_t i = 0;
    for (; i + LANES <= d->in; i += LANES) {
        vec sum[SAMPLES];
        tile_few(d, w + i, grad, sum, samples);
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            vec_store(dx + s * d->in + i, vec_load(dx + s * d->in + i) + sum[s]);
        }
    }
    if (i < d->in) {
        const size_t from = d->in - LANES;
        const ivec fresh = lanes_from(i - from);
        vec sum[SAMPLES];
        tile_few(d, w + from, grad, sum, samples);
        for (size_t s = 0; s < samples; s++) {
            float *to = dx + s * d->in + from;
            vec_store(to, vec_load(to) + vec_select(fresh, sum[s], (vec){0}));
        }
    }
}

static void input_grad_one_by_one(const fedtrain_dense *d, const float *w, const float *dy,
                                  float *dx) {
    for (size_t b = 0; b < d->batch; b++) {
        for (size_t r = 0; r < d->rows; r++) {
            for (size_t i = 0; i < d->in; i++) {
                dx[b * d->in + i] += dy[b * d->out + r] * w[r * d->in + i];
            }
        }
    }
}

void KERNEL(dense_input_grad)(const fedtrain_dense *d, const float *w, const float *dy, float *dx) {
    if (d->in < LANES) {
        input_grad_one_by_one(d, w, dy, dx);
        return;
    }
    fedtrain_dense rest = *d;
    for (; !FED_SMALL && d->batch <= FEW && rest.rows >= ROWS; rest.rows -= ROWS) {
        const size_t o = rest.rows - ROWS; /* the last rows first, as they are in cache */
        size_t b = 0;
        for (; b + 2 <= d->batch; b += 2) {
            input_grad_few(d, w + o * d->in, dy + b * d->out + o, dx + b * d->in, 2);
        }
        if (b < d->batch) {
            input_grad_few(d, w + o * d->in, dy + b * d->out + o, dx + b * d->in, 1);
        }
    }
    d = &rest;
    size_t b = 0;
    for (; b + HEIGHT_2 <= d->batch; b += HEIGHT_2) {
        input_grad_samples(d, w, dy + b * d->out, dx + b * d->in, HEIGHT_2);
    }
    for (; !FED_SMALL && b + 2 <= d->batch; b += 2) {
        input_grad_samples(d, w, dy + b * d->out, dx + b * d->in, 2);
    }
    for (; b < d->batch; b++) {
        input_grad_samples(d, w, dy + b * d->out, dx + b * d->in, 1);
    }
}

/* ---- The weights' gradient ---- */

/* dw[r, :] = sum_b dy[b, r] x[b, :], `vectors` vectors of them */
KERNEL_INLINE void weight_grad_tile(const fedtrain_dense *d, const float *x, const float *dy,
                                    float *dw, const size_t rows, const size_t vectors) {
    tile sum = {0};
    const operand grads = {dy, 1, d->out}, inputs = {x, 0, d->in};
    tile_add(sum, grads, inputs, d->batch, rows, vectors);
    tile_store(sum, dw, d->in, rows, vectors);
}

KERNEL_INLINE void weight_grad_rows(const fedtrain_dense *d, const float *x, const float *dy,
                                    float *dw, const size_t rows) {
    size_t i = 0;
    for (; i + 2 * LANES <= d->in; i += 2 * LANES) {
        weight_grad_tile(d, x + i, dy, dw + i, rows, 2);
    }
    for (; i < d->in; i += LANES) {
        size_t from = kernel_smaller(i, d->in - LANES);
        weight_grad_tile(d, x + from, dy, dw + from, rows, 1);
    }
}

static void weight_grad_one_by_one(const fedtrain_dense *d, const float *x, const float *dy,
                                   float *dw) {
    for (size_t r = 0; r < d->rows; r++) {
        for (size_t i = 0; i < d->in; i++) {
            float sum = 0;
            for (size_t b = 0; b < d->batch; b++) {
                sum += dy[b * d->out + r] * x[b * d->in + i];
            }
            dw[r * d->in + i] = sum;
        }
    }
}

void KERNEL(dense_weight_grad)(const fedtrain_dense *d, const float *x, const float *dy,
                               float *dw) {
    if (d->in < LANES) {
        weight_grad_one_by_one(d, x, dy, dw);
        return;
    }
    size_t o = 0;
    for (; o + HEIGHT_2 <= d->rows; o += HEIGHT_2) {
        weight_grad_rows(d, x, dy + o, dw + o * d->in, HEIGHT_2);
    }
    for (; o < d->rows; o++) {
        weight_grad_rows(d, x, dy + o, dw + o * d->in, 1);
    }
}
