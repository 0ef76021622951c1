/* The operator's functions about devices: list, revoke, rename. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/audit_log.h"
#include "fedserver/identity/names.h"
#include "fedserver/rounds/asked_again.h"
#include "fedserver/rounds/device_state.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/running.h"
#include "fedserver/server.h"

typedef struct listing {
    const fedserver_rounds *rounds;
    int64_t now_ms;
    fedserver_entry_visit visit;
    void *user;
    const char *prefix;
    size_t count;
    int64_t id;
} listing;

static fed_status list_device(void *user, const fedserver_device *device, fed_error *err) {
    listing *l = user;
    fedserver_entry entry = {.enrolled_ms = device->enrolled_ms,
                             .expires_ms = device->expires_ms,
                             .revoked_ms = device->revoked_ms,
                             .cloned_ms = device->cloned_ms,
                             .seen_ms = device->seen_ms,
                             .samples = device->samples,
                             .counted = device->counted,
                             .late = device->late,
                             .refused = device->refused,
                             .role = device->role};
    memcpy(entry.tag, device->tag, sizeof entry.tag);
    memcpy(entry.name, device->name, sizeof entry.name);
    memcpy(entry.software, device->software, sizeof entry.software);
    memcpy(entry.computes_on, device->computes_on, sizeof entry.computes_on);
    fed_hex(device->fingerprint, FED_SHA256_SIZE, entry.fingerprint);
    if (strncmp(entry.fingerprint, l->prefix, strlen(l->prefix)) != 0) {
        return FED_OK;
    }
    entry.declined_until_ms = fedserver_declined_until(l->rounds, device, l->now_ms);
    entry.state = fedserver_device_state(l->rounds, device, l->now_ms);
    l->count++;
    l->id = device->id;
    return l->visit(l->user, &entry, err);
}

static fed_status list_devices(const fedserver *server, listing *l, fed_error *err) {
    fedserver_rounds view = {0};
    fed_status status = FED_OK;
    l->rounds = &server->rounds;
    if (!server->serving) {
        l->rounds = &view;
        status = fedserver_rounds_view(server->store, server->db, server->log, &view, err);
    }
    if (status == FED_OK) {
        status = server->store->device_each(server->db, list_device, l, err);
    }
    fedserver_rounds_free(&view);
    l->rounds = NULL;
    return status;
}

fed_status fedserver_device_each(fedserver *server, int64_t now_ms, fedserver_entry_visit visit,
                                 void *user, fed_error *err) {
    listing all = {.now_ms = now_ms, .visit = visit, .user = user, .prefix = ""};
    return list_devices(server, &all, err);
}

static fed_status keep_entry(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    *(fedserver_entry *)user = *entry;
    return FED_OK;
}

static fed_status find_by_prefix(fedserver *server, int64_t now_ms, const char *prefix,
                                 fedserver_entry *entry, int64_t *id, fed_error *err) {
    enum { PREFIX_MIN = 8 };
    if (strlen(prefix) < PREFIX_MIN) {
        return fed_fail(err, FED_EINVAL,
                        "\"%s\" is too short: give at least the first %d digits of a fingerprint",
                        prefix, PREFIX_MIN);
    }
    listing found = {.now_ms = now_ms, .visit = keep_entry, .user = entry, .prefix = prefix};
    FED_TRY(list_devices(server, &found, err));
    if (found.count != 1) {
        return fed_fail(err, FED_ENOTFOUND,
                        "%zu devices have a fingerprint that begins with \"%s\"; `fedserver "
                        "devices` lists them",
                        found.count, prefix);
    }
    *id = found.id;
    return FED_OK;
}

fed_status fedserver_device_revoke(fedserver *server, int64_t now_ms, const char *prefix,
                                   fedserver_entry *entry, fed_error *err) {
    int64_t id = 0;
    FED_TRY(find_by_prefix(server, now_ms, prefix, entry, &id, err));
    fed_status status = server->store->device_revoke(server->db, id, now_ms, err);
    if (status == FED_OK && entry->revoked_ms == 0) {
        status = fedserver_audit(server, FED_LOG_INFO, now_ms, "revoked", err,
                                 "device=%.16s name=\"%s\"", entry->fingerprint, entry->name);
    }
    FED_TRY(fedserver_finish(server, status, err));
    if (server->serving && server->setup.part != FEDSERVER_GATE) {
        FED_TRY(fedserver_devices_follow(&server->rounds, err));
    }
    entry->revoked_ms = entry->revoked_ms != 0 ? entry->revoked_ms : now_ms;
    entry->state = "revoked";
    return FED_OK;
}

fed_status fedserver_device_rename(fedserver *server, int64_t now_ms, const char *prefix,
                                   const char *name, fedserver_entry *entry, fed_error *err) {
    char clean[FEDSERVER_NAME];
    int64_t id = 0;
    FED_TRY(fedserver_text_check("name", name, clean, sizeof clean, err));
    FED_TRY(find_by_prefix(server, now_ms, prefix, entry, &id, err));
    fed_status status = server->store->device_rename(server->db, id, clean, err);
    if (status == FED_OK) {
        status = fedserver_audit(server, FED_LOG_INFO, now_ms, "renamed", err,
                                 "device=%.16s name=\"%s\" was=\"%s\"", entry->fingerprint, clean,
                                 entry->name);
    }
    memcpy(entry->name, clean, sizeof entry->name);
    return fedserver_finish(server, status, err);
}
