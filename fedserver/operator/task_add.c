/* Reads a task from its file, checks it, and puts it into the queue. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/operator/task_add.h"

#include <stdlib.h>

#include "fed/hash.h"
#include "fedserver/audit_log.h"
#include "fedserver/operator/needs.h"
#include "fedserver/task/config.h"

fed_status fedserver_task_fits(const fedserver *server, const fedserver_task *task,
                               fed_error *err) {
    fedserver_needs needs;
    FED_TRY(fedserver_needs_estimate(task, &needs, err));
    FED_TRY(fedserver_needs_check(&needs, server->store->row_limit, server->directory, err));
    return fedserver_needs_fit(server, &needs, err);
}

static fed_status write_task(fedserver *server, fedserver_task *task, float *values, size_t size,
                             fed_error *err) {
    FED_TRY(server->store->task_add(server->db, task, err));
    const fedserver_store *store = server->store;
    const fedserver_model_row row = {.digest = fed_digest(values, size),
                                     .values = values,
                                     .size = size,
                                     .kept = size >= FEDSERVER_APART_VALUES};
    if (row.kept) {
        FED_TRY(store->blob_put(server->db, task->wire.id, row.digest, values,
                                size * sizeof *values, err));
    }
    FED_TRY(store->model_put(server->db, task->wire.id, &row, err));
    return fedserver_audit(server, FED_LOG_INFO, task->queued_ms, "task_queued", err,
                           "task=%llu name=\"%s\"", (unsigned long long)task->wire.id, task->name);
}

fed_status fedserver_task_queue(fedserver *server, fedserver_task *task, float *values, size_t size,
                                fed_error *err) {
    FED_TRY(fedserver_finish(server, write_task(server, task, values, size, err), err));
    server->rounds.queue_changed = true;
    return FED_OK;
}

fed_status fedserver_task_add(fedserver *server, int64_t now_ms, const char *path, uint64_t *id,
                              fed_error *err) {
    fedserver_config config;
    float *values;
    size_t size;
    FED_TRY(fedserver_config_read(path, &config, err));
    FED_TRY(fedserver_task_fits(server, &config.task, err));
    FED_TRY(fedserver_config_values(&config, &values, &size, err));
    config.task.queued_ms = now_ms;
    fed_status status = fedserver_task_queue(server, &config.task, values, size, err);
    free(values);
    FED_TRY(status);
    *id = config.task.wire.id;
    return FED_OK;
}

fed_status fedserver_task_check(const char *path, const char *text, size_t len, fed_error *err) {
    fedserver_config config;
    return fedserver_config_parse(path, text, len, &config, err);
}
