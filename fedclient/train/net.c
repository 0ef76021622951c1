/* A net: checks arguments, computes the loss, and leaves the layers to a backend. */
#include "fedtrain/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fed/small.h"
#include "fedclient/train/denormal.h"
#include "fedclient/train/net_impl.h"

static const fedtrain_backend_vtable *const backends[] = {
    [FEDTRAIN_FAST] = &fedtrain_backend_fast,
    [FEDTRAIN_REFERENCE] = FED_UNLESS_SMALL(&fedtrain_backend_reference),
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

/* Vectors that straddle cache lines cost twice, so the gradient starts on one, and takes whole
 * ones.
 */
enum { LINE_BYTES = 64 };

static size_t grad_bytes(const fed_arch *arch) {
    return (arch->trained * sizeof(float) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

fed_status fedtrain_net_new(const fed_arch *arch, size_t max_batch, fedtrain_backend backend,
                            fedtrain_net **net) {
    FED_REQUIRE(max_batch > 0 && (size_t)backend < BACKENDS && backends[backend] != NULL,
                FED_EINVAL);
    fedtrain_net *made = calloc(1, sizeof *made);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    made->arch = arch;
    made->backend = backends[backend];
    made->max_batch = max_batch;
    size_t labels = max_batch * arch->positions, scores = labels * arch->classes;
    made->score = calloc(scores, sizeof *made->score);
    made->score_grad = calloc(scores, sizeof *made->score_grad);
    made->x = calloc(max_batch * fedtrain_shape_size(arch->input), sizeof *made->x);
    made->label = calloc(labels, sizeof *made->label);
    const bool targets = !FED_SMALL && arch->loss == FED_LOSS_SQUARED;
    made->target = targets ? calloc(scores, sizeof *made->target) : NULL;
    made->index = calloc(max_batch, sizeof *made->index);
    made->grad = aligned_alloc(LINE_BYTES, grad_bytes(arch));
    fed_status status = FED_ENOMEM;
    if (made->score != NULL && made->score_grad != NULL && made->x != NULL && made->label != NULL &&
        made->index != NULL && made->grad != NULL && (made->target != NULL || !targets)) {
        status = made->backend->open(arch, max_batch, &made->work);
    }
    if (status != FED_OK) {
        fedtrain_net_free(made);
        return status;
    }
    *net = made;
    return FED_OK;
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

/* ---- The loss ---- */

double fedtrain_net_cross_entropy(const fedtrain_net *net, const float *score, size_t label,
                                  float scale, float *grad) {
    return net->backend->cross_entropy(net->work, score, label, scale, grad);
}

/* The mean over n positions, and its gradient by the scores. */
static double cross_entropy(fedtrain_net *net, const uint32_t *label, size_t n) {
    size_t classes = net->arch->classes;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += fedtrain_net_cross_entropy(net, net->score + i * classes, label[i], 1.0F / (float)n,
                                          net->score_grad + i * classes);
    }
    return sum / (double)n;
}

/* The mean over n numbers, and its gradient. */
static double squared_error(fedtrain_net *net, const float *target, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        float miss = net->score[i] - target[i];
        sum += (double)miss * miss;
        net->score_grad[i] = 2.0F * miss / (float)n;
    }
    return sum / (double)n;
}

static fedtrain_pass pass_of(const float *params, const fedtrain_batch *batch, bool training) {
    return (fedtrain_pass){.params = params,
                           .x = batch->x,
                           .batch = batch->size,
                           .training = training,
                           .seed = batch->seed};
}

/* The first tensor or layer that holds what is not a number: where it went wrong. */
static fed_status fail_nonfinite(const fedtrain_net *net, const float *params, fed_error *err) {
    const fed_arch *arch = net->arch;
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *t = &arch->layout.tensors[i];
        if (fed_first_nonfinite(params + t->offset, t->size) < t->size) {
            return fed_fail(err, FED_ENONFINITE, "%s holds NaN or infinity", t->name);
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

/* Scores, loss and its gradient by the scores, into net->score_grad. */
static fed_status loss_forward(fedtrain_net *net, const fedtrain_pass *pass,
                               const fedtrain_batch *batch, float *loss, fed_error *err) {
    const fed_arch *arch = net->arch;
    net->backend->forward(net->work, pass, net->score);
    size_t positions = batch->size * arch->positions;
    double mean = arch->loss == FED_LOSS_SQUARED
                      ? squared_error(net, batch->target, positions * arch->classes)
                      : cross_entropy(net, batch->label, positions);
    if (!isfinite((float)mean)) {
        return fail_nonfinite(net, pass->params, err);
    }
    *loss = (float)mean;
    return FED_OK;
}

/* ---- What comes in ---- */

static fed_status check_samples(const fedtrain_net *net, const fedtrain_batch *batch,
                                fed_error *err) {
    const fed_arch *arch = net->arch;
    if (batch->size == 0 || batch->size > net->max_batch) {
        return fed_fail(err, FED_EINVAL, "a batch of %zu: this net was made for 1 to %zu",
                        batch->size, net->max_batch);
    }
    size_t tokens = arch->words > 0 ? batch->size * fedtrain_shape_size(arch->input) : 0;
    for (size_t i = 0; i < tokens; i++) {
        if (!(batch->x[i] >= 0 && batch->x[i] < (float)arch->words)) {
            return fed_fail(err, FED_ERANGE, "token %zu is %g: the model knows 0 to %" PRIu32, i,
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
                   : fed_fail(err, FED_EINVAL, "no targets: the model's loss is the squared error");
    }
    if (batch->label == NULL) {
        return fed_fail(err, FED_EINVAL, "no labels: the model's loss is the cross-entropy");
    }
    for (size_t i = 0; i < batch->size * arch->positions; i++) {
        if (batch->label[i] >= arch->classes) {
            return fed_fail(err, FED_ERANGE,
                            "label %zu is %" PRIu32 ": the model knows 0 to %" PRIu32, i,
                            batch->label[i], arch->classes - 1);
        }
    }
    return FED_OK;
}

/* ---- Calls ---- */

fed_status fedtrain_net_gradient(fedtrain_net *net, const float *params,
                                 const fedtrain_batch *batch, float *grad, float *loss,
                                 fed_error *err) {
    FED_TRY(check_batch(net, batch, err));
    fedtrain_pass pass = pass_of(params, batch, true);
    uint64_t saved = fedtrain_denormal_flush();
    fed_status status = loss_forward(net, &pass, batch, loss, err);
    if (status == FED_OK) {
        net->backend->backward(net->work, &pass, net->score_grad, grad);
    }
    fedtrain_denormal_restore(saved);
    return status;
}

fed_status fedtrain_net_step(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                             float *state, const fedtrain_batch *batch, float *loss,
                             fed_error *err) {
    FED_TRY(check_batch(net, batch, err));
    size_t n = net->arch->trained;
    fedtrain_pass pass = pass_of(params, batch, true);
    uint64_t saved = fedtrain_denormal_flush();
    fed_status status = loss_forward(net, &pass, batch, loss, err);
    if (status == FED_OK) {
        fedtrain_optimizer_see_loss(optimizer, state, n, *loss);
        fedtrain_update update = fedtrain_update_begin(optimizer, state, n);
        bool at_once = optimizer->clip_norm > 0; /* by what only the whole gradient tells */
        if (net->backend->train != NULL && !at_once) {
            net->backend->train(net->work, &pass, params, net->score_grad, &update, net->grad);
        } else {
            net->backend->backward(net->work, &pass, net->score_grad, net->grad);
            fedtrain_update_clip(&update, optimizer, params, net->grad, n);
            fedtrain_update_apply(&update, params, 0, net->grad, n);
        }
        net->backend->keep_statistics(net->work, params);
    }
    fedtrain_denormal_restore(saved);
    return status;
}

fed_status fedtrain_net_forward(fedtrain_net *net, const float *params, const fedtrain_batch *batch,
                                float *score, fed_error *err) {
    FED_TRY(check_samples(net, batch, err));
    fedtrain_pass pass = pass_of(params, batch, false);
    uint64_t saved = fedtrain_denormal_flush();
    net->backend->forward(net->work, &pass, score);
    fedtrain_denormal_restore(saved);
    return FED_OK;
}

void fedtrain_net_forget(fedtrain_net *net) {
    net->backend->forget(net->work);
}
