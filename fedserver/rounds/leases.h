/* Leases: which device holds a slot of the open round, which gets one, and when a slot is free. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LEASES_H
#define FEDSERVER_LEASES_H

#include "fed/wire.h"
#include "fedserver/rounds/rounds.h"

/** What a device that checked in is told. */
typedef struct fedserver_checkin {
    fedserver_round_action action;
    fedserver_training *training; /* whose round it is; NULL: no task wants the device */
    int64_t admit_ms;             /* WAIT_ADMISSION: when the cohort admits the device; else 0 */
} fedserver_checkin;

/**
 * A device checks in, and gets a place in one of the tasks that run, or waits. After LEASE the
 * device has its new lease. choice.h says which task comes first.
 *
 * holds  the device's check-in: the tasks that it holds. It keeps a residual of each, and would
 *        have to drop one for another task (D4). So a device whose slots are all kept gets no other
 *        task: fedserver_task_kept.
 */
fed_status fedserver_leases_checkin(fedserver_rounds *rounds, fedserver_device *device,
                                    const fed_checkin *holds, int64_t now_ms,
                                    fedserver_checkin *checkin, fed_error *err) FED_CHECKED;

/** Does the device keep a slot for the task, if it holds it? It does while the task runs and is for
 * the device, by its tag and as long as it has not declined. */
bool fedserver_task_kept(const fedserver_rounds *rounds, uint64_t task,
                         const fedserver_device *device, int64_t now_ms);

/** The device can't serve any task that runs and has its tag: the device has declined them all, and
 * there is at least one. */
bool fedserver_declined_all(const fedserver_rounds *rounds, const fedserver_device *device,
                            int64_t now_ms);

/** A device can't serve the task. Store the reason, and end the device's lease if the
 * lease stands. reason "": the device only gives its slot back, and may get another slot later. */
fed_status fedserver_leases_decline(fedserver_rounds *rounds, fedserver_training *training,
                                    fedserver_device *device, const char *reason, int64_t now_ms,
                                    fed_error *err) FED_CHECKED;

/** Has the device declined the task? A decline stands for FEDSERVER_DECLINE_MS. */
bool fedserver_declined(const fedserver_training *training, const fedserver_device *device,
                        int64_t now_ms);
#define FEDSERVER_DECLINE_MS (INT64_C(24) * 3600 * 1000)

/**
 * The event for fedserver_round_step that an update causes. training: the task that the head names;
 * NULL: that task is not in memory.
 * head    the head of the update
 * digest  the digest of the whole message
 */
fedserver_round_event fedserver_leases_update_event(const fedserver_training *training,
                                                    const fedserver_device *device,
                                                    const fed_update *head, uint64_t digest,
                                                    int64_t now_ms);

/** Does the device's lease stand, so that an update with the lease would count? */
bool fedserver_lease_stands(const fedserver_training *training, const fedserver_device *device,
                            int64_t now_ms);

/** When a lease that stands ends, in Unix milliseconds. */
int64_t fedserver_lease_deadline(const fedserver_training *training,
                                 const fedserver_device *device);

/** Free the slots of leases that no longer stand. The function looks at the leases only when a
 * lease may have ended since the last call. */
void fedserver_leases_advance(fedserver_rounds *rounds, fedserver_training *training,
                              int64_t now_ms);

/** Read the leases that stand, with their devices. `round` has number and attempt. */
fed_status fedserver_leases_load(fedserver_rounds *rounds, fedserver_training *training,
                                 fed_error *err) FED_CHECKED;

/** How many slots are taken, counted from the list of leases. For a restart. */
uint32_t fedserver_leases_count(const fedserver_training *training);

/** A round or an attempt has opened: draw the devices that may have its slots, and move the
 * epoch. */
void fedserver_slots_open(fedserver_rounds *rounds, fedserver_training *training, int64_t now_ms);

/** A slot is free again: draw the devices that may have the free slots. The epoch moves later, in
 * fedserver_slots_wake, once for all slots that became free meanwhile. */
void fedserver_slots_freed(fedserver_rounds *rounds, fedserver_training *training, int64_t now_ms);

/** Move the epoch if slots became free. Returns when to call this again; INT64_MAX: no slot is
 * free. */
int64_t fedserver_slots_wake(fedserver_rounds *rounds, int64_t now_ms);

#endif
