/* Trains a net on a backend and records the loss of each step. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "curve_case.h"

#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"
#include "fed_test.h"
#include "fedtrain/train.h"

static bool keep_loss(void *user, size_t step, float loss) {
    ((float *)user)[step] = loss;
    return true;
}

static void nudge_weights(uint32_t seed, float *params, size_t count) {
    fed_rng rng;
    fed_rng_init(&rng, seed, 1, 5);
    for (size_t i = 0; seed != 0 && i < count; i++) {
        uint32_t bits;
        memcpy(&bits, params + i, sizeof bits);
        bits ^= (uint32_t)fed_rng_below(&rng, 2);
        memcpy(params + i, &bits, sizeof bits);
    }
}

void curve_case_run(const curve_case *c, const char *backend, float *loss, float *params) {
    fed_error err = {0};
    fedtrain_shard all;
    float mean = 0;
    fedtrain_job job = {.set = c->set,
                        .shard = &all,
                        .steps = c->steps,
                        .batch = c->batch,
                        .seed = c->seed,
                        .after_step = keep_loss,
                        .user = loss};
    assert_fed_ok_err(fed_optimizer_parse(c->optimizer, 0.01F, &job.optimizer, &err));
    assert_fed_ok_err(fedtrain_shard_take(c->set, FEDTRAIN_SPLIT_IID, 1, 0, c->seed, &all, &err));
    assert_fed_ok_err(fedtrain_net_new(c->arch, c->batch, backend, &job.net, &err));
    const size_t states = fedtrain_optimizer_state_size(&job.optimizer, c->arch->trained);
    float *state = calloc(states + 1, sizeof *state);
    assert_non_null(state);
    fed_arch_init_values(c->arch, c->seed, params);
    nudge_weights(c->nudge, params, c->arch->layout.size);
    assert_fed_ok_err(fedtrain_run(&job, params, state, &mean, &err));
    free(state);
    fedtrain_net_free(job.net);
    fedtrain_shard_free(&all);
}
