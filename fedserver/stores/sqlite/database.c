/* A handle of the SQLite store: one connection in WAL mode, whose commits are synced to disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/database.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/hash.h"
#include "fedserver/stores/layouts.h"
#include "fedserver/stores/sqlite/schema.h"
#include "fedserver/stores/undone.h"

/* SQL for the next value of the column devices.change. An index finds the largest value. */
#define NEXT_CHANGE "(SELECT ifnull(max(change), 0) + 1 FROM devices)"

static const char *const texts[FEDSERVER_SQLITE_COUNT] = {
#define FEDSERVER_SQL(name, text) [FEDSERVER_SQL_##name] = (text),
#include "fedserver/stores/sql/sql_statements.def"
#include "fedserver/stores/sqlite/statements.def"
#undef FEDSERVER_SQL
};

enum { BUSY_TIMEOUT_MS = 5000 };

fed_status fedserver_database_fail(fedserver_database *db, int code, fed_error *err) {
    switch (code & 0xff) {
    case SQLITE_FULL:
        return fed_fail(err, FED_ENOSPC, FEDSERVER_DISK_FULL, db->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fed_fail(err, FED_EBUSY,
                        "%s: another process has held the database for %d s; end it, then "
                        "try again",
                        db->path, BUSY_TIMEOUT_MS / 1000);
    case SQLITE_NOMEM:
        return fed_fail(err, FED_ENOMEM, "%s: out of memory", db->path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return fed_fail(err, FED_EFORMAT, "%s: %s; restore it from a backup", db->path,
                        sqlite3_errmsg(db->handle));
    default:
        return fed_fail(err, FED_EIO, "%s: %s (SQLite error %d)", db->path,
                        sqlite3_errmsg(db->handle), code);
    }
}

fed_status fedserver_database_script(fedserver_database *db, const char *sql, fed_error *err) {
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? FED_OK : fedserver_database_fail(db, code, err);
}

/* The SQL function fed_guard(blob): XXH3-64 of the blob's bytes, or NULL for NULL. */
static void guard(sqlite3_context *context, int count, sqlite3_value **values) {
    (void)count;
    if (sqlite3_value_type(values[0]) == SQLITE_NULL) {
        sqlite3_result_null(context);
        return;
    }
    const void *bytes = sqlite3_value_blob(values[0]);
    const size_t len = (size_t)sqlite3_value_bytes(values[0]);
    sqlite3_result_int64(context, (sqlite3_int64)fed_digest_bytes(bytes, len));
}

static void name_immutable(const char *path, char *uri, size_t cap) {
    size_t len = (size_t)snprintf(uri, cap, "file:");
    for (; *path != '\0' && len + 3 < cap; path++) {
        const bool plain = strchr("%?#", *path) == NULL;
        len += (size_t)snprintf(uri + len, cap - len, plain ? "%c" : "%%%02x", *path);
    }
    snprintf(uri + len, cap - len, "?immutable=1");
}

fed_status fedserver_database_open(const char *path, int flags, fedserver_database **db,
                                   fed_error *err) {
    fedserver_database *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fed_fail(err, FED_ENOMEM, "%s: out of memory", path);
    }
    const char *slash = strrchr(path, '/');
    snprintf(made->path, sizeof made->path, "%s", path);
    snprintf(made->directory, sizeof made->directory, "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
    made->base.engine = &fedserver_sqlite_engine;
    made->segment.fd = made->lock = -1;
    char uri[3 * sizeof made->path + 32];
    name_immutable(path, uri, sizeof uri);
    const bool fixed = (flags & SQLITE_OPEN_READONLY) != 0;
    int code = sqlite3_open_v2(fixed ? uri : path, &made->handle,
                               flags | SQLITE_OPEN_EXRESCODE | (fixed ? SQLITE_OPEN_URI : 0), NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_create_function_v2(made->handle, "fed_guard", 1,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, guard, NULL,
                                          NULL, NULL);
    }
    fed_status status = code == SQLITE_OK ? FED_OK : fedserver_database_fail(made, code, err);
    if (status == FED_OK) {
        sqlite3_busy_timeout(made->handle, BUSY_TIMEOUT_MS);
        /* Every commit waits for the disk, because answers promise what was committed. The journal
         * file is cut to 64 MiB, and the page cache has 8192 KiB. */
        status = fedserver_database_script(made,
                                           "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                                           "PRAGMA journal_size_limit = 67108864;"
                                           "PRAGMA cache_size = -8192;",
                                           err);
    }
    if (status != FED_OK) {
        fedserver_database_close(made);
        return status;
    }
    *db = made;
    return FED_OK;
}

void fedserver_database_close(fedserver_database *db) {
    if (db == NULL) {
        return;
    }
    for (int k = 0; k < FEDSERVER_SQLITE_COUNT; k++) {
        sqlite3_finalize(db->statements[k]);
    }
    fedserver_segment_close(&db->segment);
    sqlite3_close(db->handle);
    if (db->lock >= 0) {
        close(db->lock);
    }
    free(db);
}

static int bind(sqlite3_stmt *statement, int k, const fedserver_value *value) {
    if (value->null) {
        return sqlite3_bind_null(statement, k);
    }
    if (value->kind == FEDSERVER_VALUE_INT) {
        return sqlite3_bind_int64(statement, k, value->integer);
    }
    if (value->kind == FEDSERVER_VALUE_REAL) {
        return sqlite3_bind_double(statement, k, value->real);
    }
    if (value->bytes == NULL) {
        return sqlite3_bind_null(statement, k);
    }
    if (value->kind == FEDSERVER_VALUE_TEXT) {
        return sqlite3_bind_text(statement, k, value->bytes, -1, SQLITE_STATIC);
    }
    return sqlite3_bind_blob64(statement, k, value->bytes, value->len, SQLITE_STATIC);
}

static fed_status bind_all(fedserver_database *db, int sql, const fedserver_value *values,
                           int count, sqlite3_stmt **statement, fed_error *err) {
    sqlite3_stmt **kept = &db->statements[sql];
    int code = SQLITE_OK;
    if (*kept == NULL) {
        code =
            sqlite3_prepare_v3(db->handle, texts[sql], -1, SQLITE_PREPARE_PERSISTENT, kept, NULL);
    }
    for (int k = 0; k < count && code == SQLITE_OK; k++) {
        code = bind(*kept, k + 1, &values[k]);
    }
    if (code != SQLITE_OK) {
        return fedserver_database_fail(db, code, err);
    }
    /* S2 in docs/durability.md: every parameter has a value. */
    assert(count == sqlite3_bind_parameter_count(*kept));
    *statement = *kept;
    return FED_OK;
}

static fed_status step(fedserver_database *db, sqlite3_stmt *statement, bool *row, fed_error *err) {
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *row = true;
        return FED_OK;
    }
    fed_status status = code == SQLITE_DONE ? FED_OK : fedserver_database_fail(db, code, err);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    if (status == FED_OK) {
        *row = false;
    }
    return status;
}

static fed_status run(fedserver_database *db, int sql, const fedserver_value *values, int count,
                      fed_error *err) {
    sqlite3_stmt *statement;
    FED_TRY(bind_all(db, sql, values, count, &statement, err));
    bool row = true;
    while (row) {
        FED_TRY(step(db, statement, &row, err));
    }
    return FED_OK;
}

fed_status fedserver_database_same_layout(fedserver_database *db, fed_error *err) {
    int64_t layout;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_LAYOUT, NO_VALUES, &layout, err));
    return layout == FEDSERVER_SCHEMA_VERSION ? FED_OK : fedserver_layout_changed(db->path, err);
}

fed_status fedserver_database_note(fedserver_database *db, fed_status status, const fed_error *why,
                                   fed_error *err) {
    return fedserver_undone_note(&db->base.undone, status, why, err);
}

/* Note how a read ended. A failure undoes the transaction in which it happens. A damaged page does
 * not: what the transaction has written is unchanged. */
static fed_status note_read(fedserver_database *db, fed_status status, const fed_error *why,
                            fed_error *err) {
    return db->writing && status != FED_EFORMAT ? fedserver_database_note(db, status, why, err)
           : status == FED_OK                   ? FED_OK
                                                : fed_fail(err, status, "%s", why->text);
}

fed_status fedserver_database_read(fedserver_database *db, int sql, const fedserver_value *values,
                                   int count, sqlite3_stmt **statement, fed_error *err) {
    fed_error why = {0};
    FED_TRY(fedserver_undone_report(&db->base.undone, err));
    return note_read(db, bind_all(db, sql, values, count, statement, &why), &why, err);
}

fed_status fedserver_database_next(fedserver_database *db, sqlite3_stmt *statement, bool *row,
                                   fed_error *err) {
    fed_error why = {0};
    return note_read(db, step(db, statement, row, &why), &why, err);
}

/* After a failed read SQLite may have rolled back the transaction by itself. */
static bool has_reserved(fedserver_database *db) {
    db->reserved = db->reserved && sqlite3_get_autocommit(db->handle) == 0;
    return db->reserved;
}

fed_status fedserver_database_reserve(fedserver_database *db, unsigned wait_ms, fed_error *err) {
    if (db->writing || has_reserved(db)) {
        return FED_OK;
    }
    sqlite3_busy_timeout(db->handle, (int)wait_ms);
    fed_error why = {0};
    const fed_status status = run(db, FEDSERVER_SQL_BEGIN, NO_VALUES, &why);
    sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
    db->reserved = status == FED_OK;
    return status == FED_OK      ? FED_OK
           : status == FED_EBUSY ? fed_fail(err, status,
                                            "%s: another program holds the database: end that "
                                            "program, or wait for its end",
                                            db->path)
                                 : fed_fail(err, status, "%s", why.text);
}

/* BEGIN IMMEDIATE, before the first write: a transaction that reads before it writes could fail
 * when another process writes in between. */
fed_status fedserver_database_begin(fedserver_database *db, fed_error *err) {
    fed_error why = {0};
    FED_TRY(fedserver_undone_report(&db->base.undone, err));
    if (!db->writing) {
        fed_status status =
            has_reserved(db) ? FED_OK : run(db, FEDSERVER_SQL_BEGIN, NO_VALUES, &why);
        db->reserved = false;
        db->writing = status == FED_OK;
        status = status == FED_OK ? fedserver_database_same_layout(db, &why) : status;
        FED_TRY(fedserver_database_note(db, status, &why, err));
    }
    /* S1 in docs/durability.md: what is written now can be rolled back. */
    assert(sqlite3_get_autocommit(db->handle) == 0);
    return FED_OK;
}

fed_status fedserver_database_write(fedserver_database *db, int sql, const fedserver_value *values,
                                    int count, fed_error *err) {
    FED_TRY(fedserver_database_begin(db, err));
    assert(db->writing); /* S1 in docs/durability.md: nothing is written outside a transaction. */
    fed_error why = {0};
    return fedserver_database_note(db, run(db, sql, values, count, &why), &why, err);
}

fed_status fedserver_database_commit(fedserver_database *db, fed_error *err) {
    /* S18 in docs/durability.md: no step of the transaction failed. */
    assert(!fedserver_undone(&db->base.undone));
    if (!db->writing && !has_reserved(db)) {
        return FED_OK;
    }
    fed_status status = run(db, FEDSERVER_SQL_COMMIT, NO_VALUES, err);
    if (status != FED_OK) {
        fedserver_database_rollback(db);
        return status;
    }
    /* S5 in docs/durability.md: the commit has ended the transaction. */
    assert(sqlite3_get_autocommit(db->handle) != 0);
    db->writing = db->reserved = false;
    return FED_OK;
}

void fedserver_database_rollback(fedserver_database *db) {
    db->base.undone = (fed_error){0};
    if (!db->writing && !db->reserved) {
        return;
    }
    db->writing = db->reserved = false;
    /* SQLite may have rolled back by itself. This ROLLBACK then fails, which does no harm. */
    fed_status ignored = run(db, FEDSERVER_SQL_ROLLBACK, NO_VALUES, NULL);
    (void)ignored;
}

void fedserver_database_text(sqlite3_stmt *row, int column, char *dst, size_t cap) {
    const unsigned char *text = sqlite3_column_text(row, column);
    snprintf(dst, cap, "%s", text != NULL ? (const char *)text : "");
}
