/* Names a device's state in one word, for lists that people read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_STATE_H
#define FEDSERVER_DEVICE_STATE_H

#include "fedserver/rounds/rounds.h"

/** The first that applies of: revoked, expired, cloned (two copies of the device's state reported
 * lately), training, declined (all running tasks that the device could serve), late (its lease
 * ended without an update), new (never seen), waiting (seen lately), away. */
const char *fedserver_device_state(const fedserver_rounds *rounds, const fedserver_device *device,
                                   int64_t now_ms);
/** How long a device has the state "cloned". */
#define FEDSERVER_CLONED_MS (INT64_C(24) * 3600 * 1000)

#endif
