/* The tables of models, deltas and keyframes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/sqlite_rows.h"

/* -- the newest model -- */

/* The row names blobs, which are on the disk already. */
static fed_status name_model(fedserver_database *db, uint64_t task,
                             const fedserver_model_row *model, fed_error *err) {
    assert(model->kept && (model->state_len == 0 || model->state != NULL)); /* S9 */
    const fedserver_value none = BLOB(NULL, 0);
    const fedserver_value residual = INT(model->residual_digest), state = INT(model->state_digest);
    const fedserver_value values[] = {INT(task), INT(model->version), INT(model->digest),
                                      model->residual != NULL ? residual : none,
                                      model->state_len > 0 ? state : none};
    return fedserver_database_write(db, FEDSERVER_SQL_MODEL_NAME, values, COUNT(values), err);
}

fed_status fedserver_sqlite_model_put(void *user, uint64_t task, const fedserver_model_row *model,
                                      fed_error *err) {
    fedserver_database *db = user;
    size_t len = model->size * sizeof(float);
    if (model->kept) {
        return name_model(db, task, model, err);
    }
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

static void free_model(fedserver_model_row *model) {
    free(model->values);
    free(model->residual);
    free(model->state);
}

/* A file that a row names and that is not there was lost. */
static fed_status say_lost(fed_status status, const fed_error *why, fed_error *err) {
    if (status == FED_ENOTFOUND) {
        return fed_fail(err, FED_EFORMAT, "%s" FEDSERVER_RESTORE, why->text);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why->text);
}

static fed_status find_blob(fedserver_database *db, uint64_t task, uint64_t digest, void **bytes,
                            size_t *len, fed_error *err) {
    fed_error why = {0};
    return say_lost(fedserver_sqlite_blob_find(db, task, digest, bytes, len, &why), &why, err);
}

/* residual, state: there is one */
static fed_status read_named(fedserver_database *db, uint64_t task, bool residual, bool state,
                             fedserver_model_row *model, fed_error *err) {
    void *values = NULL, *more = NULL;
    size_t len = 0, more_len = 0;
    FED_TRY(find_blob(db, task, model->digest, &values, &len, err));
    model->values = values;
    model->size = len / sizeof(float);
    if (residual) {
        FED_TRY(find_blob(db, task, model->residual_digest, &more, &more_len, err));
        model->residual = more;
    }
    if (len % sizeof(float) != 0 || (residual && more_len != len)) {
        return fed_fail(err, FED_EFORMAT, "the model of task %llu is damaged" FEDSERVER_RESTORE,
                        (unsigned long long)task);
    }
    if (state) {
        FED_TRY(find_blob(db, task, model->state_digest, &more, &model->state_len, err));
        model->state = more;
    }
    return FED_OK;
}

static fed_status find_named(fedserver_database *db, uint64_t task, sqlite3_stmt *row,
                             fedserver_model_row *model, fed_error *err) {
    fedserver_model_row read = {.version = (uint32_t)sqlite3_column_int64(row, 0),
                                .digest = (uint64_t)sqlite3_column_int64(row, 1),
                                .kept = true,
                                .residual_digest = (uint64_t)sqlite3_column_int64(row, 8),
                                .state_digest = (uint64_t)sqlite3_column_int64(row, 9)};
    const bool residual = sqlite3_column_type(row, 8) != SQLITE_NULL;
    const bool state = sqlite3_column_type(row, 9) != SQLITE_NULL;
    sqlite3_reset(row);
    fed_status status = read_named(db, task, residual, state, &read, err);
    if (status != FED_OK) {
        free_model(&read);
        return status;
    }
    *model = read;
    return FED_OK;
}

fed_status fedserver_sqlite_model_find(void *db, uint64_t task, fedserver_model_row *model,
                                       fed_error *err) {
    sqlite3_stmt *row;
    bool found;
    FED_TRY(READ(MODEL_FIND, &row, INT(task)));
    FED_TRY(fedserver_database_next(db, row, &found, err));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu has no model", (unsigned long long)task);
    }
    if (sqlite3_column_int(row, 7) != 0) {
        return find_named(db, task, row, model, err);
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
        return fed_fail(err, FED_EFORMAT, "the %s of task %llu is damaged" FEDSERVER_RESTORE,
                        damaged, (unsigned long long)task);
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
        free_model(&read);
        return fed_fail(err, FED_ENOMEM, "out of memory for a model of %d bytes", len);
    }
    *model = read;
    return FED_OK;
}

/* -- deltas -- */

fed_status fedserver_sqlite_delta_add(void *db, uint64_t task, uint32_t version,
                                      const uint8_t *part, size_t len, const uint64_t *kept,
                                      fed_error *err) {
    assert(version > 0); /* D5: it leads from the version before */
    return kept == NULL
               ? WRITE(DELTA_ADD, INT(task), INT(version), BLOB(part, len), BLOB(NULL, 0),
                       BLOB(NULL, 0))
               : WRITE(DELTA_ADD, INT(task), INT(version), BLOB("", 0), INT(*kept), INT(len));
}

fed_status fedserver_sqlite_delta_prune(void *db, uint64_t task, uint32_t version, fed_error *err) {
    return WRITE(DELTA_PRUNE, INT(task), INT(version));
}

/* Visit a delta, in its row or in a file of its own. */
static fed_status visit_delta(fedserver_database *db, uint64_t task, sqlite3_stmt *row,
                              fedserver_delta_visit visit, void *user, fed_error *err) {
    const uint32_t version = (uint32_t)sqlite3_column_int64(row, 0);
    if (sqlite3_column_type(row, 2) == SQLITE_NULL) {
        const uint8_t *part = sqlite3_column_blob(row, 1);
        return visit(user, version, part, (size_t)sqlite3_column_bytes(row, 1), err);
    }
    void *part = NULL;
    size_t len = 0;
    FED_TRY(find_blob(db, task, (uint64_t)sqlite3_column_int64(row, 2), &part, &len, err));
    fed_status status = visit(user, version, part, len, err);
    free(part);
    return status;
}

fed_status fedserver_sqlite_delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
                                       fedserver_delta_visit visit, void *user, fed_error *err) {
    sqlite3_stmt *row;
    bool more;
    FED_TRY(READ(DELTA_EACH, &row, INT(task), INT(after), INT(last)));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fed_status status = visit_delta(db, task, row, visit, user, err);
        if (status != FED_OK) {
            sqlite3_reset(row);
            return status;
        }
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

fed_status fedserver_sqlite_delta_sum(void *db, uint64_t task, uint32_t after, uint32_t *count,
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

fed_status fedserver_sqlite_keyframe_add(void *db, uint64_t task,
                                         const fedserver_keyframe *keyframe, fed_error *err) {
    const size_t len = keyframe->kept ? 0 : keyframe->size * sizeof(float);
    return WRITE(KEYFRAME_ADD, INT(task), INT(keyframe->version), INT(keyframe->digest),
                 BLOB(len > 0 ? (const void *)keyframe->values : "", len), INT(keyframe->kept));
}

/* The keyframe that a row names: its size, and its values where they are asked for. */
static fed_status find_kept(fedserver_database *db, uint64_t task, fedserver_keyframe *keyframe,
                            float **values, fed_error *err) {
    size_t len = 0;
    void *bytes = NULL;
    if (values == NULL) {
        fed_error why = {0};
        FED_TRY(
            say_lost(fedserver_sqlite_blob_len(db, task, keyframe->digest, &len, &why), &why, err));
    } else {
        FED_TRY(find_blob(db, task, keyframe->digest, &bytes, &len, err));
        *values = bytes;
    }
    keyframe->size = len / sizeof(float);
    return FED_OK;
}

fed_status fedserver_sqlite_keyframe_find(void *db, uint64_t task, uint32_t version,
                                          fedserver_keyframe *keyframe, float **values,
                                          fed_error *err) {
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
                                     .size = (size_t)sqlite3_column_int64(row, 2) / sizeof(float),
                                     .kept = sqlite3_column_int(row, 4) != 0};
    if (keyframe->kept) {
        sqlite3_reset(row);
        return find_kept(db, task, keyframe, values, err);
    }
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

fed_status fedserver_sqlite_keyframe_prune(void *db, uint64_t task, uint32_t version,
                                           fed_error *err) {
    return WRITE(KEYFRAME_PRUNE, INT(task), INT(version));
}
