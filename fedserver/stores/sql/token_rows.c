/* The tables of tokens and of passes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

#define RECORD fedserver_token
static const fedserver_column token_made[] = {TOKEN_MADE(COLUMN, )};
static const fedserver_column token_ended[] = {TOKEN_ENDED(COLUMN, )};
#undef RECORD
#define RECORD fedserver_pass
static const fedserver_column pass_made[] = {PASS_MADE(COLUMN, )};
static const fedserver_column pass_ended[] = {PASS_ENDED(COLUMN, )};
#undef RECORD

/* -- tokens -- */

fed_status fedserver_sql_token_add(void *db, const uint8_t *hash, const fedserver_token *token,
                                   fed_error *err) {
    fedserver_value values[1 + COUNT(token_made)] = {BLOB(hash, FED_SHA256_SIZE)};
    BIND(token_made, token, &values[1]);
    return fedserver_sql_write(db, FEDSERVER_SQL_TOKEN_ADD, values, COUNT(values), NULL, err);
}

static void token_read(const fedserver_sql_row *row, int first, fedserver_token *token) {
    *token = (fedserver_token){0};
    READ_INTO(token_ended, row, READ_INTO(token_made, row, first, token), token);
}

fed_status fedserver_sql_token_find(void *db, const uint8_t *hash, fedserver_token *token,
                                    fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(TOKEN_FIND, &row, &found, BLOB(hash, FED_SHA256_SIZE)));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no token has that hash");
    }
    token_read(&row, 0, token);
    fedserver_sql_row_end(&row);
    return FED_OK;
}

fed_status fedserver_sql_token_each(void *db, fedserver_token_visit visit, void *user,
                                    fed_error *err) {
    fedserver_sql_row row;
    bool more;
    FED_TRY(fedserver_sql_first(db, FEDSERVER_SQL_TOKEN_EACH, NO_VALUES, &row, &more, err));
    while (more) {
        fedserver_token token;
        uint8_t hash[FED_SHA256_SIZE] = {0};
        token_read(&row, 1, &token);
        size_t len;
        const void *bytes = fedserver_sql_row_bytes(&row, 0, &len);
        if (len == sizeof hash) {
            memcpy(hash, bytes, len);
        }
        fed_status status = visit(user, hash, &token, err);
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_token_withdraw(void *db, const uint8_t *hash, int64_t now_ms,
                                        fed_error *err) {
    fedserver_written written;
    FED_TRY(WRITE_NOW(TOKEN_WITHDRAW, &written, BLOB(hash, FED_SHA256_SIZE), INT(now_ms)));
    assert(written.rows <= 1); /* S13 in docs/durability.md: a hash names one token at most. */
    return written.rows == 1 ? FED_OK
                             : fed_fail(err, FED_ENOTFOUND, "no unused token has that hash");
}

fed_status fedserver_sql_token_use(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    fedserver_written written;
    FED_TRY(WRITE_NOW(TOKEN_USE, &written, INT(now_ms), BLOB(hash, FED_SHA256_SIZE)));
    /* S13 in docs/durability.md: one device at most enrols with a token. */
    assert(written.rows <= 1);
    return written.rows == 1 ? FED_OK
                             : fed_fail(err, FED_ENOTFOUND, "no unused token has that hash");
}

/* -- passes: links, sessions and bearer tokens of the front -- */

fed_status fedserver_sql_pass_add(void *db, const uint8_t *hash, const fedserver_pass *pass,
                                  fed_error *err) {
    fedserver_value values[1 + COUNT(pass_made)] = {BLOB(hash, FED_SHA256_SIZE)};
    BIND(pass_made, pass, &values[1]);
    return fedserver_sql_write(db, FEDSERVER_SQL_PASS_ADD, values, COUNT(values), NULL, err);
}

fed_status fedserver_sql_pass_find(void *db, const uint8_t *hash, fedserver_pass *pass,
                                   fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(PASS_FIND, &row, &found, BLOB(hash, FED_SHA256_SIZE)));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no pass has that hash");
    }
    *pass = (fedserver_pass){0};
    READ_INTO(pass_ended, &row, READ_INTO(pass_made, &row, 0, pass), pass);
    fedserver_sql_row_end(&row);
    return FED_OK;
}

fed_status fedserver_sql_pass_use(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    return WRITE(PASS_USE, BLOB(hash, FED_SHA256_SIZE), INT(now_ms));
}

fed_status fedserver_sql_pass_end(void *db, int64_t until_ms, fed_error *err) {
    return WRITE(PASS_END, INT(until_ms));
}
