/* Which clients are away in a round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_AWAY_H
#define FEDSIM_AWAY_H

#include <stdbool.h>
#include <stdint.h>

/** Draw who is away in a round: floor(fraction * clients) of away[clients] become true. */
void sim_draw_away(uint64_t seed, uint32_t round, uint32_t clients, double fraction, bool *away);

#endif
