/* A thin layer over SQLite. It runs numbered statements with values bound to them, runs
 * transactions, and turns SQLite's errors into sentences. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_DATABASE_H
#define FEDSERVER_STORES_SQLITE_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/stores/sql/sql_engine.h"
#include "fedserver/stores/sqlite/segment.h"

/** Numbers of the statements that only SQLite has. They follow those of the statements that every
 * engine has (fedserver_sql). */
enum {
    FEDSERVER_SQLITE_BEFORE = FEDSERVER_SQL_COUNT - 1,
#define FEDSERVER_SQL(name, text) FEDSERVER_SQL_##name,
#include "fedserver/stores/sqlite/statements.def"
#undef FEDSERVER_SQL
    FEDSERVER_SQLITE_COUNT
};

typedef struct fedserver_database {
    fedserver_sql_db base; /* must be first: the functions of stores/sql cast the handle to it */
    sqlite3 *handle;
    sqlite3_stmt *statements[FEDSERVER_SQLITE_COUNT];
    bool writing;         /* a transaction is open, and something may be written in it */
    bool reserved;        /* a transaction is open, and nothing is written in it */
    int64_t data_version; /* value of PRAGMA data_version when it was read last */
    fedserver_segment segment;
    bool cleared; /* this transaction deletes updates, so segment files may be no longer needed */
    uint64_t blobless[16]; /* tasks whose rows are deleted: delete their blobs after the commit */
    size_t blobless_count;
    int lock; /* descriptor of server.lock; -1: this handle has no lock */
    char path[1024], directory[1024];
} fedserver_database;

/** Open a database's file. flags: SQLITE_OPEN_..., as of sqlite3_open_v2. SQLITE_OPEN_READONLY is
 * only for a file that no process writes to. */
fed_status fedserver_database_open(const char *path, int flags, fedserver_database **db,
                                   fed_error *err) FED_CHECKED;
void fedserver_database_close(fedserver_database *db);

/** Fail with the last SQLite error of db. code: the result of the SQLite call. */
fed_status fedserver_database_fail(fedserver_database *db, int code, fed_error *err);

/** Run SQL text that returns no rows. */
fed_status fedserver_database_script(fedserver_database *db, const char *sql,
                                     fed_error *err) FED_CHECKED;

/* Short forms for functions with parameters `db` and `err`. */
#define WRITE(sql, ...) fedserver_database_write(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), err)
#define READ(sql, statement, ...)                                                                  \
    fedserver_database_read(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), statement, err)

/** Check that the tables still have the layout of this program. FED_EVERSION: another release has
 * changed the tables. */
fed_status fedserver_database_same_layout(fedserver_database *db, fed_error *err) FED_CHECKED;

/** Start a transaction where none is open. Until its end no other handle can write. FED_EVERSION:
 * another release has changed the tables. */
fed_status fedserver_database_begin(fedserver_database *db, fed_error *err) FED_CHECKED;

/** The store's function reserve. */
fed_status fedserver_database_reserve(fedserver_database *db, unsigned wait_ms,
                                      fed_error *err) FED_CHECKED;

/** Bind and run a statement that changes something. It starts a transaction where none is open. */
fed_status fedserver_database_write(fedserver_database *db, int sql, const fedserver_value *values,
                                    int count, fed_error *err) FED_CHECKED;

/** Bind a statement that reads. *statement belongs to the handle. After the last row that you
 * need, call sqlite3_reset. */
fed_status fedserver_database_read(fedserver_database *db, int sql, const fedserver_value *values,
                                   int count, sqlite3_stmt **statement, fed_error *err) FED_CHECKED;

/** Step to the next row. *row: there is one. If not, and on failure, the statement is reset. */
fed_status fedserver_database_next(fedserver_database *db, sqlite3_stmt *statement, bool *row,
                                   fed_error *err) FED_CHECKED;

/** Note how a step of the transaction ended: `status`, with its sentence in *why. A failure is
 * remembered, and undoes the transaction (S18 in docs/durability.md). Returns status. */
fed_status fedserver_database_note(fedserver_database *db, fed_status status, const fed_error *why,
                                   fed_error *err) FED_CHECKED;

fed_status fedserver_database_commit(fedserver_database *db, fed_error *err) FED_CHECKED;
void fedserver_database_rollback(fedserver_database *db);

/** Copy a column's text to dst[cap], cut where it is too long. SQL's NULL becomes "". */
void fedserver_database_text(sqlite3_stmt *row, int column, char *dst, size_t cap);

/** The store's function `shrink`. */
fed_status fedserver_sqlite_shrink(void *db, bool *left, fed_error *err) FED_CHECKED;

/** SQLite as the engine of the functions in stores/sql. A row's `cursor` is a sqlite3_stmt. */
extern const fedserver_engine fedserver_sqlite_engine;

#endif
