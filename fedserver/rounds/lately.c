/* Keeps the list of the devices that have checked in lately. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/lately.h"

#include "fedserver/rounds/pace.h"

bool fedserver_seen_lately(const fedserver_device *device, int64_t now_ms) {
    return device->checkin_ms != 0 && device->revoked_ms == 0 &&
           now_ms - device->checkin_ms < FEDSERVER_PACE_LATELY_MS;
}

void fedserver_lately_advance(fedserver_rounds *rounds, int64_t now_ms) {
    fedserver_device *oldest = fedserver_devices_oldest(&rounds->devices);
    while (oldest != NULL && !fedserver_seen_lately(oldest, now_ms)) {
        fedserver_devices_left(&rounds->devices, oldest);
        oldest = fedserver_devices_oldest(&rounds->devices);
    }
}

uint64_t fedserver_devices_active(fedserver_rounds *rounds, int64_t now_ms) {
    enum { RECOUNT_MS = 1000 };
    if (rounds->active_ms != 0 && now_ms >= rounds->active_ms &&
        now_ms - rounds->active_ms < RECOUNT_MS) {
        return rounds->active;
    }
    fedserver_lately_advance(rounds, now_ms);
    rounds->active = rounds->devices.lately;
    rounds->active_ms = now_ms;
    return rounds->active;
}
