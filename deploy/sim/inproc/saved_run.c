/* A stopped run on the disk: each client's place in virtual time, the log, the coordinator. */
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

/* All structs here travel as they lie in memory: the same release reads them, which `head` proves.
 */

typedef struct head {
    char magic[8], release[24];
    uint64_t run;   /* digest of what makes it this run */
    uint64_t bytes; /* of all structs together: another compiler's would differ */
} head;

typedef struct saved_run {
    int64_t now_us, wall_ms;
    uint32_t round, reported, version, evaluated, committed, kills;
    bool finished, killed;
    double accuracy, test_loss, cpu_s;
    uint64_t evaluate_cpu_us, round_count, running;
    uint32_t host_version;
    bool host_running;
    int64_t began_ms, tick_us;
    uint64_t parameters;
} saved_run;

typedef struct saved_client {
    /* of sim_client */
    bool takes_part, finished;
    uint32_t round, again, counted, refused, broken, last_counted, broken_charged, uploads;
    fedclient_traffic enrolment, charged;
    uint32_t local_steps;
    uint64_t steps, train_cpu_us, digest;
    int64_t busy_us;
    /* of sim_actor */
    sim_stage stage;
    sim_due due;
    bool in_heap, connected, unheard;
    int64_t now_us, used_us;
    uint32_t nth, chance, steps_begun, failures, library_failures, sleeps;
    sim_interval interval[SIM_CONDITIONS];
    uint32_t drawn[SIM_CONDITIONS];
    fedclient_traffic traffic;
    fed_request kind;
    uint64_t body_digest, pieces_there; /* of the request */
    fedclient_event event;
    sim_parked held;                  /* but for its answer: */
    uint64_t held_bytes, heard_bytes; /* of that and of what was heard, which follow */
} saved_client;

/** Of the task and the options: a run goes on only with the same ones. */
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
    *h = (head){.magic = "FEDSIM1",
                .bytes = sizeof(saved_run) + sizeof(saved_client) + sizeof(sim_round)};
    snprintf(h->release, sizeof h->release, "%s", FED_VERSION);
    return digest_run(o, &h->run, err);
}

/* --- Taking it down --- */

static void take_blob(fed_writer *w, const fedserver_blob *blob, uint64_t bytes) {
    size_t len = 0;
    if (bytes > 0) {
        fed_write_bytes(w, fedserver_blob_data(blob, &len), bytes);
    }
}

static uint64_t blob_bytes(const fedserver_blob *blob) {
    size_t len = 0;
    if (blob != NULL) {
        (void)fedserver_blob_data(blob, &len);
    }
    return len;
}

/** The client library's count. Pieces that arrive make it 0, but because it was not the update is
 * sent in pieces: so it is to be again. */
static uint32_t library_failures(const sim_actor *actor) {
    const bool piece = actor->stage == SIM_ASKS && actor->kind == FED_REQUEST_PIECE;
    const uint32_t now = fedclient_failures(actor->fed);
    return piece && now == 0 ? actor->failures_before : now;
}

static void take_client(const sim_actor *actor, fed_writer *w) {
    const sim_client *client = actor->client;
    const sim_heap *heap = &actor->world->heap;
    const bool in_turn = actor->stage == SIM_ASKS;
    const bool uploads = in_turn && actor->kind == FED_REQUEST_UPDATE;
    saved_client s;
    memset(&s, 0, sizeof s); /* the gaps too: the same state is the same bytes */
    s.takes_part = client->takes_part, s.finished = client->finished;
    s.round = client->round, s.again = client->again;
    s.counted = client->counted, s.refused = client->refused, s.broken = client->lossy.broken;
    s.last_counted = client->last_counted, s.broken_charged = client->broken_charged;
    s.uploads = client->lossy.uploads - uploads; /* it throws these dice again */
    s.enrolment = client->enrolment, s.charged = client->charged;
    s.local_steps = client->local_steps, s.steps = client->steps;
    s.train_cpu_us = client->train_cpu_us, s.busy_us = client->busy_us, s.digest = client->digest;
    s.stage = actor->stage, s.due = heap->due[client->k];
    s.in_heap = sim_heap_has(heap, client->k);
    s.connected = actor->connected, s.unheard = actor->unheard;
    s.now_us = actor->now_us, s.used_us = actor->used_us;
    s.nth = actor->nth, s.chance = actor->chance, s.steps_begun = actor->steps;
    s.failures = actor->failures, s.sleeps = actor->sleeps;
    s.library_failures = library_failures(actor);
    s.pieces_there = actor->pieces_there;
    s.body_digest = in_turn ? sim_request_digest(actor) : 0;
    memcpy(s.interval, actor->attendance.now, sizeof s.interval);
    memcpy(s.drawn, actor->attendance.drawn, sizeof s.drawn);
    s.traffic = actor->traffic, s.event = actor->event;
    s.kind = actor->kind;
    s.held = actor->parked;
    s.held_bytes = actor->parked.answered ? blob_bytes(actor->parked.answer.body) : 0;
    s.heard_bytes = blob_bytes(actor->heard);
    fed_write_bytes(w, &s, sizeof s);
    take_blob(w, actor->parked.answer.body, s.held_bytes);
    take_blob(w, actor->heard, s.heard_bytes);
}

static void take_run(const sim_world *world, fed_writer *w) {
    const sim_clients *clients = world->clients;
    const sim_log *log = clients->log;
    const sim_host *host = &world->host;
    saved_run s;
    memset(&s, 0, sizeof s);
    s.now_us = world->now_us;
    s.wall_ms = clients->began_wall_ms != 0 ? fed_clock_monotonic_ms() - clients->began_wall_ms : 0;
    s.round = clients->round, s.reported = clients->reported, s.version = clients->version;
    s.evaluated = clients->evaluated, s.committed = clients->committed;
    s.kills = host->coordinator.kills, s.finished = clients->finished, s.killed = host->killed;
    s.cpu_s = clients->earlier_cpu_s + sim_cpu_s();
    s.accuracy = clients->accuracy, s.test_loss = clients->test_loss;
    s.evaluate_cpu_us = clients->evaluate_cpu_us;
    s.round_count = log->round_count, s.running = clients->running;
    s.host_version = host->version, s.host_running = host->running;
    s.began_ms = clients->began_ms, s.tick_us = host->tick_us;
    s.parameters = clients->parameters;
    fed_write_bytes(w, &s, sizeof s);
    fed_write_bytes(w, log->rounds, log->round_count * sizeof *log->rounds);
    fed_write_bytes(w, log->attended, log->round_count * sim_log_row(log->client_count));
}

fed_status sim_saved_take(sim_world *world, fed_writer *state) {
    take_run(world, state);
    for (size_t k = 0; k < world->clients->client_count; k++) {
        take_client(&world->actor[k], state);
    }
    return fedserver_remembered_write(world->host.server, state);
}

/* --- To the disk, and back --- */

static fed_status save_coordinator(sim_world *world, fed_error *err) {
    sim_coordinator old = {0};
    if (world->clients->options->directory != NULL) {
        return FED_OK; /* it lies there */
    }
    sim_options_state_path(world->clients->options, "coordinator", old.directory,
                           sizeof old.directory);
    sim_coordinator_empty(&old);
    return fedserver_backup(world->host.server, old.directory, err);
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

/** The next struct of the file. */
static bool give(fed_reader *r, void *dst, size_t len) {
    const uint8_t *bytes = fed_read_bytes(r, len);
    if (bytes != NULL && len > 0) {
        memcpy(dst, bytes, len);
    }
    return bytes != NULL;
}

static fed_status give_blob(fed_reader *r, uint64_t len, fedserver_blob **blob) {
    fed_writer w;
    *blob = NULL;
    if (len == 0) {
        return FED_OK;
    }
    const uint8_t *bytes = fed_read_bytes(r, len);
    FED_REQUIRE(bytes != NULL, FED_EFORMAT);
    fed_writer_growing(&w);
    fed_write_bytes(&w, bytes, len);
    *blob = fedserver_blob_new(&w);
    return *blob != NULL ? FED_OK : FED_ENOMEM;
}

static fed_status give_client(sim_actor *actor, fed_reader *r) {
    sim_client *client = actor->client;
    saved_client s;
    FED_REQUIRE(give(r, &s, sizeof s), FED_EFORMAT);
    client->takes_part = s.takes_part, client->finished = s.finished;
    client->round = s.round, client->again = s.again;
    client->counted = s.counted, client->refused = s.refused, client->lossy.broken = s.broken;
    client->last_counted = s.last_counted, client->broken_charged = s.broken_charged;
    client->lossy.uploads = s.uploads;
    client->enrolment = s.enrolment, client->charged = s.charged;
    client->local_steps = s.local_steps, client->steps = s.steps;
    client->train_cpu_us = s.train_cpu_us, client->busy_us = s.busy_us, client->digest = s.digest;
    actor->stage = s.stage;
    actor->connected = s.connected, actor->unheard = s.unheard;
    actor->now_us = s.now_us, actor->used_us = s.used_us;
    actor->nth = s.nth, actor->chance = s.chance, actor->steps = s.steps_begun;
    actor->failures = s.failures, actor->sleeps = s.sleeps;
    memcpy(actor->attendance.now, s.interval, sizeof s.interval);
    memcpy(actor->attendance.drawn, s.drawn, sizeof s.drawn);
    actor->traffic = s.traffic, actor->event = s.event;
    actor->asked = s.kind;
    actor->asked_digest = s.body_digest, actor->pieces_there = s.pieces_there;
    fedclient_set_failures(actor->fed, s.library_failures);
    actor->parked = s.held;
    actor->parked.answer = (fedserver_response){.status = 200};
    actor->heard = NULL;
    if (s.in_heap) {
        sim_heap_set(&actor->world->heap, client->k, s.due);
    }
    /* A check-in that is parked is asked again as it was. */
    memcpy(actor->path, FED_PATH_CHECKIN, sizeof FED_PATH_CHECKIN);
    actor->request = (fedserver_request){.listener = FEDSERVER_DEVICES,
                                         .method = "POST",
                                         .path = actor->path,
                                         .query = "",
                                         .fingerprint = actor->fingerprint,
                                         .body_len = s.held.len};
    FED_TRY(give_blob(r, s.held_bytes, &actor->parked.answer.body));
    return give_blob(r, s.heard_bytes, &actor->heard);
}

static fed_status give_log(const saved_run *s, sim_log *log, fed_reader *r) {
    for (uint64_t i = 0; i < s->round_count; i++) {
        sim_round *row = NULL;
        FED_TRY(sim_log_add(log, &row));
    }
    FED_REQUIRE(give(r, log->rounds, log->round_count * sizeof *log->rounds), FED_EFORMAT);
    FED_REQUIRE(give(r, log->attended, log->round_count * sim_log_row(log->client_count)),
                FED_EFORMAT);
    return FED_OK;
}

static fed_status give_run(sim_world *world, fed_reader *r) {
    sim_clients *clients = world->clients;
    sim_host *host = &world->host;
    saved_run s;
    FED_REQUIRE(give(r, &s, sizeof s), FED_EFORMAT);
    world->now_us = s.now_us;
    clients->round = s.round, clients->reported = s.reported, clients->version = s.version;
    clients->evaluated = s.evaluated, clients->committed = s.committed;
    clients->finished = s.finished, clients->accuracy = s.accuracy;
    clients->test_loss = s.test_loss;
    clients->earlier_cpu_s += s.cpu_s;
    clients->evaluate_cpu_us = s.evaluate_cpu_us, clients->running = s.running;
    clients->began_ms = s.began_ms;
    clients->began_wall_ms = s.began_ms != 0 ? fed_clock_monotonic_ms() - s.wall_ms : 0;
    clients->parameters = s.parameters;
    host->coordinator.kills = s.kills, host->killed = s.killed;
    host->version = s.host_version, host->running = s.host_running, host->tick_us = s.tick_us;
    return give_log(&s, clients->log, r);
}

static fed_status give_all(sim_world *world, fed_reader *r, fed_error *err) {
    sim_host *host = &world->host;
    FED_TRY(give_run(world, r));
    for (size_t k = 0; k < world->clients->client_count; k++) {
        FED_TRY(give_client(&world->actor[k], r));
    }
    const int64_t tick_us = host->tick_us;
    FED_TRY(sim_host_tick(host, world->now_us, err)); /* it takes up where it was */
    FED_TRY(fedserver_remembered_read(host->server, r, err));
    host->epoch = fedserver_epoch(host->server);
    host->tick_us = tick_us;
    return FED_OK;
}

/** Is it whole, and of this run? */
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
        return fed_fail(err, FED_EFORMAT, "%s is damaged: begin the run again", path);
    }
    memcpy(&found, data, sizeof found);
    if (memcmp(found.magic, wanted.magic, sizeof found.magic) != 0 ||
        memcmp(found.release, wanted.release, sizeof found.release) != 0 ||
        found.bytes != wanted.bytes) {
        return fed_fail(err, FED_EVERSION, "%s was written by another release: resume with that",
                        path);
    }
    if (found.run != wanted.run) {
        return fed_fail(err, FED_EINVAL,
                        "%s is of another run: its task, data, seed, clients or conditions differ",
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
                          "%s: there is no run that was stopped; begin it without --resume",
                          o->state);
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
        status = give_all(world, &r, err);
        if (status == FED_EFORMAT) {
            status = fed_fail(err, status, "%s makes no sense: begin the run again", path);
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
        return fed_fail(err, FED_EIO, "%s: can't be made: %s", o->state, strerror(errno));
    }
    forget(o, "run");
    return FED_OK;
}

void sim_saved_end(const sim_options *o) {
    sim_coordinator backup = {0};
    forget(o, "run");
    forget(o, "clients");
    sim_options_state_path(o, "coordinator", backup.directory, sizeof backup.directory);
    sim_coordinator_empty(&backup);
    (void)rmdir(o->state);
}
