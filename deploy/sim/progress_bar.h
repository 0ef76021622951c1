/* How far a run, or a grid of runs, is: a bar at a terminal, elsewhere a line every ten seconds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_PROGRESS_BAR_H
#define FEDSIM_PROGRESS_BAR_H

#include <stdbool.h>
#include <stddef.h>

#include "deploy/sim/clients/run_progress.h"
#include "fed/progress.h"

typedef struct sim_bar {
    fed_progress line;
    size_t cell, cells; /* this run, of how many; from 0 */
    double shown_s;
    bool begun, run_begun; /* anything was shown; anything of this run */
    /* Of this run when it was shown first: a resumed run begins there. */
    double first_share, first_s;
} sim_bar;

void sim_bar_open(sim_bar *bar, size_t cells);
/** The next run begins. */
void sim_bar_next(sim_bar *bar, size_t cell);
/** For sim_watch.progress; user is the bar. */
void sim_bar_show(void *user, const sim_progress *progress);
/** Remove the bar from the terminal. */
void sim_bar_wipe(sim_bar *bar);

#endif
