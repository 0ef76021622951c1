/* The reference's layers that join values: add, concat, widen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/train/backends/reference/reference.h"

static void add_forward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(op->layer->out); i++) {
        op->y[i] = op->x[0][i] + op->x[1][i];
    }
}

static void add_backward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(op->layer->out); i++) {
        op->dx[0][i] += op->dy[i];
        op->dx[1][i] += op->dy[i];
    }
}

const fedtrain_reference_kind fedtrain_reference_add = {
    .forward = add_forward,
    .backward = add_backward,
};

static size_t input_size(const fedtrain_reference_op *op, size_t input) {
    return fedtrain_shape_size(fedtrain_reference_shape(op->arch, op->layer->input[input]));
}

/* Channels vary slowest in a sample, so concat's inputs lie one after the other in its output. */
static void concat_forward(const fedtrain_reference_op *op) {
    float *y = op->y;
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t k = 0; k < op->layer->inputs; k++) {
            size_t n = input_size(op, k);
            memcpy(y, op->x[k] + b * n, n * sizeof *y);
            y += n;
        }
    }
}

static void concat_backward(const fedtrain_reference_op *op) {
    const double *dy = op->dy;
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t k = 0; k < op->layer->inputs; k++) {
            size_t n = input_size(op, k);
            for (size_t i = 0; i < n; i++) {
                op->dx[k][b * n + i] += *dy++;
            }
        }
    }
}

const fedtrain_reference_kind fedtrain_reference_concat = {
    .forward = concat_forward,
    .backward = concat_backward,
};

/* Return the output's index of the input's value i. Half of the new channels, rounded down, lie
 * before the input's. */
static size_t at_widened(const fed_layer *l, size_t i) {
    size_t n = fedtrain_shape_size(l->in), front = (l->out.c - l->in.c) / 2;
    return i / n * fedtrain_shape_size(l->out) + front * l->in.h * l->in.w + i % n;
}

static void widen_forward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    memset(op->y, 0, op->pass->batch * fedtrain_shape_size(l->out) * sizeof *op->y);
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(l->in); i++) {
        op->y[at_widened(l, i)] = op->x[0][i];
    }
}

static void widen_backward(const fedtrain_reference_op *op) {
    for (size_t i = 0; i < op->pass->batch * fedtrain_shape_size(op->layer->in); i++) {
        op->dx[0][i] += op->dy[at_widened(op->layer, i)];
    }
}

const fedtrain_reference_kind fedtrain_reference_widen = {
    .forward = widen_forward,
    .backward = widen_backward,
};
