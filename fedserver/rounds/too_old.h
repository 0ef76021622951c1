/* Keeps tasks from devices whose software is too old for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TOO_OLD_H
#define FEDSERVER_TOO_OLD_H

#include "fedserver/rounds/rounds.h"

/** How the stored reason begins when the coordinator declines a task for a device as too old. */
#define FEDSERVER_TOO_OLD "the software of this device "

/** Set the task of *told, and what is told of its privacy, to what devices are told in the open
 * round or, without one, in the next round. */
void fedserver_told(const fedserver_training *training, fed_assignment *told);

/** Can't a device with this check-in read the task, because its software is of an older release?
 * Then `why` gets the reason. `why` may be NULL. */
bool fedserver_too_old(const fedserver_training *training, const fed_checkin *checkin,
                       fed_error *why);

/** Decline the running tasks for which the device is too old. Where the device has newer software
 * since, or a phase of the task needs less, forget these declines: the device can take the tasks
 * now. */
fed_status fedserver_too_old_decline(fedserver_rounds *rounds, fedserver_device *device,
                                     const fed_checkin *checkin, int64_t now_ms,
                                     fed_error *err) FED_CHECKED;

#endif
