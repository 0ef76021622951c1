/* Writes, reads, deletes, copies and checks the files that hold blobs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/blobs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed/hash.h"
#include "fedserver/stores/undone.h"

enum { PATH_SIZE = 1100, SYNC_BYTES = 4 << 20 };

static void blob_path(const fedserver_database *db, uint64_t task, uint64_t digest,
                      char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%s/" FEDSERVER_BLOB_NAME, db->directory, task, digest);
}

static bool is_there(const char *path, uint64_t digest, size_t len) {
    const uint8_t *bytes;
    size_t found;
    if (fed_file_map(path, SIZE_MAX, &bytes, &found, NULL) != FED_OK) {
        return false;
    }
    const bool fits = found == len && fed_digest_bytes(bytes, found) == digest;
    fed_file_unmap(bytes, found);
    return fits;
}

/* Write a blob's file, and sync it after every SYNC_BYTES: one long sync would delay the commits of
 * other handles. */
static fed_status write_blob(const char *path, const uint8_t *bytes, size_t len, fed_error *err) {
    fed_file file;
    fed_status status = fed_file_create(path, FED_FILE_SHARED, &file, err);
    FED_TRY(status);
    for (size_t at = 0; at < len && status == FED_OK;) {
        const size_t some = len - at < SYNC_BYTES ? len - at : SYNC_BYTES;
        status = fed_file_put(&file, bytes + at, some, err);
        if (status == FED_OK) {
            status = fed_file_sync(&file, err);
        }
        at += some;
    }
    if (status != FED_OK) {
        fed_file_abandon(&file);
        return status;
    }
    return fed_file_commit(&file, err);
}

static fed_status put_blob(const fedserver_database *db, uint64_t task, uint64_t digest,
                           const void *bytes, size_t len, fed_error *err) {
    char path[PATH_SIZE];
    blob_path(db, task, digest, path);
    if (is_there(path, digest, len)) {
        /* an earlier call may have failed before the name was synced */
        return fed_name_sync(path, err);
    }
    fed_status status = write_blob(path, bytes, len, err);
    return status == FED_ENOSPC ? fed_fail(err, status, FEDSERVER_DISK_FULL, path) : status;
}

fed_status fedserver_sqlite_blob_put(void *user, uint64_t task, uint64_t digest, const void *bytes,
                                     size_t len, fed_error *err) {
    fed_error why = {0};
    FED_TRY(fedserver_undone_report(&((fedserver_database *)user)->base.undone, err));
    return fedserver_database_note(user, put_blob(user, task, digest, bytes, len, &why), &why, err);
}

fed_status fedserver_sqlite_blob_find(void *user, uint64_t task, uint64_t digest, void **bytes,
                                      size_t *len, fed_error *err) {
    char path[PATH_SIZE];
    uint8_t *read;
    size_t read_len;
    blob_path(user, task, digest, path);
    FED_TRY(fed_file_read(path, SIZE_MAX - 1, &read, &read_len, err));
    if (fed_digest_bytes(read, read_len) != digest) {
        free(read);
        return fed_fail(err, FED_EFORMAT, "%s is damaged" FEDSERVER_RESTORE, path);
    }
    *bytes = read;
    *len = read_len;
    return FED_OK;
}

fed_status fedserver_sqlite_blob_length(void *user, uint64_t task, uint64_t digest, size_t *len,
                                        fed_error *err) {
    char path[PATH_SIZE];
    struct stat info;
    blob_path(user, task, digest, path);
    if (stat(path, &info) != 0) {
        return fed_file_fail(err, "look at", path);
    }
    *len = (size_t)info.st_size;
    return FED_OK;
}

/* Read a file name that blob_path makes, or that fed_file_create makes of it while the file is
 * written. *whole: the file has its final name. Returns false for any other name. */
static bool parse_name(const char *name, uint64_t *task, uint64_t *digest, bool *whole) {
    static const char prefix[] = "blob-";
    char again[64];
    char *end;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    *task = strtoull(name + sizeof prefix - 1, &end, 10);
    *digest = *end == '-' ? strtoull(end + 1, NULL, 16) : 0;
    const int len = snprintf(again, sizeof again, FEDSERVER_BLOB_NAME, *task, *digest);
    *whole = name[len < (int)strlen(name) ? len : (int)strlen(name)] == '\0';
    return strncmp(again, name, (size_t)len) == 0 &&
           (*whole || strncmp(name + len, ".new-", 5) == 0);
}

static fed_status is_named(fedserver_database *db, uint64_t task, uint64_t digest, bool *named,
                           fed_error *err) {
    int64_t rows;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_BLOB_NAMED, VALUES(INT(task), INT(digest)), &rows,
                                err));
    *named = rows != 0;
    return FED_OK;
}

/* A function called for each blob's file, also for an unfinished one. named: a row names the
 * blob. */
typedef fed_status (*blob_visit)(void *user, const char *path, uint64_t task, bool named,
                                 fed_error *err);

static fed_status visit_entry(fedserver_database *db, const char *name, blob_visit visit,
                              void *user, fed_error *err) {
    uint64_t task, digest;
    bool whole, named = false;
    char path[PATH_SIZE + 256];
    if (!parse_name(name, &task, &digest, &whole)) {
        return FED_OK;
    }
    if (whole) {
        FED_TRY(is_named(db, task, digest, &named, err));
    }
    snprintf(path, sizeof path, "%s/%s", db->directory, name);
    return visit(user, path, task, named, err);
}

static fed_status each_file(fedserver_database *db, blob_visit visit, void *user, fed_error *err) {
    DIR *folder = opendir(db->directory);
    if (folder == NULL) {
        return fed_file_fail(err, "list", db->directory);
    }
    fed_status status = FED_OK;
    for (struct dirent *entry; status == FED_OK && (entry = readdir(folder)) != NULL;) {
        status = visit_entry(db, entry->d_name, visit, user, err);
    }
    closedir(folder);
    return status;
}

/* Delete a blob's file that no row names: of the task *user, or of any task where user is NULL.
 * Another thread may have deleted the file already. */
static fed_status sweep_file(void *user, const char *path, uint64_t task, bool named,
                             fed_error *err) {
    const uint64_t *only = user;
    if (named || (only != NULL && task != *only)) {
        return FED_OK;
    }
    return unlink(path) == 0 || errno == ENOENT ? FED_OK : fed_file_fail(err, "clean up", path);
}

fed_status fedserver_sqlite_blob_sweep(void *user, uint64_t task, fed_error *err) {
    /* S9 in docs/durability.md: only committed rows say which files may go. */
    assert(!((fedserver_database *)user)->writing);
    return each_file(user, sweep_file, &task, err);
}

void fedserver_sqlite_blobs_clear(fedserver_database *db, uint64_t task) {
    /* where the array is full, the next start of the coordinator deletes the files */
    if (db->blobless_count < sizeof db->blobless / sizeof db->blobless[0]) {
        db->blobless[db->blobless_count++] = task;
    }
}

fed_status fedserver_sqlite_blobs_cleared(fedserver_database *db, fed_error *err) {
    assert(!db->writing); /* S9 in docs/durability.md: the rows' deletion is committed. */
    while (db->blobless_count > 0) {
        FED_TRY(fedserver_sqlite_blob_sweep(db, db->blobless[--db->blobless_count], err));
    }
    return FED_OK;
}

/* Beginning a transaction waits until transactions of other processes have ended. So blobs that
 * such a transaction has written are named by rows. */
fed_status fedserver_sqlite_blobs_recover(fedserver_database *db, fed_error *err) {
    /* S9 in docs/durability.md: the transaction that begins here writes nothing. */
    assert(!db->writing);
    FED_TRY(fedserver_database_begin(db, err));
    fed_status status = each_file(db, sweep_file, NULL, err);
    fedserver_database_rollback(db);
    return status;
}

static fed_status named_blob(fedserver_database *db, int k, uint64_t *task, uint64_t *digest,
                             bool *more, fed_error *err) {
    sqlite3_stmt *row;
    FED_TRY(READ(BLOB_EACH, &row, INT(k)));
    FED_TRY(fedserver_database_next(db, row, more, err));
    if (*more) {
        *task = (uint64_t)sqlite3_column_int64(row, 0);
        *digest = (uint64_t)sqlite3_column_int64(row, 1);
        sqlite3_reset(row);
    }
    return FED_OK;
}

/* A blob that a copy of the store needs. The file stays mapped, so its bytes can be read even if a
 * commit deletes the file. */
typedef struct held_blob {
    uint64_t task, digest;
    const uint8_t *bytes;
    size_t len;
} held_blob;

typedef struct held_blobs {
    held_blob *at;
    size_t count;
} held_blobs;

static fed_status hold(const fedserver_database *db, uint64_t task, uint64_t digest,
                       held_blobs *held, fed_error *err) {
    char path[PATH_SIZE];
    held_blob *grown = realloc(held->at, (held->count + 1) * sizeof *grown);
    if (grown == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a copy of the store");
    }
    held->at = grown;
    held_blob *blob = &held->at[held->count];
    *blob = (held_blob){.task = task, .digest = digest};
    blob_path(db, task, digest, path);
    FED_TRY(fed_file_map(path, SIZE_MAX, &blob->bytes, &blob->len, err));
    held->count++;
    return FED_OK;
}

static fed_status hold_all(const fedserver_database *db, fedserver_database *copy, held_blobs *held,
                           fed_error *err) {
    uint64_t task, digest;
    bool more = true;
    for (int k = 0; more; k++) {
        FED_TRY(named_blob(copy, k, &task, &digest, &more, err));
        if (more) {
            FED_TRY(hold(db, task, digest, held, err));
        }
    }
    return FED_OK;
}

static fed_status copy_held(fedserver_database *copy, const held_blob *blob, fed_error *err) {
    if (fed_digest_bytes(blob->bytes, blob->len) != blob->digest) {
        return fed_fail(err, FED_EFORMAT,
                        "the file " FEDSERVER_BLOB_NAME " is damaged" FEDSERVER_RESTORE, blob->task,
                        blob->digest);
    }
    return fedserver_sqlite_blob_put(copy, blob->task, blob->digest, blob->bytes, blob->len, err);
}

fed_status fedserver_sqlite_blobs_copy(const fedserver_database *db, fedserver_database *copy,
                                       fed_error *err) {
    held_blobs held = {0};
    fed_status status = hold_all(db, copy, &held, err);
    for (size_t k = 0; k < held.count && status == FED_OK; k++) {
        status = copy_held(copy, &held.at[k], err);
    }
    for (size_t k = 0; k < held.count; k++) {
        fed_file_unmap(held.at[k].bytes, held.at[k].len);
    }
    free(held.at);
    return status;
}

static fed_status note_file(void *user, const char *path, uint64_t task, bool named,
                            fed_error *err) {
    (void)task, (void)err;
    if (!named) {
        fedserver_check_note(user, FEDSERVER_NOTED,
                             "S9: %s belongs to no version of a model; the next start removes it",
                             path);
    }
    return FED_OK;
}

static void check_blob(const fedserver_database *db, uint64_t task, uint64_t digest,
                       fedserver_checker *checker) {
    char path[PATH_SIZE];
    const uint8_t *bytes;
    size_t len;
    fed_error why = {0};
    blob_path(db, task, digest, path);
    if (fed_file_map(path, SIZE_MAX, &bytes, &len, &why) != FED_OK) {
        fedserver_check_note(checker, FEDSERVER_FOUND, "S9: %s" FEDSERVER_RESTORE, why.text);
        return;
    }
    if (fed_digest_bytes(bytes, len) != digest) {
        fedserver_check_note(checker, FEDSERVER_FOUND, "S9: %s is damaged" FEDSERVER_RESTORE, path);
    }
    fed_file_unmap(bytes, len);
}

fed_status fedserver_sqlite_blobs_check(fedserver_database *db, fedserver_checker *checker,
                                        size_t *blobs, fed_error *err) {
    uint64_t task, digest;
    bool more = true;
    *blobs = 0;
    FED_TRY(each_file(db, note_file, checker, err));
    for (int k = 0; more; k++) {
        FED_TRY(named_blob(db, k, &task, &digest, &more, err));
        if (more) {
            check_blob(db, task, digest, checker);
            ++*blobs;
        }
    }
    return FED_OK;
}
