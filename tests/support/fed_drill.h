/* Made-up training with known values, and the residual in a device's store. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DRILL_H
#define FED_DRILL_H

#include "fedclient/fedclient.h"

/** The s-th training of device k depends on k and s only. Its values are integers from -4 to 4,
 * times 2^-10, so sums of them are exact in float32. */
typedef struct fed_drill {
    uint32_t client;
} fed_drill;

/** The training callback. user: a fed_drill. */
fed_status fed_drill_train(void *user, fedclient_round *round, fed_error *err);

void fed_drill_add(uint32_t client, uint64_t number, size_t n, double *x);

/** Write a model of zeros as a safetensors file. */
fed_status fed_drill_zeros(const char *model, const char *path, fed_error *err) FED_CHECKED;

/**
 * Read the residual in the store, as docs/durability.md describes.
 *
 * task   the task; 0: that of the first slot
 * owed   float[layout->size], all 0 where nothing is stored
 * *slot  the task's slot; FED_SLOTS: it has none
 * *seq   number of the last durable training
 */
fed_status fed_drill_owed(const fedclient_platform *store, uint64_t task, const fed_layout *layout,
                          float *owed, unsigned *slot, uint64_t *seq, fed_error *err) FED_CHECKED;

fed_status fed_drill_read_body(const fedclient_body *body, fed_writer *w) FED_CHECKED;

#endif
