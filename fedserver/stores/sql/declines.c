/* The table of declines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

fed_status fedserver_sql_decline_put(void *db, uint64_t task, int64_t device, const char *reason,
                                     int64_t now_ms, fed_error *err) {
    return WRITE(DECLINE_PUT, INT(task), INT(device), TEXT(reason), INT(now_ms));
}

fed_status fedserver_sql_decline_each(void *db, uint64_t task, int64_t after_ms,
                                      fedserver_decline_visit visit, void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(DECLINE_EACH, &row, &more, INT(task), INT(after_ms)));
    while (more) {
        char reason[sizeof((fed_decline *)NULL)->reason];
        fedserver_sql_row_text(&row, 1, reason, sizeof reason);
        size_t len;
        const fedserver_decline decline = {.fingerprint = fedserver_sql_row_bytes(&row, 0, &len),
                                           .reason = reason,
                                           .at_ms = fedserver_sql_row_int(&row, 2),
                                           .device = fedserver_sql_row_int(&row, 3),
                                           .revoked = fedserver_sql_row_int(&row, 4) != 0};
        /* `fedserver check` reports a wrong length */
        fed_status status = len == FED_SHA256_SIZE ? visit(user, &decline, err) : FED_OK;
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_decline_forget(void *db, uint64_t task, fed_error *err) {
    return WRITE(DECLINE_FORGET, INT(task));
}

fed_status fedserver_sql_decline_reasons(void *db, int64_t after_ms, fedserver_task_entry *entry,
                                         fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(DECLINE_REASONS, &row, &more, INT(entry->id), INT(after_ms),
                  INT(FEDSERVER_TASK_REASONS)));
    for (int k = 0; more; k++) {
        fedserver_sql_row_text(&row, 0, entry->reasons[k].text, sizeof entry->reasons[k].text);
        entry->reasons[k].devices = (uint32_t)fedserver_sql_row_int(&row, 1);
        FED_TRY(fedserver_sql_row_next(&row, &more, err));
    }
    return FED_OK;
}
