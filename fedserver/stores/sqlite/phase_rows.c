/* A task's later phases: a row each. */
#include "fedserver/stores/sqlite/phase_rows.h"

fed_status fedserver_sqlite_phases_add(fedserver_database *db, const fedserver_task *task,
                                       fed_error *err) {
    for (uint32_t k = 0; k < task->phase_count; k++) {
        const fedserver_phase *phase = &task->phases[k];
        FED_TRY(WRITE(PHASE_ADD, INT(task->wire.id), INT(phase->round), TEXT(phase->codec_up),
                      TEXT(phase->codec_down), INT(phase->local_steps), INT(phase->batch),
                      TEXT(phase->optimizer), REAL(phase->learning_rate)));
    }
    return FED_OK;
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

fed_status fedserver_sqlite_phases_read(fedserver_database *db, fedserver_task *task,
                                        fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(PHASE_EACH, &row, INT(task->wire.id)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        if (task->phase_count == FEDSERVER_PHASES) {
            sqlite3_reset(row);
            return fed_fail(err, FED_EFORMAT, "task %llu has more than %d phases",
                            (unsigned long long)task->wire.id, FEDSERVER_PHASES);
        }
        phase_read(row, &task->phases[task->phase_count++]);
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}
