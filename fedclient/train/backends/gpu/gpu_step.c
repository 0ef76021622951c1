/* Steps of a net whose parameters stay on a GPU. The caller starts them, and does not wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_net.h"

static fed_status step_explain(void *self, fed_status status, fed_error *err) {
    const fedtrain_gpu_net *net = self;
    return fed_gpu_explain(net->gpu, status, err);
}

static fed_gpu *step_gpu(void *self) {
    const fedtrain_gpu_net *net = self;
    return net->gpu;
}

static fed_gpu_stream *step_stream(void *self) {
    const fedtrain_gpu_net *net = self;
    return net->stream;
}

static float *step_params(void *self) {
    const fedtrain_gpu_net *net = self;
    return net->params;
}

static float *step_gradient(void *self) {
    const fedtrain_gpu_net *net = self;
    return net->grad;
}

static fed_status backward(fedtrain_gpu_net *net, size_t batch, const fedtrain_sink *sink) {
    for (size_t l = net->arch->layer_count; l-- > 0;) {
        size_t at = 0;
        FED_TRY(fedtrain_gpu_backward(net, l, batch));
        const size_t n = fedtrain_own_parameters(net->arch, l, &at);
        if (n > 0 && sink != NULL && sink->done != NULL) {
            sink->done(sink->user, at, net->grad + at, n);
        }
    }
    return FED_OK;
}

static fed_status launch_pass(fedtrain_gpu_net *net, const fedtrain_sink *sink) {
    FED_TRY(fedtrain_gpu_forward(net, net->last_size, true));
    FED_TRY(fedtrain_gpu_loss(net, net->last_size));
    return backward(net, net->last_size, sink);
}

static fed_status launch_whole(fedtrain_gpu_net *net) {
    return launch_pass(net, NULL);
}

/* Run launches that depend only on the batch's size, by a recording. It is made anew if the last
 * call was for another size. */
static fed_status run_recorded(fedtrain_gpu_net *net, fedtrain_gpu_record *record,
                               fed_status (*launches)(fedtrain_gpu_net *net)) {
    if (record->graph == NULL || record->size != net->last_size) {
        fed_gpu_graph *graph = NULL;
        FED_TRY(fed_gpu_sync(net->stream)); /* the older graph may still run */
        fed_gpu_graph_free(record->graph);
        record->graph = NULL;
        FED_TRY(fed_gpu_keep(net->stream));
        const fed_status status = launches(net);
        const fed_status kept = fed_gpu_kept(net->stream, &graph);
        if (status != FED_OK || kept != FED_OK) {
            fed_gpu_graph_free(graph);
            return status != FED_OK ? status : kept;
        }
        *record = (fedtrain_gpu_record){.graph = graph, .size = net->last_size};
    }
    return fed_gpu_replay(net->stream, record->graph);
}

fed_status fedtrain_gpu_follow_statistics(fedtrain_gpu_net *net) {
    bool any = false;
    for (size_t l = 0; l < net->arch->layer_count; l++) {
        any |= fedtrain_gpu_kind_of(net->arch->layers[l].kind)->keep_statistics != NULL;
    }
    return any ? run_recorded(net, &net->statistics, fedtrain_gpu_keep_statistics) : FED_OK;
}

/* With a sink, the launches are not recorded, since the sink puts events between them. */
static fed_status step_start(void *self, const fedtrain_pass *pass, const fedtrain_labels *labels,
                             const fedtrain_sink *sink) {
    fedtrain_gpu_net *net = self;
    fedtrain_gpu_slot *slot = &net->slot[net->next];
    FED_REQUIRE(net->resident && net->open < FEDTRAIN_GPU_SLOTS, FED_ESTATE);
    FED_TRY(fedtrain_gpu_bring(net, pass, labels));
    FED_TRY(sink != NULL ? launch_pass(net, sink) : run_recorded(net, &net->whole, launch_whole));
    FED_TRY(
        fed_gpu_copy(net->stream, slot->result, net->result, sizeof *slot->result, FED_GPU_DOWN));
    FED_TRY(fed_gpu_after(slot->reader, net->stream));
    net->open++;
    return FED_OK;
}

static fed_status step_wait(void *self, double *sum) {
    fedtrain_gpu_net *net = self;
    FED_REQUIRE(net->open > 0, FED_ESTATE);
    net->waited = (net->next + FEDTRAIN_GPU_SLOTS - net->open) % FEDTRAIN_GPU_SLOTS;
    net->open--;
    FED_TRY(fed_gpu_sync(net->slot[net->waited].reader));
    *sum = net->slot[net->waited].result->loss;
    return FED_OK;
}

static fed_status step_again(void *self, float *params) {
    fedtrain_gpu_net *net = self;
    const fedtrain_gpu_slot *slot = &net->slot[net->waited];
    net->open = 0;
    net->last_size = slot->size;
    FED_TRY(fed_gpu_copy(net->stream, net->batch, slot->batch,
                         fedtrain_gpu_batch_bytes(net, slot->size), FED_GPU_UP));
    FED_TRY(fedtrain_gpu_forward(net, slot->size, true));
    FED_TRY(fed_gpu_copy(net->stream, params, net->params, net->arch->layout.size * sizeof *params,
                         FED_GPU_DOWN));
    return fed_gpu_sync(net->stream);
}

/* The same struct as in step.cl. */
typedef struct numbers {
    float mu, limit, scale, decay, share, rate, beta1, beta2;
    float fresh1, fresh2, scale2, epsilon, keep;
    uint32_t rule, shaped, nesterov, clips;
} numbers;

static numbers numbers_of(const fedtrain_update *u) {
    const fedtrain_step *s = &u->step;
    return (numbers){.mu = s->mu,
                     .limit = s->limit,
                     .scale = s->scale,
                     .decay = s->decay,
                     .share = s->share,
                     .rate = s->rate,
                     .beta1 = s->beta1,
                     .beta2 = s->beta2,
                     .fresh1 = s->fresh1,
                     .fresh2 = s->fresh2,
                     .scale2 = s->scale2,
                     .epsilon = s->epsilon,
                     .keep = s->keep,
                     .rule = u->rule,
                     .shaped = s->shaped,
                     .nesterov = s->nesterov,
                     .clips = u->clip_norm > 0};
}

/* Return the place in the device's copy of the state for a part of the caller's state. */
static float *there(const fedtrain_gpu_net *net, const float *part, size_t offset) {
    return part != NULL ? net->state + (part - net->host_state) + offset : NULL;
}

static fed_status find_scale(fedtrain_gpu_net *net, const fedtrain_update *u, const float *grad) {
    const numbers s = numbers_of(u);
    const uint32_t n = (uint32_t)net->arch->trained;
    const fed_gpu_arg parts[] = {
        FED_GPU_VALUE(s), FED_GPU_AT(net->params), FED_GPU_AT(there(net, u->start, 0)),
        FED_GPU_AT(grad), FED_GPU_VALUE(n),        FED_GPU_AT(net->norm)};
    const fed_gpu_arg scale[] = {FED_GPU_AT(net->norm), FED_GPU_VALUE(u->clip_norm),
                                 FED_GPU_AT(net->result)};
    FED_TRY(
        fed_gpu_launch(net->stream, net->step, "norm_parts", FEDTRAIN_GPU_NORM_PARTS, parts, 6));
    return fed_gpu_launch(net->stream, net->step, "norm_scale", 1, scale, 3);
}

static fed_status step_update(void *self, const fedtrain_update *u, size_t offset, size_t count,
                              const float *grad) {
    fedtrain_gpu_net *net = self;
    const float *from = grad != NULL ? grad : net->grad + offset;
    const uint32_t n = (uint32_t)count;
    const numbers s = numbers_of(u);
    FED_REQUIRE(net->resident && u->params == net->host_params, FED_ESTATE);
    if (u->clip_norm > 0) {
        FED_REQUIRE(count == net->arch->trained, FED_EINVAL); /* the norm is of all parameters */
        FED_TRY(find_scale(net, u, from));
    }
    const float *control = u->own != NULL ? net->params + u->control + offset : NULL;
    const float *first = u->rule != FED_SGD ? there(net, u->first, offset) : NULL;
    net->moments = u->second != NULL ? 2 : first != NULL ? 1 : net->moments;
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s),
                                FED_GPU_AT(net->params + offset),
                                FED_GPU_AT(first),
                                FED_GPU_AT(there(net, u->second, offset)),
                                FED_GPU_AT(there(net, u->start, offset)),
                                FED_GPU_AT(control),
                                FED_GPU_AT(there(net, u->own, offset)),
                                FED_GPU_AT(from),
                                FED_GPU_VALUE(n),
                                FED_GPU_AT(net->result)};
    return fed_gpu_launch(net->stream, net->step, "update", fedtrain_gpu_groups(n, 1), args, 10);
}

const fedtrain_device_vtable fedtrain_gpu_device = {
    .explain = step_explain,
    .gpu = step_gpu,
    .stream = step_stream,
    .params = step_params,
    .gradient = step_gradient,
    .start = step_start,
    .wait = step_wait,
    .again = step_again,
    .update = step_update,
};
