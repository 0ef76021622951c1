/* The fast backend's normalizations: over the batch, and over neighbouring channels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"

/* ---- Batch normalization, with a merged ReLU if there is one ---- */

static const float EPSILON = 1e-5F;

typedef struct batchnorm {
    float *seen_mean, *variance; /* statistics of the batch in the last pass of training */
    size_t seen;                 /* number of values of a channel in that batch */
    float *mean, *scale, *bias;
    float *slope, *offset;
    float *sum, *along;
} batchnorm;

static void batchnorm_plan(fast_net *f, fast_node *s, fast_arena *a) {
    batchnorm *own = s->own;
    const size_t n = s->layer->out.c + f->kernels->lanes;
    own->mean = fedtrain_fast_take(a, FAST_WORKSPACE, n);
    own->scale = fedtrain_fast_take(a, FAST_WORKSPACE, n);
    own->bias = fedtrain_fast_take(a, FAST_WORKSPACE, n);
    own->seen_mean = fedtrain_fast_take(a, FAST_WORKSPACE, n);
    own->variance = fedtrain_fast_take(a, FAST_WORKSPACE, n);
    own->slope = fedtrain_fast_take(a, FAST_SHARED, n);
    own->offset = fedtrain_fast_take(a, FAST_SHARED, n);
    own->sum = fedtrain_fast_take(a, FAST_SHARED, n);
    own->along = fedtrain_fast_take(a, FAST_SHARED, n);
}

/* Repeat the first channels' values after the last channel's, since a vector may start at any
 * channel. */
static void repeat(const fast_net *f, const fast_node *s, float *values) {
    size_t channels = s->layer->out.c;
    for (size_t k = 0; k < f->kernels->lanes; k++) {
        values[channels + k] = values[k];
    }
}

static fedtrain_norm norm_of(const fast_node *s, size_t batch) {
    const batchnorm *own = s->own;
    return (fedtrain_norm){.rows = batch * fedtrain_fast_area(s->layer->out),
                           .width = s->layer->out.c,
                           .relu = s->merged != NULL,
                           .mean = own->mean,
                           .scale = own->scale,
                           .bias = own->bias};
}

static void measure(const fast_net *f, const fast_node *s, const fedtrain_pass *pass,
                    const float **mean, const float **variance) {
    batchnorm *own = s->own;
    const size_t channels = s->layer->out.c;
    *mean = own->seen_mean;
    *variance = own->variance;
    if (!pass->training) {
        *mean = pass->params + fedtrain_fast_offset(f, s->layer->state);
        *variance = pass->params + fedtrain_fast_offset(f, s->layer->state + 1);
        return;
    }
    own->seen = pass->batch * fedtrain_fast_area(s->layer->out);
    f->kernels->moments(s->in[0]->data, own->seen, channels, own->seen_mean, own->variance);
    for (size_t c = 0; c < channels; c++) {
        own->variance[c] /= (float)own->seen;
    }
}

static void batchnorm_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    batchnorm *own = s->own;
    const size_t channels = s->layer->out.c;
    const float *weight = pass->params + fedtrain_fast_offset(f, s->layer->weight);
    const float *mean, *variance;
    measure(f, s, pass, &mean, &variance);
    for (size_t c = 0; c < channels; c++) {
        own->mean[c] = mean[c];
        own->scale[c] = weight[c] / sqrtf(variance[c] + EPSILON);
    }
    memcpy(own->bias, pass->params + fedtrain_fast_offset(f, s->layer->bias),
           channels * sizeof *own->bias);
    repeat(f, s, own->mean);
    repeat(f, s, own->scale);
    repeat(f, s, own->bias);
    const fedtrain_norm n = norm_of(s, pass->batch);
    f->kernels->normalize(&n, s->in[0]->data, s->out->data);
}

/* The input's gradient, where u = (x - mean) / deviation; mean and deviation depend on x, too.
 * dx = weight / deviation * (dy - mean(dy) - u mean(dy u)) */
static void input_backward(const fast_net *f, const fast_node *s, const fedtrain_norm *n) {
    batchnorm *own = s->own;
    const float count = (float)n->rows;
    for (size_t c = 0; c < n->width; c++) {
        float inverse = 1 / (own->variance[c] + EPSILON);
        own->slope[c] = -own->scale[c] * inverse * own->along[c] / count;
        own->offset[c] = -own->scale[c] * own->sum[c] / count;
    }
    repeat(f, s, own->slope);
    repeat(f, s, own->offset);
    f->kernels->normalize_grad(n, own->slope, own->offset, s->in[0]->data, s->out->grad,
                               s->in[0]->grad, s->adds[0]);
}

static void batchnorm_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    batchnorm *own = s->own;
    const size_t weight = fedtrain_fast_offset(f, s->layer->weight);
    const size_t bias = fedtrain_fast_offset(f, s->layer->bias);
    const fedtrain_norm n = norm_of(s, w->pass->batch);
    f->kernels->normalize_sums(&n, s->in[0]->data, s->out->grad, own->sum, own->along);
    if (s->in[0]->grad != NULL) {
        input_backward(f, s, &n);
    }
    float *grad = fedtrain_fast_grad_at(w, weight);
    for (size_t c = 0; c < n.width; c++) {
        grad[c] = own->along[c] / sqrtf(own->variance[c] + EPSILON);
    }
    fedtrain_fast_grad_done(w, weight, grad, n.width);
    grad = fedtrain_fast_grad_at(w, bias);
    memcpy(grad, own->sum, n.width * sizeof *grad);
    fedtrain_fast_grad_done(w, bias, grad, n.width);
}

static void batchnorm_keep_statistics(const fast_net *f, const fast_node *s, float *params) {
    const batchnorm *own = s->own;
    const float n = (float)own->seen, unbiased = own->seen > 1 ? n / (n - 1) : 1;
    float *mean = params + fedtrain_fast_offset(f, s->layer->state);
    float *variance = params + fedtrain_fast_offset(f, s->layer->state + 1);
    for (size_t c = 0; c < s->layer->out.c; c++) {
        mean[c] = 0.9F * mean[c] + 0.1F * own->seen_mean[c];
        variance[c] = 0.9F * variance[c] + 0.1F * (own->variance[c] * unbiased);
    }
}

const fast_op fedtrain_op_batchnorm = {
    .own_bytes = sizeof(batchnorm),
    .grad_in_place = true,
    .merges = fedtrain_fast_merges_relu,
    .plan = batchnorm_plan,
    .forward = batchnorm_forward,
    .backward = batchnorm_backward,
    .keep_statistics = batchnorm_keep_statistics,
};

/* ---- Local response normalization ---- */

/* y = x / d^beta, d = k + alpha / span * sum of x^2 over x's channel and its neighbours */
typedef struct lrn {
    float *divisor; /* d, shaped as the value */
    float *pull;
} lrn;

static void lrn_plan(fast_net *f, fast_node *s, fast_arena *a) {
    lrn *own = s->own;
    own->divisor = fedtrain_fast_take(a, FAST_ACTIVATIONS, f->max_batch * s->out->size);
    own->pull = fedtrain_fast_take(a, FAST_SHARED, s->layer->in.c);
}

static float sum_around(const float *values, size_t channels, size_t c, size_t before,
                        size_t after) {
    float sum = 0;
    size_t end = c + after + 1 < channels ? c + after + 1 : channels;
    for (size_t j = c > before ? c - before : 0; j < end; j++) {
        sum += values[j];
    }
    return sum;
}

static void lrn_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    (void)f;
    const lrn *own = s->own;
    const fed_layer *l = s->layer;
    const size_t channels = l->in.c;
    for (size_t i = 0; i < pass->batch * s->out->size; i += channels) {
        const float *x = s->in[0]->data + i;
        for (size_t c = 0; c < channels; c++) {
            own->pull[c] = x[c] * x[c];
        }
        for (size_t c = 0; c < channels; c++) {
            float sum = sum_around(own->pull, channels, c, l->span / 2, (l->span - 1) / 2);
            own->divisor[i + c] = l->k + l->alpha / (float)l->span * sum;
            s->out->data[i + c] = x[c] * powf(own->divisor[i + c], -l->beta);
        }
    }
}

/* dx[c] = dy[c] d^-beta - 2 alpha / span * x[c] * s. Here s is the sum of dy x beta d^(-beta - 1)
 * over the channels whose divisor d includes channel c. */
static void lrn_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    (void)f;
    const lrn *own = s->own;
    const fed_layer *l = s->layer;
    const size_t channels = l->in.c;
    for (size_t i = 0; i < w->pass->batch * s->out->size; i += channels) {
        const float *x = s->in[0]->data + i, *d = own->divisor + i;
        float *dy = s->out->grad + i, *dx = s->in[0]->grad + i;
        for (size_t c = 0; c < channels; c++) {
            dy[c] *= powf(d[c], -l->beta);
            own->pull[c] = dy[c] * x[c] / d[c];
        }
        for (size_t c = 0; c < channels; c++) {
            float pull = sum_around(own->pull, channels, c, (l->span - 1) / 2, l->span / 2);
            float grad = dy[c] - 2 * l->beta * l->alpha / (float)l->span * x[c] * pull;
            dx[c] = s->adds[0] ? dx[c] + grad : grad;
        }
    }
}

const fast_op fedtrain_op_lrn = {
    .own_bytes = sizeof(lrn),
    .grad_in_place = true,
    .plan = lrn_plan,
    .forward = lrn_forward,
    .backward = lrn_backward,
};
