/* The addition clip: it shortens an update whose norm is larger than the limit (McMahan et al.
 * 2018, algorithm 1). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fedserver/strategies/strategy.h"

extern const fedserver_addition_vtable fedserver_addition_clip;

static void clip(const double *param, double norm, float *x, size_t n) {
    if (norm <= param[0]) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((double)x[i] * (param[0] / norm));
    }
}

static double clipped(const double *param, double norm) {
    return fmin(norm, param[0]);
}

const fedserver_addition_vtable fedserver_addition_clip = {
    .name = "clip",
    .example = "clip:norm=1",
    .params = {{"norm", 0, 1e-6, 1e6, "largest norm of an update", false, NULL}},
    .update = clip,
    .norm = clipped,
};
