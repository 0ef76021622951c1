/* A net: checks arguments, computes the loss, and leaves the layers to a backend. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fed/small.h"
#include "fedclient/train/denormal.h"
#include "fedclient/train/gather.h"
#include "fedclient/train/kernels.h"
#include "fedclient/train/update.h"
#include "fedtrain/backend.h"
#include "fedtrain/optimizer.h"

/* The gradient begins on a cache line, so that vectors do not cross two lines. */
enum { LINE_BYTES = 64 };

static size_t grad_bytes(const fed_arch *arch) {
    return (arch->trained * sizeof(float) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static bool allocate(fedtrain_net *net) {
    const fed_arch *arch = net->arch;
    const size_t labels = net->max_batch * arch->positions, scores = labels * arch->classes;
    const bool targets = !FED_SMALL && arch->loss == FED_LOSS_SQUARED;
    net->score = calloc(scores, sizeof *net->score);
    net->score_grad = calloc(scores, sizeof *net->score_grad);
    net->x = calloc(net->max_batch * fedtrain_shape_size(arch->input), sizeof *net->x);
    net->label = calloc(labels, sizeof *net->label);
    net->target = targets ? calloc(scores, sizeof *net->target) : NULL;
    net->index = calloc(net->max_batch, sizeof *net->index);
    net->grad = aligned_alloc(LINE_BYTES, grad_bytes(arch));
    return net->score != NULL && net->score_grad != NULL && net->x != NULL && net->label != NULL &&
           net->index != NULL && net->grad != NULL && (net->target != NULL || !targets);
}

static fed_status open_net(fedtrain_net *net, const char *backend, fed_error *err) {
    if (!FED_SMALL) {
        FED_TRY(fed_arch_require_layers(net->arch, err));
        FED_TRY(fedtrain_backend_fits(backend, net->arch, err));
    }
    FED_TRY(fedtrain_backend_find(backend, &net->backend, err));
    fed_status status =
        allocate(net) ? net->backend->open(net->arch, net->max_batch, backend, &net->work, err)
                      : FED_ENOMEM;
    return status != FED_ENOMEM
               ? status
               : fed_fail(err, status, "out of memory for a net with batches of %zu samples",
                          net->max_batch);
}

fed_status fedtrain_net_new(const fed_arch *arch, size_t max_batch, const char *backend,
                            fedtrain_net **net, fed_error *err) {
    FED_REQUIRE(max_batch > 0, FED_EINVAL);
    fedtrain_net *made = calloc(1, sizeof *made);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    made->arch = arch;
    made->max_batch = max_batch;
    fed_status status = open_net(made, backend, err);
    if (status != FED_OK) {
        fedtrain_net_free(made);
        return status;
    }
    *net = made;
    return FED_OK;
}

const char *fedtrain_net_backend(const fedtrain_net *net) {
    return net->backend->name;
}

void fedtrain_net_free(fedtrain_net *net) {
    if (net == NULL) {
        return;
    }
    if (net->work != NULL) {
        net->backend->close(net->work);
    }
    free(net->score);
    free(net->score_grad);
    free(net->x);
    free(net->label);
    free(net->target);
    free(net->index);
    free(net->grad);
    free(net);
}

fedtrain_memory fedtrain_net_memory(const fedtrain_net *net) {
    const fed_arch *arch = net->arch;
    size_t labels = arch->positions, scores = labels * arch->classes;
    fedtrain_memory m = {0};
    m.batch = net->max_batch *
              (fedtrain_shape_size(arch->input) * sizeof *net->x + labels * sizeof *net->label +
               scores * (sizeof *net->score + sizeof *net->score_grad) + sizeof *net->index +
               (net->target != NULL ? scores * sizeof *net->target : 0));
    m.parameters = grad_bytes(arch);
    net->backend->memory(net->work, &m);
    m.workspace += sizeof *net;
    m.total = m.batch + m.activations + m.gradients + m.parameters + m.workspace;
    return m;
}

const char *fedtrain_isa(const char *backend) {
    if (FED_SMALL || backend == NULL || strcmp(backend, "fast") == 0) {
        return fedtrain_kernels_best()->isa;
    }
    return strcmp(backend, "bfloat16") == 0 ? fedtrain_kernels_bfloat16(0)->isa : backend;
}

/* A small build's only backend fails in open only, so its status is returned as it is. */
fed_status fedtrain_net_explain(const fedtrain_net *net, fed_status status, const char *what,
                                fed_error *err) {
    fed_error why = {0};
    if (FED_SMALL || status == FED_OK) {
        return status;
    }
    if (net->backend->device != NULL) {
        (void)!net->backend->device->explain(net->work, status, &why);
    }
    return fed_fail(err, status, "the backend \"%s\" failed in %s: %s", net->backend->name, what,
                    why.text[0] != '\0' ? why.text : fed_status_text(status));
}

static fedtrain_pass pass_of(const float *params, const fedtrain_batch *batch, bool training) {
    return (fedtrain_pass){.params = params,
                           .x = batch->x,
                           .batch = batch->size,
                           .training = training,
                           .seed = batch->seed};
}

static fed_status fail_nonfinite(const fedtrain_net *net, const float *params, fed_error *err) {
    const fed_arch *arch = net->arch;
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *t = &arch->layout.tensors[i];
        if (fed_first_nonfinite(params + t->offset, t->size) < t->size) {
            return fed_fail(err, FED_ENONFINITE, "tensor %s holds NaN or infinity", t->name);
        }
    }
    for (size_t l = 0; l < arch->layer_count; l++) {
        size_t n = 0;
        const float *value = net->backend->output(net->work, l, &n);
        if (fed_first_nonfinite(value, n) < n) {
            char name[FED_TENSOR_NAME];
            fed_arch_layer_name(arch, l, name, sizeof name);
            return fed_fail(err, FED_ENONFINITE, "%s gives NaN or infinity", name);
        }
    }
    return fed_fail(err, FED_ENONFINITE, "the loss is not a finite number");
}

static fed_status loss_forward(fedtrain_net *net, const fedtrain_pass *pass,
                               const fedtrain_batch *batch, float *loss, fed_error *err) {
    const fed_arch *arch = net->arch;
    const bool squared = !FED_SMALL && arch->loss == FED_LOSS_SQUARED;
    const size_t positions = batch->size * arch->positions;
    const fedtrain_labels labels = {.label = batch->label, .target = batch->target};
    double sum = 0;
    const fed_status status = net->backend->forward(net->work, pass, net->score);
    if (!FED_SMALL && pass->arrivals != NULL && pass->arrivals->status != FED_OK) {
        return status; /* the status of `need`, which has filled in *err */
    }
    FED_TRY(fedtrain_net_explain(net, status, "a forward pass", err));
    FED_TRY(fedtrain_net_explain(
        net, net->backend->loss(net->work, net->score, &labels, positions, net->score_grad, &sum),
        "computing the loss", err));
    const float mean = (float)(sum / (double)(squared ? positions * arch->classes : positions));
    if (!isfinite(mean)) {
        return fail_nonfinite(net, pass->params, err);
    }
    *loss = mean;
    return FED_OK;
}

static fed_status run_backward(fedtrain_net *net, const fedtrain_pass *pass,
                               const fedtrain_gradient *to, fed_error *err) {
    return fedtrain_net_explain(net, net->backend->backward(net->work, pass, net->score_grad, to),
                                "a backward pass", err);
}

static fed_status check_samples(const fedtrain_net *net, const fedtrain_batch *batch,
                                fed_error *err) {
    const fed_arch *arch = net->arch;
    FED_TRY(fedtrain_check_batch(net, batch->size, err));
    size_t tokens =
        !FED_SMALL && arch->words > 0 ? batch->size * fedtrain_shape_size(arch->input) : 0;
    for (size_t i = 0; i < tokens; i++) {
        if (!(batch->x[i] >= 0 && batch->x[i] < (float)arch->words)) {
            return fed_fail(err, FED_ERANGE,
                            "token %zu of the batch is %g: the model knows 0 to %" PRIu32, i,
                            (double)batch->x[i], arch->words - 1);
        }
    }
    return FED_OK;
}

static fed_status check_batch(const fedtrain_net *net, const fedtrain_batch *batch,
                              fed_error *err) {
    const fed_arch *arch = net->arch;
    FED_TRY(check_samples(net, batch, err));
    if (arch->loss == FED_LOSS_SQUARED) {
        return batch->target != NULL
                   ? FED_OK
                   : fed_fail(
                         err, FED_EINVAL,
                         "the batch has no targets: the model's loss, squared error, needs them");
    }
    if (batch->label == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "the batch has no labels: the model's loss, cross-entropy, needs them");
    }
    for (size_t i = 0; i < batch->size * arch->positions; i++) {
        if (batch->label[i] >= arch->classes) {
            return fed_fail(err, FED_ERANGE,
                            "label %zu of the batch is %" PRIu32 ": the model knows 0 to %" PRIu32,
                            i, batch->label[i], arch->classes - 1);
        }
    }
    return FED_OK;
}

fed_status fedtrain_net_gradient_to(fedtrain_net *net, const float *params,
                                    const fedtrain_batch *batch, const fedtrain_sink *sink,
                                    float *grad, float *loss, fed_error *err) {
    FED_TRY(check_batch(net, batch, err));
    fedtrain_pass pass = pass_of(params, batch, true);
    const fedtrain_gradient to = {.at = grad, .sink = *sink};
    fedtrain_arrivals arrivals = {.sink = &to.sink, .err = err};
    pass.arrivals = sink->need != NULL ? &arrivals : NULL;
    uint64_t saved = fedtrain_denormal_flush();
    fed_status status = loss_forward(net, &pass, batch, loss, err);
    if (status == FED_OK) {
        status = run_backward(net, &pass, &to, err);
    }
    fedtrain_denormal_restore(saved);
    return status;
}

fed_status fedtrain_net_gradient(fedtrain_net *net, const float *params,
                                 const fedtrain_batch *batch, float *grad, float *loss,
                                 fed_error *err) {
    const fedtrain_sink nobody = {.done = NULL};
    return fedtrain_net_gradient_to(net, params, batch, &nobody, grad, loss, err);
}

fed_status fedtrain_net_keep_statistics(fedtrain_net *net, float *params, fed_error *err) {
    return fedtrain_net_explain(net, net->backend->keep_statistics(net->work, params),
                                "keeping running statistics", err);
}

/* Take an optimizer step with the gradient of the last forward pass. Clipping by norm needs the
 * whole gradient before any parameter is updated; otherwise layers are updated one by one. */
static fed_status step(fedtrain_net *net, const fedtrain_pass *pass, fedtrain_updater *u,
                       fed_error *err) {
    const bool clips = !FED_SMALL && u->update.clip_norm > 0 && !net->away;
    fedtrain_gradient to = {.at = net->grad};
    if (!clips) {
        to.sink = fedtrain_update_sink(u);
        to.update = &u->update;
    }
    FED_TRY(run_backward(net, pass, &to, err));
    if (clips) {
        fedtrain_update_clip(u, net->grad, net->arch->trained);
        fedtrain_update_apply(u, 0, net->grad, net->arch->trained);
    }
    return fedtrain_net_keep_statistics(net, u->update.params, err);
}

static bool is_on_device(const fedtrain_net *net) {
    return !FED_SMALL && net->away && net->backend->device != NULL;
}

bool fedtrain_net_runs_ahead(const fedtrain_net *net, const fed_optimizer *optimizer) {
    return is_on_device(net) && optimizer->stall_window <= 0;
}

fed_status fedtrain_net_start(fedtrain_net *net, const fedtrain_batch *batch,
                              const fedtrain_sink *sink, fed_error *err) {
    FED_TRY(check_batch(net, batch, err));
    if (net->open == FEDTRAIN_NET_OPEN) {
        return fed_fail(
            err, FED_ESTATE,
            "two passes are open, the most there can be: read the loss of the first one");
    }
    const fedtrain_pass pass = pass_of(NULL, batch, true);
    const fedtrain_labels labels = {.label = batch->label, .target = batch->target};
    FED_TRY(fedtrain_net_explain(net, net->backend->device->start(net->work, &pass, &labels, sink),
                                 "a pass", err));
    net->open_size[net->open++] = batch->size;
    return FED_OK;
}

static fed_status find_nonfinite(fedtrain_net *net, fed_error *err) {
    float *params = malloc(net->arch->layout.size * sizeof *params);
    if (params == NULL) {
        return fed_fail(err, FED_ENONFINITE, "the loss is not a finite number");
    }
    fed_status status = net->backend->device->again(net->work, params);
    status = status == FED_OK ? fail_nonfinite(net, params, err)
                              : fedtrain_net_explain(net, status, "a forward pass", err);
    free(params);
    return status;
}

fed_status fedtrain_net_wait(fedtrain_net *net, float *loss, fed_error *err) {
    const fed_arch *arch = net->arch;
    double sum = 0;
    if (net->open == 0) {
        return fed_fail(err, FED_ESTATE,
                        "no pass is open whose loss could be read: start one first");
    }
    const size_t positions = net->open_size[0] * arch->positions;
    net->open_size[0] = net->open_size[1];
    net->open--;
    FED_TRY(fedtrain_net_explain(net, net->backend->device->wait(net->work, &sum),
                                 "computing the loss", err));
    const bool squared = arch->loss == FED_LOSS_SQUARED;
    const float mean = (float)(sum / (double)(squared ? positions * arch->classes : positions));
    if (!isfinite(mean)) {
        net->open = 0;
        return find_nonfinite(net, err);
    }
    *loss = mean;
    return FED_OK;
}

fed_status fedtrain_net_update(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                               float *state, fed_error *err) {
    const size_t n = net->arch->trained;
    net->before = fedtrain_counters_of(optimizer, state, n);
    const fedtrain_updater u = fedtrain_update_begin(optimizer, state, params, n);
    FED_TRY(fedtrain_net_explain(
        net, net->backend->device->update(net->work, &u.update, 0, n, NULL), "a step", err));
    return fedtrain_net_keep_statistics(net, params, err);
}

void fedtrain_net_undo(const fedtrain_net *net, const fed_optimizer *optimizer, float *state) {
    fedtrain_counters_put(optimizer, state, net->arch->trained, net->before);
}

static fed_status step_on_device(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                                 float *state, const fedtrain_batch *batch, float *loss,
                                 fed_error *err) {
    FED_TRY(fedtrain_net_start(net, batch, NULL, err));
    FED_TRY(fedtrain_net_wait(net, loss, err));
    fedtrain_optimizer_see_loss(optimizer, state, net->arch->trained, *loss);
    return fedtrain_net_update(net, optimizer, params, state, err);
}

fed_status fedtrain_net_step(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                             float *state, const fedtrain_batch *batch, float *loss,
                             fed_error *err) {
    if (is_on_device(net)) {
        return step_on_device(net, optimizer, params, state, batch, loss, err);
    }
    FED_TRY(check_batch(net, batch, err));
    const size_t n = net->arch->trained;
    fedtrain_pass pass = pass_of(params, batch, true);
    uint64_t saved = fedtrain_denormal_flush();
    fed_status status = loss_forward(net, &pass, batch, loss, err);
    if (status == FED_OK) {
        fedtrain_optimizer_see_loss(optimizer, state, n, *loss);
        fedtrain_updater u = fedtrain_update_begin(optimizer, state, params, n);
        status = step(net, &pass, &u, err);
    }
    fedtrain_denormal_restore(saved);
    return status;
}

fed_status fedtrain_net_forward(fedtrain_net *net, const float *params, const fedtrain_batch *batch,
                                float *score, fed_error *err) {
    FED_TRY(check_samples(net, batch, err));
    fedtrain_pass pass = pass_of(params, batch, false);
    uint64_t saved = fedtrain_denormal_flush();
    fed_status status = net->backend->forward(net->work, &pass, score);
    fedtrain_denormal_restore(saved);
    return fedtrain_net_explain(net, status, "a forward pass", err);
}

fed_status fedtrain_net_begin(fedtrain_net *net, const float *params, const float *state,
                              size_t states, fed_error *err) {
    if (FED_SMALL || net->backend->begin == NULL) {
        return FED_OK;
    }
    FED_TRY(fedtrain_net_explain(net, net->backend->begin(net->work, params, state, states),
                                 "taking the parameters", err));
    net->away = true;
    net->open = 0;
    return FED_OK;
}

fed_status fedtrain_net_end(fedtrain_net *net, float *params, float *state, fed_error *err) {
    if (FED_SMALL || net->backend->end == NULL) {
        return FED_OK;
    }
    net->away = false;
    return fedtrain_net_explain(net, net->backend->end(net->work, params, state),
                                "giving the parameters back", err);
}

void fedtrain_net_forget(fedtrain_net *net) {
    net->backend->forget(net->work);
}
