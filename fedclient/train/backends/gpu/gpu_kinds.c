/* The layers that run on GPUs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

extern const fedtrain_gpu_kind fedtrain_gpu_dense, fedtrain_gpu_conv, fedtrain_gpu_relu;

static const fedtrain_gpu_kind *const kinds[FED_LAYER_CONCAT + 1] = {
    [FED_LAYER_DENSE] = &fedtrain_gpu_dense,
    [FED_LAYER_CONV] = &fedtrain_gpu_conv,
    [FED_LAYER_RELU] = &fedtrain_gpu_relu,
};

const fedtrain_gpu_kind *fedtrain_gpu_kind_of(fed_layer_kind kind) {
    return kinds[kind];
}
