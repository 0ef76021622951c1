/* The updates of open rounds in SQLite: small bodies in rows, large ones in segment files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/updates.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed/hash.h"
#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/undone.h"

#define RECORD fedserver_update_row
static const fedserver_column update_columns[] = {UPDATE_COLUMNS(COLUMN, )};
#undef RECORD

fed_status fedserver_sqlite_segment_end(fedserver_database *db, uint64_t task, uint32_t round,
                                        uint64_t *end, fed_error *err) {
    int64_t last;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_UPDATE_END, VALUES(INT(task), INT(round)), &last,
                                err));
    *end = (uint64_t)last;
    return FED_OK;
}

fed_status fedserver_sqlite_segment(fedserver_database *db, uint64_t task, uint32_t round,
                                    bool make, fed_error *err) {
    const fedserver_segment *open = &db->segment;
    if (open->fd >= 0 && open->task == task && open->round == round) {
        return FED_OK;
    }
    uint64_t end;
    /* Sync the open file before another one is opened: the commit syncs one file only (S9 in
     * docs/durability.md). */
    FED_TRY(fedserver_segment_sync(&db->segment, err));
    assert(db->segment.fd < 0 || !db->segment.appended);
    FED_TRY(fedserver_sqlite_segment_end(db, task, round, &end, err));
    return fedserver_segment_open(&db->segment, db->directory, task, round, end, make, err);
}

static fed_status tidy_segment(void *user, const char *path, uint64_t task, uint32_t round,
                               uint64_t size, fed_error *err) {
    uint64_t end;
    FED_TRY(fedserver_sqlite_segment_end(user, task, round, &end, err));
    if (end == 0 ? unlink(path) != 0 : size > end && truncate(path, (off_t)end) != 0) {
        return fed_file_fail(err, "clean up", path);
    }
    return FED_OK;
}

static fed_status tidy_segments(fedserver_database *db, fed_error *err) {
    /* S9 in docs/durability.md: only committed rows say which bytes may be deleted. */
    assert(!db->writing);
    fedserver_segment_close(&db->segment);
    return fedserver_segment_each(db->directory, tidy_segment, db, err);
}

fed_status fedserver_sqlite_recover(void *user, fed_error *err) {
    FED_TRY(tidy_segments(user, err));
    return fedserver_sqlite_blobs_recover(user, err);
}

fed_status fedserver_sqlite_commit(void *user, fed_error *err) {
    fedserver_database *db = user;
    /* a transaction with a failed step fails (S18 in docs/durability.md) */
    fed_status status = fedserver_undone_report(&db->base.undone, err);
    status = status == FED_OK ? fedserver_segment_sync(&db->segment, err) : status;
    if (status == FED_OK) {
        /* S9 in docs/durability.md: bodies are on the disk before their rows. */
        assert(db->segment.fd < 0 || !db->segment.appended);
        status = fedserver_database_commit(db, err);
    }
    if (status != FED_OK) {
        fedserver_sqlite_rollback(db);
        return status;
    }
    /* If one of these two fails, the next start of the coordinator does the rest. */
    const fed_status tidied = db->cleared ? tidy_segments(db, NULL) : FED_OK;
    const fed_status swept = fedserver_sqlite_blobs_cleared(db, NULL);
    (void)tidied, (void)swept;
    db->cleared = false;
    return FED_OK;
}

void fedserver_sqlite_rollback(void *user) {
    fedserver_database *db = user;
    /* when the file is opened again, the committed rows say where it ends */
    fedserver_segment_close(&db->segment);
    db->cleared = false;
    db->blobless_count = 0;
    fedserver_database_rollback(db);
}

enum { ROW_LIMIT = 65536 }; /* bytes of the largest body that lies in its row */

/* A large body goes to the segment file: SQLite would write it twice, to journal and database. */
static fed_status add_update(fedserver_database *db, const fedserver_update_row *row,
                             const uint8_t *body, size_t len, fed_error *err) {
    bool large = len > ROW_LIMIT;
    uint64_t start = 0;
    /* S3 in docs/durability.md: an update belongs to a lease. */
    assert(row->lease != 0 && row->device != 0);
    if (large) {
        FED_TRY(fedserver_sqlite_segment(db, row->task, row->round, true, err));
        /* S9 in docs/durability.md: the open file is that of the row's round. */
        assert(db->segment.task == row->task && db->segment.round == row->round);
        FED_TRY(fedserver_segment_append(&db->segment, body, len, &start, err));
        /* The commit syncs the segment file (S9 in docs/durability.md). */
        assert(db->segment.appended && db->segment.end == start + len);
    }
    const fedserver_value nothing = BLOB(NULL, 0);
    const fedserver_value at = INT(start);
    const fedserver_value bytes = BLOB(body, len);
    fedserver_value values[COUNT(update_columns) + 4] = {[COUNT(update_columns)] = INT(len),
                                                         INT(fed_digest_bytes(body, len)),
                                                         large ? at : nothing,
                                                         large ? nothing : bytes};
    BIND(update_columns, row, values);
    return fedserver_database_write(db, FEDSERVER_SQL_UPDATE_ADD, values, COUNT(values), err);
}

fed_status fedserver_sqlite_update_add(void *user, const fedserver_update_row *row,
                                       const uint8_t *body, size_t len, fed_error *err) {
    fed_error why = {0};
    FED_TRY(fedserver_undone_report(&((fedserver_database *)user)->base.undone, err));
    return fedserver_database_note(user, add_update(user, row, body, len, &why), &why, err);
}

/* An update read from the store, and the search for it. `body` is a copy, so that no statement
 * stays open. */
typedef struct stored_update {
    int64_t id;
    fedserver_update_row row;
    size_t len, cap;
    uint64_t guard;
    bool guarded; /* false: the row of an old release has no digest of the body */
    bool in_row;
    uint64_t start; /* offset of the body in the segment file, where in_row is false */
    uint64_t task;
    uint32_t round;
    uint8_t *body;
} stored_update;

static fed_status make_room(stored_update *u, fed_error *err) {
    if (u->len <= u->cap) {
        return FED_OK;
    }
    free(u->body);
    u->cap = 0;
    u->body = malloc(u->len);
    if (u->body == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for an update of %zu bytes", u->len);
    }
    u->cap = u->len;
    return FED_OK;
}

static fed_status take_row(sqlite3_stmt *row, stored_update *u, fed_error *err) {
    u->id = sqlite3_column_int64(row, 0);
    u->row = (fedserver_update_row){0};
    const fedserver_sql_row at = {.engine = &fedserver_sqlite_engine, .cursor = row};
    const int end = READ_INTO(update_columns, &at, 1, &u->row);
    u->len = (size_t)sqlite3_column_int64(row, end);
    u->guarded = sqlite3_column_type(row, end + 1) != SQLITE_NULL;
    u->guard = (uint64_t)sqlite3_column_int64(row, end + 1);
    u->in_row = sqlite3_column_type(row, end + 2) == SQLITE_NULL;
    u->start = (uint64_t)sqlite3_column_int64(row, end + 2);
    FED_TRY(make_room(u, err));
    if (u->in_row && u->len > 0) {
        const void *body = sqlite3_column_blob(row, end + 3);
        FED_REQUIRE(sqlite3_column_bytes(row, end + 3) == (int)u->len, FED_EFORMAT);
        memcpy(u->body, body, u->len);
    }
    return FED_OK;
}

static fed_status take_body(fedserver_database *db, stored_update *u, fed_error *err) {
    if (!u->in_row) {
        FED_TRY(fedserver_sqlite_segment(db, u->row.task, u->row.round, false, err));
        /* S9 in docs/durability.md: the open file is that of the row's round. */
        assert(db->segment.task == u->row.task && db->segment.round == u->row.round);
        FED_TRY(fedserver_segment_read(&db->segment, u->start, u->len, u->body, err));
    }
    FED_REQUIRE(!u->guarded || fed_digest_bytes(u->body, u->len) == u->guard, FED_EFORMAT);
    return FED_OK;
}

static fed_status fail_damaged(fedserver_database *db, const stored_update *u, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    char name[32];
    char file[64] = "server.db";
    if (!u->in_row) {
        snprintf(file, sizeof file, FEDSERVER_SEGMENT_NAME, u->row.task, u->row.round);
    }
    FED_TRY(READ(UPDATE_SENDER, &row, INT(u->row.device)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    snprintf(name, sizeof name, "%s", found ? (const char *)sqlite3_column_text(row, 0) : "?");
    sqlite3_reset(row);
    return fed_fail(
        err, FED_EFORMAT,
        "%s/%s: the update of device %s in round %u of task %llu is damaged" FEDSERVER_RESTORE,
        db->directory, file, name, u->row.round, (unsigned long long)u->row.task);
}

static fed_status next_update(fedserver_database *db, stored_update *u, bool *more,
                              fed_error *err) {
    sqlite3_stmt *row;
    FED_TRY(READ(UPDATE_NEXT, &row, INT(u->id), INT(u->task), INT(u->round)));
    FED_TRY(fedserver_database_next(db, row, more, err));
    if (!*more) {
        return FED_OK;
    }
    fed_status status = take_row(row, u, err);
    sqlite3_reset(row);
    /* S4 in docs/durability.md: no other task's update is added to the sum. */
    assert(u->task == 0 || u->row.task == u->task);
    assert(u->round == 0 || u->row.round == u->round);
    if (status == FED_OK) {
        status = take_body(db, u, err);
    }
    return status == FED_EFORMAT || status == FED_ENOTFOUND ? fail_damaged(db, u, err) : status;
}

fed_status fedserver_sqlite_update_each(void *db, uint64_t task, uint32_t round,
                                        fedserver_update_visit visit, void *user, fed_error *err) {
    stored_update u = {.task = task, .round = round};
    bool more = true;
    fed_status status = next_update(db, &u, &more, err);
    while (status == FED_OK && more) {
        status = visit(user, &u.row, u.body, u.len, err);
        if (status == FED_OK) {
            status = next_update(db, &u, &more, err);
        }
    }
    free(u.body);
    return status;
}

fed_status fedserver_sqlite_updates_check(fedserver_database *db, fedserver_checker *checker,
                                          size_t *bodies, fed_error *err) {
    stored_update u = {0};
    fed_status status = FED_OK;
    for (bool more = true; more && (status == FED_OK || status == FED_EFORMAT);) {
        fed_error why = {0};
        status = next_update(db, &u, &more, &why);
        if (status == FED_EFORMAT) {
            fedserver_check_note(checker, FEDSERVER_FOUND, "S9: %s", why.text);
        } else if (status != FED_OK) {
            (void)fed_fail(err, status, "%s", why.text);
        }
        *bodies += more;
    }
    free(u.body);
    return status == FED_EFORMAT ? FED_OK : status;
}

fed_status fedserver_sqlite_update_remove(void *user, uint64_t task, uint64_t lease,
                                          fed_error *err) {
    fedserver_database *db = user;
    /* S3 in docs/durability.md: one update is deleted, which is a lease's. */
    assert(task != 0 && lease != 0);
    db->cleared = true; /* its file may end earlier now (S9 in docs/durability.md) */
    return WRITE(UPDATE_REMOVE, INT(task), INT(lease));
}

fed_status fedserver_sqlite_update_clear(void *user, uint64_t task, uint32_t round,
                                         fed_error *err) {
    fedserver_database *db = user;
    /* S5 in docs/durability.md: only one task's updates are deleted. No task has the number 0. */
    assert(task != 0);
    db->cleared = true;
    return WRITE(UPDATE_CLEAR, INT(task), INT(round));
}
