/* Groups of runs that differ in nothing but their seed: mean and standard deviation of accuracy. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SEEDS_H
#define FEDSIM_SEEDS_H

#include "deploy/sim/report/results.h"

typedef struct sim_seeds {
    const sim_result *first; /* first of the group's runs */
    size_t count;            /* number of the group's runs that have an accuracy */
    double mean, deviation;  /* sample mean and standard deviation of final accuracies */
} sim_seeds;

/** Return the number of the k-th run's group, from 0. A group's lines have the same style. */
size_t sim_seeds_group(const sim_result *runs, size_t k);

/** Write the number of each run's group into group[count]. */
void sim_seeds_groups(const sim_result *runs, size_t count, size_t *group);

/** Compute the group whose first run is the k-th. Returns false if the k-th run is not the first of
 * its group, or if fewer than two of the group's runs have an accuracy. */
bool sim_seeds_of(const sim_result *runs, size_t count, size_t k, sim_seeds *seeds);

/** Write a line for each group of several runs. */
void sim_seeds_text(const sim_result *runs, size_t count, fed_writer *w);
void sim_seeds_html(const sim_result *runs, size_t count, fed_writer *w);

#endif
