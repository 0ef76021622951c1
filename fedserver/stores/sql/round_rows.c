/* The tables of rounds, of evaluators' metrics and of custom metrics. Each engine stores the
 * updates of rounds in its own way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

#define RECORD fedserver_round_row
static const fedserver_column round_columns[] = {ROUND_COLUMNS(COLUMN, )};
#undef RECORD
#define RECORD fed_metric
static const fedserver_column metric_columns[] = {METRIC_COLUMNS(COLUMN, )};
#undef RECORD
#define RECORD fedserver_own_metric
static const fedserver_column own_columns[] = {OWN_COLUMNS(COLUMN, )};
#undef RECORD

fed_status fedserver_sql_round_put(void *db, uint64_t task, const fedserver_round_row *row,
                                   fed_error *err) {
    /* S5 in docs/durability.md: rounds are numbered from 1. */
    assert(task != 0 && row->number > 0);
    fedserver_value values[1 + COUNT(round_columns)] = {INT(task)};
    BIND(round_columns, row, &values[1]);
    return fedserver_sql_write(db, FEDSERVER_SQL_ROUND_PUT, values, COUNT(values), NULL, err);
}

static void name_read(const fedserver_sql_row *row, int column, fedserver_standout *standout) {
    size_t len;
    const uint8_t *fingerprint = fedserver_sql_row_bytes(row, column, &len);
    if (len == FED_SHA256_SIZE) {
        fed_hex(fingerprint, sizeof standout->name / 2, standout->name);
    }
}

/* Read a row of ROUND_EACH: the table's columns, then the values that the statement computes. */
static void round_read(const fedserver_sql_row *row, fedserver_round_row *round) {
    *round = (fedserver_round_row){0};
    const int end = READ_INTO(round_columns, row, 0, round);
    round->measured = fedserver_sql_row_int(row, end) != 0;
    if (round->measured) {
        round->accuracy = fedserver_sql_row_real(row, end + 1);
        round->test_loss = fedserver_sql_row_real(row, end + 2);
    }
    name_read(row, end + 3, &round->heaviest);
    name_read(row, end + 4, &round->furthest);
}

fed_status fedserver_sql_round_each(void *db, uint64_t task, uint32_t limit,
                                    fedserver_round_visit visit, void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(ROUND_EACH, &row, &more, INT(task), INT(limit)));
    while (more) {
        fedserver_round_row round;
        round_read(&row, &round);
        fed_status status = visit(user, &round, err);
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_update_count(void *db, uint64_t task, uint32_t round, uint32_t *count,
                                      fed_error *err) {
    int64_t found;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_UPDATE_COUNT, VALUES(INT(task), INT(round)),
                                &found, err));
    *count = (uint32_t)found;
    return FED_OK;
}

fed_status fedserver_sql_metric_put(void *db, int64_t device, const fed_metric *metric,
                                    fed_error *err) {
    fedserver_value values[1 + COUNT(metric_columns)] = {INT(device)};
    BIND(metric_columns, metric, &values[1]);
    return fedserver_sql_write(db, FEDSERVER_SQL_METRIC_PUT, values, COUNT(values), NULL, err);
}

fed_status fedserver_sql_own_put(void *db, uint64_t task, uint32_t version, int64_t device,
                                 const fedserver_own_metric *rows, size_t count, fed_error *err) {
    FED_TRY(WRITE(OWN_CLEAR, INT(task), INT(version), INT(device)));
    for (size_t k = 0; k < count; k++) {
        fedserver_value values[3 + COUNT(own_columns)] = {INT(task), INT(version), INT(device)};
        BIND(own_columns, &rows[k], &values[3]);
        FED_TRY(fedserver_sql_write(db, FEDSERVER_SQL_OWN_ADD, values, COUNT(values), NULL, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_own_each(void *db, uint64_t task, uint32_t first,
                                  fedserver_own_row_visit visit, void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(OWN_EACH, &row, &more, INT(task), INT(first)));
    while (more) {
        fedserver_own_metric metric = {.reports = 0};
        const uint32_t version = (uint32_t)fedserver_sql_row_int(&row, 0);
        (void)READ_INTO(own_columns, &row, 2, &metric);
        fed_status status = visit(user, version, fedserver_sql_row_int(&row, 1), &metric, err);
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}
