/* Coordinate-wise trimmed mean, Yin et al. 2018 (Byzantine-Robust Distributed Learning: Towards
 * Optimal Statistical Rates), definition 2. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fedserver/strategies/robust.h"
#include "fedserver/strategies/strategy.h"

enum { P };

/* The number of values cut at each end is rounded up, so that a fraction above 0 always cuts;
 * but at least one value is left. In the paper, p times the number of updates is a whole number.
 * Subtracting 1e-9 keeps such a product whole: 0.07 * 100 is 7.000000000000001 in floating
 * point. */
static fed_status combine(const double *param, const fedserver_rows *rows, float *u,
                          fed_error *err) {
    size_t cut = (size_t)ceil(param[P] * (double)rows->count - 1e-9);
    size_t most = (rows->count - 1) / 2;
    return fedserver_trimmed_mean(rows, cut < most ? cut : most, u, err);
}

extern const fedserver_strategy_vtable fedserver_strategy_trimmed;

const fedserver_strategy_vtable fedserver_strategy_trimmed = {
    .name = "trimmed",
    .params = {[P] = {"p", 0.1, 0.001, 0.499, "share cut off at each end", false, NULL}},
    .combine = combine,
    .dense = true,
};
