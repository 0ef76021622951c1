/* The reference's dense layers, and embeddings, whose weights a tied dense layer shares. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/reference/reference.h"

/*
 * A matrix times a vector at each position: y[b, o, p] = bias[o] + sum_i W[o, i] x[b, i, p].
 * Without "each" all values of a sample, in the order (c, h, w), are the vector, and there is one
 * position.
 */
typedef struct extent {
    size_t in, out, positions;
} extent;

static extent extent_of(const fed_layer *l) {
    size_t positions = l->each ? (size_t)l->in.h * l->in.w : 1;
    return (extent){fedtrain_shape_size(l->in) / positions, l->out.c, positions};
}

static void dense_forward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    extent e = extent_of(l);
    const float *weight = fedtrain_reference_tensor(op, l->weight);
    const float *bias = l->has_bias ? fedtrain_reference_tensor(op, l->bias) : NULL;
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t o = 0; o < e.out; o++) {
            for (size_t p = 0; p < e.positions; p++) {
                double sum = bias != NULL ? bias[o] : 0;
                for (size_t i = 0; i < e.in; i++) {
                    sum +=
                        (double)weight[o * e.in + i] * op->x[0][(b * e.in + i) * e.positions + p];
                }
                op->y[(b * e.out + o) * e.positions + p] = (float)sum;
            }
        }
    }
}

static void dense_backward(const fedtrain_reference_op *op) {
    const fed_layer *l = op->layer;
    extent e = extent_of(l);
    const float *weight = fedtrain_reference_tensor(op, l->weight);
    double *dweight = fedtrain_reference_grad(op, l->weight);
    double *dbias = l->has_bias ? fedtrain_reference_grad(op, l->bias) : NULL;
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t o = 0; o < e.out; o++) {
            for (size_t p = 0; p < e.positions; p++) {
                double d = op->dy[(b * e.out + o) * e.positions + p];
                for (size_t i = 0; i < e.in; i++) {
                    size_t v = (b * e.in + i) * e.positions + p;
                    op->dx[0][v] += d * weight[o * e.in + i];
                    dweight[o * e.in + i] += d * op->x[0][v];
                }
                if (dbias != NULL) {
                    dbias[o] += d;
                }
            }
        }
    }
}

const fedtrain_reference_kind fedtrain_reference_dense = {
    .forward = dense_forward,
    .backward = dense_backward,
};

/* y[b, c, t] = W[x[b, t], c]: a word's row of W is its value. */
static void embedding_forward(const fedtrain_reference_op *op) {
    size_t words = fedtrain_shape_size(op->layer->in), size = op->layer->out.c;
    const float *weight = fedtrain_reference_tensor(op, op->layer->weight);
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t t = 0; t < words; t++) {
            size_t word = (size_t)op->x[0][b * words + t];
            for (size_t c = 0; c < size; c++) {
                op->y[(b * size + c) * words + t] = weight[word * size + c];
            }
        }
    }
}

static void embedding_backward(const fedtrain_reference_op *op) {
    size_t words = fedtrain_shape_size(op->layer->in), size = op->layer->out.c;
    double *dweight = fedtrain_reference_grad(op, op->layer->weight);
    for (size_t b = 0; b < op->pass->batch; b++) {
        for (size_t t = 0; t < words; t++) {
            size_t word = (size_t)op->x[0][b * words + t];
            for (size_t c = 0; c < size; c++) {
                dweight[word * size + c] += op->dy[(b * size + c) * words + t];
            }
        }
    }
}

const fedtrain_reference_kind fedtrain_reference_embedding = {
    .forward = embedding_forward,
    .backward = embedding_backward,
};
