/* A net's memory on a GPU: one allocation, cut into slices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fedclient/train/backends/gpu/gpu_net.h"

static size_t round_up(size_t size) {
    return (size + FEDTRAIN_GPU_ALIGN - 1) / FEDTRAIN_GPU_ALIGN * FEDTRAIN_GPU_ALIGN;
}

static size_t value_bytes(const fedtrain_gpu_net *net, size_t value) {
    const fed_arch *arch = net->arch;
    const fed_shape shape = value == 0 ? arch->input : arch->layers[value - 1].out;
    return net->max_batch * fedtrain_shape_size(shape) * sizeof(float);
}

static size_t numbers(const fed_arch *arch) {
    return (size_t)arch->positions * (arch->loss == FED_LOSS_SQUARED ? arch->classes : 1);
}

size_t fedtrain_gpu_labels_at(const fedtrain_gpu_net *net, size_t batch) {
    return round_up(FEDTRAIN_GPU_ALIGN +
                    batch * fedtrain_shape_size(net->arch->input) * sizeof(float));
}

size_t fedtrain_gpu_batch_bytes(const fedtrain_gpu_net *net, size_t batch) {
    return fedtrain_gpu_labels_at(net, batch) + batch * numbers(net->arch) * sizeof(float);
}

/* Return whether a value depends on parameters. Only then its gradient is needed. */
static bool depends(const fedtrain_gpu_net *net, size_t value) {
    const fed_layer *l = &net->arch->layers[value - 1];
    bool any = fedtrain_has_parameters(l);
    for (size_t i = 0; i < l->inputs; i++) {
        any = any || net->depends[l->input[i]];
    }
    return any;
}

static void *slice(const fedtrain_gpu_net *net, size_t *at, size_t size) {
    uint8_t *begin = net->memory == NULL ? NULL : net->memory + *at;
    *at += round_up(size);
    return begin;
}

static void slice_layers(fedtrain_gpu_net *net, size_t *at) {
    const fed_arch *arch = net->arch;
    size_t work = 0, first = *at;
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_layer *layer = &arch->layers[l];
        const fedtrain_gpu_kind *kind = fedtrain_gpu_kind_of(layer->kind);
        net->value[l + 1] = slice(net, at, value_bytes(net, l + 1));
        if (kind->kept_bytes != NULL) {
            net->kept[l] = slice(net, at, kind->kept_bytes(layer, net->max_batch));
        }
        const size_t wanted =
            kind->work_bytes != NULL ? kind->work_bytes(layer, net->max_batch) : 0;
        work = wanted > work ? wanted : work;
    }
    net->activations = *at - first;
    first = *at;
    for (size_t v = 1; v <= arch->layer_count; v++) {
        net->depends[v] = depends(net, v);
        if (net->depends[v]) {
            net->value_grad[v] = slice(net, at, value_bytes(net, v));
        }
    }
    net->gradients = *at - first;
    net->work = slice(net, at, work);
}

/* Slice the memory. It is called once to sum up the sizes, and once to set the addresses. */
static void slice_all(fedtrain_gpu_net *net) {
    const fed_arch *arch = net->arch;
    size_t at = 0;
    net->params = slice(net, &at, arch->layout.size * sizeof(float));
    net->grad = slice(net, &at, arch->trained * sizeof(float));
    net->batch = slice(net, &at, fedtrain_gpu_batch_bytes(net, net->max_batch));
    net->value[0] = net->batch != NULL ? (float *)(net->batch + FEDTRAIN_GPU_ALIGN) : NULL;
    net->losses = slice(net, &at, net->max_batch * numbers(arch) * sizeof(double));
    net->norm = slice(net, &at, FEDTRAIN_GPU_NORM_PARTS * sizeof(double));
    net->result = slice(net, &at, sizeof *net->result);
    slice_layers(net, &at);
    net->memory_size = at;
}

/* Kernels count values in 32 bits. An LSTM has 4 gates for each of its values. */
static fed_status check_sizes(const fedtrain_gpu_net *net, fed_error *err) {
    for (size_t v = 0; v <= net->arch->layer_count; v++) {
        const bool gates = v > 0 && net->arch->layers[v - 1].kind == FED_LAYER_LSTM;
        if (value_bytes(net, v) / sizeof(float) * (gates ? 4 : 1) >= UINT32_C(1) << 31) {
            return fed_fail(err, FED_EINVAL,
                            "a batch of %zu has 2^31 values or more in one layer, which the GPU "
                            "backend does not run: use smaller batches",
                            net->max_batch);
        }
    }
    return FED_OK;
}

static fed_status plan_host(fedtrain_gpu_net *net) {
    for (size_t k = 0; k < FEDTRAIN_GPU_SLOTS; k++) {
        void *batch, *result;
        FED_TRY(
            fed_gpu_alloc_host(net->gpu, fedtrain_gpu_batch_bytes(net, net->max_batch), &batch));
        net->slot[k].batch = batch;
        FED_TRY(fed_gpu_alloc_host(net->gpu, sizeof *net->slot[k].result, &result));
        net->slot[k].result = result;
        FED_TRY(fed_gpu_stream_new(net->gpu, NULL, &net->slot[k].reader));
    }
    net->host_room = net->max_batch * net->arch->positions * net->arch->classes;
    net->host = malloc(net->host_room * sizeof *net->host);
    return net->host != NULL ? FED_OK : FED_ENOMEM;
}

fed_status fedtrain_gpu_plan(fedtrain_gpu_net *net, fed_error *err) {
    const size_t layers = net->arch->layer_count;
    FED_TRY(check_sizes(net, err));
    net->value = calloc(layers + 1, sizeof *net->value);
    net->value_grad = calloc(layers + 1, sizeof *net->value_grad);
    net->kept = calloc(layers + 1, sizeof *net->kept);
    net->depends = calloc(layers + 1, sizeof *net->depends);
    FED_REQUIRE(net->value != NULL && net->value_grad != NULL && net->kept != NULL &&
                    net->depends != NULL,
                FED_ENOMEM);
    slice_all(net);
    void *memory;
    FED_TRY(fed_gpu_explain(net->gpu, fed_gpu_alloc(net->gpu, net->memory_size, &memory), err));
    net->memory = memory;
    slice_all(net);
    FED_TRY(plan_host(net));
    FED_TRY(fed_gpu_fill(net->stream, net->memory, 0, net->memory_size));
    return fed_gpu_sync(net->stream);
}

/* Return whether a later layer, which comes first in the backward pass, shares this layer's
 * weight. */
static bool shares_weight(const fed_arch *arch, size_t layer) {
    const fed_layer *l = &arch->layers[layer];
    for (size_t k = layer + 1; fedtrain_has_parameters(l) && k < arch->layer_count; k++) {
        const fed_layer *other = &arch->layers[k];
        if (fedtrain_has_parameters(other) && other->weight == l->weight) {
            return true;
        }
    }
    return false;
}

/* Return whether a later layer reads the value. If so, the value already has a gradient from that
 * layer. */
static bool is_read_after(const fed_arch *arch, size_t layer, uint32_t value) {
    for (size_t k = layer + 1; k < arch->layer_count; k++) {
        for (size_t i = 0; i < arch->layers[k].inputs; i++) {
            if (arch->layers[k].input[i] == value) {
                return true;
            }
        }
    }
    return false;
}

fedtrain_gpu_op fedtrain_gpu_op_of(const fedtrain_gpu_net *net, size_t layer, size_t batch,
                                   bool training) {
    const fed_layer *l = &net->arch->layers[layer];
    fedtrain_gpu_op op = {.arch = net->arch,
                          .layer = l,
                          .index = layer,
                          .stream = net->stream,
                          .module = net->module[layer],
                          .batch = (uint32_t)batch,
                          .max_batch = net->max_batch,
                          .training = training,
                          .seed = (const uint64_t *)net->batch,
                          .params = net->params,
                          .y = net->value[layer + 1],
                          .kept = net->kept[layer],
                          .work = net->work,
                          .dy = net->value_grad[layer + 1],
                          .grad = net->grad,
                          .adds_weight = shares_weight(net->arch, layer),
                          .failed = &net->result->failed};
    for (size_t i = 0; i < l->inputs; i++) {
        op.x[i] = net->value[l->input[i]];
        op.dx[i] = net->value_grad[l->input[i]];
        op.adds[i] = is_read_after(net->arch, layer, l->input[i]);
        for (size_t k = 0; k < i; k++) {
            op.adds[i] = op.adds[i] || l->input[k] == l->input[i];
        }
    }
    return op;
}
