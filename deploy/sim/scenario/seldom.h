/* How seldom models are measured, where the scenario leaves that to fedsim. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SELDOM_H
#define FEDSIM_SELDOM_H

#include <stddef.h>
#include <stdint.h>

/** What a run trains and tests. */
typedef struct sim_amounts {
    uint32_t rounds;
    double trained; /* samples of a round, those of all clients together */
    double tested;  /* samples with which one model is measured; 0: unknown */
} sim_amounts;

/**
 * Return how many models lie from one that is measured to the next, at least 1.
 *
 * A test reads each sample forward only, which costs half as much as training on it, or less
 * (docs/results/trainer-evaluation.md). The result is the least with which tests take a tenth of
 * the time of tests and training together. But at least four models of a run are measured, or all
 * if there are fewer, so that there is a curve. The result depends on amounts, not on times, so a
 * scenario's results are the same on each machine. */
uint32_t sim_seldom(const sim_amounts *amounts);

#endif
