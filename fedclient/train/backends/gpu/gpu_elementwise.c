/* Layers on a GPU that work on each value by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

static fed_status relu_forward(const fedtrain_gpu_op *op) {
    const uint32_t n = fedtrain_gpu_values(op, op->layer->out);
    const fed_gpu_arg args[] = {FED_GPU_AT(op->x[0]), FED_GPU_AT(op->y), FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "relu_forward", fedtrain_gpu_groups(n, 1), args);
}

static fed_status relu_backward(const fedtrain_gpu_op *op) {
    const uint32_t n = fedtrain_gpu_values(op, op->layer->out), adds = op->adds[0];
    if (op->dx[0] == NULL) {
        return FED_OK;
    }
    const fed_gpu_arg args[] = {FED_GPU_AT(op->y), FED_GPU_AT(op->dy), FED_GPU_AT(op->dx[0]),
                                FED_GPU_VALUE(adds), FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "relu_backward", fedtrain_gpu_groups(n, 1), args);
}

extern const fedtrain_gpu_kind fedtrain_gpu_relu;

const fedtrain_gpu_kind fedtrain_gpu_relu = {
    .text = fedtrain_gpu_elementwise_text,
    .forward = relu_forward,
    .backward = relu_backward,
};
