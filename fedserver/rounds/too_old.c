/* Keeps tasks from devices whose software is too old for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/too_old.h"

#include "fedserver/rounds/asked_again.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/newer.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/private_task.h"

#define UPDATE_IT "install the coordinator's release on the device and start it again"

static uint32_t round_told(const fedserver_training *t) {
    return t->versions.version + 1;
}

void fedserver_told(const fedserver_training *t, fed_assignment *told) {
    const fedserver_phase phase = fedserver_phase_of(&t->task, round_told(t));
    told->task = t->task.wire;
    fedserver_phase_apply(&phase, &told->task);
    told->privacy = fedserver_privacy_of(&t->task, &t->arch.layout);
}

/* Is the assignment longer than a device without FED_CAN_LONG reads? */
static bool too_long(const fed_assignment *told, const fed_checkin *checkin) {
    uint8_t room[FED_ASSIGNMENT_SHORT];
    fed_writer w;
    fed_writer_fixed(&w, room, sizeof room);
    fed_assignment_write(&w, checkin->protocol, told);
    return w.status != FED_OK;
}

bool fedserver_too_old(const fedserver_training *t, const fed_checkin *checkin, fed_error *why) {
    const bool reads_all = (checkin->capabilities & FED_CAN_LONG) != 0;
    if (reads_all && fedserver_knows_all(checkin)) {
        return false;
    }
    /* The capabilities, which are those of the check-in, decide which fields an assignment has. */
    fed_assignment told = {.action = FED_ACTION_TRAIN, .capabilities = checkin->capabilities};
    fedserver_told(t, &told);
    const fedserver_unknown unknown = fedserver_newer(&t->task, round_told(t), &told.task, checkin);
    if (unknown.word != NULL) {
        (void)fed_fail(why, FED_EDECLINED,
                       FEDSERVER_TOO_OLD "does not know \"%s\" in the task's %s: " UPDATE_IT,
                       unknown.word, unknown.key);
        return true;
    }
    if (!reads_all && too_long(&told, checkin)) {
        (void)fed_fail(why, FED_EDECLINED,
                       FEDSERVER_TOO_OLD
                       "reads 4,096 bytes of an assignment, and this task needs more: " UPDATE_IT);
        return true;
    }
    return false;
}

static fed_status decline(fedserver_rounds *rounds, fedserver_training *t, fedserver_device *device,
                          const fed_error *why, int64_t now_ms, fed_error *err) {
    FED_TRY(fedserver_leases_decline(rounds, t, device, why->text, now_ms, err));
    return fedserver_marks_set(&t->too_old, device->id, 1, err);
}

static fed_status forget(fedserver_rounds *rounds, fedserver_training *t,
                         const fedserver_device *device, fed_error *err) {
    FED_TRY(fedserver_decline_end(rounds, t, device, err));
    return fedserver_marks_set(&t->too_old, device->id, 0, err);
}

fed_status fedserver_too_old_decline(fedserver_rounds *rounds, fedserver_device *device,
                                     const fed_checkin *checkin, int64_t now_ms, fed_error *err) {
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        fed_error why = {0};
        if (!fedserver_too_old(t, checkin, &why)) {
            const bool was = fedserver_marks_get(&t->too_old, device->id, 0) != 0;
            FED_TRY(was ? forget(rounds, t, device, err) : FED_OK);
        } else if (fedserver_task_kept(rounds, t->task.wire.id, device, now_ms)) {
            FED_TRY(decline(rounds, t, device, &why, now_ms, err));
        }
    }
    return FED_OK;
}
