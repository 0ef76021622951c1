/* A net's training on one backend, step by step, to compare backends by their losses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CURVE_CASE_H
#define CURVE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/arch.h"
#include "fedtrain/dataset.h"

/** What is trained. All backends begin with the same weights, and take the same batches. */
typedef struct curve_case {
    const fed_arch *arch;
    const fedtrain_dataset *set;
    const char *optimizer;
    size_t steps, batch;
    uint32_t seed;  /* of the weights and of the batches */
    uint32_t nudge; /* 0; else the last bit of each weight is drawn anew, from this seed */
} curve_case;

/** Train on the processor's backend "fast", on "reference", or on a device by its name. The test or
 * bench fails if that fails.
 *
 * loss    float[steps]
 * params  float[layout.size], the trained ones */
void curve_case_run(const curve_case *c, const char *backend, float *loss, float *params);

#endif
