/* The fast backend's dense layers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/small.h"
#include "fedclient/train/backends/fast/arrange.h"
#include "fedclient/train/backends/fast/fast_impl.h"

/* The model's weights belong to the order (c, h, w) of a picture's values, so an input picture is
 * put in that order first. */
typedef struct dense {
    float *flat; /* the input in the model's order; NULL: it is in that order already */
    float *flat_grad;
    float *transposed; /* float32[in, batch] */
    float *zeros;      /* zeros instead of a bias; NULL if there is a bias */
} dense;

static fedtrain_dense sizes(const fast_node *s, size_t batch) {
    return (fedtrain_dense){s->in[0]->size, s->out->size, batch, s->out->size};
}

static void dense_plan(fast_net *f, fast_node *s, fast_arena *a) {
    dense *d = s->own;
    const fast_value *in = s->in[0];
    d->transposed = fedtrain_fast_take(a, FAST_SHARED, f->max_batch * in->size + f->kernels->lanes);
    d->zeros = s->layer->has_bias ? NULL : fedtrain_fast_take(a, FAST_WORKSPACE, s->out->size);
    if (in->shape.c > 1 && fedtrain_fast_area(in->shape) > 1) {
        d->flat = fedtrain_fast_take(a, FAST_ACTIVATIONS, f->max_batch * in->size);
        d->flat_grad = fedtrain_fast_take(a, FAST_SHARED, f->max_batch * in->size);
    }
}

static const float *input(const fast_node *s) {
    const dense *d = s->own;
    return d->flat != NULL ? d->flat : s->in[0]->data;
}

/* Fewer samples do not pay for the transpose. */
enum { FEWEST = 8 };

/* Return how many samples, from the first on, to transpose so that a vector holds one value of each
 * of several samples. These fill whole vectors, or nearly. */
static size_t worth_transposing(const fast_net *f, size_t batch) {
    const size_t lanes = f->kernels->lanes, rest = batch % lanes;
    const size_t most = 4 * rest >= 3 * lanes ? batch : batch - rest;
    return FED_SMALL || most < FEWEST ? 0 : most;
}

static void dense_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    const dense *own = s->own;
    const fast_value *in = s->in[0];
    for (size_t b = 0; own->flat != NULL && b < pass->batch; b++) {
        fedtrain_transpose(f->kernels, in->data + b * in->size, fedtrain_fast_area(in->shape),
                           in->shape.c, own->flat + b * in->size);
    }
    const float *weight = pass->params + fedtrain_fast_offset(f, s->layer->weight);
    const float *bias =
        s->layer->has_bias ? pass->params + fedtrain_fast_offset(f, s->layer->bias) : own->zeros;
    const size_t transposed = worth_transposing(f, pass->batch);
    if (transposed > 0) {
        const fedtrain_dense d = sizes(s, transposed);
        fedtrain_transpose(f->kernels, input(s), transposed, in->size, own->transposed);
        f->kernels->dense_many(&d, weight, bias, own->transposed, s->out->data);
    }
    const fedtrain_dense d = sizes(s, pass->batch - transposed);
    f->kernels->dense(&d, weight, bias, input(s) + transposed * in->size,
                      s->out->data + transposed * s->out->size);
}

static void bias_backward(const fast_node *s, size_t offset, const fast_flow *w) {
    size_t out = s->out->size;
    const float *dy = s->out->grad;
    float *bias = fedtrain_fast_grad_at(w, offset);
    memcpy(bias, dy, out * sizeof *bias);
    for (size_t b = 1; b < w->pass->batch; b++) {
        for (size_t o = 0; o < out; o++) {
            bias[o] += dy[b * out + o];
        }
    }
    fedtrain_fast_grad_done(w, offset, bias, out);
}

/* Rows of weights whose gradient is given to the sink at once, while it is in cache. */
enum { AT_ONCE = FED_SMALL ? 8 : 32 };

/* Begin with the last rows, which the forward pass left in cache; the first rows are then in cache
 * for the next forward pass. dx: NULL if no input gradient is needed. */
static void weight_backward(const fast_net *f, const fast_node *s, float *dx, const fast_flow *w) {
    fedtrain_dense d = sizes(s, w->pass->batch);
    size_t offset = fedtrain_fast_offset(f, s->layer->weight);
    const float *params = w->pass->params, *x = input(s), *dy = s->out->grad;
    const fedtrain_update *update = w->update;
    float rate = update != NULL ? fedtrain_update_only_rate(update) : 0;
    if (update != NULL && rate > 0 && d.in >= f->kernels->lanes) {
        f->kernels->dense_grad(&d, params + offset, x, dy, dx, update->params + offset, rate);
        return;
    }
    for (size_t end = d.out; end > 0; end -= d.rows) {
        d.rows = end < AT_ONCE ? end : AT_ONCE;
        size_t o = end - d.rows, at = offset + o * d.in;
        float *dw = fedtrain_fast_grad_at(w, at);
        f->kernels->dense_grad(&d, params + at, x, dy + o, dx, dw, 0);
        fedtrain_fast_grad_done(w, at, dw, d.rows * d.in);
    }
}

/* Turn the input's gradient from the model's order into the fast backend's order. */
static void put_in_order(const fast_net *f, const fast_node *s, const float *flat, size_t batch) {
    const dense *own = s->own;
    const fast_value *in = s->in[0];
    float *to = s->adds[0] ? own->transposed : in->grad;
    for (size_t b = 0; b < batch; b++) {
        fedtrain_transpose(f->kernels, flat + b * in->size, in->shape.c,
                           fedtrain_fast_area(in->shape), to + b * in->size);
    }
    if (s->adds[0]) {
        f->kernels->add(in->grad, to, in->grad, batch * in->size, false);
    }
}

static void dense_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    const dense *own = s->own;
    const fast_value *in = s->in[0];
    size_t batch = w->pass->batch;
    float *dx = in->grad != NULL && own->flat != NULL ? own->flat_grad : in->grad;
    if (s->layer->has_bias) {
        bias_backward(s, fedtrain_fast_offset(f, s->layer->bias), w);
    }
    if (dx != NULL && (own->flat != NULL || !s->adds[0])) {
        memset(dx, 0, batch * in->size * sizeof *dx);
    }
    weight_backward(f, s, dx, w);
    if (dx != in->grad) {
        put_in_order(f, s, dx, batch);
    }
}

const fast_op fedtrain_op_dense = {
    .own_bytes = sizeof(dense),
    .plan = dense_plan,
    .forward = dense_forward,
    .backward = dense_backward,
};
