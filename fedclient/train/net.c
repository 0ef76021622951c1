/* A net: checks arguments, computes the loss, and leaves the layers to a backend. */
#include "fedtrain/net.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fedclient/train/denormal.h"
#include "fedclient/train/net_impl.h"

static const fedtrain_backend_vtable *const backends[] = {
    [FEDTRAIN_FAST] = &fedtrain_backend_fast,
    [FEDTRAIN_REFERENCE] = &fedtrain_backend_reference,
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

/* Vectors that straddle cache lines cost twice, so the gradient starts on one. */
static float *aligned_floats(size_t n) {
    enum { LINE_BYTES = 64 };
    return aligned_alloc(LINE_BYTES,
                         (n * sizeof(float) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
}

fed_status fedtrain_net_new(const fed_arch *arch, size_t max_batch, fedtrain_backend backend,
                            fedtrain_net **net) {
    FED_REQUIRE(max_batch > 0 && (size_t)backend < BACKENDS, FED_EINVAL);
    fedtrain_net *made = calloc(1, sizeof *made);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    made->arch = arch;
    made->backend = backends[backend];
    made->max_batch = max_batch;
    made->score = calloc(max_batch * arch->classes, sizeof *made->score);
    made->score_grad = calloc(max_batch * arch->classes, sizeof *made->score_grad);
    made->x = calloc(max_batch * fedtrain_shape_size(arch->input), sizeof *made->x);
    made->label = calloc(max_batch, sizeof *made->label);
    made->index = calloc(max_batch, sizeof *made->index);
    made->grad = aligned_floats(arch->layout.size);
    fed_status status = FED_ENOMEM;
    if (made->score != NULL && made->score_grad != NULL && made->x != NULL && made->label != NULL &&
        made->index != NULL && made->grad != NULL) {
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
    free(net->index);
    free(net->grad);
    free(net);
}

size_t fedtrain_net_memory(const fedtrain_net *net) {
    const fed_arch *arch = net->arch;
    size_t sample = 2 * arch->classes * sizeof(float) +
                    fedtrain_shape_size(arch->input) * sizeof(float) + sizeof *net->label +
                    sizeof *net->index;
    return sizeof *net + net->max_batch * sample + arch->layout.size * sizeof(float) +
           net->backend->memory(net->work);
}

double fedtrain_cross_entropy(const float *score, size_t classes, uint8_t label, float *p) {
    double top = score[0];
    for (size_t j = 1; j < classes; j++) {
        top = fmax(top, score[j]);
    }
    double sum = 0;
    for (size_t j = 0; j < classes; j++) {
        sum += exp(score[j] - top);
    }
    for (size_t j = 0; p != NULL && j < classes; j++) {
        p[j] = (float)(exp(score[j] - top) / sum);
    }
    return log(sum) + top - score[label];
}

/* The batch's mean loss, and its gradient by the scores: (softmax - one-hot) / batch. */
static double batch_loss(fedtrain_net *net, const uint8_t *label, size_t batch) {
    size_t classes = net->arch->classes;
    double sum = 0;
    for (size_t b = 0; b < batch; b++) {
        float *d = net->score_grad + b * classes;
        sum += fedtrain_cross_entropy(net->score + b * classes, classes, label[b], d);
        d[label[b]] -= 1.0F;
        for (size_t j = 0; j < classes; j++) {
            d[j] /= (float)batch;
        }
    }
    return sum / (double)batch;
}

/* Scores, loss and its gradient by the scores, into net->score_grad. */
static fed_status loss_forward(fedtrain_net *net, const float *params, const float *x,
                               const uint8_t *label, size_t batch, float *loss) {
    net->backend->forward(net->work, params, x, batch, net->score);
    double mean = batch_loss(net, label, batch);
    FED_REQUIRE(isfinite((float)mean), FED_ENONFINITE);
    *loss = (float)mean;
    return FED_OK;
}

static fed_status check_batch(const fedtrain_net *net, const uint8_t *label, size_t batch) {
    FED_REQUIRE(batch > 0 && batch <= net->max_batch, FED_EINVAL);
    for (size_t b = 0; b < batch; b++) {
        FED_REQUIRE(label[b] < net->arch->classes, FED_ERANGE);
    }
    return FED_OK;
}

fed_status fedtrain_net_gradient(fedtrain_net *net, const float *params, const float *x,
                                 const uint8_t *label, size_t batch, float *grad, float *loss) {
    FED_TRY(check_batch(net, label, batch));
    uint64_t saved = fedtrain_denormal_flush();
    fed_status status = loss_forward(net, params, x, label, batch, loss);
    if (status == FED_OK) {
        net->backend->backward(net->work, params, net->score_grad, batch, grad);
    }
    fedtrain_denormal_restore(saved);
    return status;
}

fed_status fedtrain_net_step(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                             float *state, const float *x, const uint8_t *label, size_t batch,
                             float *loss) {
    FED_TRY(check_batch(net, label, batch));
    size_t n = net->arch->layout.size;
    uint64_t saved = fedtrain_denormal_flush();
    fed_status status = loss_forward(net, params, x, label, batch, loss);
    if (status == FED_OK) {
        fedtrain_optimizer_see_loss(optimizer, state, n, *loss);
        fedtrain_update update = fedtrain_update_begin(optimizer, state, n);
        bool at_once = optimizer->clip_norm > 0; /* by what only the whole gradient tells */
        if (net->backend->train != NULL && !at_once) {
            net->backend->train(net->work, params, net->score_grad, batch, &update, net->grad);
        } else {
            net->backend->backward(net->work, params, net->score_grad, batch, net->grad);
            fedtrain_update_clip(&update, optimizer, params, net->grad, n);
            fedtrain_update_apply(&update, params, 0, net->grad, n);
        }
    }
    fedtrain_denormal_restore(saved);
    return status;
}

fed_status fedtrain_net_forward(fedtrain_net *net, const float *params, const float *x,
                                size_t batch, float *score) {
    FED_REQUIRE(batch > 0 && batch <= net->max_batch, FED_EINVAL);
    uint64_t saved = fedtrain_denormal_flush();
    net->backend->forward(net->work, params, x, batch, score);
    fedtrain_denormal_restore(saved);
    return FED_OK;
}
