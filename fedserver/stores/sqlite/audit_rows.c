/* The table of the audit log. */
#include "fedserver/stores/sqlite/audit_rows.h"

#include "fedserver/stores/sqlite/database.h"

fed_status fedserver_sqlite_audit_add(void *db, const fedserver_audit_entry *entry,
                                      fed_error *err) {
    FED_TRY(WRITE(AUDIT_ADD, INT(entry->at_ms), TEXT(entry->event), TEXT(entry->detail)));
    return WRITE(AUDIT_PRUNE, INT(FEDSERVER_AUDIT_LINES));
}

fed_status fedserver_sqlite_audit_each(void *db, int64_t since_ms, fedserver_audit_visit visit,
                                       void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(AUDIT_EACH, &row, INT(since_ms)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_audit_entry entry = {.at_ms = sqlite3_column_int64(row, 0)};
        fedserver_database_text(row, 1, entry.event, sizeof entry.event);
        fedserver_database_text(row, 2, entry.detail, sizeof entry.detail);
        fed_status status = visit(user, &entry, err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}
