/* Trains a net on one backend and keeps the loss of each step, to compare backends. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CURVE_CASE_H
#define CURVE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/arch.h"
#include "fedtrain/dataset.h"

/** All backends begin with the same weights and take the same batches. */
typedef struct curve_case {
    const fed_arch *arch;
    const fedtrain_dataset *set;
    const char *optimizer;
    size_t steps, batch;
    uint32_t seed;
    uint32_t nudge; /* seed for a random last bit in each weight; 0: weights stay as they are */
} curve_case;

/**
 * Train on the backend "fast", on "reference", or on a device by its name. The test or bench fails
 * if the training fails.
 *
 * loss    float[steps]
 * params  float[layout.size], the trained parameters
 */
void curve_case_run(const curve_case *c, const char *backend, float *loss, float *params);

#endif
