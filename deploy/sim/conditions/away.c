/* Which clients are away in a round, drawn from the seed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/conditions/away.h"

#include "deploy/sim/conditions/streams.h"
#include "fed/rng.h"

void sim_draw_away(uint64_t seed, uint32_t round, uint32_t clients, double fraction, bool *away) {
    uint32_t left = (uint32_t)(fraction * (double)clients);
    /* Selection sampling (Knuth, 3.4.2, algorithm S). */
    fed_rng rng;
    fed_rng_init(&rng, seed, round, SIM_STREAM_AWAY);
    for (uint32_t k = 0; k < clients; k++) {
        away[k] = fed_rng_below(&rng, clients - k) < left;
        left -= away[k] ? 1U : 0U;
    }
}
