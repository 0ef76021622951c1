/* The tables of models, deltas and keyframes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/sqlite_rows.h"

fed_status fedserver_sqlite_model_put(void *db, uint64_t task, const fedserver_model_row *model,
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

fed_status fedserver_sqlite_model_find(void *db, uint64_t task, fedserver_model_row *model,
                                       fed_error *err) {
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

fed_status fedserver_sqlite_delta_add(void *db, uint64_t task, uint32_t version,
                                      const uint8_t *part, size_t len, fed_error *err) {
    assert(version > 0); /* D5: it leads from the version before */
    return WRITE(DELTA_ADD, INT(task), INT(version), BLOB(part, len));
}

fed_status fedserver_sqlite_delta_prune(void *db, uint64_t task, uint32_t version, fed_error *err) {
    return WRITE(DELTA_PRUNE, INT(task), INT(version));
}

fed_status fedserver_sqlite_delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
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
    return WRITE(KEYFRAME_ADD, INT(task), INT(keyframe->version), INT(keyframe->digest),
                 BLOB(keyframe->values, keyframe->size * sizeof(float)));
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

fed_status fedserver_sqlite_keyframe_prune(void *db, uint64_t task, uint32_t version,
                                           fed_error *err) {
    return WRITE(KEYFRAME_PRUNE, INT(task), INT(version));
}
