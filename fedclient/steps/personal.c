/* The personal model: a copy of the shared one, which this device trains for itself and keeps. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/steps/steps.h"

/** The number of the last training of the private layers that a copy would have; 0: none. */
static uint64_t own_of(const fedclient_slot *slot, const fed_task *task) {
    return slot->own.task == task->id ? slot->own.seq : 0;
}

/** Does the task want a copy of the model that the slot holds, and is there none yet? */
static bool is_due(const fedclient *client, const fedclient_job *job) {
    const fedclient_slot *slot = client->slot;
    const fed_task *task = &job->assignment.task;
    return !FED_SMALL && (task->personal_steps > 0 || fedclient_has_own(job)) &&
           client->options.role == FED_ROLE_TRAIN && slot->model.task == task->id &&
           !(slot->personal.task == task->id && slot->personal.version == slot->model.version &&
             slot->personal.digest == slot->model.digest &&
             slot->personal.own == own_of(slot, task));
}

static fed_status call(fedclient *client, fedclient_job *job, float *values, fed_error *err) {
    fed_assignment *told = &job->assignment;
    const size_t count = job->arch.layout.size;
    /* The job ends with this training, so nothing reads these two fields after it. */
    told->task.local_steps = told->task.personal_steps;
    told->round = told->round != 0 ? told->round : told->version + 1;
    fedclient_round round = {
        .number = fedclient_slots_last(client) + 1, .is_personal = true, .values = values};
    fedclient_watch_start(client, NULL);
    FED_TRY(fedclient_callback(client, job, &round, err));
    const fed_error *over = &client->watch.over;
    if (over->status != FED_OK) { /* a copy that is half trained is not kept */
        return fed_fail(err, over->status, "%s", over->text);
    }
    if (round.is_change) {
        float *before = malloc(count * sizeof *before);
        FED_REQUIRE(before != NULL, FED_ENOMEM);
        fedclient_callback_values(job, before);
        for (size_t i = 0; i < count; i++) {
            values[i] += before[i];
        }
        free(before);
    }
    return fed_first_nonfinite(values, count) == count
               ? FED_OK
               : fed_fail(err, FED_ENONFINITE, "its training left NaN or infinity");
}

/** Let the program train the copy. Without personal_steps the copy is the shared model with this
 * device's own layers: the program is asked only to measure it, where the task has a holdout. */
static fed_status finish(fedclient *client, fedclient_job *job, float *values, fed_error *err) {
    const fed_task *task = &job->assignment.task;
    const bool trains = task->personal_steps > 0;
    if (!trains && task->holdout <= 0) {
        client->own.count = 0; /* metrics of the training before, which were sent */
        return FED_OK;
    }
    const fed_status status = call(client, job, values, err);
    if (trains || status == FED_ECANCELED || client->watch.over.status != FED_OK) {
        return status;
    }
    client->own.count = status == FED_OK ? client->own.count : 0;
    fedclient_callback_values(job, values); /* a program that trained all the same */
    return FED_OK;
}

static fed_status store(fedclient *client, const fedclient_job *job, fedclient_record *copy,
                        fed_error *err) {
    fedclient_slot *slot = client->slot;
    const fedclient_personal_head head = {.task = slot->model.task,
                                          .version = slot->model.version,
                                          .digest = slot->model.digest,
                                          .count = job->arch.layout.size,
                                          .own = own_of(slot, &job->assignment.task)};
    const fed_status status =
        fedclient_personal_store(client->options.platform, slot->number, &head, copy, err);
    if (status == FED_OK) {
        slot->personal = head;
    } else {
        client->known = false; /* the next step reads which of the two copies is stored */
    }
    return status;
}

static fed_status make(fedclient *client, fedclient_job *job, fed_error *err) {
    fedclient_slot *slot = client->slot;
    fedclient_record copy;
    size_t count = 0;
    const size_t text = strlen(job->arch.text) + 1;
    fedclient_record_free(&job->model);
    fedclient_record_free(&job->pending);
    FED_TRY(fedclient_model_load(client->options.platform, slot->number, &slot->model, &job->model,
                                 err));
    FED_REQUIRE(job->model.bytes != NULL, FED_ENOTFOUND);
    (void)fedclient_record_values(&job->model, &count);
    FED_REQUIRE(count == fedclient_travels(job)->size, FED_ESTATE);
    free(job->own); /* a training of this step has changed them since */
    job->own = NULL;
    FED_TRY(fedclient_own_take(client, job, err));
    FED_TRY(fedclient_callback_copy(client, job, text, &copy));
    float *values = fedclient_record_values(&copy, &count);
    fed_status status = finish(client, job, values, err);
    if (status == FED_OK) {
        memcpy(values + job->arch.layout.size, job->arch.text, text);
        fedclient_record_free(&job->model);
        status = store(client, job, &copy, err);
    }
    fedclient_record_free(&copy);
    return status;
}

/** The metrics of this training travel with the task's next update. */
static void keep_metrics(fedclient *client, const fedclient_job *job, fed_status status) {
    client->own_task = status == FED_OK ? job->assignment.task.id : 0;
}

/** A program that declines a copy declines each: that is said once for a task. */
static fed_log_level level_of(fedclient *client, const fedclient_job *job, fed_status status,
                              bool stopped) {
    const uint64_t task = job->assignment.task.id;
    const bool told = status == FED_EDECLINED && client->own_declined == task;
    if (stopped || told) {
        return FED_LOG_DEBUG;
    }
    client->own_declined = status == FED_EDECLINED ? task : client->own_declined;
    return FED_LOG_WARN;
}

fed_status fedclient_personal_make(fedclient *client, fedclient_job *job, fed_error *err) {
    const bool ended = job->assignment.action == FED_ACTION_DONE;
    if (!is_due(client, job)) {
        return FED_OK;
    }
    fed_error why = {0};
    const fed_status status = make(client, job, &why);
    const bool stopped = client->watch.over.status != FED_OK;
    keep_metrics(client, job, status);
    client->asks_end = ended ? stopped : client->asks_end;
    if (status == FED_ECANCELED || (ended && stopped)) {
        return fed_fail(err, status, "%s", why.text);
    }
    client->watch.over = (fed_error){0}; /* the round is over, and counted: only the copy is not */
    if (status != FED_OK) {
        const fed_log_about about = {.task = job->assignment.task.id};
        fed_logf_about(client->options.log, level_of(client, job, status, stopped), &about,
                       "task %" PRIu64 ": no personal model is made of version %" PRIu32 ": %s",
                       job->assignment.task.id, client->slot->model.version,
                       why.text[0] != '\0' ? why.text : fed_status_text(status));
    }
    return FED_OK;
}

fed_status fedclient_personal(fedclient *client, fedclient_personal_model *personal,
                              fed_error *err) {
    fedclient_personal_head head;
    fedclient_record record = {0};
    FED_TRY(fedclient_personal_load(client->options.platform, client->slot->number, &head, &record,
                                    err));
    if (record.bytes == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "this device has made no personal model yet");
    }
    size_t len = 0;
    const uint8_t *payload = fedclient_record_payload(&record, &len);
    /* One block: the values, then the text, as the record has them. */
    float *values = malloc(len);
    if (values != NULL) {
        memcpy(values, payload, len);
    }
    fedclient_record_free(&record);
    FED_REQUIRE(values != NULL, FED_ENOMEM);
    *personal = (fedclient_personal_model){.task = head.task,
                                           .version = head.version,
                                           .model = (char *)(values + head.count),
                                           .values = values,
                                           .count = (size_t)head.count};
    return FED_OK;
}

void fedclient_personal_free(fedclient_personal_model *personal) {
    free(personal->values);
    *personal = (fedclient_personal_model){0};
}
