/* A run in one process: from enrolment to the end of the task. */
#define _GNU_SOURCE /* SCHED_BATCH */
#include "deploy/sim/virtual/inproc.h"
#include "deploy/sim/virtual/state.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Which client's code this thread runs: its platform's clocks know no other way. */
static _Thread_local const sim_actor *running;

static int64_t virtual_unix_ms(void *user) {
    (void)user;
    return sim_unix_ms(running != NULL ? running->now_us : 0);
}

static int64_t virtual_monotonic_ms(void *user) {
    (void)user;
    return running != NULL ? running->now_us / 1000 : 0;
}

void sim_actor_enter(const sim_actor *actor) {
    running = actor;
}

/* --- Actors --- */

static fed_status open_actor(sim_inproc *world, uint32_t k, fed_error *err) {
    sim_crowd *crowd = world->crowd;
    const sim_options *o = crowd->options;
    sim_actor *actor = &world->actor[k];
    sim_client *client = &crowd->client[k];
    actor->client = client;
    actor->world = world;
    if (!client->evaluates) { /* which takes no time, and is always there */
        actor->link = sim_network_draw(&world->network, o->seed, k);
        actor->speed = sim_speed_draw(&world->speed, o->seed, k);
    }
    static const sim_presence always = {0};
    sim_attendance_open(&actor->attendance, client->evaluates ? &always : &world->presence, o->seed,
                        k);
    client->platform.unix_ms = virtual_unix_ms;
    client->platform.monotonic_ms = virtual_monotonic_ms;
    sim_handover_open(actor);
    fedclient_options options = sim_client_options(client);
    if (client->evaluates) {
        options.hold_ms = 0; /* the scheduler knows when there is something to measure */
    }
    return fedclient_open(&options, &actor->fed, err);
}

/** All that depends on how many clients there are. */
static fed_status make_room(sim_inproc *world) {
    const uint32_t count = (uint32_t)world->crowd->client_count;
    world->actor = calloc(count, sizeof *world->actor);
    world->pending = calloc(count, sizeof *world->pending);
    FED_REQUIRE(world->actor != NULL && world->pending != NULL, FED_ENOMEM);
    FED_TRY(sim_heap_open(&world->heap, count));
    return sim_heap_open(&world->ready, count);
}

static fed_status open_world(sim_inproc *world, fed_error *err) {
    const sim_options *o = world->crowd->options;
    FED_TRY(sim_network_parse(o->line, &world->network, err));
    FED_TRY(sim_speed_parse(o->speed, &world->speed, err));
    FED_TRY(sim_presence_parse(o->presence, o->clients, &world->presence, err));
    FED_TRY(make_room(world));
    for (uint32_t k = 0; k < world->crowd->client_count; k++) {
        FED_TRY(open_actor(world, k, err));
    }
    return FED_OK;
}

static void close_world(sim_inproc *world) {
    for (size_t k = 0; world->actor != NULL && k < world->crowd->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->client != NULL) {
            actor->client->traffic = actor->traffic;
        }
        fedclient_close(actor->fed);
        fedserver_blob_free(actor->held.answer.body);
        fedserver_blob_free(actor->heard);
    }
    sim_heap_close(&world->heap);
    sim_heap_close(&world->ready);
    sim_presence_free(&world->presence);
    free(world->actor);
    free(world->pending);
}

/* --- Enrolment: keys and certificates are work, so all places share it --- */

typedef struct registry {
    sim_inproc *world;
    char (*token)[FEDSERVER_TOKEN];
    uint32_t next; /* client */
    fed_error error;
} registry;

/** After one that failed nobody's turn comes. */
static bool take_next(registry *r, uint32_t *k) {
    pthread_mutex_lock(&r->world->crowd->mutex);
    *k = r->next;
    bool more = r->error.status == FED_OK && *k < r->world->crowd->client_count;
    r->next += more;
    pthread_mutex_unlock(&r->world->crowd->mutex);
    return more;
}

static void *enrol_some(void *user) {
    registry *r = user;
    sim_crowd *crowd = r->world->crowd;
    for (uint32_t k = 0; take_next(r, &k);) {
        fed_error err = {0};
        sim_actor *actor = &r->world->actor[k];
        fed_status status = fedclient_enrol(actor->fed, r->token[k], &err);
        pthread_mutex_lock(&crowd->mutex);
        if (status != FED_OK && r->error.status == FED_OK) {
            r->error = err;
            r->error.status = status;
        }
        crowd->client[k].enrolment = crowd->client[k].charged = actor->traffic;
        r->world->enrolled = k + 1; /* failed or not: the next one need not wait for ever */
        pthread_cond_broadcast(&crowd->changed);
        pthread_mutex_unlock(&crowd->mutex);
    }
    return NULL;
}

static fed_status enrol_all(sim_inproc *world, char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    registry r = {.world = world, .token = token};
    const uint32_t threads = world->crowd->options->threads;
    pthread_t *thread = calloc(threads, sizeof *thread);
    FED_REQUIRE(thread != NULL, FED_ENOMEM);
    uint32_t started = 1;
    world->direct = true;
    while (started < threads && pthread_create(&thread[started], NULL, enrol_some, &r) == 0) {
        started++;
    }
    (void)enrol_some(&r); /* this thread is the first one */
    for (uint32_t i = 1; i < started; i++) {
        pthread_join(thread[i], NULL);
    }
    world->direct = false;
    free(thread);
    return r.error.status == FED_OK ? FED_OK : fed_fail(err, r.error.status, "%s", r.error.text);
}

/* --- The run --- */

static fed_status prepare(sim_inproc *world, fed_error *err) {
    const size_t tokens = world->crowd->client_count;
    char(*token)[FEDSERVER_TOKEN] = calloc(tokens, sizeof *token);
    FED_REQUIRE(token != NULL, FED_ENOMEM);
    fed_status status = sim_coordinator_prepare(&world->host.coordinator, world->crowd->options,
                                                tokens, token, err);
    if (status == FED_OK) {
        status = sim_host_open(&world->host, err);
    }
    if (status == FED_OK) {
        status = enrol_all(world, token, err);
    }
    free(token);
    return status;
}

/** In place of prepare: where it was stopped. */
static fed_status take_up(sim_inproc *world, fed_error *err) {
    char backup[600];
    const sim_options *o = world->crowd->options;
    sim_state_path(o, "coordinator", backup, sizeof backup);
    FED_TRY(sim_coordinator_resume(&world->host.coordinator, o, backup, err));
    FED_TRY(sim_host_open(&world->host, err));
    return sim_state_load(world, err);
}

static fed_status begin(sim_inproc *world, fed_error *err) {
    FED_TRY(open_world(world, err));
    if (world->crowd->options->resume) {
        FED_TRY(take_up(world, err));
        sim_schedule_resume(world);
        return FED_OK;
    }
    FED_TRY(prepare(world, err));
    return sim_schedule_begin(world, err);
}

/** The threads end. Where the run was stopped and is to be resumed, it is written down. */
static fed_status end(sim_inproc *world, fed_status status, fed_error *err) {
    const bool keep = status == FED_ECANCELED && world->crowd->options->state != NULL;
    fed_writer state;
    fed_writer_growing(&state);
    fed_status saved = keep ? sim_state_take(world, &state) : FED_OK;
    sim_turns_close(world);
    if (keep && saved == FED_OK) {
        saved = sim_state_save(world, &state, err);
    }
    fed_writer_free(&state);
    return saved != FED_OK ? saved : status;
}

static fed_status run(sim_inproc *world, uint64_t *digest, fed_error *err) {
    const sim_options *o = world->crowd->options;
    FED_TRY(begin(world, err));
    fed_status status = end(world, sim_schedule_run(world, err), err);
    world->crowd->log->kills = world->host.coordinator.kills;
    sim_host_close(&world->host);
    FED_TRY(status);
    if (o->state != NULL) {
        sim_state_end(o);
    }
    return sim_coordinator_result(&world->host.coordinator, o->model, digest, err);
}

/** This thread, and those that it starts, wake another one just before they sleep themselves: let
 * them come to that before it runs. Where the system says no, the run is only slower. */
static void be_patient(void) {
    const struct sched_param none = {0};
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

fed_status sim_inproc_run(sim_crowd *crowd, const sim_watch *watch, uint64_t *digest,
                          fed_error *err) {
    sim_inproc world = {.crowd = crowd, .watch = watch};
    crowd->inproc = &world;
    crowd->server = "https://127.0.0.1:10443";
    be_patient();
    fed_status status = run(&world, digest, err);
    sim_host_close(&world.host);
    close_world(&world);
    sim_coordinator_clean(&world.host.coordinator);
    return status;
}
