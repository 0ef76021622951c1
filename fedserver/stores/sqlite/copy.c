/* Copies the SQLite store as of one instant, while another process may go on writing to it. The
 * copy of an older release's store gets this program's layout; the original keeps its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/stores/sql/sql_rows.h"
#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/schema.h"
#include "fedserver/stores/sqlite/segment.h"
#include "fedserver/stores/sqlite/sqlite_layout.h"
#include "fedserver/stores/sqlite/updates.h"

typedef struct large_bodies {
    uint64_t task, end;
    uint32_t round;
} large_bodies;

/* Find the k-th round with updates in a segment file. found->end is 0 if there is none. */
static fed_status find_large(fedserver_database *db, int k, large_bodies *found, fed_error *err) {
    sqlite3_stmt *row;
    bool any;
    *found = (large_bodies){0};
    FED_TRY(READ(UPDATE_FILES, &row, INT(k)));
    FED_TRY(fedserver_database_next(db, row, &any, err));
    if (any) {
        *found = (large_bodies){.task = (uint64_t)sqlite3_column_int64(row, 0),
                                .round = (uint32_t)sqlite3_column_int64(row, 1),
                                .end = (uint64_t)sqlite3_column_int64(row, 2)};
        sqlite3_reset(row);
    }
    return FED_OK;
}

/* Segment files that are held open, since a file is deleted when its round ends. */
typedef struct held_files {
    fedserver_segment *at;
    size_t count;
} held_files;

static void let_go(held_files *held) {
    for (size_t k = 0; k < held->count; k++) {
        fedserver_segment_close(&held->at[k]);
    }
    free(held->at);
}

static fed_status hold(const fedserver_database *db, const large_bodies *large, held_files *held,
                       fed_error *err) {
    fedserver_segment *grown = realloc(held->at, (held->count + 1) * sizeof *grown);
    if (grown == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a copy of the store");
    }
    held->at = grown;
    grown[held->count].fd = -1;
    FED_TRY(fedserver_segment_open(&grown[held->count], db->directory, large->task, large->round,
                                   large->end, false, err));
    held->count++;
    return FED_OK;
}

/* Older layouts may lack columns that find_large needs. */
static fed_status hold_all(fedserver_database *db, held_files *held, fed_error *err) {
    large_bodies large;
    int64_t layout;
    FED_TRY(fedserver_sqlite_layout(db, &layout, err));
    if (layout < FEDSERVER_SCHEMA_VERSION) {
        return FED_OK;
    }
    FED_TRY(find_large(db, 0, &large, err));
    for (int k = 1; large.end > 0; k++) {
        const fed_status status = hold(db, &large, held, err);
        FED_REQUIRE(status == FED_OK || status == FED_ENOTFOUND, status);
        FED_TRY(find_large(db, k, &large, err));
    }
    return FED_OK;
}

static fed_status find_file(const fedserver_database *db, const large_bodies *large,
                            held_files *held, const fedserver_segment **file, fed_error *err) {
    size_t k = 0;
    while (k < held->count &&
           (held->at[k].task != large->task || held->at[k].round != large->round)) {
        k++;
    }
    if (k == held->count) {
        FED_TRY(hold(db, large, held, err));
    }
    *file = &held->at[k];
    /* S12 in docs/durability.md: this is the round's file. */
    assert((*file)->task == large->task && (*file)->round == large->round);
    return FED_OK;
}

static fed_status copy_bodies(const fedserver_segment *from, uint64_t end, fedserver_segment *to,
                              fed_error *err) {
    enum { CHUNK = 1 << 20 };
    uint8_t *bytes = malloc(CHUNK);
    if (bytes == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a copy of the store");
    }
    fed_status status = FED_OK;
    for (uint64_t at = 0; at < end && status == FED_OK;) {
        size_t len = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
        status = fedserver_segment_read(from, at, len, bytes, err);
        if (status == FED_OK) {
            status = fedserver_segment_append(to, bytes, len, &at, err);
            at += len;
        }
    }
    free(bytes);
    /* S12 in docs/durability.md: bodies lie where the copied rows say. */
    assert(status != FED_OK || to->end == end);
    return status == FED_OK ? fedserver_segment_sync(to, err) : status;
}

static fed_status ignore(void *user, const fedserver_update_row *row, const uint8_t *body,
                         size_t len, fed_error *err) {
    (void)user, (void)row, (void)body, (void)len, (void)err;
    return FED_OK;
}

static fed_status copy_files(const fedserver_database *db, fedserver_database *copy,
                             held_files *held, fed_error *err) {
    large_bodies large;
    FED_TRY(find_large(copy, 0, &large, err));
    for (int k = 1; large.end > 0; k++) {
        const fedserver_segment *file = NULL;
        FED_TRY(find_file(db, &large, held, &file, err));
        FED_TRY(fedserver_segment_open(&copy->segment, copy->directory, large.task, large.round, 0,
                                       true, err));
        FED_TRY(copy_bodies(file, large.end, &copy->segment, err));
        /* S7 in docs/durability.md: the file is synced before the copy is done. */
        assert(!copy->segment.appended && !copy->segment.fresh);
        FED_TRY(find_large(copy, k, &large, err));
    }
    return FED_OK;
}

/* Copy the blobs and update bodies that the rows of `copy` name. FED_ENOTFOUND: a round ended
 * meanwhile, and its files are gone. */
static fed_status complete(const fedserver_database *db, fedserver_database *copy, held_files *held,
                           fed_error *err) {
    /* S19 in docs/durability.md: a copy's ledgers do not know what happens after it. */
    FED_TRY(fedserver_sql_copied(copy, err));
    FED_TRY(fedserver_database_commit(copy, err));
    FED_TRY(fedserver_database_script(copy, "PRAGMA journal_mode = WAL", err));
    FED_TRY(fedserver_sqlite_blobs_copy(db, copy, err));
    FED_TRY(copy_files(db, copy, held, err));
    return fedserver_sqlite_update_each(copy, 0, 0, ignore, NULL, err);
}

static fed_status copy_database(fedserver_database *db, const char *path, fed_error *err) {
    unlink(path);
    int file = fed_file_open_shared(path, O_RDWR | O_CREAT | O_EXCL);
    if (file < 0) {
        return fed_file_fail(err, "create", path);
    }
    close(file);
    sqlite3_stmt *statement;
    bool row;
    FED_TRY(READ(COPY, &statement, TEXT(path)));
    return fedserver_database_next(db, statement, &row, err);
}

static fed_status copy_once(fedserver_database *db, const char *path, fed_error *err) {
    held_files held = {.count = 0};
    fedserver_database *copy = NULL;
    fed_status status = hold_all(db, &held, err);
    if (status == FED_OK) {
        status = copy_database(db, path, err);
    }
    if (status == FED_OK) {
        status = fedserver_database_open(path, SQLITE_OPEN_READWRITE, &copy, err);
    }
    /* Upgrade before `complete` turns on a journal, so that the upgrade is in the file itself. */
    if (status == FED_OK) {
        status = fedserver_sqlite_upgrade(copy, err);
    }
    if (status == FED_OK) {
        status = complete(db, copy, &held, err);
    }
    fedserver_database_close(copy);
    let_go(&held);
    return status;
}

fed_status fedserver_sqlite_copy(fedserver_database *db, const char *path, fed_error *err) {
    enum { TRIES = 10 };
    fed_status status = FED_ENOTFOUND;
    for (int k = 0; k < TRIES && status == FED_ENOTFOUND; k++) {
        status = copy_once(db, path, err);
    }
    return status;
}
