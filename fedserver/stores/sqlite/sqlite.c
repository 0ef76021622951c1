/* The store on SQLite: one function a record and deed, as in store.h. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/stores/sqlite/audit_rows.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/declines.h"
#include "fedserver/stores/sqlite/pass_rows.h"
#include "fedserver/stores/sqlite/pieces.h"
#include "fedserver/stores/sqlite/schema.h"
#include "fedserver/stores/sqlite/sqlite_lock.h"
#include "fedserver/stores/sqlite/task_columns.h"
#include "fedserver/stores/sqlite/task_rows.h"
#include "fedserver/stores/sqlite/updates.h"
#include "fedserver/stores/store.h"

enum { PATH_SIZE = 1024 };

static const char DATABASE[] = "server.db";
static const char UNFINISHED[] = "server.db.new"; /* S7: what it is called until it is whole */

/* -- the database as a whole -- */

static fed_status create_file(const char *path, fed_error *err) {
    int file = open(path, O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* SQLite's own default is 0644 */
    if (file < 0) {
        return fed_fail(err, FED_EIO, "%s: can't create the database file", path);
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
        /* Into the file itself, whose name is about to change: to close would do so, but does not
         * say where it could not. */
        int code =
            sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        status = code == SQLITE_OK ? FED_OK : fedserver_database_fail(db, code, err);
    }
    fedserver_database_close(db);
    return status;
}

static fed_status pragma(fedserver_database *db, const char *sql, int64_t *value, fed_error *err) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    fed_status status = FED_OK;
    if (code == SQLITE_ROW) {
        *value = sqlite3_column_int64(statement, 0);
    } else {
        status = fedserver_database_fail(db, code, err);
    }
    sqlite3_finalize(statement);
    return status;
}

static const char *const migrations[] = FEDSERVER_MIGRATIONS;
_Static_assert(sizeof migrations / sizeof migrations[0] == FEDSERVER_SCHEMA_VERSION - 1,
               "a version without a way to it");

/* One version up, all of it or nothing. Another process may be as far meanwhile: then nothing. */
static fed_status migrate(fedserver_database *db, int64_t from, fed_error *err) {
    int64_t version = 0;
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %lld;", (long long)from + 1);
    FED_TRY(fedserver_database_script(db, "BEGIN IMMEDIATE;", err));
    fed_status status = pragma(db, "PRAGMA user_version", &version, err);
    if (status == FED_OK && version == from) {
        status = fedserver_database_script(db, migrations[from - 1], err);
    }
    if (status == FED_OK && version == from && from + 1 == FEDSERVER_SCHEMA_TEXT) {
        status = fedserver_sqlite_columns_to_text(db, err);
    }
    if (status == FED_OK && version == from) {
        status = fedserver_database_script(db, sql, err);
    }
    if (status != FED_OK) {
        fed_error ignored;
        fed_status undone = fedserver_database_script(db, "ROLLBACK;", &ignored);
        (void)undone;
        return status;
    }
    return fedserver_database_script(db, "COMMIT;", err);
}

static fed_status check_version(fedserver_database *db, fed_error *err) {
    int64_t id = 0;
    int64_t version = 0;
    FED_TRY(pragma(db, "PRAGMA application_id", &id, err));
    FED_TRY(pragma(db, "PRAGMA user_version", &version, err));
    if (id != FEDSERVER_SCHEMA_ID) {
        return fed_fail(err, FED_EFORMAT, "%s is not a coordinator's database", db->path);
    }
    if (version < 1 || version > FEDSERVER_SCHEMA_VERSION) {
        return fed_fail(err, FED_EVERSION,
                        "%s has layout %lld, this program knows 1 to %d; use the release that made "
                        "it",
                        db->path, (long long)version, FEDSERVER_SCHEMA_VERSION);
    }
    if (version < FEDSERVER_SCHEMA_VERSION && sqlite3_db_readonly(db->handle, "main") != 0) {
        return fed_fail(err, FED_EVERSION,
                        "%s is an older release's and must be brought up to date, and its medium "
                        "is read-only; copy the directory to a disk",
                        db->path);
    }
    while (version < FEDSERVER_SCHEMA_VERSION) {
        FED_TRY(migrate(db, version, err));
        version++;
    }
    return FED_OK;
}

/* Nobody writes to a read-only medium: what it holds is read without locks and journals. */
static fed_status open_read_only(const char *path, fedserver_database **db, fed_error *err) {
    char journal[1100];
    struct stat found;
    snprintf(journal, sizeof journal, "%s-wal", path);
    if (stat(journal, &found) == 0 && found.st_size > 0) {
        return fed_fail(err, FED_EIO,
                        "%s has a journal that must be written into it first, and its medium is "
                        "read-only; copy the directory to a disk",
                        path);
    }
    return fedserver_database_open(path, SQLITE_OPEN_READONLY, db, err);
}

static fed_status open_file(const char *path, void **out, fed_error *err) {
    if (access(path, F_OK) != 0) {
        return fed_fail(err, FED_ENOTFOUND, "%s: there is no such file", path);
    }
    fedserver_database *db;
    const bool fixed = access(path, W_OK) != 0 && errno == EROFS;
    FED_TRY(fixed ? open_read_only(path, &db, err)
                  : fedserver_database_open(path, SQLITE_OPEN_READWRITE, &db, err));
    fed_status status = check_version(db, err);
    if (status != FED_OK) {
        fedserver_database_close(db);
        return status;
    }
    *out = db;
    return FED_OK;
}

/* -- its place in the coordinator's directory -- */

static fed_status file_path(const char *directory, const char *name, char path[PATH_SIZE],
                            fed_error *err) {
    if (strlen(directory) + strlen(name) + sizeof "/-journal" > PATH_SIZE) {
        return fed_fail(err, FED_EINVAL, "%.100s...: the directory's path is too long", directory);
    }
    snprintf(path, PATH_SIZE, "%s/%s", directory, name);
    return FED_OK;
}

static bool store_exists(const char *directory, const char *where) {
    char path[PATH_SIZE];
    (void)where;
    return file_path(directory, DATABASE, path, NULL) == FED_OK && access(path, F_OK) == 0;
}

/* S7: the name says that the database is complete. */
static fed_status store_create(const char *directory, const char *where, fed_error *err) {
    char path[PATH_SIZE];
    char fresh[PATH_SIZE];
    (void)where;
    FED_TRY(file_path(directory, DATABASE, path, err));
    FED_TRY(file_path(directory, UNFINISHED, fresh, err));
    unlink(fresh); /* of a creation that was interrupted */
    FED_TRY(create_file(fresh, err));
    return fed_file_move(fresh, path, err);
}

static fed_status store_copy(void *db, const char *directory, fed_error *err) {
    char path[PATH_SIZE];
    char fresh[PATH_SIZE];
    FED_TRY(file_path(directory, DATABASE, path, err));
    FED_TRY(file_path(directory, UNFINISHED, fresh, err));
    FED_TRY(fedserver_sqlite_copy(db, fresh, err));
    return fed_file_move(fresh, path, err);
}

static fed_status store_open(const char *directory, const char *where, void **out, fed_error *err) {
    char path[PATH_SIZE];
    (void)where;
    FED_TRY(file_path(directory, DATABASE, path, err));
    return open_file(path, out, err);
}

static void store_close(void *db) {
    fedserver_database_close(db);
}

static fed_status store_changed(void *user, bool *changed, fed_error *err) {
    fedserver_database *db = user;
    sqlite3_stmt *statement;
    FED_TRY(fedserver_database_read(db, FEDSERVER_SQL_DATA_VERSION, NO_VALUES, &statement, err));
    bool row;
    FED_TRY(fedserver_database_next(db, statement, &row, err));
    int64_t version = row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    *changed = version != db->data_version;
    db->data_version = version;
    return FED_OK;
}

/* -- tokens -- */

static fed_status token_add(void *db, const uint8_t *hash, const fedserver_token *token,
                            fed_error *err) {
    return WRITE(TOKEN_ADD, BLOB(hash, FED_SHA256_SIZE), INT(token->expires_ms), INT(token->role),
                 TEXT(token->tag), TEXT(token->name), INT(token->made_ms));
}

static void token_read(sqlite3_stmt *row, fedserver_token *token) {
    *token = (fedserver_token){.expires_ms = sqlite3_column_int64(row, 0),
                               .used_ms = sqlite3_column_int64(row, 1),
                               .role = (fedserver_role)sqlite3_column_int(row, 2),
                               .made_ms = sqlite3_column_int64(row, 5),
                               .withdrawn_ms = sqlite3_column_int64(row, 6)};
    fedserver_database_text(row, 3, token->tag, sizeof token->tag);
    fedserver_database_text(row, 4, token->name, sizeof token->name);
}

static fed_status token_find(void *db, const uint8_t *hash, fedserver_token *token,
                             fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(TOKEN_FIND, &row, BLOB(hash, FED_SHA256_SIZE)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no token has that hash");
    }
    token_read(row, token);
    sqlite3_reset(row);
    return FED_OK;
}

static fed_status token_each(void *db, fedserver_token_visit visit, void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(fedserver_database_read(db, FEDSERVER_SQL_TOKEN_EACH, NO_VALUES, &row, err));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_token token;
        uint8_t hash[FED_SHA256_SIZE] = {0};
        token_read(row, &token);
        if (sqlite3_column_bytes(row, 7) == FED_SHA256_SIZE) {
            memcpy(hash, sqlite3_column_blob(row, 7), sizeof hash);
        }
        fed_status status = visit(user, hash, &token, err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

static fed_status token_withdraw(void *user, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    fedserver_database *db = user;
    FED_TRY(WRITE(TOKEN_WITHDRAW, BLOB(hash, FED_SHA256_SIZE), INT(now_ms)));
    return sqlite3_changes(db->handle) == 1
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND, "no unused token has that hash");
}

static fed_status token_use(void *user, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    fedserver_database *db = user;
    FED_TRY(WRITE(TOKEN_USE, INT(now_ms), BLOB(hash, FED_SHA256_SIZE)));
    return sqlite3_changes(db->handle) == 1
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND, "no unused token has that hash");
}

/* -- devices -- */

static fed_status device_add(void *user, fedserver_device *device, fed_error *err) {
    fedserver_database *db = user;
    FED_TRY(WRITE(DEVICE_ADD, BLOB(device->fingerprint, FED_SHA256_SIZE), INT(device->enrolled_ms),
                  INT(device->expires_ms), INT(device->role), TEXT(device->tag), TEXT(device->name),
                  INT(device->authority)));
    device->id = sqlite3_last_insert_rowid(db->handle);
    return FED_OK;
}

static fed_status device_put(void *db, const fedserver_device *device, fed_error *err) {
    return WRITE(DEVICE_PUT, INT(device->id), INT(device->lease), INT(device->lease_task),
                 INT(device->lease_round), INT(device->lease_attempt), INT(device->counted_lease),
                 INT(device->evaluated_task), INT(device->evaluated_version),
                 INT(device->lease_deadline_ms), INT(device->samples), INT(device->counted_digest),
                 INT(device->cloned_ms), TEXT(device->software), INT(device->seen_ms),
                 INT(device->counted), INT(device->late), INT(device->refused),
                 INT(device->authority));
}

static fed_status device_revoke(void *db, int64_t device, int64_t now_ms, fed_error *err) {
    return WRITE(DEVICE_REVOKE, INT(device), INT(now_ms));
}

static fed_status device_name(void *db, int64_t device, const uint8_t *fingerprint,
                              fed_error *err) {
    return WRITE(DEVICE_NAME, INT(device), BLOB(fingerprint, FED_SHA256_SIZE));
}

static fed_status device_rename(void *db, int64_t device, const char *name, fed_error *err) {
    return WRITE(DEVICE_RENAME, INT(device), TEXT(name));
}

static fed_status device_renew(void *db, int64_t device, int64_t expires_ms, fed_error *err) {
    return WRITE(DEVICE_RENEW, INT(device), INT(expires_ms));
}

static void device_read(sqlite3_stmt *row, fedserver_device *device) {
    *device = (fedserver_device){
        .id = sqlite3_column_int64(row, 0),
        .enrolled_ms = sqlite3_column_int64(row, 2),
        .expires_ms = sqlite3_column_int64(row, 3),
        .lease = (uint64_t)sqlite3_column_int64(row, 4),
        .lease_task = (uint64_t)sqlite3_column_int64(row, 5),
        .lease_round = (uint32_t)sqlite3_column_int64(row, 6),
        .lease_attempt = (uint32_t)sqlite3_column_int64(row, 7),
        .counted_lease = (uint64_t)sqlite3_column_int64(row, 8),
        .evaluated_task = (uint64_t)sqlite3_column_int64(row, 9),
        .evaluated_version = (uint32_t)sqlite3_column_int64(row, 10),
        .revoked_ms = sqlite3_column_int64(row, 11),
        .lease_deadline_ms = sqlite3_column_int64(row, 12),
        .samples = (uint32_t)sqlite3_column_int64(row, 13),
        .role = (fedserver_role)sqlite3_column_int(row, 14),
        .counted_digest = (uint64_t)sqlite3_column_int64(row, 16),
        .cloned_ms = sqlite3_column_int64(row, 17),
        .seen_ms = sqlite3_column_int64(row, 20),
        .counted = (uint64_t)sqlite3_column_int64(row, 21),
        .late = (uint64_t)sqlite3_column_int64(row, 22),
        .refused = (uint64_t)sqlite3_column_int64(row, 23),
        .authority = (uint64_t)sqlite3_column_int64(row, 24),
    };
    fedserver_database_text(row, 15, device->tag, sizeof device->tag);
    fedserver_database_text(row, 18, device->name, sizeof device->name);
    fedserver_database_text(row, 19, device->software, sizeof device->software);
    if (sqlite3_column_bytes(row, 1) == FED_SHA256_SIZE) {
        memcpy(device->fingerprint, sqlite3_column_blob(row, 1), FED_SHA256_SIZE);
    }
}

static fed_status device_find(void *db, const uint8_t *fingerprint, fedserver_device *device,
                              fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(DEVICE_FIND, &row, BLOB(fingerprint, FED_SHA256_SIZE)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no device has that fingerprint");
    }
    device_read(row, device);
    sqlite3_reset(row);
    return FED_OK;
}

static fed_status device_each(void *db, fedserver_device_visit visit, void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(fedserver_database_read(db, FEDSERVER_SQL_DEVICE_EACH, NO_VALUES, &row, err));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_device device;
        device_read(row, &device);
        fed_status status = visit(user, &device, err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

static fed_status device_page(void *db, uint64_t task, int64_t after, uint32_t limit,
                              fedserver_device_visit visit, void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(DEVICE_PAGE, &row, INT(task), INT(after), INT(limit)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_device device;
        device_read(row, &device);
        const bool declined = sqlite3_column_int(row, sqlite3_column_count(row) - 1) != 0;
        device.declined_task = declined ? task : 0;
        fed_status status = visit(user, &device, err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

static fed_status device_count(void *db, uint64_t *count, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(fedserver_database_read(db, FEDSERVER_SQL_DEVICE_COUNT, NO_VALUES, &row, err));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    *count = found ? (uint64_t)sqlite3_column_int64(row, 0) : 0;
    sqlite3_reset(row);
    return FED_OK;
}

/* -- models and deltas -- */

static fed_status model_put(void *db, uint64_t task, const fedserver_model_row *model,
                            fed_error *err) {
    size_t len = model->size * sizeof(float);
    return WRITE(MODEL_PUT, INT(task), INT(model->version), INT(model->digest),
                 BLOB(model->values, len), BLOB(model->residual, len),
                 BLOB(model->state, model->state_len));
}

/* A blob as memory of its own; NULL for SQL's NULL, an empty one, or where memory ran out. */
static void *blob_read(sqlite3_stmt *row, int column) {
    size_t len = (size_t)sqlite3_column_bytes(row, column);
    void *copy = len > 0 ? malloc(len) : NULL;
    if (copy != NULL) {
        memcpy(copy, sqlite3_column_blob(row, column), len);
    }
    return copy;
}

static fed_status model_find(void *db, uint64_t task, fedserver_model_row *model, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(MODEL_FIND, &row, INT(task)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu has no model", (unsigned long long)task);
    }
    int len = sqlite3_column_bytes(row, 2);
    bool residual = sqlite3_column_type(row, 3) != SQLITE_NULL;
    bool sound =
        len % (int)sizeof(float) == 0 && (!residual || sqlite3_column_bytes(row, 3) == len);
    const char *damaged = !sound                            ? "model"
                          : sqlite3_column_int(row, 5) == 0 ? "residual"
                          : sqlite3_column_int(row, 6) == 0 ? "strategy's state"
                                                            : NULL;
    if (damaged != NULL) {
        sqlite3_reset(row);
        return fed_fail(err, FED_EFORMAT, "the %s of task %llu is damaged", damaged,
                        (unsigned long long)task);
    }
    fedserver_model_row read = {.version = (uint32_t)sqlite3_column_int64(row, 0),
                                .digest = (uint64_t)sqlite3_column_int64(row, 1),
                                .values = blob_read(row, 2),
                                .residual = blob_read(row, 3),
                                .size = (size_t)len / sizeof(float),
                                .state = blob_read(row, 4),
                                .state_len = (size_t)sqlite3_column_bytes(row, 4)};
    sqlite3_reset(row);
    if ((len > 0 && read.values == NULL) || (residual && read.residual == NULL) ||
        (read.state_len > 0 && read.state == NULL)) {
        free(read.values);
        free(read.residual);
        free(read.state);
        return fed_fail(err, FED_ENOMEM, "out of memory for a model of %d bytes", len);
    }
    *model = read;
    return FED_OK;
}

static fed_status delta_add(void *db, uint64_t task, uint32_t version, const uint8_t *part,
                            size_t len, fed_error *err) {
    return WRITE(DELTA_ADD, INT(task), INT(version), BLOB(part, len));
}

static fed_status delta_prune(void *db, uint64_t task, uint32_t version, fed_error *err) {
    return WRITE(DELTA_PRUNE, INT(task), INT(version));
}

static fed_status delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
                             fedserver_delta_visit visit, void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(DELTA_EACH, &row, INT(task), INT(after), INT(last)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        const uint8_t *part = sqlite3_column_blob(row, 1);
        fed_status status = visit(user, (uint32_t)sqlite3_column_int64(row, 0), part,
                                  (size_t)sqlite3_column_bytes(row, 1), err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

static fed_status delta_sum(void *db, uint64_t task, uint32_t after, uint32_t *count,
                            uint64_t *bytes, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(DELTA_SUM, &row, INT(task), INT(after)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    *count = (uint32_t)sqlite3_column_int64(row, 0);
    *bytes = (uint64_t)sqlite3_column_int64(row, 1);
    sqlite3_reset(row);
    return FED_OK;
}

static fed_status keyframe_add(void *db, uint64_t task, const fedserver_keyframe *keyframe,
                               fed_error *err) {
    return WRITE(KEYFRAME_ADD, INT(task), INT(keyframe->version), INT(keyframe->digest),
                 BLOB(keyframe->values, keyframe->size * sizeof(float)));
}

static fed_status keyframe_find(void *db, uint64_t task, uint32_t version,
                                fedserver_keyframe *keyframe, float **values, fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(KEYFRAME_FIND, &row, INT(task), INT(version)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu has no model kept of version %u or before",
                        (unsigned long long)task, version);
    }
    *keyframe = (fedserver_keyframe){.version = (uint32_t)sqlite3_column_int64(row, 0),
                                     .digest = (uint64_t)sqlite3_column_int64(row, 1),
                                     .size = (size_t)sqlite3_column_int64(row, 2) / sizeof(float)};
    float *copy = values != NULL ? blob_read(row, 3) : NULL;
    sqlite3_reset(row);
    if (values != NULL && copy == NULL && keyframe->size > 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for version %u of the model", version);
    }
    if (values != NULL) {
        *values = copy;
    }
    return FED_OK;
}

static fed_status keyframe_prune(void *db, uint64_t task, uint32_t version, fed_error *err) {
    return WRITE(KEYFRAME_PRUNE, INT(task), INT(version));
}

/* -- rounds, metrics; updates are in updates.c -- */

static fed_status round_put(void *db, uint64_t task, const fedserver_round_row *row,
                            fed_error *err) {
    return WRITE(ROUND_PUT, INT(task), INT(row->number), INT(row->attempts), INT(row->opened_ms),
                 INT(row->deadline_ms), INT(row->committed_ms), INT(row->updates),
                 INT(row->samples), REAL(row->loss), INT(row->update_bytes), INT(row->delta_bytes),
                 INT(row->heaviest.device), REAL(row->heaviest.amount), INT(row->furthest.device),
                 REAL(row->furthest.amount));
}

static void round_read(sqlite3_stmt *row, fedserver_round_row *round) {
    *round = (fedserver_round_row){
        .number = (uint32_t)sqlite3_column_int64(row, 0),
        .attempts = (uint32_t)sqlite3_column_int64(row, 1),
        .opened_ms = sqlite3_column_int64(row, 2),
        .deadline_ms = sqlite3_column_int64(row, 3),
        .committed_ms = sqlite3_column_int64(row, 4),
        .updates = (uint32_t)sqlite3_column_int64(row, 5),
        .samples = (uint64_t)sqlite3_column_int64(row, 6),
        .loss = sqlite3_column_double(row, 7),
        .update_bytes = (uint64_t)sqlite3_column_int64(row, 8),
        .delta_bytes = (uint64_t)sqlite3_column_int64(row, 9),
        .measured = sqlite3_column_int(row, 10) != 0,
        .accuracy = sqlite3_column_double(row, 11),
        .test_loss = sqlite3_column_double(row, 12),
        .heaviest = {.device = sqlite3_column_int64(row, 13),
                     .amount = sqlite3_column_double(row, 14)},
        .furthest = {.device = sqlite3_column_int64(row, 15),
                     .amount = sqlite3_column_double(row, 16)},
    };
    fedserver_database_text(row, 17, round->heaviest.name, sizeof round->heaviest.name);
    fedserver_database_text(row, 18, round->furthest.name, sizeof round->furthest.name);
}

static fed_status round_each(void *db, uint64_t task, uint32_t limit, fedserver_round_visit visit,
                             void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(ROUND_EACH, &row, INT(task), INT(limit)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_round_row round;
        round_read(row, &round);
        fed_status status = visit(user, &round, err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

static fed_status metric_put(void *db, int64_t device, const fed_metric *metric, fed_error *err) {
    return WRITE(METRIC_PUT, INT(metric->task), INT(metric->version), INT(device),
                 INT(metric->samples), INT(metric->correct), REAL(metric->loss));
}

extern const fedserver_store fedserver_store_sqlite; /* stores.def declares it to its readers */

const fedserver_store fedserver_store_sqlite = {
    .name = "sqlite",
    .exists = store_exists,
    .create = store_create,
    .open = store_open,
    .close = store_close,
    .lock = fedserver_sqlite_lock,
    .holder = fedserver_sqlite_holder,
    .copy = store_copy,
    .check = fedserver_sqlite_check,
    .recover = fedserver_sqlite_recover,
    .commit = fedserver_sqlite_commit,
    .rollback = fedserver_sqlite_rollback,
    .changed = store_changed,
    .token_add = token_add,
    .token_find = token_find,
    .token_each = token_each,
    .token_withdraw = token_withdraw,
    .token_use = token_use,
    .pass_add = fedserver_sqlite_pass_add,
    .pass_find = fedserver_sqlite_pass_find,
    .pass_use = fedserver_sqlite_pass_use,
    .pass_end = fedserver_sqlite_pass_end,
    .device_add = device_add,
    .device_put = device_put,
    .device_revoke = device_revoke,
    .device_name = device_name,
    .device_rename = device_rename,
    .device_renew = device_renew,
    .device_find = device_find,
    .device_each = device_each,
    .device_page = device_page,
    .device_count = device_count,
    .task_add = fedserver_sqlite_task_add,
    .task_find = fedserver_sqlite_task_find,
    .task_put = fedserver_sqlite_task_put,
    .task_each = fedserver_sqlite_task_each,
    .task_place = fedserver_sqlite_task_place,
    .task_clear = fedserver_sqlite_task_clear,
    .shrink = fedserver_sqlite_shrink,
    .decline_put = fedserver_sqlite_decline_put,
    .decline_each = fedserver_sqlite_decline_each,
    .decline_forget = fedserver_sqlite_decline_forget,
    .model_put = model_put,
    .model_find = model_find,
    .delta_add = delta_add,
    .delta_prune = delta_prune,
    .delta_each = delta_each,
    .delta_sum = delta_sum,
    .keyframe_add = keyframe_add,
    .keyframe_find = keyframe_find,
    .keyframe_prune = keyframe_prune,
    .round_put = round_put,
    .round_each = round_each,
    .update_add = fedserver_sqlite_update_add,
    .update_each = fedserver_sqlite_update_each,
    .update_count = fedserver_sqlite_update_count,
    .update_clear = fedserver_sqlite_update_clear,
    .piece_add = fedserver_sqlite_piece_add,
    .piece_find = fedserver_sqlite_piece_find,
    .piece_join = fedserver_sqlite_piece_join,
    .piece_clear = fedserver_sqlite_piece_clear,
    .piece_prune = fedserver_sqlite_piece_prune,
    .audit_add = fedserver_sqlite_audit_add,
    .audit_each = fedserver_sqlite_audit_each,
    .metric_put = metric_put,
};
