/* Layers on a GPU that work on each value by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"
#include "fedclient/train/dropout.h"

enum { EACH = 4 }; /* values that a work-item computes */

/* ---- relu, tanh, sigmoid: numbered as in elementwise.cl ---- */

enum { RELU, TANH, SIGMOID };

static fed_status squash_forward(const fedtrain_gpu_op *op, uint32_t kind) {
    const uint32_t n = fedtrain_gpu_values(op, op->layer->out);
    const fed_gpu_arg args[] = {FED_GPU_VALUE(kind), FED_GPU_AT(op->x[0]), FED_GPU_AT(op->y),
                                FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "squash_forward", fedtrain_gpu_groups(n, EACH), args);
}

static fed_status squash_backward(const fedtrain_gpu_op *op, uint32_t kind) {
    const uint32_t n = fedtrain_gpu_values(op, op->layer->out), adds = op->adds[0];
    if (op->dx[0] == NULL) {
        return FED_OK;
    }
    const fed_gpu_arg args[] = {FED_GPU_VALUE(kind),   FED_GPU_AT(op->y),   FED_GPU_AT(op->dy),
                                FED_GPU_AT(op->dx[0]), FED_GPU_VALUE(adds), FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "squash_backward", fedtrain_gpu_groups(n, EACH), args);
}

static fed_status relu_forward(const fedtrain_gpu_op *op) {
    return squash_forward(op, RELU);
}

static fed_status relu_backward(const fedtrain_gpu_op *op) {
    return squash_backward(op, RELU);
}

static fed_status tanh_forward(const fedtrain_gpu_op *op) {
    return squash_forward(op, TANH);
}

static fed_status tanh_backward(const fedtrain_gpu_op *op) {
    return squash_backward(op, TANH);
}

static fed_status sigmoid_forward(const fedtrain_gpu_op *op) {
    return squash_forward(op, SIGMOID);
}

static fed_status sigmoid_backward(const fedtrain_gpu_op *op) {
    return squash_backward(op, SIGMOID);
}

extern const fedtrain_gpu_kind fedtrain_gpu_relu, fedtrain_gpu_tanh, fedtrain_gpu_sigmoid,
    fedtrain_gpu_dropout;

const fedtrain_gpu_kind fedtrain_gpu_relu = {
    .text = fedtrain_gpu_elementwise_text,
    .forward = relu_forward,
    .backward = relu_backward,
};

const fedtrain_gpu_kind fedtrain_gpu_tanh = {
    .text = fedtrain_gpu_elementwise_text,
    .forward = tanh_forward,
    .backward = tanh_backward,
};

const fedtrain_gpu_kind fedtrain_gpu_sigmoid = {
    .text = fedtrain_gpu_elementwise_text,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
};

/* ---- Dropout: keeps one bit for each value between the passes ---- */

static size_t dropout_kept_bytes(const fed_layer *layer, size_t max_batch) {
    return (max_batch * fedtrain_shape_size(layer->out) + 7) / 8;
}

static fed_status dropout_apply(const fedtrain_gpu_op *op, const float *from, float *to,
                                uint32_t adds) {
    const fed_shape s = op->layer->out;
    const float scale = fedtrain_dropout_scale(op->layer->p);
    const uint32_t n = fedtrain_gpu_values(op, s), area = s.h * s.w;
    const fed_gpu_arg args[] = {FED_GPU_AT(op->kept), FED_GPU_VALUE(scale), FED_GPU_VALUE(s.c),
                                FED_GPU_VALUE(area),  FED_GPU_AT(from),     FED_GPU_AT(to),
                                FED_GPU_VALUE(adds),  FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "dropout_apply", fedtrain_gpu_groups(n, 1), args);
}

static fed_status dropout_forward(const fedtrain_gpu_op *op) {
    const uint32_t n = fedtrain_gpu_values(op, op->layer->out), bytes = n / 8 + (n % 8 != 0);
    if (!op->training) {
        return fed_gpu_copy(op->stream, op->y, op->x[0], n * sizeof *op->y, FED_GPU_ACROSS);
    }
    const uint32_t number = (uint32_t)op->index, least = fedtrain_dropout_dropped(op->layer->p);
    const fed_gpu_arg args[] = {FED_GPU_AT(op->seed), FED_GPU_VALUE(number), FED_GPU_VALUE(least),
                                FED_GPU_AT(op->kept), FED_GPU_VALUE(bytes)};
    FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "dropout_keep", fedtrain_gpu_groups(bytes, 1), args));
    return dropout_apply(op, op->x[0], op->y, 0);
}

static fed_status dropout_backward(const fedtrain_gpu_op *op) {
    return op->dx[0] != NULL ? dropout_apply(op, op->dy, op->dx[0], op->adds[0]) : FED_OK;
}

const fedtrain_gpu_kind fedtrain_gpu_dropout = {
    .text = fedtrain_gpu_elementwise_text,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .kept_bytes = dropout_kept_bytes,
};
