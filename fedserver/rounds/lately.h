/* Finds the devices that have checked in lately (FEDSERVER_PACE_LATELY_MS). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LATELY_H
#define FEDSERVER_LATELY_H

#include "fedserver/rounds/rounds.h"

/** Has the device checked in lately, and is it not revoked? */
bool fedserver_seen_lately(const fedserver_device *device, int64_t now_ms);

/** The number of devices seen lately, as it was at most one second ago. */
uint64_t fedserver_devices_active(fedserver_rounds *rounds, int64_t now_ms);

/** Remove from the list of devices seen lately those whose last check-in is too long ago. */
void fedserver_lately_advance(fedserver_rounds *rounds, int64_t now_ms);

#endif
