/* Keeps long tasks from devices of older releases, which read shorter assignments. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/too_long.h"

#include "fedserver/rounds/asked_again.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/task/phases.h"

void fedserver_told(const fedserver_training *t, fed_task *wire) {
    const fedserver_phase phase = fedserver_phase_of(&t->task, t->versions.version + 1);
    *wire = t->task.wire;
    fedserver_phase_apply(&phase, wire);
}

bool fedserver_too_long(const fedserver_training *t, const fed_checkin *checkin) {
    if ((checkin->capabilities & FED_CAN_LONG) != 0) {
        return false;
    }
    /* The answer repeats the capabilities that add fields. */
    fed_assignment told = {.action = FED_ACTION_TRAIN, .capabilities = checkin->capabilities};
    uint8_t room[FED_ASSIGNMENT_SHORT];
    fed_writer w;
    fed_writer_fixed(&w, room, sizeof room);
    fedserver_told(t, &told.task);
    fed_assignment_write(&w, checkin->protocol, &told);
    return w.status != FED_OK;
}

static fed_status decline(fedserver_rounds *rounds, fedserver_training *t, fedserver_device *device,
                          int64_t now_ms, fed_error *err) {
    FED_TRY(fedserver_leases_decline(rounds, t, device, FEDSERVER_TOO_LONG, now_ms, err));
    return fedserver_marks_set(&t->too_long, device->id, 1, err);
}

static fed_status forget(fedserver_rounds *rounds, fedserver_training *t,
                         const fedserver_device *device, fed_error *err) {
    FED_TRY(fedserver_decline_end(rounds, t, device, err));
    return fedserver_marks_set(&t->too_long, device->id, 0, err);
}

fed_status fedserver_too_long_decline(fedserver_rounds *rounds, fedserver_device *device,
                                      const fed_checkin *checkin, int64_t now_ms, fed_error *err) {
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        if (!fedserver_too_long(t, checkin)) {
            const bool was = fedserver_marks_get(&t->too_long, device->id, 0) != 0;
            FED_TRY(was ? forget(rounds, t, device, err) : FED_OK);
        } else if (fedserver_task_kept(rounds, t->task.wire.id, device, now_ms)) {
            FED_TRY(decline(rounds, t, device, now_ms, err));
        }
    }
    return FED_OK;
}
