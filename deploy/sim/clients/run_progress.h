/* The progress of a run, for the progress bar and other readers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RUN_PROGRESS_H
#define FEDSIM_RUN_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

/** How far a run is. */
typedef struct sim_progress {
    uint32_t round, rounds; /* the newest that a client was asked to train in, of how many */
    uint32_t reported;      /* updates in it so far */
    uint32_t evaluated;     /* version that the accuracy is of; 0: none was measured yet */
    double accuracy;        /* NAN: of a model with mse */
    double test_loss;
    double virtual_s, wall_s;
} sim_progress;

typedef struct sim_watch {
    void *user;
    /** Called some times a second, always from the same thread. */
    void (*progress)(void *user, const sim_progress *progress);
    /** HTTPS: called once the coordinator listens there. NULL: nobody wants to know. */
    void (*listening)(void *user, uint16_t front_port, const char *directory);
    const atomic_int *stop; /* becomes non-zero: end cleanly, for --resume */
} sim_watch;

#endif
