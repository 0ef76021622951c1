/* The table of declines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/sqlite_rows.h"

fed_status fedserver_sqlite_decline_put(void *db, uint64_t task, int64_t device, const char *reason,
                                        int64_t now_ms, fed_error *err) {
    return WRITE(DECLINE_PUT, INT(task), INT(device), TEXT(reason), INT(now_ms));
}

fed_status fedserver_sqlite_decline_each(void *db, uint64_t task, int64_t after_ms,
                                         fedserver_decline_visit visit, void *user,
                                         fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(DECLINE_EACH, &row, INT(task), INT(after_ms)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        char reason[sizeof((fed_decline *)NULL)->reason];
        fedserver_database_text(row, 1, reason, sizeof reason);
        const fedserver_decline decline = {.fingerprint = sqlite3_column_blob(row, 0),
                                           .reason = reason,
                                           .at_ms = sqlite3_column_int64(row, 2)};
        fed_status status = sqlite3_column_bytes(row, 0) == FED_SHA256_SIZE
                                ? visit(user, &decline, err)
                                : FED_OK; /* check says so */
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sqlite_decline_forget(void *db, uint64_t task, fed_error *err) {
    return WRITE(DECLINE_FORGET, INT(task));
}

fed_status fedserver_sqlite_decline_reasons(void *db, int64_t after_ms, fedserver_task_entry *entry,
                                            fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(
        READ(DECLINE_REASONS, &row, INT(entry->id), INT(after_ms), INT(FEDSERVER_TASK_REASONS)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    for (int k = 0; more; k++) {
        fedserver_database_text(row, 0, entry->reasons[k].text, sizeof entry->reasons[k].text);
        entry->reasons[k].devices = (uint32_t)sqlite3_column_int64(row, 1);
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}
