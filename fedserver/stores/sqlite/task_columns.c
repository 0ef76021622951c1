/* Reads tasks from the columns of older layouts, and writes them as texts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/task_columns.h"

#include <stdio.h>

#include "fedserver/task/task_text.h"

static fed_status prepare(fedserver_database *db, const char *sql, uint64_t id,
                          sqlite3_stmt **statement, fed_error *err) {
    int code = sqlite3_prepare_v2(db->handle, sql, -1, statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_bind_int64(*statement, 1, (sqlite3_int64)id);
    }
    return code == SQLITE_OK ? FED_OK : fedserver_database_fail(db, code, err);
}

static void phase_read(sqlite3_stmt *row, fedserver_phase *phase) {
    phase->round = (uint32_t)sqlite3_column_int64(row, 0);
    fedserver_database_text(row, 1, phase->codec_up, sizeof phase->codec_up);
    fedserver_database_text(row, 2, phase->codec_down, sizeof phase->codec_down);
    phase->local_steps = (uint32_t)sqlite3_column_int64(row, 3);
    phase->batch = (uint32_t)sqlite3_column_int64(row, 4);
    fedserver_database_text(row, 5, phase->optimizer, sizeof phase->optimizer);
    phase->learning_rate = (float)sqlite3_column_double(row, 6);
}

static fed_status phases_read(fedserver_database *db, fedserver_task *task, fed_error *err) {
    sqlite3_stmt *row = NULL;
    bool more = false;
    fed_status status =
        prepare(db,
                "SELECT round, codec_up, codec_down, local_steps, batch, optimizer, learning_rate"
                " FROM phases WHERE task = ? ORDER BY round",
                task->wire.id, &row, err);
    if (status == FED_OK) {
        status = fedserver_database_next(db, row, &more, err);
    }
    while (status == FED_OK && more) {
        if (task->phase_count == FEDSERVER_PHASES) {
            status = fed_fail(err, FED_EFORMAT, "task %llu has more than %d phases",
                              (unsigned long long)task->wire.id, FEDSERVER_PHASES);
            break;
        }
        phase_read(row, &task->phases[task->phase_count++]);
        status = fedserver_database_next(db, row, &more, err);
    }
    sqlite3_finalize(row);
    return status;
}

static void task_read(sqlite3_stmt *row, fedserver_task *task) {
    *task = (fedserver_task){
        .wire = {.id = (uint64_t)sqlite3_column_int64(row, 0),
                 .small_tensor = (uint32_t)sqlite3_column_int64(row, 5),
                 .local_steps = (uint32_t)sqlite3_column_int64(row, 6),
                 .batch = (uint32_t)sqlite3_column_int64(row, 7),
                 .learning_rate = (float)sqlite3_column_double(row, 9),
                 .seed = (uint64_t)sqlite3_column_int64(row, 10)},
        .rules = {.rounds = (uint32_t)sqlite3_column_int64(row, 11),
                  .cohort = (uint32_t)sqlite3_column_int64(row, 12),
                  .goal = (uint32_t)sqlite3_column_int64(row, 13),
                  .minimum = (uint32_t)sqlite3_column_int64(row, 14),
                  .deadline_ms = sqlite3_column_int64(row, 15),
                  .staleness = (uint32_t)sqlite3_column_int64(row, 17)},
        .selection = (fedserver_selection)sqlite3_column_int(row, 18),
        .device_share = sqlite3_column_double(row, 20),
        .priority = 5, /* the default: releases with these columns had no priorities */
    };
    fedserver_database_text(row, 1, task->name, sizeof task->name);
    fedserver_database_text(row, 2, task->wire.model, sizeof task->wire.model);
    fedserver_database_text(row, 3, task->wire.codec_up, sizeof task->wire.codec_up);
    fedserver_database_text(row, 4, task->codec_down, sizeof task->codec_down);
    fedserver_database_text(row, 8, task->wire.optimizer, sizeof task->wire.optimizer);
    fedserver_database_text(row, 16, task->strategy, sizeof task->strategy);
    fedserver_database_text(row, 19, task->tag, sizeof task->tag);
}

static fed_status find_next(fedserver_database *db, uint64_t id, fedserver_task *task, bool *found,
                            fed_error *err) {
    sqlite3_stmt *row = NULL;
    fed_status status =
        prepare(db,
                "SELECT id, name, model, codec_up, codec_down, small_tensor, local_steps, batch,"
                " optimizer, learning_rate, seed, rounds, cohort, goal, minimum, deadline_ms,"
                " strategy, staleness, selection, tag, device_share FROM tasks"
                " WHERE id > ? ORDER BY id LIMIT 1",
                id, &row, err);
    if (status == FED_OK) {
        status = fedserver_database_next(db, row, found, err);
    }
    if (status == FED_OK && *found) {
        task_read(row, task);
    }
    sqlite3_finalize(row);
    return status;
}

static fed_status text_put(fedserver_database *db, const fedserver_task *task, fed_error *err) {
    sqlite3_stmt *row = NULL;
    bool ignored = false;
    fed_writer text;
    fed_writer_growing(&text);
    fedserver_task_text_write(task, &text);
    fed_status status =
        text.status == FED_OK
            ? prepare(db, "UPDATE tasks SET text = ?2 WHERE id = ?1", task->wire.id, &row, err)
            : fed_fail(err, text.status, "out of memory for the text of a task");
    if (status == FED_OK) {
        const int code = sqlite3_bind_text(row, 2, (const char *)text.data, (int)text.len, NULL);
        status = code == SQLITE_OK ? fedserver_database_next(db, row, &ignored, err)
                                   : fedserver_database_fail(db, code, err);
    }
    sqlite3_finalize(row);
    fed_writer_free(&text);
    return status;
}

fed_status fedserver_sqlite_columns_to_text(fedserver_database *db, fed_error *err) {
    fedserver_task task;
    bool found = false;
    FED_TRY(find_next(db, 0, &task, &found, err));
    while (found) {
        FED_TRY(phases_read(db, &task, err));
        FED_TRY(text_put(db, &task, err));
        FED_TRY(find_next(db, task.wire.id, &task, &found, err));
    }
    static const char *const columns[] = {
        "name",        "model",     "codec_up",  "codec_down",    "small_tensor",
        "local_steps", "batch",     "optimizer", "learning_rate", "seed",
        "rounds",      "cohort",    "goal",      "minimum",       "deadline_ms",
        "strategy",    "staleness", "selection", "tag",           "device_share"};
    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
        char sql[80];
        snprintf(sql, sizeof sql, "ALTER TABLE tasks DROP COLUMN %s;", columns[k]);
        FED_TRY(fedserver_database_script(db, sql, err));
    }
    return fedserver_database_script(db, "DROP TABLE phases;", err);
}
