/* Made-up training whose every value is known, and what a device's store says is owed of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DRILL_H
#define FED_DRILL_H

#include "fedclient/fedclient.h"

/**
 * The s-th training of device k is a pure function of k and s: -4 to 4 times 2^-10 a value. Where
 * the model starts from 0 and a round counts a power of two of equal updates, every sum is exact in
 * float32: what was trained, sent and left out must add up to the bit.
 */
typedef struct fed_drill {
    uint32_t client;
    fedclient_platform *platform; /* to see how many trainings are durable */
} fed_drill;

/** The training callback; user: a fed_drill. */
fed_status fed_drill_train(void *user, fedclient_round *round, fed_error *err);

/** x[n] += the trainings 1 .. count of a device. */
void fed_drill_add(uint32_t client, uint64_t count, size_t n, double *x);

/** A model of zeros for that text, as a safetensors file for a task's "initial". */
fed_status fed_drill_zeros(const char *model, const char *path, fed_error *err) FED_CHECKED;

/**
 * What the store says is owed, by docs/durability.md.
 *
 * owed  float[layout->size], all 0 where nothing is stored
 * *seq  the number of the last training that is durable
 */
fed_status fed_drill_owed(const fedclient_platform *store, const fed_layout *layout, float *owed,
                          uint64_t *seq, fed_error *err) FED_CHECKED;

/** Append a request's whole body to w. */
fed_status fed_drill_read_body(const fedclient_body *body, fed_writer *w) FED_CHECKED;

#endif
