/* Coordinate-wise median, Yin et al. 2018 (Byzantine-Robust Distributed Learning: Towards Optimal
 * Statistical Rates), definition 1. Of an even number of values it is the mean of the two in the
 * middle. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/robust.h"
#include "fedserver/strategies/strategy.h"

static fed_status combine(const double *param, const fedserver_rows *rows, float *u,
                          fed_error *err) {
    (void)param;
    return fedserver_trimmed_mean(rows, (rows->count - 1) / 2, u, err);
}

extern const fedserver_strategy_vtable fedserver_strategy_median;

const fedserver_strategy_vtable fedserver_strategy_median = {
    .name = "median",
    .combine = combine,
    .dense = true,
};
