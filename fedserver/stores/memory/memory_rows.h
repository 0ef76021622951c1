/* Tables of rows in memory: ordered by key, with transactions, for several handles of one process.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_MEMORY_ROWS_H
#define FEDSERVER_STORES_MEMORY_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

typedef enum memory_table {
    MEMORY_TOKENS,    /* hash */
    MEMORY_PASSES,    /* hash */
    MEMORY_DEVICES,   /* id */
    MEMORY_TASKS,     /* id */
    MEMORY_DECLINES,  /* task, device */
    MEMORY_MODELS,    /* task */
    MEMORY_DELTAS,    /* task, version */
    MEMORY_KEYFRAMES, /* task, version */
    MEMORY_ROUNDS,    /* task, number */
    MEMORY_UPDATES,   /* arrival */
    MEMORY_PIECES,    /* device, offset */
    MEMORY_AUDIT,     /* arrival */
    MEMORY_METRICS,   /* task, version, device */
    MEMORY_OWN,       /* task, version, device */
    MEMORY_TABLES
} memory_table;

/** Rows are ordered by the first part, then by the second, and so on. */
typedef struct memory_key {
    uint64_t part[4];
} memory_key;

#define MEMORY_KEY(...) ((memory_key){{__VA_ARGS__}})

/** A row does not change once it is written: a write replaces it by another one. */
typedef struct memory_row {
    memory_key key;
    size_t holders; /* tables that have it */
    size_t len;
    uint8_t bytes[]; /* aligned as malloc's */
} memory_row;

/** A table as of one moment. Handles and walks share it until one of them writes. */
typedef struct memory_rows {
    size_t holders;
    size_t count, cap;
    memory_row **rows;
} memory_rows;

/** What all handles on one store share. It exists as long as the process. */
typedef struct memory_shared memory_shared;

/** A handle. Its transaction's tables are its own; without one it reads the committed ones. */
typedef struct memory_db {
    memory_shared *shared;
    bool writing;
    fed_error undone; /* why nothing of this transaction can be kept (S18) */
    memory_rows *own[MEMORY_TABLES];
    uint64_t seen; /* the commit that `changed` last reported */
} memory_db;

/** The store made under that name, or NULL. */
memory_shared *fedserver_memory_shared_find(const char *name);
/** Make an empty store; it hides an older one of that name. */
fed_status fedserver_memory_shared_make(const char *name, memory_shared **shared,
                                        fed_error *err) FED_CHECKED;
/** Replace the store's rows by those that the other store has committed. */
void fedserver_memory_shared_copy(memory_shared *to, const memory_shared *from);

fed_status fedserver_memory_db_open(memory_shared *shared, memory_db **db,
                                    fed_error *err) FED_CHECKED;
void fedserver_memory_db_close(memory_db *db);
fed_status fedserver_memory_db_lock(memory_db *db, fed_error *err) FED_CHECKED;
bool fedserver_memory_db_locked(const memory_db *db);
fed_status fedserver_memory_db_commit(memory_db *db, fed_error *err) FED_CHECKED;
void fedserver_memory_db_rollback(memory_db *db);
/** A write ended so: a failure is remembered (S18). */
fed_status fedserver_memory_note(memory_db *db, fed_status status, const fed_error *why,
                                 fed_error *err) FED_CHECKED;
/** Has another handle committed since the last call? */
bool fedserver_memory_db_changed(memory_db *db);

/** The row of that key; NULL: there is none. It stays until the handle's next write. */
const memory_row *fedserver_memory_find(const memory_db *db, memory_table table, memory_key key);
/** The last row at or before that key; NULL: there is none. */
const memory_row *fedserver_memory_find_last(const memory_db *db, memory_table table,
                                             memory_key key);
/** One more than the first part of the last row's key. */
uint64_t fedserver_memory_next(const memory_db *db, memory_table table);

/** Put a row: head, then body, which may be NULL. `add`: FED_EIO where the key is taken. */
fed_status fedserver_memory_put(memory_db *db, memory_table table, memory_key key, bool add,
                                const void *head, size_t head_len, const void *body,
                                size_t body_len, fed_error *err) FED_CHECKED;
/** Replace the row of that key by a new row with the same content. *bytes: the new row's, to be
 * changed at once. FED_ENOTFOUND: there is no row. */
fed_status fedserver_memory_edit(memory_db *db, memory_table table, memory_key key, void **bytes,
                                 fed_error *err) FED_CHECKED;
/** Delete the rows from one key to the other, both included. */
fed_status fedserver_memory_drop(memory_db *db, memory_table table, memory_key low, memory_key high,
                                 fed_error *err) FED_CHECKED;

/** Walk over the rows from one key to another as they are now; later writes do not show. */
typedef struct memory_walk {
    memory_rows *rows;
    size_t next, end;
} memory_walk;

memory_walk fedserver_memory_walk_begin(const memory_db *db, memory_table table, memory_key low,
                                        memory_key high);
/** The next row; NULL: the walk has ended. */
const memory_row *fedserver_memory_walk_next(memory_walk *walk);
void fedserver_memory_walk_end(memory_walk *walk);

/** Every row of the table; the rows whose first part is that number. */
#define MEMORY_ALL        MEMORY_KEY(0), MEMORY_KEY(UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX)
#define MEMORY_OF(number) MEMORY_KEY(number), MEMORY_KEY(number, UINT64_MAX, UINT64_MAX, UINT64_MAX)

#endif
