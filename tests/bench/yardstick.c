/* Calls the measurements of yardstick.h (multiply-adds, reads and writes of memory) as they are
 * compiled for the vector unit with a given name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "yardstick_unit.h"

extern const yardsticks fedtrain_yardsticks_baseline;

#if defined(__x86_64__)
extern const yardsticks fedtrain_yardsticks_avx2, fedtrain_yardsticks_avx512;
#endif

static const yardsticks *of(const char *unit) {
    static const yardsticks *const all[] = {
        &fedtrain_yardsticks_baseline,
#if defined(__x86_64__)
        &fedtrain_yardsticks_avx2,
        &fedtrain_yardsticks_avx512,
#endif
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        if (strcmp(all[k]->unit, unit) == 0) {
            return all[k];
        }
    }
    fprintf(stderr, "no yardsticks for %s: tests/bench/yardstick.c lacks them\n", unit);
    exit(EXIT_FAILURE);
}

double yardstick_multiply_adds(const char *unit, size_t rounds) {
    return of(unit)->multiply_adds(rounds);
}

void yardstick_rewrite(const char *unit, float *x, size_t n) {
    of(unit)->rewrite(x, n);
}

void yardstick_read(const char *unit, const float *x, size_t n) {
    of(unit)->read(x, n);
}

void yardstick_write(const char *unit, float *x, size_t n) {
    of(unit)->write(x, n);
}
