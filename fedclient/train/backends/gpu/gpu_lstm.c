/* LSTMs on a GPU. Products over all time steps compute what the inputs add to the gates, and the
 * gradients of weights and inputs; one kernel for each time step computes the rest. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_matrix.h"

enum { GATES = 4, SIDE = 16 };

/* The same struct as in lstm.cl. */
typedef struct lstm_sizes {
    uint32_t batch, size, steps;
} lstm_sizes;

/* The arrays that a layer keeps; lstm.cl describes their shapes. They are laid out for the largest
 * batch, so that the state stays in place if the batch's size changes. */
typedef struct lstm_parts {
    float *cell, *hidden, *gates, *dcell;
} lstm_parts;

static size_t round_up(size_t floats) {
    return (floats + 31) / 32 * 32;
}

static size_t state_floats(const fed_layer *l, size_t batch) {
    return round_up(batch * l->out.c * (l->out.h + 1));
}

static size_t lstm_kept_bytes(const fed_layer *l, size_t max_batch) {
    const size_t one = max_batch * l->out.c;
    return (2 * state_floats(l, max_batch) + round_up(GATES * one * l->out.h) + one) *
           sizeof(float);
}

static lstm_parts lstm_parts_of(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    float *kept = op->kept;
    const size_t state = state_floats(l, op->max_batch);
    return (lstm_parts){.cell = kept,
                        .hidden = kept + state,
                        .gates = kept + 2 * state,
                        .dcell = kept + 2 * state +
                                 round_up(GATES * op->max_batch * l->out.c * l->out.h)};
}

static lstm_sizes lstm_sizes_of(const fedtrain_gpu_op *op) {
    return (lstm_sizes){op->batch, op->layer->out.c, op->layer->out.h};
}

/* Return the sizes of the product of weight_ih with the inputs of all steps. */
static fedtrain_gpu_window input_window(const fed_layer *l, uint32_t batch) {
    const uint32_t steps = l->out.h;
    return (fedtrain_gpu_window){batch, 1, l->in.c, steps, 1, GATES * l->out.c,
                                 steps, 1, 1,       1,     1, 0};
}

/* Return the sizes of the product of weight_hh with the outputs one step before, which are the
 * first T of T + 1 positions. */
static fedtrain_gpu_window recurrent_window(const fed_layer *l, uint32_t batch) {
    const uint32_t steps = l->out.h;
    return (fedtrain_gpu_window){batch, 1, l->out.c, steps + 1, 1, GATES * l->out.c,
                                 steps, 1, 1,        1,         1, 0};
}

static size_t lstm_work_bytes(const fed_layer *layer, size_t max_batch) {
    const size_t in = fedtrain_gpu_product_work_bytes(input_window(layer, 1), max_batch);
    const size_t recurrent = fedtrain_gpu_product_work_bytes(recurrent_window(layer, 1), max_batch);
    return in > recurrent ? in : recurrent;
}

static uint32_t step_groups(const lstm_sizes *s) {
    return (s->batch + SIDE - 1) / SIDE * ((s->size + SIDE - 1) / SIDE);
}

static fed_status lstm_forward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const lstm_parts p = lstm_parts_of(op);
    const lstm_sizes s = lstm_sizes_of(op);
    const fedtrain_gpu_product in = {.window = input_window(l, op->batch),
                                     .weight = fedtrain_gpu_tensor(op, l->weight),
                                     .bias = fedtrain_gpu_tensor(op, l->weight + 2),
                                     .x = op->x[0],
                                     .y = p.gates};
    const fed_gpu_arg begin[] = {FED_GPU_VALUE(s), FED_GPU_AT(p.cell), FED_GPU_AT(p.hidden)};
    FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "lstm_begin", fedtrain_gpu_groups(s.batch * s.size, 1), begin));
    FED_TRY(fedtrain_gpu_product_forward(op, &in));
    for (uint32_t t = 0; t < s.steps; t++) {
        const fed_gpu_arg args[] = {FED_GPU_VALUE(s),
                                    FED_GPU_VALUE(t),
                                    FED_GPU_AT(fedtrain_gpu_tensor(op, l->weight + 1)),
                                    FED_GPU_AT(fedtrain_gpu_tensor(op, l->weight + 3)),
                                    FED_GPU_AT(p.gates),
                                    FED_GPU_AT(p.cell),
                                    FED_GPU_AT(p.hidden),
                                    FED_GPU_AT(op->y)};
        FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "lstm_step", step_groups(&s), args));
    }
    return FED_OK;
}

/* Both biases have the same gradient. */
static fed_status gates_backward(const fedtrain_gpu_op *op, const lstm_parts *p) {
    const fed_layer *l = op->layer;
    float *dbias = fedtrain_gpu_grad(op, l->weight + 2);
    const fedtrain_gpu_product in = {.window = input_window(l, op->batch),
                                     .weight = fedtrain_gpu_tensor(op, l->weight),
                                     .x = op->x[0],
                                     .dy = p->gates,
                                     .dweight = fedtrain_gpu_grad(op, l->weight),
                                     .dbias = dbias,
                                     .dx = op->dx[0],
                                     .adds = op->adds[0]};
    const fedtrain_gpu_product recurrent = {.window = recurrent_window(l, op->batch),
                                            .x = p->hidden,
                                            .dy = p->gates,
                                            .dweight = fedtrain_gpu_grad(op, l->weight + 1)};
    FED_TRY(fedtrain_gpu_product_backward(op, &in));
    FED_TRY(fedtrain_gpu_product_backward(op, &recurrent));
    return fed_gpu_copy(op->stream, fedtrain_gpu_grad(op, l->weight + 3), dbias,
                        GATES * l->out.c * sizeof *dbias, FED_GPU_ACROSS);
}

/* The state that the batch began with counts as a constant: it gets no gradient. */
static fed_status lstm_backward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const lstm_parts p = lstm_parts_of(op);
    const lstm_sizes s = lstm_sizes_of(op);
    for (uint32_t t = s.steps; t-- > 0;) {
        const fed_gpu_arg args[] = {FED_GPU_VALUE(s),
                                    FED_GPU_VALUE(t),
                                    FED_GPU_AT(fedtrain_gpu_tensor(op, l->weight + 1)),
                                    FED_GPU_AT(p.gates),
                                    FED_GPU_AT(p.cell),
                                    FED_GPU_AT(op->dy),
                                    FED_GPU_AT(p.dcell)};
        FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "lstm_step_back", step_groups(&s), args));
    }
    return gates_backward(op, &p);
}

extern const fedtrain_gpu_kind fedtrain_gpu_lstm;

const fedtrain_gpu_kind fedtrain_gpu_lstm = {
    .text = fedtrain_gpu_lstm_text,
    .forward = lstm_forward,
    .backward = lstm_backward,
    .kept_bytes = lstm_kept_bytes,
    .work_bytes = lstm_work_bytes,
    .forgets = true,
};
