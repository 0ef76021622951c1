/* How far a run, or a grid of runs, is: a bar at a terminal, a line now and then elsewhere. */
#ifndef FEDSIM_BAR_H
#define FEDSIM_BAR_H

#include "deploy/sim/run.h"
#include "fed/progress.h"

typedef struct sim_bar {
    fed_progress line;
    size_t cell, cells; /* this run, of how many; from 0 */
    double shown_s;
    bool begun, run_begun;       /* anything was shown; anything of this run */
    double first_share, first_s; /* of this run when it was shown first: it may go on from there */
} sim_bar;

void sim_bar_open(sim_bar *bar, size_t cells);
/** The next run begins. */
void sim_bar_next(sim_bar *bar, size_t cell);
/** For sim_watch.progress; user is the bar. */
void sim_bar_show(void *user, const sim_progress *progress);
/** Wipe the line. */
void sim_bar_wipe(sim_bar *bar);

/** "12 s", "4 min 10 s", "1 h 3 min", "2 d 4 h". */
const char *sim_time_text(double seconds, char dst[24]);
/** "512 B", "1.20 MB": thousands, not 1024s. */
const char *sim_bytes_text(double bytes, char dst[24]);

#endif
