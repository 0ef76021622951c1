/* What a processor can do at most: multiply-adds, and going over memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YARDSTICK_H
#define YARDSTICK_H

#include <stddef.h>

/* Each with vectors of one unit that fedtrain_isa or a kernel table names. */

/** Multiply and add in registers only; answers how many operations that were, 2 a multiply-add. */
double yardstick_multiply_adds(const char *unit, size_t rounds);

/** Read and write each of x[n], in place; or only read it; or only write it. */
void yardstick_rewrite(const char *unit, float *x, size_t n);
void yardstick_read(const char *unit, const float *x, size_t n);
void yardstick_write(const char *unit, float *x, size_t n);

#endif
