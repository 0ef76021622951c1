/* Lists and changes tasks. A command writes the store, which the serving process then reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/point.h"
#include "fedserver/audit_log.h"
#include "fedserver/operator/needs.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/queue.h"
#include "fedserver/rounds/running.h"
#include "fedserver/rounds/task_memory.h"
#include "fedserver/server.h"
#include "fedserver/task/fields.h"
#include "fedserver/task/private_task.h"

typedef struct explaining {
    fedserver *server;
    /* bytes: the limit for all tasks together, 0: none; what running tasks take, if limited */
    uint64_t limit, used;
    uint64_t before; /* the first queued task that waits for other tasks' memory; 0: none */
    fedserver_task_visit visit;
    void *user;
} explaining;

static fed_status add_up(void *user, const fedserver_task *task, bool *more, fed_error *err) {
    explaining *e = user;
    const fedserver *s = e->server;
    const fedserver_training *t = fedserver_rounds_task(&s->rounds, task->wire.id);
    uint64_t need = t != NULL ? t->memory_bytes : 0;
    (void)more;
    if (t == NULL) { /* a command has no task in memory */
        FED_TRY(fedserver_memory_find(s->store, s->db, task, &need, err));
    }
    e->used += need;
    return FED_OK;
}

/* Say why a queued task waits, by the rules of rounds/queue.c. */
static fed_status say_why(explaining *e, fedserver_task_entry *entry, fed_error *err) {
    const fedserver *s = e->server;
    fedserver_task task;
    uint64_t need = 0;
    FED_TRY(s->store->task_find(s->db, FEDSERVER_PICK_ID, entry->id, &task, err));
    FED_TRY(fedserver_memory_find(s->store, s->db, &task, &need, err));
    if (!fedserver_memory_fits(e->limit, e->used, need)) {
        fedserver_memory_report(e->limit, e->used, need, entry->waits, sizeof entry->waits);
        e->before = e->before == 0 && need <= e->limit ? entry->id : e->before;
    } else if (e->before != 0) {
        snprintf(entry->waits, sizeof entry->waits,
                 "task %llu is before it in the queue, and waits for memory; `fedserver move` "
                 "changes their order",
                 (unsigned long long)e->before);
    } else {
        snprintf(entry->waits, sizeof entry->waits,
                 "it fits; `fedserver run` starts it within seconds");
    }
    return FED_OK;
}

/* Say of a finished task if it ended before its last round for its budget. */
static fed_status say_budget(explaining *e, fedserver_task_entry *entry, fed_error *err) {
    const fedserver *s = e->server;
    fedserver_task task;
    FED_TRY(s->store->task_find(s->db, FEDSERVER_PICK_ID, entry->id, &task, err));
    if (fedserver_task_promises(&task)) {
        snprintf(entry->waits, sizeof entry->waits,
                 "its budget is spent after %u of %u rounds; `fedserver ledger %llu` lists who "
                 "took part",
                 entry->version, entry->rounds, (unsigned long long)entry->id);
    }
    return FED_OK;
}

static fed_status explain(void *user, const fedserver_task_entry *entry, fed_error *err) {
    explaining *e = user;
    fedserver *s = e->server;
    fedserver_task_entry told = *entry;
    const bool over =
        entry->state == FEDSERVER_TASK_FINISHED || entry->state == FEDSERVER_TASK_CANCELLED;
    if (entry->declined > 0 && !over) {
        told.declined_until_ms = entry->declined_ms + FEDSERVER_DECLINE_MS;
    }
    if (entry->state == FEDSERVER_TASK_QUEUED) {
        FED_TRY(say_why(e, &told, err));
    } else if (entry->state == FEDSERVER_TASK_PAUSED) {
        FED_TRY(fedserver_pauses_find(&s->pauses, s->store, s->db, told.id, told.waits, err));
    } else if (entry->state == FEDSERVER_TASK_FINISHED && entry->version < entry->rounds) {
        FED_TRY(say_budget(e, &told, err));
    }
    return e->visit(e->user, &told, err);
}

fed_status fedserver_task_each(fedserver *server, int64_t now_ms, fedserver_task_visit visit,
                               void *user, fed_error *err) {
    explaining e = {.server = server, .visit = visit, .user = user};
    FED_TRY(fedserver_memory_limit(server, &e.limit, err));
    if (e.limit != 0) {
        FED_TRY(fedserver_tasks_with(server->store, server->db, FEDSERVER_TASK_RUNNING, add_up, &e,
                                     err));
    }
    return server->store->task_each(server->db, now_ms - FEDSERVER_DECLINE_MS, explain, &e, err);
}

static fed_status find(fedserver *server, uint64_t id, fedserver_task *task, fed_error *err) {
    fed_error absent = {0};
    fed_status status = server->store->task_find(server->db, FEDSERVER_PICK_ID, id, task, &absent);
    if (status == FED_ENOTFOUND) {
        return fed_fail(err, status, "there is no task %llu; `fedserver tasks` lists them",
                        (unsigned long long)id);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", absent.text);
}

typedef struct order {
    struct {
        uint64_t id;
        bool queued;
    } * items;
    size_t count;
} order;

static fed_status append(void *user, const fedserver_task_entry *entry, fed_error *err) {
    order *o = user;
    if (entry->state == FEDSERVER_TASK_FINISHED || entry->state == FEDSERVER_TASK_CANCELLED) {
        return FED_OK;
    }
    void *items = realloc(o->items, (o->count + 1) * sizeof *o->items);
    if (items == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the queue");
    }
    o->items = items;
    o->items[o->count].id = entry->id;
    o->items[o->count++].queued = entry->state == FEDSERVER_TASK_QUEUED;
    return FED_OK;
}

static fed_status renumber(fedserver *server, const order *o, uint64_t id, uint32_t position,
                           fed_error *err) {
    uint64_t next = 1;
    uint32_t before = 1;
    bool placed = false;
    for (size_t k = 0; k < o->count; k++) {
        if (o->items[k].id == id) {
            continue;
        }
        if (!placed && o->items[k].queued && before++ == position) {
            FED_TRY(server->store->task_place(server->db, id, next++, err));
            placed = true;
        }
        FED_TRY(server->store->task_place(server->db, o->items[k].id, next++, err));
    }
    return placed ? FED_OK : server->store->task_place(server->db, id, next, err);
}

static fed_status place(fedserver *server, uint64_t id, uint32_t position, fed_error *err) {
    order o = {0};
    fed_status status = server->store->task_each(server->db, 0, append, &o, err);
    if (status == FED_OK) {
        status = renumber(server, &o, id, position, err);
    }
    free(o.items);
    return status;
}

static fed_status note(fedserver *server, int64_t now_ms, const fedserver_task *task,
                       const char *verb, fed_error *err) {
    char event[24];
    snprintf(event, sizeof event, "task_%s", verb);
    return fedserver_audit(server, FED_LOG_INFO, now_ms, event, err, "task=%llu name=\"%s\"",
                           (unsigned long long)task->wire.id, task->name);
}

fed_status fedserver_task_move(fedserver *server, int64_t now_ms, uint64_t id, uint32_t position,
                               fed_error *err) {
    fedserver_task task;
    FED_TRY(find(server, id, &task, err));
    if (task.state != FEDSERVER_TASK_QUEUED) {
        return fed_fail(err, FED_ESTATE, "task %llu (%s) is %s; only a queued task can be moved",
                        (unsigned long long)id, task.name, fedserver_task_state_name(task.state));
    }
    fed_status status = place(server, id, position, err);
    if (status == FED_OK) {
        status = note(server, now_ms, &task, "moved", err);
    }
    return fedserver_finish(server, status, err);
}

static const struct {
    const char *verb;
    unsigned from;
    fedserver_task_state to;
} deeds[] = {
    [FEDSERVER_CANCEL] = {"cancelled",
                          1 << FEDSERVER_TASK_QUEUED | 1 << FEDSERVER_TASK_RUNNING |
                              1 << FEDSERVER_TASK_PAUSED,
                          FEDSERVER_TASK_CANCELLED},
    [FEDSERVER_PAUSE] = {"paused", 1 << FEDSERVER_TASK_QUEUED | 1 << FEDSERVER_TASK_RUNNING,
                         FEDSERVER_TASK_PAUSED},
    [FEDSERVER_RESUME] = {"resumed",
                          1 << FEDSERVER_TASK_PAUSED | 1 << FEDSERVER_TASK_QUEUED |
                              1 << FEDSERVER_TASK_RUNNING,
                          FEDSERVER_TASK_QUEUED},
};

static fed_status change(fedserver *server, int64_t now_ms, fedserver_task *task,
                         fedserver_task_deed deed, fed_error *err) {
    const fedserver_task_state before = task->state;
    if ((deeds[deed].from >> before & 1) == 0) {
        return fed_fail(err, FED_ESTATE, "task %llu (%s) is %s; it can't be %s",
                        (unsigned long long)task->wire.id, task->name,
                        fedserver_task_state_name(before), deeds[deed].verb);
    }
    if (deed == FEDSERVER_RESUME) {
        FED_TRY(server->store->decline_forget(server->db, task->wire.id, err));
        if (before != FEDSERVER_TASK_PAUSED) {
            return FED_OK;
        }
    }
    task->state = deeds[deed].to;
    task->finished_ms = deed == FEDSERVER_CANCEL ? now_ms : task->finished_ms;
    FED_TRY(server->store->task_put(server->db, task, 1U << before, err));
    return deed == FEDSERVER_RESUME ? place(server, task->wire.id, 1, err) : FED_OK;
}

static fed_status tidy_if_alone(fedserver *server, fed_error *err) {
    if (server->serving) {
        return FED_OK;
    }
    fed_error taken = {0};
    fed_status status = server->store->lock(server->db, &taken);
    if (status != FED_OK) {
        return status == FED_EBUSY ? FED_OK : fed_fail(err, status, "%s", taken.text);
    }
    return fedserver_queue_tidy(&server->rounds, err);
}

/* The process of the rounds follows the store. A front has no tasks in memory. */
static void take_over(fedserver *server) {
    const bool has_rounds = server->setup.part != FEDSERVER_GATE;
    server->rounds.queue_changed = server->rounds.queue_changed || has_rounds;
    server->rounds.tasks_changed = server->rounds.tasks_changed || has_rounds;
}

fed_status fedserver_task_prioritize(fedserver *server, int64_t now_ms, uint64_t id,
                                     uint32_t priority, fed_error *err) {
    const fedserver_field *field = &fedserver_fields[FEDSERVER_FIELD_PRIORITY];
    fedserver_task task;
    if (priority < field->low || priority > field->high) {
        return fed_fail(err, FED_EINVAL, "%u is not a priority; it is a number from %g to %g",
                        priority, field->low, field->high);
    }
    FED_TRY(find(server, id, &task, err));
    if (task.state == FEDSERVER_TASK_FINISHED || task.state == FEDSERVER_TASK_CANCELLED) {
        return fed_fail(err, FED_ESTATE, "task %llu (%s) is %s; it needs no priority any more",
                        (unsigned long long)id, task.name, fedserver_task_state_name(task.state));
    }
    const uint32_t before = task.priority;
    if (priority == before) {
        return FED_OK;
    }
    task.priority = priority;
    fed_status status = server->store->task_describe(server->db, &task, err);
    if (status == FED_OK) {
        status = fedserver_audit(server, FED_LOG_INFO, now_ms, "task_prioritized", err,
                                 "task=%llu name=\"%s\" priority=%u was=%u", (unsigned long long)id,
                                 task.name, priority, before);
    }
    FED_TRY(fedserver_finish(server, status, err));
    take_over(server);
    return FED_OK;
}

fed_status fedserver_task_change(fedserver *server, int64_t now_ms, uint64_t id,
                                 fedserver_task_deed deed, fed_error *err) {
    fedserver_task task;
    FED_TRY(find(server, id, &task, err));
    fed_status status = change(server, now_ms, &task, deed, err);
    if (status == FED_OK) {
        status = note(server, now_ms, &task, deeds[deed].verb, err);
    }
    FED_TRY(fedserver_finish(server, status, err));
    take_over(server);
    return deed == FEDSERVER_CANCEL ? tidy_if_alone(server, err) : FED_OK;
}

static fed_status keep_round(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    *(fedserver_round_row *)user = *row;
    return FED_OK;
}

/* Count the updates of the open round, and refuse what must not be voided. */
static fed_status look_at_round(const fedserver *server, const fedserver_task *task,
                                const fedserver_reopening_options *options,
                                fedserver_reopened *lost, fed_error *err) {
    const unsigned from =
        1 << FEDSERVER_TASK_QUEUED | 1 << FEDSERVER_TASK_RUNNING | 1 << FEDSERVER_TASK_PAUSED;
    const uint64_t id = task->wire.id;
    fedserver_round_row row = {0};
    bool opened = false;
    if (!fedserver_task_has_helper(task)) {
        return fed_fail(err, FED_EINVAL, "task %llu (%s) has no helper, so no round waits for one",
                        (unsigned long long)id, task->name);
    }
    if ((from >> task->state & 1) == 0) {
        return fed_fail(err, FED_ESTATE, "task %llu (%s) is %s; it has no open round",
                        (unsigned long long)id, task->name, fedserver_task_state_name(task->state));
    }
    FED_TRY(server->store->round_each(server->db, id, 1, keep_round, &row, err));
    *lost = (fedserver_reopened){.round = row.number};
    FED_TRY(server->store->update_count(server->db, id, row.number, &lost->updates, err));
    FED_TRY(server->store->opening_find(server->db, id, row.number, NULL, 0, &opened, err));
    if (opened) {
        return fed_fail(err, FED_ESTATE,
                        "the helper has opened round %u of task %llu; it commits by itself",
                        row.number, (unsigned long long)id);
    }
    return lost->updates == 0 || options->force
               ? FED_OK
               : fed_fail(err, FED_EBUSY,
                          "round %u of task %llu has %u update%s, which would be lost for good: "
                          "wait until the helper is back, or add --force to void the round",
                          row.number, (unsigned long long)id, lost->updates,
                          lost->updates == 1 ? "" : "s");
}

static fed_status take_helper(fedserver_task *task, const char *helper, fed_error *err) {
    fed_points keys;
    fed_error why = {0};
    if (fed_points_read(helper, &keys, &why) != FED_OK) {
        return fed_fail(err, FED_EINVAL, "\"%.20s\": %s", helper, why.text);
    }
    fed_points_write(&keys, task->helper);
    return FED_OK;
}

/* The spare key becomes the helper's, and the one before is none any more. */
static fed_status take_spare(fedserver_task *task, fed_error *err) {
    fed_points keys;
    FED_TRY(fed_points_read(task->helper, &keys, err));
    if (keys.count < 2) {
        return fed_fail(err, FED_EINVAL,
                        "task %llu (%s) names no spare key: make another helper, and give its "
                        "helper.pem with --helper",
                        (unsigned long long)task->wire.id, task->name);
    }
    memcpy(keys.at[0], keys.at[1], sizeof keys.at[0]);
    keys.count = 1;
    fed_points_write(&keys, task->helper);
    return FED_OK;
}

static fed_status void_terms(const fedserver *server, fedserver_task *task, fed_error *err) {
    FED_TRY(server->store->task_describe(server->db, task, err));
    FED_TRY(server->store->task_renew(server->db, task, err));
    if (task->state != FEDSERVER_TASK_RUNNING) {
        return FED_OK;
    }
    /* S14 in docs/durability.md: the process that runs the task ends it, and starts it again. */
    task->state = FEDSERVER_TASK_QUEUED;
    return server->store->task_put(server->db, task, 1U << FEDSERVER_TASK_RUNNING, err);
}

fed_status fedserver_task_reopen(fedserver *server, int64_t now_ms, uint64_t id,
                                 const fedserver_reopening_options *options,
                                 fedserver_reopened *lost, fed_error *err) {
    fedserver_task task;
    FED_TRY(find(server, id, &task, err));
    FED_TRY(look_at_round(server, &task, options, lost, err));
    if (options->helper != NULL) {
        FED_TRY(take_helper(&task, options->helper, err));
    } else if (options->spare) {
        FED_TRY(take_spare(&task, err));
    }
    fed_status status = void_terms(server, &task, err);
    if (status == FED_OK) {
        status = fedserver_audit(server, FED_LOG_WARN, now_ms, "round_reopened", err,
                                 "task=%llu name=\"%s\" round=%u updates=%u helper=%.16s",
                                 (unsigned long long)id, task.name, lost->round, lost->updates,
                                 task.helper);
    }
    FED_TRY(fedserver_finish(server, status, err));
    take_over(server);
    return FED_OK;
}
