/* The GPU backend: parameters, values and gradients are in the memory of a device of fed/gpu.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedclient/train/backends/gpu/gpu_net.h"
#include "fedclient/train/loss.h"
#include "fedtrain/net.h"

static fed_status build(fedtrain_gpu_net *net, const char *text, const fed_gpu_module **module,
                        fed_error *err) {
    const size_t size = strlen(fedtrain_gpu_trainer_text) + strlen(text) + 1;
    char *source = malloc(size);
    FED_REQUIRE(source != NULL, FED_ENOMEM);
    strcpy(source, fedtrain_gpu_trainer_text); /* NOLINT: source is long enough */
    strcat(source, text);                      /* NOLINT */
    fed_status status = fed_gpu_build(net->gpu, source, module, err);
    free(source);
    return status;
}

static const char *text_of(const fedtrain_gpu_net *net, size_t layer) {
    return fedtrain_gpu_kind_of(net->arch->layers[layer].kind)->text;
}

static fed_status build_all(fedtrain_gpu_net *net, fed_error *err) {
    const size_t layers = net->arch->layer_count;
    net->module = calloc(layers + 1, sizeof(const void *));
    FED_REQUIRE(net->module != NULL, FED_ENOMEM);
    FED_TRY(build(net, fedtrain_gpu_step_text, &net->step, err));
    for (size_t l = 0; l < layers; l++) {
        size_t same = 0;
        while (text_of(net, same) != text_of(net, l)) {
            same++;
        }
        if (same < l) {
            net->module[l] = net->module[same];
        } else {
            FED_TRY(build(net, text_of(net, l), &net->module[l], err));
        }
    }
    return FED_OK;
}

static void gpu_close(void *self) {
    fedtrain_gpu_net *net = self;
    if (net->stream != NULL) {
        (void)!fed_gpu_sync(net->stream);
    }
    fed_gpu_graph_free(net->whole.graph);
    fed_gpu_graph_free(net->statistics.graph);
    fed_gpu_stream_free(net->stream);
    for (size_t k = 0; net->gpu != NULL && k < FEDTRAIN_GPU_SLOTS; k++) {
        fed_gpu_stream_free(net->slot[k].reader);
        fed_gpu_free_host(net->gpu, net->slot[k].batch);
        fed_gpu_free_host(net->gpu, net->slot[k].result);
    }
    if (net->gpu != NULL) {
        fed_gpu_free(net->gpu, net->state);
        fed_gpu_free(net->gpu, net->memory);
    }
    fed_gpu_close(net->gpu);
    free(net->module);
    free(net->value);
    free(net->value_grad);
    free(net->kept);
    free(net->depends);
    free(net->host);
    free(net);
}

static fed_status open_net(fedtrain_gpu_net *net, const char *device, fed_error *err) {
    FED_TRY(fed_gpu_open(device, getenv("FED_GPU_CACHE"), &net->gpu, err));
    FED_TRY(fed_gpu_explain(net->gpu, fed_gpu_stream_new(net->gpu, NULL, &net->stream), err));
    FED_TRY(build_all(net, err));
    return fedtrain_gpu_plan(net, err);
}

static fed_status gpu_open(const fed_arch *arch, size_t max_batch, const char *device, void **self,
                           fed_error *err) {
    fedtrain_gpu_net *net = calloc(1, sizeof *net);
    FED_REQUIRE(net != NULL, FED_ENOMEM);
    net->arch = arch;
    net->max_batch = max_batch;
    fed_status status = open_net(net, device, err);
    if (status != FED_OK) {
        gpu_close(net);
        return status;
    }
    *self = net;
    return FED_OK;
}

static void gpu_memory(const void *self, fedtrain_memory *memory) {
    const fedtrain_gpu_net *net = self;
    memory->activations += net->activations;
    memory->gradients += net->gradients;
    memory->workspace += net->memory_size - net->activations - net->gradients + sizeof *net +
                         net->host_room * sizeof *net->host;
}

static fed_status room_for_state(fedtrain_gpu_net *net, size_t states) {
    if (states <= net->state_room) {
        return FED_OK;
    }
    void *made;
    FED_TRY(fed_gpu_alloc(net->gpu, states * sizeof(float), &made));
    fed_gpu_free(net->gpu, net->state);
    net->state = made;
    net->state_room = states;
    return FED_OK;
}

static fed_status gpu_begin(void *self, const float *params, const float *state, size_t states) {
    fedtrain_gpu_net *net = self;
    FED_TRY(room_for_state(net, states));
    FED_TRY(fed_gpu_copy(net->stream, net->params, params, net->arch->layout.size * sizeof *params,
                         FED_GPU_UP));
    if (states > 0) {
        FED_TRY(fed_gpu_copy(net->stream, net->state, state, states * sizeof *state, FED_GPU_UP));
    }
    FED_TRY(fed_gpu_fill(net->stream, net->result, 0, sizeof *net->result));
    FED_TRY(fed_gpu_sync(net->stream));
    net->resident = true;
    net->host_params = params;
    net->host_state = state;
    net->moments = 0;
    net->open = 0;
    return FED_OK;
}

/* Copy parameters and moments back. The moments are the first part of the optimizer's state. The
 * rest of the state is not copied, since it does not change on the device. */
static fed_status gpu_end(void *self, float *params, float *state) {
    fedtrain_gpu_net *net = self;
    const size_t moments = net->moments * net->arch->trained;
    net->resident = false;
    net->open = 0;
    if (params != NULL) {
        FED_TRY(fed_gpu_copy(net->stream, params, net->params,
                             net->arch->layout.size * sizeof *params, FED_GPU_DOWN));
    }
    if (state != NULL && moments > 0) {
        FED_TRY(
            fed_gpu_copy(net->stream, state, net->state, moments * sizeof *state, FED_GPU_DOWN));
    }
    return fed_gpu_sync(net->stream);
}

static fed_status bring_parameters(fedtrain_gpu_net *net, const fedtrain_pass *pass) {
    if (net->resident) {
        return FED_OK;
    }
    for (size_t l = 0; l < net->arch->layer_count; l++) {
        FED_TRY(fedtrain_pass_need(pass, net->arch, l));
    }
    FED_TRY(fed_gpu_fill(net->stream, net->result, 0, sizeof *net->result));
    return fed_gpu_copy(net->stream, net->params, pass->params,
                        net->arch->layout.size * sizeof *pass->params, FED_GPU_UP);
}

/* Transpose each sample: the net's last value is in the order (class, position), scores are in the
 * order (position, class). */
static void transpose(const float *from, float *to, size_t batch, size_t rows, size_t columns) {
    for (size_t b = 0; b < batch; b++) {
        for (size_t r = 0; r < rows; r++) {
            for (size_t c = 0; c < columns; c++) {
                to[(b * columns + c) * rows + r] = from[(b * rows + r) * columns + c];
            }
        }
    }
}

static fed_status gpu_forward(void *self, const fedtrain_pass *pass, float *score) {
    fedtrain_gpu_net *net = self;
    const fed_arch *arch = net->arch;
    const size_t n = pass->batch * arch->positions * arch->classes;
    FED_TRY(bring_parameters(net, pass));
    FED_TRY(fedtrain_gpu_bring(net, pass, NULL));
    FED_TRY(fedtrain_gpu_forward(net, pass->batch, pass->training));
    FED_TRY(fed_gpu_copy(net->stream, net->host, net->value[arch->layer_count],
                         n * sizeof *net->host, FED_GPU_DOWN));
    FED_TRY(fed_gpu_sync(net->stream));
    transpose(net->host, score, pass->batch, arch->classes, arch->positions);
    return FED_OK;
}

static fed_status gpu_loss(void *self, const float *score, const fedtrain_labels *labels, size_t n,
                           float *score_grad, double *sum) {
    const fedtrain_gpu_net *net = self;
    fedtrain_loss(net->arch, score, labels, n, score_grad, sum);
    return FED_OK;
}

static fed_status gpu_backward(void *self, const fedtrain_pass *pass, const float *score_grad,
                               const fedtrain_gradient *to) {
    fedtrain_gpu_net *net = self;
    const fed_arch *arch = net->arch;
    const size_t scores = pass->batch * arch->positions * arch->classes;
    transpose(score_grad, net->host, pass->batch, arch->positions, arch->classes);
    FED_TRY(fed_gpu_copy(net->stream, net->value_grad[arch->layer_count], net->host,
                         scores * sizeof *net->host, FED_GPU_UP));
    for (size_t l = arch->layer_count; l-- > 0;) {
        FED_TRY(fedtrain_gpu_backward(net, l, pass->batch));
    }
    FED_TRY(
        fed_gpu_copy(net->stream, to->at, net->grad, arch->trained * sizeof *to->at, FED_GPU_DOWN));
    FED_TRY(fed_gpu_sync(net->stream));
    for (size_t l = arch->layer_count; l-- > 0 && to->sink.done != NULL;) {
        size_t at = 0;
        const size_t n = fedtrain_own_parameters(arch, l, &at);
        if (n > 0) {
            to->sink.done(to->sink.user, at, to->at + at, n);
        }
    }
    return FED_OK;
}

static fed_status gpu_keep_statistics(void *self, float *params) {
    fedtrain_gpu_net *net = self;
    const fed_arch *arch = net->arch;
    if (net->resident) {
        return fedtrain_gpu_follow_statistics(net);
    }
    FED_TRY(fedtrain_gpu_keep_statistics(net));
    for (size_t l = 0; l < arch->layer_count; l++) {
        if (arch->layers[l].kind == FED_LAYER_BATCHNORM) { /* mean and variance lie side by side */
            const fed_tensor *mean = &arch->layout.tensors[arch->layers[l].state];
            FED_TRY(fed_gpu_copy(net->stream, params + mean->offset, net->params + mean->offset,
                                 2 * mean->size * sizeof *params, FED_GPU_DOWN));
        }
    }
    return fed_gpu_sync(net->stream);
}

static void gpu_forget(void *self) {
    fedtrain_gpu_net *net = self;
    for (size_t l = 0; l < net->arch->layer_count; l++) {
        const fed_layer *layer = &net->arch->layers[l];
        const fedtrain_gpu_kind *kind = fedtrain_gpu_kind_of(layer->kind);
        if (kind->forgets) { /* if the fill fails, the next pass reports it */
            (void)!fed_gpu_fill(net->stream, net->kept[l], 0,
                                kind->kept_bytes(layer, net->max_batch));
        }
    }
}

static const float *gpu_output(const void *self, size_t l, size_t *n) {
    fedtrain_gpu_net *net = (fedtrain_gpu_net *)self;
    const size_t values = net->last_size * fedtrain_shape_size(net->arch->layers[l].out);
    *n = 0;
    if (values > net->host_room) {
        float *more = realloc(net->host, values * sizeof *more);
        if (more == NULL) {
            return net->host;
        }
        net->host = more;
        net->host_room = values;
    }
    if (fed_gpu_copy(net->stream, net->host, net->value[l + 1], values * sizeof(float),
                     FED_GPU_DOWN) == FED_OK &&
        fed_gpu_sync(net->stream) == FED_OK) {
        *n = values;
    }
    return net->host;
}

extern const fedtrain_backend_vtable fedtrain_backend_gpu;

const fedtrain_backend_vtable fedtrain_backend_gpu = {
    .name = "gpu",
    .open = gpu_open,
    .close = gpu_close,
    .memory = gpu_memory,
    .begin = gpu_begin,
    .end = gpu_end,
    .forward = gpu_forward,
    .loss = gpu_loss,
    .backward = gpu_backward,
    .keep_statistics = gpu_keep_statistics,
    .forget = gpu_forget,
    .output = gpu_output,
    .device = &fedtrain_gpu_device,
};
