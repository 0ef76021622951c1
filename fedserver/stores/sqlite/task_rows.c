/* Tasks, the list of them, and the space of cancelled tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/task_rows.h"

#include <assert.h>
#include <string.h>

#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/sqlite_rows.h"
#include "fedserver/stores/sqlite/updates.h"
#include "fedserver/task/task_text.h"

static sqlite3 *handle_of(void *db) {
    return ((fedserver_database *)db)->handle;
}

fed_status fedserver_sqlite_task_add(void *db, fedserver_task *task, fed_error *err) {
    fed_writer text;
    fed_writer_growing(&text);
    fedserver_task_text_write(task, &text);
    fed_status status =
        text.status == FED_OK
            ? WRITE(TASK_ADD, TEXT(text.data), INT(task->state), INT(task->queued_ms),
                    INT(task->started_ms), INT(task->finished_ms))
            : fed_fail(err, text.status, "out of memory for the text of a task");
    fed_writer_free(&text);
    FED_TRY(status);
    task->wire.id = (uint64_t)sqlite3_last_insert_rowid(handle_of(db));
    return FED_OK;
}

/* Columns 0 to 5: id, text, state, queued_ms, started_ms, finished_ms. */
static fed_status task_read(sqlite3_stmt *row, fedserver_task *task, fed_error *err) {
    const uint64_t id = (uint64_t)sqlite3_column_int64(row, 0);
    const char *text = (const char *)sqlite3_column_text(row, 1);
    FED_TRY(fedserver_task_text_read(id, text != NULL ? text : "",
                                     (size_t)sqlite3_column_bytes(row, 1), task, err));
    task->wire.id = id;
    task->state = (fedserver_task_state)sqlite3_column_int(row, 2);
    task->queued_ms = sqlite3_column_int64(row, 3);
    task->started_ms = sqlite3_column_int64(row, 4);
    task->finished_ms = sqlite3_column_int64(row, 5);
    return FED_OK;
}

static_assert(FEDSERVER_PICK_ID == 0 && FEDSERVER_PICK_QUEUED == FEDSERVER_TASK_QUEUED + 1 &&
                  FEDSERVER_PICK_RUNNING == FEDSERVER_TASK_RUNNING + 1 &&
                  FEDSERVER_PICK_FINISHED == FEDSERVER_TASK_FINISHED + 1,
              "TASK_FIND takes the state from the pick");

fed_status fedserver_sqlite_task_find(void *db, fedserver_task_pick pick, uint64_t id,
                                      fedserver_task *task, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(TASK_FIND, &row, INT(pick), INT(id)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "there is no such task");
    }
    fed_status status = task_read(row, task, err);
    sqlite3_reset(row);
    return status;
}

fed_status fedserver_sqlite_task_put(void *db, const fedserver_task *task, unsigned from,
                                     fed_error *err) {
    FED_TRY(WRITE(TASK_PUT, INT(task->wire.id), INT(task->state), INT(task->started_ms),
                  INT(task->finished_ms), INT(from)));
    return sqlite3_changes(handle_of(db)) == 1
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND, "task %llu is in another state by now",
                          (unsigned long long)task->wire.id);
}

static fed_status entry_read(sqlite3_stmt *row, fedserver_task_entry *entry, fed_error *err) {
    fedserver_task task;
    FED_TRY(task_read(row, &task, err));
    *entry = (fedserver_task_entry){.id = task.wire.id,
                                    .state = task.state,
                                    .rounds = task.rules.rounds,
                                    .version = (uint32_t)sqlite3_column_int64(row, 6),
                                    .queued_ms = task.queued_ms,
                                    .started_ms = task.started_ms,
                                    .finished_ms = task.finished_ms,
                                    .declined = (uint32_t)sqlite3_column_int64(row, 7)};
    memcpy(entry->name, task.name, sizeof entry->name);
    return FED_OK;
}

fed_status fedserver_sqlite_task_each(void *db, int64_t declines_after_ms,
                                      fedserver_task_visit visit, void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    uint32_t position = 0;
    FED_TRY(READ(TASK_EACH, &row, INT(declines_after_ms)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_task_entry entry = {0};
        fed_status status = entry_read(row, &entry, err);
        entry.position = entry.state == FEDSERVER_TASK_QUEUED ? ++position : 0;
        if (status == FED_OK && entry.declined > 0) {
            status = fedserver_sqlite_decline_reasons(db, declines_after_ms, &entry, err);
        }
        status = status == FED_OK ? visit(user, &entry, err) : status;
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sqlite_task_place(void *db, uint64_t id, uint64_t position, fed_error *err) {
    return WRITE(TASK_PLACE, INT(id), INT(position));
}

fed_status fedserver_sqlite_task_clear(void *db, uint64_t *id, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(fedserver_database_read(db, FEDSERVER_SQL_TASK_LEFT, NO_VALUES, &row, err));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no cancelled task has anything left");
    }
    *id = (uint64_t)sqlite3_column_int64(row, 0);
    sqlite3_reset(row);
    FED_TRY(fedserver_sqlite_update_clear(db, *id, UINT32_MAX, err));
    FED_TRY(fedserver_sqlite_decline_forget(db, *id, err));
    FED_TRY(WRITE(CLEAR_PIECES, INT(*id)));
    FED_TRY(WRITE(CLEAR_OPEN_ROUND, INT(*id)));
    fedserver_sqlite_blobs_clear(db, *id);
    FED_TRY(WRITE(CLEAR_DELTAS, INT(*id)));
    FED_TRY(WRITE(CLEAR_KEYFRAMES, INT(*id)));
    return WRITE(CLEAR_MODEL, INT(*id));
}

/* Free pages; 0 also where the database was made before it could give them back. */
static fed_status count_free(fedserver_database *db, int64_t *pages, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    *pages = 0;
    FED_TRY(fedserver_database_read(db, FEDSERVER_SQL_FREE_PAGES, NO_VALUES, &row, err));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (found) {
        *pages = sqlite3_column_int64(row, 0);
        sqlite3_reset(row);
    }
    return FED_OK;
}

fed_status fedserver_sqlite_shrink(void *db, bool *left, fed_error *err) {
    int64_t pages = 0;
    *left = false;
    FED_TRY(count_free(db, &pages, err));
    if (pages == 0) {
        return FED_OK;
    }
    FED_TRY(fedserver_database_write(db, FEDSERVER_SQL_SHRINK, NO_VALUES, err));
    FED_TRY(count_free(db, &pages, err));
    *left = pages > 0;
    return FED_OK;
}
