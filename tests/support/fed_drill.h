/* Made-up training whose values are all known, and the owed residual that a device's store holds.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DRILL_H
#define FED_DRILL_H

#include "fedclient/fedclient.h"

/**
 * The s-th training of device k is a pure function of k and s: each value is -4 to 4 times 2^-10.
 * Let the model start from 0, and a round count a power of two of equal updates. Then every sum is
 * exact in float32: what was trained equals what was sent plus what was left out, to the bit.
 */
typedef struct fed_drill {
    uint32_t client;
} fed_drill;

/** The training callback; user: a fed_drill. */
fed_status fed_drill_train(void *user, fedclient_round *round, fed_error *err);

/** x[n] += one training of a device. */
void fed_drill_add(uint32_t client, uint64_t number, size_t n, double *x);

/** Write a model of zeros for this text, as a safetensors file for a task's "initial". */
fed_status fed_drill_zeros(const char *model, const char *path, fed_error *err) FED_CHECKED;

/**
 * What the store says is owed, by docs/durability.md.
 *
 * task   whose slot is meant; 0: the first slot
 * owed   float[layout->size], all 0 where nothing is stored
 * *slot  the task's slot; FED_SLOTS: it has none
 * *seq   the number of the last training that is durable, of any task
 */
fed_status fed_drill_owed(const fedclient_platform *store, uint64_t task, const fed_layout *layout,
                          float *owed, unsigned *slot, uint64_t *seq, fed_error *err) FED_CHECKED;

/** Append a request's whole body to w. */
fed_status fed_drill_read_body(const fedclient_body *body, fed_writer *w) FED_CHECKED;

#endif
