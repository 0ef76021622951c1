/* What the row functions need of a database that speaks SQL. SQLite and PostgreSQL provide it, so
 * the functions over tokens, devices, tasks, rounds and so on are written once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQL_SQL_ENGINE_H
#define FEDSERVER_STORES_SQL_SQL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/stores/sql/sql_tables.h"

/** The statements that every engine has. An engine numbers its own after FEDSERVER_SQL_COUNT. */
typedef enum fedserver_sql {
#define FEDSERVER_SQL(name, text) FEDSERVER_SQL_##name,
#include "fedserver/stores/sql/sql_statements.def"
#undef FEDSERVER_SQL
    FEDSERVER_SQL_COUNT
} fedserver_sql;

/* -- values and columns -- */

typedef enum fedserver_value_kind {
    FEDSERVER_VALUE_INT,
    FEDSERVER_VALUE_REAL,
    FEDSERVER_VALUE_TEXT,
    FEDSERVER_VALUE_BLOB
} fedserver_value_kind;

/** A value to bind. NULL text or bytes bind as SQL's NULL. */
typedef struct fedserver_value {
    fedserver_value_kind kind;
    bool null; /* an integer that is SQL's NULL */
    int64_t integer;
    double real;
    const void *bytes;
    size_t len;
} fedserver_value;

#define INT(x)                                                                                     \
    { .kind = FEDSERVER_VALUE_INT, .integer = (int64_t)(x) }
#define NO_INT                                                                                     \
    { .kind = FEDSERVER_VALUE_INT, .null = true }
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

/** A column that is a member of a record: sql_tables.h lists them. */
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

/* -- the engine -- */

typedef struct fedserver_engine fedserver_engine;

/** Where a statement that reads stands. */
typedef struct fedserver_sql_row {
    const fedserver_engine *engine;
    void *db;
    void *cursor; /* the engine's */
    int at;       /* the engine's */
} fedserver_sql_row;

/** What a write has done. */
typedef struct fedserver_written {
    int64_t rows; /* that it has changed */
    int64_t id;   /* the first column of what it returns: an INSERT .. RETURNING id */
} fedserver_written;

struct fedserver_engine {
    /** Run a statement that changes something; starts the transaction where none is open. With
     * `written` NULL the engine may run it later, and report its failure by a later call: by a read
     * or a write of this handle, by the commit at the latest. */
    fed_status (*write)(void *db, int sql, const fedserver_value *values, int count,
                        fedserver_written *written, fed_error *err);
    /** Begin a statement that reads: *row stands before the first row. It sees the writes of this
     * handle. Ends by itself after the last row; `end` ends it before. */
    fed_status (*read)(void *db, int sql, const fedserver_value *values, int count,
                       fedserver_sql_row *row, fed_error *err);
    /** Go to the next row: *found tells whether there is one. Without one, or on failure, the row
     * has ended. */
    fed_status (*next)(fedserver_sql_row *row, bool *found, fed_error *err);
    void (*end)(fedserver_sql_row *row);
    /* The values of a row, valid until `next` or `end`. SQL's NULL is 0, or NULL with length 0.
     * Text ends with a 0, which *len does not count. */
    int64_t (*integer)(const fedserver_sql_row *row, int column);
    double (*real)(const fedserver_sql_row *row, int column);
    const void *(*bytes)(const fedserver_sql_row *row, int column, size_t *len);
    int (*columns)(const fedserver_sql_row *row);
    /** Delete, of a cancelled task, what the engine keeps in its own way: the updates, and what
     * rows name. Its rows of models, deltas and keyframes are about to be deleted. */
    fed_status (*clear_bytes)(void *db, uint64_t task, fed_error *err);
    /** The store's blob_find; and only the length. */
    fed_status (*blob_find)(void *db, uint64_t task, uint64_t digest, void **bytes, size_t *len,
                            fed_error *err);
    fed_status (*blob_length)(void *db, uint64_t task, uint64_t digest, size_t *len,
                              fed_error *err);
    const char *advice; /* what to do where the database is damaged. It ends a sentence */
};

/** An engine's handle begins with it. */
typedef struct fedserver_sql_db {
    const fedserver_engine *engine;
    fed_error undone; /* why nothing of the transaction can be kept: stores/undone.h */
} fedserver_sql_db;

fed_status fedserver_sql_write(void *db, int sql, const fedserver_value *values, int count,
                               fedserver_written *written, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_read(void *db, int sql, const fedserver_value *values, int count,
                              fedserver_sql_row *row, fed_error *err) FED_CHECKED;
/** fedserver_sql_read, and go to the first row. */
fed_status fedserver_sql_first(void *db, int sql, const fedserver_value *values, int count,
                               fedserver_sql_row *row, bool *found, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_row_next(fedserver_sql_row *row, bool *found, fed_error *err) FED_CHECKED;
/** fedserver_sql_row_next after a visit, whose failure ends the row and is returned. */
fed_status fedserver_sql_row_after(fedserver_sql_row *row, fed_status visited, bool *found,
                                   fed_error *err) FED_CHECKED;
void fedserver_sql_row_end(fedserver_sql_row *row);
int64_t fedserver_sql_row_int(const fedserver_sql_row *row, int column);
double fedserver_sql_row_real(const fedserver_sql_row *row, int column);
const void *fedserver_sql_row_bytes(const fedserver_sql_row *row, int column, size_t *len);

/** A column's text, cut where it is too long for cap; "" for SQL's NULL. */
void fedserver_sql_row_text(const fedserver_sql_row *row, int column, char *dst, size_t cap);

/** Read a statement that returns one row of one integer. */
fed_status fedserver_sql_count(void *db, int sql, const fedserver_value *values, int count,
                               int64_t *result, fed_error *err) FED_CHECKED;

/** Set the record's members from the row's columns, from `first` on; returns the next column. A
 * blob of another length leaves its member as it is. */
int fedserver_columns_read(const fedserver_column *columns, int count, const fedserver_sql_row *row,
                           int first, void *record);

#endif
