/* The reference's normalizations: over the batch, and over neighbouring channels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fedclient/train/backends/reference/reference.h"

static const double EPSILON = 1e-5;

static size_t area(fed_shape s) {
    return (size_t)s.h * s.w;
}

/* One channel's statistics in the last forward pass of training, kept for the calls after it. */
typedef struct statistics {
    double mean, variance;
    double unbiased; /* the variance, divided by n - 1 instead of n */
} statistics;

static size_t batchnorm_kept_bytes(const fed_layer *l, size_t max_batch) {
    (void)max_batch;
    return l->out.c * sizeof(statistics);
}

static size_t channel_count(const fedtrain_reference_op *op) {
    return op->pass->batch * area(op->layer->in);
}

/* Return the index of the k-th of a batch's values in channel c. */
static size_t channel_at(const fedtrain_reference_op *op, size_t c, size_t k) {
    size_t n = area(op->layer->in);
    return (k / n * op->layer->in.c + c) * n + k % n;
}

static statistics measure(const fedtrain_reference_op *op, size_t c) {
    size_t n = channel_count(op);
    double sum = 0, squares = 0;
    for (size_t k = 0; k < n; k++) {
        sum += op->x[0][channel_at(op, c, k)];
    }
    double mean = sum / (double)n;
    for (size_t k = 0; k < n; k++) {
        double d = op->x[0][channel_at(op, c, k)] - mean;
        squares += d * d;
    }
    return (statistics){.mean = mean,
                        .variance = squares / (double)n,
                        .unbiased = squares / (double)(n > 1 ? n - 1 : 1)};
}

/* y = (x - mean) / sqrt(variance + epsilon) * weight + bias. Mean and variance are the batch's in
 * training, otherwise the running statistics. */
static void batchnorm_forward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    const float *weight = fedtrain_reference_tensor(op, l->weight);
    const float *bias = fedtrain_reference_tensor(op, l->bias);
    statistics *kept = op->kept;
    for (size_t c = 0; c < l->out.c; c++) {
        statistics s = {.mean = fedtrain_reference_tensor(op, l->state)[c],
                        .variance = fedtrain_reference_tensor(op, l->state + 1)[c]};
        if (op->pass->training) {
            s = kept[c] = measure(op, c);
        }
        double deviation = sqrt(s.variance + EPSILON);
        for (size_t k = 0; k < channel_count(op); k++) {
            size_t i = channel_at(op, c, k);
            op->y[i] = (float)((op->x[0][i] - s.mean) / deviation * weight[c] + bias[c]);
        }
    }
}

/* The input's gradient, where u = (x - mean) / deviation; mean and deviation depend on x, too.
 * dx = weight / deviation * (dy - mean(dy) - u mean(dy u)) */
static void batchnorm_backward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    const float *weight = fedtrain_reference_tensor(op, l->weight);
    double *dweight = fedtrain_reference_grad(op, l->weight);
    double *dbias = fedtrain_reference_grad(op, l->bias);
    const statistics *kept = op->kept;
    size_t n = channel_count(op);
    for (size_t c = 0; c < l->out.c; c++) {
        double deviation = sqrt(kept[c].variance + EPSILON), sum = 0, along = 0;
        for (size_t k = 0; k < n; k++) {
            size_t i = channel_at(op, c, k);
            sum += op->dy[i];
            along += op->dy[i] * (op->x[0][i] - kept[c].mean) / deviation;
        }
        for (size_t k = 0; k < n; k++) {
            size_t i = channel_at(op, c, k);
            double u = (op->x[0][i] - kept[c].mean) / deviation;
            op->dx[0][i] +=
                weight[c] / deviation * (op->dy[i] - sum / (double)n - u * along / (double)n);
        }
        dweight[c] += along;
        dbias[c] += sum;
    }
}

static void batchnorm_keep_statistics(const fed_arch *arch, const fed_layer *l, const void *kept,
                                      float *params) {
    const statistics *s = kept;
    float *mean = params + arch->layout.tensors[l->state].offset;
    float *variance = params + arch->layout.tensors[l->state + 1].offset;
    for (size_t c = 0; c < l->out.c; c++) {
        mean[c] = (float)(0.9 * mean[c] + 0.1 * s[c].mean);
        variance[c] = (float)(0.9 * variance[c] + 0.1 * s[c].unbiased);
    }
}

const fedtrain_reference_kind fedtrain_reference_batchnorm = {
    .forward = batchnorm_forward,
    .backward = batchnorm_backward,
    .kept_bytes = batchnorm_kept_bytes,
    .keep_statistics = batchnorm_keep_statistics,
};

/* The window of channel c: the existing channels around it, first <= j < end. */
static size_t window_first(const fed_layer *l, size_t c) {
    return c < l->span / 2 ? 0 : c - l->span / 2;
}

static size_t window_end(const fed_layer *l, size_t c) {
    size_t end = c + (l->span - 1) / 2 + 1;
    return end < l->in.c ? end : l->in.c;
}

/* d = k + alpha / span * sum of x^2 over the window of channel c, at position p of sample b */
static double divisor(const fedtrain_reference_op *op, size_t b, size_t c, size_t p) {
    const fed_layer *l = op->layer;
    double sum = 0;
    for (size_t j = window_first(l, c); j < window_end(l, c); j++) {
        double x = op->x[0][(b * l->in.c + j) * area(l->in) + p];
        sum += x * x;
    }
    return l->k + l->alpha / (double)l->span * sum;
}

/* y = x / d^beta */
static void lrn_forward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t c = 0; c < l->in.c; c++) {
            for (size_t p = 0; p < area(l->in); p++) {
                size_t i = (b * l->in.c + c) * area(l->in) + p;
                op->y[i] = (float)(op->x[0][i] * pow(divisor(op, b, c, p), -l->beta));
            }
        }
    }
}

/* For each channel c: dx[c] += dy[c] d^-beta; and dx[j] -= dy[c] x[c] beta d^(-beta - 1) * 2 alpha
 * / span * x[j] for all j in c's window. */
static void lrn_backward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t c = 0; c < l->in.c; c++) {
            for (size_t p = 0; p < area(l->in); p++) {
                size_t i = (b * l->in.c + c) * area(l->in) + p;
                double d = divisor(op, b, c, p), power = pow(d, -l->beta);
                double pull =
                    op->dy[i] * op->x[0][i] * l->beta * power / d * 2 * l->alpha / l->span;
                op->dx[0][i] += op->dy[i] * power;
                for (size_t j = window_first(l, c); j < window_end(l, c); j++) {
                    size_t v = (b * l->in.c + j) * area(l->in) + p;
                    op->dx[0][v] -= pull * op->x[0][v];
                }
            }
        }
    }
}

const fedtrain_reference_kind fedtrain_reference_lrn = {
    .forward = lrn_forward,
    .backward = lrn_backward,
};
