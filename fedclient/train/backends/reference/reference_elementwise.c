/* The reference's layers that compute each value by itself: relu, tanh, sigmoid, dropout. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fedclient/train/backends/reference/reference.h"
#include "fedclient/train/dropout.h"

static size_t count(const fedtrain_reference_op *op) {
    return op->pass->batch * fedtrain_shape_size(op->layer->out);
}

/* NaN stays NaN, so that a diverged model is noticed. */
static void relu_forward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < count(op); i++) {
        op->y[i] = op->x[0][i] < 0 ? 0 : op->x[0][i];
    }
}

static void relu_backward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < count(op); i++) {
        op->dx[0][i] += op->y[i] > 0 ? op->dy[i] : 0;
    }
}

const fedtrain_reference_kind fedtrain_reference_relu = {
    .forward = relu_forward,
    .backward = relu_backward,
};

static void tanh_forward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < count(op); i++) {
        op->y[i] = (float)tanh(op->x[0][i]);
    }
}

static void tanh_backward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < count(op); i++) {
        double y = op->y[i];
        op->dx[0][i] += op->dy[i] * (1 - y * y);
    }
}

const fedtrain_reference_kind fedtrain_reference_tanh = {
    .forward = tanh_forward,
    .backward = tanh_backward,
};

static void sigmoid_forward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < count(op); i++) {
        op->y[i] = (float)(1 / (1 + exp(-(double)op->x[0][i])));
    }
}

static void sigmoid_backward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < count(op); i++) {
        double y = op->y[i];
        op->dx[0][i] += op->dy[i] * y * (1 - y);
    }
}

const fedtrain_reference_kind fedtrain_reference_sigmoid = {
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
};

/* The layer keeps uint8[batch, h, w, c]: 1 where a value stays, 0 where it is dropped. */
static size_t dropout_kept_bytes(const fed_layer *l, size_t max_batch) {
    return max_batch * fedtrain_shape_size(l->out);
}

/* The factor of value i in training. */
static float factor(const fedtrain_reference_op *op, size_t i) {
    const fed_layer *l = op->layer;
    const uint8_t *keep = op->kept;
    fedtrain_reference_place p = fedtrain_reference_place_of(l->out, i);
    size_t drawn = ((p.b * l->out.h + p.y) * l->out.w + p.x) * l->out.c + p.c;
    return keep[drawn] != 0 ? fedtrain_dropout_scale(l->p) : 0;
}

static void dropout_forward(const fedtrain_reference_op *op) {
    if (op->pass->training) {
        uint32_t number = (uint32_t)(op->layer - op->arch->layers);
        fedtrain_dropout_draw(op->pass->seed, number, op->layer->p, op->kept, count(op));
    }
    for (size_t i = 0; i < count(op); i++) {
        op->y[i] = op->pass->training ? op->x[0][i] * factor(op, i) : op->x[0][i];
    }
}

static void dropout_backward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < count(op); i++) {
        op->dx[0][i] += op->dy[i] * factor(op, i);
    }
}

const fedtrain_reference_kind fedtrain_reference_dropout = {
    .forward = dropout_forward,
    .backward = dropout_backward,
    .kept_bytes = dropout_kept_bytes,
};
