/* The threads that run clients' steps, and the workers that the steps need. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STEP_THREADS_H
#define FEDSIM_STEP_THREADS_H

#include <semaphore.h>

#include "deploy/sim/inproc/world.h"

typedef struct sim_thread {
    sim_world *world;
    pthread_t handle;
    sem_t go;         /* posted when the thread has a step to run, or is to end */
    sim_actor *actor; /* the client whose step the thread runs; NULL: none */
    struct sim_thread *next_idle, *next;
} sim_thread;

/** Return whether the step runs, or is about to, so its next event is not known yet. */
bool sim_step_under_way(const sim_actor *actor);
/** Give free workers to clients that are ready, and let them run. The caller holds the mutex. */
void sim_steps_start(sim_world *world);
/** Send the client's request and wait for the answer. Called by the client's code, whose worker may
 * serve other clients meanwhile. FED_ECANCELED: the run stops. */
fed_status sim_step_ask(sim_actor *actor) FED_CHECKED;
/** Wait until every step that runs has sent a request or ended. The caller holds the mutex. */
void sim_steps_settle(sim_world *world);
/** End all threads; steps that wait for an answer are cancelled first. */
void sim_threads_close(sim_world *world);

/** Members of sim_virtual_time; user: the sim_world. Called on the step's thread. */
int64_t sim_step_trains(void *user, uint32_t k, uint64_t samples);
void sim_step_measures(void *user, uint32_t k, uint32_t version);

#endif
