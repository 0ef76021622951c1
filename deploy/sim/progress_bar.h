/* The progress of a run, or of a grid of runs: a bar at a terminal, elsewhere lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_PROGRESS_BAR_H
#define FEDSIM_PROGRESS_BAR_H

#include <stdbool.h>
#include <stddef.h>

#include "deploy/sim/clients/run_progress.h"
#include "fed/progress.h"

typedef struct sim_bar {
    fed_progress line;
    size_t cell, cells; /* index of the present run, from 0; number of runs */
    double shown_s;
    bool begun, run_begun; /* progress was shown for any run; for the present run */
    /* The present run's share done and wall seconds when this process first showed its progress. */
    double first_share, first_s;
} sim_bar;

void sim_bar_open(sim_bar *bar, size_t cells);
void sim_bar_next(sim_bar *bar, size_t cell);
/** Show the progress. user: the sim_bar. */
void sim_bar_show(void *user, const sim_progress *progress);
void sim_bar_wipe(sim_bar *bar);

#endif
