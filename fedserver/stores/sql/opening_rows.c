/* The table of openings: for rounds that close, the sums of masks that helpers sent, or why they
 * refuse. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

fed_status fedserver_sql_opening_put(void *db, uint64_t task, uint32_t round, const void *masks,
                                     size_t len, fed_error *err) {
    return WRITE(OPENING_PUT, INT(task), INT(round), BLOB(masks, len));
}

fed_status fedserver_sql_opening_refuse(void *db, uint64_t task, uint32_t round,
                                        const char *refusal, fed_error *err) {
    const uint8_t none[1] = {0};
    if (refusal[0] == '\0') {
        return WRITE(OPENING_AGREE, INT(task), INT(round));
    }
    return WRITE(OPENING_REFUSE, INT(task), INT(round), BLOB(none, 0), TEXT(refusal));
}

fed_status fedserver_sql_opening_refused(void *db, uint64_t task, uint32_t round, char *refusal,
                                         size_t cap, fed_error *err) {
    fedserver_sql_row row;
    bool found = false;
    refusal[0] = '\0';
    FED_TRY(FIRST(OPENING_REFUSED, &row, &found, INT(task), INT(round)));
    if (found) {
        fedserver_sql_row_text(&row, 0, refusal, cap);
        fedserver_sql_row_end(&row);
    }
    return FED_OK;
}

fed_status fedserver_sql_opening_find(void *db, uint64_t task, uint32_t round, void *masks,
                                      size_t len, bool *found, fed_error *err) {
    fedserver_sql_row row;
    size_t stored = 0;
    if (masks == NULL) {
        int64_t count = 0;
        FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_OPENING_HAS, VALUES(INT(task), INT(round)),
                                    &count, err));
        *found = count > 0;
        return FED_OK;
    }
    FED_TRY(FIRST(OPENING_FIND, &row, found, INT(task), INT(round)));
    if (!*found) {
        return FED_OK;
    }
    const void *bytes = fedserver_sql_row_bytes(&row, 0, &stored);
    if (stored == len) {
        memcpy(masks, bytes, len);
    }
    fedserver_sql_row_end(&row);
    return stored == len ? FED_OK
                         : fed_fail(err, FED_EFORMAT,
                                    "the opening of task %llu, round %u has %zu bytes, not %zu",
                                    (unsigned long long)task, round, stored, len);
}

fed_status fedserver_sql_opening_clear(void *db, uint64_t task, uint32_t round, fed_error *err) {
    return WRITE(OPENING_CLEAR, INT(task), INT(round));
}
