/* The store in memory: models, rounds, updates and pieces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fedserver/stores/memory/memory_tables.h"

/* -- models, deltas, keyframes -- */

/* A model's row: this, then values, residual and state, as far as there are any. */
typedef struct stored_model {
    uint32_t version;
    bool has_residual;
    uint64_t digest;
    size_t size, state_len;
} stored_model;

fed_status fedserver_memory_model_put(void *db, uint64_t task, const fedserver_model_row *model,
                                      fed_error *err) {
    const stored_model head = {.version = model->version,
                               .has_residual = model->residual != NULL,
                               .digest = model->digest,
                               .size = model->size,
                               .state_len = model->state != NULL ? model->state_len : 0};
    fed_writer body;
    fed_writer_growing(&body);
    fed_write_bytes(&body, model->values, model->size * sizeof(float));
    if (head.has_residual) {
        fed_write_bytes(&body, model->residual, model->size * sizeof(float));
    }
    fed_write_bytes(&body, model->state, head.state_len);
    fed_status status = body.status == FED_OK
                            ? fedserver_memory_put(db, MEMORY_MODELS, MEMORY_KEY(task), false,
                                                   &head, sizeof head, body.data, body.len, err)
                            : fed_fail(err, body.status, "out of memory for a model");
    fed_writer_free(&body);
    return status;
}

/* Memory of its own; NULL where there is nothing to copy, or no memory. */
static void *copy_bytes(const void *bytes, size_t len) {
    void *copy = len > 0 ? malloc(len) : NULL;
    if (copy != NULL) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

fed_status fedserver_memory_model_find(void *db, uint64_t task, fedserver_model_row *model,
                                       fed_error *err) {
    const memory_row *row = fedserver_memory_find(db, MEMORY_MODELS, MEMORY_KEY(task));
    if (row == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu has no model", (unsigned long long)task);
    }
    const stored_model *head = HEAD(row, stored_model);
    const size_t len = head->size * sizeof(float);
    const uint8_t *at = (const uint8_t *)(head + 1);
    const size_t residual_len = head->has_residual ? len : 0;
    fedserver_model_row read = {.version = head->version,
                                .digest = head->digest,
                                .values = copy_bytes(at, len),
                                .residual = copy_bytes(at + len, residual_len),
                                .size = head->size,
                                .state = copy_bytes(at + len + residual_len, head->state_len),
                                .state_len = head->state_len};
    if ((len > 0 && read.values == NULL) || (residual_len > 0 && read.residual == NULL) ||
        (read.state_len > 0 && read.state == NULL)) {
        free(read.values);
        free(read.residual);
        free(read.state);
        return fed_fail(err, FED_ENOMEM, "out of memory for a model of %zu bytes", len);
    }
    *model = read;
    return FED_OK;
}

fed_status fedserver_memory_delta_add(void *db, uint64_t task, uint32_t version,
                                      const uint8_t *part, size_t len, const uint64_t *kept,
                                      fed_error *err) {
    (void)kept;
    return fedserver_memory_put(db, MEMORY_DELTAS, MEMORY_KEY(task, version), true, part, len, NULL,
                                0, err);
}

fed_status fedserver_memory_delta_prune(void *db, uint64_t task, uint32_t version, fed_error *err) {
    return fedserver_memory_drop(db, MEMORY_DELTAS, MEMORY_KEY(task), MEMORY_KEY(task, version),
                                 err);
}

fed_status fedserver_memory_delta_each(void *db, uint64_t task, uint32_t after, uint32_t last,
                                       fedserver_delta_visit visit, void *user, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(
        db, MEMORY_DELTAS, MEMORY_KEY(task, (uint64_t)after + 1), MEMORY_KEY(task, last));
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        status = visit(user, (uint32_t)row->key.part[1], row->bytes, row->len, err);
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

fed_status fedserver_memory_delta_sum(void *db, uint64_t task, uint32_t after, uint32_t *count,
                                      uint64_t *bytes, fed_error *err) {
    const memory_row *row;
    (void)err;
    memory_walk walk = fedserver_memory_walk_begin(
        db, MEMORY_DELTAS, MEMORY_KEY(task, (uint64_t)after + 1), MEMORY_KEY(task, UINT64_MAX));
    for (*count = 0, *bytes = 0; (row = fedserver_memory_walk_next(&walk)) != NULL; ++*count) {
        *bytes += row->len;
    }
    fedserver_memory_walk_end(&walk);
    return FED_OK;
}

fed_status fedserver_memory_keyframe_add(void *db, uint64_t task,
                                         const fedserver_keyframe *keyframe, fed_error *err) {
    fedserver_keyframe head = *keyframe;
    head.values = NULL;
    return fedserver_memory_put(db, MEMORY_KEYFRAMES, MEMORY_KEY(task, head.version), true, &head,
                                sizeof head, keyframe->values, head.size * sizeof(float), err);
}

fed_status fedserver_memory_keyframe_find(void *db, uint64_t task, uint32_t version,
                                          fedserver_keyframe *keyframe, float **values,
                                          fed_error *err) {
    const memory_row *row =
        fedserver_memory_find_last(db, MEMORY_KEYFRAMES, MEMORY_KEY(task, version));
    if (row == NULL || row->key.part[0] != task) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu has no model kept of version %u or before",
                        (unsigned long long)task, version);
    }
    const fedserver_keyframe *head = HEAD(row, fedserver_keyframe);
    float *copy = values != NULL ? copy_bytes(head + 1, head->size * sizeof(float)) : NULL;
    if (values != NULL && copy == NULL && head->size > 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for version %u of the model", version);
    }
    if (values != NULL) {
        *values = copy;
    }
    *keyframe = *head;
    return FED_OK;
}

fed_status fedserver_memory_keyframe_prune(void *db, uint64_t task, uint32_t version,
                                           fed_error *err) {
    return version > 0 ? fedserver_memory_drop(db, MEMORY_KEYFRAMES, MEMORY_KEY(task),
                                               MEMORY_KEY(task, version - 1), err)
                       : FED_OK;
}

/* -- rounds and metrics -- */

fed_status fedserver_memory_round_put(void *db, uint64_t task, const fedserver_round_row *row,
                                      fed_error *err) {
    return fedserver_memory_put(db, MEMORY_ROUNDS, MEMORY_KEY(task, row->number), false, row,
                                sizeof *row, NULL, 0, err);
}

static void say_name(memory_db *db, fedserver_standout *standout) {
    const fedserver_device *device = fedserver_memory_device(db, standout->device);
    standout->name[0] = '\0';
    if (device != NULL) {
        fed_hex(device->fingerprint, 8, standout->name);
    }
}

/* Round k made version k: its quality is the sum over all evaluators' samples. */
static void measure(memory_db *db, uint64_t task, fedserver_round_row *round) {
    const memory_row *row;
    double samples = 0, correct = 0, loss = 0;
    memory_walk walk =
        fedserver_memory_walk_begin(db, MEMORY_METRICS, MEMORY_KEY(task, round->number),
                                    MEMORY_KEY(task, round->number, UINT64_MAX, UINT64_MAX));
    round->measured = walk.next < walk.end;
    while ((row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fed_metric *metric = HEAD(row, fed_metric);
        samples += metric->samples;
        correct += metric->correct;
        loss += (double)metric->loss * metric->samples;
    }
    fedserver_memory_walk_end(&walk);
    round->accuracy = samples > 0 ? correct / samples : 0;
    round->test_loss = samples > 0 ? loss / samples : 0;
}

fed_status fedserver_memory_round_each(void *db, uint64_t task, uint32_t limit,
                                       fedserver_round_visit visit, void *user, fed_error *err) {
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_ROUNDS, MEMORY_OF(task));
    for (size_t at = walk.end; at > walk.next && limit > 0 && status == FED_OK; at--, limit--) {
        fedserver_round_row round = *HEAD(walk.rows->rows[at - 1], fedserver_round_row);
        say_name(db, &round.heaviest);
        say_name(db, &round.furthest);
        measure(db, task, &round);
        status = visit(user, &round, err);
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

fed_status fedserver_memory_metric_put(void *db, int64_t device, const fed_metric *metric,
                                       fed_error *err) {
    return fedserver_memory_put(db, MEMORY_METRICS,
                                MEMORY_KEY(metric->task, metric->version, (uint64_t)device), false,
                                metric, sizeof *metric, NULL, 0, err);
}

/* A row has all metrics of its device and version, one after the other. */
fed_status fedserver_memory_own_put(void *db, uint64_t task, uint32_t version, int64_t device,
                                    const fedserver_own_metric *rows, size_t count,
                                    fed_error *err) {
    const memory_key key = MEMORY_KEY(task, version, (uint64_t)device);
    return count > 0 ? fedserver_memory_put(db, MEMORY_OWN, key, false, rows, count * sizeof *rows,
                                            NULL, 0, err)
                     : fedserver_memory_drop(db, MEMORY_OWN, key, key, err);
}

fed_status fedserver_memory_own_each(void *db, uint64_t task, uint32_t first,
                                     fedserver_own_row_visit visit, void *user, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk =
        fedserver_memory_walk_begin(db, MEMORY_OWN, MEMORY_KEY(task, first),
                                    MEMORY_KEY(task, UINT64_MAX, UINT64_MAX, UINT64_MAX));
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_own_metric *rows = HEAD(row, fedserver_own_metric);
        for (size_t k = 0; k < row->len / sizeof *rows && status == FED_OK; k++) {
            status =
                visit(user, (uint32_t)row->key.part[1], (int64_t)row->key.part[2], &rows[k], err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

/* -- updates and pieces -- */

fed_status fedserver_memory_update_add(void *db, const fedserver_update_row *row,
                                       const uint8_t *body, size_t len, fed_error *err) {
    const memory_update head = {.row = *row};
    assert(row->lease != 0 && row->device != 0); /* S3: an update is a lease's */
    const memory_row *other;
    bool taken = false;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_UPDATES, MEMORY_ALL);
    while (!taken && (other = fedserver_memory_walk_next(&walk)) != NULL) {
        taken = HEAD(other, memory_update)->row.lease == row->lease;
    }
    fedserver_memory_walk_end(&walk);
    if (taken) {
        fed_error why = {0};
        return fedserver_memory_note(
            db, fed_fail(&why, FED_EIO, "that lease has an update already"), &why, err);
    }
    return fedserver_memory_put(db, MEMORY_UPDATES,
                                MEMORY_KEY(fedserver_memory_next(db, MEMORY_UPDATES)), true, &head,
                                sizeof head, body, len, err);
}

fed_status fedserver_memory_update_each(void *db, uint64_t task, uint32_t round,
                                        fedserver_update_visit visit, void *user, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_UPDATES, MEMORY_ALL);
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const memory_update *head = HEAD(row, memory_update);
        if ((task == 0 || head->row.task == task) && (round == 0 || head->row.round == round)) {
            status =
                visit(user, &head->row, (const uint8_t *)(head + 1), row->len - sizeof *head, err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

static fed_status count_update(void *user, const fedserver_update_row *row, const uint8_t *body,
                               size_t len, fed_error *err) {
    (void)row, (void)body, (void)len, (void)err;
    ++*(uint32_t *)user;
    return FED_OK;
}

fed_status fedserver_memory_update_count(void *db, uint64_t task, uint32_t round, uint32_t *count,
                                         fed_error *err) {
    *count = 0;
    return fedserver_memory_update_each(db, task, round, count_update, count, err);
}

fed_status fedserver_memory_update_clear(void *db, uint64_t task, uint32_t round, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_UPDATES, MEMORY_ALL);
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_update_row *update = &HEAD(row, memory_update)->row;
        if (update->task == task && update->round <= round) {
            status = fedserver_memory_drop(db, MEMORY_UPDATES, row->key, row->key, err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}

fed_status fedserver_memory_piece_add(void *db, int64_t device, const fed_piece *piece,
                                      const uint8_t *data, size_t len, fed_error *err) {
    return fedserver_memory_put(db, MEMORY_PIECES, MEMORY_KEY((uint64_t)device, piece->offset),
                                true, piece, sizeof *piece, data, len, err);
}

fed_status fedserver_memory_piece_find(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                                       fed_error *err) {
    const memory_row *row =
        fedserver_memory_find_last(db, MEMORY_PIECES, MEMORY_KEY((uint64_t)device, UINT64_MAX));
    if (row == NULL || row->key.part[0] != (uint64_t)device) {
        return fed_fail(err, FED_ENOTFOUND, "device %lld is not sending pieces", (long long)device);
    }
    const fed_piece *kept = HEAD(row, fed_piece);
    *piece = (fed_piece){
        .lease = kept->lease, .digest = kept->digest, .total = kept->total, .offset = kept->offset};
    *end = kept->offset + (row->len - sizeof *kept);
    return FED_OK;
}

fed_status fedserver_memory_piece_join(void *db, int64_t device, uint8_t *dst, size_t cap,
                                       size_t *len, fed_error *err) {
    const memory_row *row;
    size_t at = 0;
    bool whole = true;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_PIECES, MEMORY_OF((uint64_t)device));
    while (whole && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fed_piece *piece = HEAD(row, fed_piece);
        const size_t size = row->len - sizeof *piece;
        whole = piece->offset == at && size <= cap - at && size > 0;
        if (whole) {
            memcpy(dst + at, piece + 1, size);
            at += size;
        }
    }
    fedserver_memory_walk_end(&walk);
    if (!whole) {
        return fed_fail(err, FED_EFORMAT, "the pieces of device %lld's update leave a gap",
                        (long long)device);
    }
    *len = at;
    return FED_OK;
}

fed_status fedserver_memory_piece_clear(void *db, int64_t device, fed_error *err) {
    return fedserver_memory_drop(db, MEMORY_PIECES, MEMORY_OF((uint64_t)device), err);
}

fed_status fedserver_memory_lease_prune(void *db, uint64_t task, uint32_t round, fed_error *err) {
    const memory_row *row;
    fed_status status = FED_OK;
    memory_walk walk = fedserver_memory_walk_begin(db, MEMORY_DEVICES, MEMORY_ALL);
    while (status == FED_OK && (row = fedserver_memory_walk_next(&walk)) != NULL) {
        const fedserver_device *device = HEAD(row, fedserver_device);
        if (device->lease_task == task && device->lease_round < round) {
            status = fedserver_memory_piece_clear(db, device->id, err);
        }
    }
    fedserver_memory_walk_end(&walk);
    return status;
}
