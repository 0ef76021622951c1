/* The scheduler: whatever comes first in virtual time is dealt with, or waited for. */
#include <string.h>
#include <time.h>

#include "deploy/sim/conditions/streams.h"
#include "deploy/sim/virtual/inproc.h"
#include "fed/clock.h"

enum { SHOW_MS = 200 };

/* The client library's law, drawn from the seed: its own jitter comes from the device's key, which
 * is another one in each run. */
int64_t sim_backoff_us(sim_actor *actor) {
    enum { FIRST_MS = 400, LAST_MS = 60000, DOUBLINGS = 8 };
    const uint32_t doublings = actor->failures < DOUBLINGS ? actor->failures : DOUBLINGS;
    const uint32_t law_ms = (uint32_t)FIRST_MS << doublings;
    const uint32_t most_ms = law_ms < LAST_MS ? law_ms : LAST_MS;
    actor->failures++;
    fed_rng rng;
    fed_rng_init(&rng, actor->world->crowd->options->seed, actor->client->k,
                 SIM_STREAM_BACKOFF + actor->turns);
    return (int64_t)(most_ms / 2 + fed_rng_below(&rng, most_ms / 2 + 1)) * 1000;
}

void sim_plan(sim_actor *actor, int64_t us) {
    const int64_t from_us = sim_attendance_from(&actor->attendance, us);
    actor->connected = actor->connected && from_us == us;
    sim_actor_move(actor, from_us);
    sim_actor_stand(actor, SIM_IDLE);
}

/* --- Turns begin --- */

/** It may go on as soon as what it has heard is committed. */
static void go_on(sim_actor *actor) {
    sim_inproc *world = actor->world;
    actor->stage = SIM_READY;
    sim_actor_expect(actor);
    world->pending[world->pending_count++] = actor->client->k;
}

/** Does the schedule say that it stays away from the round that it would come for? */
static bool stays_away(const sim_actor *actor, uint32_t *round) {
    const sim_client *client = actor->client;
    sim_crowd *crowd = client->crowd;
    *round = crowd->round > client->last_counted ? crowd->round : client->last_counted + 1;
    return actor->world->host.running && !client->evaluates && crowd->options->offline > 0 &&
           sim_is_away(crowd, *round, client->k);
}

static void begin_turn(sim_actor *actor) {
    uint32_t round = 0;
    if (!actor->held.on && stays_away(actor, &round)) {
        actor->sleeps = round;
        actor->connected = false;
        sim_heap_set(&actor->world->heap, actor->client->k, (sim_key){.us = SIM_NEVER});
        return;
    }
    fed_rng rng;
    fed_rng_init(&rng, actor->world->crowd->options->seed, actor->client->k,
                 SIM_STREAM_CHANCE + ++actor->turns);
    actor->chance = fed_rng_u32(&rng);
    go_on(actor);
}

static void wake_sleepers(sim_inproc *world) {
    for (size_t k = 0; k < world->crowd->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->sleeps != 0 && (world->crowd->round > actor->sleeps || !world->host.running)) {
            actor->sleeps = 0;
            sim_plan(actor, world->now_us);
        }
    }
}

/** A new model, or the end: the evaluator is due, or has to be done with the last one. */
static void rouse_evaluator(sim_inproc *world) {
    sim_actor *actor = &world->actor[world->crowd->options->clients];
    const sim_host *host = &world->host;
    if (host->running && !sim_wants_measured(world->crowd->options, host->version)) {
        return;
    }
    if (actor->measures) {
        actor->measures = false;
        actor->release_us = world->now_us;
        if (actor->stage == SIM_ASKS) {
            sim_actor_move(actor, world->now_us);
            sim_actor_stand(actor, SIM_ASKS);
        } else { /* its code runs: the clock is its own */
            sim_heap_set(&world->heap, actor->client->k, (sim_key){.us = world->now_us});
        }
    } else if (actor->stage == SIM_IDLE && !actor->client->finished) {
        sim_actor_move(actor, world->now_us);
        sim_actor_stand(actor, SIM_IDLE);
    }
}

/* --- The coordinator --- */

fed_status sim_schedule_look(sim_inproc *world, fed_error *err) {
    sim_host *host = &world->host;
    sim_crowd *crowd = world->crowd;
    bool running = false;
    const uint32_t version = fedserver_version(host->server, &running);
    if (version != host->version || running != host->running) {
        const uint32_t more = version - host->version;
        host->version = version;
        host->running = running;
        FED_TRY(sim_note_rounds(crowd, host->server, more, err));
        crowd->round = running ? version + 1 : version;
        crowd->reported = 0;
        wake_sleepers(world);
        rouse_evaluator(world);
    }
    while (host->epoch != fedserver_epoch(host->server)) {
        host->epoch = fedserver_epoch(host->server);
        FED_TRY(sim_held_ask_all(world, err));
    }
    return FED_OK;
}

static fed_status tick(sim_inproc *world, fed_error *err) {
    world->now_us = world->host.tick_us;
    FED_TRY(sim_host_tick(&world->host, world->now_us, err));
    return sim_schedule_look(world, err);
}

/** Commit, and let those go on who have been answered. */
static fed_status flush(sim_inproc *world, fed_error *err) {
    if (world->host.batch) {
        pthread_mutex_unlock(&world->crowd->mutex);
        fed_status status = sim_host_commit(&world->host, err);
        pthread_mutex_lock(&world->crowd->mutex);
        FED_TRY(status);
    }
    for (size_t i = 0; i < world->pending_count; i++) {
        const uint32_t k = world->pending[i];
        sim_heap_set(&world->ready, k, world->heap.key[k]);
    }
    world->pending_count = 0;
    sim_turns_hand_out(world);
    return FED_OK;
}

/** Is that the update in whose middle the coordinator is to die? */
static bool is_fatal(const sim_actor *actor) {
    const sim_options *o = actor->world->crowd->options;
    fed_update update;
    fed_reader r;
    if (o->kill_round == 0 || actor->world->host.killed || strcmp(actor->path, "/v1/update") != 0) {
        return false;
    }
    fed_reader_init(&r, actor->request.body, actor->request.body_len);
    return fed_update_read(&r, &update) == FED_OK && update.round == o->kill_round;
}

/** It handles the request, and dies before it commits: nobody hears of it. */
static fed_status die(sim_actor *actor, fed_error *err) {
    sim_inproc *world = actor->world;
    fedserver_response response;
    FED_TRY(flush(world, err));
    FED_TRY(sim_host_handle(&world->host, &actor->request, world->now_us, &response, err));
    fedserver_blob_free(response.body);
    FED_TRY(sim_host_kill(&world->host, err));
    sim_held_lose_all(world);
    FED_TRY(sim_host_tick(&world->host, world->now_us, err));
    actor->fate = FED_ENET;
    go_on(actor);
    return sim_schedule_look(world, err);
}

static fed_status answer(sim_actor *actor, const fedserver_response *response) {
    int64_t at_us = actor->world->now_us;
    actor->answer = *response;
    fed_status fate = sim_handover_answer(actor, response, &at_us);
    sim_actor_move(actor, at_us);
    return fate;
}

/** A request has arrived. */
static fed_status handle(sim_actor *actor, fed_error *err) {
    sim_inproc *world = actor->world;
    fedserver_response response;
    if (strcmp(actor->path, "/v1/checkin") == 0) {
        sim_note_checkin(world->crowd, sim_unix_ms(world->now_us));
    }
    if (is_fatal(actor)) {
        return die(actor, err);
    }
    actor->request.waited_ms = 0;
    FED_TRY(sim_host_handle(&world->host, &actor->request, world->now_us, &response, err));
    actor->fate = FED_OK;
    if (response.hold) {
        FED_TRY(sim_held_park(actor, response.hold_ms, err));
    } else if (actor->unheard) {
        fedserver_blob_free(response.body);
    } else {
        if (strcmp(actor->path, "/v1/checkin") == 0) {
            sim_handover_keep(actor, response.body);
        }
        actor->fate = answer(actor, &response);
    }
    go_on(actor);
    return sim_schedule_look(world, err);
}

/* --- Turns end --- */

static bool failed(const fedclient_event *event) {
    return event->outcome == FEDCLIENT_RETRY ||
           (event->outcome == FEDCLIENT_REFUSED && event->wait_ms > 0);
}

static void plan_next(sim_actor *actor) {
    const fedclient_event *event = &actor->event;
    if (failed(event)) {
        sim_plan(actor, actor->now_us + sim_backoff_us(actor));
        return;
    }
    actor->failures = event->outcome == FEDCLIENT_REFUSED ? actor->failures : 0;
    if (actor->client->evaluates && event->outcome == FEDCLIENT_EVALUATED) {
        const sim_host *host = &actor->world->host;
        const bool due = host->version != event->version &&
                         sim_wants_measured(actor->client->crowd->options, host->version);
        actor->stage = SIM_IDLE;
        if (due || !host->running) {
            sim_actor_stand(actor, SIM_IDLE);
        } else {
            sim_heap_set(&actor->world->heap, actor->client->k, (sim_key){.us = SIM_NEVER});
        }
        return;
    }
    sim_plan(actor, actor->now_us + (int64_t)event->wait_ms * 1000);
}

static fed_status end_turn(sim_actor *actor, fed_error *err) {
    sim_client *client = actor->client;
    sim_crowd *crowd = client->crowd;
    bool over = false;
    sim_handover_keep(actor, NULL);
    if (actor->status != FED_OK) {
        client->error = actor->error;
        client->error.status = actor->status;
        crowd->failed++;
        return sim_crowd_failure(crowd, err);
    }
    FED_TRY(sim_note_event(client, &actor->event, &over));
    if (over) {
        crowd->running -= client->takes_part ? 1U : 0U;
        sim_heap_remove(&actor->world->heap, client->k);
        actor->stage = SIM_IDLE;
        return FED_OK;
    }
    if (actor->held.on) {
        return sim_held_settle(actor, err);
    }
    plan_next(actor);
    return FED_OK;
}

/* --- All of it --- */

/** Sleep until something moves, or it is time to show how far it is. */
static void wait_for_news(sim_inproc *world) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SHOW_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_cond_timedwait(&world->crowd->changed, &world->crowd->mutex, &until);
}

static void show(sim_inproc *world) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (now_ms - world->shown_ms >= SHOW_MS || world->shown_round != world->crowd->round) {
        world->shown_ms = now_ms;
        world->shown_round = world->crowd->round;
        pthread_mutex_unlock(&world->crowd->mutex);
        sim_crowd_show(world->crowd, world->watch, 1e-6 * (double)world->now_us);
        pthread_mutex_lock(&world->crowd->mutex);
    }
}

static fed_status advance(sim_inproc *world, fed_error *err) {
    const uint32_t k = sim_heap_top(&world->heap);
    const sim_key key = world->heap.key[k];
    sim_actor *actor = &world->actor[k];
    if (world->host.tick_us <= key.us && key.us < SIM_NEVER) {
        return tick(world, err);
    }
    if (sim_turns_under_way(actor)) {
        if (world->host.batch || world->pending_count > 0) {
            return flush(world, err);
        }
        wait_for_news(world);
        return FED_OK;
    }
    if (key.us >= SIM_NEVER) {
        return fed_fail(err, FED_ESTATE,
                        "round %u: no client comes any more; look at the presence, and at the "
                        "task's \"goal\" and \"minimum\"",
                        world->crowd->round);
    }
    world->now_us = key.us;
    switch (actor->stage) {
    case SIM_IDLE:
        begin_turn(actor);
        return FED_OK;
    case SIM_HELD: {
        FED_TRY(sim_held_due(actor, err));
        return sim_schedule_look(world, err);
    }
    case SIM_ASKS:
        return handle(actor, err);
    case SIM_ENDED:
        return end_turn(actor, err);
    default:
        return FED_ESTATE;
    }
}

void sim_schedule_resume(sim_inproc *world) {
    for (size_t k = 0; k < world->crowd->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->stage == SIM_ASKS) {
            actor->resumes = true;
            actor->step--; /* it asks once more */
            go_on(actor);
        }
    }
}

fed_status sim_schedule_begin(sim_inproc *world, fed_error *err) {
    for (size_t k = 0; k < world->crowd->client_count; k++) {
        sim_plan(&world->actor[k], 0);
    }
    FED_TRY(sim_host_tick(&world->host, 0, err)); /* the task starts */
    return sim_schedule_look(world, err);
}

/** Everything that is under way comes to where it can be written down. */
static fed_status settle(sim_inproc *world, fed_error *err) {
    FED_TRY(flush(world, err));
    sim_turns_settle(world);
    return FED_OK;
}

fed_status sim_schedule_run(sim_inproc *world, fed_error *err) {
    sim_crowd *crowd = world->crowd;
    fed_status status = FED_OK;
    pthread_mutex_lock(&crowd->mutex);
    while (status == FED_OK && crowd->running > 0) {
        if (*world->watch->stop != 0) {
            status = crowd->options->state != NULL ? settle(world, err) : FED_OK;
            status = status != FED_OK
                         ? status
                         : fed_fail(err, FED_ECANCELED, "stopped in round %u", crowd->round);
            break;
        }
        show(world);
        status = advance(world, err);
    }
    if (status == FED_OK) {
        status = flush(world, err);
    }
    pthread_mutex_unlock(&crowd->mutex);
    return status;
}
