/* How fast the clients train. Each client has a factor of slowness, drawn from a lognormal
 * distribution. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/conditions/speed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "deploy/sim/conditions/streams.h"
#include "fed/params.h"
#include "fed/rng.h"

static const fed_param params[] = {
    {.key = "sample_s", .low = 0, .high = 1e6, .help = "seconds a sample"},
    {.key = "start_s", .low = 0, .high = 1e6, .help = "seconds before the first sample"},
    {.key = "spread",
     .low = 0,
     .high = 3,
     .help = "standard deviation of the logarithm of slowness, over the clients"},
    {.key = NULL}};

fed_status sim_speed_parse(const char *spec, sim_speed *speed, fed_error *err) {
    char text[130] = "";
    double value[3];
    if (spec != NULL && spec[0] != '\0') {
        if (strlen(spec) + 2 > sizeof text) {
            return fed_fail(err, FED_EINVAL, "the speed's spec is longer than %zu characters",
                            sizeof text - 2);
        }
        snprintf(text, sizeof text, ":%s", spec);
    }
    FED_TRY(fed_params_read("speed", "model", params, text, value, err));
    *speed = (sim_speed){.sample_s = value[0], .start_s = value[1], .spread = value[2]};
    return FED_OK;
}

sim_speed sim_speed_draw(const sim_speed *speed, uint64_t seed, uint32_t k) {
    static const double turn = 6.283185307179586;
    fed_rng rng;
    fed_rng_init(&rng, seed, k, SIM_STREAM_SPEED);
    /* Box and Muller's method: two uniform variates, the first never 0, give a normal one. */
    double u = 1 - (double)fed_rng_float(&rng), v = (double)fed_rng_float(&rng);
    double slowness = exp(speed->spread * sqrt(-2 * log(u)) * cos(turn * v));
    return (sim_speed){.sample_s = speed->sample_s * slowness,
                       .start_s = speed->start_s * slowness};
}

int64_t sim_speed_us(const sim_speed *speed, uint64_t samples) {
    return (int64_t)(1e6 * (speed->start_s + speed->sample_s * (double)samples));
}
