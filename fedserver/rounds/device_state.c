/* Names a device's state in one word, for lists that people read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/device_state.h"

#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/pace.h"

const char *fedserver_device_state(const fedserver_rounds *rounds, const fedserver_device *device,
                                   int64_t now_ms) {
    const fedserver_training *t = fedserver_rounds_task(rounds, device->lease_task);
    if (device->revoked_ms != 0) {
        return "revoked";
    }
    if (device->expires_ms <= now_ms) {
        return "expired";
    }
    if (device->cloned_ms != 0 && now_ms - device->cloned_ms < FEDSERVER_CLONED_MS) {
        return "cloned";
    }
    /* A process that does not serve closes no round, so a round may be open after its deadline. */
    if (t != NULL && fedserver_lease_stands(t, device, now_ms) &&
        now_ms < fedserver_lease_deadline(t, device)) {
        return "training";
    }
    if (fedserver_declined_all(rounds, device, now_ms)) {
        return "declined";
    }
    if (t != NULL && fedserver_training_runs(t) && device->lease != 0 &&
        device->lease != device->counted_lease) {
        return "late";
    }
    return device->seen_ms == 0                                  ? "new"
           : now_ms - device->seen_ms < FEDSERVER_PACE_LATELY_MS ? "waiting"
                                                                 : "away";
}
