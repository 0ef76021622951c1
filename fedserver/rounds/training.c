/* Runs a task from its start to its last round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/training.h"
#include "fedserver/rounds/openings.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedcodec/envelope.h"
#include "fedserver/fedserver.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/rounds/closing.h"
#include "fedserver/rounds/device_marks.h"
#include "fedserver/rounds/drift.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/ledger.h"
#include "fedserver/rounds/outliers.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/set_aside.h"
#include "fedserver/rounds/shortage.h"
#include "fedserver/rounds/stored.h"
#include "fedserver/rounds/task_memory.h"
#include "fedserver/rounds/turns.h"
#include "fedserver/rounds/voids.h"
#include "fedserver/stores/task_model.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/private_task.h"

static fed_status append_delta(void *user, uint32_t version, const uint8_t *part, size_t len,
                               fed_error *err) {
    fedserver_versions *versions = user;
    fed_status status = fedserver_versions_append(versions, version, part, len);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "the stored delta to version %u can't be used: %s", version,
                          fed_status_text(status));
}

static fed_status keep_state(fedserver_training *t, const fedserver_model_row *row,
                             fed_error *err) {
    size_t trained = fedserver_trained(&t->arch.layout);
    size_t len = fedserver_strategy_state_size(&t->strategy, trained) * sizeof *t->state;
    t->state = (void *)row->state;
    if (row->state_len == len) {
        return FED_OK;
    }
    if (row->state_len > 0 || row->version > 0) {
        return fed_fail(err, FED_EFORMAT,
                        "task %llu: the stored state of strategy %s has %zu bytes, not %zu; "
                        "restore the database from a backup",
                        (unsigned long long)t->task.wire.id, t->task.strategy, row->state_len, len);
    }
    t->state = malloc(len);
    if (t->state == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the strategy's state");
    }
    fedserver_strategy_start(&t->strategy, t->state, trained);
    return FED_OK;
}

static fed_status load_chain(fedserver_rounds *rounds, uint64_t id, fedserver_versions *v,
                             fed_error *err) {
    uint32_t after = 0, last = v->version > 0 ? v->version - 1 : 0;
    while (after < last) {
        uint32_t middle = after + (last - after) / 2, count = 0;
        uint64_t bytes = 0;
        FED_TRY(rounds->store->delta_sum(rounds->db, id, middle, &count, &bytes, err));
        if (bytes <= v->snapshot_limit && count <= FEDSERVER_CHAIN_PARTS) {
            last = middle;
        } else {
            after = middle + 1;
        }
    }
    return rounds->store->delta_each(rounds->db, id, after, UINT32_MAX, append_delta, v, err);
}

static fed_status load_versions(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    uint64_t id = t->task.wire.id;
    fedserver_model_row row;
    FED_TRY(rounds->store->model_find(rounds->db, id, &row, err));
    fed_status kept = keep_state(t, &row, err);
    if (kept != FED_OK) {
        free(row.values);
        free(row.residual);
        return kept;
    }
    if (row.size != t->arch.layout.size) {
        free(row.values);
        free(row.residual);
        return fed_fail(err, FED_EFORMAT,
                        "task %llu: the stored model has %zu values, not %zu; restore "
                        "the database from a backup",
                        (unsigned long long)id, row.size, t->arch.layout.size);
    }
    fed_status status = fedserver_versions_init(&t->versions, &t->arch.layout, row.version,
                                                row.values, row.residual);
    t->versions.kept = status == FED_OK && row.kept;
    if (status != FED_OK) {
        return fed_fail(err, status, "task %llu: out of memory for its model",
                        (unsigned long long)id);
    }
    if (t->versions.digest != row.digest) {
        return fed_fail(err, FED_EFORMAT,
                        "task %llu: the stored model is damaged (its digest differs); restore "
                        "the database from a backup",
                        (unsigned long long)id);
    }
    return load_chain(rounds, id, &t->versions, err);
}

static fed_status restore_round(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    fedserver_training *t = user;
    const bool closing = row->closing_ms != 0;
    t->round = (fedserver_round){.phase = closing ? FEDSERVER_ROUND_CLOSING : FEDSERVER_ROUND_OPEN,
                                 .closing_ms = row->closing_ms,
                                 .number = row->number,
                                 .attempt = row->attempts,
                                 .opened_ms = row->opened_ms,
                                 .deadline_ms = row->deadline_ms};
    fedserver_ledger_resume(t, row);
    return FED_OK;
}

fed_status fedserver_round_load(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    FED_TRY(rounds->store->round_each(rounds->db, t->task.wire.id, 1, restore_round, t, err));
    FED_TRY(rounds->store->update_count(rounds->db, t->task.wire.id, t->round.number,
                                        &t->round.received, err));
    const bool closing = t->round.phase == FEDSERVER_ROUND_CLOSING;
    if (closing) {
        FED_TRY(rounds->store->update_count(rounds->db, t->task.wire.id, t->round.number + 1,
                                            &t->round.ahead, err));
    }
    FED_TRY(fedserver_openings_load(rounds, t, err));
    FED_TRY(fedserver_shortage_look(rounds, t, t->round.opened_ms, t->round.opened_ms, err));
    FED_TRY(fedserver_leases_load(rounds, t, err));
    t->round.leased = fedserver_leases_count(t);
    if (!closing && t->round.leased >= t->task.rules.cohort) {
        t->round.phase = FEDSERVER_ROUND_FULL;
    }
    return FED_OK;
}

static fed_status load_round(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    /* Until slots are drawn, they go to the devices that come first. */
    t->cohort.start = 1;
    FED_TRY(fedserver_round_load(rounds, t, err));
    FED_TRY(fedserver_stored_load(rounds, t, t->round.number, err));
    /* S4 in docs/durability.md: the sum has exactly the stored updates. */
    assert(t->sum.updates == t->round.received);
    return FED_OK;
}

static fed_status load_task(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    FED_TRY(fedserver_task_model(rounds->store, rounds->db, &t->task, &t->arch, err));
    t->intake = fedserver_intake_of(&t->task);
    FED_TRY(fedserver_memory_of(&t->task, &t->arch.layout, &t->memory_bytes, err));
    FED_TRY(fedserver_intake_most_bytes(&t->task, &t->arch.layout, &t->update_limit, err));
    FED_TRY(fedserver_strategy_parse(t->task.strategy, &t->strategy, err));
    FED_TRY(load_versions(rounds, t, err));
    fed_status status = fedserver_intake_sum(t);
    if (status != FED_OK) {
        return fed_fail(err, status, "out of memory for the sum of a round");
    }
    FED_TRY(fedserver_declines_load(rounds, t, err));
    FED_TRY(fedserver_ledger_load(rounds, t, err));
    return t->task.state == FEDSERVER_TASK_RUNNING ? load_round(rounds, t, err) : FED_OK;
}

/* The task is appended first, so that its layout is parsed at its final address, to which other
 * structs point. */
fed_status fedserver_training_open(fedserver_rounds *rounds, const fedserver_task *task,
                                   fedserver_training **opened, fed_error *err) {
    /* S14 in docs/durability.md: a task is in memory once. */
    assert(fedserver_rounds_task(rounds, task->wire.id) == NULL);
    if (fedserver_rounds_append(rounds, opened) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for another task");
    }
    (*opened)->task = *task;
    const fed_status status = load_task(rounds, *opened, err);
    if (status != FED_OK) {
        fedserver_rounds_remove(rounds, *opened);
        return status;
    }
    const uint64_t limit = (*opened)->update_limit;
    rounds->update_limit = limit > rounds->update_limit ? limit : rounds->update_limit;
    return FED_OK;
}

fed_status fedserver_training_start(fedserver_rounds *rounds, const fedserver_task *task,
                                    int64_t now_ms, fed_error *err) {
    fedserver_training *t = NULL;
    fedserver_task starting = *task;
    starting.state = FEDSERVER_TASK_RUNNING;
    starting.started_ms = task->started_ms != 0 ? task->started_ms : now_ms;
    fed_error absent = {0};
    fed_status status =
        rounds->store->task_put(rounds->db, &starting, 1 << FEDSERVER_TASK_QUEUED, &absent);
    if (status == FED_ENOTFOUND) {
        rounds->queue_changed = true;
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    fed_error why = {0};
    status = fedserver_training_open(rounds, &starting, &t, &why);
    if (fedserver_unreadable(status)) {
        return fedserver_set_aside(rounds, task, &why, err);
    }
    FED_REQUIRE(status == FED_OK, fed_fail(err, status, "%s", why.text));
    FED_TRY(fedserver_round_refresh(rounds, t, now_ms, err));
    const bool again = t->round.phase != FEDSERVER_ROUND_NONE;
    fedserver_round_step(&t->task.rules, &t->round,
                         again ? FEDSERVER_ON_RESUMED : FEDSERVER_ON_START, now_ms);
    /* D6 in docs/durability.md: a running task has an open round. */
    assert(fedserver_training_runs(t));
    FED_TRY(fedserver_round_save(rounds, t, err));
    fedserver_slots_open(rounds, t, now_ms);
    rounds->epoch++;
    const fed_log_about about = fedserver_task_about(&t->task, t->round.number);
    fed_logf_about(rounds->log, FED_LOG_INFO, &about,
                   "task %llu (%s) %s: round %u of %u, %zu parameters",
                   (unsigned long long)t->task.wire.id, t->task.name, again ? "goes on" : "starts",
                   t->round.number, t->task.rules.rounds, t->arch.layout.size);
    return FED_OK;
}

/* *reach: the version of the oldest keyframe that is left. */
static fed_status put_version(fedserver_rounds *rounds, fedserver_training *t,
                              const fedserver_closed *made, uint32_t *reach, fed_error *err) {
    const uint64_t id = t->task.wire.id;
    const fedserver_archive archive = fedserver_rounds_archive(rounds, t);
    const fedserver_versions *next = &made->version;
    uint64_t digest;
    size_t len;
    const uint8_t *part = fedserver_versions_part(next, &len, &digest);
    /* D5 in docs/durability.md: the new version follows the newest one. */
    assert(next->version == t->versions.version + 1);
    /* S5 in docs/durability.md: the strategy's state is stored with the model. */
    assert(made->state_len == 0 || made->state != NULL);
    /* S9 in docs/durability.md: a delta is a blob only if the version is stored as blobs. */
    assert(!made->part_kept || made->kept);
    t->versions.kept = t->versions.kept || made->old_kept;
    FED_TRY(fedserver_old_versions_keep(&archive, &t->versions, reach, err));
    const fedserver_model_row row = {.version = next->version,
                                     .digest = next->digest,
                                     .values = next->values,
                                     .residual = next->residual,
                                     .size = next->layout->size,
                                     .state = (void *)made->state,
                                     .state_len = made->state_len,
                                     .kept = made->kept,
                                     .residual_digest = made->residual_digest,
                                     .state_digest = made->state_digest};
    FED_TRY(rounds->store->model_put(rounds->db, id, &row, err));
    return rounds->store->delta_add(rounds->db, id, next->version, part, len,
                                    made->part_kept ? &digest : NULL, err);
}

/* Delete the deltas that are needed neither in the chain for devices, nor to correct late updates,
 * nor to make older versions. */
static fed_status prune_deltas(fedserver_rounds *rounds, const fedserver_training *t,
                               uint32_t reach, fed_error *err) {
    const uint32_t late = fedserver_drift_reach(t), oldest = t->versions.oldest;
    reach = reach < late ? reach : late;
    return rounds->store->delta_prune(rounds->db, t->task.wire.id, oldest < reach ? oldest : reach,
                                      err);
}

/* Store that the task is finished, even if a person paused it a moment ago. A task that was
 * cancelled stays cancelled. */
static fed_status finish_task(fedserver_rounds *rounds, const fedserver_training *t,
                              fed_error *err) {
    const unsigned from =
        1 << FEDSERVER_TASK_QUEUED | 1 << FEDSERVER_TASK_RUNNING | 1 << FEDSERVER_TASK_PAUSED;
    fed_error absent = {0};
    /* S14 in docs/durability.md: the task is finished. */
    assert(t->task.state == FEDSERVER_TASK_FINISHED);
    fed_status status = rounds->store->task_put(rounds->db, &t->task, from, &absent);
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", absent.text);
}

/* A round's first attempt has opened, or its next one: are there devices enough? */
static fed_status note_shortage(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                                fed_error *err) {
    const bool before = fedserver_is_short(t);
    FED_TRY(fedserver_shortage_look(rounds, t, now_ms, now_ms, err));
    if (fedserver_is_short(t) && !before) {
        char text[400];
        fedserver_shortage_report(t, text, sizeof text);
        fedserver_training_say(rounds, t, t->round.number, FED_LOG_WARN, "waits for %s", text);
    }
    return FED_OK;
}

static void note_the_end(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms) {
    rounds->epoch++;
    t->task.state = FEDSERVER_TASK_FINISHED;
    t->task.finished_ms = now_ms;
    rounds->queue_changed = true;
    rounds->shrinks = true;
}

/* Finish a task whose open round can't commit (rounds/shortage.h). D1 in docs/durability.md: the
 * updates that the round has are lost. */
static fed_status finish_for_budget(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                                    fed_error *err) {
    const uint64_t id = t->task.wire.id;
    const uint32_t lost = t->round.received;
    /* S5 in docs/durability.md: no version is being made of this round. */
    assert(t->closing == NULL && t->round.phase != FEDSERVER_ROUND_CLOSING);
    t->task.rules.rounds = t->versions.version;
    FED_TRY(fedserver_ledger_forget(rounds, t, err));
    FED_TRY(rounds->store->update_clear(rounds->db, id, t->round.number, err));
    FED_TRY(rounds->store->lease_prune(rounds->db, id, UINT32_MAX, err));
    FED_TRY(rounds->store->round_drop(rounds->db, id, err));
    const fed_log_about about = fedserver_task_about(&t->task, t->round.number);
    fed_logf_about(rounds->log, FED_LOG_WARN, &about,
                   "task %llu (%s) is finished with version %u, for its budget: %llu devices may "
                   "take part in round %u, and its minimum is %u; %u updates of it are lost",
                   (unsigned long long)id, t->task.name, t->versions.version,
                   (unsigned long long)t->shortage.left, t->round.number,
                   fedserver_round_least(&t->task.rules), lost);
    t->round = (fedserver_round){.phase = FEDSERVER_ROUND_NONE};
    t->shortage = (fedserver_shortage){0};
    t->own = (fedserver_own_table){.count = 0};
    fedserver_sum_free(&t->sum);
    note_the_end(rounds, t, now_ms);
    return finish_task(rounds, t, err);
}

/* share: fedserver_weights.share of the round. */
static fed_status move_on(fedserver_rounds *rounds, fedserver_training *t, double share,
                          int64_t now_ms, fed_error *err) {
    /* S5 in docs/durability.md: the round is committed. */
    assert(t->round.phase == FEDSERVER_ROUND_CLOSING && t->closing == NULL);
    FED_TRY(fedserver_ledger_next(rounds, t, err));
    t->asking = (fedserver_asking){0};
    fedserver_round_action action =
        fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_COMMITTED, now_ms);
    if (action != FEDSERVER_DO_FINISH) {
        fedserver_ledger_adapt(t, share);
        /* S4 in docs/durability.md: the sum has exactly the updates that count in this round. */
        assert(t->sum.updates == t->round.received);
        FED_TRY(note_shortage(rounds, t, now_ms, err));
        t->lease_ends_ms = 0; /* some leases may be too old for the new round */
        fedserver_leases_advance(rounds, t, now_ms);
        fedserver_slots_open(rounds, t, now_ms);
        fedserver_wake(rounds, FEDSERVER_HOLD_VERSION);
        if (t->task.rules.staleness > 0 && fedserver_closing_apart(rounds, t)) {
            fedserver_slots_freed(rounds, t, true, now_ms);
        }
        return fedserver_round_save(rounds, t, err);
    }
    /* S5 in docs/durability.md: round k makes version k. */
    assert(t->versions.version == t->task.rules.rounds);
    note_the_end(rounds, t, now_ms);
    const fed_log_about about = fedserver_task_about(&t->task, 0);
    fed_logf_about(rounds->log, FED_LOG_INFO, &about, "task %llu (%s) is finished with version %u",
                   (unsigned long long)t->task.wire.id, t->task.name, t->versions.version);
    return finish_task(rounds, t, err);
}

static fed_status prune_leases(fedserver_rounds *rounds, const fedserver_training *t,
                               fed_error *err) {
    uint32_t next = t->round.number + 1;
    uint32_t stale = t->task.rules.staleness < next ? t->task.rules.staleness : next;
    const bool last = t->round.number == t->task.rules.rounds;
    return rounds->store->lease_prune(rounds->db, t->task.wire.id, last ? UINT32_MAX : next - stale,
                                      err);
}

void fedserver_training_say(const fedserver_rounds *rounds, const fedserver_training *t,
                            uint32_t round, fed_log_level level, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const fed_log_about about = fedserver_task_about(&t->task, round);
    fed_logf_about(rounds->log, level, &about, "task %llu (%s): round %u: %s",
                   (unsigned long long)t->task.wire.id, t->task.name, round, text);
}

static fed_status say_who_is_bounded(const fedserver_rounds *rounds, const fedserver_training *t,
                                     uint32_t round, const fedserver_weights *weights,
                                     fed_error *err) {
    char name[FEDSERVER_DEVICE_SAID];
    const double percent = 100 * t->task.device_share;
    if (weights->heaviest_lowered) {
        FED_TRY(fedserver_device_report(rounds, weights->heaviest, name, err));
        fedserver_training_say(
            rounds, t, round, FED_LOG_WARN,
            "device %s claims %.1f %% of all samples, and is counted as %g %%; if you do not trust "
            "it, exclude it with `fedserver revoke`",
            name, 100 * weights->heaviest_share, percent);
    }
    if (weights->furthest_lowered) {
        FED_TRY(fedserver_device_report(rounds, weights->furthest, name, err));
        fedserver_training_say(
            rounds, t, round, FED_LOG_WARN,
            "device %s, whose update has a norm of %.4g, is counted as %g %% of what moves the "
            "model; if you do not trust it, exclude it with `fedserver revoke`",
            name, weights->furthest_norm, percent);
    }
    return FED_OK;
}

static fed_status put_own(fedserver_rounds *rounds, const fedserver_training *t,
                          const fedserver_own_table *own, fed_error *err) {
    if (own->dropped > 0) {
        fedserver_training_say(rounds, t, t->round.number, FED_LOG_WARN,
                               "%llu values of the devices' custom metrics are dropped: their "
                               "names are not among the first %d",
                               (unsigned long long)own->dropped, FEDSERVER_OWN_NAMES);
    }
    return rounds->store->own_put(rounds->db, t->task.wire.id, t->round.number,
                                  FEDSERVER_OWN_OF_UPDATES, own->rows, own->count, err);
}

static fedserver_round_row summary(const fedserver_training *t, const fedserver_closed *made,
                                   int64_t now_ms) {
    const fedserver_weights *weights = &made->weights;
    /* D1 in docs/durability.md: the version has each counted update. */
    assert(made->updates == t->round.received);
    fedserver_round_row row = fedserver_round_row_of(t);
    row.committed_ms = now_ms;
    row.updates = made->updates;
    row.samples = made->samples;
    row.loss = weights->loss;
    row.heaviest =
        (fedserver_standout){.device = weights->heaviest, .amount = weights->heaviest_share};
    row.furthest =
        (fedserver_standout){.device = weights->furthest, .amount = weights->furthest_norm};
    row.update_bytes = made->bytes;
    row.delta_bytes = made->part_len;
    row.own_dropped = made->own.dropped;
    /* S19 in docs/durability.md: with the version, the noise is used up. */
    memset(row.noise_key, 0, sizeof row.noise_key);
    return row;
}

static void say_commit(fedserver_rounds *rounds, const fedserver_training *t,
                       const fedserver_round_row *row) {
    char loss[40] = "no loss";
    if (!isnan(row->loss)) {
        snprintf(loss, sizeof loss, "loss %.4f", row->loss);
    }
    fedserver_training_say(rounds, t, row->number, FED_LOG_INFO,
                           "committed with %u updates, %s, delta of %zu bytes", row->updates, loss,
                           (size_t)row->delta_bytes);
}

/* D1 in docs/durability.md: the second exception. */
static void say_too_long(const fedserver_rounds *rounds, const fedserver_training *t,
                         uint32_t round, uint32_t updates, const fedserver_weights *weights) {
    if (weights->lost > 0 && weights->lost < updates) {
        fedserver_training_say(
            rounds, t, round, FED_LOG_ERROR,
            "%u of its %u updates are lost: the sum of their group has a length of %.6g levels, "
            "and that of devices that keep to the clip %.6g at most. A device does not. The "
            "other groups count",
            weights->lost, updates, weights->length, weights->longest);
    } else if (weights->lost > 0) {
        fedserver_training_say(
            rounds, t, round, FED_LOG_ERROR,
            "its %u updates are lost, and the model stays: their sum has a length of %.6g levels, "
            "and that of devices that keep to the clip %.6g at most. A device does not. Masks hide "
            "which one; if this happens again, exclude devices that you do not trust with "
            "`fedserver revoke`",
            updates, weights->length, weights->longest);
    }
}

/* Store the new version, the round's summary and the next round in one transaction (S5 in
 * docs/durability.md). */
static fed_status commit_round(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                               fed_error *err) {
    /* S5 in docs/durability.md: the round's set of updates is settled. */
    assert(t->round.phase == FEDSERVER_ROUND_CLOSING);
    const fedserver_closed *made = fedserver_closing_result(t->closing);
    const fedserver_weights weights = made->weights;
    const fedserver_round_row row = summary(t, made, now_ms);
    uint32_t reach = 0;
    FED_TRY(put_version(rounds, t, made, &reach, err));
    FED_TRY(rounds->store->round_put(rounds->db, t->task.wire.id, &row, err));
    FED_TRY(put_own(rounds, t, &made->own, err));
    FED_TRY(fedserver_outliers_take(rounds, t, row.updates, &weights, err));
    FED_TRY(rounds->store->update_clear(rounds->db, t->task.wire.id, t->round.number, err));
    if (fedserver_task_has_helper(&t->task)) {
        FED_TRY(rounds->store->opening_clear(rounds->db, t->task.wire.id, t->round.number, err));
    }
    FED_TRY(fedserver_ledger_forget(rounds, t, err));
    FED_TRY(prune_leases(rounds, t, err));
    fedserver_closing_take(t);
    FED_TRY(prune_deltas(rounds, t, reach, err));
    fedserver_downloads_trim(&t->downloads, t->versions.version, now_ms);
    rounds->counters.rounds_committed++;
    fedserver_counters_round(&rounds->counters, now_ms - row.opened_ms);
    say_commit(rounds, t, &row);
    say_too_long(rounds, t, row.number, row.updates, &weights);
    FED_TRY(say_who_is_bounded(rounds, t, row.number, &weights, err));
    return move_on(rounds, t, weights.share, now_ms, err);
}

fed_status fedserver_training_take(fedserver_rounds *rounds, fedserver_training *t,
                                   const float *values, bool last, int64_t now_ms, fed_error *err) {
    assert(fedserver_training_runs(t)); /* S16 in docs/durability.md: the round is still open. */
    if (last) {
        t->task.rules.rounds = t->round.number;
    }
    fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_GIVEN, now_ms);
    t->given = values;
    fed_status status = fedserver_closing_begin(rounds, t, err);
    if (status == FED_OK) {
        status = fedserver_closing_make(rounds, t->closing, err);
    }
    t->given = NULL;
    return status == FED_OK ? commit_round(rounds, t, now_ms, err) : status;
}

/* The round waits for its helper: say so in the log after a minute, then after twice as long each
 * time, and every hour at last. */
static void say_awaits(const fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms) {
    enum { FIRST_MS = 60 * 1000, MOST_MS = 60 * 60 * 1000 };
    const int64_t waited_ms = now_ms - t->round.closing_ms;
    char text[sizeof t->asking.refusal + 200];
    if (t->asking.say_ms == 0) {
        t->asking.say_ms = now_ms + FIRST_MS;
    }
    if (now_ms < t->asking.say_ms) {
        return;
    }
    t->asking.say_ms = now_ms + (waited_ms < FIRST_MS  ? FIRST_MS
                                 : waited_ms < MOST_MS ? waited_ms
                                                       : MOST_MS);
    fedserver_openings_report(t, text, sizeof text);
    fedserver_training_say(rounds, t, t->round.number, FED_LOG_WARN, "still waits for %s", text);
}

/* Make the version of the closing round, and commit the round: at once, or in a later call after a
 * thread has made the version. */
static fed_status close_round(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                              fed_error *err) {
    fed_status status = FED_OK;
    FED_TRY(fedserver_openings_await(rounds, t, &t->asking.waits, err));
    if (t->asking.waits) {
        say_awaits(rounds, t, now_ms);
        return FED_OK; /* a later call comes with the opening */
    }
    if (t->closing == NULL) {
        FED_TRY(fedserver_closing_begin(rounds, t, err));
    }
    if (!fedserver_closing_apart(rounds, t)) {
        FED_TRY(fedserver_closing_make(rounds, t->closing, err));
    } else if (!fedserver_closing_done(t->closing, &status, err)) {
        return FED_OK;
    }
    FED_TRY(status);
    FED_TRY(commit_round(rounds, t, now_ms, err));
    /* the next round may have enough updates already */
    return t->round.received > 0 ? fedserver_training_advance(rounds, t, now_ms, err) : FED_OK;
}

static fed_status settle_round(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    FED_TRY(fedserver_ledger_charge(rounds, t, err));
    /* A helper is asked about this set: after a restart it must be the same one. */
    if (!fedserver_closing_apart(rounds, t) && !fedserver_task_has_helper(&t->task)) {
        return FED_OK;
    }
    fedserver_training_say(rounds, t, t->round.number, FED_LOG_INFO, "closes with %u updates",
                           t->round.received);
    return fedserver_round_save(rounds, t, err);
}

void fedserver_training_committed(fedserver_rounds *rounds, fedserver_training *t) {
    if (t->tidying != NULL) {
        fedserver_closing_tidy(t->tidying);
    }
    if (t->closing != NULL) {
        fedserver_closing_start(rounds, t->closing);
    }
}

fed_status fedserver_training_reopened(fedserver_rounds *rounds, fedserver_training *t,
                                       const fedserver_round *before, int64_t now_ms,
                                       fed_error *err) {
    /* D1 in docs/durability.md: counted updates stay counted. */
    assert(t->round.received == before->received);
    rounds->counters.attempts_abandoned++;
    fedserver_training_say(rounds, t, before->number, FED_LOG_WARN,
                           "attempt %u is abandoned with %u of at least %u updates from %u leases; "
                           "counted updates stay counted",
                           before->attempt, before->received, fedserver_round_least(&t->task.rules),
                           before->leased);
    FED_TRY(note_shortage(rounds, t, now_ms, err));
    fedserver_slots_open(rounds, t, now_ms);
    return fedserver_round_save(rounds, t, err);
}

/* Too few devices may take part: has that changed, or is it time to end? *over: the task is
 * finished. */
static fed_status await_devices(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                                bool *over, fed_error *err) {
    bool again = false;
    FED_TRY(fedserver_shortage_advance(rounds, t, now_ms, over, &again, err));
    if (again) {
        fedserver_training_say(rounds, t, t->round.number, FED_LOG_INFO,
                               "goes on: %llu devices may take part",
                               (unsigned long long)t->shortage.left);
        fedserver_slots_open(rounds, t, now_ms);
    }
    return *over ? finish_for_budget(rounds, t, now_ms, err) : FED_OK;
}

fed_status fedserver_training_advance(fedserver_rounds *rounds, fedserver_training *t,
                                      int64_t now_ms, fed_error *err) {
    fedserver_round before = t->round;
    fedserver_round_action action =
        fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_TICK, now_ms);
    if (action == FEDSERVER_DO_CLOSE) {
        FED_TRY(settle_round(rounds, t, err));
        fedserver_openings_wake(rounds, t);
    } else if (action == FEDSERVER_DO_REOPEN) {
        FED_TRY(fedserver_training_reopened(rounds, t, &before, now_ms, err));
    }
    if (t->round.phase == FEDSERVER_ROUND_CLOSING) {
        FED_TRY(close_round(rounds, t, now_ms, err));
    }
    bool over = false;
    FED_TRY(await_devices(rounds, t, now_ms, &over, err));
    if (over) {
        return FED_OK;
    }
    fedserver_leases_advance(rounds, t, now_ms);
    return FED_OK;
}

/* After an asynchronous update was counted: store the deadline that the first update of a round
 * starts. If no slot was free, offer the slot that the update frees. */
static fed_status counted_in_between(fedserver_rounds *rounds, fedserver_training *t,
                                     int64_t now_ms, fed_error *err) {
    if (t->round.phase == FEDSERVER_ROUND_CLOSING) {
        return FED_OK; /* move_on stores the round and offers the slots when the next round opens */
    }
    fedserver_slots_freed(rounds, t, t->round.leased + 1 == t->task.rules.cohort, now_ms);
    return t->round.received == 1 ? fedserver_round_save(rounds, t, err) : FED_OK;
}

fed_status fedserver_training_count(fedserver_rounds *rounds, fedserver_training *t,
                                    fedserver_device *device, const fedserver_update *update,
                                    uint64_t digest, int64_t now_ms, fed_error *err) {
    /* D2 in docs/durability.md: a lease's update counts once. */
    assert(device->counted_lease != update->head.lease);
    /* S3 in docs/durability.md: the update belongs to the device's lease. */
    assert(device->lease_task == t->task.wire.id && device->lease == update->head.lease);
    const uint32_t round = fedserver_round_counting(&t->round);
    FED_TRY(fedserver_intake_count(t, round, update, device->id, err));
    /* S4 in docs/durability.md: fedserver_round_step has counted the update in the same round. */
    assert(t->sum.updates == (round == t->round.number ? t->round.received : t->round.ahead));
    const fedserver_update_row row = {
        .task = t->task.wire.id, .round = round, .device = device->id, .lease = update->head.lease};
    FED_TRY(rounds->store->update_add(rounds->db, &row, update->body, update->body_len, err));
    device->counted_lease = update->head.lease;
    device->counted_digest = digest;
    device->samples = update->head.samples;
    device->counted++;
    device->away = false;
    FED_TRY(fedserver_device_save(rounds, device, err));
    rounds->counters.updates_counted++;
    if (t->task.rules.staleness > 0) {
        FED_TRY(counted_in_between(rounds, t, now_ms, err));
    }
    return fedserver_training_advance(rounds, t, now_ms, err);
}
