/* Reads which devices have declined a task, and which versions they have measured. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/device_marks.h"

#include "fedserver/identity/device_table.h"

typedef struct marking {
    const fedserver_rounds *rounds;
    fedserver_training *training;
} marking;

static fed_status mark_decline(void *user, const fedserver_decline *decline, fed_error *err) {
    const marking *m = user;
    const fedserver_device *device =
        fedserver_devices_find(&m->rounds->devices, decline->fingerprint);
    if (device != NULL &&
        fedserver_marks_set(&m->training->declined, device->id, decline->at_ms) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the devices that declined");
    }
    return FED_OK;
}

fed_status fedserver_declines_load(const fedserver_rounds *rounds, fedserver_training *t,
                                   fed_error *err) {
    marking m = {rounds, t};
    fedserver_marks_free(&t->declined);
    return rounds->store->decline_each(rounds->db, t->task.wire.id, 0, mark_decline, &m, err);
}

fed_status fedserver_measured_load(const fedserver_rounds *rounds, fedserver_training *t,
                                   fed_error *err) {
    for (size_t k = 0; k < rounds->devices.count; k++) {
        const fedserver_device *device = &rounds->devices.items[k];
        if (device->evaluated_task == t->task.wire.id &&
            fedserver_marks_set(&t->measured, device->id, device->evaluated_version) != FED_OK) {
            return fed_fail(err, FED_ENOMEM, "out of memory for the devices that evaluate");
        }
    }
    return FED_OK;
}
