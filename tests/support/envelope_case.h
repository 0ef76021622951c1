/* A model with small tensors, values, and their envelope. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENVELOPE_CASE_H
#define ENVELOPE_CASE_H

#include "fedcodec/envelope.h"

/** Tensors: dense1.weight (600 values), dense1.bias (7), scale (1). The last two are small, and are
 * sent as a group. */
enum { ENVELOPE_SIZE = 2 * 300 + 7 + 1, ENVELOPE_SMALL = 100 };

typedef struct envelope_case {
    fed_layout layout;
    fedcodec codec;
    float residual[ENVELOPE_SIZE], x[ENVELOPE_SIZE];
    float sum[ENVELOPE_SIZE]; /* residual + x before the encoding */
    void *work;
    fed_writer out;
} envelope_case;

void envelope_case_open(envelope_case *f, const char *spec);
void envelope_case_close(envelope_case *f);

/** Move dense1.bias to the front, so that the group's tensors are not adjacent. */
void envelope_case_move_apart(envelope_case *f);

void envelope_case_encode(envelope_case *f);

/** A model of one large tensor, which is almost all 0. */
enum { LARGE = 70000 };

typedef struct large_case {
    fed_layout layout;
    fed_writer out;
    fedcodec codec;
    float *residual, *y;
} large_case;

void large_case_encode(large_case *l, const char *spec);
void large_case_close(large_case *l);

/** Fill x[ENVELOPE_SIZE] with random values from -0.5 to 0.5, which depend on `stream`. */
void envelope_case_fill(float *x, uint32_t stream);

#endif
