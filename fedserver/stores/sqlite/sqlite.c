/* The SQLite store: creates, opens and upgrades its database, and lists its functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/stores/sql/sql_rows.h"
#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/schema.h"
#include "fedserver/stores/sqlite/sqlite_layout.h"
#include "fedserver/stores/sqlite/sqlite_lock.h"
#include "fedserver/stores/sqlite/updates.h"
#include "fedserver/stores/store.h"
#include "fedserver/stores/undone.h"

enum { PATH_SIZE = 1024 };

static const char DATABASE[] = "server.db";
/* the database's name until it is complete (S7 in docs/durability.md) */
static const char UNFINISHED[] = "server.db.new";

static fed_status create_file(const char *path, fed_error *err) {
    /* SQLite would create the file with mode 0644. */
    int file = fed_file_open_shared(path, O_RDWR | O_CREAT | O_EXCL);
    if (file < 0) {
        return fed_fail(err, FED_EIO,
                        "%s: can't create the database file: check the directory's permissions",
                        path);
    }
    close(file);
    fedserver_database *db;
    FED_TRY(fedserver_database_open(path, SQLITE_OPEN_READWRITE, &db, err));
    static const char *const scripts[] = FEDSERVER_SCHEMA;
    char sql[200];
    snprintf(sql, sizeof sql,
             "PRAGMA page_size = 16384; PRAGMA auto_vacuum = INCREMENTAL;"
             "PRAGMA journal_mode = WAL; BEGIN;"
             "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             FEDSERVER_SCHEMA_ID, FEDSERVER_SCHEMA_VERSION);
    fed_status status = fedserver_database_script(db, sql, err);
    for (size_t k = 0; k < sizeof scripts / sizeof scripts[0] && status == FED_OK; k++) {
        status = fedserver_database_script(db, scripts[k], err);
    }
    if (status == FED_OK) {
        status = fedserver_database_script(db, "COMMIT;", err);
    }
    if (status == FED_OK) {
        /* Write the journal into the database's file, because the file is about to be renamed.
         * Closing would do it too, but would not report a failure. */
        int code =
            sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        status = code == SQLITE_OK ? FED_OK : fedserver_database_fail(db, code, err);
    }
    fedserver_database_close(db);
    return status;
}

/* Open a database on a read-only medium, without locks and journals. */
static fed_status open_read_only(const char *path, fedserver_database **db, fed_error *err) {
    char journal[1100];
    struct stat found;
    snprintf(journal, sizeof journal, "%s-wal", path);
    if (stat(journal, &found) == 0 && found.st_size > 0) {
        return fed_fail(err, FED_EIO,
                        "%s has a journal that must be written into it first, but its medium is "
                        "read-only; copy the directory to a writable disk",
                        path);
    }
    return fedserver_database_open(path, SQLITE_OPEN_READONLY, db, err);
}

static fed_status open_file(const char *path, fedserver_database **out, int64_t *layout,
                            fed_error *err) {
    if (access(path, F_OK) != 0) {
        return fed_fail(err, FED_ENOTFOUND, "%s: there is no such file", path);
    }
    fedserver_database *db;
    const bool fixed = access(path, W_OK) != 0 && errno == EROFS;
    FED_TRY(fixed ? open_read_only(path, &db, err)
                  : fedserver_database_open(path, SQLITE_OPEN_READWRITE, &db, err));
    fed_status status = fedserver_sqlite_layout(db, layout, err);
    if (status != FED_OK) {
        fedserver_database_close(db);
        return status;
    }
    *out = db;
    return FED_OK;
}

static fed_status file_path(const char *directory, const char *name, char path[PATH_SIZE],
                            fed_error *err) {
    if (strlen(directory) + strlen(name) + sizeof "/-journal" > PATH_SIZE) {
        return fed_fail(err, FED_EINVAL, "%.100s...: the directory's path is too long", directory);
    }
    snprintf(path, PATH_SIZE, "%s/%s", directory, name);
    return FED_OK;
}

static fed_status store_exists(const char *directory, const char *where, fed_error *err) {
    char path[PATH_SIZE];
    (void)where;
    FED_TRY(file_path(directory, DATABASE, path, err));
    return access(path, F_OK) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND, "%s: there is no such file", path);
}

/* Give a finished database its name. First delete journals that a lost database has left. */
static fed_status put_in_place(const char *fresh, const char *directory, fed_error *err) {
    static const char *const journals[] = {"server.db-wal", "server.db-shm", "server.db-journal"};
    char path[PATH_SIZE];
    for (size_t k = 0; k < sizeof journals / sizeof journals[0]; k++) {
        FED_TRY(file_path(directory, journals[k], path, err));
        unlink(path);
    }
    FED_TRY(file_path(directory, DATABASE, path, err));
    return fed_file_move(fresh, path, err);
}

static fed_status store_create(const char *directory, const char *where, fed_error *err) {
    char fresh[PATH_SIZE];
    (void)where;
    FED_TRY(file_path(directory, UNFINISHED, fresh, err));
    unlink(fresh);
    FED_TRY(create_file(fresh, err));
    return put_in_place(fresh, directory, err);
}

static fed_status store_copy(const char *from, const char *to, fed_error *err) {
    char path[PATH_SIZE];
    char fresh[PATH_SIZE];
    fedserver_database *db;
    int64_t layout;
    FED_TRY(file_path(from, DATABASE, path, err));
    FED_TRY(open_file(path, &db, &layout, err));
    fed_status status = file_path(to, UNFINISHED, fresh, err);
    if (status == FED_OK) {
        status = fedserver_sqlite_copy(db, fresh, err);
    }
    fedserver_database_close(db);
    FED_TRY(status);
    return put_in_place(fresh, to, err);
}

static fed_status store_open(const char *directory, const char *where, void **out, fed_error *err) {
    char path[PATH_SIZE];
    fedserver_database *db;
    int64_t layout;
    (void)where;
    FED_TRY(file_path(directory, DATABASE, path, err));
    FED_TRY(open_file(path, &db, &layout, err));
    if (layout != FEDSERVER_SCHEMA_VERSION) {
        const fed_status status = fedserver_sqlite_layout_older(db, layout, err);
        fedserver_database_close(db);
        return status;
    }
    *out = db;
    return FED_OK;
}

/* S8 in docs/durability.md: take the lock first, as a process of the older release may serve. */
static fed_status upgrade_alone(fedserver_database *db, fed_error *err) {
    if (sqlite3_db_readonly(db->handle, "main") != 0) {
        return fed_fail(err, FED_EVERSION,
                        "%s was made by an older release and must be upgraded, but its medium is "
                        "read-only; copy the directory to a writable disk",
                        db->path);
    }
    FED_TRY(fedserver_sqlite_lock(db, err));
    return fedserver_sqlite_upgrade(db, err);
}

static fed_status store_upgrade(const char *directory, const char *where, fed_error *err) {
    char path[PATH_SIZE];
    fedserver_database *db;
    int64_t layout;
    (void)where;
    FED_TRY(file_path(directory, DATABASE, path, err));
    FED_TRY(open_file(path, &db, &layout, err));
    const fed_status status = layout < FEDSERVER_SCHEMA_VERSION ? upgrade_alone(db, err) : FED_OK;
    fedserver_database_close(db);
    return status;
}

static void store_close(void *db) {
    fedserver_database_close(db);
}

static fed_status store_reserve(void *db, unsigned wait_ms, fed_error *err) {
    return fedserver_database_reserve(db, wait_ms, err);
}

static bool store_writing(const void *db) {
    const fedserver_database *kept = db;
    return kept->writing || fedserver_undone(&kept->base.undone);
}

static fed_status store_changed(void *user, bool *changed, fed_error *err) {
    fedserver_database *db = user;
    int64_t version;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_DATA_VERSION, NO_VALUES, &version, err));
    if (version != db->data_version) {
        FED_TRY(fedserver_database_same_layout(db, err));
    }
    *changed = version != db->data_version;
    db->data_version = version;
    return FED_OK;
}

extern const fedserver_store fedserver_store_sqlite;

const fedserver_store fedserver_store_sqlite = {
    .name = "sqlite",
    /* a row of SQLite has at most 1e9 bytes, and its short columns need room */
    .row_limit = UINT64_C(999999000),
    .exists = store_exists,
    .create = store_create,
    .open = store_open,
    .upgrade = store_upgrade,
    .close = store_close,
    .lock = fedserver_sqlite_lock,
    .holder = fedserver_sqlite_holder,
    .copy = store_copy,
    .check = fedserver_sqlite_check,
    .recover = fedserver_sqlite_recover,
    .commit = fedserver_sqlite_commit,
    .rollback = fedserver_sqlite_rollback,
    .reserve = store_reserve,
    .writing = store_writing,
    .changed = store_changed,
    FEDSERVER_SQL_ROWS,
    .shrink = fedserver_sqlite_shrink,
    .blob_put = fedserver_sqlite_blob_put,
    .blob_sweep = fedserver_sqlite_blob_sweep,
    .blob_find = fedserver_sqlite_blob_find,
    .update_add = fedserver_sqlite_update_add,
    .update_each = fedserver_sqlite_update_each,
    .update_remove = fedserver_sqlite_update_remove,
    .update_clear = fedserver_sqlite_update_clear,
};
