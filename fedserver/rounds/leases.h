/* Leases: which device holds a slot of the open round, which device gets a slot, and when a slot
 * becomes free. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LEASES_H
#define FEDSERVER_LEASES_H

#include "fed/wire.h"
#include "fedserver/rounds/eligible.h"

typedef struct fedserver_checkin {
    fedserver_round_action action;
    fedserver_training *training; /* the answer's task; NULL: no task wants the device */
    /* for WAIT_ADMISSION: when the cohort admits the device, in Unix ms; else 0 */
    int64_t admit_ms;
} fedserver_checkin;

/**
 * Handle a check-in: the device gets a slot in one of the running tasks, or waits. After
 * FEDSERVER_DO_LEASE the device has its new lease.
 *
 * holds: the tasks whose models the device stores, from its check-in. A device that must keep
 * as many of them as it can store (fedserver_task_kept) gets no other task, since it would lose a
 * residual (D4 in docs/durability.md).
 */
fed_status fedserver_leases_checkin(fedserver_rounds *rounds, fedserver_device *device,
                                    const fed_checkin *holds, int64_t now_ms,
                                    fedserver_checkin *checkin, fed_error *err) FED_CHECKED;

/** Has the device declined every running task that its tag admits, and at least one? */
bool fedserver_declined_all(const fedserver_rounds *rounds, const fedserver_device *device,
                            int64_t now_ms);

/** Has the device no participation left in any running task that is for it? False if no task is for
 * it. */
bool fedserver_spent_all(const fedserver_rounds *rounds, const fedserver_device *device,
                         int64_t now_ms);

/** Handle a decline: the device can't serve the task. Store the reason, and end the device's lease
 * if it still holds. reason "": the device only gives its slot back, and may get another slot
 * later. */
fed_status fedserver_leases_decline(fedserver_rounds *rounds, fedserver_training *training,
                                    fedserver_device *device, const char *reason, int64_t now_ms,
                                    fed_error *err) FED_CHECKED;

/** The event for fedserver_round_step that an update causes. training: the task that the
 * update's head names; NULL: that task is not in memory. digest: of the whole message. */
fedserver_round_event fedserver_leases_update_event(const fedserver_training *training,
                                                    const fedserver_device *device,
                                                    const fed_update *head, uint64_t digest,
                                                    int64_t now_ms);

/** When a lease that still holds will end, in Unix milliseconds. */
int64_t fedserver_lease_deadline(const fedserver_training *training,
                                 const fedserver_device *device);

/** Free the slots of leases that have ended. The leases are only looked through when one of them
 * may have ended since the last call. */
void fedserver_leases_advance(fedserver_rounds *rounds, fedserver_training *training,
                              int64_t now_ms);

/** Read the leases that still hold, and their devices, from the store. Call it when training->round
 * has its number and attempt. */
fed_status fedserver_leases_load(fedserver_rounds *rounds, fedserver_training *training,
                                 fed_error *err) FED_CHECKED;

/** The number of slots that are taken, for a task that was just loaded. */
uint32_t fedserver_leases_count(const fedserver_training *training);

#endif
