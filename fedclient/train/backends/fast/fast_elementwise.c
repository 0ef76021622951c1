/* The fast backend's layers that treat each value by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"
#include "fedclient/train/dropout.h"

static void relu_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    size_t n = pass->batch * s->out->size;
    if (s->out->data != s->in[0]->data) {
        memcpy(s->out->data, s->in[0]->data, n * sizeof(float));
    }
    f->kernels->relu(s->out->data, n);
}

static void relu_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    f->kernels->relu_grad(s->out->data, s->out->grad, s->in[0]->grad, w->pass->batch * s->out->size,
                          s->adds[0]);
}

const fast_op fedtrain_op_relu = {
    .in_place = true,
    .grad_in_place = true,
    .keeps_output = true,
    .forward = relu_forward,
    .backward = relu_backward,
};

static void tanh_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    f->kernels->tanh(s->in[0]->data, s->out->data, pass->batch * s->out->size);
}

static void tanh_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    f->kernels->tanh_grad(s->out->data, s->out->grad, s->in[0]->grad, w->pass->batch * s->out->size,
                          s->adds[0]);
}

const fast_op fedtrain_op_tanh = {
    .in_place = true,
    .grad_in_place = true,
    .keeps_output = true,
    .forward = tanh_forward,
    .backward = tanh_backward,
};

static void sigmoid_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    f->kernels->sigmoid(s->in[0]->data, s->out->data, pass->batch * s->out->size);
}

static void sigmoid_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    f->kernels->sigmoid_grad(s->out->data, s->out->grad, s->in[0]->grad,
                             w->pass->batch * s->out->size, s->adds[0]);
}

const fast_op fedtrain_op_sigmoid = {
    .in_place = true,
    .grad_in_place = true,
    .keeps_output = true,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
};

typedef struct dropout {
    uint8_t *keep; /* uint8[batch, h, w, c] */
} dropout;

static void dropout_plan(fast_net *f, fast_node *s, fast_arena *a) {
    dropout *own = s->own;
    own->keep = fedtrain_fast_take(
        a, FAST_ACTIVATIONS, (f->max_batch * s->out->size + sizeof(float) - 1) / sizeof(float));
}

static void dropout_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    const dropout *own = s->own;
    const float *x = s->in[0]->data;
    size_t n = pass->batch * s->out->size;
    if (pass->training) {
        uint32_t number = (uint32_t)(s->layer - f->arch->layers);
        fedtrain_dropout_draw(pass->seed, number, s->layer->p, own->keep, n);
        f->kernels->dropout(own->keep, fedtrain_dropout_scale(s->layer->p), x, s->out->data, n,
                            false);
    } else if (x != s->out->data) {
        memcpy(s->out->data, x, n * sizeof *x);
    }
}

static void dropout_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    const dropout *own = s->own;
    f->kernels->dropout(own->keep, fedtrain_dropout_scale(s->layer->p), s->out->grad,
                        s->in[0]->grad, w->pass->batch * s->out->size, s->adds[0]);
}

const fast_op fedtrain_op_dropout = {
    .own_bytes = sizeof(dropout),
    .in_place = true,
    .grad_in_place = true,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
