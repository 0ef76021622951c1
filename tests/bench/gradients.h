/* Gradients for benchmarks, drawn at random or read from files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRADIENTS_H
#define GRADIENTS_H

#include <stdbool.h>

#include "fed/model.h"

enum { GRADIENTS_MAX = 64 };

typedef struct gradients {
    fed_layout layout;
    const float *g[GRADIENTS_MAX]; /* float32[layout.size] each */
    size_t count;
    float *drawn; /* memory of the gradients if they were drawn */
} gradients;

/** Draw gradients of n values with magnitudes near 1e-3: Laplace-distributed, or if `dense`
 * normally distributed. */
void gradients_draw(gradients *g, size_t n, bool dense);

/** Read at most GRADIENTS_MAX files of one shape, safetensors or raw float32. */
void gradients_read(gradients *g, const char *const *paths, size_t count);

void gradients_free(gradients *g);

#endif
