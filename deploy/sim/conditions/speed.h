/* How fast the clients train, in virtual time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SPEED_H
#define FEDSIM_SPEED_H

#include <stdint.h>

#include "fed/error.h"

/*
 * A spec names some of these parameters, such as "sample_s=0.01,spread=0.5". Each default is 0.
 *
 *   sample_s  seconds that the median client takes for one sample of one local step, forward and
 *             backward
 *   start_s   seconds that the median client takes before the first sample
 *   spread    standard deviation of the logarithm of a client's slowness, which is lognormal with
 *             median 1. With 0.5, one client in 20 takes more than 2.3 times the median's time
 *
 * A client's slowness is drawn from the seed, once; both times are multiplied by it.
 */
typedef struct sim_speed {
    double sample_s, start_s;
    double spread;
} sim_speed;

/** Read a spec; NULL or "" means that training takes no time. FED_EINVAL: *err says what is wrong.
 */
fed_status sim_speed_parse(const char *spec, sim_speed *speed, fed_error *err) FED_CHECKED;

/** Draw client k's own speed from the seed. Its spread is 0, as nothing is left to draw. */
sim_speed sim_speed_draw(const sim_speed *speed, uint64_t seed, uint32_t k);

/** Return how many microseconds training on that many samples takes. */
int64_t sim_speed_us(const sim_speed *speed, uint64_t samples);

#endif
