/* Trains a net on a backend and records the loss of each step, to compare backends. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CURVE_CASE_H
#define CURVE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/arch.h"
#include "fedtrain/dataset.h"

/** A training. All backends start with the same weights and take the same batches. */
typedef struct curve_case {
    const fed_arch *arch;
    const fedtrain_dataset *set;
    const char *optimizer;
    size_t steps, batch;
    uint32_t seed;
    uint32_t nudge; /* seed for small random changes of the weights; 0: none */
} curve_case;

/**
 * Train on a backend, given by its name or a device's. The program fails if the training fails.
 *
 * loss    float[steps]
 * params  float[layout.size], the trained parameters
 */
void curve_case_run(const curve_case *c, const char *backend, float *loss, float *params);

#endif
