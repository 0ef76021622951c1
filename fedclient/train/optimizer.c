/* Optimizers: their names, what they remember, and one step. */
#include "fedtrain/optimizer.h"

#include <math.h>
#include <string.h>

#include "fedclient/train/denormal.h"
#include "fedclient/train/update.h"

static const char *const names[] = {
    [FEDTRAIN_SGD] = "sgd", [FEDTRAIN_MOMENTUM] = "momentum", [FEDTRAIN_ADAM] = "adam"};

enum { RULES = sizeof names / sizeof names[0] };

static const float MOMENTUM = 0.9F;
static const double BETA1 = 0.9, BETA2 = 0.999, EPSILON = 1e-8;

fed_status fedtrain_optimizer_parse(const char *name, float learning_rate,
                                    fedtrain_optimizer *optimizer, fed_error *err) {
    if (!(learning_rate > 0) || !isfinite(learning_rate)) {
        return fed_fail(err, FED_EINVAL, "learning rate %g: it must be a number over 0",
                        (double)learning_rate);
    }
    for (size_t k = 0; k < RULES; k++) {
        if (strcmp(name, names[k]) == 0) {
            *optimizer = (fedtrain_optimizer){(fedtrain_rule)k, learning_rate};
            return FED_OK;
        }
    }
    return fed_fail(err, FED_EINVAL, "unknown optimizer \"%s\": write sgd, momentum or adam", name);
}

size_t fedtrain_optimizer_state_size(const fedtrain_optimizer *optimizer, size_t n) {
    switch (optimizer->rule) {
    case FEDTRAIN_SGD:
        return 0;
    case FEDTRAIN_MOMENTUM:
        return n;
    case FEDTRAIN_ADAM:
        return 2 * n + 1;
    }
    return 0;
}

/* 1 - beta^t without the cancellation that a float power would suffer. */
static double bias_correction(double beta, double t) {
    return -expm1(t * log(beta));
}

fedtrain_update fedtrain_update_begin(const fedtrain_optimizer *optimizer, float *state, size_t n) {
    fedtrain_update u = {.rule = optimizer->rule,
                         .kernels = fedtrain_kernels_best(),
                         .rate = optimizer->learning_rate,
                         .first = state,
                         .second = state};
    if (u.rule == FEDTRAIN_ADAM) {
        float *steps = state + 2 * n; /* sticks at 2^24: both corrections are 1 by then */
        *steps += 1.0F;
        u.second = state + n;
        u.adam = (fedtrain_adam){
            .beta1 = (float)BETA1,
            .beta2 = (float)BETA2,
            .rate = (float)((double)u.rate / bias_correction(BETA1, *steps)),
            .scale = (float)(1.0 / sqrt(bias_correction(BETA2, *steps))),
            .epsilon = (float)EPSILON,
        };
    }
    return u;
}

void fedtrain_update_apply(const fedtrain_update *u, float *params, size_t offset,
                           const float *grad, size_t n) {
    switch (u->rule) {
    case FEDTRAIN_SGD:
        u->kernels->sgd(params + offset, grad, n, u->rate);
        break;
    case FEDTRAIN_MOMENTUM:
        u->kernels->momentum(params + offset, u->first + offset, grad, n, u->rate, MOMENTUM);
        break;
    case FEDTRAIN_ADAM:
        u->kernels->adam(params + offset, u->first + offset, u->second + offset, grad, n, &u->adam);
        break;
    }
}

void fedtrain_optimizer_step(const fedtrain_optimizer *optimizer, float *state, float *params,
                             const float *grad, size_t n) {
    uint64_t saved = fedtrain_denormal_flush();
    fedtrain_update u = fedtrain_update_begin(optimizer, state, n);
    fedtrain_update_apply(&u, params, 0, grad, n);
    fedtrain_denormal_restore(saved);
}
