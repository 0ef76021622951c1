/* The reference's convolution. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/reference/reference.h"

typedef fedtrain_reference_place place;

/* The index into a weight (out, in / groups, kh, kw). */
static size_t at_weight(const fed_layer *l, size_t o, size_t c, size_t ky, size_t kx) {
    return ((o * (l->in.c / l->groups) + c) * l->kh + ky) * l->kw + kx;
}

static size_t group_start(const fed_layer *l, size_t o) {
    return o / (l->out.c / l->groups) * (l->in.c / l->groups);
}

/* y[b, o, r, q] = bias[o] + sum over the group's channels c and the window (ky, kx) of
 *                 W[o, c, ky, kx] x[b, c, r stride + ky - pad, q stride + kx - pad] */
static float output(const fedtrain_reference_op *op, place out) {
    const fed_layer *l = op->layer;
    const float *weight = fedtrain_reference_tensor(op, l->weight);
    double sum = l->has_bias ? fedtrain_reference_tensor(op, l->bias)[out.c] : 0;
    size_t channels = l->in.c / l->groups, start = group_start(l, out.c);
    for (size_t c = 0; c < channels; c++) {
        for (size_t ky = 0; ky < l->kh; ky++) {
            for (size_t kx = 0; kx < l->kw; kx++) {
                size_t y, x;
                if (fedtrain_reference_tap(l, out, ky, kx, &y, &x)) {
                    sum += (double)weight[at_weight(l, out.c, c, ky, kx)] *
                           op->x[0][fedtrain_reference_at(l->in, out.b, start + c, y, x)];
                }
            }
        }
    }
    return (float)sum;
}

static void output_grad(const fedtrain_reference_op *op, place out, double d) {
    const fed_layer *l = op->layer;
    const float *weight = fedtrain_reference_tensor(op, l->weight);
    double *dweight = fedtrain_reference_grad(op, l->weight);
    if (l->has_bias) {
        fedtrain_reference_grad(op, l->bias)[out.c] += d;
    }
    size_t channels = l->in.c / l->groups, start = group_start(l, out.c);
    for (size_t c = 0; c < channels; c++) {
        for (size_t ky = 0; ky < l->kh; ky++) {
            for (size_t kx = 0; kx < l->kw; kx++) {
                size_t y, x;
                if (fedtrain_reference_tap(l, out, ky, kx, &y, &x)) {
                    size_t w = at_weight(l, out.c, c, ky, kx),
                           v = fedtrain_reference_at(l->in, out.b, start + c, y, x);
                    dweight[w] += d * op->x[0][v];
                    op->dx[0][v] += d * weight[w];
                }
            }
        }
    }
}

static void conv_forward(const fedtrain_reference_op *op) {
    fed_shape out = op->layer->out;
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(out); i++) {
        op->y[i] = output(op, fedtrain_reference_place_of(out, i));
    }
}

static void conv_backward(const fedtrain_reference_op *op) {
    fed_shape out = op->layer->out;
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(out); i++) {
        output_grad(op, fedtrain_reference_place_of(out, i), op->dy[i]);
    }
}

const fedtrain_reference_kind fedtrain_reference_conv = {
    .forward = conv_forward,
    .backward = conv_backward,
};
