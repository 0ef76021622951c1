/* The interface to an SQL database, which SQLite and PostgreSQL implement. The functions over
 * tokens, devices, tasks, rounds and so on are written once against it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQL_SQL_ENGINE_H
#define FEDSERVER_STORES_SQL_SQL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/stores/sql/sql_tables.h"

/** Numbers of the statements that every engine has. An engine numbers its own statements from
 * FEDSERVER_SQL_COUNT on. */
typedef enum fedserver_sql {
#define FEDSERVER_SQL(name, text) FEDSERVER_SQL_##name,
#include "fedserver/stores/sql/sql_statements.def"
#undef FEDSERVER_SQL
    FEDSERVER_SQL_COUNT
} fedserver_sql;

typedef enum fedserver_value_kind {
    FEDSERVER_VALUE_INT,
    FEDSERVER_VALUE_REAL,
    FEDSERVER_VALUE_TEXT,
    FEDSERVER_VALUE_BLOB
} fedserver_value_kind;

/** A value to bind. NULL text or bytes bind as SQL's NULL. */
typedef struct fedserver_value {
    fedserver_value_kind kind;
    bool null;
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

/** A column whose value is a member of a C record. sql_tables.h lists these columns. */
typedef struct fedserver_column {
    fedserver_value_kind kind;
    size_t offset, size;
} fedserver_column;

/* One element of an array of fedserver_column. The macro RECORD names the type of the C record. */
#define COLUMN(type, name, member)                                                                 \
    {FEDSERVER_VALUE_##type, offsetof(RECORD, member), sizeof((RECORD *)NULL)->member},

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define BIND(columns, record, values)                                                              \
    fedserver_columns_bind((columns), COUNT(columns), (record), (values))
#define READ_INTO(columns, row, first, record)                                                     \
    fedserver_columns_read((columns), COUNT(columns), (row), (first), (record))

/** Set values[count] to the record's members, in the order of the columns. Values of text and
 * bytes point into the record. */
void fedserver_columns_bind(const fedserver_column *columns, int count, const void *record,
                            fedserver_value *values);

typedef struct fedserver_engine fedserver_engine;

/** The present row of a statement that reads. */
typedef struct fedserver_sql_row {
    const fedserver_engine *engine;
    void *db;
    void *cursor; /* for the engine's own use */
    int at;       /* for the engine's own use */
} fedserver_sql_row;

typedef struct fedserver_written {
    int64_t rows;
    int64_t id; /* the id of a new row; PostgreSQL: the first column that the statement returns */
} fedserver_written;

struct fedserver_engine {
    /** Run a statement that changes something. It starts a transaction where none is open. With
     * `written` NULL the engine may run it later. Then a later read or write of this handle, or the
     * commit, reports its failure. */
    fed_status (*write)(void *db, int sql, const fedserver_value *values, int count,
                        fedserver_written *written, fed_error *err);
    /** Begin a statement that reads. *row is then before the first row. The statement sees the
     * writes of this handle. The statement ends after the last row, or where `end` is called. */
    fed_status (*read)(void *db, int sql, const fedserver_value *values, int count,
                       fedserver_sql_row *row, fed_error *err);
    /** Go to the next row. *found: there is one. Without a next row, and on failure, the statement
     * has ended. */
    fed_status (*next)(fedserver_sql_row *row, bool *found, fed_error *err);
    void (*end)(fedserver_sql_row *row);
    /* The values of a row, valid until `next` or `end`. For SQL's NULL a number is 0, and bytes
     * are NULL with length 0. Text ends with a zero byte, which *len does not count. */
    int64_t (*integer)(const fedserver_sql_row *row, int column);
    double (*real)(const fedserver_sql_row *row, int column);
    const void *(*bytes)(const fedserver_sql_row *row, int column, size_t *len);
    int (*columns)(const fedserver_sql_row *row);
    /** Delete a cancelled task's updates and blobs, which each engine stores in its own way. The
     * caller then deletes the task's rows of models, deltas and keyframes. */
    fed_status (*clear_bytes)(void *db, uint64_t task, fed_error *err);
    /** blob_find of store.h, and a variant that reads only the blob's length. */
    fed_status (*blob_find)(void *db, uint64_t task, uint64_t digest, void **bytes, size_t *len,
                            fed_error *err);
    fed_status (*blob_length)(void *db, uint64_t task, uint64_t digest, size_t *len,
                              fed_error *err);
    const char *advice; /* end of an error's sentence: what to do where the database is damaged */
};

/** The first member of each engine's handle. */
typedef struct fedserver_sql_db {
    const fedserver_engine *engine;
    fed_error undone;
} fedserver_sql_db;

fed_status fedserver_sql_write(void *db, int sql, const fedserver_value *values, int count,
                               fedserver_written *written, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_read(void *db, int sql, const fedserver_value *values, int count,
                              fedserver_sql_row *row, fed_error *err) FED_CHECKED;
/** Call fedserver_sql_read, and go to the first row. */
fed_status fedserver_sql_first(void *db, int sql, const fedserver_value *values, int count,
                               fedserver_sql_row *row, bool *found, fed_error *err) FED_CHECKED;
fed_status fedserver_sql_row_next(fedserver_sql_row *row, bool *found, fed_error *err) FED_CHECKED;
/** Go to the next row after a visit function returned `visited`. Where `visited` is a failure, end
 * the statement and return the failure. */
fed_status fedserver_sql_row_after(fedserver_sql_row *row, fed_status visited, bool *found,
                                   fed_error *err) FED_CHECKED;
void fedserver_sql_row_end(fedserver_sql_row *row);
int64_t fedserver_sql_row_int(const fedserver_sql_row *row, int column);
/** NaN stands for SQL's NULL. */
double fedserver_sql_row_real(const fedserver_sql_row *row, int column);
const void *fedserver_sql_row_bytes(const fedserver_sql_row *row, int column, size_t *len);

/** Copy a column's text to dst[cap], cut where it is too long. SQL's NULL becomes "". */
void fedserver_sql_row_text(const fedserver_sql_row *row, int column, char *dst, size_t cap);

/** Read one integer from the first row of a statement. *result is 0 where there is no row. */
fed_status fedserver_sql_count(void *db, int sql, const fedserver_value *values, int count,
                               int64_t *result, fed_error *err) FED_CHECKED;

/** Set the record's members from the row's columns, beginning with column `first`. Returns the
 * number of the next column. A member of bytes stays unchanged where the column has another
 * length. */
int fedserver_columns_read(const fedserver_column *columns, int count, const fedserver_sql_row *row,
                           int first, void *record);

#endif
