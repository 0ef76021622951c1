/* The fast backend's pooling. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"

static void clear_grad(const fast_node *s, size_t batch) {
    if (!s->adds[0]) {
        memset(s->in[0]->grad, 0, batch * s->in[0]->size * sizeof(float));
    }
}

static void maxpool_plan(fast_net *f, fast_node *s, fast_arena *a) {
    fast_pool *p = s->own;
    const fed_layer *l = s->layer;
    p->sizes = (fedtrain_pool){.channels = l->in.c,
                               .in_h = l->in.h,
                               .in_w = l->in.w,
                               .out_h = l->out.h,
                               .out_w = l->out.w,
                               .kh = l->kh,
                               .kw = l->kw,
                               .stride = l->stride,
                               .pad = l->pad};
    p->winner = fedtrain_fast_take(a, FAST_ACTIVATIONS, f->max_batch * s->out->size);
}

static void maxpool_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    const fast_pool *p = s->own;
    for (size_t b = 0; b < pass->batch; b++) {
        size_t out = b * s->out->size;
        f->kernels->maxpool(&p->sizes, s->in[0]->data + b * s->in[0]->size, s->out->data + out,
                            p->winner + out);
    }
}

static void maxpool_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    (void)f;
    const fast_pool *p = s->own;
    const size_t channels = p->sizes.channels;
    clear_grad(s, w->pass->batch);
    for (size_t b = 0; b < w->pass->batch; b++) {
        float *dx = s->in[0]->grad + b * s->in[0]->size;
        for (size_t i = b * s->out->size; i < (b + 1) * s->out->size; i += channels) {
            for (size_t c = 0; c < channels; c++) {
                dx[(size_t)p->winner[i + c] * channels + c] += s->out->grad[i + c];
            }
        }
    }
}

const fast_op fedtrain_op_maxpool = {
    .own_bytes = sizeof(fast_pool),
    .plan = maxpool_plan,
    .forward = maxpool_forward,
    .backward = maxpool_backward,
};

typedef enum way { FORWARD, BACKWARD } way;

/* For all positions of a window that are inside the picture: add 1 / (kh kw) of their values to the
 * output, or of the output's gradient to their gradients. So padding counts as zeros. */
static void walk_window(const fed_layer *l, size_t r, size_t q, float *x, float *y, way where) {
    const size_t channels = l->in.c;
    const float share = 1.0F / ((float)l->kh * (float)l->kw);
    for (size_t ky = 0; ky < l->kh; ky++) {
        for (size_t kx = 0; kx < l->kw; kx++) {
            size_t v = r * l->stride + ky, h = q * l->stride + kx;
            if (v < l->pad || v - l->pad >= l->in.h || h < l->pad || h - l->pad >= l->in.w) {
                continue;
            }
            float *at = x + ((v - l->pad) * l->in.w + h - l->pad) * channels;
            float *to = where == FORWARD ? y : at;
            const float *from = where == FORWARD ? at : y;
            for (size_t c = 0; c < channels; c++) {
                to[c] += from[c] * share;
            }
        }
    }
}

static void walk(const fast_node *s, size_t batch, float *x, float *y, way where) {
    const fed_layer *l = s->layer;
    for (size_t b = 0; b < batch; b++, x += s->in[0]->size) {
        for (size_t r = 0; r < l->out.h; r++) {
            for (size_t q = 0; q < l->out.w; q++, y += l->out.c) {
                walk_window(l, r, q, x, y, where);
            }
        }
    }
}

static void avgpool_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    (void)f;
    memset(s->out->data, 0, pass->batch * s->out->size * sizeof(float));
    walk(s, pass->batch, s->in[0]->data, s->out->data, FORWARD);
}

static void avgpool_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    (void)f;
    clear_grad(s, w->pass->batch);
    walk(s, w->pass->batch, s->in[0]->grad, s->out->grad, BACKWARD);
}

const fast_op fedtrain_op_avgpool = {
    .forward = avgpool_forward,
    .backward = avgpool_backward,
};
