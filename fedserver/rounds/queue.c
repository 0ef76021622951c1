/* Decides which task runs: the first queued task that a device can serve. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/queue.h"

#include <stdlib.h>
#include <string.h>

#include "fedserver/identity/device_table.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/training.h"
#include "fedserver/stores/stores.h"

/* PATIENCE_MS: a task gives way when no device has taken a slot for the task's deadline, or for
 * this time if this is shorter. SHRINK_PAUSE_MS: the pause between two pieces of space given back.
 */
enum { PATIENCE_MS = 60000, SHRINK_PAUSE_MS = 5 };

/* -- put a task away -- */

/* Afterwards the task that finished last is in memory again: devices may ask for its model. */
static fed_status put_away(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    rounds->epoch++;
    rounds->queue_changed = true;
    const uint64_t limit = t->update_limit;
    rounds->update_limit = limit > rounds->update_limit ? limit : rounds->update_limit;
    fedserver_training_free(t);
    return fedserver_training_load(rounds, err);
}

bool fedserver_task_cancelled(fedserver_rounds *rounds, uint64_t id) {
    fedserver_task task;
    fed_error ignored = {0};
    return rounds->store->task_find(rounds->db, FEDSERVER_PICK_ID, id, &task, &ignored) == FED_OK &&
           task.state == FEDSERVER_TASK_CANCELLED;
}

static fed_status clear_cancelled(fedserver_rounds *rounds, fed_error *err) {
    for (;;) {
        uint64_t id = 0;
        fed_error absent = {0};
        fed_status status = rounds->store->task_clear(rounds->db, &id, &absent);
        if (status == FED_ENOTFOUND) {
            return FED_OK;
        }
        if (status != FED_OK) {
            return fed_fail(err, status, "%s", absent.text);
        }
        rounds->shrinks = true;
        fed_logf(rounds->log, FED_LOG_INFO, "task %llu is cancelled; its model is deleted",
                 (unsigned long long)id);
    }
}

fed_status fedserver_queue_follow(fedserver_rounds *rounds, fed_error *err) {
    fedserver_training *t = &rounds->training;
    fedserver_task now;
    if (!rounds->tasks_changed) {
        return FED_OK;
    }
    rounds->tasks_changed = false;
    FED_TRY(clear_cancelled(rounds, err));
    if (!t->loaded) {
        return FED_OK;
    }
    FED_TRY(rounds->store->task_find(rounds->db, FEDSERVER_PICK_ID, t->task.wire.id, &now, err));
    if (now.state == t->task.state) {
        return fedserver_declines_load(rounds, t, err);
    }
    fed_logf(rounds->log, FED_LOG_INFO, "task %llu (%s) stops with version %u: it is %s",
             (unsigned long long)now.wire.id, now.name, t->versions.version,
             fedserver_task_state_name(now.state));
    return put_away(rounds, t, err);
}

fed_status fedserver_queue_tidy(fedserver_rounds *rounds, fed_error *err) {
    FED_TRY(fedserver_store_finish(rounds->store, rounds->db, clear_cancelled(rounds, err), err));
    bool left = rounds->shrinks;
    while (left) {
        FED_TRY(fedserver_store_finish(rounds->store, rounds->db,
                                       rounds->store->shrink(rounds->db, &left, err), err));
    }
    rounds->shrinks = false;
    return FED_OK;
}

/* -- which devices could serve a task -- */

typedef struct outlook {
    const fedserver_rounds *rounds;
    bool *declined; /* [devices.count] */
} outlook;

static fed_status note_declined(void *user, const fedserver_decline *decline, fed_error *err) {
    const outlook *o = user;
    const fedserver_devices *all = &o->rounds->devices;
    const fedserver_device *device = fedserver_devices_find(all, decline->fingerprint);
    if (device != NULL) {
        o->declined[device - all->items] = true;
    }
    (void)err;
    return FED_OK;
}

static bool fits(const fedserver_task *task, const fedserver_device *device) {
    return device->role == FEDSERVER_ROLE_DEVICE &&
           (task->tag[0] == '\0' || strcmp(task->tag, device->tag) == 0);
}

/* Can a device that was seen lately serve the task? True if no device was seen lately. */
static fed_status can_be_served(fedserver_rounds *rounds, const fedserver_task *task,
                                int64_t now_ms, bool *can, fed_error *err) {
    const fedserver_devices *all = &rounds->devices;
    outlook o = {rounds, calloc(all->count + 1, sizeof *o.declined)};
    if (o.declined == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the devices");
    }
    const fed_status status = rounds->store->decline_each(
        rounds->db, task->wire.id, now_ms - FEDSERVER_DECLINE_MS, note_declined, &o, err);
    size_t seen = 0;
    size_t able = 0;
    for (size_t k = 0; k < all->count; k++) {
        const bool lately = fedserver_seen_lately(&all->items[k], now_ms);
        seen += lately;
        able += lately && !o.declined[k] && fits(task, &all->items[k]);
    }
    free(o.declined);
    *can = seen == 0 || able > 0;
    return status;
}

/* -- the next task -- */

/* The numbers of the tasks that are queued, in order. */
typedef struct queued {
    uint64_t *ids;
    size_t count;
} queued;

static fed_status queue_up(void *user, const fedserver_task_entry *entry, fed_error *err) {
    queued *q = user;
    if (entry->state != FEDSERVER_TASK_QUEUED) {
        return FED_OK;
    }
    uint64_t *ids = realloc(q->ids, (q->count + 1) * sizeof *ids);
    if (ids == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the queue");
    }
    q->ids = ids;
    q->ids[q->count++] = entry->id;
    return FED_OK;
}

/* Find the first queued task that a device can serve. *found: there is such a task. */
static fed_status find_servable(fedserver_rounds *rounds, int64_t now_ms, fedserver_task *task,
                                bool *found, fed_error *err) {
    queued queue = {0};
    fed_status status = rounds->store->task_each(rounds->db, now_ms, queue_up, &queue, err);
    *found = false;
    for (size_t k = 0; k < queue.count && status == FED_OK && !*found; k++) {
        status = rounds->store->task_find(rounds->db, FEDSERVER_PICK_ID, queue.ids[k], task, err);
        if (status == FED_OK) {
            status = can_be_served(rounds, task, now_ms, found, err);
        }
    }
    free(queue.ids);
    return status;
}

/* If no device can serve any queued task, the first task starts and waits for a device. */
static fed_status start_next(fedserver_rounds *rounds, int64_t now_ms, fed_error *err) {
    fedserver_task task;
    bool found = false;
    FED_TRY(find_servable(rounds, now_ms, &task, &found, err));
    if (!found) {
        fed_error absent = {0};
        fed_status status =
            rounds->store->task_find(rounds->db, FEDSERVER_PICK_QUEUED, 0, &task, &absent);
        if (status == FED_ENOTFOUND) {
            return FED_OK;
        }
        if (status != FED_OK) {
            return fed_fail(err, status, "%s", absent.text);
        }
    }
    return fedserver_training_start(rounds, &task, now_ms, err);
}

/* -- a task that no device serves -- */

static bool any_lease_stands(const fedserver_training *t) {
    return t->round.leased > (t->task.rules.staleness > 0 ? 0 : t->round.received);
}

/* Put the task back into the queue, at its earlier position. */
static fed_status set_aside(fedserver_rounds *rounds, fedserver_training *t,
                            const fedserver_task *next, fed_error *err) {
    fedserver_task aside = t->task;
    aside.state = FEDSERVER_TASK_QUEUED;
    fed_error absent = {0};
    fed_status status =
        rounds->store->task_put(rounds->db, &aside, 1 << FEDSERVER_TASK_RUNNING, &absent);
    if (status != FED_OK && status != FED_ENOTFOUND) {
        return fed_fail(err, status, "%s", absent.text);
    }
    fed_logf(rounds->log, FED_LOG_WARN,
             "task %llu (%s) is set aside: no device that was seen lately can serve it; task %llu "
             "(%s) runs meanwhile (fedserver tasks says why)",
             (unsigned long long)aside.wire.id, aside.name, (unsigned long long)next->wire.id,
             next->name);
    return put_away(rounds, t, err);
}

/* Set the task aside under three conditions. No device has taken a slot for a while; no device
 * seen lately can serve the task; a device can serve another queued task. */
static fed_status give_way(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                           int64_t *next_ms, fed_error *err) {
    const int64_t deadline_ms = t->task.rules.deadline_ms;
    const int64_t patience_ms = deadline_ms < PATIENCE_MS ? deadline_ms : PATIENCE_MS;
    if (t->round.phase == FEDSERVER_ROUND_NONE || t->round.phase == FEDSERVER_ROUND_CLOSING ||
        any_lease_stands(t)) {
        t->vacant_ms = 0;
        return FED_OK;
    }
    t->vacant_ms = t->vacant_ms == 0 || t->vacant_ms > now_ms ? now_ms : t->vacant_ms;
    if (now_ms - t->vacant_ms < patience_ms) {
        *next_ms = t->vacant_ms + patience_ms;
        return FED_OK;
    }
    t->vacant_ms = now_ms; /* look again after the same time */
    *next_ms = now_ms + patience_ms;
    fedserver_task next;
    bool can = true;
    bool found = false;
    FED_TRY(can_be_served(rounds, &t->task, now_ms, &can, err));
    if (!can) {
        FED_TRY(find_servable(rounds, now_ms, &next, &found, err));
    }
    return found ? set_aside(rounds, t, &next, err) : FED_OK;
}

/* Give back space, one piece at a time, in batches without a request. */
static fed_status give_space_back(fedserver_rounds *rounds, int64_t now_ms, int64_t *next_ms,
                                  fed_error *err) {
    if (!rounds->shrinks) {
        return FED_OK;
    }
    if (!rounds->asked) {
        FED_TRY(rounds->store->shrink(rounds->db, &rounds->shrinks, err));
    }
    *next_ms = rounds->shrinks ? now_ms + SHRINK_PAUSE_MS : *next_ms;
    return FED_OK;
}

fed_status fedserver_queue_advance(fedserver_rounds *rounds, int64_t now_ms, int64_t *next_ms,
                                   fed_error *err) {
    fedserver_training *t = &rounds->training;
    FED_TRY(give_way(rounds, t, now_ms, next_ms, err));
    if (t->round.phase == FEDSERVER_ROUND_NONE && rounds->queue_changed) {
        rounds->queue_changed = false;
        FED_TRY(start_next(rounds, now_ms, err));
    }
    return give_space_back(rounds, now_ms, next_ms, err);
}
