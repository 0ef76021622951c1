/* Reads, checks and counts updates, and combines a round's updates into a change of the model. */
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
 *     fedserver_intake_read(body, len, &update, &why);             parses head and custom metrics
 *     intake->open(task, layout, &update, &why);                   checks all values
 *     fedserver_intake_count(training, round, &update, device, err);
 *     intake->drop(&update);
 *
 * When the round commits, intake->combine makes one change of the model from all updates of the
 * round. What follows an update's head has one of the forms that intakes.def lists. The task
 * decides which. All forms have the same head, so leases and rounds do not depend on the form.
 */

/** An update: the parsed body of POST /v1/update. */
typedef struct fedserver_update {
    fed_update head;
    fed_own_metrics own;
    const uint8_t *body; /* must stay valid until the update is dropped */
    size_t body_len;
    const uint8_t *envelope;
    size_t envelope_len;
    fedcodec_message values; /* for the form `plain`: valid from open to drop */
} fedserver_update;

struct fedserver_intake {
    const char *name;

    /** Do the task's updates have this form? May be NULL in the last form of intakes.def, which any
     * task can have. */
    bool (*takes)(const fedserver_task *task);

    /** Set *most to the largest size in bytes of what follows an update's head and custom metrics,
     * in a phase of the task. */
    fed_status (*most_bytes)(const fedserver_task *task, const fed_layout *layout,
                             const fedserver_phase *phase, uint64_t *most,
                             fed_error *err) FED_CHECKED;

    /** Check the update against the task and its model, and open the values. Call drop afterwards,
     * but not after an error. *why is a text for the device. FED_ERANGE: a value or the loss is too
     * large to be counted. */
    fed_status (*open)(const fedserver_task *task, const fed_layout *layout,
                       fedserver_update *update, fed_error *why) FED_CHECKED;
    void (*drop)(fedserver_update *update);

    /** Add an open update to the round's sum. contribution: its norms need not be set. An error
     * changes nothing. */
    fed_status (*add)(fedserver_sum *sum, const fedserver_update *update,
                      const fedserver_contribution *contribution, fed_error *err) FED_CHECKED;

    /**
     * Compute the updates' final weights, and combine the updates as the task's strategy says. The
     * sum has all updates of the round, at least one.
     *
     * change float32[layout->size]: the mean of the updates, or what a strategy that needs all
     * updates at once makes of them
     */
    fed_status (*combine)(fedserver_rounds *rounds, fedserver_training *training,
                          fedserver_weights *weights, float *change, fed_error *err) FED_CHECKED;
};

/** The form of the task's updates. */
const fedserver_intake *fedserver_intake_of(const fedserver_task *task);

/** An update whose loss has a larger magnitude is refused. */
#define FEDSERVER_LOSS_LIMIT 1e12f

/** The size in bytes of an update's head without custom metrics. No valid body is smaller. */
size_t fedserver_intake_head_bytes(void);

/** The largest size in bytes of an update's body, over all phases of the task: a late update may be
 * of an earlier phase. */
fed_status fedserver_intake_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       uint64_t *most, fed_error *err) FED_CHECKED;

/** Parse a body's head and custom metrics. FED_EFORMAT: the head is damaged, or the custom metrics
 * are not allowed; *why is a text for the device. Nothing else is checked. */
fed_status fedserver_intake_read(const uint8_t *body, size_t len, fedserver_update *update,
                                 fed_error *why) FED_CHECKED;

/** Make the empty sum of a task, in training->sum. FED_ENOMEM: out of memory. */
fed_status fedserver_intake_sum(fedserver_training *training) FED_CHECKED;

/** Add an open update to training->sum, and its custom metrics to training->own. round: the round
 * in which the update counts. device: the id of the device's row. */
fed_status fedserver_intake_count(fedserver_training *training, uint32_t round,
                                  const fedserver_update *update, int64_t device,
                                  fed_error *err) FED_CHECKED;

#endif
