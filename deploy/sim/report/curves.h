/* The plots of runs: numbers out of their logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CURVES_H
#define FEDSIM_CURVES_H

#include "deploy/sim/report/chart.h"
#include "deploy/sim/report/results.h"

typedef enum sim_measure {
    SIM_ROUND,
    SIM_UP,   /* bytes sent by all clients so far */
    SIM_BOTH, /* bytes sent and received by all clients so far */
    SIM_TIME, /* virtual, so far */
    SIM_ACCURACY,
    SIM_ERROR, /* 1 - accuracy: its logarithmic axis tells good models apart */
    SIM_TEST_LOSS,
    SIM_TRAIN_LOSS,
    SIM_BITS_UP, /* of the round */
    SIM_BITS_DOWN,
    SIM_CLIENT_UP, /* all that a client sent; clients in falling order */
    SIM_CLIENT_DOWN,
    SIM_RANK,
    SIM_MEASURES
} sim_measure;

typedef struct sim_measure_words {
    const char *name; /* beside an axis */
    const char *word; /* in a title, or at a curve's end */
    sim_unit unit;
} sim_measure_words;

extern const sim_measure_words sim_measure_word[SIM_MEASURES];

/** One value for each round, or client. *values is the caller's to free(). */
fed_status sim_measure_read(const sim_log *log, sim_measure what, double **values,
                            size_t *count) FED_CHECKED;

/** A plot of y[] against x: of one run, all y in one; of several, y[0] of each. */
fed_status sim_curves_draw(const sim_result *runs, size_t count, sim_measure x,
                           const sim_measure *y, size_t y_count, fed_writer *w) FED_CHECKED;

/** Who took part: clients down, rounds across, several of each together where they are many. */
fed_status sim_attendance_draw(const sim_log *log, fed_writer *w) FED_CHECKED;

/** Where exactly two keys beside the seed differ: write accuracy as a table of colours, the mean of
 * the runs of a cell. Otherwise, and where half of the cells would be empty, write nothing. */
fed_status sim_grid_draw(const sim_result *runs, size_t count, fed_writer *w) FED_CHECKED;

#endif
