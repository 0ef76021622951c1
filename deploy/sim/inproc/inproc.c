/* A run in one process: from enrolment to the end of the task. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for SCHED_BATCH */
#include "deploy/sim/inproc/inproc.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/clients/train_callback.h"
#include "deploy/sim/inproc/inproc_transport.h"
#include "deploy/sim/inproc/saved_crowd.h"
#include "deploy/sim/inproc/saved_run.h"
#include "deploy/sim/inproc/schedule.h"
#include "deploy/sim/inproc/step_threads.h"

static fed_status open_actor(sim_world *world, uint32_t k, fed_error *err) {
    sim_clients *clients = world->clients;
    const sim_options *o = clients->options;
    sim_actor *actor = &world->actor[k];
    sim_client *client = &clients->client[k];
    actor->client = client;
    actor->world = world;
    if (!client->evaluates) { /* an evaluator takes no virtual time, and is always there */
        actor->link = sim_network_draw(&world->network, o->seed, k);
        actor->speed = sim_speed_draw(&world->speed, o->seed, k);
    }
    static const sim_presence always = {0};
    sim_attendance_open(&actor->attendance, client->evaluates ? &always : &world->presence, o->seed,
                        k);
    client->platform.unix_ms = sim_virtual_unix_ms;
    client->platform.monotonic_ms = sim_virtual_monotonic_ms;
    sim_inproc_transport_open(actor);
    fedclient_options options = sim_client_options(client);
    if (client->evaluates) {
        options.hold_ms = 0; /* the scheduler knows when there is something to measure */
    }
    return fedclient_open(&options, &actor->fed, err);
}

static fed_status make_room(sim_world *world) {
    const uint32_t count = (uint32_t)world->clients->client_count;
    world->actor = calloc(count, sizeof *world->actor);
    world->pending = calloc(count, sizeof *world->pending);
    FED_REQUIRE(world->actor != NULL && world->pending != NULL, FED_ENOMEM);
    FED_TRY(sim_heap_open(&world->heap, count));
    return sim_heap_open(&world->ready, count);
}

static fed_status open_world(sim_world *world, fed_error *err) {
    const sim_options *o = world->clients->options;
    FED_TRY(sim_network_parse(o->line, &world->network, err));
    FED_TRY(sim_speed_parse(o->speed, &world->speed, err));
    FED_TRY(sim_presence_parse(o->presence, o->clients, &world->presence, err));
    FED_TRY(sim_opener_open(&world->opener, o, err));
    FED_TRY(make_room(world));
    for (uint32_t k = 0; k < world->clients->client_count; k++) {
        FED_TRY(open_actor(world, k, err));
    }
    return FED_OK;
}

static void close_world(sim_world *world) {
    for (size_t k = 0; world->actor != NULL && k < world->clients->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->client != NULL) {
            actor->client->traffic = actor->kept.traffic;
        }
        fedclient_close(actor->fed);
        fedserver_blob_free(actor->parked_answer.body);
        fedserver_blob_free(actor->heard);
    }
    sim_heap_close(&world->heap);
    sim_heap_close(&world->ready);
    sim_presence_free(&world->presence);
    free(world->actor);
    free(world->pending);
}

/* --- Enrolment: keys and certificates take CPU time, so several threads share it --- */

typedef struct enrolling {
    sim_world *world;
    char (*token)[FEDSERVER_TOKEN];
    uint32_t next;
    fed_error error;
} enrolling;

static bool take_next(enrolling *r, uint32_t *k) {
    pthread_mutex_lock(&r->world->clients->mutex);
    *k = r->next;
    bool more = r->error.status == FED_OK && *k < r->world->clients->client_count &&
                *r->world->watch->stop == 0;
    r->next += more;
    pthread_mutex_unlock(&r->world->clients->mutex);
    return more;
}

static void *enrol_some(void *user) {
    enrolling *r = user;
    sim_clients *clients = r->world->clients;
    for (uint32_t k = 0; take_next(r, &k);) {
        fed_error err = {0};
        sim_actor *actor = &r->world->actor[k];
        fed_status status = fedclient_enrol(actor->fed, r->token[k], &err);
        pthread_mutex_lock(&clients->mutex);
        if (status != FED_OK && r->error.status == FED_OK) {
            r->error = err;
            r->error.status = status;
        }
        clients->client[k].kept.enrolment = clients->client[k].kept.charged = actor->kept.traffic;
        r->world->enrolled =
            k + 1; /* even after a failure, or the next client would wait for ever */
        pthread_cond_broadcast(&clients->changed);
        pthread_mutex_unlock(&clients->mutex);
    }
    return NULL;
}

static fed_status enrol_all(sim_world *world, char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    enrolling r = {.world = world, .token = token};
    const uint32_t threads = world->clients->options->threads;
    pthread_t *thread = calloc(threads, sizeof *thread);
    FED_REQUIRE(thread != NULL, FED_ENOMEM);
    uint32_t started = 1;
    world->direct = true;
    while (started < threads && pthread_create(&thread[started], NULL, enrol_some, &r) == 0) {
        started++;
    }
    (void)enrol_some(&r);
    for (uint32_t i = 1; i < started; i++) {
        pthread_join(thread[i], NULL);
    }
    world->direct = false;
    free(thread);
    if (r.error.status == FED_OK && *world->watch->stop != 0) {
        return fed_fail(err, FED_ECANCELED, "stopped while the clients enrolled");
    }
    return r.error.status == FED_OK ? FED_OK : fed_fail(err, r.error.status, "%s", r.error.text);
}

static fed_status enrol_anew(sim_world *world, fed_error *err) {
    sim_coordinator *coordinator = &world->host.coordinator;
    const size_t tokens = world->clients->client_count;
    char(*token)[FEDSERVER_TOKEN] = calloc(tokens, sizeof *token);
    FED_REQUIRE(token != NULL, FED_ENOMEM);
    fed_status status =
        sim_coordinator_make(coordinator, world->clients->options, tokens, token, err);
    if (status == FED_OK) {
        status = sim_host_open(&world->host, err);
    }
    if (status == FED_OK) {
        status = enrol_all(world, token, err);
    }
    sim_host_close(&world->host);
    free(token);
    FED_TRY(status);
    return sim_crowd_keep(world->clients, coordinator->directory, err);
}

/** Queue the task. A crowd that was taken may be of a build that looked the same, and was not. */
static fed_status queue(sim_world *world, bool taken, fed_error *err) {
    fed_error why = {0};
    const sim_options *o = world->clients->options;
    const fed_status status = sim_coordinator_queue(&world->host.coordinator, o, &why);
    if (status == FED_OK) {
        return FED_OK;
    }
    const bool of_task = status == FED_EINVAL || status == FED_ENOMEM || status == FED_ENOSPC;
    return taken && !of_task ? sim_crowd_refuse(world->clients, status, &why, err)
                             : fed_fail(err, status, "%s", why.text);
}

static fed_status begin(sim_world *world, fed_error *err) {
    const sim_options *o = world->clients->options;
    sim_coordinator *coordinator = &world->host.coordinator;
    bool enrolled = false;
    FED_TRY(sim_coordinator_place(coordinator, o, err));
    FED_TRY(sim_crowd_take(world->clients, coordinator->directory, &enrolled, err));
    FED_TRY(open_world(world, err));
    if (!enrolled) {
        FED_TRY(enrol_anew(world, err));
    }
    FED_TRY(queue(world, enrolled, err));
    FED_TRY(sim_coordinator_link(coordinator, err));
    FED_TRY(sim_host_open(&world->host, err));
    FED_TRY(sim_opener_enrol(&world->opener, &world->host, err));
    return sim_schedule_begin(world, err);
}

/** Resume a stopped run. Called instead of begin. */
static fed_status take_up(sim_world *world, fed_error *err) {
    char saved[600];
    const sim_options *o = world->clients->options;
    FED_TRY(open_world(world, err));
    sim_options_state_path(o, "coordinator", saved, sizeof saved);
    FED_TRY(sim_coordinator_resume(&world->host.coordinator, o, saved, err));
    FED_TRY(sim_coordinator_link(&world->host.coordinator, err));
    FED_TRY(sim_host_open(&world->host, err));
    FED_TRY(sim_saved_load(world, err));
    sim_schedule_resume(world);
    return FED_OK;
}

/** End the threads. A run that was stopped, and can be resumed, is saved. */
static fed_status end(sim_world *world, fed_status status, fed_error *err) {
    const bool keep = status == FED_ECANCELED && world->clients->options->state != NULL;
    fed_writer state;
    fed_writer_growing(&state);
    fed_status saved = keep ? sim_saved_take(world, &state) : FED_OK;
    sim_threads_close(world);
    if (keep && saved == FED_OK) {
        saved = sim_saved_save(world, &state, err);
    }
    fed_writer_free(&state);
    return saved != FED_OK ? saved : status;
}

static fed_status run(sim_world *world, uint64_t *digest, fed_error *err) {
    const sim_options *o = world->clients->options;
    FED_TRY(o->resume ? take_up(world, err) : begin(world, err));
    fed_status status = end(world, sim_schedule_run(world, err), err);
    world->clients->log->helper_cpu_s = 1e-6 * (double)world->opener.cpu_us;
    sim_opener_close(&world->opener);
    sim_host_close(&world->host);
    FED_TRY(status);
    if (o->state != NULL) {
        sim_saved_end(o);
    }
    return sim_coordinator_result(&world->host.coordinator, o->model, digest, err);
}

fed_status sim_inproc_run(sim_clients *clients, const sim_watch *watch, uint64_t *digest,
                          fed_error *err) {
    sim_world world = {.clients = clients, .watch = watch};
    world.virtual_time = (sim_virtual_time){
        .user = &world, .trains = sim_step_trains, .measures = sim_step_measures};
    clients->virtual_time = &world.virtual_time;
    clients->server = "https://127.0.0.1:10443";
    /* This thread, and the threads that it starts, wake another thread just before they sleep. With
     * SCHED_BATCH they fall asleep before the woken thread runs, which is faster. */
    (void)sched_setscheduler(0, SCHED_BATCH, &(const struct sched_param){0});
    fed_status status = run(&world, digest, err);
    sim_opener_close(&world.opener);
    sim_host_close(&world.host);
    close_world(&world);
    sim_coordinator_clean(&world.host.coordinator);
    return status;
}
