/* A run: from options to its log. */
#ifndef FEDSIM_RUN_H
#define FEDSIM_RUN_H

#include <stdatomic.h>

#include "deploy/sim/report/sim_log.h"
#include "deploy/sim/scenario/options.h"

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
    /** Some times a second, from one thread. */
    void (*progress)(void *user, const sim_progress *progress);
    /** HTTPS: the coordinator listens here. NULL: not wanted. */
    void (*listening)(void *user, uint16_t front_port, const char *directory);
    const atomic_int *stop; /* becomes non-zero: end cleanly, for --resume */
} sim_watch;

/**
 * Run the task to its end, or until *watch->stop. log is all 0; sim_log_free it in every case.
 * Errors: those of the task file, the data and the coordinator; FED_ECANCELED stopped, with what
 * there is in the log; FED_ESTATE a client holds another model than the coordinator.
 */
fed_status sim_run(const sim_options *options, const sim_watch *watch, sim_log *log,
                   fed_error *err) FED_CHECKED;

#endif
