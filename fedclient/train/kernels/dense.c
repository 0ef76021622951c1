/* Dense layers. A weight's row is contiguous along its inputs, so everything streams that way. */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"

/*
 * With few samples the weights' way through memory is what takes time. So a few rows meet a few
 * samples at once: each weight is then loaded once for all of them. AVX-512 has 32 registers, the
 * narrower units 16.
 */
enum { WIDE = LANES == 16 };
enum { ROWS = 4, SAMPLES = FED_SMALL ? 1 : WIDE ? 4 : 2, COLUMNS = SAMPLES };

/* Rows are too short for the processor to see where they lead, so the next ones are fetched early.
 */
enum { AHEAD = 2 * ROWS };

/* y[s, r] = bias[r] + w[r, :] . x[s, :] for `rows` rows and `samples` samples. */
KERNEL_INLINE void forward_tile(const fedtrain_dense *d, const float *w, const float *bias,
                                const float *x, float *y, const size_t rows, const size_t samples) {
    vec sum[ROWS][SAMPLES] = {0};
    size_t i = 0;
    for (; i + LANES <= d->in; i += LANES) {
        KERNEL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            vec weight = vec_load(w + r * d->in + i);
            vec_prefetch(w + r * d->in + i, AHEAD * d->in);
            KERNEL_UNROLL
            for (size_t s = 0; s < samples; s++) {
                sum[r][s] += weight * vec_load(x + s * d->in + i);
            }
        }
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t s = 0; s < samples; s++) {
            float rest = bias[r];
            for (size_t k = i; k < d->in; k++) {
                rest += w[r * d->in + k] * x[s * d->in + k];
            }
            y[s * d->out + r] = vec_sum(sum[r][s]) + rest;
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
    for (; SAMPLES > 2 && b + 2 <= d->batch; b += 2) {
        forward_tile(d, w, bias, x + b * d->in, y + b * d->out, rows, 2);
    }
    for (; SAMPLES > 1 && b < d->batch; b++) {
        forward_tile(d, w, bias, x + b * d->in, y + b * d->out, rows, 1);
    }
}

void KERNEL(dense)(const fedtrain_dense *d, const float *w, const float *bias, const float *x,
                   float *y) {
    size_t o = 0;
    for (; o + ROWS <= d->rows; o += ROWS) {
        forward_rows(d, w + o * d->in, bias + o, x, y + o, ROWS);
    }
    for (; o < d->rows; o++) {
        forward_rows(d, w + o * d->in, bias + o, x, y + o, 1);
    }
}

/* dx[s, :] += sum_r dy[s, r] w[r, :] */
KERNEL_INLINE void input_grad_tile(const fedtrain_dense *d, const float *w, const float *dy,
                                   float *dx, const size_t rows, const size_t samples) {
    size_t i = 0;
    for (; i + LANES <= d->in; i += LANES) {
        vec sum[SAMPLES];
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            sum[s] = vec_load(dx + s * d->in + i);
        }
        KERNEL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            vec weight = vec_load(w + r * d->in + i);
            vec_prefetch(w + r * d->in + i, AHEAD * d->in);
            KERNEL_UNROLL
            for (size_t s = 0; s < samples; s++) {
                sum[s] += dy[s * d->out + r] * weight;
            }
        }
        KERNEL_UNROLL
        for (size_t s = 0; s < samples; s++) {
            vec_store(dx + s * d->in + i, sum[s]);
        }
    }
    for (; i < d->in; i++) {
        for (size_t s = 0; s < samples; s++) {
            for (size_t r = 0; r < rows; r++) {
                dx[s * d->in + i] += dy[s * d->out + r] * w[r * d->in + i];
            }
        }
    }
}

KERNEL_INLINE void input_grad_rows(const fedtrain_dense *d, const float *w, const float *dy,
                                   float *dx, const size_t rows) {
    size_t b = 0;
    for (; b + SAMPLES <= d->batch; b += SAMPLES) {
        input_grad_tile(d, w, dy + b * d->out, dx + b * d->in, rows, SAMPLES);
    }
    for (; SAMPLES > 2 && b + 2 <= d->batch; b += 2) {
        input_grad_tile(d, w, dy + b * d->out, dx + b * d->in, rows, 2);
    }
    for (; SAMPLES > 1 && b < d->batch; b++) {
        input_grad_tile(d, w, dy + b * d->out, dx + b * d->in, rows, 1);
    }
}

void KERNEL(dense_input_grad)(const fedtrain_dense *d, const float *w, const float *dy, float *dx) {
    size_t o = 0;
    for (; o + ROWS <= d->rows; o += ROWS) {
        input_grad_rows(d, w + o * d->in, dy + o, dx, ROWS);
    }
    for (; o < d->rows; o++) {
        input_grad_rows(d, w + o * d->in, dy + o, dx, 1);
    }
}

/* dw[r, columns] = sum_b dy[b, r] x[b, columns] */
KERNEL_INLINE void weight_grad_tile(const fedtrain_dense *d, const float *x, const float *dy,
                                    float *dw, const size_t rows, const size_t columns) {
    vec sum[ROWS][COLUMNS] = {0};
    for (size_t b = 0; b < d->batch; b++) {
        KERNEL_UNROLL
        for (size_t v = 0; v < columns; v++) {
            vec value = vec_load(x + b * d->in + v * LANES);
            KERNEL_UNROLL
            for (size_t r = 0; r < rows; r++) {
                sum[r][v] += dy[b * d->out + r] * value;
            }
        }
    }
    KERNEL_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KERNEL_UNROLL
        for (size_t v = 0; v < columns; v++) {
            vec_store(dw + r * d->in + v * LANES, sum[r][v]);
        }
    }
}

KERNEL_INLINE void weight_grad_rows(const fedtrain_dense *d, const float *x, const float *dy,
                                    float *dw, const size_t rows) {
    size_t i = 0;
    for (; i + COLUMNS * LANES <= d->in; i += COLUMNS * LANES) {
        weight_grad_tile(d, x + i, dy, dw + i, rows, COLUMNS);
    }
    for (; COLUMNS > 1 && i + LANES <= d->in; i += LANES) {
        weight_grad_tile(d, x + i, dy, dw + i, rows, 1);
    }
    for (; i < d->in; i++) {
        for (size_t r = 0; r < rows; r++) {
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
    size_t o = 0;
    for (; o + ROWS <= d->rows; o += ROWS) {
        weight_grad_rows(d, x, dy + o, dw + o * d->in, ROWS);
    }
    for (; o < d->rows; o++) {
        weight_grad_rows(d, x, dy + o, dw + o * d->in, 1);
    }
}
