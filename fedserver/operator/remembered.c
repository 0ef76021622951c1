/* What the coordinator remembers without storing it: written for a process that continues its
 * run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/remembered.h"

#include <string.h>

#include "fedserver/server.h"

/* This head is written as it lies in memory; the devices and the downloads follow. */
typedef struct remembered {
    uint64_t epoch, active, devices;
    int64_t woken_ms, active_ms, lease_ends_ms;
    fedserver_cohort cohort;
    bool wake_due;
} remembered;

typedef struct seen {
    int64_t device, checkin_ms;
} seen;

fed_status fedserver_remembered_write(const fedserver *server, fed_writer *w) {
    const fedserver_training *t = &server->rounds.training;
    remembered m;
    memset(&m, 0, sizeof m); /* the gaps too, so that the same state gives the same bytes */
    m.epoch = server->rounds.epoch, m.active = server->rounds.active,
    m.devices = server->rounds.devices.count;
    m.woken_ms = server->rounds.woken_ms, m.active_ms = server->rounds.active_ms,
    m.wake_due = server->rounds.wake_due;
    m.lease_ends_ms = t->lease_ends_ms, m.cohort = t->cohort;
    fed_write_bytes(w, &m, sizeof m);
    for (size_t k = 0; k < server->rounds.devices.count; k++) {
        const fedserver_device *device = &server->rounds.devices.items[k];
        const seen one = {device->id, device->checkin_ms};
        fed_write_bytes(w, &one, sizeof one);
    }
    fedserver_downloads_write(&t->downloads, w);
    return w->status;
}

static fed_status read_devices(fedserver *server, uint64_t count, fed_reader *r) {
    FED_REQUIRE(count == server->rounds.devices.count, FED_EFORMAT);
    for (size_t k = 0; k < server->rounds.devices.count; k++) {
        const uint8_t *bytes = fed_read_bytes(r, sizeof(seen));
        FED_REQUIRE(bytes != NULL, FED_EFORMAT);
        seen one;
        memcpy(&one, bytes, sizeof one);
        FED_REQUIRE(one.device == server->rounds.devices.items[k].id, FED_EFORMAT);
        server->rounds.devices.items[k].checkin_ms = one.checkin_ms;
    }
    return FED_OK;
}

static fed_status read_all(fedserver *server, fed_reader *r) {
    fedserver_training *t = &server->rounds.training;
    const uint8_t *bytes = fed_read_bytes(r, sizeof(remembered));
    remembered m;
    FED_REQUIRE(bytes != NULL, FED_EFORMAT);
    memcpy(&m, bytes, sizeof m);
    FED_TRY(read_devices(server, m.devices, r));
    FED_TRY(fedserver_downloads_read(&t->downloads, r));
    server->rounds.epoch = m.epoch, server->rounds.active = m.active;
    server->rounds.woken_ms = m.woken_ms, server->rounds.active_ms = m.active_ms,
    server->rounds.wake_due = m.wake_due;
    t->lease_ends_ms = m.lease_ends_ms, t->cohort = m.cohort;
    return FED_OK;
}

fed_status fedserver_remembered_read(fedserver *server, fed_reader *r, fed_error *err) {
    fed_status status = read_all(server, r);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "what a coordinator remembered can't be taken up: %s",
                          fed_status_text(status));
}
