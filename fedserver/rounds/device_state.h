/* Says in one word, for people, what a device does. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_STATE_H
#define FEDSERVER_DEVICE_STATE_H

#include "fedserver/rounds/rounds.h"

/** The device's state: revoked, expired, cloned, training, declined, late, waiting or away.
 * Declined: the device declined all running tasks that it could serve.
 * Late: the device's lease ended without an update. Waiting: the device was seen lately. */
const char *fedserver_device_state(const fedserver_rounds *rounds, const fedserver_device *device,
                                   int64_t now_ms);
/** How long a device has the state "cloned". */
#define FEDSERVER_CLONED_MS (INT64_C(24) * 3600 * 1000)

#endif
