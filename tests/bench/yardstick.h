/* Measures for bounds of a processor's speed: multiply-adds, and reading and writing memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YARDSTICK_H
#define YARDSTICK_H

#include <stddef.h>

/** Multiply and add in registers only. Returns the number of operations. */
double yardstick_multiply_adds(const char *unit, size_t rounds);

/** Read and write x[n] in place; only read x[n]; only write x[n]. */
void yardstick_rewrite(const char *unit, float *x, size_t n);
void yardstick_read(const char *unit, const float *x, size_t n);
void yardstick_write(const char *unit, float *x, size_t n);

#endif
