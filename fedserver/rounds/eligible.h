/* Tells which devices may have a slot of a task's open round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ELIGIBLE_H
#define FEDSERVER_ELIGIBLE_H

#include "fedserver/rounds/rounds.h"

static inline bool fedserver_asynchronous(const fedserver_training *t) {
    return t->task.rules.staleness > 0;
}

/** Does the device have a lease of the task's open round, or, asynchronous, of an earlier one? The
 * lease may be over. */
bool fedserver_leased_for(const fedserver_training *training, const fedserver_device *device);

/** Does the device's lease still hold, so that an update with it would count? */
bool fedserver_lease_stands(const fedserver_training *training, const fedserver_device *device,
                            int64_t now_ms);

/** Has the device declined the task? A decline holds for FEDSERVER_DECLINE_MS. */
bool fedserver_declined(const fedserver_training *training, const fedserver_device *device,
                        int64_t now_ms);
#define FEDSERVER_DECLINE_MS (INT64_C(24) * 3600 * 1000)

bool fedserver_has_its_tag(const fedserver_training *training, const fedserver_device *device);

/** Is the task for this device, which has not declined it, and has a participation left? */
bool fedserver_wanted(const fedserver_training *training, const fedserver_device *device,
                      int64_t now_ms);

/** Must a device that holds the task's model keep the model? Yes, while the task runs, the task's
 * tag admits the device, and the device has not declined the task. */
bool fedserver_task_kept(const fedserver_rounds *rounds, uint64_t task,
                         const fedserver_device *device, int64_t now_ms);

/** Synchronous: does the device's row say that the device has reported in this round? */
bool fedserver_reported(const fedserver_training *training, const fedserver_device *device);

/** Synchronous: has the device reported in this round, and had a lease of another task since? Then
 * its row no longer shows the report, but the sum does. */
bool fedserver_reported_before(const fedserver_training *training, const fedserver_device *device);

/** Has the device given its slot of this attempt of the round back, because it rests? A device of a
 * task with `apart` counts messages that came too late, too, which the ledger does not (C12). So it
 * may rest where it had a lease within so many rounds, and then gives back each slot that it gets.
 *
 * _may_rest notes that, before the device gets its new lease; _gives_back notes that such a device
 * has given its slot back. Both do nothing for other devices and tasks. After a restart a device
 * may get one more slot to give back. */
bool fedserver_gave_back(const fedserver_training *training, const fedserver_device *device);
fed_status fedserver_may_rest(fedserver_training *training, const fedserver_device *device,
                              fed_error *err) FED_CHECKED;
fed_status fedserver_gives_back(fedserver_training *training, const fedserver_device *device,
                                fed_error *err) FED_CHECKED;

/** Asynchronous: has the device reported its portion of this round, while other devices work on the
 * rest? */
bool fedserver_had_its_part(const fedserver_training *training, const fedserver_device *device);

/** Could the device take a slot of the task if it asked now? It has checked in lately, and is not
 * away (fedserver_device.away). */
bool fedserver_can_take(const fedserver_rounds *rounds, const fedserver_training *training,
                        const fedserver_device *device, int64_t now_ms);

/** The device as the task's cohort looks at it. */
fedserver_candidate fedserver_candidate_of(const fedserver_training *training,
                                           const fedserver_device *device);

#endif
