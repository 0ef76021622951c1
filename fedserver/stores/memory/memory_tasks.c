/* The store in memory: tasks, their list, and what a cancelled task leaves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedserver/stores/memory/memory_tables.h"
#include "fedserver/stores/undone.h"

typedef struct stored_task {
    fedserver_task task;
    uint64_t position; /* among those that wait */
} stored_task;

static const stored_task *task_of(const memory_row *row) {
    return (const stored_task *)(const void *)row->bytes;
}

fed_status fedserver_memory_task_add(void *db, fedserver_task *task, fed_error *err) {
    stored_task made = {.task = *task, .position = 0};
    const memory_row *row;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_TASKS, MEMORY_ALL);
    while ((row = fedserver_memory_walk_next(&walk)) != NULL) {
        const uint64_t position = task_of(row)->position;
        made.position = position > made.position ? position : made.position;
    }
    fedserver_memory_walk_end(&walk);
    made.position++;
    const uint64_t id = fedserver_memory_next(db, MEMORY_TASKS);
    made.task.wire.id = id;
    FED_TRY(fedserver_memory_put(db, MEMORY_TASKS, MEMORY_KEY(id), true, &made, sizeof made, NULL,
                                 0, err));
    task->wire.id = id;
    return FED_OK;
}

/* Of two tasks in that state: is the one picked before the other? */
static bool goes_first(const stored_task *a, const stored_task *b) {
    if (a->task.state == FEDSERVER_TASK_FINISHED || a->task.state == FEDSERVER_TASK_CANCELLED) {
        return a->task.finished_ms != b->task.finished_ms
                   ? a->task.finished_ms > b->task.finished_ms
                   : a->task.wire.id > b->task.wire.id;
    }
    return a->position != b->position ? a->position < b->position
                                      : a->task.wire.id < b->task.wire.id;
}

static const stored_task *pick_task(memory_db *db, fedserver_task_pick pick) {
    static const fedserver_task_state states[] = {[FEDSERVER_PICK_QUEUED] = FEDSERVER_TASK_QUEUED,
                                                  [FEDSERVER_PICK_RUNNING] = FEDSERVER_TASK_RUNNING,
                                                  [FEDSERVER_PICK_FINISHED] =
                                                      FEDSERVER_TASK_FINISHED};
    const stored_task *found = NULL;
    const memory_row *row;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_TASKS, MEMORY_ALL);
    while ((row = fedserver_memory_walk_next(&walk)) != NULL) {
        const stored_task *one = task_of(row);
        if (one->task.state == states[pick] && (found == NULL || goes_first(one, found))) {
            found = one;
        }
    }
    fedserver_memory_walk_end(&walk);
    return found;
}

fed_status fedserver_memory_task_find(void *db, fedserver_task_pick pick, uint64_t id,
                                      fedserver_task *task, fed_error *err) {
    const stored_task *found = NULL;
    if (pick == FEDSERVER_PICK_ID) {
        const memory_row *row = fedserver_memory_find(db, MEMORY_TASKS, MEMORY_KEY(id));
        found = row != NULL ? task_of(row) : NULL;
    } else {
        found = pick_task(db, pick);
    }
    if (found == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "there is no such task");
    }
    *task = found->task;
    return FED_OK;
}

fed_status fedserver_memory_task_put(void *db, const fedserver_task *task, unsigned from,
                                     fed_error *err) {
    const memory_key key = MEMORY_KEY(task->wire.id);
    const memory_row *row = fedserver_memory_find(db, MEMORY_TASKS, key);
    FED_TRY(fedserver_undone_tell(&((memory_db *)db)->undone, err));
    if (row == NULL || (from >> task_of(row)->task.state & 1) == 0) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu is in another state by now",
                        (unsigned long long)task->wire.id);
    }
    void *bytes = NULL;
    FED_TRY(fedserver_memory_edit(db, MEMORY_TASKS, key, &bytes, err));
    stored_task *kept = bytes;
    kept->task.state = task->state;
    kept->task.started_ms = task->started_ms;
    kept->task.finished_ms = task->finished_ms;
    return FED_OK;
}

fed_status fedserver_memory_task_place(void *db, uint64_t id, uint64_t position, fed_error *err) {
    void *bytes = NULL;
    FED_TRY(fedserver_memory_edit(db, MEMORY_TASKS, MEMORY_KEY(id), &bytes, err));
    ((stored_task *)bytes)->position = position;
    return FED_OK;
}

/* -- the list -- */

/* More devices come first, then the reason that sorts first. */
static void add_reason(fedserver_task_entry *entry, const char *text, uint32_t devices) {
    size_t at = FEDSERVER_TASK_REASONS;
    while (at > 0 && entry->reasons[at - 1].devices < devices) {
        at--;
    }
    if (devices == 0 || at == FEDSERVER_TASK_REASONS) {
        return;
    }
    memmove(&entry->reasons[at + 1], &entry->reasons[at],
            (FEDSERVER_TASK_REASONS - 1 - at) * sizeof entry->reasons[0]);
    strncpy(entry->reasons[at].text, text, sizeof entry->reasons[at].text - 1);
    entry->reasons[at].text[sizeof entry->reasons[at].text - 1] = '\0';
    entry->reasons[at].devices = devices;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static fed_status count_declines(memory_db *db, int64_t after_ms, fedserver_task_entry *entry,
                                 fed_error *err) {
    const memory_row *row;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DECLINES, MEMORY_OF(entry->id));
    const char **reasons = malloc((walk.end - walk.next + 1) * sizeof(void *));
    size_t count = 0;
    while (reasons != NULL && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const memory_decline *decline = (const void *)row->bytes;
        if (decline->at_ms > after_ms) {
            reasons[count++] = (const char *)(decline + 1);
        }
    }
    if (count > 0) {
        qsort(reasons, count, sizeof(void *), compare_texts);
    }
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && strcmp(reasons[from], reasons[to]) == 0) {
            to++;
        }
        add_reason(entry, reasons[from], (uint32_t)(to - from));
    }
    entry->declined = (uint32_t)count;
    fedserver_memory_walk_end(&walk);
    const bool room = reasons != NULL;
    free(reasons);
    return room ? FED_OK : fed_fail(err, FED_ENOMEM, "out of memory for a list of declines");
}

/* The newest round that is committed. */
static uint32_t newest_version(memory_db *db, uint64_t task) {
    uint32_t version = 0;
    const memory_row *row;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_ROUNDS, MEMORY_OF(task));
    while ((row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_round_row *round = (const void *)row->bytes;
        version = round->committed_ms != 0 ? round->number : version;
    }
    fedserver_memory_walk_end(&walk);
    return version;
}

static fed_status make_entry(memory_db *db, const fedserver_task *task, int64_t after_ms,
                             fedserver_task_entry *entry, fed_error *err) {
    *entry = (fedserver_task_entry){.id = task->wire.id,
                                    .priority = task->priority,
                                    .state = task->state,
                                    .rounds = task->rules.rounds,
                                    .version = newest_version(db, task->wire.id),
                                    .queued_ms = task->queued_ms,
                                    .started_ms = task->started_ms,
                                    .finished_ms = task->finished_ms};
    strcpy(entry->name, task->name);
    return count_declines(db, after_ms, entry, err);
}

static int state_rank(fedserver_task_state state) {
    return state == FEDSERVER_TASK_RUNNING  ? 0
           : state == FEDSERVER_TASK_QUEUED ? 1
           : state == FEDSERVER_TASK_PAUSED ? 2
                                            : 3; /* tasks that have ended */
}

static int compare_tasks(const void *left, const void *right) {
    const stored_task *a = *(const stored_task *const *)left;
    const stored_task *b = *(const stored_task *const *)right;
    const int first = state_rank(a->task.state) - state_rank(b->task.state);
    return first != 0 ? first : goes_first(a, b) ? -1 : 1;
}

fed_status fedserver_memory_task_each(void *db, int64_t declines_after_ms,
                                      fedserver_task_visit visit, void *user, fed_error *err) {
    const memory_row *row;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_TASKS, MEMORY_ALL);
    const stored_task **tasks = malloc((walk.end + 1) * sizeof(void *));
    size_t count = 0;
    uint32_t position = 0;
    fed_status status =
        tasks != NULL ? FED_OK : fed_fail(err, FED_ENOMEM, "out of memory for a list of tasks");
    while (tasks != NULL && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        tasks[count++] = task_of(row);
    }
    if (count > 0) {
        qsort(tasks, count, sizeof(void *), compare_tasks);
    }
    for (size_t k = 0; k < count && status == FED_OK; k++) {
        fedserver_task_entry entry;
        status = make_entry(db, &tasks[k]->task, declines_after_ms, &entry, err);
        entry.position = entry.state == FEDSERVER_TASK_QUEUED ? ++position : 0;
        status = status == FED_OK ? visit(user, &entry, err) : status;
    }
    fedserver_memory_walk_end(&walk);
    free(tasks);
    return status;
}

/* -- what a cancelled task leaves -- */

static fed_status clear_pieces(memory_db *db, uint64_t task, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_PIECES, MEMORY_ALL);
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fed_piece *piece = (const void *)row->bytes;
        const memory_row *owner =
            fedserver_memory_find(db, MEMORY_DEVICES, MEMORY_KEY(row->key.part[0]));
        const fedserver_device *device = owner != NULL ? (const void *)owner->bytes : NULL;
        if (device != NULL && device->lease_task == task && device->lease == piece->lease) {
            status = fedserver_memory_drop(db, MEMORY_PIECES, row->key, row->key, err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

static fed_status clear_open_round(memory_db *db, uint64_t task, fed_error *err) {
    const memory_row *row = fedserver_memory_find_last(
        db, MEMORY_ROUNDS, MEMORY_KEY(task, UINT64_MAX, UINT64_MAX, UINT64_MAX));
    const fedserver_round_row *round = row != NULL ? (const void *)row->bytes : NULL;
    const bool open = round != NULL && row->key.part[0] == task && round->committed_ms == 0;
    return open ? fedserver_memory_drop(db, MEMORY_ROUNDS, row->key, row->key, err) : FED_OK;
}

fed_status fedserver_memory_task_clear(void *db, uint64_t *id, fed_error *err) {
    const memory_row *row;
    uint64_t found = 0;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_TASKS, MEMORY_ALL);
    while (found == 0 && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const bool left = fedserver_memory_find(db, MEMORY_MODELS, row->key) != NULL;
        found = left && task_of(row)->task.state == FEDSERVER_TASK_CANCELLED ? row->key.part[0] : 0;
    }
    fedserver_memory_walk_end(&walk);
    FED_TRY(fedserver_undone_tell(&((memory_db *)db)->undone, err));
    if (found == 0) {
        return fed_fail(err, FED_ENOTFOUND, "no cancelled task has anything left");
    }
    *id = found;
    FED_TRY(fedserver_memory_update_clear(db, found, UINT32_MAX, err));
    FED_TRY(clear_pieces(db, found, err));
    FED_TRY(clear_open_round(db, found, err));
    FED_TRY(fedserver_memory_drop(db, MEMORY_DECLINES, MEMORY_OF(found), err));
    FED_TRY(fedserver_memory_drop(db, MEMORY_DELTAS, MEMORY_OF(found), err));
    FED_TRY(fedserver_memory_drop(db, MEMORY_KEYFRAMES, MEMORY_OF(found), err));
    return fedserver_memory_drop(db, MEMORY_MODELS, MEMORY_OF(found), err);
}
