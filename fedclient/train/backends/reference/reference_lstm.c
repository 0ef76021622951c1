/* The reference's LSTM layer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fedclient/train/backends/reference/reference.h"

/*
 * At step t, where x is the input and h the output of the step before:
 *   z = W_ih x + b_ih + W_hh h + b_hh, where each of i, f, g and o has its own rows of the weights
 *   i, f, o = sigmoid(z);   g = tanh(z)
 *   cell[t] = f cell[t - 1] + i g;   h[t] = o tanh(cell[t])
 * A lane is one sample of the batch. The next batch begins with the state that the lane ended
 * with.
 */
typedef struct lane {
    double *gate;            /* float64[T, 4, size]: i, f, g, o */
    double *cell, *hidden;   /* float64[T + 1, size]; the first are those before the batch */
    double *dgate;           /* float64[4, size] */
    double *dcell, *dhidden; /* float64[size] */
} lane;

enum { I, F, G, O, GATES };

static size_t lane_size(const fed_layer *l) {
    size_t size = l->out.c, steps = l->out.h;
    return size * (GATES * steps + 2 * (steps + 1) + GATES + 2);
}

static size_t lstm_kept_bytes(const fed_layer *l, size_t max_batch) {
    return max_batch * lane_size(l) * sizeof(double);
}

static lane lane_of(const fedtrain_reference_op *op, size_t b) {
    size_t size = op->layer->out.c, steps = op->layer->out.h;
    lane a;
    a.gate = (double *)op->kept + b * lane_size(op->layer);
    a.cell = a.gate + GATES * size * steps;
    a.hidden = a.cell + size * (steps + 1);
    a.dgate = a.hidden + size * (steps + 1);
    a.dcell = a.dgate + GATES * size;
    a.dhidden = a.dcell + size;
    return a;
}

/* Return the index of value i at step t of sample b in an array float32[batch, size, T, 1]. */
static size_t at(fed_shape s, size_t b, size_t i, size_t t) {
    return fedtrain_reference_at(s, b, i, t, 0);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void step_forward(const fedtrain_reference_op *op, const lane *a, size_t b, size_t t) {
    const fed_layer *l = op->layer;
    size_t in = l->in.c, size = l->out.c;
    const float *weight_ih = fedtrain_reference_tensor(op, l->weight);
    const float *weight_hh = fedtrain_reference_tensor(op, l->weight + 1);
    const float *bias_ih = fedtrain_reference_tensor(op, l->weight + 2);
    const float *bias_hh = fedtrain_reference_tensor(op, l->weight + 3);
    double *gate = a->gate + t * GATES * size;
    for (size_t k = 0; k < GATES * size; k++) {
        double sum = (double)bias_ih[k] + bias_hh[k];
        for (size_t i = 0; i < in; i++) {
            sum += (double)weight_ih[k * in + i] * op->x[0][at(l->in, b, i, t)];
        }
        for (size_t j = 0; j < size; j++) {
            sum += weight_hh[k * size + j] * a->hidden[t * size + j];
        }
        gate[k] = k / size == G ? tanh(sum) : sigmoid(sum);
    }
    for (size_t j = 0; j < size; j++) {
        double cell =
            gate[F * size + j] * a->cell[t * size + j] + gate[I * size + j] * gate[G * size + j];
        a->cell[(t + 1) * size + j] = cell;
        a->hidden[(t + 1) * size + j] = gate[O * size + j] * tanh(cell);
        op->y[at(l->out, b, j, t)] = (float)a->hidden[(t + 1) * size + j];
    }
}

static void lstm_forward(const fedtrain_reference_op *op) {
    size_t size = op->layer->out.c, steps = op->layer->out.h;
    for (size_t b = 0; b < op->pass->batch; b++) {
        lane a = lane_of(op, b);
        memcpy(a.cell, a.cell + steps * size, size * sizeof *a.cell);
        memcpy(a.hidden, a.hidden + steps * size, size * sizeof *a.hidden);
        for (size_t t = 0; t < steps; t++) {
            step_forward(op, &a, b, t);
        }
    }
}

/* From dhidden and dcell after step t, compute dgate, the gradients of the gates' inputs, and
 * dcell before step t. */
static void cells_backward(const fedtrain_reference_op *op, const lane *a, size_t b, size_t t) {
    size_t size = op->layer->out.c;
    const double *gate = a->gate + t * GATES * size;
    for (size_t j = 0; j < size; j++) {
        double i = gate[I * size + j], f = gate[F * size + j];
        double g = gate[G * size + j], o = gate[O * size + j];
        double squashed = tanh(a->cell[(t + 1) * size + j]);
        double dh = a->dhidden[j] + op->dy[at(op->layer->out, b, j, t)];
        double dc = a->dcell[j] + dh * o * (1 - squashed * squashed);
        a->dgate[I * size + j] = dc * g * i * (1 - i);
        a->dgate[F * size + j] = dc * a->cell[t * size + j] * f * (1 - f);
        a->dgate[G * size + j] = dc * i * (1 - g * g);
        a->dgate[O * size + j] = dh * squashed * o * (1 - o);
        a->dcell[j] = dc * f;
    }
}

/* From dgate, compute the gradients of the weights and of the input, and dhidden before step t. */
static void gates_backward(const fedtrain_reference_op *op, const lane *a, size_t b, size_t t) {
    const fed_layer *l = op->layer;
    size_t in = l->in.c, size = l->out.c;
    const float *weight_ih = fedtrain_reference_tensor(op, l->weight);
    const float *weight_hh = fedtrain_reference_tensor(op, l->weight + 1);
    double *dweight_ih = fedtrain_reference_grad(op, l->weight);
    double *dweight_hh = fedtrain_reference_grad(op, l->weight + 1);
    double *dbias_ih = fedtrain_reference_grad(op, l->weight + 2);
    double *dbias_hh = fedtrain_reference_grad(op, l->weight + 3);
    memset(a->dhidden, 0, size * sizeof *a->dhidden);
    for (size_t k = 0; k < GATES * size; k++) {
        double d = a->dgate[k];
        dbias_ih[k] += d;
        dbias_hh[k] += d;
        for (size_t i = 0; i < in; i++) {
            size_t v = at(l->in, b, i, t);
            dweight_ih[k * in + i] += d * op->x[0][v];
            op->dx[0][v] += d * weight_ih[k * in + i];
        }
        for (size_t j = 0; j < size; j++) {
            dweight_hh[k * size + j] += d * a->hidden[t * size + j];
            a->dhidden[j] += d * weight_hh[k * size + j];
        }
    }
}

/* The state that the batch began with counts as a constant: it gets no gradient. */
static void lstm_backward(const fedtrain_reference_op *op) {
    size_t size = op->layer->out.c;
    for (size_t b = 0; b < op->pass->batch; b++) {
        lane a = lane_of(op, b);
        memset(a.dcell, 0, size * sizeof *a.dcell);
        memset(a.dhidden, 0, size * sizeof *a.dhidden);
        for (size_t t = op->layer->out.h; t-- > 0;) {
            cells_backward(op, &a, b, t);
            gates_backward(op, &a, b, t);
        }
    }
}

const fedtrain_reference_kind fedtrain_reference_lstm = {
    .forward = lstm_forward,
    .backward = lstm_backward,
    .kept_bytes = lstm_kept_bytes,
};
