/* The threads that run clients' steps, and the workers that the steps need. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STEP_THREADS_H
#define FEDSIM_STEP_THREADS_H

#include <semaphore.h>

#include "deploy/sim/inproc/world.h"

typedef struct sim_thread {
    sim_world *world;
    pthread_t handle;
    sem_t go;         /* posted when there is something to run, or to end */
    sim_actor *actor; /* whose step it runs; NULL: nobody's */
    struct sim_thread *next_idle, *next;
} sim_thread;

/** Does its step run, or want to? Then nobody knows yet what comes next at it. */
bool sim_step_under_way(const sim_actor *actor);
/** Give free workers to clients that are ready, and let them run. Under the mutex. */
void sim_steps_start(sim_world *world);
/** From a client's code: its request goes out, and its worker is free until the answer is there.
 * FED_ECANCELED: the run stops. */
fed_status sim_step_ask(sim_actor *actor) FED_CHECKED;
/** Let all code run until it asks, or its step ends. Under the mutex. */
void sim_steps_settle(sim_world *world);
/** End all threads; steps that wait for an answer are cancelled first. */
void sim_threads_close(sim_world *world);

/** For sim_virtual_time; user is the world. Called by the train callback, on the step's thread. */
int64_t sim_step_trains(void *user, uint32_t k, uint64_t samples);
void sim_step_measures(void *user, uint32_t k, uint32_t version);

#endif
