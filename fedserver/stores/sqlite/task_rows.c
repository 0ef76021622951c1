/* The list of tasks, and the space of those that are cancelled. */
#include "fedserver/stores/sqlite/task_rows.h"

#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/declines.h"
#include "fedserver/stores/sqlite/updates.h"

static void entry_read(sqlite3_stmt *row, fedserver_task_entry *entry) {
    *entry = (fedserver_task_entry){.id = (uint64_t)sqlite3_column_int64(row, 0),
                                    .state = (fedserver_task_state)sqlite3_column_int(row, 2),
                                    .rounds = (uint32_t)sqlite3_column_int64(row, 3),
                                    .version = (uint32_t)sqlite3_column_int64(row, 4),
                                    .queued_ms = sqlite3_column_int64(row, 5),
                                    .started_ms = sqlite3_column_int64(row, 6),
                                    .finished_ms = sqlite3_column_int64(row, 7),
                                    .declined = (uint32_t)sqlite3_column_int64(row, 8)};
    fedserver_database_text(row, 1, entry->name, sizeof entry->name);
}

fed_status fedserver_sqlite_task_each(void *db, int64_t declines_after_ms,
                                      fedserver_task_visit visit, void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    uint32_t position = 0;
    FED_TRY(READ(TASK_EACH, &row, INT(declines_after_ms)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_task_entry entry;
        fed_status status = FED_OK;
        entry_read(row, &entry);
        entry.position = entry.state == FEDSERVER_TASK_QUEUED ? ++position : 0;
        if (entry.declined > 0) {
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
    FED_TRY(fedserver_sqlite_update_clear(db, *id, err));
    FED_TRY(fedserver_sqlite_decline_forget(db, *id, err));
    FED_TRY(WRITE(CLEAR_PIECES, INT(*id)));
    FED_TRY(WRITE(CLEAR_OPEN_ROUND, INT(*id)));
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
