/* Gradients to measure with: drawn at random, or read from the user's own files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRADIENTS_H
#define GRADIENTS_H

#include <stdbool.h>

#include "fed/model.h"

enum { GRADIENTS_MAX = 64 };

/** Gradients of one model, one for each round. */
typedef struct gradients {
    fed_layout layout;
    const float *g[GRADIENTS_MAX]; /* each float32[layout.size] */
    size_t count;
    float *drawn; /* memory of the gradients that were not read from files */
} gradients;

/** Draw tensors of n values near 1e-3. Values are Laplace-distributed, similar to real gradients: a
 * few values are much larger than all others. With `dense` they are normally distributed, so more
 * values are near the largest. All gradients use the same random numbers, from different offsets
 * on, which for a codec are as good as new ones. */
void gradients_draw(gradients *g, size_t n, bool dense);

/** Read files of one shape, safetensors or raw float32, at most GRADIENTS_MAX. */
void gradients_read(gradients *g, const char *const *paths, size_t count);

void gradients_free(gradients *g);

#endif
