/* A stopped run on the disk: each client's place in virtual time, the log, the coordinator. */
#include "deploy/sim/virtual/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed/version.h"

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
    sim_key key;
    bool in_heap, connected, unheard;
    int64_t now_us, used_us;
    uint32_t step, chance, turns, failures, library_failures, sleeps;
    sim_interval interval[SIM_CONDITIONS];
    uint32_t drawn[SIM_CONDITIONS];
    fedclient_traffic traffic;
    char path[160];
    uint64_t body_digest, pieces_there; /* of the request at that path */
    fedclient_event event;
    sim_held held;                    /* but for its answer: */
    uint64_t held_bytes, heard_bytes; /* of that and of what was heard, which follow */
} saved_client;

void sim_state_path(const sim_options *options, const char *name, char *path, size_t cap) {
    snprintf(path, cap, "%s/%s", options->state, name);
}

static const char *text_of(const char *spec) {
    return spec != NULL ? spec : "";
}

/** What makes it this run: what it is asked to do, but for threads and places. */
static fed_status digest_run(const sim_options *o, uint64_t *digest, fed_error *err) {
    uint8_t *task = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read(o->task, 1 << 24, &task, &len, err));
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, task, len);
    fed_write_printf(&w, "|%s|%s|%s|%s|%s|%s|", o->data, o->dataset, text_of(o->train_part),
                     text_of(o->line), text_of(o->speed), text_of(o->presence));
    fed_write_printf(&w, "%u %u %u %u %u %.17g|%.17g %.17g %.17g %u %llu", o->clients, o->normalise,
                     o->evaluate_every, (unsigned)o->split.kind, o->split.k, o->split.alpha,
                     o->offline, o->broken, o->hostile, o->kill_round, (unsigned long long)o->seed);
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
    const bool piece = actor->stage == SIM_ASKS && strcmp(actor->path, "/v1/piece") == 0;
    const uint32_t now = fedclient_failures(actor->fed);
    return piece && now == 0 ? actor->failures_before : now;
}

static void take_client(const sim_actor *actor, fed_writer *w) {
    const sim_client *client = actor->client;
    const sim_heap *heap = &actor->world->heap;
    const bool in_turn = actor->stage == SIM_ASKS;
    const bool uploads = in_turn && strstr(actor->path, "/v1/update") != NULL;
    saved_client s;
    memset(&s, 0, sizeof s); /* the gaps too: the same state is the same bytes */
    s.takes_part = client->takes_part, s.finished = client->finished;
    s.round = client->round, s.again = client->again;
    s.counted = client->counted, s.refused = client->refused, s.broken = client->broken;
    s.last_counted = client->last_counted, s.broken_charged = client->broken_charged;
    s.uploads = client->line.uploads - uploads; /* it throws these dice again */
    s.enrolment = client->enrolment, s.charged = client->charged;
    s.local_steps = client->local_steps, s.steps = client->steps;
    s.train_cpu_us = client->train_cpu_us, s.busy_us = client->busy_us, s.digest = client->digest;
    s.stage = actor->stage, s.key = heap->key[client->k];
    s.in_heap = heap->place[client->k] != UINT32_MAX;
    s.connected = actor->connected, s.unheard = actor->unheard;
    s.now_us = actor->now_us, s.used_us = actor->used_us;
    s.step = actor->step, s.chance = actor->chance, s.turns = actor->turns;
    s.failures = actor->failures, s.sleeps = actor->sleeps;
    s.library_failures = library_failures(actor);
    s.pieces_there = actor->pieces_there;
    s.body_digest = in_turn ? sim_handover_digest(actor) : 0;
    memcpy(s.interval, actor->attendance.now, sizeof s.interval);
    memcpy(s.drawn, actor->attendance.drawn, sizeof s.drawn);
    s.traffic = actor->traffic, s.event = actor->event;
    memcpy(s.path, actor->path, sizeof s.path);
    s.held = actor->held;
    s.held_bytes = actor->held.answered ? blob_bytes(actor->held.answer.body) : 0;
    s.heard_bytes = blob_bytes(actor->heard);
    fed_write_bytes(w, &s, sizeof s);
    take_blob(w, actor->held.answer.body, s.held_bytes);
    take_blob(w, actor->heard, s.heard_bytes);
}

static void take_run(const sim_inproc *world, fed_writer *w) {
    const sim_crowd *crowd = world->crowd;
    const sim_log *log = crowd->log;
    const sim_host *host = &world->host;
    saved_run s;
    memset(&s, 0, sizeof s);
    s.now_us = world->now_us;
    s.wall_ms = crowd->began_wall_ms != 0 ? fed_clock_monotonic_ms() - crowd->began_wall_ms : 0;
    s.round = crowd->round, s.reported = crowd->reported, s.version = crowd->version;
    s.evaluated = crowd->evaluated, s.committed = crowd->committed;
    s.kills = host->coordinator.kills, s.finished = crowd->finished, s.killed = host->killed;
    s.cpu_s = crowd->earlier_cpu_s + sim_cpu_s();
    s.accuracy = crowd->accuracy, s.test_loss = crowd->test_loss;
    s.evaluate_cpu_us = crowd->evaluate_cpu_us;
    s.round_count = log->round_count, s.running = crowd->running;
    s.host_version = host->version, s.host_running = host->running;
    s.began_ms = crowd->began_ms, s.tick_us = host->tick_us;
    s.parameters = crowd->parameters;
    fed_write_bytes(w, &s, sizeof s);
    fed_write_bytes(w, log->rounds, log->round_count * sizeof *log->rounds);
    fed_write_bytes(w, log->attended, log->round_count * sim_log_row(log->client_count));
}

fed_status sim_state_take(sim_inproc *world, fed_writer *state) {
    take_run(world, state);
    for (size_t k = 0; k < world->crowd->client_count; k++) {
        take_client(&world->actor[k], state);
    }
    return fedserver_remembered_write(world->host.server, state);
}

/* --- To the disk, and back --- */

static fed_status save_coordinator(sim_inproc *world, fed_error *err) {
    sim_coordinator old = {0};
    if (world->crowd->options->directory != NULL) {
        return FED_OK; /* it lies there */
    }
    sim_state_path(world->crowd->options, "coordinator", old.directory, sizeof old.directory);
    sim_coordinator_empty(&old);
    return fedserver_backup(world->host.server, old.directory, err);
}

fed_status sim_state_save(sim_inproc *world, const fed_writer *state, fed_error *err) {
    const sim_options *o = world->crowd->options;
    head h;
    char path[600];
    fed_writer file;
    FED_TRY(make_head(o, &h, err));
    FED_TRY(save_coordinator(world, err));
    FED_TRY(sim_flash_sync(world->crowd->flash, err));
    fed_writer_growing(&file);
    fed_write_bytes(&file, &h, sizeof h);
    fed_write_bytes(&file, state->data, state->len);
    fed_write_u64(&file, fed_digest_bytes(file.data, file.len));
    fed_status status = file.status;
    sim_state_path(o, "run", path, sizeof path);
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
    client->counted = s.counted, client->refused = s.refused, client->broken = s.broken;
    client->last_counted = s.last_counted, client->broken_charged = s.broken_charged;
    client->line.uploads = s.uploads;
    client->enrolment = s.enrolment, client->charged = s.charged;
    client->local_steps = s.local_steps, client->steps = s.steps;
    client->train_cpu_us = s.train_cpu_us, client->busy_us = s.busy_us, client->digest = s.digest;
    actor->stage = s.stage;
    actor->connected = s.connected, actor->unheard = s.unheard;
    actor->now_us = s.now_us, actor->used_us = s.used_us;
    actor->step = s.step, actor->chance = s.chance, actor->turns = s.turns;
    actor->failures = s.failures, actor->sleeps = s.sleeps;
    memcpy(actor->attendance.now, s.interval, sizeof s.interval);
    memcpy(actor->attendance.drawn, s.drawn, sizeof s.drawn);
    actor->traffic = s.traffic, actor->event = s.event;
    memcpy(actor->asked, s.path, sizeof s.path);
    actor->asked_digest = s.body_digest, actor->pieces_there = s.pieces_there;
    fedclient_set_failures(actor->fed, s.library_failures);
    actor->held = s.held;
    actor->held.answer = (fedserver_response){.status = 200};
    actor->heard = NULL;
    if (s.in_heap) {
        sim_heap_set(&actor->world->heap, client->k, s.key);
    }
    /* A check-in that is parked is asked again as it was. */
    memcpy(actor->path, "/v1/checkin", sizeof "/v1/checkin");
    actor->request = (fedserver_request){.listener = FEDSERVER_DEVICES,
                                         .method = "POST",
                                         .path = actor->path,
                                         .query = "",
                                         .fingerprint = actor->fingerprint,
                                         .body_len = s.held.len};
    FED_TRY(give_blob(r, s.held_bytes, &actor->held.answer.body));
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

static fed_status give_run(sim_inproc *world, fed_reader *r) {
    sim_crowd *crowd = world->crowd;
    sim_host *host = &world->host;
    saved_run s;
    FED_REQUIRE(give(r, &s, sizeof s), FED_EFORMAT);
    world->now_us = s.now_us;
    crowd->round = s.round, crowd->reported = s.reported, crowd->version = s.version;
    crowd->evaluated = s.evaluated, crowd->committed = s.committed;
    crowd->finished = s.finished, crowd->accuracy = s.accuracy;
    crowd->test_loss = s.test_loss;
    crowd->earlier_cpu_s += s.cpu_s;
    crowd->evaluate_cpu_us = s.evaluate_cpu_us, crowd->running = s.running;
    crowd->began_ms = s.began_ms;
    crowd->began_wall_ms = s.began_ms != 0 ? fed_clock_monotonic_ms() - s.wall_ms : 0;
    crowd->parameters = s.parameters;
    host->coordinator.kills = s.kills, host->killed = s.killed;
    host->version = s.host_version, host->running = s.host_running, host->tick_us = s.tick_us;
    return give_log(&s, crowd->log, r);
}

static fed_status give_all(sim_inproc *world, fed_reader *r, fed_error *err) {
    sim_host *host = &world->host;
    FED_TRY(give_run(world, r));
    for (size_t k = 0; k < world->crowd->client_count; k++) {
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

fed_status sim_state_find(const sim_options *o, fed_error *err) {
    char path[600];
    sim_state_path(o, "run", path, sizeof path);
    return access(path, R_OK) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOTFOUND,
                          "%s: there is no run that was stopped; begin it without --resume",
                          o->state);
}

fed_status sim_state_load(sim_inproc *world, fed_error *err) {
    char path[600];
    uint8_t *data = NULL;
    size_t len = 0;
    sim_state_path(world->crowd->options, "run", path, sizeof path);
    FED_TRY(fed_file_read(path, SIZE_MAX / 2, &data, &len, err));
    fed_status status = check_file(world->crowd->options, path, data, len, err);
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
    sim_state_path(o, name, path, sizeof path);
    (void)unlink(path);
}

fed_status sim_state_begin(const sim_options *o, fed_error *err) {
    if (mkdir(o->state, 0700) != 0 && errno != EEXIST) {
        return fed_fail(err, FED_EIO, "%s: can't be made: %s", o->state, strerror(errno));
    }
    forget(o, "run");
    return FED_OK;
}

void sim_state_end(const sim_options *o) {
    sim_coordinator backup = {0};
    forget(o, "run");
    forget(o, "clients");
    sim_state_path(o, "coordinator", backup.directory, sizeof backup.directory);
    sim_coordinator_empty(&backup);
    (void)rmdir(o->state);
}
