/* A table is an array of rows, ordered by key. Handles and walks share tables, tables share rows; a
 * write copies what is shared. So a rollback only frees, and a walk never sees a write. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/memory/memory_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fedserver/stores/undone.h"

struct memory_shared {
    memory_shared *next;
    memory_rows *tables[MEMORY_TABLES]; /* as committed; NULL: no rows */
    uint64_t commits;
    const memory_db *writer, *locker; /* NULL: no handle */
    char name[];
};

static memory_shared *all_shared; /* all stores of this process */

static fed_status fail_memory(fed_error *err) {
    return fed_fail(err, FED_ENOMEM, "out of memory for the coordinator's rows");
}

/* -- tables -- */

static memory_rows *hold(memory_rows *rows) {
    if (rows != NULL) {
        rows->holders++;
    }
    return rows;
}

static void row_release(memory_row *row) {
    if (--row->holders == 0) {
        free(row);
    }
}

static void release(memory_rows *rows) {
    if (rows == NULL || --rows->holders > 0) {
        return;
    }
    for (size_t k = 0; k < rows->count; k++) {
        row_release(rows->rows[k]);
    }
    free(rows->rows);
    free(rows);
}

static int compare(memory_key a, memory_key b) {
    for (size_t k = 0; k < sizeof a.part / sizeof a.part[0]; k++) {
        if (a.part[k] != b.part[k]) {
            return a.part[k] < b.part[k] ? -1 : 1;
        }
    }
    return 0;
}

/* The index of the first row that is not before the key. */
static size_t position(const memory_rows *rows, memory_key key) {
    size_t low = 0;
    size_t high = rows != NULL ? rows->count : 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(rows->rows[middle]->key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has(const memory_rows *rows, size_t at, memory_key key) {
    return rows != NULL && at < rows->count && compare(rows->rows[at]->key, key) == 0;
}

static memory_rows *rows_copy(const memory_rows *from, size_t cap) {
    const size_t count = from != NULL ? from->count : 0;
    memory_rows *made = calloc(1, sizeof *made);
    memory_row **rows = malloc(cap * sizeof(void *));
    if (made == NULL || rows == NULL) {
        free(made);
        free(rows);
        return NULL;
    }
    *made = (memory_rows){.holders = 1, .count = count, .cap = cap, .rows = rows};
    for (size_t k = 0; k < count; k++) {
        rows[k] = from->rows[k];
        rows[k]->holders++;
    }
    return made;
}

static memory_rows *read_table(const memory_db *db, memory_table table) {
    return db->writing ? db->own[table] : db->shared->tables[table];
}

/* -- what handles share -- */

memory_shared *fedserver_memory_shared_find(const char *name) {
    memory_shared *shared = all_shared;
    while (shared != NULL && strcmp(shared->name, name) != 0) {
        shared = shared->next;
    }
    return shared;
}

fed_status fedserver_memory_shared_make(const char *name, memory_shared **shared, fed_error *err) {
    const size_t size = strlen(name) + 1;
    memory_shared *made = calloc(1, sizeof *made + size);
    if (made == NULL) {
        return fail_memory(err);
    }
    memcpy(made->name, name, size);
    made->commits = 1;
    made->next = all_shared;
    *shared = all_shared = made;
    return FED_OK;
}

void fedserver_memory_shared_copy(memory_shared *to, const memory_shared *from) {
    for (size_t k = 0; k < MEMORY_TABLES; k++) {
        release(to->tables[k]);
        to->tables[k] = hold(from->tables[k]);
    }
}

/* -- handles and transactions -- */

fed_status fedserver_memory_db_open(memory_shared *shared, memory_db **db, fed_error *err) {
    memory_db *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fail_memory(err);
    }
    made->shared = shared;
    *db = made;
    return FED_OK;
}

void fedserver_memory_db_close(memory_db *db) {
    fedserver_memory_db_rollback(db);
    if (db->shared->locker == db) {
        db->shared->locker = NULL;
    }
    free(db);
}

fed_status fedserver_memory_db_lock(memory_db *db, fed_error *err) {
    memory_shared *shared = db->shared;
    if (shared->locker != NULL && shared->locker != db) {
        return fed_fail(err, FED_EBUSY,
                        "%s is being served by process %ld already; stop that one first",
                        shared->name, (long)getpid());
    }
    shared->locker = db;
    return FED_OK;
}

bool fedserver_memory_db_locked(const memory_db *db) {
    return db->shared->locker != NULL;
}

fed_status fedserver_memory_note(memory_db *db, fed_status status, const fed_error *why,
                                 fed_error *err) {
    return fedserver_undone_note(&db->undone, status, why, err);
}

fed_status fedserver_memory_db_commit(memory_db *db, fed_error *err) {
    memory_shared *shared = db->shared;
    const fed_status undone = fedserver_undone_tell(&db->undone, err);
    if (undone != FED_OK) { /* S18 */
        fedserver_memory_db_rollback(db);
        return undone;
    }
    if (!db->writing) {
        return FED_OK;
    }
    assert(shared->writer == db); /* S5: one transaction at a time */
    for (size_t k = 0; k < MEMORY_TABLES; k++) {
        release(shared->tables[k]);
        shared->tables[k] = db->own[k];
        db->own[k] = NULL;
    }
    db->seen +=
        db->seen == shared->commits; /* so that `changed` does not report a handle's own writes */
    shared->commits++;
    shared->writer = NULL;
    db->writing = false;
    return FED_OK;
}

void fedserver_memory_db_rollback(memory_db *db) {
    db->undone = (fed_error){0};
    if (!db->writing) {
        return;
    }
    for (size_t k = 0; k < MEMORY_TABLES; k++) {
        release(db->own[k]);
        db->own[k] = NULL;
    }
    db->shared->writer = NULL;
    db->writing = false;
}

bool fedserver_memory_db_changed(memory_db *db) {
    const bool changed = db->seen != db->shared->commits;
    db->seen = db->shared->commits;
    return changed;
}

/* Start a transaction where none is open, and make the handle's own copy of the table, with room
 * for a row. */
static fed_status write_table(memory_db *db, memory_table table, fed_error *err) {
    FED_TRY(fedserver_undone_tell(&db->undone, err));
    if (!db->writing) {
        if (db->shared->writer != NULL) {
            return fed_fail(err, FED_EBUSY, "another part of this process is writing to %s",
                            db->shared->name);
        }
        for (size_t k = 0; k < MEMORY_TABLES; k++) {
            db->own[k] = hold(db->shared->tables[k]);
        }
        db->shared->writer = db;
        db->writing = true;
    }
    memory_rows *rows = db->own[table];
    if (rows != NULL && rows->holders == 1 && rows->count < rows->cap) {
        return FED_OK;
    }
    memory_rows *copy = rows_copy(rows, rows != NULL ? rows->count + rows->count / 2 + 8 : 8);
    if (copy == NULL) {
        return fail_memory(err);
    }
    release(rows);
    db->own[table] = copy;
    return FED_OK;
}

/* -- rows -- */

const memory_row *fedserver_memory_find(const memory_db *db, memory_table table, memory_key key) {
    const memory_rows *rows = read_table(db, table);
    const size_t at = position(rows, key);
    return has(rows, at, key) ? rows->rows[at] : NULL;
}

const memory_row *fedserver_memory_find_last(const memory_db *db, memory_table table,
                                             memory_key key) {
    const memory_rows *rows = read_table(db, table);
    size_t at = position(rows, key);
    at += has(rows, at, key);
    return at > 0 ? rows->rows[at - 1] : NULL;
}

uint64_t fedserver_memory_next(const memory_db *db, memory_table table) {
    const memory_rows *rows = read_table(db, table);
    return rows != NULL && rows->count > 0 ? rows->rows[rows->count - 1]->key.part[0] + 1 : 1;
}

static fed_status put_row(memory_db *db, memory_table table, memory_key key, bool add,
                          const void *head, size_t head_len, const void *body, size_t body_len,
                          fed_error *err) {
    FED_TRY(write_table(db, table, err));
    memory_rows *rows = db->own[table];
    const size_t at = position(rows, key);
    const bool taken = has(rows, at, key);
    if (taken && add) {
        return fed_fail(err, FED_EIO, "a row with that key is there already");
    }
    memory_row *row = malloc(sizeof *row + head_len + body_len);
    if (row == NULL) {
        return fail_memory(err);
    }
    *row = (memory_row){.key = key, .holders = 1, .len = head_len + body_len};
    memcpy(row->bytes, head, head_len);
    if (body_len > 0) {
        memcpy(row->bytes + head_len, body, body_len);
    }
    if (taken) {
        row_release(rows->rows[at]);
    } else {
        memmove(&rows->rows[at + 1], &rows->rows[at], (rows->count - at) * sizeof(void *));
        rows->count++;
    }
    rows->rows[at] = row;
    assert(at == 0 || compare(rows->rows[at - 1]->key, key) < 0);
    assert(at + 1 == rows->count || compare(rows->rows[at + 1]->key, key) > 0);
    return FED_OK;
}

fed_status fedserver_memory_put(memory_db *db, memory_table table, memory_key key, bool add,
                                const void *head, size_t head_len, const void *body,
                                size_t body_len, fed_error *err) {
    fed_error why = {0};
    const fed_status status = put_row(db, table, key, add, head, head_len, body, body_len, &why);
    return fedserver_memory_note(db, status, &why, err);
}

fed_status fedserver_memory_edit(memory_db *db, memory_table table, memory_key key, void **bytes,
                                 fed_error *err) {
    const memory_row *row = fedserver_memory_find(db, table, key);
    FED_TRY(fedserver_undone_tell(&db->undone, err));
    if (row == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "there is no such row");
    }
    FED_TRY(fedserver_memory_put(db, table, key, false, row->bytes, row->len, NULL, 0, err));
    memory_rows *rows = db->own[table];
    *bytes = rows->rows[position(rows, key)]->bytes;
    return FED_OK;
}

fed_status fedserver_memory_drop(memory_db *db, memory_table table, memory_key low, memory_key high,
                                 fed_error *err) {
    fed_error why = {0};
    FED_TRY(fedserver_memory_note(db, write_table(db, table, &why), &why, err));
    memory_rows *rows = db->own[table];
    const size_t from = position(rows, low);
    size_t to = position(rows, high);
    to += has(rows, to, high);
    for (size_t k = from; k < to; k++) {
        row_release(rows->rows[k]);
    }
    memmove(&rows->rows[from], &rows->rows[to], (rows->count - to) * sizeof(void *));
    rows->count -= to - from;
    return FED_OK;
}

/* -- walks -- */

memory_walk fedserver_memory_walk_begin(const memory_db *db, memory_table table, memory_key low,
                                        memory_key high) {
    memory_rows *rows = hold(read_table(db, table));
    const size_t end = position(rows, high);
    return (memory_walk){rows, position(rows, low), end + has(rows, end, high)};
}

const memory_row *fedserver_memory_walk_next(memory_walk *walk) {
    return walk->next < walk->end ? walk->rows->rows[walk->next++] : NULL;
}

void fedserver_memory_walk_end(memory_walk *walk) {
    release(walk->rows);
    walk->rows = NULL;
}
