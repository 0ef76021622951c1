/* A stopped run on the disk: the clients in virtual time, the log, the coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/saved_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deploy/sim/inproc/inproc_transport.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed/version.h"
#include "fedserver/remembered.h"

/* The structs whose names end in _kept, a log's rounds and the heap are saved byte for byte: they
 * are numbers of fixed size, without padding. Functions named pass_... both save and load. The
 * file's head proves that the same release wrote the file. A changed format gets another magic. */

typedef struct head {
    char magic[8], release[24];
    uint64_t run;
    uint64_t bytes; /* size of all structs: another compiler may lay them out differently */
} head;

static fed_status digest_run(const sim_options *o, uint64_t *digest, fed_error *err) {
    uint8_t *task = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read(o->task, 1 << 24, &task, &len, err));
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, task, len);
    sim_options_write(o, &w);
    free(task);
    fed_status status = w.status;
    if (status == FED_OK) {
        *digest = fed_digest_bytes(w.data, w.len);
    }
    fed_writer_free(&w);
    return status;
}

static fed_status make_head(const sim_options *o, head *h, fed_error *err) {
    *h = (head){.magic = "FEDSIM2",
                .bytes = sizeof(sim_clients_kept) + sizeof(sim_host_kept) + sizeof(sim_round) +
                         sizeof(sim_due) + sizeof(sim_client_kept) + sizeof(sim_lossy_kept) +
                         sizeof(sim_attendance_kept) + sizeof(sim_actor_kept)};
    snprintf(h->release, sizeof h->release, "%s", FED_VERSION);
    return digest_run(o, &h->run, err);
}

/** The direction of a copy: `from` is NULL when saving, `to` when loading. */
typedef struct stream {
    fed_writer *to;
    fed_reader *from;
} stream;

/** Save or load `len` bytes. FED_EFORMAT: the file ends before. */
static fed_status pass(const stream *s, void *data, size_t len) {
    if (len == 0) {
        return FED_OK;
    }
    if (s->to != NULL) {
        fed_write_bytes(s->to, data, len);
        return s->to->status;
    }
    const uint8_t *bytes = fed_read_bytes(s->from, len);
    FED_REQUIRE(bytes != NULL, FED_EFORMAT);
    memcpy(data, bytes, len);
    return FED_OK;
}

/** Save or load a blob. When loading, *blob is NULL at first, and stays NULL if none was saved. */
static fed_status pass_blob(const stream *s, fedserver_blob **blob) {
    size_t len = 0;
    const uint8_t *data = *blob != NULL ? fedserver_blob_data(*blob, &len) : NULL;
    uint64_t bytes = len;
    FED_TRY(pass(s, &bytes, sizeof bytes));
    if (bytes == 0) {
        return FED_OK;
    }
    if (s->to != NULL) {
        fed_write_bytes(s->to, data, len);
        return s->to->status;
    }
    fed_writer w;
    data = bytes <= fed_reader_left(s->from) ? fed_read_bytes(s->from, (size_t)bytes) : NULL;
    FED_REQUIRE(data != NULL, FED_EFORMAT);
    fed_writer_growing(&w);
    fed_write_bytes(&w, data, (size_t)bytes);
    *blob = fedserver_blob_new(&w);
    return *blob != NULL ? FED_OK : FED_ENOMEM;
}

static fed_status pass_log(const stream *s, sim_log *log) {
    uint64_t rounds = log->round_count;
    FED_TRY(pass(s, &log->kills, sizeof log->kills));
    FED_TRY(pass(s, &rounds, sizeof rounds));
    while (log->round_count < rounds) { /* when loading, the log has no rounds yet */
        sim_round *row = NULL;
        FED_TRY(sim_log_add(log, &row));
    }
    FED_TRY(pass(s, log->rounds, log->round_count * sizeof *log->rounds));
    return pass(s, log->attended, log->round_count * sim_log_row(log->client_count));
}

static fed_status pass_heap(const stream *s, sim_heap *heap) {
    FED_TRY(pass(s, &heap->count, sizeof heap->count));
    FED_REQUIRE(heap->count <= heap->room, FED_EFORMAT);
    FED_TRY(pass(s, heap->due, heap->room * sizeof *heap->due));
    FED_TRY(pass(s, heap->order, heap->room * sizeof *heap->order));
    return pass(s, heap->at, heap->room * sizeof *heap->at);
}

static fed_status pass_client(const stream *s, sim_actor *actor) {
    sim_client *client = actor->client;
    FED_TRY(pass(s, &client->kept, sizeof client->kept));
    FED_TRY(pass(s, &client->lossy.kept, sizeof client->lossy.kept));
    FED_TRY(pass(s, &actor->attendance.kept, sizeof actor->attendance.kept));
    FED_TRY(pass(s, &actor->kept, sizeof actor->kept));
    FED_TRY(pass_blob(s, &actor->parked_answer.body));
    return pass_blob(s, &actor->heard);
}

static fed_status pass_all(const stream *s, sim_world *world) {
    sim_clients *clients = world->clients;
    FED_TRY(pass(s, &world->now_us, sizeof world->now_us));
    FED_TRY(pass(s, &clients->kept, sizeof clients->kept));
    FED_TRY(pass(s, &world->host.kept, sizeof world->host.kept));
    FED_TRY(pass_log(s, clients->log));
    FED_TRY(pass_heap(s, &world->heap));
    if (clients->options->helper) {
        FED_TRY(pass(s, world->opener.fingerprint, sizeof world->opener.fingerprint));
    }
    for (size_t k = 0; k < clients->client_count; k++) {
        FED_TRY(pass_client(s, &world->actor[k]));
    }
    return FED_OK;
}

/** Here the client library sends updates in pieces only while its count of failures is above 0.
 * Amid such an upload, save the count of the step's beginning, so that the resumed step sends
 * pieces again. */
static uint32_t library_failures(const sim_actor *actor) {
    const uint32_t now = fedclient_failures(actor->fed);
    const bool piece = actor->kept.stage == SIM_ASKS && actor->kept.kind == FED_REQUEST_PIECE;
    return piece && now == 0 ? actor->failures_before : now;
}

static void prepare_client(sim_actor *actor) {
    const bool asks = actor->kept.stage == SIM_ASKS;
    actor->kept.body_digest = asks ? sim_request_digest(actor) : 0;
    actor->kept.library_failures = library_failures(actor);
    if (asks && actor->kept.kind == FED_REQUEST_UPDATE) {
        actor->client->lossy.kept.uploads--; /* the resumed run tries this upload again */
    }
}

fed_status sim_saved_take(sim_world *world, fed_writer *state) {
    sim_clients *clients = world->clients;
    const double cpu_s = sim_cpu_s();
    clients->kept.cpu_s += cpu_s - clients->before_cpu_s;
    clients->before_cpu_s = cpu_s;
    clients->kept.wall_ms =
        clients->began_wall_ms != 0 ? fed_clock_monotonic_ms() - clients->began_wall_ms : 0;
    for (size_t k = 0; k < clients->client_count; k++) {
        prepare_client(&world->actor[k]);
    }
    FED_TRY(pass_all(&(stream){.to = state}, world));
    return fedserver_remembered_write(world->host.server, state);
}

static void restore_client(sim_actor *actor) {
    fedclient_set_failures(actor->fed, actor->kept.library_failures);
    actor->parked_answer.status = 200;
    /* Make the request that asks the coordinator again for a parked check-in. */
    memcpy(actor->path, FED_PATH_CHECKIN, sizeof FED_PATH_CHECKIN);
    actor->request = (fedserver_request){.listener = FEDSERVER_DEVICES,
                                         .method = "POST",
                                         .path = actor->path,
                                         .query = "",
                                         .fingerprint = actor->fingerprint,
                                         .body_len = actor->kept.parked.len};
}

static fed_status load_all(sim_world *world, fed_reader *r, fed_error *err) {
    sim_clients *clients = world->clients;
    sim_host *host = &world->host;
    FED_TRY(pass_all(&(stream){.from = r}, world));
    for (size_t k = 0; k < clients->client_count; k++) {
        restore_client(&world->actor[k]);
    }
    if (clients->kept.began_ms != 0) {
        clients->began_wall_ms = fed_clock_monotonic_ms() - clients->kept.wall_ms;
    }
    const int64_t tick_us = host->kept.tick_us;
    FED_TRY(sim_host_tick(host, world->now_us, err)); /* lets the coordinator start the task */
    FED_TRY(fedserver_remembered_read(host->server, r, err));
    host->epoch = fedserver_epoch(host->server);
    host->kept.tick_us = tick_us;
    return FED_OK;
}

static fed_status save_coordinator(sim_world *world, fed_error *err) {
    sim_coordinator old = {0};
    if (world->clients->options->directory != NULL) {
        return FED_OK; /* the coordinator's files already lie in a directory that stays */
    }
    sim_options_state_path(world->clients->options, "coordinator", old.directory,
                           sizeof old.directory);
    sim_coordinator_empty(&old);
    sim_host_close(&world->host);
    return sim_coordinator_copy(world->host.coordinator.directory, old.directory, err);
}

fed_status sim_saved_save(sim_world *world, const fed_writer *state, fed_error *err) {
    const sim_options *o = world->clients->options;
    head h;
    char path[600];
    fed_writer file;
    FED_TRY(make_head(o, &h, err));
    FED_TRY(save_coordinator(world, err));
    FED_TRY(sim_stores_sync(world->clients->stores, err));
    fed_writer_growing(&file);
    fed_write_bytes(&file, &h, sizeof h);
    fed_write_bytes(&file, state->data, state->len);
    fed_write_u64(&file, fed_digest_bytes(file.data, file.len));
    fed_status status = file.status;
    sim_options_state_path(o, "run", path, sizeof path);
    if (status == FED_OK) {
        status = fed_file_replace(path, file.data, file.len, 0600, err);
    }
    fed_writer_free(&file);
    return status;
}

static fed_status check_file(const sim_options *o, const char *path, const uint8_t *data,
                             size_t len, fed_error *err) {
    head wanted, found;
    FED_TRY(make_head(o, &wanted, err));
    uint64_t digest = 0;
    fed_reader end;
    if (len >= sizeof found + sizeof digest) {
        fed_reader_init(&end, data + len - sizeof digest, sizeof digest);
        digest = fed_read_u64(&end);
    }
    if (len < sizeof found + sizeof digest ||
        digest != fed_digest_bytes(data, len - sizeof digest)) {
        return fed_fail(err, FED_EFORMAT, "%s is damaged; begin the run again without --resume",
                        path);
    }
    memcpy(&found, data, sizeof found);
    if (memcmp(found.magic, wanted.magic, sizeof found.magic) != 0 ||
        memcmp(found.release, wanted.release, sizeof found.release) != 0 ||
        found.bytes != wanted.bytes) {
        return fed_fail(err, FED_EVERSION,
                        "%s was written by another release of fedsim; resume with that release",
                        path);
    }
    if (found.run != wanted.run) {
        return fed_fail(err, FED_EINVAL,
                        "%s is of another run: its task, data, seed, clients or conditions differ; "
                        "resume with the same scenario",
                        path);
    }
    return FED_OK;
}

fed_status sim_saved_find(const sim_options *o, fed_error *err) {
    char path[600];
    sim_options_state_path(o, "run", path, sizeof path);
    return access(path, R_OK) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND,
                          "%s: there is no run to resume; begin it without --resume", o->state);
}

fed_status sim_saved_load(sim_world *world, fed_error *err) {
    char path[600];
    uint8_t *data = NULL;
    size_t len = 0;
    sim_options_state_path(world->clients->options, "run", path, sizeof path);
    FED_TRY(fed_file_read(path, SIZE_MAX / 2, &data, &len, err));
    fed_status status = check_file(world->clients->options, path, data, len, err);
    if (status == FED_OK) {
        fed_reader r;
        fed_reader_init(&r, data + sizeof(head), len - sizeof(head) - sizeof(uint64_t));
        status = load_all(world, &r, err);
        if (status == FED_EFORMAT) {
            status =
                fed_fail(err, status, "%s is damaged; begin the run again without --resume", path);
        }
    }
    free(data);
    return status;
}

static void forget(const sim_options *o, const char *name) {
    char path[600];
    sim_options_state_path(o, name, path, sizeof path);
    (void)unlink(path);
}

fed_status sim_saved_begin(const sim_options *o, fed_error *err) {
    if (mkdir(o->state, 0700) != 0 && errno != EEXIST) {
        return fed_fail(err, FED_EIO, "%s: can't make this directory: %s", o->state,
                        strerror(errno));
    }
    forget(o, "run");
    forget(o, "helper.db");
    return FED_OK;
}

void sim_saved_end(const sim_options *o) {
    sim_coordinator saved = {0};
    forget(o, "run");
    forget(o, "clients");
    forget(o, "helper.db");
    sim_options_state_path(o, "coordinator", saved.directory, sizeof saved.directory);
    sim_coordinator_empty(&saved);
    (void)rmdir(o->state);
}
