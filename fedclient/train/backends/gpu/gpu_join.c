/* Layers on a GPU that join values: add, concat, widen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

enum { EACH = 4 }; /* values that a work-item adds */

static fed_shape input_shape(const fedtrain_gpu_op *op, size_t input) {
    const uint32_t value = op->layer->input[input];
    return value == 0 ? op->arch->input : op->arch->layers[value - 1].out;
}

/* Copy or add `width` values of each sample. Samples are from_step and to_step values apart. */
typedef struct move {
    const float *from;
    float *to;
    size_t from_step, to_step, width;
    bool adds;
} move;

static fed_status move_channels(const fedtrain_gpu_op *op, const move *m) {
    const uint32_t from_step = (uint32_t)m->from_step, to_step = (uint32_t)m->to_step;
    const uint32_t width = (uint32_t)m->width, n = op->batch * width, adds = m->adds;
    const fed_gpu_arg args[] = {
        FED_GPU_AT(m->from),  FED_GPU_VALUE(from_step), FED_GPU_AT(m->to), FED_GPU_VALUE(to_step),
        FED_GPU_VALUE(width), FED_GPU_VALUE(adds),      FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "move_channels", fedtrain_gpu_groups(n, 1), args);
}

static fed_status add_forward(const fedtrain_gpu_op *op) {
    const uint32_t n = fedtrain_gpu_values(op, op->layer->out);
    const fed_gpu_arg args[] = {FED_GPU_AT(op->x[0]), FED_GPU_AT(op->x[1]), FED_GPU_AT(op->y),
                                FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "add_forward", fedtrain_gpu_groups(n, EACH), args);
}

static fed_status add_backward(const fedtrain_gpu_op *op) {
    const uint32_t n = fedtrain_gpu_values(op, op->layer->out);
    for (size_t k = 0; k < 2; k++) {
        const fed_gpu_arg args[] = {FED_GPU_AT(op->dx[k]), FED_GPU_AT(op->dy),
                                    FED_GPU_AT(op->dx[k]), FED_GPU_VALUE(n)};
        if (op->dx[k] != NULL && op->adds[k]) {
            FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "add_forward", fedtrain_gpu_groups(n, EACH), args));
        } else if (op->dx[k] != NULL) {
            FED_TRY(
                fed_gpu_copy(op->stream, op->dx[k], op->dy, n * sizeof *op->dy, FED_GPU_ACROSS));
        }
    }
    return FED_OK;
}

extern const fedtrain_gpu_kind fedtrain_gpu_add, fedtrain_gpu_concat, fedtrain_gpu_widen;

const fedtrain_gpu_kind fedtrain_gpu_add = {
    .text = fedtrain_gpu_join_text,
    .forward = add_forward,
    .backward = add_backward,
};

/* Channels vary slowest in a sample, so concat's inputs lie one after the other in its output. */
static fed_status concat_forward(const fedtrain_gpu_op *op) {
    const size_t all = fedtrain_shape_size(op->layer->out);
    size_t first = 0;
    for (size_t k = 0; k < op->layer->inputs; k++) {
        const size_t n = fedtrain_shape_size(input_shape(op, k));
        const move m = {
            .from = op->x[k], .to = op->y + first, .from_step = n, .to_step = all, .width = n};
        FED_TRY(move_channels(op, &m));
        first += n;
    }
    return FED_OK;
}

static fed_status concat_backward(const fedtrain_gpu_op *op) {
    const size_t all = fedtrain_shape_size(op->layer->out);
    size_t first = 0;
    for (size_t k = 0; k < op->layer->inputs; k++) {
        const size_t n = fedtrain_shape_size(input_shape(op, k));
        const move m = {.from = op->dy + first,
                        .to = op->dx[k],
                        .from_step = all,
                        .to_step = n,
                        .width = n,
                        .adds = op->adds[k]};
        if (op->dx[k] != NULL) {
            FED_TRY(move_channels(op, &m));
        }
        first += n;
    }
    return FED_OK;
}

const fedtrain_gpu_kind fedtrain_gpu_concat = {
    .text = fedtrain_gpu_join_text,
    .forward = concat_forward,
    .backward = concat_backward,
};

static size_t zeros_in_front(const fed_layer *l) {
    return (size_t)((l->out.c - l->in.c) / 2) * l->in.h * l->in.w;
}

static fed_status widen_forward(const fedtrain_gpu_op *op) {
    const size_t n = fedtrain_shape_size(op->layer->in), all = fedtrain_shape_size(op->layer->out);
    const move m = {.from = op->x[0],
                    .to = op->y + zeros_in_front(op->layer),
                    .from_step = n,
                    .to_step = all,
                    .width = n};
    FED_TRY(fed_gpu_fill(op->stream, op->y, 0, op->batch * all * sizeof *op->y));
    return move_channels(op, &m);
}

static fed_status widen_backward(const fedtrain_gpu_op *op) {
    const size_t n = fedtrain_shape_size(op->layer->in), all = fedtrain_shape_size(op->layer->out);
    const move m = {.from = op->dy + zeros_in_front(op->layer),
                    .to = op->dx[0],
                    .from_step = all,
                    .to_step = n,
                    .width = n,
                    .adds = op->adds[0]};
    return op->dx[0] != NULL ? move_channels(op, &m) : FED_OK;
}

const fedtrain_gpu_kind fedtrain_gpu_widen = {
    .text = fedtrain_gpu_join_text,
    .forward = widen_forward,
    .backward = widen_backward,
};
