/* Private layers: the tensors of a model that never leave this device, in the record "own". */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/steps/steps.h"

fed_status fedclient_own_fits(const fedclient *client, fedclient_job *job, fed_error *why) {
    const fed_task *task = &job->assignment.task;
    if (FED_SMALL || task->private_layers[0] == '\0') {
        return FED_OK;
    }
    if (client->options.role != FED_ROLE_TRAIN) {
        return fed_fail(why, FED_EINVAL,
                        "its private_layers (%s) are on the devices that train, so nobody else "
                        "can measure its model",
                        task->private_layers);
    }
    return fed_private_layers_split(&job->arch, task->private_layers, &job->split, why);
}

bool fedclient_round_stays(const fedclient_round *round, size_t tensor) {
    const fedclient_job *job = round->job;
    assert(tensor < job->arch.layout.count);
    return fedclient_has_own(job) && job->split.stays[tensor] != 0;
}

/** job->own = the task's initial values. */
static fed_status begin(fedclient_job *job) {
    float *all = malloc(job->arch.layout.size * sizeof *all);
    FED_REQUIRE(all != NULL, FED_ENOMEM);
    fed_arch_init_values(&job->arch, job->assignment.task.seed, all);
    fed_private_layers_take(&job->split, &job->arch.layout, all, NULL, job->own);
    free(all);
    job->own_is_new = true;
    return FED_OK;
}

fed_status fedclient_own_take(const fedclient *client, fedclient_job *job, fed_error *err) {
    const fedclient_slot *slot = client->slot;
    fedclient_own_head head;
    fedclient_record record = {0};
    size_t count = 0;
    if (!fedclient_has_own(job) || job->own != NULL) {
        return FED_OK;
    }
    job->own = malloc(job->split.own * sizeof *job->own + 1);
    FED_REQUIRE(job->own != NULL, FED_ENOMEM);
    if (slot->own.task != job->assignment.task.id) {
        return begin(job);
    }
    FED_TRY(fedclient_own_load(client->options.platform, slot->number, &head, &record, err));
    if (record.bytes != NULL) {
        const float *values = fedclient_record_values(&record, &count);
        memcpy(job->own, values, (count == job->split.own ? count : 0) * sizeof *values);
    }
    fedclient_record_free(&record);
    return count == job->split.own ? FED_OK : begin(job);
}

void fedclient_own_spread(const fedclient_job *job, float *values) {
    if (!fedclient_has_own(job)) {
        return;
    }
    const float *from = values + job->split.shared.size;
    for (size_t k = job->arch.layout.count; k-- > 0;) { /* from the end: nothing is overwritten */
        const fed_tensor *t = &job->arch.layout.tensors[k];
        if (job->split.stays[k] == 0) {
            from -= t->size;
            memmove(values + t->offset, from, t->size * sizeof *values);
        } else {
            memset(values + t->offset, 0, t->size * sizeof *values);
        }
    }
}

static fed_status check(const fedclient_job *job, const float *values, fed_error *err) {
    size_t at = 0;
    for (size_t k = 0; k < job->arch.layout.count; k++) {
        const fed_tensor *t = &job->arch.layout.tensors[k];
        if (job->split.stays[k] == 0) {
            continue;
        }
        const size_t bad = fed_first_nonfinite(values + at, t->size);
        if (bad < t->size) {
            return fed_fail(err, FED_ENONFINITE,
                            "training left NaN or infinity in the private tensor %s at value %zu, "
                            "so its result is dropped: is the learning rate (%g) too high?",
                            t->name, bad, (double)job->assignment.task.learning_rate);
        }
        at += t->size;
    }
    return FED_OK;
}

fed_status fedclient_own_divide(const fedclient *client, const fedclient_job *job,
                                fedclient_record *trained, bool is_change, fedclient_record *own,
                                fed_error *err) {
    size_t count = 0;
    if (!fedclient_has_own(job)) {
        return FED_OK;
    }
    float *all = fedclient_record_values(trained, &count);
    assert(count == job->arch.layout.size);
    FED_TRY(fedclient_record_room(client->options.platform, job->split.own * sizeof *all, own));
    float *values = fedclient_record_values(own, &count);
    fed_private_layers_take(&job->split, &job->arch.layout, all, all, values);
    for (size_t i = 0; is_change && i < count; i++) {
        values[i] += job->own[i];
    }
    trained->len = FEDCLIENT_RECORD_HEAD + job->split.shared.size * sizeof *all;
    return check(job, values, err);
}

fed_status fedclient_own_keep(fedclient *client, const fedclient_job *job, uint64_t number,
                              fedclient_record *own, fed_error *err) {
    fedclient_slot *slot = client->slot;
    const fedclient_own_head head = {.task = job->assignment.task.id, .seq = number};
    if (!fedclient_has_own(job)) {
        return FED_OK;
    }
    /* C14 in docs/durability.md: the private layers are stored before the residual of the same
     * training, so they are one training ahead of it at most. */
    assert(number > slot->residual.seq);
    FED_TRY(fedclient_own_store(client->options.platform, slot->number, &head, own, err));
    slot->own = head;
    return FED_OK;
}
