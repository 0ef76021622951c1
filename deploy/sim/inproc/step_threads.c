/* The threads that run clients' steps, and the workers that the steps need. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/step_threads.h"

#include <stdlib.h>

enum { STACK_BYTES = 512 * 1024 };

bool sim_step_under_way(const sim_actor *actor) {
    return actor->kept.stage == SIM_READY || actor->kept.stage == SIM_RUNS;
}

/** Wake the run's own thread if an event is due that no thread handles, or if it waits until no
 * client's code runs. */
static void tell(sim_world *world) {
    const uint32_t next = sim_heap_top(&world->heap);
    const bool due = !sim_step_under_way(&world->actor[next]) ||
                     world->host.kept.tick_us <= world->heap.due[next].us;
    if (world->settles || (due && !world->scheduling)) {
        pthread_cond_signal(&world->clients->changed);
    }
}

static void wake(sim_thread *thread) {
    sem_post(&thread->go);
}

static void sleep_until_woken(sim_thread *thread) {
    while (sem_wait(&thread->go) != 0) { /* interrupted by a signal */
    }
}

static void *work(void *user);

/** Return an idle thread, or a new one. NULL: the system refuses another thread. */
static sim_thread *get_thread(sim_world *world) {
    sim_thread *thread = world->idle;
    if (thread != NULL) {
        world->idle = thread->next_idle;
        return thread;
    }
    thread = calloc(1, sizeof *thread);
    if (thread == NULL) {
        return NULL;
    }
    thread->world = world;
    sem_init(&thread->go, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&thread->handle, &attributes, work, thread);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        sem_destroy(&thread->go);
        free(thread);
        return NULL;
    }
    thread->next = world->threads;
    world->threads = thread;
    return thread;
}

/** Find a thread for the client's step. If there is none, the step ends with FED_ENOMEM. */
static fed_status assign_thread(sim_actor *actor) {
    actor->thread = get_thread(actor->world);
    if (actor->thread != NULL) {
        actor->thread->actor = actor;
        return FED_OK;
    }
    actor->status = fed_fail(&actor->error, FED_ENOMEM,
                             "can't start a thread for the client's step; use a smaller cohort");
    sim_actor_stand(actor, SIM_ENDED);
    return FED_ENOMEM;
}

static void free_worker(sim_client *client) {
    client->worker->next = client->clients->free_workers;
    client->clients->free_workers = client->worker;
    client->worker = NULL;
}

/** Give a free worker to the client in world->ready that is due first. Returns the thread to be
 * woken; NULL: there is no worker, or no client. */
static sim_thread *assign_worker(sim_world *world) {
    sim_clients *clients = world->clients;
    while (clients->free_workers != NULL && world->ready.count > 0) {
        sim_actor *actor = &world->actor[sim_heap_top(&world->ready)];
        sim_heap_remove(&world->ready, actor->client->k);
        if (actor->thread != NULL || assign_thread(actor) == FED_OK) {
            actor->kept.stage = SIM_RUNS;
            actor->client->worker = clients->free_workers;
            clients->free_workers = clients->free_workers->next;
            return actor->thread;
        }
    }
    return NULL;
}

void sim_steps_start(sim_world *world) {
    for (sim_thread *next; (next = assign_worker(world)) != NULL;) {
        wake(next);
    }
}

static void run_step(sim_actor *actor) {
    fed_error err = {0};
    fedclient_event event = {0};
    sim_actor_enter(actor);
    actor->failures_before = fedclient_failures(actor->fed);
    actor->status = fedclient_step(actor->fed, &event, &err);
    actor->kept.end = sim_step_end_of(&event);
    if (actor->status == FED_OK && sim_step_ends_run(&event, &err)) {
        actor->status = err.status;
    }
    if (actor->status == FED_OK && sim_step_is_last(&actor->kept.end)) {
        actor->status = sim_client_finish(actor->client, actor->fed, &err);
    }
    actor->error = err;
    sim_actor_enter(NULL);
}

static void leave(sim_world *world) {
    sim_thread *next = assign_worker(world);
    tell(world);
    pthread_mutex_unlock(&world->clients->mutex);
    if (next != NULL) {
        wake(next); /* after the unlock, so that the thread need not wait for the mutex */
    }
}

static void *work(void *user) {
    sim_thread *thread = user;
    sim_world *world = thread->world;
    sleep_until_woken(thread);
    while (thread->actor != NULL) {
        sim_actor *actor = thread->actor;
        run_step(actor);
        pthread_mutex_lock(&world->clients->mutex);
        actor->thread = NULL;
        thread->actor = NULL;
        thread->next_idle = world->idle;
        world->idle = thread;
        free_worker(actor->client);
        sim_actor_stand(actor, SIM_ENDED);
        world->schedule(world, NULL);
        leave(world);
        sleep_until_woken(thread);
    }
    return NULL;
}

fed_status sim_step_ask(sim_actor *actor) {
    sim_world *world = actor->world;
    pthread_mutex_lock(&world->clients->mutex);
    if (world->stopping) {
        pthread_mutex_unlock(&world->clients->mutex);
        return FED_ECANCELED;
    }
    sim_thread *thread = actor->thread;
    sim_actor_move(actor, actor->release_us);
    sim_actor_stand(actor, SIM_ASKS);
    world->schedule(world, actor);
    if (actor->kept.stage == SIM_RUNS) {
        pthread_mutex_unlock(&world->clients->mutex);
        return actor->fate;
    }
    free_worker(actor->client);
    leave(world);
    sleep_until_woken(thread);
    return actor->fate;
}

void sim_steps_settle(sim_world *world) {
    world->settles = true;
    for (size_t k = 0; k < world->clients->client_count;) {
        if (sim_step_under_way(&world->actor[k])) {
            pthread_cond_wait(&world->clients->changed, &world->clients->mutex);
            k = 0;
        } else {
            k++;
        }
    }
}

static void cancel_all(sim_world *world) {
    world->stopping = true;
    world->clients->stop = 1; /* for steps that wait for a trainer */
    for (size_t k = 0; k < world->clients->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        if (actor->thread == NULL) {
            sim_heap_remove(&world->ready, actor->client->k);
        } else if (actor->kept.stage == SIM_ASKS || actor->kept.stage == SIM_READY) {
            actor->fate = FED_ECANCELED;
            actor->kept.stage = SIM_READY;
            sim_heap_set(&world->ready, actor->client->k, world->heap.due[actor->client->k]);
        }
    }
    sim_steps_start(world);
}

static bool busy(const sim_world *world) {
    for (const sim_thread *thread = world->threads; thread != NULL; thread = thread->next) {
        if (thread->actor != NULL) {
            return true;
        }
    }
    return false;
}

void sim_threads_close(sim_world *world) {
    pthread_mutex_lock(&world->clients->mutex);
    world->settles = true;
    cancel_all(world);
    while (busy(world)) {
        pthread_cond_wait(&world->clients->changed, &world->clients->mutex);
    }
    pthread_mutex_unlock(&world->clients->mutex);
    while (world->threads != NULL) {
        sim_thread *thread = world->threads;
        world->threads = thread->next;
        wake(thread); /* a thread that is woken without a step ends */
        pthread_join(thread->handle, NULL);
        sem_destroy(&thread->go);
        free(thread);
    }
}

int64_t sim_step_trains(void *user, uint32_t k, uint64_t samples) {
    sim_world *world = user;
    sim_actor *actor = &world->actor[k];
    const int64_t us = sim_speed_us(&actor->speed, samples);
    pthread_mutex_lock(&world->clients->mutex);
    sim_actor_move(actor, actor->kept.now_us + us);
    sim_actor_expect(actor);
    tell(world);
    pthread_mutex_unlock(&world->clients->mutex);
    return us;
}

void sim_step_measures(void *user, uint32_t k, uint32_t version) {
    sim_world *world = user;
    const sim_host *host = &world->host;
    sim_actor *actor = &world->actor[k];
    pthread_mutex_lock(&world->clients->mutex);
    /* If the next model to measure already exists, the run waits until this one is measured. */
    const bool late =
        host->kept.version != version && sim_wants_measured(world->clients, host->kept.version);
    actor->measures = host->kept.running && !late;
    sim_actor_expect(actor);
    tell(world);
    pthread_mutex_unlock(&world->clients->mutex);
}
