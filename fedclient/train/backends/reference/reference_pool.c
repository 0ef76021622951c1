/* The reference's pools: the largest value of each window, or their mean. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/reference/reference.h"

typedef fedtrain_reference_place place;

/* Return the index of the largest value in an output's window; of equal values, the first. Padding
 * is never the largest. A window always has other values, since the padding is at most half of
 * it. */
static size_t winner(const fedtrain_reference_op *op, place out) {
    const fed_layer *l = op->layer;
    size_t best = SIZE_MAX, y, x;
    for (size_t ky = 0; ky < l->kh; ky++) {
        for (size_t kx = 0; kx < l->kw; kx++) {
            if (fedtrain_reference_tap(l, out, ky, kx, &y, &x)) {
                size_t v = fedtrain_reference_at(l->in, out.b, out.c, y, x);
                if (best == SIZE_MAX || op->x[0][v] > op->x[0][best]) {
                    best = v;
                }
            }
        }
    }
    return best;
}

static void maxpool_forward(const fedtrain_reference_op *op) {
    fed_shape out = op->layer->out;
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(out); i++) {
        op->y[i] = op->x[0][winner(op, fedtrain_reference_place_of(out, i))];
    }
}

static void maxpool_backward(const fedtrain_reference_op *op) {
    fed_shape out = op->layer->out;
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(out); i++) {
        op->dx[0][winner(op, fedtrain_reference_place_of(out, i))] += op->dy[i];
    }
}

const fedtrain_reference_kind fedtrain_reference_maxpool = {
    .forward = maxpool_forward,
    .backward = maxpool_backward,
};

/* Padding counts as zeros, so each value's weight is 1 / (kh kw) in every window. */
static void avgpool_forward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(l->out); i++) {
        place out = fedtrain_reference_place_of(l->out, i);
        size_t y, x;
        double sum = 0;
        for (size_t ky = 0; ky < l->kh; ky++) {
            for (size_t kx = 0; kx < l->kw; kx++) {
                if (fedtrain_reference_tap(l, out, ky, kx, &y, &x)) {
                    sum += op->x[0][fedtrain_reference_at(l->in, out.b, out.c, y, x)];
                }
            }
        }
        op->y[i] = (float)(sum / ((double)l->kh * l->kw));
    }
}

static void avgpool_backward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(l->out); i++) {
        place out = fedtrain_reference_place_of(l->out, i);
        size_t y, x;
        double share = op->dy[i] / ((double)l->kh * l->kw);
        for (size_t ky = 0; ky < l->kh; ky++) {
            for (size_t kx = 0; kx < l->kw; kx++) {
                if (fedtrain_reference_tap(l, out, ky, kx, &y, &x)) {
                    op->dx[0][fedtrain_reference_at(l->in, out.b, out.c, y, x)] += share;
                }
            }
        }
    }
}

const fedtrain_reference_kind fedtrain_reference_avgpool = {
    .forward = avgpool_forward,
    .backward = avgpool_backward,
};
