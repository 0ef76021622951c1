/* Gives out a task's results: its model as a file, its rounds, and the devices' custom metrics. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/operator/task_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/checkpoint.h"
#include "fed/file.h"
#include "fedserver/rounds/own_table.h"
#include "fedserver/server.h"
#include "fedserver/stores/task_model.h"

static fed_status pick_task(fedserver *server, uint64_t id, fedserver_task *task, fed_error *err) {
    const fedserver_store *store = server->store;
    if (id != 0) {
        return store->task_find(server->db, FEDSERVER_PICK_ID, id, task, err);
    }
    fed_status status = store->task_find(server->db, FEDSERVER_PICK_RUNNING, 0, task, err);
    return status == FED_ENOTFOUND
               ? store->task_find(server->db, FEDSERVER_PICK_FINISHED, 0, task, err)
               : status;
}

/* names: of the tensors that are not in the model, since they are on the devices; "": none. */
static fed_status save_tensors(const fedserver_task *task, const fedserver_model_row *row,
                               const fed_arch *arch, const char *names, const char *path,
                               unsigned mode, fed_error *err) {
    char version[16];
    snprintf(version, sizeof version, "%u", row->version);
    const char *const metadata[] = {"task",
                                    task->name,
                                    "model",
                                    arch->text,
                                    "version",
                                    version,
                                    names[0] != '\0' ? "private_tensors" : NULL,
                                    names,
                                    NULL};
    return row->size == arch->layout.size
               ? fed_checkpoint_save_as(path, mode, &arch->layout, row->values, metadata, err)
               : fed_fail(err, FED_EFORMAT,
                          "the stored model of the task is damaged: restore a backup (fedserver "
                          "restore)");
}

static fed_status save_model(const fedserver *server, const fedserver_task *task,
                             const fedserver_model_row *row, const char *path, unsigned mode,
                             fed_error *err) {
    fed_arch arch;
    fed_writer names;
    uint64_t own = 0;
    FED_TRY(fedserver_task_model(server->store, server->db, task, &arch, err));
    fed_writer_growing(&names);
    fed_status status = fedserver_task_private(server->store, server->db, task, &names, &own, err);
    fed_write_u8(&names, '\0');
    status = status == FED_OK ? names.status : status;
    if (status == FED_OK) {
        status = save_tensors(task, row, &arch, (const char *)names.data, path, mode, err);
    }
    fed_writer_free(&names);
    fed_arch_free(&arch);
    return status;
}

fed_status fedserver_model_write(fedserver *server, uint64_t task, const char *path, unsigned mode,
                                 fedserver_written *written, fed_error *err) {
    fedserver_task found;
    fedserver_model_row row;
    fed_status status = pick_task(server, task, &found, err);
    if (status == FED_ENOTFOUND) {
        return task == 0
                   ? fed_fail(err, status, "no task has started yet, so there is no model to write")
                   : fed_fail(err, status, "there is no task %llu; `fedserver tasks` lists them",
                              (unsigned long long)task);
    }
    FED_TRY(status);
    if (found.state == FEDSERVER_TASK_CANCELLED) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu (%s) was cancelled; its model is deleted",
                        (unsigned long long)task, found.name);
    }
    FED_TRY(server->store->model_find(server->db, found.wire.id, &row, err));
    status = save_model(server, &found, &row, path, mode, err);
    *written = (fedserver_written){.task = found.wire.id, .version = row.version};
    memcpy(written->name, found.name, sizeof written->name);
    free(row.values);
    free(row.residual);
    free(row.state);
    return status;
}

fed_status fedserver_model_export(fedserver *server, uint64_t task, const char *path,
                                  fed_error *err) {
    fedserver_written written;
    return fedserver_model_write(server, task, path, FED_FILE_OUTPUT | 0600, &written, err);
}

typedef struct history {
    fedserver_round_entry_visit visit;
    void *user;
    uint32_t left; /* rounds that may still be reported */
} history;

static fed_status report_round(void *user, const fedserver_round_row *row, fed_error *err) {
    history *h = user;
    if (row->committed_ms == 0 || h->left == 0) {
        return FED_OK;
    }
    h->left--;
    const fedserver_round_entry entry = {.number = row->number,
                                         .attempts = row->attempts,
                                         .opened_ms = row->opened_ms,
                                         .committed_ms = row->committed_ms,
                                         .updates = row->updates,
                                         .samples = row->samples,
                                         .loss = row->loss,
                                         .update_bytes = row->update_bytes,
                                         .delta_bytes = row->delta_bytes,
                                         .measured = row->measured,
                                         .accuracy = row->accuracy,
                                         .test_loss = row->test_loss,
                                         .clip = row->clip};
    return h->visit(h->user, &entry, err);
}

fed_status fedserver_round_each(fedserver *server, uint64_t task, uint32_t most,
                                fedserver_round_entry_visit visit, void *user, fed_error *err) {
    fedserver_task found;
    history h = {.visit = visit, .user = user, .left = most};
    FED_TRY(pick_task(server, task, &found, err));
    /* one row more, since the open round is not reported */
    const uint32_t rows = most < UINT32_MAX ? most + 1 : most;
    return server->store->round_each(server->db, found.wire.id, rows, report_round, &h, err);
}

typedef struct collection {
    fedserver_own_visit visit;
    void *user;
    uint32_t round;
    bool evaluated;
    fedserver_own_table table;
} collection;

static fed_status hand_over(collection *c, fed_error *err) {
    if (c->table.count == 0) {
        return FED_OK;
    }
    const fedserver_own_list list = {.round = c->round,
                                     .evaluated = c->evaluated,
                                     .rows = c->table.rows,
                                     .count = c->table.count,
                                     .dropped = c->table.dropped};
    fed_status status = c->visit(c->user, &list, err);
    c->table = (fedserver_own_table){.count = 0};
    return status;
}

static fed_status collect(void *user, uint32_t version, int64_t device,
                          const fedserver_own_metric *row, fed_error *err) {
    collection *c = user;
    const bool evaluated = device != FEDSERVER_OWN_OF_UPDATES;
    if (version != c->round || evaluated != c->evaluated) {
        FED_TRY(hand_over(c, err));
    }
    c->round = version;
    c->evaluated = evaluated;
    fedserver_own_add(&c->table, row);
    return FED_OK;
}

fed_status fedserver_own_each(fedserver *server, uint64_t task, uint32_t first,
                              fedserver_own_visit visit, void *user, fed_error *err) {
    fedserver_task found;
    collection c = {.visit = visit, .user = user};
    FED_TRY(pick_task(server, task, &found, err));
    FED_TRY(server->store->own_each(server->db, found.wire.id, first, collect, &c, err));
    return hand_over(&c, err);
}
