/* The tables of models, deltas and keyframes. A row holds an array of values itself, or names the
 * blob that holds it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

static const char *advice(const void *db) {
    return ((const fedserver_sql_db *)db)->engine->advice;
}

fed_status fedserver_sql_blob_named(void *db, uint64_t task, uint64_t digest, void **bytes,
                                    size_t *len, fed_error *err) {
    const fedserver_engine *engine = ((const fedserver_sql_db *)db)->engine;
    fed_error why = {0};
    const fed_status status = bytes != NULL ? engine->blob_find(db, task, digest, bytes, len, &why)
                                            : engine->blob_length(db, task, digest, len, &why);
    /* a row names the blob, so a missing one is damage (S9 in docs/durability.md) */
    if (status == FED_ENOTFOUND) {
        return fed_fail(err, FED_EFORMAT, "%s%s", why.text, engine->advice);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
}

static fedserver_value guard_of(const void *bytes, size_t len) {
    const fedserver_value none = NO_INT;
    const fedserver_value guard = INT(bytes != NULL ? fed_digest_bytes(bytes, len) : 0);
    return bytes != NULL ? guard : none;
}

/* Write a model's row that names blobs, which blob_put has stored, in place of holding bytes. */
static fed_status name_model(void *db, uint64_t task, const fedserver_model_row *model,
                             fed_error *err) {
    /* S9 in docs/durability.md: the model's bytes are blobs. */
    assert(model->kept && (model->state_len == 0 || model->state != NULL));
    const fedserver_value none = NO_INT;
    const fedserver_value residual = INT(model->residual_digest);
    const fedserver_value state = INT(model->state_digest);
    const fedserver_value values[] = {INT(task),
                                      INT(model->version),
                                      INT(model->digest),
                                      BLOB("", 0),
                                      BLOB(NULL, 0),
                                      BLOB(NULL, 0),
                                      model->residual != NULL ? residual : none,
                                      model->state_len > 0 ? state : none,
                                      INT(1)};
    return fedserver_sql_write(db, FEDSERVER_SQL_MODEL_PUT, values, COUNT(values), NULL, err);
}

fed_status fedserver_sql_model_put(void *db, uint64_t task, const fedserver_model_row *model,
                                   fed_error *err) {
    const size_t len = model->size * sizeof(float);
    if (model->kept) {
        return name_model(db, task, model, err);
    }
    return WRITE(MODEL_PUT, INT(task), INT(model->version), INT(model->digest),
                 BLOB(model->values, len), BLOB(model->residual, len),
                 BLOB(model->state, model->state_len), guard_of(model->residual, len),
                 guard_of(model->state, model->state_len), INT(0));
}

/* The caller frees *copy, which is NULL for SQL's NULL and for an empty value. */
static fed_status copy_bytes(const fedserver_sql_row *row, int column, void **copy, size_t *len,
                             fed_error *err) {
    const void *bytes = fedserver_sql_row_bytes(row, column, len);
    *copy = *len > 0 ? malloc(*len) : NULL;
    if (*copy == NULL) {
        return *len == 0
                   ? FED_OK
                   : fed_fail(err, FED_ENOMEM, "out of memory for %zu bytes of a model", *len);
    }
    memcpy(*copy, bytes, *len);
    return FED_OK;
}

/* Do the column's bytes fit their checksum in column `guard`? Column `guarded` says whether the
 * row has a checksum. Where it has none, there must be no bytes. */
static bool fits_guard(const fedserver_sql_row *row, int column, int guard, int guarded) {
    size_t len;
    const void *bytes = fedserver_sql_row_bytes(row, column, &len);
    return fedserver_sql_row_int(row, guarded) == 0
               ? bytes == NULL
               : fed_digest_bytes(bytes != NULL ? bytes : "", len) ==
                     (uint64_t)fedserver_sql_row_int(row, guard);
}

static const char *find_damage(const fedserver_sql_row *row) {
    size_t len;
    size_t residual;
    (void)fedserver_sql_row_bytes(row, 2, &len);
    const bool has_residual = fedserver_sql_row_bytes(row, 3, &residual) != NULL;
    if (len % sizeof(float) != 0 || (has_residual && residual != len)) {
        return "model";
    }
    return !fits_guard(row, 3, 5, 8)   ? "residual"
           : !fits_guard(row, 4, 6, 9) ? "strategy's state"
                                       : NULL;
}

static fed_status read_model(const fedserver_sql_row *row, fedserver_model_row *model,
                             fed_error *err) {
    fedserver_model_row read = {.version = (uint32_t)fedserver_sql_row_int(row, 0),
                                .digest = (uint64_t)fedserver_sql_row_int(row, 1)};
    size_t len = 0;
    size_t unused;
    void *copies[3] = {NULL, NULL, NULL};
    fed_status status = copy_bytes(row, 2, &copies[0], &len, err);
    status = status == FED_OK ? copy_bytes(row, 3, &copies[1], &unused, err) : status;
    status = status == FED_OK ? copy_bytes(row, 4, &copies[2], &read.state_len, err) : status;
    if (status != FED_OK) {
        free(copies[0]);
        free(copies[1]);
        free(copies[2]);
        return status;
    }
    read.size = len / sizeof(float);
    read.values = copies[0];
    read.residual = copies[1];
    read.state = copies[2];
    *model = read;
    return FED_OK;
}

static void free_model(const fedserver_model_row *model) {
    free(model->values);
    free(model->residual);
    free(model->state);
}

static fed_status read_named(void *db, uint64_t task, bool residual, bool state,
                             fedserver_model_row *model, fed_error *err) {
    void *bytes = NULL;
    size_t len = 0;
    size_t residual_len = 0;
    FED_TRY(fedserver_sql_blob_named(db, task, model->digest, &bytes, &len, err));
    model->values = bytes;
    model->size = len / sizeof(float);
    if (residual) {
        FED_TRY(
            fedserver_sql_blob_named(db, task, model->residual_digest, &bytes, &residual_len, err));
        model->residual = bytes;
    }
    if (len % sizeof(float) != 0 || (residual && residual_len != len)) {
        return fed_fail(err, FED_EFORMAT, "the model of task %llu is damaged%s",
                        (unsigned long long)task, advice(db));
    }
    if (state) {
        FED_TRY(fedserver_sql_blob_named(db, task, model->state_digest, &bytes, &model->state_len,
                                         err));
        model->state = bytes;
    }
    return FED_OK;
}

static fed_status find_named(void *db, uint64_t task, fedserver_sql_row *row,
                             fedserver_model_row *model, fed_error *err) {
    fedserver_model_row read = {.version = (uint32_t)fedserver_sql_row_int(row, 0),
                                .digest = (uint64_t)fedserver_sql_row_int(row, 1),
                                .kept = true,
                                .residual_digest = (uint64_t)fedserver_sql_row_int(row, 5),
                                .state_digest = (uint64_t)fedserver_sql_row_int(row, 6)};
    const bool residual = fedserver_sql_row_int(row, 8) != 0;
    const bool state = fedserver_sql_row_int(row, 9) != 0;
    fedserver_sql_row_end(row);
    const fed_status status = read_named(db, task, residual, state, &read, err);
    if (status != FED_OK) {
        free_model(&read);
        return status;
    }
    *model = read;
    return FED_OK;
}

fed_status fedserver_sql_model_find(void *db, uint64_t task, fedserver_model_row *model,
                                    fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(MODEL_FIND, &row, &found, INT(task)));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu has no model", (unsigned long long)task);
    }
    if (fedserver_sql_row_int(&row, 7) != 0) {
        return find_named(db, task, &row, model, err);
    }
    const char *damaged = find_damage(&row);
    fed_status status = damaged == NULL
                            ? read_model(&row, model, err)
                            : fed_fail(err, FED_EFORMAT, "the %s of task %llu is damaged%s",
                                       damaged, (unsigned long long)task, advice(db));
    fedserver_sql_row_end(&row);
    return status;
}

fed_status fedserver_sql_delta_add(void *db, uint64_t task, uint32_t version, const uint8_t *part,
                                   size_t len, const uint64_t *kept, fed_error *err) {
    fedserver_written written;
    const fedserver_value none = NO_INT;
    const fedserver_value digest = INT(kept != NULL ? *kept : 0);
    const fedserver_value size = INT(len);
    assert(version > 0); /* a delta leads from version - 1 to version */
    return WRITE_NOW(DELTA_ADD, &written, INT(task), INT(version),
                     BLOB(kept != NULL ? (const uint8_t *)"" : part, kept != NULL ? 0 : len),
                     kept != NULL ? digest : none, kept != NULL ? size : none);
}

fed_status fedserver_sql_delta_prune(void *db, uint64_t task, uint32_t version, fed_error *err) {
    return WRITE(DELTA_PRUNE, INT(task), INT(version));
}

static fed_status visit_delta(void *db, uint64_t task, const fedserver_sql_row *row,
                              fedserver_delta_visit visit, void *user, fed_error *err) {
    const uint32_t version = (uint32_t)fedserver_sql_row_int(row, 0);
    size_t len;
    if (fedserver_sql_row_int(row, 2) == 0) {
        const uint8_t *part = fedserver_sql_row_bytes(row, 1, &len);
        return visit(user, version, part, len, err);
    }
    void *bytes;
    FED_TRY(fedserver_sql_blob_named(db, task, (uint64_t)fedserver_sql_row_int(row, 3), &bytes,
                                     &len, err));
    const fed_status status = visit(user, version, bytes, len, err);
    free(bytes);
    return status;
}

/* Read one delta at a time, because all of them together may be larger than memory. */
fed_status fedserver_sql_delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
                                    fedserver_delta_visit visit, void *user, fed_error *err) {
    for (;;) {
        fedserver_sql_row row;
        bool found;
        FED_TRY(FIRST(DELTA_NEXT, &row, &found, INT(task), INT(after), INT(last)));
        if (!found) {
            return FED_OK;
        }
        after = (uint32_t)fedserver_sql_row_int(&row, 0);
        const fed_status status = visit_delta(db, task, &row, visit, user, err);
        fedserver_sql_row_end(&row);
        FED_TRY(status);
    }
}

fed_status fedserver_sql_delta_sum(void *db, uint64_t task, uint32_t after, uint32_t *count,
                                   uint64_t *bytes, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(DELTA_SUM, &row, &found, INT(task), INT(after)));
    *count = (uint32_t)fedserver_sql_row_int(&row, 0);
    *bytes = (uint64_t)fedserver_sql_row_int(&row, 1);
    fedserver_sql_row_end(&row);
    return FED_OK;
}

fed_status fedserver_sql_keyframe_add(void *db, uint64_t task, const fedserver_keyframe *keyframe,
                                      fed_error *err) {
    return WRITE(KEYFRAME_ADD, INT(task), INT(keyframe->version), INT(keyframe->digest),
                 BLOB(keyframe->kept ? (const void *)"" : keyframe->values,
                      keyframe->kept ? 0 : keyframe->size * sizeof(float)),
                 INT(keyframe->kept));
}

fed_status fedserver_sql_keyframe_find(void *db, uint64_t task, uint32_t version,
                                       fedserver_keyframe *keyframe, float **values,
                                       fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(KEYFRAME_FIND, &row, &found, INT(task), INT(version), INT(values != NULL)));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu has no stored model of version %u or before",
                        (unsigned long long)task, version);
    }
    *keyframe =
        (fedserver_keyframe){.version = (uint32_t)fedserver_sql_row_int(&row, 0),
                             .digest = (uint64_t)fedserver_sql_row_int(&row, 1),
                             .size = (size_t)fedserver_sql_row_int(&row, 2) / sizeof(float)};
    void *copy = NULL;
    size_t len = keyframe->size * sizeof(float);
    keyframe->kept = fedserver_sql_row_int(&row, 4) != 0;
    fed_status status = FED_OK;
    if (keyframe->kept) {
        status = fedserver_sql_blob_named(db, task, keyframe->digest, values != NULL ? &copy : NULL,
                                          &len, err);
    } else if (values != NULL) {
        status = copy_bytes(&row, 3, &copy, &len, err);
    }
    fedserver_sql_row_end(&row);
    keyframe->size = len / sizeof(float);
    if (status == FED_OK && values != NULL) {
        *values = copy;
    }
    return status;
}

fed_status fedserver_sql_keyframe_prune(void *db, uint64_t task, uint32_t version, fed_error *err) {
    return WRITE(KEYFRAME_PRUNE, INT(task), INT(version));
}
