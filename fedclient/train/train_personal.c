/* A personal model: trains a copy of the shared model, and measures it before and after. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/personal.h"

#include <stdlib.h>

#include "fedclient/train/net_impl.h"

static fed_status score(const fedtrain_job *job, const fedtrain_data *data,
                        const fedtrain_share *held, size_t batch, const float *params,
                        fedtrain_score *score, fed_error *err) {
    return held->size == 0 ? FED_OK
                           : fedtrain_share_score(job->net, batch, data, held, params, score, err);
}

fed_status fedtrain_personal_run(const fedtrain_job *job, const fedtrain_data *data,
                                 const fedtrain_share *held, size_t batch, float *params,
                                 fedtrain_personal *result, fed_error *err) {
    fedtrain_job own = *job;
    own.optimizer.scaffold_share = 0;
    *result = (fedtrain_personal){.loss = 0};
    if (job->steps == 0) {
        FED_TRY(score(job, data, held, batch, params, &result->before, err));
        result->after = result->before;
        result->loss = result->before.loss;
        return FED_OK;
    }
    const size_t floats = fedtrain_optimizer_state_size(&own.optimizer, job->net->arch->trained);
    float *state = calloc(floats + 1, sizeof *state);
    FED_REQUIRE(state != NULL, FED_ENOMEM);
    fed_status status = score(job, data, held, batch, params, &result->before, err);
    if (status == FED_OK) {
        status = fedtrain_run(&own, params, state, &result->loss, err);
    }
    free(state);
    return status == FED_OK ? score(job, data, held, batch, params, &result->after, err) : status;
}
