/* Runs an edge aggregator's rounds: opens them with upstream's versions, closes each into one
 * change, and commits it with upstream's next version. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/edge.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/layout_reference.h"
#include "fedcodec/ring.h"
#include "fedserver/operator/edge_record.h"
#include "fedserver/operator/task_add.h"
#include "fedserver/rounds/lately.h"
#include "fedserver/rounds/queue.h"
#include "fedserver/rounds/training.h"
#include "fedserver/stores/task_model.h"

/*
 * An edge aggregator's round never commits by itself (fedserver_round_rules.upstream). The state of
 * the task tells the state of the round:
 *
 *     running   the round is open
 *     paused    if the record names the round, the round is closed: updates are refused as late,
 *               and check-ins wait
 *
 * Upstream sees the edge aggregator as one device, and each offer has the number of that device's
 * training. While the number is not above record.closed_number, the round is closed again, with
 * the same updates. Later the round can only be committed.
 */
enum { MOST = 1000000, LEAST_DEADLINE_MS = 1000 };

struct fedserver_edge {
    fedserver *server;
    char state[1024];
    fedserver_edge_rules rules;
    fedserver_edge_record record;
};

static fed_status take_rules(const fedserver_edge_rules *given, fedserver_edge_rules *rules,
                             fed_error *err) {
    rules->cohort = given->cohort > 0 ? given->cohort : MOST;
    rules->goal = given->goal > 0 ? given->goal : rules->cohort;
    rules->minimum = given->minimum > 0 ? given->minimum : 1;
    return rules->minimum <= rules->goal && rules->goal <= rules->cohort
               ? FED_OK
               : fed_fail(
                     err, FED_EINVAL,
                     "a round of %u slots can't have a goal of %u updates and a minimum of %u: "
                     "choose minimum <= goal <= cohort",
                     rules->cohort, rules->goal, rules->minimum);
}

fed_status fedserver_edge_open(fedserver *server, const char *state,
                               const fedserver_edge_rules *rules, fedserver_edge **edge,
                               fed_error *err) {
    fedserver_edge *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the edge aggregator");
    }
    made->server = server;
    const int len = snprintf(made->state, sizeof made->state, "%s", state);
    fed_status status =
        len > 0 && (size_t)len < sizeof made->state
            ? fedserver_edge_record_read(made->state, &made->record, err)
            : fed_fail(err, FED_EINVAL, "%.100s...: the directory's path is too long", state);
    if (status == FED_OK) {
        status = take_rules(rules, &made->rules, err);
    }
    if (status != FED_OK) {
        free(made);
        return status;
    }
    *edge = made;
    return FED_OK;
}

void fedserver_edge_close(fedserver_edge *edge) {
    free(edge);
}

static fedserver_training *training(const fedserver_edge *edge) {
    return fedserver_rounds_task(&edge->server->rounds, edge->record.task);
}

static fed_status remember(const fedserver_edge *edge, fed_error *err) {
    return fedserver_edge_record_write(edge->state, &edge->record, err);
}

static const char NAME[] = "upstream's task ";

static fedserver_task derive(const fedserver_edge *edge, const fedserver_edge_offer *offer,
                             int64_t now_ms) {
    const int64_t lease_ms = offer->lease_ms;
    fedserver_task task = {
        .wire = *offer->task,
        /* this codec packs no version: the versions come from upstream */
        .codec_down = "float32",
        .strategy = "fedavg",
        .device_share = 0.5,
        .priority = 5,
        .rules = {.rounds = MOST,
                  .cohort = edge->rules.cohort,
                  .goal = edge->rules.goal,
                  .minimum = edge->rules.minimum,
                  .deadline_ms = lease_ms > LEAST_DEADLINE_MS ? lease_ms : LEAST_DEADLINE_MS},
        .queued_ms = now_ms};
    snprintf(task.name, sizeof task.name, "%s%llu", NAME, (unsigned long long)offer->task->id);
    snprintf(task.rules.upstream, sizeof task.rules.upstream, "%llu",
             (unsigned long long)offer->task->id);
    task.wire.id = 0;
    return task;
}

static bool same_settings(const fed_task *a, const fed_task *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->codec_up, b->codec_up) == 0 &&
           strcmp(a->optimizer, b->optimizer) == 0 && strcmp(a->app, b->app) == 0 &&
           a->small_tensor == b->small_tensor && a->local_steps == b->local_steps &&
           strcmp(a->private_layers, b->private_layers) == 0 &&
           strcmp(a->codec_variates, b->codec_variates) == 0 &&
           a->personal_steps == b->personal_steps && a->holdout == b->holdout &&
           a->batch == b->batch && a->learning_rate == b->learning_rate && a->seed == b->seed;
}

/* *found: the edge aggregator has a task for upstream's task of that number, and the task is not
 * over. */
static fed_status find_task(const fedserver_edge *edge, uint64_t upstream, fedserver_task *task,
                            bool *found, fed_error *err) {
    const fedserver *server = edge->server;
    fed_error absent = {0};
    *found = false;
    if (edge->record.upstream != upstream || edge->record.task == 0) {
        return FED_OK;
    }
    fed_status status =
        server->store->task_find(server->db, FEDSERVER_PICK_ID, edge->record.task, task, &absent);
    *found = status == FED_OK &&
             !(task->state == FEDSERVER_TASK_FINISHED || task->state == FEDSERVER_TASK_CANCELLED);
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", absent.text);
}

/* Numbers of unfinished tasks whose names begin with NAME. */
typedef struct leftovers {
    uint64_t ids[16];
    size_t count;
} leftovers;

static fed_status note_leftover(void *user, const fedserver_task_entry *entry, fed_error *err) {
    (void)err;
    leftovers *l = user;
    const bool over =
        entry->state == FEDSERVER_TASK_FINISHED || entry->state == FEDSERVER_TASK_CANCELLED;
    if (!over && strncmp(entry->name, NAME, sizeof NAME - 1) == 0 &&
        l->count < sizeof l->ids / sizeof l->ids[0]) {
        l->ids[l->count++] = entry->id;
    }
    return FED_OK;
}

static fed_status find_room(const fedserver_edge *edge, const fedserver_edge_offer *offer,
                            const fedserver_task *task, fed_error *why) {
    fed_arch arch;
    const size_t len = offer->model != NULL ? strlen(offer->model) : 0;
    FED_TRY(fed_layout_resolve(task->wire.model, offer->model, len, &arch, why));
    const fed_status status = fedserver_task_fits(edge->server, task, &arch.layout, why);
    fed_arch_free(&arch);
    return status;
}

/* Add a task for upstream's task. After a crash before the record is written, the next call cancels
 * the task. */
static fed_status begin_anew(fedserver_edge *edge, const fedserver_edge_offer *offer,
                             int64_t now_ms, fed_error *err) {
    fedserver_task task = derive(edge, offer, now_ms);
    fed_error why = {0};
    fedcodec codec;
    if (fedcodec_parse(task.wire.codec_up, &codec, NULL) == FED_OK &&
        fedcodec_is_ring(codec.vtable)) {
        return fed_fail(err, FED_EDECLINED,
                        "the task is private, and an edge aggregator does not sum up its updates; "
                        "let its devices talk to the upstream coordinator");
    }
    if (find_room(edge, offer, &task, &why) != FED_OK) {
        return fed_fail(err, FED_EDECLINED, "the edge aggregator has no room for the task: %s",
                        why.text);
    }
    /* A device that gets another task drops its residual of the earlier task. An edge aggregator
     * likewise cancels its earlier tasks. */
    leftovers l = {.count = 0};
    FED_TRY(fedserver_task_each(edge->server, now_ms, note_leftover, &l, err));
    for (size_t k = 0; k < l.count; k++) {
        const fed_log_about about = {.task = l.ids[k]};
        fed_logf_about(
            edge->server->log, FED_LOG_WARN, &about,
            "task %llu is cancelled: upstream has assigned another task, or has changed this "
            "one's settings, or the edge aggregator's record of it is lost",
            (unsigned long long)l.ids[k]);
        FED_TRY(fedserver_task_change(edge->server, now_ms, l.ids[k], FEDSERVER_CANCEL, err));
    }
    const fedserver_new_task fresh = {
        .task = &task,
        .layout = fed_layout_is_reference(task.wire.model) ? offer->model : NULL,
        .values = offer->values,
        .size = offer->size};
    FED_TRY(fedserver_task_queue(edge->server, &fresh, err));
    edge->record = (fedserver_edge_record){.upstream = offer->task->id,
                                           .task = task.wire.id,
                                           .open_round = 1,
                                           .open_version = offer->version};
    return remember(edge, err);
}

static fed_status put_state(const fedserver_edge *edge, const fedserver_task *task,
                            fedserver_task_state to, fed_error *err) {
    fedserver_task changed = *task;
    changed.state = to;
    return edge->server->store->task_put(edge->server->db, &changed, 1U << task->state, err);
}

/* Queue the edge aggregator's task again, and start it. The caller commits. */
static fed_status wake(const fedserver_edge *edge, const fedserver_task *task, int64_t now_ms,
                       fed_error *err) {
    fedserver_task queued = *task;
    FED_TRY(put_state(edge, task, FEDSERVER_TASK_QUEUED, err));
    edge->server->rounds.tasks_changed = true;
    queued.state = FEDSERVER_TASK_QUEUED;
    return fedserver_training_start(&edge->server->rounds, &queued, now_ms, err);
}

/* Pause the edge aggregator's task, and take it out of memory. The caller commits. */
static fed_status let_go(const fedserver_edge *edge, fed_error *err) {
    fedserver_rounds *rounds = &edge->server->rounds;
    FED_TRY(put_state(edge, &training(edge)->task, FEDSERVER_TASK_PAUSED, err));
    rounds->tasks_changed = true;
    return fedserver_queue_follow(rounds, err);
}

static bool is_in_memory(const fedserver_edge *edge) {
    const fedserver_training *t = training(edge);
    return t != NULL && fedserver_training_runs(t);
}

/* The samples that upstream is told. A device whose weight is lowered counts less there, too. */
static uint32_t samples_of(const fedserver_sum *sum, const fedserver_weights *weights) {
    double samples = (double)sum->samples;
    if (!weights->as_claimed) {
        double scale = 0, all = 0;
        for (uint32_t k = 0; k < sum->updates; k++) {
            const double ratio =
                (double)sum->contributions[k].share / (double)sum->contributions[k].weight;
            scale = ratio > scale ? ratio : scale;
            all += (double)sum->contributions[k].share;
        }
        samples = all / scale;
    }
    return samples < 1 ? 1 : samples < (double)UINT32_MAX ? (uint32_t)samples : UINT32_MAX;
}

/* Compute the round's change into offer->values, and record the round as closed by training
 * offer->number. */
static fed_status sum_up(fedserver_edge *edge, const fedserver_edge_offer *offer, fed_error *err) {
    fedserver_training *t = training(edge);
    fedserver_edge_record *r = &edge->record;
    fedserver_weights weights;
    assert(t->arch.layout.size == offer->size && t->sum.updates > 0);
    FED_TRY(t->intake->combine(&edge->server->rounds, t, &weights, offer->values, err));
    r->closed_version =
        /* if the record does not name the round, the version that it trained is not known */
        r->open_round == t->round.number ? r->open_version : offer->version;
    r->closed_round = t->round.number;
    r->closed_number = offer->number;
    r->closed_updates = t->sum.updates;
    r->closed_samples = samples_of(&t->sum, &weights);
    r->closed_loss = (float)weights.loss;
    return remember(edge, err);
}

static void hand_over(const fedserver_edge *edge, fedserver_edge_change *change) {
    *change = (fedserver_edge_change){
        .ready = true, .samples = edge->record.closed_samples, .loss = edge->record.closed_loss};
}

/* Close the round, and hand over its change. The record is written first: after a crash in between,
 * the round is still open. */
static fed_status close_round(fedserver_edge *edge, const fedserver_edge_offer *offer,
                              fedserver_edge_change *change, fed_error *err) {
    fed_status status = sum_up(edge, offer, err);
    const uint32_t round = edge->record.closed_round, updates = edge->record.closed_updates;
    if (status == FED_OK) {
        status = let_go(edge, err);
    }
    FED_TRY(fedserver_finish(edge->server, status, err));
    const fed_log_about about = {.task = edge->record.task, .round = round};
    fed_logf_about(edge->server->log, FED_LOG_INFO, &about,
                   "round %u is closed: its %u updates, of %u samples, go upstream as one", round,
                   updates, edge->record.closed_samples);
    hand_over(edge, change);
    return FED_OK;
}

static fed_status take(fedserver_edge *edge, const fedserver_edge_offer *offer, int64_t now_ms,
                       fed_error *err) {
    fedserver_rounds *rounds = &edge->server->rounds;
    const uint32_t next = training(edge)->round.number + 1;
    fed_status status =
        fedserver_training_take(rounds, training(edge), offer->values, false, now_ms, err);
    FED_TRY(fedserver_finish(edge->server, status, err));
    edge->record.open_round = next;
    edge->record.open_version = offer->version;
    return remember(edge, err);
}

static fed_status tend_open(fedserver_edge *edge, const fedserver_edge_offer *offer, int64_t now_ms,
                            fedserver_edge_change *change, fed_error *err) {
    const fedserver_round *round = &training(edge)->round;
    const fedserver_edge_record *r = &edge->record;
    const bool stale = r->open_round == round->number && r->open_version != offer->version;
    fedserver_round_rules *rules = &training(edge)->task.rules;
    rules->cohort = edge->rules.cohort;
    rules->goal = edge->rules.goal;
    rules->minimum = edge->rules.minimum;
    if (r->closed_round == round->number && r->closed_number < offer->number) {
        const fed_log_about about = fedserver_task_about(&training(edge)->task, round->number);
        fed_logf_about(edge->server->log, FED_LOG_WARN, &about,
                       "the edge aggregator's task was resumed, but its round %u has gone upstream "
                       "already; the task is paused again until the next version comes",
                       round->number);
        return fedserver_finish(edge->server, let_go(edge, err), err);
    }
    if (stale && round->received == 0) {
        return take(edge, offer, now_ms, err);
    }
    const bool late = stale || offer->left_ms <= offer->lease_ms / 4;
    return round->received >= rules->goal || (late && round->received >= rules->minimum)
               ? close_round(edge, offer, change, err)
               : FED_OK;
}

static fed_status find_open(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    *(uint32_t *)user = row->committed_ms == 0 ? row->number : 0;
    return FED_OK;
}

static fed_status tend_closed(fedserver_edge *edge, const fedserver_task *task,
                              const fedserver_edge_offer *offer, int64_t now_ms,
                              fedserver_edge_change *change, fed_error *err) {
    const fedserver *server = edge->server;
    const fedserver_edge_record *r = &edge->record;
    const bool taken_up = r->closed_number < offer->number;
    uint32_t open = 0;
    FED_TRY(server->store->round_each(server->db, task->wire.id, 1, find_open, &open, err));
    if (open == 0 || r->closed_round != open) {
        return FED_OK; /* somebody has paused the task by command, so leave it */
    }
    if (taken_up && offer->owes && offer->version == r->closed_version) {
        /* A newer training has begun, and upstream has not counted the change. The edge
         * aggregator's device has the change in its residual, and adds it to the next one. So hand
         * over zeros: the device then sends the change again. */
        memset(offer->values, 0, offer->size * sizeof *offer->values);
        hand_over(edge, change);
        return FED_OK;
    }
    FED_TRY(wake(edge, task, now_ms, err));
    return taken_up ? take(edge, offer, now_ms, err) : close_round(edge, offer, change, err);
}

/* Reserve the database for the writes of a turn. *held: another program holds it, so this turn does
 * nothing. */
static fed_status begin_turn(const fedserver_edge *edge, bool *held, fed_error *err) {
    fedserver *server = edge->server;
    fedserver_batch_log_begin(&server->batch_log);
    fedserver_act_for(server, "by=upstream");
    FED_TRY(fedserver_held_reserve(&server->held, server->store, server->db, server->log, err));
    *held = fedserver_is_held(&server->held);
    return FED_OK;
}

/* The store undoes a failed step, but the memory has changed already. So no later batch may be
 * committed (S18 in docs/durability.md). */
static fed_status end_turn(const fedserver_edge *edge, fed_status status, fed_error *err) {
    fedserver *server = edge->server;
    status = fedserver_finish(server, status, err);
    fedserver_act_for(server, "");
    fedserver_batch_log_end(&server->batch_log, status == FED_OK);
    if (status != FED_OK && status != FED_EDECLINED) {
        /* FED_EDECLINED means that nothing has changed. */
        server->store->rollback(server->db);
        server->broken = true;
    }
    return status;
}

static fed_status take_turn(fedserver_edge *edge, const fedserver_edge_offer *offer, int64_t now_ms,
                            fedserver_edge_change *change, fed_error *err) {
    fedserver_task task;
    bool found = false;
    FED_TRY(find_task(edge, offer->task->id, &task, &found, err));
    if (!found || !same_settings(&task.wire, offer->task)) {
        return begin_anew(edge, offer, now_ms, err);
    }
    if (task.state == FEDSERVER_TASK_PAUSED) {
        return tend_closed(edge, &task, offer, now_ms, change, err);
    }
    if (is_in_memory(edge)) {
        return tend_open(edge, offer, now_ms, change, err);
    }
    edge->server->rounds.queue_changed = true;
    return FED_OK;
}

fed_status fedserver_edge_poll(fedserver_edge *edge, const fedserver_edge_offer *offer,
                               int64_t now_ms, fedserver_edge_change *change, fed_error *err) {
    bool held = false;
    *change = (fedserver_edge_change){.ready = false};
    fed_status status = begin_turn(edge, &held, err);
    if (status == FED_OK && !held) {
        status = take_turn(edge, offer, now_ms, change, err);
    }
    return end_turn(edge, status, err);
}

/* Has the task's model `size` values? After a restore from a backup, upstream may give an old
 * task's number to another task. */
static fed_status check_size(const fedserver_edge *edge, const fedserver_task *task, size_t size,
                             fed_error *err) {
    fed_arch arch;
    FED_TRY(fedserver_task_model(edge->server->store, edge->server->db, task, &arch, err));
    const size_t right = arch.layout.size;
    fed_arch_free(&arch);
    return size == right
               ? FED_OK
               : fed_fail(err, FED_EDECLINED,
                          "the last model of upstream's task has %zu values, not %zu", size, right);
}

static fed_status finish(const fedserver_edge *edge, uint64_t upstream, const float *values,
                         size_t size, int64_t now_ms, bool *done, fed_error *err) {
    fedserver_task task;
    bool found = false;
    FED_TRY(find_task(edge, upstream, &task, &found, err));
    if (!found) {
        *done = true;
        return FED_OK;
    }
    FED_TRY(check_size(edge, &task, size, err));
    if (task.state == FEDSERVER_TASK_PAUSED) {
        FED_TRY(wake(edge, &task, now_ms, err));
    }
    if (!is_in_memory(edge)) {
        edge->server->rounds.queue_changed = true;
        return FED_OK;
    }
    fed_status status =
        fedserver_training_take(&edge->server->rounds, training(edge), values, true, now_ms, err);
    FED_TRY(fedserver_finish(edge->server, status, err));
    *done = true;
    return FED_OK;
}

fed_status fedserver_edge_finish(fedserver_edge *edge, uint64_t upstream, const float *values,
                                 size_t size, int64_t now_ms, bool *done, fed_error *err) {
    bool held = false;
    *done = false;
    fed_status status = begin_turn(edge, &held, err);
    if (status == FED_OK && !held) {
        status = finish(edge, upstream, values, size, now_ms, done, err);
    }
    return end_turn(edge, status, err);
}

void fedserver_edge_failures(fedserver_edge *edge, uint32_t failures) {
    edge->server->is_edge = true;
    edge->server->upstream_failures = failures;
}

uint64_t fedserver_edge_devices(fedserver_edge *edge, int64_t now_ms) {
    return fedserver_devices_active(&edge->server->rounds, now_ms);
}
