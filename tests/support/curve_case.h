/* A net's training on one backend, step by step, to compare backends by their losses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CURVE_CASE_H
#define CURVE_CASE_H

#include <stddef.h>

#include "fed/arch.h"
#include "fedtrain/dataset.h"

/** What is trained. All backends begin with the same weights, and take the same batches. */
typedef struct curve_case {
    const fed_arch *arch;
    const fedtrain_dataset *set;
    const char *optimizer;
    size_t steps, batch;
} curve_case;

/** Train on the processor's backend "fast", on "reference", or on a device by its name. The test or
 * bench fails if that fails.
 *
 * loss    float[steps]
 * params  float[layout.size], the trained ones */
void curve_case_run(const curve_case *c, const char *backend, float *loss, float *params);

#endif
