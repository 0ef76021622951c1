/* The table of the audit log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/sqlite_rows.h"

#define RECORD fedserver_audit_entry
static const fedserver_column audit_columns[] = {AUDIT_COLUMNS(COLUMN, )};
#undef RECORD

fed_status fedserver_sqlite_audit_add(void *db, const fedserver_audit_entry *entry,
                                      fed_error *err) {
    fedserver_value values[COUNT(audit_columns)];
    BIND(audit_columns, entry, values);
    FED_TRY(fedserver_database_write(db, FEDSERVER_SQL_AUDIT_ADD, values, COUNT(values), err));
    return WRITE(AUDIT_PRUNE, INT(FEDSERVER_AUDIT_LINES));
}

fed_status fedserver_sqlite_audit_each(void *db, int64_t since_ms, fedserver_audit_visit visit,
                                       void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(AUDIT_EACH, &row, INT(since_ms)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_audit_entry entry = {0};
        READ_INTO(audit_columns, row, 0, &entry);
        fed_status status = visit(user, &entry, err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}
