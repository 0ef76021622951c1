/* The upper bounds of a processor's speed: multiply-adds, and reading and writing memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YARDSTICK_H
#define YARDSTICK_H

#include <stddef.h>

/* Each function uses the vectors of one unit, which fedtrain_isa or a kernel table names. */

/** Multiply and add in registers only. Returns operations: 2 for each multiply-add. */
double yardstick_multiply_adds(const char *unit, size_t rounds);

/** rewrite: read and write each value of x[n] in place. read: only read. write: only write. */
void yardstick_rewrite(const char *unit, float *x, size_t n);
void yardstick_read(const char *unit, const float *x, size_t n);
void yardstick_write(const char *unit, float *x, size_t n);

#endif
