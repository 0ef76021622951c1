/* The table of passes. */
#include "fedserver/stores/sqlite/pass_rows.h"

#include "fedserver/stores/sqlite/database.h"

fed_status fedserver_sqlite_pass_add(void *db, const uint8_t *hash, const fedserver_pass *pass,
                                     fed_error *err) {
    return WRITE(PASS_ADD, BLOB(hash, FED_SHA256_SIZE), INT(pass->kind), INT(pass->expires_ms));
}

fed_status fedserver_sqlite_pass_find(void *db, const uint8_t *hash, fedserver_pass *pass,
                                      fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(PASS_FIND, &row, BLOB(hash, FED_SHA256_SIZE)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no pass has that hash");
    }
    pass->kind = (fedserver_pass_kind)sqlite3_column_int(row, 0);
    pass->expires_ms = sqlite3_column_int64(row, 1);
    pass->used_ms = sqlite3_column_int64(row, 2);
    sqlite3_reset(row);
    return FED_OK;
}

fed_status fedserver_sqlite_pass_use(void *db, const uint8_t *hash, int64_t now_ms,
                                     fed_error *err) {
    return WRITE(PASS_USE, BLOB(hash, FED_SHA256_SIZE), INT(now_ms));
}

fed_status fedserver_sqlite_pass_end(void *db, int64_t until_ms, fed_error *err) {
    return WRITE(PASS_END, INT(until_ms));
}
