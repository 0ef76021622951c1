/* Remembers which devices declined a task, and which version each evaluator measured. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/device_marks.h"

#include <string.h>

#include "fedserver/rounds/classes.h"
#include "fedserver/rounds/shut_out.h"
#include "fedserver/rounds/too_old.h"

static fed_status mark_decline(void *user, const fedserver_decline *decline, fed_error *err) {
    fedserver_training *t = user;
    if (decline->revoked || fedserver_classes_load(t, decline)) {
        return FED_OK;
    }
    FED_TRY(fedserver_marks_set(&t->declined, decline->device, decline->at_ms, err));
    FED_TRY(fedserver_shut_out_load(t, decline, err));
    return strncmp(decline->reason, FEDSERVER_TOO_OLD, strlen(FEDSERVER_TOO_OLD)) == 0
               ? fedserver_marks_set(&t->too_old, decline->device, 1, err)
               : FED_OK;
}

fed_status fedserver_declines_load(const fedserver_rounds *rounds, fedserver_training *t,
                                   fed_error *err) {
    fedserver_marks_free(&t->declined);
    fedserver_marks_free(&t->too_old);
    fedserver_marks_free(&t->shut_out);
    t->classes = (fedserver_classes){0};
    return rounds->store->decline_each(rounds->db, t->task.wire.id, 0, mark_decline, t, err);
}

int64_t fedserver_measured(const fedserver_training *t, const fedserver_device *device) {
    const int64_t by_row =
        device->evaluated_task == t->task.wire.id ? (int64_t)device->evaluated_version : -1;
    return fedserver_marks_get(&t->measured, device->id, by_row);
}
