/* Which devices have checked in lately, within the last 20 minutes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LATELY_H
#define FEDSERVER_LATELY_H

#include "fedserver/rounds/rounds.h"

/** Has the device checked in lately, and is the device not revoked? */
bool fedserver_seen_lately(const fedserver_device *device, int64_t now_ms);

/** How many devices were seen lately. The number is up to a second old. */
uint64_t fedserver_devices_active(fedserver_rounds *rounds, int64_t now_ms);

/** Take the devices out of the list whose last check-in is too long ago. */
void fedserver_lately_advance(fedserver_rounds *rounds, int64_t now_ms);

#endif
