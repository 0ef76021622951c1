/* A thin layer over SQLite: named statements, values to bind, transactions, errors with a sentence.
 */
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

/** The statements of SQLite alone. Their numbers follow those of every engine (fedserver_sql). */
enum {
    FEDSERVER_SQLITE_BEFORE = FEDSERVER_SQL_COUNT - 1,
#define FEDSERVER_SQL(name, text) FEDSERVER_SQL_##name,
#include "fedserver/stores/sqlite/statements.def"
#undef FEDSERVER_SQL
    FEDSERVER_SQLITE_COUNT
};

typedef struct fedserver_database {
    fedserver_sql_db base; /* first: the row functions use it */
    sqlite3 *handle;
    sqlite3_stmt *statements[FEDSERVER_SQLITE_COUNT];
    bool writing;         /* inside a transaction */
    int64_t data_version; /* commits of other processes that were seen at the last look */
    /* segment file of the open round's updates, or of the round last read */
    fedserver_segment segment;
    bool cleared; /* this transaction ends a round: its segment file ends with it */
    /* tasks whose rows this transaction deletes: their blobs go after it */
    uint64_t blobless[16];
    size_t blobless_count;
    int lock; /* descriptor of server.lock; -1: this handle has no lock */
    char path[1024], directory[1024];
} fedserver_database;

/** flags: SQLITE_OPEN_..., as of sqlite3_open_v2; READONLY: of a file that nobody writes to. */
fed_status fedserver_database_open(const char *path, int flags, fedserver_database **db,
                                   fed_error *err) FED_CHECKED;
void fedserver_database_close(fedserver_database *db);

/** The last SQLite error of db as a status and a sentence. */
fed_status fedserver_database_fail(fedserver_database *db, int code, fed_error *err);

/** Run SQL text that returns nothing. */
fed_status fedserver_database_script(fedserver_database *db, const char *sql,
                                     fed_error *err) FED_CHECKED;

/* In a function of the store, which has a `db` and an `err`. */
#define WRITE(sql, ...) fedserver_database_write(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), err)
#define READ(sql, statement, ...)                                                                  \
    fedserver_database_read(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), statement, err)

/** Start the transaction where none is open: no other handle writes from now on. */
fed_status fedserver_database_begin(fedserver_database *db, fed_error *err) FED_CHECKED;

/** Bind and run a statement that changes something; starts the transaction where none is open. */
fed_status fedserver_database_write(fedserver_database *db, int sql, const fedserver_value *values,
                                    int count, fed_error *err) FED_CHECKED;

/** Bind a statement that reads. The statement is the database's: end with sqlite3_reset. */
fed_status fedserver_database_read(fedserver_database *db, int sql, const fedserver_value *values,
                                   int count, sqlite3_stmt **statement, fed_error *err) FED_CHECKED;

/** Step to the next row: *row tells whether there is one; without one, or on failure, the statement
 * is reset. */
fed_status fedserver_database_next(fedserver_database *db, sqlite3_stmt *statement, bool *row,
                                   fed_error *err) FED_CHECKED;

/** A step of the open transaction, or a write, ended so: a failure is remembered (S18). */
fed_status fedserver_database_note(fedserver_database *db, fed_status status, const fed_error *why,
                                   fed_error *err) FED_CHECKED;

fed_status fedserver_database_commit(fedserver_database *db, fed_error *err) FED_CHECKED;
void fedserver_database_rollback(fedserver_database *db);

/** A column's text, cut where it is too long for cap; "" for SQL's NULL. */
void fedserver_database_text(sqlite3_stmt *row, int column, char *dst, size_t cap);

/** The store's shrink: sqlite_engine.c. */
fed_status fedserver_sqlite_shrink(void *db, bool *left, fed_error *err) FED_CHECKED;

/** SQLite for the row functions; cursor: a sqlite3_stmt. */
extern const fedserver_engine fedserver_sqlite_engine;

#endif
