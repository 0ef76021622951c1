/* The table of outliers: how often each device was in the worst group of a private round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

fed_status fedserver_sql_outliers_count(void *db, uint64_t task, uint32_t round, double share,
                                        fed_error *err) {
    assert(task != 0 && round != 0 && share >= 0 && share <= 1);
    return WRITE(OUTLIERS_COUNT, INT(task), INT(round), REAL(share));
}

fed_status fedserver_sql_outlier_add(void *db, uint64_t task, uint32_t round, int64_t device,
                                     fed_error *err) {
    return WRITE(OUTLIER_ADD, INT(task), INT(device), INT(round));
}

static void outlier_read(const fedserver_sql_row *row, fedserver_outlier_row *read) {
    size_t len;
    *read = (fedserver_outlier_row){.device = fedserver_sql_row_int(row, 0),
                                    .rounds = (uint32_t)fedserver_sql_row_int(row, 1),
                                    .worst = (uint32_t)fedserver_sql_row_int(row, 2),
                                    .expected = fedserver_sql_row_real(row, 3),
                                    .last_worst = (uint32_t)fedserver_sql_row_int(row, 4),
                                    .revoked = fedserver_sql_row_int(row, 7) != 0};
    const uint8_t *fingerprint = fedserver_sql_row_bytes(row, 5, &len);
    if (len == FED_SHA256_SIZE) {
        fed_hex(fingerprint, sizeof read->fingerprint / 2, read->fingerprint);
    }
    fedserver_sql_row_text(row, 6, read->name, sizeof read->name);
}

fed_status fedserver_sql_outliers_each(void *db, uint64_t task, uint32_t least,
                                       fedserver_outlier_visit visit, void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(OUTLIERS_EACH, &row, &more, INT(task), INT(least)));
    while (more) {
        fedserver_outlier_row read;
        outlier_read(&row, &read);
        const fed_status status = visit(user, &read, err);
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}
