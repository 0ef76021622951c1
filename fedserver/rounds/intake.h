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
#include "fedserver/task/phases.h"

/*
 * The steps for an update that arrives:
 *
 *     fedserver_intake_read(body, len, &update, &why);             its head, its custom metrics
 *     intake->open(task, layout, &update, &why);                   its values: checked once
 *     fedserver_intake_count(training, round, &update, device, err);
 *     intake->drop(&update);
 *
 * When the round commits, intake->combine makes one change of the model from all updates of the
 * round. What lies behind an update's head has a form, of which intakes.def has a table: a task
 * chooses one. All forms have the same head, so that leases and rounds know none of them.
 */

/** An update: the body of POST /v1/update, taken apart. */
typedef struct fedserver_update {
    fed_update head;
    fed_own_metrics own;
    const uint8_t *body; /* the body must stay until the update is dropped */
    size_t body_len;
    const uint8_t *envelope; /* points into the body */
    size_t envelope_len;
    fedcodec_message values; /* plain: valid after open */
} fedserver_update;

/** A form of updates. */
struct fedserver_intake {
    const char *name;

    /** Have the updates of that task this form? NULL only in the last line of intakes.def, whose
     * form all other tasks have. */
    bool (*takes)(const fedserver_task *task);

    /** The largest size in bytes of what lies behind an update's head and its custom metrics, in a
     * phase of the task. */
    fed_status (*most_bytes)(const fedserver_task *task, const fed_layout *layout,
                             const fedserver_phase *phase, uint64_t *most,
                             fed_error *err) FED_CHECKED;

    /**
     * Check every byte against the task and its model, and open the values. End with drop; after
     * an error there is nothing to drop. *why is a text for the device.
     *
     * FED_ERANGE: a value or the loss is too large to be counted. Any other error: the bytes do
     * not belong to the codec of the update's round.
     */
    fed_status (*open)(const fedserver_task *task, const fed_layout *layout,
                       fedserver_update *update, fed_error *why) FED_CHECKED;
    void (*drop)(fedserver_update *update);

    /** Add an open update to the round's sum, with its claim. An error leaves the sum as it was. */
    fed_status (*add)(fedserver_sum *sum, const fedserver_update *update,
                      const fedserver_contribution *contribution, fed_error *err) FED_CHECKED;

    /**
     * Settle what each update counts for, and combine the updates as the task's strategy says. All
     * updates of the open round must have arrived, at least one.
     *
     * change  float32[layout->size]: the mean of the updates, or what the strategy makes of all
     */
    fed_status (*combine)(fedserver_rounds *rounds, fedserver_training *training,
                          fedserver_weights *weights, float *change, fed_error *err) FED_CHECKED;
};

/** The form of the task's updates. */
const fedserver_intake *fedserver_intake_of(const fedserver_task *task);

/** The coordinator takes a loss of a larger magnitude for an error of the device. */
#define FEDSERVER_LOSS_LIMIT 1e12f

/** Bytes of an update's head without custom metrics: no body is shorter. */
size_t fedserver_intake_head_bytes(void);

/** The largest size in bytes of a body, over all phases of the task. The limit covers earlier
 * phases too, so that a late update gets an answer. */
fed_status fedserver_intake_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       uint64_t *most, fed_error *err) FED_CHECKED;

/** Take a body apart. FED_EFORMAT: it has no head, or custom metrics that are not allowed, and *why
 * is a text for the device. Nothing else is checked. */
fed_status fedserver_intake_read(const uint8_t *body, size_t len, fedserver_update *update,
                                 fed_error *why) FED_CHECKED;

/** Add an open update to the sum of the training's updates, and its custom metrics to theirs, in
 * memory.
 *
 * round: the one in which the update counts   device: the id of the device's row */
fed_status fedserver_intake_count(fedserver_training *training, uint32_t round,
                                  const fedserver_update *update, int64_t device,
                                  fed_error *err) FED_CHECKED;

#endif
