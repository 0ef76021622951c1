/* The plots of runs, drawn from their logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CURVES_H
#define FEDSIM_CURVES_H

#include "deploy/sim/report/chart.h"
#include "deploy/sim/report/results.h"

typedef enum sim_measure {
    SIM_ROUND,
    SIM_UP,   /* bytes sent by all clients so far */
    SIM_BOTH, /* bytes sent and received by all clients so far */
    SIM_TIME, /* virtual seconds so far */
    SIM_ACCURACY,
    SIM_WORST, /* accuracy of the worst tenth of the clients */
    SIM_ERROR, /* 1 - accuracy, for a logarithmic axis, which tells good models apart */
    SIM_TEST_LOSS,
    SIM_TRAIN_LOSS,
    SIM_BITS_UP, /* bits per value in the round's updates */
    SIM_BITS_DOWN,
    SIM_CLIENT_UP, /* bytes that a client sent in all; clients in descending order */
    SIM_CLIENT_DOWN,
    SIM_RANK,
    SIM_MEASURES
} sim_measure;

typedef struct sim_measure_words {
    const char *name; /* text beside an axis, or in a title */
    const char *word; /* text in a title, or at a curve's end */
    sim_unit unit;
} sim_measure_words;

extern const sim_measure_words sim_measure_word[SIM_MEASURES];

/** Read one value for each round, or for each client. The caller frees *values with free(). */
fed_status sim_measure_read(const sim_log *log, sim_measure what, double **values,
                            size_t *count) FED_CHECKED;

/** Write a plot of y[] against x. Of one run, all y[] are lines of the plot. Of several runs,
 * y_count is 1, and each run is a line. Runs that differ only by their seed share a line: their
 * mean, in a band of one standard deviation to each side. */
fed_status sim_curves_draw(const sim_result *runs, size_t count, sim_measure x,
                           const sim_measure *y, size_t y_count, fed_writer *w) FED_CHECKED;

/** Write a map of who took part in which round: a row for each client or some clients, a column for
 * each round or some rounds. */
fed_status sim_attendance_draw(const sim_log *log, fed_writer *w) FED_CHECKED;

/** If exactly two keys besides seed, name and evaluate_every differ, write a table of colours: each
 * cell's mean accuracy. Otherwise, or if half of the cells or more have no run, write nothing. */
fed_status sim_grid_draw(const sim_result *runs, size_t count, fed_writer *w) FED_CHECKED;

#endif
