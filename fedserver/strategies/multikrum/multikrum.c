/* Multi-Krum, Blanchard et al. 2017 (Machine Learning with Adversaries: Byzantine Tolerant
 * Gradient Descent): the mean of the m updates that are best by Krum's score. Departs: with m=0, m
 * is n - f - 2 in a round of n updates, which is the number of neighbours in a score. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/robust.h"
#include "fedserver/strategies/strategy.h"

enum { F, M };

static fed_status combine(const double *param, const fedserver_rows *rows, float *u,
                          fed_error *err) {
    size_t f = (size_t)param[F], m = (size_t)param[M];
    size_t neighbours = rows->count > f + 3 ? rows->count - f - 2 : 1;
    return fedserver_krum_mean(rows, f, m != 0 && m <= rows->count ? m : neighbours, u, err);
}

/* The paper demands 2f + 2 < n, where n is the number of updates. Also, n - f must be at least m,
 * so that the mean can be free of hostile updates. */
static uint32_t least(const double *param) {
    uint32_t f = (uint32_t)param[F], m = (uint32_t)param[M];
    return m > f + 3 ? m + f : 2 * f + 3;
}

extern const fedserver_strategy_vtable fedserver_strategy_multikrum;

const fedserver_strategy_vtable fedserver_strategy_multikrum = {
    .name = "multikrum",
    .params = {[F] = {"f", 1, 0, 500, "hostile updates that a round may hold", true, NULL},
               [M] = {"m", 0, 0, 1000, "updates in the mean, 0: all but f + 2", true, NULL}},
    .combine = combine,
    .least = least,
    .most = FEDSERVER_KRUM_ROWS,
    .compares = true,
};
