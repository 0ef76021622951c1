/* The table of the audit log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

#define RECORD fedserver_audit_entry
static const fedserver_column audit_columns[] = {AUDIT_COLUMNS(COLUMN, )};
#undef RECORD

fed_status fedserver_sql_audit_add(void *db, const fedserver_audit_entry *entry, fed_error *err) {
    fedserver_value values[COUNT(audit_columns)];
    BIND(audit_columns, entry, values);
    FED_TRY(fedserver_sql_write(db, FEDSERVER_SQL_AUDIT_ADD, values, COUNT(values), NULL, err));
    return WRITE(AUDIT_PRUNE, INT(FEDSERVER_AUDIT_LINES));
}

fed_status fedserver_sql_audit_each(void *db, int64_t since_ms, fedserver_audit_visit visit,
                                    void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(AUDIT_EACH, &row, &more, INT(since_ms)));
    while (more) {
        fedserver_audit_entry entry = {0};
        READ_INTO(audit_columns, &row, 0, &entry);
        fed_status status = visit(user, &entry, err);
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_audit_tasks(void *db, int64_t *read, fedserver_audit_visit visit,
                                     void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(AUDIT_TASKS, &row, &more, INT(*read)));
    while (more) {
        fedserver_audit_entry entry = {0};
        const int end = READ_INTO(audit_columns, &row, 0, &entry);
        const fed_status status = visit(user, &entry, err);
        *read = status == FED_OK ? fedserver_sql_row_int(&row, end) : *read;
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}
