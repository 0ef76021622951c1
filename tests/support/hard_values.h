/* Values that are hard to code: heavy tails, denormals, zeros of both signs, ties, huge ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_HARD_VALUES_H
#define FED_TEST_HARD_VALUES_H

#include <float.h>
#include <math.h>

#include "fed/rng.h"

typedef enum fill {
    FILL_GAUSS,
    FILL_HEAVY,
    FILL_DENORMAL,
    FILL_ZERO,
    FILL_TIED,
    FILL_HUGE,
    FILL_SPARSE,
    FILL_SPIKE,
    FILL_COUNT
} fill;

static const char *const fill_names[FILL_COUNT] = {"Gauss", "heavy tails", "denormals", "zeros",
                                                   "ties",  "huge",        "sparse",    "spike"};

static inline float fill_value(fill kind, size_t i, size_t n, fed_rng *rng) {
    const float u = fed_rng_float(rng) - 0.5F;
    switch (kind) {
    case FILL_HEAVY:
        return u / (1e-6F + fabsf(fed_rng_float(rng) - 0.5F));
    case FILL_DENORMAL:
        return i % 3 == 0 ? FLT_TRUE_MIN * (float)(i % 5) : u * 1e-38F;
    case FILL_ZERO:
        return u > 0.0F ? 0.0F : -0.0F;
    case FILL_TIED:
        return 0.25F * (float)((int)fed_rng_below(rng, 5) - 2);
    case FILL_HUGE:
        return u > 0.2F ? 0x1.4p126F : u < -0.2F ? -0x1.4p126F : u;
    case FILL_SPARSE:
        return fed_rng_below(rng, 200) == 0 ? u : 0.0F;
    case FILL_SPIKE:
        return i == n / 3 ? -7.0F : 0.0F;
    default:
        return 0.02F * (fed_rng_float(rng) + fed_rng_float(rng) + fed_rng_float(rng) - 1.5F);
    }
}

static inline void make_values(fill kind, size_t n, uint32_t round, float *x) {
    fed_rng rng;
    fed_rng_init(&rng, 23 + round, (uint32_t)kind, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        x[i] = fill_value(kind, i, n, &rng);
    }
}

#endif
