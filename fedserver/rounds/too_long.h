/* Declines tasks for devices of older releases, which can't read the tasks' long assignments. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TOO_LONG_H
#define FEDSERVER_TOO_LONG_H

#include "fedserver/rounds/rounds.h"

/** The reason that is stored when the coordinator declines such a task for a device. */
#define FEDSERVER_TOO_LONG                                                                         \
    "the software of this device reads 4,096 bytes of an assignment, and this task needs more: "   \
    "install the coordinator's release on the device"

/** Set *wire to what an assignment says of the task, in the phase of the next version. */
void fedserver_told(const fedserver_training *training, fed_task *wire);

/** Is the task's assignment longer than a device with this check-in can read? */
bool fedserver_too_long(const fedserver_training *training, const fed_checkin *checkin);

/** Decline the running tasks that are too long for the device. Once the device can read them,
 * forget these declines. */
fed_status fedserver_too_long_decline(fedserver_rounds *rounds, fedserver_device *device,
                                      const fed_checkin *checkin, int64_t now_ms,
                                      fed_error *err) FED_CHECKED;

#endif
