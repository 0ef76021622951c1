/* Loads into memory the running tasks and those that finished last. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/running.h"

#include <assert.h>
#include <stdlib.h>

#include "fed/clock.h"
#include "fedserver/rounds/device_marks.h"
#include "fedserver/rounds/set_aside.h"
#include "fedserver/rounds/task_memory.h"
#include "fedserver/rounds/training.h"
#include "fedserver/rounds/voids.h"

typedef struct numbers {
    fedserver_task_state state;
    uint64_t *ids;
    size_t count;
} numbers;

static fed_status note_number(void *user, const fedserver_task_entry *entry, fed_error *err) {
    numbers *n = user;
    if (entry->state != n->state) {
        return FED_OK;
    }
    uint64_t *ids = realloc(n->ids, (n->count + 1) * sizeof *ids);
    if (ids == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the list of tasks");
    }
    n->ids = ids;
    n->ids[n->count++] = entry->id;
    return FED_OK;
}

fed_status fedserver_tasks_with(const fedserver_store *store, void *db, fedserver_task_state state,
                                fedserver_task_call call, void *user, fed_error *err) {
    numbers n = {.state = state};
    bool more = true;
    fed_status status = store->task_each(db, 0, note_number, &n, err);
    for (size_t k = 0; k < n.count && status == FED_OK && more; k++) {
        fedserver_task task;
        status = store->task_find(db, FEDSERVER_PICK_ID, n.ids[k], &task, err);
        status = status == FED_OK ? call(user, &task, &more, err) : status;
    }
    free(n.ids);
    return status;
}

typedef struct loading {
    fedserver_rounds *rounds;
    bool all;
} loading;

static fed_status open_task(const loading *l, const fedserver_task *task, fedserver_training **t,
                            fed_error *err) {
    fed_error why = {0};
    const fed_status status = fedserver_training_open(l->rounds, task, t, &why);
    if (status == FED_OK) {
        return FED_OK;
    }
    if (l->all || !fedserver_unreadable(status)) {
        return fed_fail(err, status, "%s", why.text);
    }
    *t = NULL;
    if (task->state == FEDSERVER_TASK_RUNNING) {
        return fedserver_set_aside(l->rounds, task, &why, err);
    }
    const fed_log_about about = fedserver_task_about(task, 0);
    fed_logf_about(l->rounds->log, FED_LOG_ERROR, &about,
                   "task %llu (%s) is finished, but devices can't get its last model: %s",
                   (unsigned long long)task->wire.id, task->name, why.text);
    return FED_OK;
}

static fed_status load_running(void *user, const fedserver_task *task, bool *more, fed_error *err) {
    const loading *l = user;
    const fedserver_rounds *rounds = l->rounds;
    fedserver_training *t = NULL;
    (void)more;
    FED_TRY(open_task(l, task, &t, err));
    if (t == NULL) {
        return FED_OK;
    }
    if (!l->all) { /* `fedserver check` changes nothing */
        FED_TRY(fedserver_round_refresh(l->rounds, t, fed_clock_unix_ms(), err));
    }
    const fed_log_about about = fedserver_task_about(task, t->round.number);
    fed_logf_about(
        rounds->log, FED_LOG_INFO, &about,
        "task %llu (%s) goes on with round %u, attempt %u: %u of %u updates have arrived",
        (unsigned long long)task->wire.id, task->name, t->round.number, t->round.attempt,
        t->round.received, task->rules.goal);
    return FED_OK;
}

uint64_t fedserver_rounds_memory(const fedserver_rounds *rounds) {
    uint64_t bytes = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        bytes += rounds->tasks[k]->memory_bytes;
    }
    return bytes;
}

static fed_status load_finished(void *user, const fedserver_task *task, bool *more,
                                fed_error *err) {
    const loading *l = user;
    const fedserver_rounds *rounds = l->rounds;
    fedserver_training *t = NULL;
    uint64_t need = 0;
    size_t finished = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        finished += !fedserver_training_runs(rounds->tasks[k]);
    }
    FED_TRY(fedserver_memory_find(rounds->store, rounds->db, task, &need, err));
    *more = finished < FEDSERVER_FINISHED_KEPT &&
            fedserver_memory_fits(rounds->memory_limit, fedserver_rounds_memory(rounds), need);
    return *more ? open_task(l, task, &t, err) : FED_OK;
}

fed_status fedserver_tasks_load(fedserver_rounds *rounds, bool all, fed_error *err) {
    loading l = {rounds, all};
    rounds->queue_changed = true;
    rounds->tasks_changed = true;
    while (rounds->task_count > 0) {
        fedserver_rounds_remove(rounds, rounds->tasks[0]);
    }
    FED_TRY(fedserver_tasks_with(rounds->store, rounds->db, FEDSERVER_TASK_RUNNING, load_running,
                                 &l, err));
    return fedserver_tasks_with(rounds->store, rounds->db, FEDSERVER_TASK_FINISHED, load_finished,
                                &l, err);
}

static fed_status view_task(void *user, const fedserver_task *task, bool *more, fed_error *err) {
    fedserver_rounds *view = user;
    fedserver_training *t = NULL;
    (void)more;
    if (fedserver_rounds_append(view, &t) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for another task");
    }
    /* S14 in docs/durability.md: only running tasks are viewed. */
    assert(task->state == FEDSERVER_TASK_RUNNING);
    t->task = *task;
    FED_TRY(fedserver_round_load(view, t, err));
    return FED_OK;
}

static fed_status view_whole_task(void *user, const fedserver_task *task, bool *more,
                                  fed_error *err) {
    fedserver_rounds *view = user;
    FED_TRY(view_task(user, task, more, err));
    return fedserver_declines_load(view, view->tasks[view->task_count - 1], err);
}

fed_status fedserver_rounds_view(const fedserver_store *store, void *db, const fed_log *log,
                                 fedserver_rounds *view, fed_error *err) {
    *view = (fedserver_rounds){.store = store, .db = db, .log = log};
    return fedserver_tasks_with(store, db, FEDSERVER_TASK_RUNNING, view_whole_task, view, err);
}

fed_status fedserver_rounds_outline(const fedserver_store *store, void *db, const fed_log *log,
                                    fedserver_rounds *view, fed_error *err) {
    *view = (fedserver_rounds){.store = store, .db = db, .log = log};
    return fedserver_tasks_with(store, db, FEDSERVER_TASK_RUNNING, view_task, view, err);
}

fed_status fedserver_rounds_advance(fedserver_rounds *rounds, int64_t now_ms, fed_error *err) {
    for (size_t k = 0; k < rounds->task_count; k++) {
        FED_TRY(fedserver_training_advance(rounds, rounds->tasks[k], now_ms, err));
    }
    return FED_OK;
}

void fedserver_rounds_committed(fedserver_rounds *rounds) {
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training_committed(rounds, rounds->tasks[k]);
    }
}
