/* How fast the clients train, in virtual time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SPEED_H
#define FEDSIM_SPEED_H

#include <stdint.h>

#include "fed/error.h"

/*
 * A spec names seconds: "sample_s=0.01,spread=0.5".
 *
 *   sample_s  seconds that the median client takes for one sample of one local step, forward and
 *             back (0)
 *   start_s   seconds that it takes before the first one (0)
 *   spread    standard deviation of the logarithm of a client's slowness: lognormal, median 1 (0).
 *             0.5: of 20 clients one takes more than 2.3 times as long as the median
 *
 * A client's slowness is drawn from the seed, once.
 */
typedef struct sim_speed {
    double sample_s, start_s;
    double spread;
} sim_speed;

/** NULL or "": training takes no time. FED_EINVAL with a sentence. */
fed_status sim_speed_parse(const char *spec, sim_speed *speed, fed_error *err) FED_CHECKED;

/** Client k's speed, with spread 0. */
sim_speed sim_speed_draw(const sim_speed *speed, uint64_t seed, uint32_t k);

/** How long it takes for that many samples, in microseconds. */
int64_t sim_speed_us(const sim_speed *speed, uint64_t samples);

#endif
