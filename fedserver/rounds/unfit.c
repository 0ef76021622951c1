/* Declines a task for a device whose updates are out of range. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/unfit.h"

#include <stdio.h>

#include "fedserver/rounds/leases.h"

fed_status fedserver_unfit_add(fedserver_rounds *rounds, fedserver_training *t,
                               fedserver_device *device, const fed_error *why, int64_t now_ms,
                               fed_error *err) {
    enum { DIGITS = 8 };
    char name[DIGITS + 1], reason[256];
    const int64_t refusals = fedserver_marks_get(&t->unfit, device->id, 0) + 1;
    if (refusals == 1) {
        fed_hex(device->fingerprint, DIGITS / 2, name);
        const fed_log_about about = fedserver_task_about(&t->task, t->round.number);
        fed_logf_about(rounds->log, FED_LOG_WARN, &about,
                       "device %s: its update of task %llu (%s) is refused: %s", name,
                       (unsigned long long)t->task.wire.id, t->task.name, why->text);
    }
    if (refusals < FEDSERVER_UNFIT_MOST) {
        return fedserver_marks_set(&t->unfit, device->id, refusals, err);
    }
    snprintf(reason, sizeof reason, "its updates are refused: %.200s", why->text);
    FED_TRY(fedserver_marks_set(&t->unfit, device->id, 0, err));
    return fedserver_leases_decline(rounds, t, device, reason, now_ms, err);
}

fed_status fedserver_unfit_clear(fedserver_training *t, const fedserver_device *device,
                                 fed_error *err) {
    return fedserver_marks_get(&t->unfit, device->id, 0) != 0
               ? fedserver_marks_set(&t->unfit, device->id, 0, err)
               : FED_OK;
}
