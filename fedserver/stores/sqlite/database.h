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
#include "fedserver/stores/sqlite/segment.h"
#include "fedserver/stores/sqlite/tables.h"

typedef enum fedserver_sql {
#define FEDSERVER_SQL(name, text) FEDSERVER_SQL_##name,
#include "fedserver/stores/sqlite/statements.def"
#undef FEDSERVER_SQL
    FEDSERVER_SQL_COUNT
} fedserver_sql;

typedef struct fedserver_database {
    sqlite3 *handle; /* first: the tests access it */
    sqlite3_stmt *statements[FEDSERVER_SQL_COUNT];
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

typedef enum fedserver_value_kind {
    FEDSERVER_VALUE_INT,
    FEDSERVER_VALUE_REAL,
    FEDSERVER_VALUE_TEXT,
    FEDSERVER_VALUE_BLOB
} fedserver_value_kind;

/** A value to bind. NULL text or bytes bind as NULL. */
typedef struct fedserver_value {
    fedserver_value_kind kind;
    int64_t integer;
    double real;
    const void *bytes;
    size_t len;
} fedserver_value;

#define INT(x)                                                                                     \
    { .kind = FEDSERVER_VALUE_INT, .integer = (int64_t)(x) }
#define REAL(x)                                                                                    \
    { .kind = FEDSERVER_VALUE_REAL, .real = (double)(x) }
#define TEXT(x)                                                                                    \
    { .kind = FEDSERVER_VALUE_TEXT, .bytes = (x) }
#define BLOB(x, n)                                                                                 \
    { .kind = FEDSERVER_VALUE_BLOB, .bytes = (x), .len = (n) }
#define VALUES(...)                                                                                \
    (const fedserver_value[]){__VA_ARGS__},                                                        \
        (int)(sizeof((const fedserver_value[]){__VA_ARGS__}) / sizeof(fedserver_value))
#define NO_VALUES NULL, 0

/** A column that is a member of a record: tables.h lists them. */
typedef struct fedserver_column {
    fedserver_value_kind kind;
    size_t offset, size;
} fedserver_column;

/* In an array of columns, with the type of the record in RECORD. */
#define COLUMN(type, name, member)                                                                 \
    {FEDSERVER_VALUE_##type, offsetof(RECORD, member), sizeof((RECORD *)NULL)->member},

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define BIND(columns, record, values)                                                              \
    fedserver_columns_bind((columns), COUNT(columns), (record), (values))
#define READ_INTO(columns, row, first, record)                                                     \
    fedserver_columns_read((columns), COUNT(columns), (row), (first), (record))

/** values[count] = the record's members, in the order of the columns. They point into it. */
void fedserver_columns_bind(const fedserver_column *columns, int count, const void *record,
                            fedserver_value *values);

/** Set the record's members from the row's columns, from `first` on; returns the next column. A
 * blob of another length leaves its member as it is. */
int fedserver_columns_read(const fedserver_column *columns, int count, sqlite3_stmt *row, int first,
                           void *record);

/* In a function of the store, which has a `db` and an `err`. */
#define WRITE(sql, ...) fedserver_database_write(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), err)
#define READ(sql, statement, ...)                                                                  \
    fedserver_database_read(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), statement, err)

/** Start the transaction where none is open: no other handle writes from now on. */
fed_status fedserver_database_begin(fedserver_database *db, fed_error *err) FED_CHECKED;

/** Bind and run a statement that changes something; starts the transaction where none is open. */
fed_status fedserver_database_write(fedserver_database *db, fedserver_sql sql,
                                    const fedserver_value *values, int count,
                                    fed_error *err) FED_CHECKED;

/** Bind a statement that reads. The statement is the database's: end with sqlite3_reset. */
fed_status fedserver_database_read(fedserver_database *db, fedserver_sql sql,
                                   const fedserver_value *values, int count,
                                   sqlite3_stmt **statement, fed_error *err) FED_CHECKED;

/** Step to the next row: *row tells whether there is one; without one, or on failure, the statement
 * is reset. */
fed_status fedserver_database_next(fedserver_database *db, sqlite3_stmt *statement, bool *row,
                                   fed_error *err) FED_CHECKED;

fed_status fedserver_database_commit(fedserver_database *db, fed_error *err) FED_CHECKED;
void fedserver_database_rollback(fedserver_database *db);

/** A column's text, cut where it is too long for cap; "" for SQL's NULL. */
void fedserver_database_text(sqlite3_stmt *row, int column, char *dst, size_t cap);

#endif
