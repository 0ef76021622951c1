/* How seldom models are measured, where the scenario leaves that to fedsim. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/seldom.h"

#include <math.h>

/* The cost of a test, of one sample, by that of training. The share of the tests. */
static const double TEST_COST = 0.5, SHARE = 0.1;

enum { FEWEST = 4 };

uint32_t sim_seldom(const sim_amounts *amounts) {
    const uint32_t most = amounts->rounds / FEWEST;
    const double tests = TEST_COST * amounts->tested * (1 - SHARE) / SHARE;
    const double every = ceil(tests / fmax(amounts->trained, 1));
    return every < 2 || most < 2 ? 1 : every < most ? (uint32_t)every : most;
}
