/* Reads a task from its file, checks it, and puts it into the queue. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/operator/task_add.h"

#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedserver/audit_log.h"
#include "fedserver/operator/needs.h"
#include "fedserver/task/config.h"

fed_status fedserver_task_fits(const fedserver *server, const fedserver_task *task,
                               const fed_layout *layout, fed_error *err) {
    fedserver_needs needs;
    FED_TRY(fedserver_needs_estimate(task, layout, &needs, err));
    FED_TRY(fedserver_needs_check(&needs, server->store->row_limit, server->directory, err));
    return fedserver_needs_fit(server, &needs, err);
}

static fed_status write_task(fedserver *server, const fedserver_new_task *fresh, fed_error *err) {
    const fedserver_store *store = server->store;
    fedserver_task *task = fresh->task;
    FED_TRY(store->task_add(server->db, task, err));
    if (fresh->layout != NULL) {
        FED_TRY(store->layout_put(server->db, task->wire.id, fresh->layout, strlen(fresh->layout),
                                  err));
    }
    const fedserver_model_row row = {.digest = fed_digest(fresh->values, fresh->size),
                                     .values = fresh->values,
                                     .size = fresh->size,
                                     .kept = fresh->size >= FEDSERVER_APART_VALUES};
    if (row.kept) {
        FED_TRY(store->blob_put(server->db, task->wire.id, row.digest, fresh->values,
                                fresh->size * sizeof *fresh->values, err));
    }
    FED_TRY(store->model_put(server->db, task->wire.id, &row, err));
    return fedserver_audit(server, FED_LOG_INFO, task->queued_ms, "task_queued", err,
                           "task=%llu name=\"%s\"", (unsigned long long)task->wire.id, task->name);
}

fed_status fedserver_task_queue(fedserver *server, const fedserver_new_task *fresh,
                                fed_error *err) {
    FED_TRY(fedserver_finish(server, write_task(server, fresh, err), err));
    server->rounds.queue_changed = true;
    return FED_OK;
}

static fed_status check_room(const fedserver *server, const fedserver_config *config,
                             fed_error *err) {
    fed_arch arch;
    FED_TRY(fedserver_config_model(config, &arch, err));
    const fed_status status = fedserver_task_fits(server, &config->task, &arch.layout, err);
    fed_arch_free(&arch);
    return status;
}

static fed_status queue_config(fedserver *server, fedserver_config *config, fed_error *err) {
    fedserver_new_task fresh = {.task = &config->task, .layout = config->layout};
    FED_TRY(check_room(server, config, err));
    FED_TRY(fedserver_config_values(config, &fresh.values, &fresh.size, err));
    const fed_status status = fedserver_task_queue(server, &fresh, err);
    free(fresh.values);
    return status;
}

fed_status fedserver_task_add(fedserver *server, int64_t now_ms, const char *path, uint64_t *id,
                              fed_error *err) {
    fedserver_config config;
    FED_TRY(fedserver_config_read(path, &config, err));
    config.task.queued_ms = now_ms;
    const fed_status status = queue_config(server, &config, err);
    fedserver_config_free(&config);
    FED_TRY(status);
    *id = config.task.wire.id;
    return FED_OK;
}

fed_status fedserver_task_check(const char *path, const char *text, size_t len, fed_error *err) {
    fedserver_config config;
    FED_TRY(fedserver_config_parse(path, text, len, &config, err));
    fedserver_config_free(&config);
    return FED_OK;
}
