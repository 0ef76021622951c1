/* An addition to the rounds that shifts each trained value of a round's combined update. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/strategy.h"

extern const fedserver_addition_vtable fedserver_addition_shift;

static void shift(const double *param, float *u, size_t n) {
    for (size_t i = 0; i < n; i++) {
        u[i] += (float)param[0];
    }
}

const fedserver_addition_vtable fedserver_addition_shift = {
    .name = "shift",
    .example = "shift:by=1",
    .params = {{"by", 0, -1, 1, "what is added to each value", false, NULL}},
    .combined = shift,
};
