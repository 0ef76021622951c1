/* The residual: the sum of all training that the coordinator has not acknowledged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/memory_store.h"
#include "fedclient/steps/steps.h"
#include "fedcodec/envelope.h"

bool fedclient_trained(const fedclient *client, const fed_assignment *assignment) {
    const fedclient_residual_head *held = &client->slot->residual;
    return assignment->action == FED_ACTION_TRAIN && held->seq != 0 &&
           held->seq != client->slot->pending.seq && held->task == assignment->task.id &&
           held->round == assignment->round && held->lease == assignment->lease;
}

/** Did the coordinator count the message that was made from this residual? */
static bool counted(const fedclient_slot *slot) {
    return slot->pending.seq == slot->residual.seq &&
           (slot->pending.fate == FEDCLIENT_FATE_COUNTED ||
            slot->pending.fate == FEDCLIENT_FATE_SETTLED);
}

fed_status fedclient_envelope_of(const fedclient_record *message, fed_update *update,
                                 const uint8_t **envelope, size_t *len) {
    size_t size = 0;
    const uint8_t *body = fedclient_record_payload(message, &size);
    fed_reader r;
    fed_own_metrics own;
    fed_reader_init(&r, body, size);
    FED_TRY(fed_update_read(&r, update));
    FED_TRY(fed_own_metrics_read(&r, &own));
    *envelope = body + r.pos;
    *len = fed_reader_left(&r);
    return FED_OK;
}

static fed_status subtract(const fedclient_job *job, const fedclient_record *message, float *values,
                           fed_error *err) {
    const uint8_t *envelope = NULL;
    size_t len = 0;
    fed_update head;
    FED_TRY(fedclient_envelope_of(message, &head, &envelope, &len));
    if (fedclient_is_private(job)) {
        fedclient_private_settle(job, &head, values);
        return FED_OK;
    }
    return fedcodec_envelope_axpy(envelope, len, fedclient_travels(job), -1.0f, values, err);
}

static fed_status subtract_counted(const fedclient *client, fedclient_job *job, fed_error *err) {
    size_t count = 0;
    fedclient_pending_head head;
    fedclient_record pending = {0};
    /* C3 in docs/durability.md: only a message that the coordinator counted is subtracted. */
    assert(counted(client->slot));
    FED_TRY(fedclient_pending_load(client->options.platform, client->slot->number, &head, &pending,
                                   err));
    /* C1 in docs/durability.md: the stored message is the one that the slot's head describes. */
    assert(head.seq == client->slot->pending.seq);
    fed_status status = fedclient_record_own(&job->residual);
    if (status == FED_OK) {
        /* C1 in docs/durability.md: the subtraction changes a copy, not the stored residual. */
        assert(!job->residual.lent);
        float *values = fedclient_record_values(&job->residual, &count);
        status = subtract(job, &pending, values, err);
        if (client->slot->pending.whole) { /* of the trained values nothing is owed */
            memset(values, 0, job->arch.trained * sizeof *values);
        }
    }
    fedclient_record_free(&pending);
    return status;
}

fed_status fedclient_round_sent(fedclient_round *round, fedclient_sent_visit visit, void *user,
                                fed_error *err) {
    const fedclient_job *job = round->job;
    const fedclient *client = job->client;
    const fedclient_slot *slot = client->slot;
    if (job->assignment.action != FED_ACTION_TRAIN || !counted(slot) || slot->pending.whole ||
        slot->residual.task != job->assignment.task.id || fedclient_is_private(job)) {
        return FED_OK; /* +mask, for which this is, does not go with private tasks */
    }
    fedclient_pending_head head;
    fedclient_record pending = {0};
    FED_TRY(fedclient_pending_load(client->options.platform, slot->number, &head, &pending, err));
    const uint8_t *envelope = NULL;
    size_t len = 0;
    fed_update head_of;
    fed_status status = fedclient_envelope_of(&pending, &head_of, &envelope, &len);
    if (status == FED_OK) {
        status =
            fedcodec_envelope_decode(envelope, len, fedclient_travels(job), round->values, err);
    }
    fedclient_record_free(&pending);
    FED_TRY(status);
    fedclient_own_spread(job, round->values);
    visit(user, round->values, job->arch.layout.size);
    fedclient_callback_values(job, round->values);
    return FED_OK;
}

bool fedclient_settle_now(const fedclient *client, const fedclient_job *job) {
    const fedclient_platform *platform = client->options.platform;
    const fedclient_slot *slot = client->slot;
    uint8_t *bytes = NULL;
    size_t len = 0, count = 0;
    char key[FEDCLIENT_KEY];
    /* C3 in docs/durability.md: the message's fate was unknown until now, so it has not been
     * subtracted yet. */
    assert(slot->pending.fate == FEDCLIENT_FATE_UNKNOWN);
    if (platform->memory == NULL || platform->memory->edit == NULL || slot->pending.whole ||
        fedclient_travels(job)->size == 0 || slot->pending.seq != slot->residual.seq ||
        platform->memory->edit(platform->user,
                               fedclient_record_key(FEDCLIENT_RESIDUAL, slot->number, key), &bytes,
                               &len, NULL) != FED_OK) {
        return false;
    }
    const fedclient_record residual = {.bytes = bytes, .len = len};
    float *values = fedclient_record_values(&residual, &count);
    return count == fedclient_travels(job)->size &&
           subtract(job, &job->pending, values, NULL) == FED_OK;
}

/** Begin without a residual: the stored one does not fit this task, or none is stored. */
static void start_anew(const fedclient *client, fedclient_job *job) {
    if (job->residual.bytes != NULL) {
        const fed_log_about about = {.task = job->assignment.task.id};
        fed_logf_about(client->options.log, FED_LOG_INFO, &about,
                       "task %" PRIu64 " begins; what this device had left to send to task %" PRIu64
                       " is dropped",
                       job->assignment.task.id, client->slot->residual.task);
    }
    fedclient_record_free(&job->residual);
}

/** job->residual = what this device still owes the task: the stored residual, minus the message if
 * that was counted. Without bytes: nothing is owed. */
static fed_status settle(fedclient *client, fedclient_job *job, fed_error *err) {
    fedclient_slot *slot = client->slot;
    const fedclient_residual_head *head = &slot->residual;
    FED_TRY(fedclient_residual_load(client->options.platform, slot->number, &slot->residual,
                                    &job->residual, err));
    size_t count = 0;
    if (job->residual.bytes != NULL) {
        (void)fedclient_record_values(&job->residual, &count);
    }
    if (count != fedclient_travels(job)->size || head->task != job->assignment.task.id) {
        start_anew(client, job);
        return FED_OK;
    }
    if (!counted(slot) || slot->pending.fate == FEDCLIENT_FATE_SETTLED) {
        return FED_OK;
    }
    const bool variates = job->arch.layout.controls > 0;
    if (slot->pending.whole && !variates) {
        fedclient_record_free(&job->residual);
        return FED_OK;
    }
    /* C1 in docs/durability.md: a message is subtracted only from the residual that it was made
     * from, so never twice. */
    assert(slot->pending.seq == head->seq);
    return subtract_counted(client, job, err);
}

fed_status fedclient_round_owed(fedclient_round *round, fedclient_owed_visit visit, void *user,
                                fed_error *err) {
    const fedclient *client = round->job->client;
    if (FED_SMALL || round->job->arch.layout.controls == 0 ||
        client->slot->residual.task != round->job->assignment.task.id) {
        return FED_OK;
    }
    fedclient_job *job = malloc(sizeof *job); /* the round's own job is not to be changed */
    if (job == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for what this device owes");
    }
    *job = *round->job;
    job->residual = (fedclient_record){0};
    size_t count = 0;
    const fed_status status = settle(job->client, job, err);
    if (status == FED_OK && job->residual.bytes != NULL) {
        const float *owed = fedclient_record_values(&job->residual, &count);
        visit(user, owed, count);
    }
    fedclient_record_free(&job->residual);
    free(job);
    return status;
}

/** values = owed + (values - model). Returns true if all results are within +-limit. The loop has
 * no branch, so that compilers vectorise it. */
static bool add_block(float *restrict values, const float *restrict model,
                      const float *restrict owed, size_t n, float limit) {
    /* Magnitudes as integers: the bits of floats without sign have the same order as the
     * numbers. */
    int32_t most, beyond = 0;
    memcpy(&most, &limit, sizeof most);
    for (size_t i = 0; i < n; i++) {
        const float sum = owed[i] + (values[i] - model[i]);
        int32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        beyond |= (bits & INT32_MAX) > most;
        values[i] = sum;
    }
    return beyond == 0;
}

/** Call add_block for any n. owed or model NULL stands for zeros. */
static bool add_owed(float *values, const float *model, const float *owed, size_t n, float limit) {
    enum { BLOCK = 64 }; /* small, since a board keeps `none` in flash */
    static const float none[BLOCK];
    bool within = true;
    for (size_t i = 0; i < n; i += BLOCK) {
        within &= add_block(values + i, model != NULL ? model + i : none,
                            owed != NULL ? owed + i : none, n - i < BLOCK ? n - i : BLOCK, limit);
    }
    return within;
}

/** Turn `trained`, the callback's values, into the new residual: the old residual plus the
 * training's change. Running statistics are measured anew in each round, so their old residual is
 * dropped. */
static fed_status add_training(fedclient_job *job, const fedclient_record *trained, bool is_change,
                               fed_error *err) {
    size_t n = 0;
    const size_t o = fedclient_has_own(job) ? job->split.trained : fed_arch_summed(&job->arch);
    const float *all = fedclient_record_values(&job->model, &n);
    const float *model = is_change ? NULL : all;
    const float *owed =
        job->residual.bytes != NULL ? fedclient_record_values(&job->residual, &n) : NULL;
    /* D4 in docs/durability.md: the old residual has as many values as the model, so nothing owed
     * is left out. */
    assert(n == fedclient_travels(job)->size);
    float *values = fedclient_record_values(trained, &n);
    /* D4 in docs/durability.md: the trained model has as many values, so nothing trained is left
     * out. */
    assert(n == fedclient_travels(job)->size && o <= n);
    job->within = add_owed(values, model, owed, o, FEDCLIENT_VALUE_LIMIT);
    job->within &=
        add_owed(values + o, is_change ? NULL : model + o, NULL, n - o, FEDCLIENT_VALUE_LIMIT);
    size_t bad = job->within ? n : fed_first_nonfinite(values, n), k = 0;
    if (bad == n) {
        return FED_OK;
    }
    const fed_layout *layout = fedclient_travels(job);
    while (bad >= layout->tensors[k].offset + layout->tensors[k].size) {
        k++;
    }
    return fed_fail(err, FED_ENONFINITE,
                    "training left NaN or infinity in tensor %s at value %zu, so its result is "
                    "dropped: is the learning rate (%g) too high?",
                    layout->tensors[k].name, bad - layout->tensors[k].offset,
                    (double)job->assignment.task.learning_rate);
}

static bool owes(const fedclient_slot *slot, const fedclient_job *job) {
    return slot->residual.seq != 0 && slot->residual.task == job->assignment.task.id &&
           !counted(slot);
}

static fed_status store_training(fedclient *client, fedclient_job *job,
                                 const fedclient_round *round, fed_error *err) {
    fedclient_slot *slot = client->slot;
    /* C1 in docs/durability.md: the number of a training is larger than that of any earlier one in
     * any slot. */
    assert(round->number > fedclient_slots_last(client));
    slot->residual =
        (fedclient_residual_head){.seq = round->number,
                                  .task = job->assignment.task.id,
                                  .lease = job->assignment.lease,
                                  .round = job->assignment.round,
                                  /* a private task is told no number of samples */
                                  .samples = fedclient_is_private(job) ? 0 : round->samples,
                                  .loss = round->loss};
    client->own_seq = slot->residual.seq;
    /* C1 in docs/durability.md: the new residual has a new number, so an older message is not
     * subtracted from it. */
    assert(!counted(slot));
    return fedclient_residual_store(client->options.platform, slot->number, &slot->residual,
                                    &job->residual, err);
}

fed_status fedclient_train(fedclient *client, fedclient_job *job, fed_error *err) {
    /* D2 in docs/durability.md: the last upload's fate is known. Otherwise the next upload could
     * repeat its gradient. */
    assert(fedclient_slots_sending(client) == NULL);
    /* C5, D5 in docs/durability.md: training starts from the model that the coordinator announced,
     * to the bit. */
    assert(client->slot->model.task == job->assignment.task.id &&
           client->slot->model.digest == job->assignment.digest);
    fedclient_record trained, own = {0}; /* trained: the callback's values, later the residual */
    FED_TRY(fedclient_own_take(client, job, err));
    FED_TRY(fedclient_callback_copy(client, job, 0, &trained));
    size_t count = 0;
    const uint64_t last = fedclient_slots_last(client);
    /* D4 in docs/durability.md: numbers never wrap around. With a reused number a message could be
     * subtracted twice. */
    assert(last < UINT64_MAX);
    fedclient_round round = {.number = last + 1,
                             .owes = owes(client->slot, job),
                             .values = fedclient_record_values(&trained, &count)};
    fed_status status = fedclient_callback(client, job, &round, err);
    if (status == FED_OK) {
        status = fedclient_own_divide(client, job, &trained, round.is_change, &own, err);
    }
    if (status == FED_OK) {
        status = settle(client, job, err);
    }
    if (status == FED_OK) {
        status = add_training(job, &trained, round.is_change, err);
    }
    if (status == FED_OK) {
        status = fedclient_own_keep(client, job, round.number, &own, err);
    }
    fedclient_record_free(&own);
    fedclient_record_free(&job->model);
    fedclient_record_free(&job->residual);
    job->residual = trained;
    FED_TRY(status);
    FED_TRY(store_training(client, job, &round, err));
    /* If the round is over, the training goes with the next update. */
    const fed_error *over = &client->watch.over;
    return over->status == FED_OK ? FED_OK : fed_fail(err, over->status, "%s", over->text);
}
