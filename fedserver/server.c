/* The coordinator as a whole: open, begin, handle, tick, commit, close, and what the CLI asks for.
 */
#include "fedserver/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/checkpoint.h"
#include "fed/file.h"
#include "fedserver/audit_log.h"
#include "fedserver/front/relay.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/operator/needs.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/queue.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/training.h"
#include "fedserver/routes/router.h"
#include "fedserver/stores/stores.h"
#include "fedserver/task/config.h"

enum { PATH_SIZE = 1024, IDLE_TICK_MS = 1000, BUSY_TICK_MS = 60000 };
enum { DEVICE_LIFE_S = 730 * 24 * 3600 };

void fedserver_path(const char *directory, const char *name, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/%s", directory, name);
}

/* -- open and close -- */

fed_status fedserver_open_store(const char *directory, const fedserver_store *store,
                                const fed_log *log, fedserver **server, fed_error *err) {
    fedserver_store_choice choice;
    FED_TRY(fedserver_store_read(directory, &choice, err));
    store = store != NULL ? store : choice.store;
    if (!store->exists(directory, choice.where)) {
        return fed_fail(err, FED_ENOTFOUND,
                        "%s holds no coordinator; make one with: fedserver init --dir %s",
                        directory, directory);
    }
    fedserver *made = calloc(1, sizeof *made);
    char *copy = made != NULL ? strdup(directory) : NULL;
    if (copy == NULL) {
        free(made);
        return fed_fail(err, FED_ENOMEM, "out of memory");
    }
    made->directory = copy;
    fedserver_batch_log_init(&made->batch_log, log);
    made->log = &made->batch_log.log;
    made->store = store;
    fed_status status = store->open(directory, choice.where, &made->db, err);
    made->rounds = (fedserver_rounds){
        .store = store, .db = made->db, .log = made->log, .directory = copy, .epoch = 1};
    if (status != FED_OK) {
        fedserver_close(made);
        return status;
    }
    *server = made;
    return FED_OK;
}

fed_status fedserver_open(const char *directory, const fed_log *log, fedserver **server,
                          fed_error *err) {
    return fedserver_open_store(directory, NULL, log, server, err);
}

void fedserver_close(fedserver *server) {
    if (server == NULL) {
        return;
    }
    fedserver_batch_log_free(&server->batch_log);
    fedserver_relay_close(server->relay);
    fedserver_training_free(&server->rounds.training);
    fedserver_devices_free(&server->rounds.devices);
    if (server->db != NULL) {
        server->store->close(server->db);
    }
    free(server->directory);
    free(server);
}

fedserver_wire_totals *fedserver_wire(fedserver *server) {
    return &server->wire;
}

const char *fedserver_directory(const fedserver *server) {
    return server->directory;
}

void fedserver_ports(fedserver *server, uint16_t front_port, uint16_t devices_port) {
    server->front_port = front_port;
    server->devices_port = devices_port;
}

void fedserver_configure(fedserver *server, const fedserver_setup *setup) {
    server->setup = *setup;
}

int fedserver_wake_fd(const fedserver *server) {
    return fedserver_relay_fd(server->relay);
}

uint64_t fedserver_epoch(const fedserver *server) {
    return server->rounds.epoch;
}

uint32_t fedserver_version(const fedserver *server, bool *running) {
    const fedserver_training *t = &server->rounds.training;
    *running = t->loaded && t->round.phase != FEDSERVER_ROUND_NONE;
    return t->loaded ? t->versions.version : 0;
}

/* -- start to serve -- */

static fed_status read_pem(const fedserver *server, const char *name, fed_pem *pem,
                           fed_error *err) {
    char path[PATH_SIZE];
    fedserver_path(server->directory, name, path, sizeof path);
    uint8_t *text;
    size_t len;
    FED_TRY(fed_file_read(path, sizeof pem->text - 1, &text, &len, err));
    memcpy(pem->text, text, len + 1);
    free(text);
    return FED_OK;
}

/* Whoever reads the CA's key can enrol what they like. */
static void warn_of_readers(const fedserver *server) {
    char path[4096];
    struct stat file;
    fedserver_path(server->directory, "ca.key", path, sizeof path);
    if (stat(path, &file) == 0 && (file.st_mode & 077) != 0) {
        fed_logf(server->log, FED_LOG_WARN,
                 "%s can be read by others (mode %04o): chmod 0600 it; whoever has read it can "
                 "enrol what they like",
                 path, (unsigned)file.st_mode & 07777);
    }
}

void fedserver_certificates_changed(fedserver *server) {
    server->ca_key.text[0] = '\0';
    server->authority = fedserver_ca_id_at(server->directory);
}

fed_status fedserver_auth_open(fedserver *server, fedserver_auth *auth, fed_error *err) {
    assert(server->setup.part != FEDSERVER_ROUNDS);
    if (server->ca_key.text[0] == '\0') {
        fed_pem key;
        FED_TRY(read_pem(server, "ca.pem", &server->ca_bundle, err));
        FED_TRY(read_pem(server, "ca.key", &key, err));
        FED_TRY(fedserver_ca_pick(&server->ca_bundle, &key, &server->ca_cert, err));
        server->ca_key = key;
        warn_of_readers(server);
    }
    int64_t life_s = server->setup.device_life_s;
    *auth = (fedserver_auth){
        .store = server->store,
        .db = server->db,
        .devices = server->setup.part == FEDSERVER_WHOLE ? &server->rounds.devices : NULL,
        .ca_key = &server->ca_key,
        .ca_cert = &server->ca_cert,
        .life_s = life_s != 0 ? life_s : DEVICE_LIFE_S};
    return FED_OK;
}

static fed_status start_serving(fedserver *server, fed_error *err) {
    if (server->setup.part == FEDSERVER_GATE) { /* nothing of a device is kept in this process */
        fedserver_auth auth;
        FED_TRY(fedserver_auth_open(server, &auth, err));
    } else {
        FED_TRY(server->store->lock(server->db, err));
        FED_TRY(server->store->recover(server->db, err));
        FED_TRY(fedserver_devices_load(&server->rounds, err));
        FED_TRY(fedserver_training_load(&server->rounds, err));
        server->authority = fedserver_ca_id_at(server->directory);
    }
    if (server->setup.part != FEDSERVER_WHOLE) {
        FED_TRY(fedserver_relay_open(server->directory, server->setup.part, &server->relay, err));
    }
    server->serving = true;
    return FED_OK;
}

/* -- a batch -- */

/* After a failure the cache may be ahead of the store: only opening anew brings them together. */
static fed_status note(fedserver *server, fed_status status) {
    server->broken = server->broken || status != FED_OK;
    return status;
}

/* The command line may have queued a task or revoked a device, the front enrolled one. */
fed_status fedserver_notice_others(fedserver *server, fed_error *err) {
    bool changed = false;
    if (server->setup.part == FEDSERVER_GATE) {
        return FED_OK;
    }
    FED_TRY(server->store->changed(server->db, &changed, err));
    if (!changed) {
        return FED_OK;
    }
    server->rounds.queue_changed = true;
    server->rounds.tasks_changed = true;
    return fedserver_devices_load(&server->rounds, err);
}

fed_status fedserver_begin(fedserver *server, fed_error *err) {
    if (server->broken) {
        return fed_fail(err, FED_ESTATE, "the coordinator has failed before; close and open it");
    }
    if (!server->serving) {
        FED_TRY(note(server, start_serving(server, err)));
    }
    fedserver_batch_log_begin(&server->batch_log);
    server->rounds.asked = false;
    FED_TRY(note(server, fedserver_notice_others(server, err)));
    return note(server, fedserver_queue_follow(&server->rounds, err));
}

fed_status fedserver_handle(fedserver *server, const fedserver_request *request, int64_t now_ms,
                            fedserver_response *response, fed_error *err) {
    assert(server->serving && !server->broken);
    server->rounds.asked = true;
    if (server->setup.part != FEDSERVER_GATE) {
        FED_TRY(note(server, fedserver_training_advance(&server->rounds, now_ms, err)));
    }
    *response = (fedserver_response){.status = 200};
    fed_status status = fedserver_route(server, request, now_ms, response, err);
    if (status != FED_OK) {
        fedserver_blob_free(response->body);
        *response = (fedserver_response){0};
    }
    return note(server, status);
}

/* When something happens by itself: a deadline, of the round or of a lease. */
static int64_t next_tick_ms(const fedserver_training *t, int64_t now_ms) {
    if (t->round.phase == FEDSERVER_ROUND_NONE) {
        return now_ms + IDLE_TICK_MS;
    }
    int64_t next_ms = now_ms + BUSY_TICK_MS;
    if (t->round.deadline_ms > now_ms && t->round.deadline_ms < next_ms) {
        next_ms = t->round.deadline_ms;
    }
    return t->lease_ends_ms < next_ms ? t->lease_ends_ms : next_ms;
}

fed_status fedserver_tick(fedserver *server, int64_t now_ms, int64_t *next_ms, fed_error *err) {
    assert(server->serving && !server->broken);
    fedserver_training *t = &server->rounds.training;
    if (server->setup.part == FEDSERVER_GATE) {
        *next_ms = now_ms + IDLE_TICK_MS;
        server->rounds.epoch += fedserver_relay_hear(server->relay);
        return FED_OK;
    }
    FED_TRY(note(server, fedserver_training_advance(&server->rounds, now_ms, err)));
    int64_t queue_ms = INT64_MAX;
    FED_TRY(note(server, fedserver_queue_advance(&server->rounds, now_ms, &queue_ms, err)));
    *next_ms = next_tick_ms(t, now_ms);
    *next_ms = queue_ms < *next_ms ? queue_ms : *next_ms;
    int64_t wake_ms = fedserver_places_wake(&server->rounds, now_ms);
    *next_ms = wake_ms < *next_ms ? wake_ms : *next_ms;
    FED_TRY(note(server, fedserver_devices_save(&server->rounds, now_ms, err)));
    return note(server, fedserver_relay_serve(server->relay, server, now_ms, err));
}

fed_status fedserver_commit(fedserver *server, fed_error *err) {
    assert(server->serving && !server->broken);
    FED_TRY(note(server, server->store->commit(server->db, err)));
    fedserver_batch_log_end(&server->batch_log, true);
    fedserver_relay_send(server->relay);
    return FED_OK;
}

/* -- what the command line asks for -- */

fed_status fedserver_finish(fedserver *server, fed_status status, fed_error *err) {
    return fedserver_store_finish(server->store, server->db, status, err);
}

static fed_status queue_task(fedserver *server, fedserver_task *task, float *values, size_t size,
                             fed_error *err) {
    FED_TRY(server->store->task_add(server->db, task, err));
    fedserver_model_row row = {.digest = fed_digest(values, size), .values = values, .size = size};
    FED_TRY(server->store->model_put(server->db, task->wire.id, &row, err));
    return fedserver_audit(server, FED_LOG_INFO, task->queued_ms, "task_queued", err,
                           "task=%llu name=\"%s\"", (unsigned long long)task->wire.id, task->name);
}

fed_status fedserver_task_add(fedserver *server, int64_t now_ms, const char *path, uint64_t *id,
                              fed_error *err) {
    fedserver_config config;
    fedserver_needs needs;
    float *values;
    size_t size;
    FED_TRY(fedserver_config_read(path, &config, err));
    FED_TRY(fedserver_needs_estimate(&config.task, &needs, err));
    FED_TRY(fedserver_needs_check(&needs, server->store->row_limit, server->directory, err));
    FED_TRY(fedserver_config_values(&config, &values, &size, err));
    config.task.queued_ms = now_ms;
    fed_status status =
        fedserver_finish(server, queue_task(server, &config.task, values, size, err), err);
    free(values);
    FED_TRY(status);
    server->rounds.queue_changed = true;
    *id = config.task.wire.id;
    return FED_OK;
}

fed_status fedserver_task_check(const char *path, const char *text, size_t len, fed_error *err) {
    fedserver_config config;
    return fedserver_config_parse(path, text, len, &config, err);
}

/* The task of that id or, for 0, the one that runs or ran last. */
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

static fed_status save_model(const fedserver_task *task, const fedserver_model_row *row,
                             const char *path, fed_error *err) {
    fed_arch arch;
    FED_TRY(fed_arch_parse(task->wire.model, &arch, err));
    char version[16];
    snprintf(version, sizeof version, "%u", row->version);
    const char *metadata[] = {"task",    task->name, "model", task->wire.model,
                              "version", version,    NULL};
    fed_status status = row->size == arch.layout.size
                            ? fed_checkpoint_save(path, &arch.layout, row->values, metadata, err)
                            : fed_fail(err, FED_EFORMAT, "the stored model is damaged");
    fed_arch_free(&arch);
    return status;
}

fed_status fedserver_model_export(fedserver *server, uint64_t task, const char *path,
                                  fed_error *err) {
    fedserver_task found;
    fedserver_model_row row;
    fed_status status = pick_task(server, task, &found, err);
    if (status == FED_ENOTFOUND) {
        return task == 0 ? fed_fail(err, status, "no task has started yet")
                         : fed_fail(err, status, "there is no task %llu", (unsigned long long)task);
    }
    FED_TRY(status);
    if (found.state == FEDSERVER_TASK_CANCELLED) {
        return fed_fail(err, FED_ENOTFOUND, "task %llu (%s) was cancelled; its model is deleted",
                        (unsigned long long)task, found.name);
    }
    FED_TRY(server->store->model_find(server->db, found.wire.id, &row, err));
    status = save_model(&found, &row, path, err);
    free(row.values);
    free(row.residual);
    free(row.state);
    return status;
}

typedef struct history {
    fedserver_round_entry_visit visit;
    void *user;
} history;

static fed_status tell_round(void *user, const fedserver_round_row *row, fed_error *err) {
    const history *h = user;
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
                                         .test_loss = row->test_loss};
    return row->committed_ms != 0 ? h->visit(h->user, &entry, err) : FED_OK;
}

fed_status fedserver_round_each(fedserver *server, uint64_t task, uint32_t most,
                                fedserver_round_entry_visit visit, void *user, fed_error *err) {
    fedserver_task found;
    history h = {.visit = visit, .user = user};
    FED_TRY(pick_task(server, task, &found, err));
    const bool open = found.state != FEDSERVER_TASK_FINISHED; /* its row may be the first */
    most += open && most < UINT32_MAX;
    return server->store->round_each(server->db, found.wire.id, most, tell_round, &h, err);
}
