/* A net's passes on a GPU: the launches of its layers and of its loss, in order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/train/backends/gpu/gpu_net.h"

fed_status fedtrain_gpu_bring(fedtrain_gpu_net *net, const fedtrain_pass *pass,
                              const fedtrain_labels *labels) {
    const fed_arch *arch = net->arch;
    const size_t positions = pass->batch * arch->positions;
    const size_t at = fedtrain_gpu_labels_at(net, pass->batch);
    fedtrain_gpu_slot *slot = &net->slot[net->next];
    net->next = (net->next + 1) % FEDTRAIN_GPU_SLOTS;
    slot->size = (uint32_t)pass->batch;
    net->last_size = pass->batch;
    memcpy(slot->batch, &pass->seed, sizeof pass->seed);
    memcpy(slot->batch + FEDTRAIN_GPU_ALIGN, pass->x,
           pass->batch * fedtrain_shape_size(arch->input) * sizeof *pass->x);
    if (labels == NULL) {
        return fed_gpu_copy(net->stream, net->batch, slot->batch, at, FED_GPU_UP);
    }
    if (arch->loss == FED_LOSS_SQUARED) {
        memcpy(slot->batch + at, labels->target, positions * arch->classes * sizeof(float));
    } else {
        memcpy(slot->batch + at, labels->label, positions * sizeof(uint32_t));
    }
    return fed_gpu_copy(net->stream, net->batch, slot->batch,
                        fedtrain_gpu_batch_bytes(net, pass->batch), FED_GPU_UP);
}

fed_status fedtrain_gpu_forward(fedtrain_gpu_net *net, size_t batch, bool training) {
    for (size_t l = 0; l < net->arch->layer_count; l++) {
        const fedtrain_gpu_op op = fedtrain_gpu_op_of(net, l, batch, training);
        FED_TRY(fedtrain_gpu_kind_of(op.layer->kind)->forward(&op));
    }
    return FED_OK;
}

fed_status fedtrain_gpu_loss(fedtrain_gpu_net *net, size_t batch) {
    const fed_arch *arch = net->arch;
    const float *score = net->value[arch->layer_count];
    float *grad = net->value_grad[arch->layer_count];
    const void *label = net->batch + fedtrain_gpu_labels_at(net, batch);
    const uint32_t all = (uint32_t)batch * arch->positions, numbers = all * arch->classes;
    const float scale = 1.0F / (float)all;
    const bool squared = arch->loss == FED_LOSS_SQUARED;
    const uint32_t losses = squared ? numbers : all;
    const fed_gpu_arg cross[] = {FED_GPU_AT(score),
                                 FED_GPU_AT(label),
                                 FED_GPU_VALUE(arch->classes),
                                 FED_GPU_VALUE(arch->positions),
                                 FED_GPU_VALUE(scale),
                                 FED_GPU_AT(grad),
                                 FED_GPU_AT(net->losses)};
    const fed_gpu_arg square[] = {FED_GPU_AT(score),
                                  FED_GPU_AT(label),
                                  FED_GPU_VALUE(arch->classes),
                                  FED_GPU_VALUE(arch->positions),
                                  FED_GPU_VALUE(numbers),
                                  FED_GPU_AT(grad),
                                  FED_GPU_AT(net->losses)};
    const fed_gpu_arg sum[] = {FED_GPU_AT(net->losses), FED_GPU_VALUE(losses),
                               FED_GPU_AT(net->result)};
    FED_TRY(squared ? fed_gpu_launch(net->stream, net->step, "squared_error",
                                     fedtrain_gpu_groups(numbers, 1), square, 7)
                    : fed_gpu_launch(net->stream, net->step, "cross_entropy", all, cross, 7));
    return fed_gpu_launch(net->stream, net->step, "loss_sum", 1, sum, 3);
}

fed_status fedtrain_gpu_backward(fedtrain_gpu_net *net, size_t layer, size_t batch) {
    const fedtrain_gpu_op op = fedtrain_gpu_op_of(net, layer, batch, true);
    if (op.dy == NULL) {
        return FED_OK; /* this layer's output depends on no parameters */
    }
    return fedtrain_gpu_kind_of(op.layer->kind)->backward(&op);
}

fed_status fedtrain_gpu_keep_statistics(fedtrain_gpu_net *net) {
    for (size_t l = 0; l < net->arch->layer_count; l++) {
        const fedtrain_gpu_op op = fedtrain_gpu_op_of(net, l, net->last_size, true);
        const fedtrain_gpu_kind *kind = fedtrain_gpu_kind_of(op.layer->kind);
        if (kind->keep_statistics != NULL) {
            FED_TRY(kind->keep_statistics(&op));
        }
    }
    return FED_OK;
}
