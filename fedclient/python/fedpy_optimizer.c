/* A task's optimizer for Python: its spec as numbers. PyTorch runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/optimizer_spec.h"
#include "fedclient/python/fedpy.h"

int fedpy_optimizer(const char *spec, float learning_rate, double *number, char *error) {
    fed_error err = {FED_OK, ""};
    fed_optimizer o;
    const fed_status status = fed_optimizer_parse(spec, learning_rate, &o, &err);
    if (status != FED_OK) {
        return fedpy_give(status, &err, error);
    }
    const double numbers[FEDPY_OPTIMIZER_NUMBERS] = {
        [FEDPY_RULE] = o.rule,
        [FEDPY_LEARNING_RATE] = o.learning_rate,
        [FEDPY_MOMENTUM] = o.momentum,
        [FEDPY_NESTEROV] = o.nesterov,
        [FEDPY_BETA1] = o.beta1,
        [FEDPY_BETA2] = o.beta2,
        [FEDPY_EPSILON] = o.epsilon,
        [FEDPY_DECAY] = o.decay,
        [FEDPY_WARMUP_STEPS] = o.warmup_steps,
        [FEDPY_STEP_EVERY] = o.step_every,
        [FEDPY_STEP_FACTOR] = o.step_factor,
        [FEDPY_COSINE_STEPS] = o.cosine_steps,
        [FEDPY_COSINE_LOW] = o.cosine_low,
        [FEDPY_STALL_WINDOW] = o.stall_window,
        [FEDPY_CLIP_VALUE] = o.clip_value,
        [FEDPY_CLIP_NORM] = o.clip_norm,
        [FEDPY_PROX_MU] = o.prox_mu,
        [FEDPY_SCAFFOLD_SHARE] = o.scaffold_share,
        [FEDPY_MASK] = o.mask,
        [FEDPY_STATELESS] = o.stateless,
    };
    for (int k = 0; k < FEDPY_OPTIMIZER_NUMBERS; k++) {
        number[k] = numbers[k];
    }
    return 0;
}
