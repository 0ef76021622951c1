/* Ends declines, so that a device is asked again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/asked_again.h"

#include "fedserver/rounds/classes.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/shut_out.h"

fed_status fedserver_decline_end(fedserver_rounds *rounds, fedserver_training *t,
                                 const fedserver_device *device, fed_error *err) {
    const int64_t long_ago_ms = 0;
    FED_TRY(
        rounds->store->decline_put(rounds->db, t->task.wire.id, device->id, "", long_ago_ms, err));
    return fedserver_marks_set(&t->declined, device->id, long_ago_ms, err);
}

fed_status fedserver_declines_end(fedserver_rounds *rounds, const fedserver_device *device,
                                  int64_t now_ms, fed_error *err) {
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        /* rounds/too_old.h ends the declines that the coordinator made for old software */
        const bool too_old = fedserver_marks_get(&t->too_old, device->id, 0) != 0;
        const bool shut_out = fedserver_shut_out(t, device->id);
        const bool stays = too_old || shut_out || fedserver_classes_differ(t, device);
        FED_TRY(!stays && fedserver_declined(t, device, now_ms)
                    ? fedserver_decline_end(rounds, t, device, err)
                    : FED_OK);
    }
    return FED_OK;
}

int64_t fedserver_declined_until(const fedserver_rounds *rounds, const fedserver_device *device,
                                 int64_t now_ms) {
    int64_t until_ms = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_training *t = rounds->tasks[k];
        if (fedserver_training_runs(t) && fedserver_declined(t, device, now_ms)) {
            const int64_t end_ms =
                fedserver_marks_get(&t->declined, device->id, 0) + FEDSERVER_DECLINE_MS;
            until_ms = until_ms == 0 || end_ms < until_ms ? end_ms : until_ms;
        }
    }
    return until_ms;
}
