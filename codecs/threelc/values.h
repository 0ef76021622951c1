/* The quantisation of values to 3LC's digits, for each of the vector units. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_THREELC_VALUES_H
#define FEDCODEC_THREELC_VALUES_H

#include "codecs/prim/ternary.h"

#define GROUPED FEDCODEC_TERNARY
enum { AHEAD = 256 };

static inline fedcodec_trits quantise_values(float *e, const float *x, float m) {
    fedcodec_ternary_fetch(e, x, AHEAD);
    return fedcodec_ternary(e, x, m, 0.5f * m);
}

#endif
