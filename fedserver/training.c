/* A task from its start to its last round: every deed changes the store and the cache together. */
#include <stdlib.h>

#include "fed/hash.h"
#include "fedserver/server.h"

/* -- open a task -- */

void fedserver_training_free(fedserver_training *training) {
    fedserver_versions_free(&training->versions);
    fedserver_sum_free(&training->sum);
    fed_arch_free(&training->arch);
    *training = (fedserver_training){0};
}

static fed_status append_delta(void *user, int64_t version, const uint8_t *part, size_t len,
                               fed_error *err) {
    fedserver_versions *versions = user;
    fed_status status = fedserver_versions_append(versions, (uint32_t)version, part, len);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "delta %lld can't be restored: %s",
                                       (long long)version, fed_status_text(status));
}

static fed_status load_versions(fedserver *server, fedserver_training *t, fed_error *err) {
    uint64_t id = t->task.wire.id;
    fedserver_model_row row;
    FED_TRY(server->store->model_find(server->db, id, &row, err));
    free(row.state);
    if (row.size != t->arch.layout.size) {
        free(row.values);
        free(row.residual);
        return fed_fail(err, FED_EFORMAT, "task %llu: the stored model has %zu values, not %zu",
                        (unsigned long long)id, row.size, t->arch.layout.size);
    }
    fed_status status = fedserver_versions_init(&t->versions, &t->arch.layout, row.version,
                                                row.values, row.residual);
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
    return server->store->delta_each(server->db, id, append_delta, &t->versions, err);
}

static fed_status restore_update(void *user, int64_t device, const uint8_t *body, size_t len,
                                 fed_error *err) {
    fedserver_training *t = user;
    fedserver_update update;
    if (fedserver_update_read(body, len, &update) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "the stored update of device %lld is damaged",
                        (long long)device);
    }
    return fedserver_sum_add(&t->sum, &t->arch.layout, &update, err);
}

static fed_status restore_round(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    fedserver_training *t = user;
    t->round = (fedserver_round){.phase = FEDSERVER_ROUND_OPEN,
                                 .number = row->number,
                                 .attempt = row->attempts,
                                 .opened_ms = row->opened_ms,
                                 .deadline_ms = row->deadline_ms};
    return FED_OK;
}

/* Places are taken by this attempt's leases and by every device that has reported. */
static uint32_t places_taken(const fedserver *server, const fedserver_training *t) {
    uint32_t taken = 0;
    for (size_t k = 0; k < server->devices.count; k++) {
        const fedserver_device *device = &server->devices.items[k];
        taken +=
            device->lease_task == t->task.wire.id && device->lease_round == t->round.number &&
            (device->lease_attempt == t->round.attempt || device->counted_lease == device->lease);
    }
    return taken;
}

static fed_status load_round(fedserver *server, fedserver_training *t, fed_error *err) {
    FED_TRY(server->store->round_each(server->db, t->task.wire.id, 1, restore_round, t, err));
    FED_TRY(server->store->update_each(server->db, restore_update, t, err));
    t->round.received = t->sum.updates;
    t->round.leased = places_taken(server, t);
    if (t->round.deadline_ms != 0) {
        t->round.phase = t->round.leased >= t->task.rules.cohort ? FEDSERVER_ROUND_FULL
                                                                 : FEDSERVER_ROUND_LEASING;
    }
    return FED_OK;
}

static fed_status load_task(fedserver *server, fedserver_training *t, fed_error *err) {
    FED_TRY(fed_arch_parse(t->task.wire.model, &t->arch, err));
    FED_TRY(fedcodec_parse(t->task.wire.codec_up, &t->codec_up, err));
    FED_TRY(fedcodec_parse(t->task.codec_down, &t->codec_down, err));
    FED_TRY(load_versions(server, t, err));
    fed_status status = fedserver_sum_init(&t->sum, t->arch.layout.size);
    if (status != FED_OK) {
        return fed_fail(err, status, "out of memory for the sum of a round");
    }
    return t->task.state == FEDSERVER_TASK_RUNNING ? load_round(server, t, err) : FED_OK;
}

/* Make `task` the one in memory. The arch's layout is pointed to, so it is parsed in its place. */
static fed_status training_open(fedserver *server, const fedserver_task *task, fed_error *err) {
    fedserver_training *t = &server->training;
    fedserver_training_free(t);
    t->task = *task;
    FED_TRY(load_task(server, t, err));
    t->loaded = true;
    return FED_OK;
}

fed_status fedserver_training_load(fedserver *server, fed_error *err) {
    fedserver_task task;
    fed_error absent = {0};
    fed_status status =
        server->store->task_find(server->db, FEDSERVER_PICK_RUNNING, 0, &task, &absent);
    if (status == FED_ENOTFOUND) {
        status = server->store->task_find(server->db, FEDSERVER_PICK_FINISHED, 0, &task, &absent);
    }
    server->queue_changed = true;
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    FED_TRY(training_open(server, &task, err));
    const fedserver_round *round = &server->training.round;
    if (task.state == FEDSERVER_TASK_RUNNING) {
        fed_logf(server->log, FED_LOG_INFO,
                 "task %llu (%s) goes on with round %u, attempt %u: %u of %u updates are in",
                 (unsigned long long)task.wire.id, task.name, round->number, round->attempt,
                 round->received, task.rules.goal);
    }
    return FED_OK;
}

/* -- the deeds of a round -- */

static fedserver_round_row round_row(const fedserver_training *t) {
    return (fedserver_round_row){.number = t->round.number,
                                 .attempts = t->round.attempt,
                                 .opened_ms = t->round.opened_ms,
                                 .deadline_ms = t->round.deadline_ms};
}

/* Write the open round down as it is now. */
static fed_status round_save(fedserver *server, fed_error *err) {
    fedserver_round_row row = round_row(&server->training);
    return server->store->round_put(server->db, server->training.task.wire.id, &row, err);
}

fed_status fedserver_training_start(fedserver *server, int64_t now_ms, fed_error *err) {
    fedserver_training *t = &server->training;
    if (t->loaded && t->task.state == FEDSERVER_TASK_RUNNING) {
        return FED_OK;
    }
    fedserver_task task;
    fed_error absent = {0};
    fed_status status =
        server->store->task_find(server->db, FEDSERVER_PICK_QUEUED, 0, &task, &absent);
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    FED_TRY(training_open(server, &task, err)); /* still queued: there is no round to load */
    t->task.state = FEDSERVER_TASK_RUNNING;
    t->task.started_ms = now_ms;
    FED_TRY(server->store->task_put(server->db, &t->task, err));
    fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_START, now_ms);
    FED_TRY(round_save(server, err));
    server->epoch++;
    fed_logf(server->log, FED_LOG_INFO, "task %llu (%s) starts: %u rounds, %zu parameters",
             (unsigned long long)t->task.wire.id, t->task.name, t->task.rules.rounds,
             t->arch.layout.size);
    return FED_OK;
}

/* The new version, from the round's mean: in memory, and its rows. */
static fed_status make_version(fedserver *server, size_t *delta_len, fed_error *err) {
    fedserver_training *t = &server->training;
    fedserver_versions *v = &t->versions;
    uint64_t id = t->task.wire.id;
    float *mean = malloc(t->sum.size * sizeof *mean);
    if (mean == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the mean of a round");
    }
    const uint8_t *part = NULL;
    fedserver_sum_mean(&t->sum, mean);
    fed_status status = fedserver_versions_advance(v, &t->codec_down, t->task.wire.small_tensor,
                                                   mean, &part, delta_len, err);
    free(mean);
    FED_TRY(status);
    fedserver_model_row row = {.version = v->version,
                               .digest = v->digest,
                               .values = v->values,
                               .residual = v->residual,
                               .size = t->sum.size};
    FED_TRY(server->store->model_put(server->db, id, &row, err));
    FED_TRY(server->store->delta_add(server->db, id, v->version, part, *delta_len, err));
    return server->store->delta_prune(server->db, id, v->oldest, err);
}

/* After a commit: the next round, or the end of the task. */
static fed_status move_on(fedserver *server, int64_t now_ms, fed_error *err) {
    fedserver_training *t = &server->training;
    fedserver_round_action action =
        fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_COMMITTED, now_ms);
    if (action != FEDSERVER_DO_FINISH) {
        return round_save(server, err);
    }
    t->task.state = FEDSERVER_TASK_FINISHED;
    t->task.finished_ms = now_ms;
    server->queue_changed = true; /* the next one may start */
    fed_logf(server->log, FED_LOG_INFO, "task %llu (%s) is finished with version %u",
             (unsigned long long)t->task.wire.id, t->task.name, t->versions.version);
    return server->store->task_put(server->db, &t->task, err);
}

/* What has arrived of updates that can't be counted any more, now that the round is over. */
static fed_status prune_pieces(fedserver *server, fed_error *err) {
    const fedserver_training *t = &server->training;
    uint32_t next = t->round.number + 1;
    uint32_t stale = t->task.rules.staleness < next ? t->task.rules.staleness : next;
    return server->store->piece_prune(server->db, t->task.wire.id, next - stale, err);
}

static fed_status commit_round(fedserver *server, int64_t now_ms, fed_error *err) {
    fedserver_training *t = &server->training;
    size_t delta_len = 0;
    FED_TRY(make_version(server, &delta_len, err));
    fedserver_round_row row = round_row(t);
    row.committed_ms = now_ms;
    row.updates = t->sum.updates;
    row.samples = t->sum.samples;
    row.loss = t->sum.loss / (double)t->sum.samples;
    row.update_bytes = t->sum.bytes;
    row.delta_bytes = delta_len;
    FED_TRY(server->store->round_put(server->db, t->task.wire.id, &row, err));
    FED_TRY(server->store->update_clear(server->db, err));
    FED_TRY(prune_pieces(server, err));
    fedserver_sum_clear(&t->sum);
    fedserver_versions_trim(&t->versions, now_ms);
    server->counters.rounds_committed++;
    server->epoch++;
    fed_logf(server->log, FED_LOG_INFO,
             "round %u committed: %u updates, loss %.4f, delta of %zu bytes", row.number,
             row.updates, row.loss, delta_len);
    return move_on(server, now_ms, err);
}

fed_status fedserver_training_advance(fedserver *server, int64_t now_ms, fed_error *err) {
    fedserver_training *t = &server->training;
    if (!t->loaded) {
        return FED_OK;
    }
    fedserver_round before = t->round;
    switch (fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_TICK, now_ms)) {
    case FEDSERVER_DO_COMMIT:
        return commit_round(server, now_ms, err);
    case FEDSERVER_DO_REOPEN:
        server->counters.attempts_abandoned++;
        server->epoch++;
        fed_logf(server->log, FED_LOG_WARN,
                 "round %u: attempt %u is abandoned with %u of at least %u updates from %u leases; "
                 "what is counted stays counted",
                 before.number, before.attempt, before.received, t->task.rules.minimum,
                 before.leased);
        return round_save(server, err);
    default:
        return FED_OK;
    }
}

/* Random, so that no lease of a database that was restored from a backup is ever given twice. */
static fed_status lease_name(uint64_t *lease) {
    uint64_t name = 0;
    while (name == 0) {
        FED_TRY(fed_random(&name, sizeof name));
    }
    *lease = name;
    return FED_OK;
}

static fed_status give_lease(fedserver *server, fedserver_device *device, fed_error *err) {
    const fedserver_training *t = &server->training;
    fedserver_device leased = *device;
    fed_status status = lease_name(&leased.lease);
    if (status != FED_OK) {
        return fed_fail(err, status, "the system gives no random bytes");
    }
    leased.lease_task = t->task.wire.id;
    leased.lease_round = t->round.number;
    leased.lease_attempt = t->round.attempt;
    FED_TRY(server->store->piece_clear(server->db, device->id, err));
    FED_TRY(server->store->device_put(server->db, &leased, err));
    *device = leased;
    return FED_OK;
}

static bool leased_here(const fedserver_training *t, const fedserver_device *device) {
    return t->round.phase != FEDSERVER_ROUND_NONE && device->lease != 0 &&
           device->lease_task == t->task.wire.id && device->lease_round == t->round.number;
}

static fedserver_round_event checkin_event(const fedserver_training *t,
                                           const fedserver_device *device) {
    if (!leased_here(t, device)) {
        return FEDSERVER_ON_CHECKIN_NEW;
    }
    if (device->counted_lease == device->lease) {
        return FEDSERVER_ON_CHECKIN_REPORTED;
    }
    return device->lease_attempt == t->round.attempt ? FEDSERVER_ON_CHECKIN_LEASED
                                                     : FEDSERVER_ON_CHECKIN_NEW;
}

fed_status fedserver_training_checkin(fedserver *server, fedserver_device *device, int64_t now_ms,
                                      fedserver_round_action *action, fed_error *err) {
    fedserver_training *t = &server->training;
    bool first = t->round.phase == FEDSERVER_ROUND_OPEN;
    *action = fedserver_round_step(&t->task.rules, &t->round, checkin_event(t, device), now_ms);
    if (*action != FEDSERVER_DO_LEASE) {
        return FED_OK;
    }
    FED_TRY(give_lease(server, device, err));
    return first ? round_save(server, err) : FED_OK; /* the deadline runs from here */
}

fedserver_round_event fedserver_update_event(const fedserver_training *t,
                                             const fedserver_device *device,
                                             const fed_update *head) {
    if (head->lease != 0 && head->lease == device->counted_lease) {
        return FEDSERVER_ON_UPDATE_COUNTED;
    }
    if (head->task != t->task.wire.id || head->round != t->round.number) {
        return FEDSERVER_ON_UPDATE_CLOSED;
    }
    if (!leased_here(t, device) || head->lease != device->lease) {
        return FEDSERVER_ON_UPDATE_UNKNOWN;
    }
    return device->lease_attempt == t->round.attempt ? FEDSERVER_ON_UPDATE_LEASED
                                                     : FEDSERVER_ON_UPDATE_EXPIRED;
}

fed_status fedserver_training_count(fedserver *server, fedserver_device *device,
                                    const fedserver_update *update, const uint8_t *body,
                                    int64_t now_ms, fed_error *err) {
    fedserver_training *t = &server->training;
    FED_TRY(fedserver_sum_add(&t->sum, &t->arch.layout, update, err));
    FED_TRY(server->store->update_add(server->db, device->id, body, update->body_len, err));
    device->counted_lease = update->head.lease;
    FED_TRY(server->store->device_put(server->db, device, err));
    server->counters.updates_counted++;
    return fedserver_training_advance(server, now_ms, err);
}
