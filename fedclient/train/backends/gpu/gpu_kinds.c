/* The layers that run on GPUs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

extern const fedtrain_gpu_kind fedtrain_gpu_dense, fedtrain_gpu_conv, fedtrain_gpu_maxpool,
    fedtrain_gpu_avgpool, fedtrain_gpu_relu, fedtrain_gpu_tanh, fedtrain_gpu_sigmoid,
    fedtrain_gpu_dropout, fedtrain_gpu_batchnorm, fedtrain_gpu_lrn, fedtrain_gpu_embedding,
    fedtrain_gpu_lstm, fedtrain_gpu_widen, fedtrain_gpu_add, fedtrain_gpu_concat;

static const fedtrain_gpu_kind *const kinds[] = {
    [FED_LAYER_DENSE] = &fedtrain_gpu_dense,         [FED_LAYER_CONV] = &fedtrain_gpu_conv,
    [FED_LAYER_MAXPOOL] = &fedtrain_gpu_maxpool,     [FED_LAYER_AVGPOOL] = &fedtrain_gpu_avgpool,
    [FED_LAYER_RELU] = &fedtrain_gpu_relu,           [FED_LAYER_TANH] = &fedtrain_gpu_tanh,
    [FED_LAYER_SIGMOID] = &fedtrain_gpu_sigmoid,     [FED_LAYER_DROPOUT] = &fedtrain_gpu_dropout,
    [FED_LAYER_BATCHNORM] = &fedtrain_gpu_batchnorm, [FED_LAYER_LRN] = &fedtrain_gpu_lrn,
    [FED_LAYER_EMBEDDING] = &fedtrain_gpu_embedding, [FED_LAYER_LSTM] = &fedtrain_gpu_lstm,
    [FED_LAYER_WIDEN] = &fedtrain_gpu_widen,         [FED_LAYER_ADD] = &fedtrain_gpu_add,
    [FED_LAYER_CONCAT] = &fedtrain_gpu_concat,
};

const fedtrain_gpu_kind *fedtrain_gpu_kind_of(fed_layer_kind kind) {
    return kinds[kind];
}
