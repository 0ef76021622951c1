/* Keeps a task from devices whose classes have other names than those of the task's devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/utf8.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/roster.h"

/* The digest lies in the table of declines, in the rows of the first two devices that have trained
 * with it. The rows' time is so long ago that they decline nothing. */
#define MARK "classes "
enum { MARK_MS = 1 };

bool fedserver_classes_differ(const fedserver_training *t, const fedserver_device *device) {
    return t->classes.digest != 0 && device->classes != 0 && device->classes != t->classes.digest;
}

static fed_status decline(fedserver_rounds *rounds, fedserver_training *t, fedserver_device *device,
                          int64_t now_ms, fed_error *err) {
    char first[FEDSERVER_DEVICE_SAID], whose[sizeof first + 16] = "it had before", reason[256];
    if (device->id != t->classes.device) {
        FED_TRY(fedserver_device_report(rounds, t->classes.device, first, err));
        snprintf(whose, sizeof whose, "that of device %.80s", first);
    }
    snprintf(reason, sizeof reason,
             "its classes.txt has other classes, or another order, than %s: copy one file to all "
             "devices, start them again, and run `fedserver resume %" PRIu64 "`",
             whose, t->task.wire.id);
    fed_utf8_clean(reason);
    return fedserver_leases_decline(rounds, t, device, reason, now_ms, err);
}

static fed_status end_other_leases(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                                   fed_error *err) {
    for (size_t k = 0; k < t->leases.count; k++) {
        fedserver_device *other = t->leases.items[k].device;
        FED_TRY(fedserver_classes_differ(t, other) && fedserver_lease_stands(t, other, now_ms)
                    ? decline(rounds, t, other, now_ms, err)
                    : FED_OK);
    }
    return FED_OK;
}

static void take_row(fedserver_classes *c, uint64_t digest, int64_t device) {
    c->digest = digest;
    c->device = c->device != 0 ? c->device : device;
    c->rows[c->rows[0] != 0] = device;
}

fed_status fedserver_classes_count(fedserver_rounds *rounds, fedserver_training *t,
                                   const fedserver_device *device, int64_t now_ms, fed_error *err) {
    char mark[sizeof MARK + 16];
    fedserver_classes *c = &t->classes;
    const bool full = c->rows[0] != 0 && c->rows[1] != 0;
    if (full || c->rows[0] == device->id || c->rows[1] == device->id || device->classes == 0 ||
        fedserver_classes_differ(t, device) || fedserver_declined(t, device, now_ms)) {
        return FED_OK;
    }
    snprintf(mark, sizeof mark, MARK "%016" PRIx64, device->classes);
    FED_TRY(
        rounds->store->decline_put(rounds->db, t->task.wire.id, device->id, mark, MARK_MS, err));
    take_row(c, device->classes, device->id);
    return end_other_leases(rounds, t, now_ms, err);
}

fed_status fedserver_classes_decline(fedserver_rounds *rounds, fedserver_device *device,
                                     int64_t now_ms, fed_error *err) {
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        FED_TRY(fedserver_classes_differ(t, device) &&
                        fedserver_task_kept(rounds, t->task.wire.id, device, now_ms)
                    ? decline(rounds, t, device, now_ms, err)
                    : FED_OK);
    }
    return FED_OK;
}

bool fedserver_classes_load(fedserver_training *t, const fedserver_decline *row) {
    const size_t len = strlen(MARK);
    if (row->at_ms != MARK_MS || strncmp(row->reason, MARK, len) != 0) {
        return false;
    }
    take_row(&t->classes, strtoull(row->reason + len, NULL, 16), row->device);
    return true;
}
