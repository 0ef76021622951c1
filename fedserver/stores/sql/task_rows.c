/* The table of tasks, and the deletion of a cancelled task's data. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fed/crypto.h"
#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/task_text.h"

static_assert((int)FEDSERVER_TASK_CODEC == (int)FEDCODEC_SPEC, "a task's entry has whole codecs");

/* Random, so that a coordinator restored from a backup repeats none. */
static fed_status new_generation(uint64_t *generation, fed_error *err) {
    const fed_status status = fed_random(generation, sizeof *generation);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "the system gives no random bytes for a generation");
}

fed_status fedserver_sql_task_add(void *db, fedserver_task *task, fed_error *err) {
    fed_writer text;
    fedserver_written written = {.id = 0};
    FED_TRY(new_generation(&task->generation, err));
    fed_writer_growing(&text);
    fedserver_task_text_write(task, &text);
    fed_status status =
        text.status == FED_OK
            ? WRITE_NOW(TASK_ADD, &written, TEXT(text.data), INT(task->state), INT(task->queued_ms),
                        INT(task->started_ms), INT(task->finished_ms), INT(task->generation))
            : fed_fail(err, text.status, "out of memory for the text of a task");
    fed_writer_free(&text);
    FED_TRY(status);
    assert(written.id > 0); /* S14 in docs/durability.md: the new row has an id. */
    task->wire.id = (uint64_t)written.id;
    return FED_OK;
}

fed_status fedserver_sql_layout_put(void *db, uint64_t task, const void *layout, size_t len,
                                    fed_error *err) {
    return WRITE(LAYOUT_PUT, INT(task), BLOB(layout, len));
}

fed_status fedserver_sql_layout_find(void *db, uint64_t task, void **layout, size_t *len,
                                     fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(LAYOUT_FIND, &row, &found, INT(task)));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "the store has no layout of task %" PRIu64, task);
    }
    const void *bytes = fedserver_sql_row_bytes(&row, 0, len);
    *layout = malloc(*len + 1);
    if (*layout != NULL && *len > 0) {
        memcpy(*layout, bytes, *len);
    }
    fedserver_sql_row_end(&row);
    return *layout != NULL ? FED_OK
                           : fed_fail(err, FED_ENOMEM, "out of memory for a model's layout");
}

/* Read a task from columns 0 to 5: id, text, state, queued_ms, started_ms, finished_ms. */
static fed_status task_read(const fedserver_sql_row *row, fedserver_task *task, fed_error *err) {
    const uint64_t id = (uint64_t)fedserver_sql_row_int(row, 0);
    size_t len;
    const char *text = fedserver_sql_row_bytes(row, 1, &len);
    FED_TRY(fedserver_task_text_read(id, text != NULL ? text : "", len, task, err));
    task->wire.id = id;
    task->state = (fedserver_task_state)fedserver_sql_row_int(row, 2);
    task->queued_ms = fedserver_sql_row_int(row, 3);
    task->started_ms = fedserver_sql_row_int(row, 4);
    task->finished_ms = fedserver_sql_row_int(row, 5);
    return FED_OK;
}

static_assert(FEDSERVER_PICK_ID == 0 && FEDSERVER_PICK_QUEUED == FEDSERVER_TASK_QUEUED + 1 &&
                  FEDSERVER_PICK_RUNNING == FEDSERVER_TASK_RUNNING + 1 &&
                  FEDSERVER_PICK_FINISHED == FEDSERVER_TASK_FINISHED + 1,
              "TASK_FIND takes the state from the pick");

fed_status fedserver_sql_task_find(void *db, fedserver_task_pick pick, uint64_t id,
                                   fedserver_task *task, fed_error *err) {
    static const char *const states[] = {[FEDSERVER_PICK_QUEUED] = "queued",
                                         [FEDSERVER_PICK_RUNNING] = "running",
                                         [FEDSERVER_PICK_FINISHED] = "finished"};
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(TASK_FIND, &row, &found, INT(pick), INT(id)));
    if (!found) {
        return pick == FEDSERVER_PICK_ID
                   ? fed_fail(err, FED_ENOTFOUND, "the store has no task %" PRIu64, id)
                   : fed_fail(err, FED_ENOTFOUND, "the store has no %s task", states[pick]);
    }
    fed_status status = task_read(&row, task, err);
    task->generation = (uint64_t)fedserver_sql_row_int(&row, 6);
    fedserver_sql_row_end(&row);
    return status;
}

fed_status fedserver_sql_task_put(void *db, const fedserver_task *task, unsigned from,
                                  fed_error *err) {
    fedserver_written written;
    FED_TRY(WRITE_NOW(TASK_PUT, &written, INT(task->wire.id), INT(task->state),
                      INT(task->started_ms), INT(task->finished_ms), INT(from)));
    assert(written.rows <= 1); /* S14 in docs/durability.md: a task is one row. */
    return written.rows == 1
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND, "another process has changed the state of task %llu",
                          (unsigned long long)task->wire.id);
}

fed_status fedserver_sql_task_describe(void *db, const fedserver_task *task, fed_error *err) {
    fed_writer text;
    fed_writer_growing(&text);
    fedserver_task_text_write(task, &text);
    const fed_status status =
        text.status == FED_OK ? WRITE(TASK_DESCRIBE, INT(task->wire.id), TEXT(text.data))
                              : fed_fail(err, text.status, "out of memory for the text of a task");
    fed_writer_free(&text);
    return status;
}

fed_status fedserver_sql_task_renew(void *db, fedserver_task *task, fed_error *err) {
    uint64_t generation;
    FED_TRY(new_generation(&generation, err));
    FED_TRY(WRITE(TASK_RENEW, INT(task->wire.id), INT(generation)));
    task->generation = generation;
    return FED_OK;
}

fed_status fedserver_sql_copied(void *db, fed_error *err) {
    uint64_t generation;
    FED_TRY(new_generation(&generation, err));
    FED_TRY(WRITE(TASKS_RENEW, INT(generation)));
    return fedserver_sql_write(db, FEDSERVER_SQL_LEDGERS_COPIED, NO_VALUES, NULL, err);
}

static fed_status entry_read(const fedserver_sql_row *row, fedserver_task_entry *entry,
                             fed_error *err) {
    fedserver_task task;
    FED_TRY(task_read(row, &task, err));
    *entry = (fedserver_task_entry){.id = task.wire.id,
                                    .state = task.state,
                                    .rounds = task.rules.rounds,
                                    .priority = task.priority,
                                    .version = (uint32_t)fedserver_sql_row_int(row, 6),
                                    .queued_ms = task.queued_ms,
                                    .started_ms = task.started_ms,
                                    .finished_ms = task.finished_ms,
                                    .declined = (uint32_t)fedserver_sql_row_int(row, 7),
                                    .declined_ms = fedserver_sql_row_int(row, 8)};
    memcpy(entry->name, task.name, sizeof entry->name);
    const fedserver_phase phase = fedserver_phase_of(&task, entry->version + 1);
    memcpy(entry->codec_up, phase.codec_up, sizeof entry->codec_up);
    memcpy(entry->codec_up_asked, phase.codec_up_asked, sizeof entry->codec_up_asked);
    return FED_OK;
}

fed_status fedserver_sql_task_each(void *db, int64_t declines_after_ms, fedserver_task_visit visit,
                                   void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    uint32_t position = 0;
    FED_TRY(FIRST(TASK_EACH, &row, &more, INT(declines_after_ms)));
    while (more) {
        fedserver_task_entry entry = {0};
        fed_status status = entry_read(&row, &entry, err);
        entry.position = entry.state == FEDSERVER_TASK_QUEUED ? ++position : 0;
        if (status == FED_OK && entry.declined > 0) {
            status = fedserver_sql_decline_reasons(db, declines_after_ms, &entry, err);
        }
        status = status == FED_OK ? visit(user, &entry, err) : status;
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_task_place(void *db, uint64_t id, uint64_t position, fed_error *err) {
    return WRITE(TASK_PLACE, INT(id), INT(position));
}

fed_status fedserver_sql_round_drop(void *db, uint64_t task, fed_error *err) {
    return WRITE(CLEAR_OPEN_ROUND, INT(task));
}

fed_status fedserver_sql_task_clear(void *db, uint64_t *id, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(fedserver_sql_first(db, FEDSERVER_SQL_TASK_LEFT, NO_VALUES, &row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no cancelled task has data left to delete");
    }
    *id = (uint64_t)fedserver_sql_row_int(&row, 0);
    fedserver_sql_row_end(&row);
    assert(*id != 0); /* S14 in docs/durability.md: only this task's data is deleted. */
    FED_TRY(((fedserver_sql_db *)db)->engine->clear_bytes(db, *id, err));
    FED_TRY(fedserver_sql_decline_forget(db, *id, err));
    FED_TRY(WRITE(CLEAR_PIECES, INT(*id)));
    FED_TRY(WRITE(CLEAR_LEASES, INT(*id)));
    FED_TRY(WRITE(CLEAR_OPEN_ROUND, INT(*id)));
    FED_TRY(fedserver_sql_noise_forget(db, *id, 0, UINT32_MAX, err));
    FED_TRY(WRITE(CLEAR_DELTAS, INT(*id)));
    FED_TRY(WRITE(CLEAR_KEYFRAMES, INT(*id)));
    return WRITE(CLEAR_MODEL, INT(*id));
}
