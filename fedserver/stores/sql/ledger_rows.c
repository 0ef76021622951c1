/* The table of ledgers: in how many rounds of a private task each device took part. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

static const uint8_t no_key[sizeof((fedserver_round_row *)NULL)->noise_key];

fed_status fedserver_sql_ledger_charge(void *db, uint64_t task, uint32_t round, fed_error *err) {
    assert(task != 0 && round != 0); /* S19 in docs/durability.md: of one round of one task. */
    return WRITE(LEDGER_CHARGE, INT(task), INT(round));
}

static void ledger_read(const fedserver_sql_row *row, fedserver_ledger_row *read) {
    size_t len;
    *read = (fedserver_ledger_row){.device = fedserver_sql_row_int(row, 0),
                                   .taken = (uint32_t)fedserver_sql_row_int(row, 1),
                                   .last_round = (uint32_t)fedserver_sql_row_int(row, 2)};
    const uint8_t *fingerprint = fedserver_sql_row_bytes(row, 3, &len);
    if (len == FED_SHA256_SIZE) {
        fed_hex(fingerprint, sizeof read->fingerprint / 2, read->fingerprint);
    }
    fedserver_sql_row_text(row, 4, read->name, sizeof read->name);
}

fed_status fedserver_sql_ledger_each(void *db, uint64_t task, fedserver_ledger_visit visit,
                                     void *user, fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(FIRST(LEDGER_EACH, &row, &more, INT(task)));
    while (more) {
        fedserver_ledger_row read;
        ledger_read(&row, &read);
        const fed_status status = visit(user, &read, err);
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_ledger_left(void *db, uint64_t task, const char *tag, uint32_t most,
                                     uint32_t round, uint32_t apart, uint64_t *count,
                                     fed_error *err) {
    const int64_t any = -1, before = round > apart ? (int64_t)round - apart : 0;
    int64_t found;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_LEDGER_LEFT,
                                VALUES(INT(task), TEXT(tag), INT(most),
                                       INT(round > 0 ? before : UINT32_MAX),
                                       INT(round > 0 ? (int64_t)round : any)),
                                &found, err));
    *count = (uint64_t)found;
    return FED_OK;
}

fed_status fedserver_sql_ledger_lose(void *db, uint64_t task, uint32_t count, uint32_t most,
                                     uint64_t *lost, fed_error *err) {
    fedserver_written dropped;
    FED_TRY(WRITE(LEDGER_LOSE, INT(task), INT(count)));
    FED_TRY(WRITE(LEDGER_KNOWN, INT(task)));
    FED_TRY(WRITE(NOISE_LOSE, INT(task), BLOB(no_key, sizeof no_key)));
    FED_TRY(WRITE_NOW(LEDGER_DROP, &dropped, INT(task), INT(most)));
    *lost = (uint64_t)dropped.rows;
    return FED_OK;
}

fed_status fedserver_sql_noise_forget(void *db, uint64_t task, uint32_t after, uint32_t last,
                                      fed_error *err) {
    return WRITE(NOISE_FORGET, INT(task), INT(after), INT(last), BLOB(no_key, sizeof no_key));
}
