/* Krum, Blanchard et al. 2017 (Machine Learning with Adversaries: Byzantine Tolerant Gradient
 * Descent), section 4: the one update that lies nearest to its neighbours. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/robust.h"
#include "fedserver/strategies/strategy.h"

enum { F };

static fed_status combine(const double *param, const fedserver_rows *rows, float *u,
                          fed_error *err) {
    return fedserver_krum_mean(rows, (size_t)param[F], 1, u, err);
}

/* The paper demands 2f + 2 < n, where n is the number of updates. */
static uint32_t least(const double *param) {
    return 2 * (uint32_t)param[F] + 3;
}

extern const fedserver_strategy_vtable fedserver_strategy_krum;

const fedserver_strategy_vtable fedserver_strategy_krum = {
    .name = "krum",
    .params = {[F] = {"f", 1, 0, 500, "hostile updates that a round may hold", true, NULL}},
    .combine = combine,
    .least = least,
    .most = FEDSERVER_KRUM_ROWS,
    .compares = true,
};
