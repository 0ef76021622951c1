/* Threads that run turns, and the places that they run at: the least key comes first. */
#include <stdlib.h>

#include "deploy/sim/inproc.h"

enum { STACK_BYTES = 512 * 1024 };

void sim_actor_move(sim_actor *actor, int64_t us) {
    if (us > actor->now_us) {
        actor->now_us = us;
        actor->step = 0;
    }
}

static void set_key(sim_actor *actor, uint32_t step) {
    const sim_key key = {
        .us = actor->measures ? SIM_NEVER : actor->now_us, .step = step, .chance = actor->chance};
    sim_heap_set(&actor->world->heap, actor->client->k, key);
}

void sim_actor_stand(sim_actor *actor, sim_stage stage) {
    actor->stage = stage;
    set_key(actor, ++actor->step);
}

void sim_actor_expect(sim_actor *actor) {
    set_key(actor, actor->step + 1);
}

/* --- Places --- */

static void leave_place(sim_actor *actor) {
    sim_client *client = actor->client;
    client->place->next = client->crowd->places;
    client->crowd->places = client->place;
    client->place = NULL;
    sim_turns_hand_out(actor->world);
}

static void take_turn(sim_actor *actor) {
    fed_error err = {0};
    bool over = false;
    actor->event = (fedclient_event){0};
    sim_actor_enter(actor);
    actor->status = fedclient_step(actor->fed, &actor->event, &err);
    over = actor->event.outcome == FEDCLIENT_FINISHED ||
           (actor->event.outcome == FEDCLIENT_WAITED && actor->event.reason == FED_WAIT_FINISHED);
    if (actor->status == FED_OK && over) {
        actor->status = sim_client_finish(actor->client, actor->fed, &err);
    }
    actor->error = err;
    sim_actor_enter(NULL);
}

static void *work(void *user) {
    sim_worker *worker = user;
    sim_inproc *world = worker->world;
    pthread_mutex_lock(&world->crowd->mutex);
    while (!world->quit) {
        if (worker->actor == NULL) {
            pthread_cond_wait(&worker->work, &world->crowd->mutex);
            continue;
        }
        sim_actor *actor = worker->actor;
        pthread_mutex_unlock(&world->crowd->mutex);
        take_turn(actor);
        pthread_mutex_lock(&world->crowd->mutex);
        actor->worker = NULL;
        worker->actor = NULL;
        worker->next_idle = world->idle;
        world->idle = worker;
        sim_actor_stand(actor, SIM_ENDED);
        leave_place(actor);
        pthread_cond_broadcast(&world->crowd->changed);
    }
    pthread_mutex_unlock(&world->crowd->mutex);
    return NULL;
}

/** An idle thread, or a new one. NULL: the system has no more. */
static sim_worker *hire(sim_inproc *world) {
    sim_worker *worker = world->idle;
    if (worker != NULL) {
        world->idle = worker->next_idle;
        return worker;
    }
    worker = calloc(1, sizeof *worker);
    if (worker == NULL) {
        return NULL;
    }
    worker->world = world;
    pthread_cond_init(&worker->work, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&worker->thread, &attributes, work, worker);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        pthread_cond_destroy(&worker->work);
        free(worker);
        return NULL;
    }
    worker->next = world->workers;
    world->workers = worker;
    return worker;
}

static void begin_turn(sim_actor *actor) {
    actor->worker = hire(actor->world);
    if (actor->worker != NULL) {
        actor->worker->actor = actor;
        pthread_cond_signal(&actor->worker->work);
        return;
    }
    actor->status = fed_fail(&actor->error, FED_ENOMEM,
                             "can't start a thread for its turn; use a smaller cohort");
    sim_actor_stand(actor, SIM_ENDED);
}

void sim_turns_hand_out(sim_inproc *world) {
    sim_crowd *crowd = world->crowd;
    while (crowd->places != NULL && world->ready.count > 0) {
        sim_actor *actor = &world->actor[sim_heap_top(&world->ready)];
        sim_heap_remove(&world->ready, actor->client->k);
        actor->stage = SIM_RUNS;
        actor->client->place = crowd->places;
        crowd->places = crowd->places->next;
        if (actor->worker != NULL) {
            pthread_cond_signal(&actor->client->turn);
            continue;
        }
        begin_turn(actor);
        if (actor->worker == NULL) {
            actor->client->place->next = crowd->places;
            crowd->places = actor->client->place;
            actor->client->place = NULL;
        }
    }
}

fed_status sim_turns_ask(sim_actor *actor) {
    sim_inproc *world = actor->world;
    pthread_mutex_lock(&world->crowd->mutex);
    if (world->stopping) {
        pthread_mutex_unlock(&world->crowd->mutex);
        return FED_ECANCELED;
    }
    sim_actor_move(actor, actor->release_us);
    sim_actor_stand(actor, SIM_ASKS);
    leave_place(actor);
    pthread_cond_broadcast(&world->crowd->changed);
    while (actor->client->place == NULL) {
        pthread_cond_wait(&actor->client->turn, &world->crowd->mutex);
    }
    pthread_mutex_unlock(&world->crowd->mutex);
    return actor->fate;
}

void sim_turns_settle(sim_inproc *world) {
    for (size_t k = 0; k < world->crowd->client_count;) {
        const sim_stage stage = world->actor[k].stage;
        if (stage == SIM_READY || stage == SIM_RUNS) {
            pthread_cond_wait(&world->crowd->changed, &world->crowd->mutex);
            k = 0;
        } else {
            k++;
        }
    }
}

/** Those that wait for an answer hear that there will be none. */
static void cancel_all(sim_inproc *world) {
    world->stopping = true;
    for (size_t k = 0; k < world->crowd->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->worker == NULL) {
            sim_heap_remove(&world->ready, actor->client->k);
        } else if (actor->stage == SIM_ASKS || actor->stage == SIM_READY) {
            actor->fate = FED_ECANCELED;
            actor->stage = SIM_READY;
            sim_heap_set(&world->ready, actor->client->k, world->heap.key[actor->client->k]);
        }
    }
    sim_turns_hand_out(world);
}

static bool busy(const sim_inproc *world) {
    for (const sim_worker *worker = world->workers; worker != NULL; worker = worker->next) {
        if (worker->actor != NULL) {
            return true;
        }
    }
    return false;
}

void sim_turns_close(sim_inproc *world) {
    pthread_mutex_lock(&world->crowd->mutex);
    cancel_all(world);
    while (busy(world)) {
        pthread_cond_wait(&world->crowd->changed, &world->crowd->mutex);
    }
    world->quit = true;
    for (sim_worker *worker = world->workers; worker != NULL; worker = worker->next) {
        pthread_cond_signal(&worker->work);
    }
    pthread_mutex_unlock(&world->crowd->mutex);
    while (world->workers != NULL) {
        sim_worker *worker = world->workers;
        world->workers = worker->next;
        pthread_join(worker->thread, NULL);
        pthread_cond_destroy(&worker->work);
        free(worker);
    }
}

/* --- What a client's code says of itself --- */

int64_t sim_inproc_trains(sim_client *client, uint64_t samples) {
    sim_inproc *world = client->crowd->inproc;
    sim_actor *actor = &world->actor[client->k];
    const int64_t us = sim_speed_us(&actor->speed, samples);
    pthread_mutex_lock(&client->crowd->mutex);
    sim_actor_move(actor, actor->now_us + us);
    sim_actor_expect(actor);
    pthread_cond_broadcast(&client->crowd->changed);
    pthread_mutex_unlock(&client->crowd->mutex);
    return us;
}

void sim_inproc_measures(sim_client *client, uint32_t version) {
    sim_inproc *world = client->crowd->inproc;
    const sim_host *host = &world->host;
    sim_actor *actor = &world->actor[client->k];
    pthread_mutex_lock(&client->crowd->mutex);
    /* It may be late already: then nothing goes on without it. */
    const bool late =
        host->version != version && sim_wants_measured(client->crowd->options, host->version);
    actor->measures = host->running && !late;
    sim_actor_expect(actor);
    pthread_cond_broadcast(&client->crowd->changed);
    pthread_mutex_unlock(&client->crowd->mutex);
}
