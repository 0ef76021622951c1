/* Keeps devices in memory: reads their rows, writes them back, and names devices in logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/roster.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "fedserver/identity/device_table.h"
#include "fedserver/identity/names.h"
#include "fedserver/rounds/pace.h"
#include "fedserver/stores/stores.h"

enum { SAVE_EVERY_MS = 60 * 1000, SAVE_AT_ONCE = 256 };

fed_status fedserver_devices_start(fedserver_rounds *rounds, fed_error *err) {
    return rounds->store->device_newest(rounds->db, &rounds->devices.change, err);
}

fed_status fedserver_device_keep(fedserver_rounds *rounds, const fedserver_device *row,
                                 fedserver_device **device, fed_error *err) {
    *device = fedserver_devices_find(&rounds->devices, row->fingerprint);
    if (*device != NULL || fedserver_devices_add(&rounds->devices, row, device) == FED_OK) {
        return FED_OK;
    }
    return fed_fail(err, FED_ENOMEM, "out of memory for the devices");
}

fed_status fedserver_device_fetch(fedserver_rounds *rounds,
                                  const uint8_t fingerprint[FED_SHA256_SIZE],
                                  fedserver_device **device, fed_error *err) {
    fedserver_device row;
    fed_error absent = {0};
    *device = fedserver_devices_find(&rounds->devices, fingerprint);
    if (*device != NULL) {
        return FED_OK;
    }
    fed_status status = rounds->store->device_find(rounds->db, fingerprint, &row, &absent);
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    return status == FED_OK ? fedserver_device_keep(rounds, &row, device, err)
                            : fed_fail(err, status, "%s", absent.text);
}

static void shut_out(fedserver_rounds *rounds, fedserver_device *device, int64_t revoked_ms) {
    char name[17];
    fed_hex(device->fingerprint, 8, name);
    fed_logf(rounds->log, FED_LOG_INFO, "revoked device=%s name=\"%s\"", name, device->name);
    assert(revoked_ms != 0); /* S6 in docs/durability.md: a revocation is never undone. */
    device->revoked_ms = revoked_ms;
    fedserver_devices_left(&rounds->devices, device);
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        t->lease_ends_ms = 0;
        fedserver_classes_lose(&t->classes, device->id, true);
    }
    rounds->epoch++; /* so that a held check-in of the device is answered and refused */
}

static fed_status take_change(void *user, const fedserver_device *row, fed_error *err) {
    fedserver_rounds *rounds = user;
    fedserver_device *known = fedserver_devices_find(&rounds->devices, row->fingerprint);
    (void)err;
    /* S6 in docs/durability.md: changes come in their order. */
    assert(row->change >= rounds->devices.change);
    rounds->devices.change = row->change;
    if (known == NULL) {
        return FED_OK;
    }
    if (known->revoked_ms != row->revoked_ms) {
        shut_out(rounds, known, row->revoked_ms);
    }
    known->expires_ms = row->expires_ms;
    memcpy(known->name, row->name, sizeof known->name);
    return FED_OK;
}

fed_status fedserver_devices_follow(fedserver_rounds *rounds, fed_error *err) {
    return rounds->store->device_changes(rounds->db, rounds->devices.change, take_change, rounds,
                                         err);
}

bool fedserver_device_seen(fedserver_rounds *rounds, fedserver_device *device, const char *agent,
                           int64_t now_ms) {
    if (device == NULL) {
        return false;
    }
    const bool was_away =
        device->seen_ms == 0 || now_ms - device->seen_ms >= FEDSERVER_PACE_LATELY_MS;
    device->seen_ms = now_ms;
    fedserver_devices_differs(&rounds->devices, device);
    if (agent != NULL && strcmp(device->software, agent) != 0) {
        fedserver_text_take(device->software, sizeof device->software, agent);
    }
    return was_away;
}

void fedserver_device_computes(fedserver_device *device, const char *on) {
    fedserver_text_take(device->computes_on, sizeof device->computes_on, on != NULL ? on : "");
}

fed_status fedserver_device_save(fedserver_rounds *rounds, fedserver_device *device,
                                 fed_error *err) {
    assert(device->id != 0); /* S13 in docs/durability.md: the device was read from a row. */
    device->unsaved = false;
    return rounds->store->device_put(rounds->db, device, err);
}

static fed_status save_list(fedserver_rounds *rounds, size_t list, int most, int *written,
                            bool *done, fed_error *err) {
    *done = false;
    while (*written < most) {
        fedserver_device *device = fedserver_devices_next_unsaved(&rounds->devices, list);
        if (device == NULL) {
            *done = true;
            return FED_OK;
        }
        if (device->unsaved) {
            FED_TRY(fedserver_device_save(rounds, device, err));
            ++*written;
        }
    }
    return FED_OK;
}

fed_status fedserver_devices_save(fedserver_rounds *rounds, int64_t now_ms, fed_error *err) {
    /* the wall clock may have been set back */
    if (rounds->saved_ms == 0 || now_ms < rounds->saved_ms) {
        rounds->saved_ms = now_ms;
    }
    if (!rounds->saving && now_ms - rounds->saved_ms < SAVE_EVERY_MS) {
        return FED_OK;
    }
    size_t list = rounds->saving ? rounds->save_next : 0;
    bool done = true;
    for (int written = 0; list < FEDSERVER_DEVICES_LISTS && done; list += done) {
        FED_TRY(save_list(rounds, list, SAVE_AT_ONCE, &written, &done, err));
    }
    rounds->saving = list < FEDSERVER_DEVICES_LISTS;
    rounds->save_next = list;
    rounds->saved_ms = now_ms;
    return FED_OK;
}

fed_status fedserver_device_report(const fedserver_rounds *rounds, int64_t id,
                                   char said[FEDSERVER_DEVICE_SAID], fed_error *err) {
    enum { SHOWN = 8 };
    char digits[2 * SHOWN + 1];
    fedserver_device device;
    fed_error absent = {0};
    snprintf(said, FEDSERVER_DEVICE_SAID, "?");
    const fed_status status =
        fedserver_store_device(rounds->store, rounds->db, id, &device, &absent);
    if (status == FED_OK) {
        fed_hex(device.fingerprint, SHOWN, digits);
        snprintf(said, FEDSERVER_DEVICE_SAID, device.name[0] != '\0' ? "%s (%s)" : "%s", digits,
                 device.name);
    }
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", absent.text);
}

fed_status fedserver_device_cloned(fedserver_rounds *rounds, fedserver_device *device,
                                   int64_t now_ms, fed_error *err) {
    enum { SAY_EVERY_MS = 60000 };
    if (device->cloned_ms != 0 && now_ms >= device->cloned_ms &&
        now_ms - device->cloned_ms < SAY_EVERY_MS) {
        return FED_OK;
    }
    char name[FEDSERVER_DEVICE_SAID];
    FED_TRY(fedserver_device_report(rounds, device->id, name, err));
    fed_logf(rounds->log, FED_LOG_WARN,
             "device %s runs twice: two copies of its state report with the same lease; stop one, "
             "and enrol it with a token of its own",
             name);
    device->cloned_ms = now_ms;
    return fedserver_device_save(rounds, device, err);
}
