/* Starts queued tasks that fit into memory, and stops paused and cancelled tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/queue.h"

#include <assert.h>

#include "fedserver/rounds/device_marks.h"
#include "fedserver/rounds/running.h"
#include "fedserver/rounds/task_memory.h"
#include "fedserver/rounds/training.h"
#include "fedserver/stores/stores.h"

enum { SHRINK_PAUSE_MS = 5 };

fed_status fedserver_task_is(const fedserver_rounds *rounds, uint64_t id, unsigned states, bool *is,
                             fed_error *err) {
    fedserver_task task;
    fed_error absent = {0};
    const fed_status status =
        rounds->store->task_find(rounds->db, FEDSERVER_PICK_ID, id, &task, &absent);
    *is = status == FED_OK && (states >> task.state & 1) != 0;
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", absent.text);
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
        const fed_log_about about = {.task = id};
        fed_logf_about(rounds->log, FED_LOG_INFO, &about,
                       "task %llu is cancelled; its model is deleted", (unsigned long long)id);
    }
}

static fed_status follow_task(fedserver_rounds *rounds, fedserver_training *t, bool *stays,
                              fed_error *err) {
    fedserver_task now;
    FED_TRY(rounds->store->task_find(rounds->db, FEDSERVER_PICK_ID, t->task.wire.id, &now, err));
    *stays = now.state == t->task.state;
    if (*stays) {
        t->task.priority = now.priority; /* all else in a task's text stays as it was queued */
        return fedserver_declines_load(rounds, t, err);
    }
    const fed_log_about about = fedserver_task_about(&now, 0);
    fed_logf_about(rounds->log, FED_LOG_INFO, &about,
                   "task %llu (%s) stops with version %u: it is %s",
                   (unsigned long long)now.wire.id, now.name, t->versions.version,
                   fedserver_task_state_name(now.state));
    fedserver_rounds_remove(rounds, t);
    rounds->epoch++;
    rounds->queue_changed = true;
    return FED_OK;
}

static fed_status note_paused(void *user, const fedserver_task *task, bool *more, fed_error *err) {
    bool *paused = user;
    (void)task, (void)err;
    *paused = true;
    *more = false;
    return FED_OK;
}

fed_status fedserver_queue_follow(fedserver_rounds *rounds, fed_error *err) {
    if (!rounds->tasks_changed) {
        return FED_OK;
    }
    rounds->tasks_changed = false;
    rounds->paused = false;
    FED_TRY(fedserver_tasks_with(rounds->store, rounds->db, FEDSERVER_TASK_PAUSED, note_paused,
                                 &rounds->paused, err));
    FED_TRY(clear_cancelled(rounds, err));
    for (size_t k = 0; k < rounds->task_count;) {
        bool stays = true;
        FED_TRY(follow_task(rounds, rounds->tasks[k], &stays, err));
        k += stays;
    }
    return FED_OK;
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

static fedserver_training *oldest_finished(const fedserver_rounds *rounds, size_t *count) {
    fedserver_training *oldest = NULL;
    *count = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        if (fedserver_training_runs(t)) {
            continue;
        }
        ++*count;
        if (oldest == NULL || t->task.finished_ms < oldest->task.finished_ms) {
            oldest = t;
        }
    }
    return oldest;
}

/* Remove the oldest finished tasks from memory, so that at most FEDSERVER_FINISHED_KEPT stay and,
 * if possible, `need` bytes are free. */
static void drop_finished(fedserver_rounds *rounds, uint64_t need) {
    size_t count = 0;
    fedserver_training *oldest = oldest_finished(rounds, &count);
    while (count > FEDSERVER_FINISHED_KEPT ||
           (count > 0 &&
            !fedserver_memory_fits(rounds->memory_limit, fedserver_rounds_memory(rounds), need))) {
        /* D1 in docs/durability.md: no task with an open round is removed. */
        assert(!fedserver_training_runs(oldest));
        fedserver_rounds_remove(rounds, oldest);
        oldest = oldest_finished(rounds, &count);
    }
}

static uint64_t memory_of_running(const fedserver_rounds *rounds) {
    uint64_t bytes = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_training *t = rounds->tasks[k];
        bytes += fedserver_training_runs(t) ? t->memory_bytes : 0;
    }
    return bytes;
}

static void say_that_it_waits(fedserver_rounds *rounds, const fedserver_task *task, uint64_t used,
                              uint64_t need) {
    char why[FEDSERVER_TASK_WAITS];
    if (task->wire.id <= rounds->said_waits) {
        return;
    }
    rounds->said_waits = task->wire.id;
    fedserver_memory_report(rounds->memory_limit, used, need, why, sizeof why);
    const fed_log_about about = fedserver_task_about(task, 0);
    fed_logf_about(rounds->log, FED_LOG_WARN, &about, "task %llu (%s) waits in the queue: %s",
                   (unsigned long long)task->wire.id, task->name, why);
}

typedef struct starting {
    fedserver_rounds *rounds;
    int64_t now_ms;
} starting;

/* Start the task if it fits. A task that needs more than the whole limit is passed over. Any other
 * task that does not fit yet ends the search, since smaller tasks behind it would otherwise keep
 * it waiting for ever. */
static fed_status start_if_it_fits(void *user, const fedserver_task *task, bool *more,
                                   fed_error *err) {
    const starting *s = user;
    fedserver_rounds *rounds = s->rounds;
    const uint64_t limit = rounds->memory_limit;
    uint64_t need = 0;
    /* S14 in docs/durability.md: a person has queued a task that runs here. fedserver_queue_follow
     * ends it first. */
    if (fedserver_rounds_task(rounds, task->wire.id) != NULL) {
        return FED_OK;
    }
    FED_TRY(fedserver_memory_find(rounds->store, rounds->db, task, &need, err));
    const uint64_t used = memory_of_running(rounds);
    if (!fedserver_memory_fits(limit, used, need)) {
        say_that_it_waits(rounds, task, used, need);
        *more = need > limit;
        return FED_OK;
    }
    /* S14 in docs/durability.md: the store says that the task is queued. */
    assert(task->state == FEDSERVER_TASK_QUEUED);
    drop_finished(rounds, need);
    return fedserver_training_start(rounds, task, s->now_ms, err);
}

static fed_status start_queued(fedserver_rounds *rounds, int64_t now_ms, fed_error *err) {
    starting s = {rounds, now_ms};
    rounds->queue_changed = false;
    drop_finished(rounds, 0);
    return fedserver_tasks_with(rounds->store, rounds->db, FEDSERVER_TASK_QUEUED, start_if_it_fits,
                                &s, err);
}

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
    if (rounds->queue_changed) {
        FED_TRY(start_queued(rounds, now_ms, err));
    }
    return give_space_back(rounds, now_ms, next_ms, err);
}
