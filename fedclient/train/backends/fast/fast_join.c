/* The fast backend's layers that join values: add, concat, widen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"

static void add_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    f->kernels->add(s->in[0]->data, s->in[1]->data, s->out->data, pass->batch * s->out->size,
                    s->merged != NULL);
}

/* Write or add the output's gradient to an input's gradient, which may be the same memory. */
static void hand_back(const fast_net *f, const fast_node *s, size_t input, size_t n) {
    const float *dy = s->out->grad;
    float *dx = s->in[input]->grad;
    if (s->merged != NULL) {
        f->kernels->relu_grad(s->out->data, dy, dx, n, s->adds[input]);
    } else if (s->adds[input]) {
        f->kernels->add(dx, dy, dx, n, false);
    } else if (dx != dy) {
        memcpy(dx, dy, n * sizeof *dx);
    }
}

/* If an input's gradient is written over the output's, that input comes last. */
static void add_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    size_t n = w->pass->batch * s->out->size, last = s->in[0]->grad == s->out->grad ? 0 : 1;
    for (size_t k = 0; k < 2; k++) {
        size_t input = k == 0 ? 1 - last : last;
        if (s->in[input]->grad != NULL) {
            hand_back(f, s, input, n);
        }
    }
}

const fast_op fedtrain_op_add = {
    .in_place = true,
    .grad_in_place = true,
    .keeps_merged = true,
    .merges = fedtrain_fast_merges_relu,
    .forward = add_forward,
    .backward = add_backward,
};

static void copy_channels(const float *from, size_t from_step, float *to, size_t to_step,
                          size_t width, size_t n, bool add) {
    for (size_t i = 0; i < n; i++, from += from_step, to += to_step) {
        for (size_t c = 0; c < width; c++) {
            to[c] = add ? to[c] + from[c] : from[c];
        }
    }
}

static void put_channels(const fast_node *s, size_t input, size_t first, size_t batch) {
    size_t in = s->in[input]->shape.c, out = s->out->shape.c;
    copy_channels(s->in[input]->data, in, s->out->data + first, out, in,
                  batch * fedtrain_fast_area(s->out->shape), false);
}

static void take_channels(const fast_node *s, size_t input, size_t first, size_t batch) {
    size_t in = s->in[input]->shape.c, out = s->out->shape.c;
    if (s->in[input]->grad != NULL) {
        copy_channels(s->out->grad + first, out, s->in[input]->grad, in, in,
                      batch * fedtrain_fast_area(s->out->shape), s->adds[input]);
    }
}

static void concat_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    (void)f;
    for (size_t i = 0, first = 0; i < s->layer->inputs; first += s->in[i++]->shape.c) {
        put_channels(s, i, first, pass->batch);
    }
}

static void concat_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    (void)f;
    for (size_t i = 0, first = 0; i < s->layer->inputs; first += s->in[i++]->shape.c) {
        take_channels(s, i, first, w->pass->batch);
    }
}

const fast_op fedtrain_op_concat = {
    .forward = concat_forward,
    .backward = concat_backward,
};

static size_t zeros_in_front(const fast_node *s) {
    return (s->out->shape.c - s->in[0]->shape.c) / 2;
}

static void widen_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    (void)f;
    memset(s->out->data, 0, pass->batch * s->out->size * sizeof(float));
    put_channels(s, 0, zeros_in_front(s), pass->batch);
}

static void widen_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    (void)f;
    take_channels(s, 0, zeros_in_front(s), w->pass->batch);
}

const fast_op fedtrain_op_widen = {
    .forward = widen_forward,
    .backward = widen_backward,
};
