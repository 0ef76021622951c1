/* Some codecs as simple loops in plain C, for comparison. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAIN_LOOPS_H
#define PLAIN_LOOPS_H

#include <stddef.h>
#include <stdint.h>

/** Make the same message as fedcodec_encode, for n >= 1 finite values. parameter: the codec's first
 * one. Returns the message's length. */
typedef size_t plain_encode(double parameter, float *residual, const float *x, size_t n,
                            void *scratch, uint8_t *dst);

#define PLAIN_SCRATCH(n) (4 * (n) + 8)

typedef struct plain_loop {
    const char *setting; /* such as "sbc:p=0.01" */
    plain_encode *encode;
    double goal; /* how many times as fast the codec should be */
} plain_loop;

/** Return the plain loop of this setting, or NULL. */
const plain_loop *plain_loop_find(const char *setting);

#endif
