/* A copy of the store as of one instant, made while another process may go on writing to it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/updates.h"

/* A round that has bodies in a segment file, and where they end. */
typedef struct large_bodies {
    uint64_t task, end; /* end 0: there are none */
    uint32_t round;
} large_bodies;

/* The k-th such round, those of running tasks first. Each running or paused task may have some. */
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

static fed_status copy_bodies(const fedserver_segment *from, uint64_t end, fedserver_segment *to,
                              fed_error *err) {
    enum { CHUNK = 1 << 20 };
    uint8_t *bytes = malloc(CHUNK);
    if (bytes == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a copy");
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
    return status == FED_OK ? fedserver_segment_sync(to, err) : status;
}

static fed_status ignore(void *user, const fedserver_update_row *row, const uint8_t *body,
                         size_t len, fed_error *err) {
    (void)user, (void)row, (void)body, (void)len, (void)err;
    return FED_OK;
}

/* Copy the blobs and bodies that the copy's rows refer to. FED_ENOTFOUND: their round ended
 * meanwhile. */
static fed_status complete(fedserver_database *db, fedserver_database *copy, fed_error *err) {
    large_bodies large;
    FED_TRY(fedserver_database_script(copy, "PRAGMA journal_mode = WAL", err));
    FED_TRY(fedserver_sqlite_blobs_copy(db, copy, err));
    FED_TRY(find_large(copy, 0, &large, err));
    for (int k = 1; large.end > 0; k++) {
        FED_TRY(fedserver_sqlite_segment(db, large.task, large.round, false, err));
        FED_TRY(fedserver_segment_open(&copy->segment, copy->directory, large.task, large.round, 0,
                                       true, err));
        FED_TRY(copy_bodies(&db->segment, large.end, &copy->segment, err));
        FED_TRY(find_large(copy, k, &large, err));
    }
    return fedserver_sqlite_update_each(copy, 0, 0, ignore, NULL, err); /* the guards still fit */
}

static fed_status copy_once(fedserver_database *db, const char *path, fed_error *err) {
    large_bodies large;
    FED_TRY(find_large(db, 0, &large, err));
    if (large.end > 0) { /* hold the file open, in case its round ends meanwhile */
        fed_status status = fedserver_sqlite_segment(db, large.task, large.round, false, err);
        FED_REQUIRE(status == FED_OK || status == FED_ENOTFOUND, status);
    }
    unlink(path);
    int file = open(path, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        return fed_file_fail(err, "create", path);
    }
    close(file);
    sqlite3_stmt *statement;
    bool row;
    FED_TRY(READ(COPY, &statement, TEXT(path)));
    FED_TRY(fedserver_database_next(db, statement, &row, err));
    fedserver_database *copy;
    FED_TRY(fedserver_database_open(path, SQLITE_OPEN_READWRITE, &copy, err));
    fed_status status = complete(db, copy, err);
    fedserver_database_close(copy);
    return status;
}

fed_status fedserver_sqlite_copy(void *db, const char *path, fed_error *err) {
    enum { TRIES = 10 };
    fed_status status = FED_ENOTFOUND;
    for (int k = 0; k < TRIES && status == FED_ENOTFOUND; k++) {
        status = copy_once(db, path, err);
    }
    return status;
}
