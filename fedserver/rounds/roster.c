/* Keeps the devices in memory: reads them from the store, writes them back, names them for
 * people. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/roster.h"

#include <stdio.h>
#include <string.h>

#include "fedserver/identity/device_table.h"
#include "fedserver/identity/names.h"

enum { SAVE_EVERY_MS = 60 * 1000, SAVE_AT_ONCE = 256 };

/* -- read from the store -- */

static fed_status take_device(void *user, const fedserver_device *device, fed_error *err) {
    fedserver_rounds *rounds = user;
    fedserver_device *known = fedserver_devices_find(&rounds->devices, device->fingerprint);
    if (device->change > rounds->devices.change) {
        rounds->devices.change = device->change;
    }
    if (known != NULL && known->revoked_ms != device->revoked_ms) {
        char name[17];
        fed_hex(device->fingerprint, 8, name);
        fed_logf(rounds->log, FED_LOG_INFO, "revoked device=%s name=\"%s\"", name, device->name);
        known->revoked_ms = device->revoked_ms;
        for (size_t k = 0; k < rounds->task_count; k++) {
            /* another device may get the revoked device's slot */
            rounds->tasks[k]->lease_ends_ms = 0;
        }
        rounds->epoch++; /* the revoked device may be waiting */
    }
    if (known != NULL) {
        known->expires_ms = device->expires_ms;
        memcpy(known->name, device->name, sizeof known->name);
        return FED_OK;
    }
    fed_status status = fedserver_devices_add(&rounds->devices, device);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "out of memory for the devices");
}

fed_status fedserver_devices_load(fedserver_rounds *rounds, fed_error *err) {
    return rounds->store->device_each(rounds->db, take_device, rounds, err);
}

fed_status fedserver_devices_follow(fedserver_rounds *rounds, fed_error *err) {
    return rounds->store->device_changes(rounds->db, rounds->devices.change, take_device, rounds,
                                         err);
}

/* -- write to the store -- */

void fedserver_device_seen(fedserver_device *device, const char *agent, int64_t now_ms) {
    if (device == NULL) {
        return;
    }
    device->seen_ms = now_ms;
    device->unsaved = true;
    if (agent != NULL && strcmp(device->software, agent) != 0) {
        fedserver_text_take(device->software, sizeof device->software, agent);
    }
}

void fedserver_device_computes(fedserver_device *device, const char *on) {
    fedserver_text_take(device->computes_on, sizeof device->computes_on, on != NULL ? on : "");
}

fed_status fedserver_device_save(fedserver_rounds *rounds, fedserver_device *device,
                                 fed_error *err) {
    device->unsaved = false;
    return rounds->store->device_put(rounds->db, device, err);
}

fed_status fedserver_devices_save(fedserver_rounds *rounds, int64_t now_ms, fed_error *err) {
    const fedserver_devices *devices = &rounds->devices;
    /* saved_ms may be later than now_ms if the clock was set back */
    if (rounds->saved_ms == 0 || now_ms < rounds->saved_ms) {
        rounds->saved_ms = now_ms;
    }
    if (rounds->save_next == 0 && now_ms - rounds->saved_ms < SAVE_EVERY_MS) {
        return FED_OK;
    }
    size_t k = rounds->save_next;
    for (int written = 0; k < devices->count && written < SAVE_AT_ONCE; k++) {
        if (devices->items[k].unsaved) {
            FED_TRY(fedserver_device_save(rounds, &devices->items[k], err));
            written++;
        }
    }
    rounds->save_next = k < devices->count ? k : 0;
    rounds->saved_ms = now_ms;
    return FED_OK;
}

/* -- for people -- */

void fedserver_device_say(const fedserver_rounds *rounds, int64_t device,
                          char said[FEDSERVER_DEVICE_SAID]) {
    enum { SHOWN = 8 };
    snprintf(said, FEDSERVER_DEVICE_SAID, "?");
    for (size_t k = 0; k < rounds->devices.count; k++) {
        const fedserver_device *one = &rounds->devices.items[k];
        char digits[2 * SHOWN + 1];
        if (one->id == device) {
            fed_hex(one->fingerprint, SHOWN, digits);
            snprintf(said, FEDSERVER_DEVICE_SAID, one->name[0] != '\0' ? "%s (%s)" : "%s", digits,
                     one->name);
        }
    }
}
