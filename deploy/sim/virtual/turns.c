/* Threads that run turns, and the places that they run at: the least key comes first. */
#include <stdlib.h>

#include "deploy/sim/virtual/inproc.h"

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

/* --- The scheduler's sleep --- */

bool sim_turns_under_way(const sim_actor *actor) {
    return actor->stage == SIM_READY || actor->stage == SIM_RUNS;
}

/** Something has changed: wake the scheduler, if it can go on. Mostly it can't: what it waits for
 * is the last of many. */
static void tell(sim_inproc *world) {
    const uint32_t next = sim_heap_top(&world->heap);
    if (world->settles || !sim_turns_under_way(&world->actor[next]) ||
        world->host.tick_us <= world->heap.key[next].us) {
        pthread_cond_signal(&world->crowd->changed);
    }
}

/* --- Threads --- */

static void wake(sim_worker *worker) {
    sem_post(&worker->go);
}

static void sleep_until_woken(sim_worker *worker) {
    while (sem_wait(&worker->go) != 0) { /* a signal */
    }
}

static void *work(void *user);

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
    sem_init(&worker->go, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&worker->thread, &attributes, work, worker);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        sem_destroy(&worker->go);
        free(worker);
        return NULL;
    }
    worker->next = world->workers;
    world->workers = worker;
    return worker;
}

/** FED_ENOMEM, and its turn has ended: there is no thread for it. */
static fed_status begin_turn(sim_actor *actor) {
    actor->worker = hire(actor->world);
    if (actor->worker != NULL) {
        actor->worker->actor = actor;
        return FED_OK;
    }
    actor->status = fed_fail(&actor->error, FED_ENOMEM,
                             "can't start a thread for its turn; use a smaller cohort");
    sim_actor_stand(actor, SIM_ENDED);
    return FED_ENOMEM;
}

/* --- Places --- */

static void give_back(sim_client *client) {
    client->place->next = client->crowd->places;
    client->crowd->places = client->place;
    client->place = NULL;
}

/** A free place goes to whoever is READY and first. The thread to be woken for it; NULL: there is
 * none. */
static sim_worker *hand_out(sim_inproc *world) {
    sim_crowd *crowd = world->crowd;
    while (crowd->places != NULL && world->ready.count > 0) {
        sim_actor *actor = &world->actor[sim_heap_top(&world->ready)];
        sim_heap_remove(&world->ready, actor->client->k);
        if (actor->worker != NULL || begin_turn(actor) == FED_OK) {
            actor->stage = SIM_RUNS;
            actor->client->place = crowd->places;
            crowd->places = crowd->places->next;
            return actor->worker;
        }
    }
    return NULL;
}

void sim_turns_hand_out(sim_inproc *world) {
    for (sim_worker *next; (next = hand_out(world)) != NULL;) {
        wake(next);
    }
}

/* --- A turn --- */

static void take_turn(sim_actor *actor) {
    fed_error err = {0};
    bool over = false;
    actor->event = (fedclient_event){0};
    sim_actor_enter(actor);
    actor->failures_before = fedclient_failures(actor->fed);
    actor->status = fedclient_step(actor->fed, &actor->event, &err);
    if (actor->status == FED_OK && actor->event.outcome == FEDCLIENT_DECLINED) {
        actor->status = err.status; /* so would all the others */
    }
    over = actor->event.outcome == FEDCLIENT_FINISHED ||
           (actor->event.outcome == FEDCLIENT_WAITED && actor->event.reason == FED_WAIT_FINISHED);
    if (actor->status == FED_OK && over) {
        actor->status = sim_client_finish(actor->client, actor->fed, &err);
    }
    actor->error = err;
    sim_actor_enter(NULL);
}

/** Under the mutex, which it gives back: the client's code stops here, and its place is another's.
 */
static void make_room(sim_actor *actor, sim_stage stage) {
    sim_inproc *world = actor->world;
    give_back(actor->client);
    sim_actor_stand(actor, stage);
    sim_worker *next = hand_out(world);
    tell(world);
    pthread_mutex_unlock(&world->crowd->mutex);
    if (next != NULL) {
        wake(next); /* it finds the mutex free */
    }
}

static void *work(void *user) {
    sim_worker *worker = user;
    sim_inproc *world = worker->world;
    sleep_until_woken(worker);
    while (worker->actor != NULL) {
        sim_actor *actor = worker->actor;
        take_turn(actor);
        pthread_mutex_lock(&world->crowd->mutex);
        actor->worker = NULL;
        worker->actor = NULL;
        worker->next_idle = world->idle;
        world->idle = worker;
        make_room(actor, SIM_ENDED);
        sleep_until_woken(worker);
    }
    return NULL;
}

fed_status sim_turns_ask(sim_actor *actor) {
    sim_inproc *world = actor->world;
    pthread_mutex_lock(&world->crowd->mutex);
    if (world->stopping) {
        pthread_mutex_unlock(&world->crowd->mutex);
        return FED_ECANCELED;
    }
    sim_worker *worker = actor->worker;
    sim_actor_move(actor, actor->release_us);
    make_room(actor, SIM_ASKS);
    sleep_until_woken(worker);
    return actor->fate;
}

void sim_turns_settle(sim_inproc *world) {
    world->settles = true;
    for (size_t k = 0; k < world->crowd->client_count;) {
        if (sim_turns_under_way(&world->actor[k])) {
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
    world->settles = true;
    cancel_all(world);
    while (busy(world)) {
        pthread_cond_wait(&world->crowd->changed, &world->crowd->mutex);
    }
    pthread_mutex_unlock(&world->crowd->mutex);
    while (world->workers != NULL) {
        sim_worker *worker = world->workers;
        world->workers = worker->next;
        wake(worker); /* without anybody's turn: it ends */
        pthread_join(worker->thread, NULL);
        sem_destroy(&worker->go);
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
    tell(world);
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
    tell(world);
    pthread_mutex_unlock(&client->crowd->mutex);
}
