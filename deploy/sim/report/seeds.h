/* Runs that differ in nothing but their seed: their mean, and how far they spread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SEEDS_H
#define FEDSIM_SEEDS_H

#include "deploy/sim/report/results.h"

typedef struct sim_seeds {
    const sim_result *first; /* of the runs that belong together */
    size_t count;            /* of those that measured something */
    double mean, deviation;  /* of their final accuracy; the sample's standard deviation */
} sim_seeds;

/** The number of the k-th run's group, from 0. Plots show the runs of a group alike. */
size_t sim_seeds_group(const sim_result *runs, size_t k);

/** The k-th run's group, if the run is the first of several there; else false. */
bool sim_seeds_of(const sim_result *runs, size_t count, size_t k, sim_seeds *seeds);

/** Write a line for each such group. */
void sim_seeds_text(const sim_result *runs, size_t count, fed_writer *w);
void sim_seeds_html(const sim_result *runs, size_t count, fed_writer *w);

#endif
