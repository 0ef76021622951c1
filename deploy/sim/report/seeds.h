/* Runs that differ in nothing but their seed: their mean, and how far they spread. */
#ifndef FEDSIM_SEEDS_H
#define FEDSIM_SEEDS_H

#include "deploy/sim/report/results.h"

typedef struct sim_seeds {
    const sim_result *first; /* of the runs that belong together */
    size_t count;            /* of those that measured something */
    double mean, deviation;  /* of their final accuracy; the sample's standard deviation */
} sim_seeds;

/** The number of the k-th run's group, from 0: runs of a group look alike in plots. */
size_t sim_seeds_group(const sim_result *runs, size_t k);

/** The k-th run's group, if it is the first of one with several; false: it is not. */
bool sim_seeds_of(const sim_result *runs, size_t count, size_t k, sim_seeds *seeds);

/** Every such group, a line each; nothing where there is none. */
void sim_seeds_text(const sim_result *runs, size_t count, fed_writer *w);
void sim_seeds_html(const sim_result *runs, size_t count, fed_writer *w);

#endif
