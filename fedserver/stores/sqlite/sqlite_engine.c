/* SQLite as the engine of the functions in stores/sql, and the store's function shrink. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/updates.h"

static fed_status engine_read(void *db, int sql, const fedserver_value *values, int count,
                              fedserver_sql_row *row, fed_error *err) {
    sqlite3_stmt *statement;
    FED_TRY(fedserver_database_read(db, sql, values, count, &statement, err));
    row->cursor = statement;
    return FED_OK;
}

static fed_status engine_next(fedserver_sql_row *row, bool *found, fed_error *err) {
    return fedserver_database_next(row->db, row->cursor, found, err);
}

static void engine_end(fedserver_sql_row *row) {
    sqlite3_reset(row->cursor);
}

static fed_status engine_write(void *user, int sql, const fedserver_value *values, int count,
                               fedserver_written *written, fed_error *err) {
    fedserver_database *db = user;
    FED_TRY(fedserver_database_write(db, sql, values, count, err));
    if (written != NULL) {
        written->rows = sqlite3_changes(db->handle);
        written->id = sqlite3_last_insert_rowid(db->handle);
    }
    return FED_OK;
}

static int64_t engine_integer(const fedserver_sql_row *row, int column) {
    return sqlite3_column_int64(row->cursor, column);
}

static double engine_real(const fedserver_sql_row *row, int column) {
    return sqlite3_column_type(row->cursor, column) == SQLITE_NULL
               ? (double)NAN
               : sqlite3_column_double(row->cursor, column);
}

static const void *engine_bytes(const fedserver_sql_row *row, int column, size_t *len) {
    const bool text = sqlite3_column_type(row->cursor, column) == SQLITE_TEXT;
    const void *bytes = text ? (const void *)sqlite3_column_text(row->cursor, column)
                             : sqlite3_column_blob(row->cursor, column);
    *len = (size_t)sqlite3_column_bytes(row->cursor, column);
    return bytes;
}

static int engine_columns(const fedserver_sql_row *row) {
    return sqlite3_column_count(row->cursor);
}

static fed_status engine_clear_bytes(void *db, uint64_t task, fed_error *err) {
    fedserver_sqlite_blobs_clear(db, task);
    return fedserver_sqlite_update_clear(db, task, UINT32_MAX, err);
}

const fedserver_engine fedserver_sqlite_engine = {
    .write = engine_write,
    .read = engine_read,
    .next = engine_next,
    .end = engine_end,
    .integer = engine_integer,
    .real = engine_real,
    .bytes = engine_bytes,
    .columns = engine_columns,
    .clear_bytes = engine_clear_bytes,
    .blob_find = fedserver_sqlite_blob_find,
    .blob_length = fedserver_sqlite_blob_length,
    .advice = FEDSERVER_RESTORE,
};

/* Count the free pages that can be returned. A database without auto_vacuum has none. */
static fed_status count_free(fedserver_database *db, int64_t *pages, fed_error *err) {
    return fedserver_sql_count(db, FEDSERVER_SQL_FREE_PAGES, NO_VALUES, pages, err);
}

fed_status fedserver_sqlite_shrink(void *db, bool *left, fed_error *err) {
    int64_t pages = 0;
    *left = false;
    FED_TRY(count_free(db, &pages, err));
    if (pages == 0) {
        return FED_OK;
    }
    FED_TRY(fedserver_database_write(db, FEDSERVER_SQL_SHRINK, NO_VALUES, err));
    FED_TRY(count_free(db, &pages, err));
    *left = pages > 0;
    return FED_OK;
}
