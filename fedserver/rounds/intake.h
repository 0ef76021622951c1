/* What an update is, from its bytes to what it changes in the model. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_INTAKE_H
#define FEDSERVER_INTAKE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"
#include "fed/wire.h"
#include "fedcodec/envelope.h"
#include "fedserver/rounds/rounds.h"

/*
 * The steps for an update that arrives:
 *
 *     fedserver_intake_read(body, len, &update, &why);       its head, its own metrics
 *     fedserver_intake_open(task, layout, &update, &why);    its values: checked once
 *     fedserver_intake_count(training, &update, device, err);
 *     fedserver_intake_drop(&update);
 *
 * When the round commits, fedserver_intake_close makes one change of the model from all updates of
 * the round. No other file takes an update apart. Secure aggregation, whose updates are masked
 * integers, would be another file like this one.
 */

/** An update: the body of POST /v1/update, taken apart. */
typedef struct fedserver_update {
    fed_update head;
    fed_own_metrics own;
    const uint8_t *body; /* the body must stay until fedserver_intake_drop */
    size_t body_len;
    const uint8_t *envelope; /* points into the body */
    size_t envelope_len;
    fedcodec_message values; /* valid after fedserver_intake_open */
} fedserver_update;

/** The coordinator takes a loss of a larger magnitude for an error of the device. */
#define FEDSERVER_LOSS_LIMIT 1e12f

/** Bytes of an update's head without own metrics: no body is shorter. */
size_t fedserver_intake_head_bytes(void);

/** The largest size in bytes of a body, over all phases of the task. The limit covers earlier
 * phases too, so that a late update gets an answer. */
fed_status fedserver_intake_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       uint64_t *most, fed_error *err) FED_CHECKED;

/** Take a body apart. FED_EFORMAT: it has no head, or own metrics that are not allowed, and *why is
 * a text for the device. Nothing else is checked. */
fed_status fedserver_intake_read(const uint8_t *body, size_t len, fedserver_update *update,
                                 fed_error *why) FED_CHECKED;

/**
 * Check every byte against the task and its model, and open the values. End with
 * fedserver_intake_drop; after an error there is nothing to drop. *why is a text for the device.
 *
 * FED_ERANGE: a value or the loss is too large to be counted. Any other error: the envelope does
 * not belong to the codec of the update's round.
 */
fed_status fedserver_intake_open(const fedserver_task *task, const fed_layout *layout,
                                 fedserver_update *update, fed_error *why) FED_CHECKED;
void fedserver_intake_drop(fedserver_update *update);

/** Add an open update to the sum of the updates that count now, and its own metrics to theirs, in
 * memory.
 *
 * device: the id of the device's row */
fed_status fedserver_intake_count(fedserver_training *training, const fedserver_update *update,
                                  int64_t device, fed_error *err) FED_CHECKED;

/** Add the stored updates of that round to the sum, which must be empty: of the open round, or of
 * the one after it. FED_EFORMAT: an update is damaged, or does not count in that round. */
fed_status fedserver_intake_load(fedserver_rounds *rounds, fedserver_training *training,
                                 uint32_t round, fed_error *err) FED_CHECKED;

/**
 * Settle what each update counts for, and combine the updates as the task's strategy says. All
 * updates of the open round must have arrived, at least one.
 *
 * change  float32[layout->size]: the mean of the updates, or what the strategy makes of all
 */
fed_status fedserver_intake_close(fedserver_rounds *rounds, fedserver_training *training,
                                  fedserver_shares *shares, float *change,
                                  fed_error *err) FED_CHECKED;

#endif
