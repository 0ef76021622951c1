/* Keeps long tasks from devices of older releases, which read shorter assignments. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TOO_LONG_H
#define FEDSERVER_TOO_LONG_H

#include "fedserver/rounds/rounds.h"

/** The reason that is stored when the coordinator declines a task for a device that can't read
 * it. */
#define FEDSERVER_TOO_LONG                                                                         \
    "the software of this device reads 4,096 bytes of an assignment, and this task needs more: "   \
    "install the coordinator's release on the device"

/** Set *wire to the task as devices are told it in the open round or, without one, in the next
 * round. */
void fedserver_told(const fedserver_training *training, fed_task *wire);

/** Is the task's assignment longer than a device with this check-in can read? */
bool fedserver_too_long(const fedserver_training *training, const fed_checkin *checkin);

/** Decline the running tasks that are too long for the device. Where the device has newer software
 * since, forget these declines: the device can take the tasks now. */
fed_status fedserver_too_long_decline(fedserver_rounds *rounds, fedserver_device *device,
                                      const fed_checkin *checkin, int64_t now_ms,
                                      fed_error *err) FED_CHECKED;

#endif
