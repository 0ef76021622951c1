/* The yardsticks of one vector unit, for which yardstick_unit.c is compiled. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YARDSTICK_UNIT_H
#define YARDSTICK_UNIT_H

#include <stddef.h>

typedef struct yardsticks {
    const char *unit;
    double (*multiply_adds)(size_t rounds);
    void (*rewrite)(float *x, size_t n);
    void (*read)(const float *x, size_t n);
    void (*write)(float *x, size_t n);
} yardsticks;

#endif
