/* Yardsticks: some codecs as one would first write them, loop after loop in plain C. */
#ifndef PLAIN_LOOPS_H
#define PLAIN_LOOPS_H

#include <stddef.h>
#include <stdint.h>

/**
 * What fedcodec_encode does with the codec of that name, to the byte, for n >= 1 finite values.
 * parameter is the codec's first one; scratch has 4 * n + 8 bytes; returns the message's length.
 */
typedef size_t plain_encode(double parameter, float *residual, const float *x, size_t n,
                            void *scratch, uint8_t *dst);

plain_encode plain_3lc;    /* six passes, as the paper has its steps */
plain_encode plain_sbc;    /* a selection on a copy of all values, for each side; pos=golomb */
plain_encode plain_twobit; /* value by value, as MXNet's CPU kernel */

#endif
