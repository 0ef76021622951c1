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
 * One that arrives:
 *
 *     fedserver_intake_read(body, len, &update);             its head
 *     fedserver_intake_open(task, layout, &update, &why);    its values: checked, once
 *     fedserver_intake_count(training, &update, device, err);
 *     fedserver_intake_drop(&update);
 *
 * and when the round commits, fedserver_intake_close makes one change of the model from all updates
 * of the round. Nothing else takes an update apart: secure aggregation, whose updates are masked
 * integers, would be another such file.
 */

/** The body of POST /v1/update. */
typedef struct fedserver_update {
    fed_update head;
    const uint8_t *body; /* must stay until the update is dropped */
    size_t body_len;
    const uint8_t *envelope; /* in the body */
    size_t envelope_len;
    fedcodec_message values; /* once it is open */
} fedserver_update;

/** A loss of a larger magnitude is taken for a device's error. */
#define FEDSERVER_LOSS_LIMIT 1e12f

/** Bytes of an update's head: no body is shorter. */
size_t fedserver_intake_head_bytes(void);

/** Most bytes of a body, in any of the task's phases. A late update of an earlier phase is not too
 * large to be answered. */
fed_status fedserver_intake_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       uint64_t *most, fed_error *err) FED_CHECKED;

/** Take a body apart. FED_EFORMAT: it has no head. Nothing else is checked. */
fed_status fedserver_intake_read(const uint8_t *body, size_t len,
                                 fedserver_update *update) FED_CHECKED;

/**
 * Check every byte against the task and its model, and open the values. End with
 * fedserver_intake_drop; after an error there is nothing to drop. *why is for the device.
 *
 * FED_ERANGE: a value or the loss is too large to be counted. Any other error: the envelope is not
 * one of the codec of its round.
 */
fed_status fedserver_intake_open(const fedserver_task *task, const fed_layout *layout,
                                 fedserver_update *update, fed_error *why) FED_CHECKED;
void fedserver_intake_drop(fedserver_update *update);

/** Add an open update to the sum of the open round, in memory. device: its row's id. */
fed_status fedserver_intake_count(fedserver_training *training, const fedserver_update *update,
                                  int64_t device, fed_error *err) FED_CHECKED;

/** Add the stored updates of the open round to its sum, which is empty. FED_EFORMAT: one is
 * damaged, or of a round that does not count in the open one. */
fed_status fedserver_intake_load(fedserver_rounds *rounds, fed_error *err) FED_CHECKED;

/**
 * All updates of the open round are in, at least one. Settle what each counts for, and combine them
 * as the task's strategy says.
 *
 * change  float32[layout->size]: the mean of the updates, or what the strategy makes of all
 */
fed_status fedserver_intake_close(fedserver_rounds *rounds, fedserver_shares *shares, float *change,
                                  fed_error *err) FED_CHECKED;

#endif
