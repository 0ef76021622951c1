/* What a device does, in one word for people. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_STATE_H
#define FEDSERVER_DEVICE_STATE_H

#include "fedserver/rounds/rounds.h"

/** revoked, expired, cloned, training, declined, late (its lease ended without an update), waiting
 * (seen lately) or away. */
const char *fedserver_device_state(const fedserver_training *training,
                                   const fedserver_device *device, int64_t now_ms);
#define FEDSERVER_CLONED_MS (INT64_C(24) * 3600 * 1000) /* a device is "cloned" for this time */

#endif
