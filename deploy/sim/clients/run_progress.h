/* The progress of a run, for the progress bar and other readers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RUN_PROGRESS_H
#define FEDSIM_RUN_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct sim_progress {
    uint32_t round, rounds; /* the newest round that the run knows of; rounds of the task */
    uint32_t reported;      /* updates counted in `round` so far */
    uint32_t evaluated;     /* version of the model measured last; 0: none, or the initial one */
    /* of the model `evaluated`; NAN: its loss is mse, so it has no accuracy */
    double accuracy;
    double test_loss;
    double virtual_s, wall_s;
} sim_progress;

typedef struct sim_watch {
    void *user;
    /** Called from time to time, always on the same thread. */
    void (*progress)(void *user, const sim_progress *progress);
    /** Called over HTTPS once the coordinator listens on front_port. May be NULL. */
    void (*listening)(void *user, uint16_t front_port, const char *directory);
    const atomic_int *stop; /* when it becomes non-zero, the run stops */
} sim_watch;

#endif
