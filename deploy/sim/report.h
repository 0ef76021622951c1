/* What a person sees of a run: the progress line and the table at the end. */
#ifndef FEDSIM_REPORT_H
#define FEDSIM_REPORT_H

#include "deploy/sim/run.h"
#include "deploy/sim/sim_log.h"

/** A line of progress: rewritten in place on a terminal, a new one now and then elsewhere. */
typedef struct sim_bar {
    bool terminal;
    double shown_s;
    uint32_t shown_round;
} sim_bar;

void sim_bar_open(sim_bar *bar);
/** For sim_watch.progress; user is the bar. */
void sim_bar_show(void *user, const sim_progress *progress);
void sim_bar_close(sim_bar *bar);

void sim_log_print(const sim_log *log);
fed_status sim_log_write(const sim_log *log, const char *path, fed_error *err) FED_CHECKED;

#endif
