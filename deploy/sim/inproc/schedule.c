/* The scheduler: it handles the event that is due first in virtual time, or waits for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/schedule.h"

#include "deploy/sim/clients/run_log.h"
#include "deploy/sim/conditions/streams.h"
#include "deploy/sim/inproc/inproc_transport.h"
#include "deploy/sim/inproc/parked.h"
#include "deploy/sim/inproc/step_threads.h"
#include "fed/clock.h"
#include "fed/threads.h"

enum { SHOW_MS = 200 };

static void go_on(sim_actor *actor) {
    sim_world *world = actor->world;
    actor->kept.stage = SIM_READY;
    sim_actor_expect(actor);
    world->pending[world->pending_count++] = actor->client->k;
}

/** Return whether options->offline keeps the client away from the round that it would join. */
static bool stays_away(const sim_actor *actor, uint32_t *round) {
    const sim_client *client = actor->client;
    sim_clients *clients = client->clients;
    *round = clients->kept.round > client->kept.last_counted ? clients->kept.round
                                                             : client->kept.last_counted + 1;
    return actor->world->host.kept.running && !client->evaluates && clients->options->offline > 0 &&
           sim_is_away(clients, *round, client->k);
}

static void begin_step(sim_actor *actor) {
    uint32_t round = 0;
    if (!actor->kept.parked.on && stays_away(actor, &round)) {
        actor->kept.sleeps = round;
        actor->kept.connected = false;
        sim_heap_set(&actor->world->heap, actor->client->k, (sim_due){.us = SIM_NEVER});
        return;
    }
    fed_rng rng;
    fed_rng_init(&rng, actor->world->clients->options->seed, actor->client->k,
                 SIM_STREAM_CHANCE + ++actor->kept.steps);
    actor->kept.chance = fed_rng_u32(&rng);
    go_on(actor);
}

static void wake_sleepers(sim_world *world) {
    for (size_t k = 0; k < world->clients->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->kept.sleeps != 0 &&
            (world->clients->kept.round > actor->kept.sleeps || !world->host.kept.running)) {
            actor->kept.sleeps = 0;
            sim_actor_plan(actor, world->now_us);
        }
    }
}

/** Wake the evaluator after a new model that is to be measured, or the task's end. If the evaluator
 * still measures, the run waits until it has finished. */
static void wake_evaluator(sim_world *world) {
    sim_actor *actor = &world->actor[world->clients->options->clients];
    const sim_host *host = &world->host;
    if (host->kept.running && !sim_wants_measured(world->clients, host->kept.version)) {
        return;
    }
    if (actor->measures) {
        actor->measures = false;
        actor->release_us = world->now_us;
        if (actor->kept.stage == SIM_ASKS) {
            sim_actor_move(actor, world->now_us);
            sim_actor_stand(actor, SIM_ASKS);
        } else { /* the evaluator's code runs, and only that code may move its clock */
            sim_heap_set(&world->heap, actor->client->k, (sim_due){.us = world->now_us});
        }
    } else if (actor->kept.stage == SIM_IDLE && !actor->client->kept.finished) {
        sim_actor_move(actor, world->now_us);
        sim_actor_stand(actor, SIM_IDLE);
    }
}

/** Note a new model, or the task's end. */
static fed_status note_version(sim_world *world, fed_error *err) {
    sim_host *host = &world->host;
    sim_clients *clients = world->clients;
    bool running = false;
    const uint32_t version = fedserver_version(host->server, &running);
    if (version != host->kept.version || running != host->kept.running) {
        const uint32_t more = version - host->kept.version;
        host->kept.version = version;
        host->kept.running = running;
        FED_TRY(sim_note_rounds(clients, host->server, more, err));
        clients->kept.round = running ? version + 1 : version;
        clients->kept.reported = 0;
        wake_sleepers(world);
        wake_evaluator(world);
    }
    return FED_OK;
}

/** If a private round waits for the helper, let it open the round. Meanwhile clients go on. */
static fed_status open_sum(sim_world *world, fed_error *err) {
    sim_opening opening;
    bool waits = false;
    if (world->opener.helper == NULL) {
        return FED_OK;
    }
    fed_status status =
        sim_opener_ask(&world->opener, &world->host, world->now_us, &opening, &waits, err);
    if (status == FED_OK && waits) {
        pthread_mutex_unlock(&world->clients->mutex);
        status = sim_opener_answer(&world->opener, &opening, err);
        pthread_mutex_lock(&world->clients->mutex);
    }
    if (status == FED_OK && waits) {
        FED_TRY(sim_opener_give(&world->opener, &world->host, world->now_us, &opening, err));
        return note_version(world, err);
    }
    sim_opening_free(&opening);
    return status;
}

/** Note a new model, a round that waits for its helper, free slots or the task's end at the
 * coordinator. */
static fed_status look(sim_world *world, fed_error *err) {
    sim_host *host = &world->host;
    FED_TRY(note_version(world, err));
    uint64_t key = 0;
    do {
        while (host->epoch != fedserver_epoch(host->server)) {
            host->epoch = fedserver_epoch(host->server);
            FED_TRY(open_sum(world, err));
            FED_TRY(sim_parked_ask_all(world, err));
        }
        key = fedserver_woken(host->server);
        if (key != 0) {
            FED_TRY(open_sum(world, err)); /* the key may be the helper's */
            FED_TRY(sim_parked_ask(world, key, err));
        }
    } while (key != 0 || host->epoch != fedserver_epoch(host->server));
    return FED_OK;
}

static fed_status tick(sim_world *world, fed_error *err) {
    world->now_us = world->host.kept.tick_us;
    FED_TRY(sim_host_tick(&world->host, world->now_us, err));
    return look(world, err);
}

/** Return a client's turn in the queue for a worker. A client that has sent its update comes first:
 * it has little left to do, and its values may still be in the cache. */
static sim_due turn_of(const sim_actor *actor) {
    sim_due due = actor->world->heap.due[actor->client->k];
    const bool sent = actor->thread != NULL && actor->kept.kind == FED_REQUEST_UPDATE;
    due.us = sent ? INT64_MIN : due.us;
    return due;
}

/** Commit the batch, and let the clients that have waited for the commit go on. */
static fed_status flush(sim_world *world, fed_error *err) {
    if (world->host.batch) {
        pthread_mutex_unlock(&world->clients->mutex);
        fed_status status = sim_host_commit(&world->host, err);
        pthread_mutex_lock(&world->clients->mutex);
        FED_TRY(status);
    }
    for (size_t i = 0; i < world->pending_count; i++) {
        sim_actor *actor = &world->actor[world->pending[i]];
        if (world->here != NULL && actor == world->here) {
            actor->kept.stage = SIM_RUNS; /* this client has kept its worker */
        } else {
            sim_heap_set(&world->ready, actor->client->k, turn_of(actor));
        }
    }
    world->pending_count = 0;
    sim_steps_start(world);
    return FED_OK;
}

/** Return whether this request is the first update of options->kill_round. */
static bool kills_coordinator(const sim_actor *actor) {
    const sim_options *o = actor->world->clients->options;
    fed_update update;
    fed_reader r;
    if (o->kill_round == 0 || actor->world->clients->log->kills > 0 ||
        actor->kept.kind != FED_REQUEST_UPDATE) {
        return false;
    }
    fed_reader_init(&r, actor->request.body, actor->request.body_len);
    return fed_update_read(&r, &update) == FED_OK && update.round == o->kill_round;
}

/** Let the coordinator handle the request, and kill it before it commits, so no answer leaves. */
static fed_status handle_and_kill(sim_actor *actor, fed_error *err) {
    sim_world *world = actor->world;
    fedserver_response response;
    FED_TRY(flush(world, err));
    FED_TRY(sim_host_handle(&world->host, &actor->request, world->now_us, &response, err));
    fedserver_blob_free(response.body);
    FED_TRY(sim_host_kill(&world->host, err));
    world->clients->log->kills++;
    sim_parked_lose_all(world);
    FED_TRY(sim_host_tick(&world->host, world->now_us, err));
    actor->fate = FED_ENET;
    go_on(actor);
    return look(world, err);
}

static fed_status answer(sim_actor *actor, const fedserver_response *response) {
    int64_t at_us = actor->world->now_us;
    actor->answer = *response;
    fed_status fate = sim_answer_send(actor, response, &at_us);
    sim_actor_move(actor, at_us);
    return fate;
}

static fed_status handle(sim_actor *actor, fed_error *err) {
    sim_world *world = actor->world;
    fedserver_response response;
    if (actor->kept.kind == FED_REQUEST_CHECKIN) {
        sim_note_checkin(world->clients, sim_unix_ms(world->now_us));
    }
    if (kills_coordinator(actor)) {
        return handle_and_kill(actor, err);
    }
    actor->request.waited_ms = 0;
    FED_TRY(sim_host_handle(&world->host, &actor->request, world->now_us, &response, err));
    actor->fate = FED_OK;
    if (response.hold) {
        FED_TRY(sim_park(actor, &response, err));
    } else if (actor->kept.unheard) {
        fedserver_blob_free(response.body);
    } else {
        if (actor->kept.kind == FED_REQUEST_CHECKIN) {
            sim_answer_keep(actor, response.body);
        }
        actor->fate = answer(actor, &response);
    }
    go_on(actor);
    return look(world, err);
}

static bool failed(const sim_step_end *end) {
    return end->outcome == FEDCLIENT_RETRY ||
           (end->outcome == FEDCLIENT_REFUSED && end->wait_ms > 0);
}

static void plan_next(sim_actor *actor) {
    const sim_step_end *end = &actor->kept.end;
    if (failed(end)) {
        sim_actor_plan(actor, actor->kept.now_us + sim_actor_backoff_us(actor));
        return;
    }
    actor->kept.failures = end->outcome == FEDCLIENT_REFUSED ? actor->kept.failures : 0;
    if (actor->client->evaluates && end->outcome == FEDCLIENT_EVALUATED) {
        const sim_host *host = &actor->world->host;
        const bool due = host->kept.version != end->version &&
                         sim_wants_measured(actor->client->clients, host->kept.version);
        actor->kept.stage = SIM_IDLE;
        if (due || !host->kept.running) {
            sim_actor_stand(actor, SIM_IDLE);
        } else {
            sim_heap_set(&actor->world->heap, actor->client->k, (sim_due){.us = SIM_NEVER});
        }
        return;
    }
    sim_actor_plan(actor, actor->kept.now_us + (int64_t)end->wait_ms * 1000);
}

static fed_status end_step(sim_actor *actor, fed_error *err) {
    sim_client *client = actor->client;
    sim_clients *clients = client->clients;
    bool over = false;
    sim_answer_keep(actor, NULL);
    if (actor->status != FED_OK) {
        client->error = actor->error;
        client->error.status = actor->status;
        clients->failed++;
        return sim_clients_failure(clients, err);
    }
    FED_TRY(sim_note_event(client, &actor->kept.end, &over, err));
    if (over) {
        clients->kept.running -= client->kept.takes_part ? 1U : 0U;
        sim_heap_remove(&actor->world->heap, client->k);
        actor->kept.stage = SIM_IDLE;
        return FED_OK;
    }
    if (actor->kept.parked.on) {
        return sim_parked_settle(actor, err);
    }
    plan_next(actor);
    return FED_OK;
}

static void wait_for_change(sim_world *world) {
    (void)fed_cond_wait_until(&world->clients->changed, &world->clients->mutex,
                              fed_clock_monotonic_us() + SHOW_MS * 1000);
}

static void show(sim_world *world) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (now_ms - world->shown_ms >= SHOW_MS || world->shown_round != world->clients->kept.round) {
        world->shown_ms = now_ms;
        world->shown_round = world->clients->kept.round;
        const double now_s = 1e-6 * (double)world->now_us;
        pthread_mutex_unlock(&world->clients->mutex);
        sim_clients_show(world->clients, world->watch, now_s);
        pthread_mutex_lock(&world->clients->mutex);
    }
}

static bool tick_is_due(const sim_world *world, sim_due due) {
    return world->host.kept.tick_us <= due.us && due.us < SIM_NEVER;
}

/** Is there nothing to do until the code of the first entry's client has run? */
static bool stands_still(const sim_world *world) {
    const uint32_t k = sim_heap_top(&world->heap);
    return sim_step_under_way(&world->actor[k]) && !tick_is_due(world, world->heap.due[k]) &&
           !world->host.batch && world->pending_count == 0;
}

static fed_status advance(sim_world *world, fed_error *err) {
    const uint32_t k = sim_heap_top(&world->heap);
    const sim_due due = world->heap.due[k];
    sim_actor *actor = &world->actor[k];
    if (tick_is_due(world, due)) {
        return tick(world, err);
    }
    if (sim_step_under_way(actor)) {
        return flush(world, err);
    }
    if (due.us >= SIM_NEVER) {
        return fed_fail(err, FED_ESTATE,
                        "round %u: no client comes any more; check the scenario's presence, and "
                        "the task's \"goal\" and \"minimum\"",
                        world->clients->kept.round);
    }
    world->now_us = due.us;
    switch (actor->kept.stage) {
    case SIM_IDLE:
        begin_step(actor);
        return FED_OK;
    case SIM_PARKED: {
        FED_TRY(sim_parked_due(actor, err));
        return look(world, err);
    }
    case SIM_ASKS:
        return handle(actor, err);
    case SIM_ENDED:
        return end_step(actor, err);
    default:
        return FED_ESTATE;
    }
}

void sim_schedule_resume(sim_world *world) {
    for (size_t k = 0; k < world->clients->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->kept.stage == SIM_ASKS) {
            actor->resumes = true;
            actor->asked = actor->kept.kind;
            actor->kept.nth--; /* so that the repeated request does not count twice */
            go_on(actor);
        }
    }
}

fed_status sim_schedule_begin(sim_world *world, fed_error *err) {
    for (size_t k = 0; k < world->clients->client_count; k++) {
        sim_actor_plan(&world->actor[k], 0);
    }
    FED_TRY(sim_host_tick(&world->host, 0, err));
    return look(world, err);
}

static bool is_over(const sim_world *world) {
    return world->status != FED_OK || world->clients->kept.running == 0 || *world->watch->stop != 0;
}

static bool is_interrupted(const sim_world *world) {
    return is_over(world) || world->shown_round != world->clients->kept.round;
}

/** Implements sim_world.schedule. After an interruption the run's own thread continues. */
static void schedule(sim_world *world, sim_actor *here) {
    if (world->scheduling || world->settles) {
        return;
    }
    world->scheduling = true;
    world->here = here;
    while (!is_interrupted(world) && !stands_still(world) &&
           (here == NULL || here->kept.stage != SIM_RUNS)) {
        world->status = advance(world, &world->error);
    }
    world->here = NULL;
    world->scheduling = false;
    if (is_interrupted(world) || !stands_still(world)) {
        pthread_cond_signal(&world->clients->changed);
    }
}

/* End a run that was asked to stop. If its state is saved, first wait until all steps under way can
 * be saved. */
static fed_status stop(sim_world *world, fed_error *err) {
    const sim_clients *clients = world->clients;
    if (clients->options->state != NULL) {
        FED_TRY(flush(world, err));
        sim_steps_settle(world);
    }
    return fed_fail(err, FED_ECANCELED, "stopped in round %u", clients->kept.round);
}

fed_status sim_schedule_run(sim_world *world, fed_error *err) {
    const sim_clients *clients = world->clients;
    world->schedule = schedule;
    pthread_mutex_lock(&world->clients->mutex);
    while (world->scheduling || !is_over(world)) {
        show(world);
        schedule(world, NULL);
        if (world->scheduling || !is_interrupted(world)) {
            wait_for_change(world);
        }
    }
    fed_status status = world->status != FED_OK
                            ? fed_fail(err, world->status, "%s", world->error.text)
                        : clients->kept.running > 0 ? stop(world, err)
                                                    : flush(world, err);
    pthread_mutex_unlock(&world->clients->mutex);
    return status;
}
