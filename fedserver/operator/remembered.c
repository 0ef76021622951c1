/* Writes and reads what the coordinator remembers without storing it, for a resumed simulation. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/remembered.h"

#include <string.h>

#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/turns.h"
#include "fedserver/server.h"

/* The first bytes, written as they are in memory. Behind them come the fingerprints of all devices
 * in memory, the devices that checked in lately, and the tasks. */
typedef struct remembered {
    uint64_t epoch, active, devices, lately, tasks, served, turn;
    int64_t active_ms;
} remembered;

/* A task's bytes, written as they are in memory. Behind them come the task's downloads. */
typedef struct remembered_task {
    uint64_t id, served, turn;
    int64_t lease_ends_ms, drawn_ms, draws_ms;
    uint32_t redraws;
    bool draws;
    fedserver_cohort cohort;
} remembered_task;

typedef struct seen {
    uint8_t fingerprint[FED_SHA256_SIZE];
    int64_t checkin_ms;
    uint64_t turn, kept_task, away;
} seen;

fed_status fedserver_remembered_write(const fedserver *server, fed_writer *w) {
    const fedserver_rounds *rounds = &server->rounds;
    remembered m;
    /* clears the padding, too, so that the same state gives the same bytes */
    memset(&m, 0, sizeof m);
    m.epoch = server->rounds.epoch, m.active = server->rounds.active,
    m.devices = server->rounds.devices.count, m.lately = server->rounds.devices.lately;
    m.active_ms = server->rounds.active_ms, m.turn = server->rounds.turn;
    m.tasks = rounds->task_count, m.served = rounds->served;
    fed_write_bytes(w, &m, sizeof m);
    for (size_t k = 0; k < rounds->devices.count; k++) {
        fed_write_bytes(w, fedserver_devices_at(&rounds->devices, k)->fingerprint, FED_SHA256_SIZE);
    }
    const fedserver_device *device = fedserver_devices_oldest(&rounds->devices);
    for (; device != NULL; device = fedserver_devices_newer(device)) {
        seen one = {.checkin_ms = device->checkin_ms,
                    .turn = device->turn,
                    .kept_task = device->kept_task,
                    .away = device->away};
        memcpy(one.fingerprint, device->fingerprint, sizeof one.fingerprint);
        fed_write_bytes(w, &one, sizeof one);
    }
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_training *t = rounds->tasks[k];
        remembered_task of_task;
        memset(&of_task, 0, sizeof of_task);
        of_task.id = t->task.wire.id, of_task.served = t->served;
        of_task.lease_ends_ms = t->lease_ends_ms, of_task.cohort = t->cohort;
        of_task.turn = t->turn, of_task.drawn_ms = t->drawn_ms, of_task.redraws = t->redraws;
        of_task.draws = t->draws, of_task.draws_ms = t->draws_ms;
        fed_write_bytes(w, &of_task, sizeof of_task);
        fedserver_downloads_write(&t->downloads, w);
    }
    return w->status;
}

/* Read the order of the devices in memory, and give them the places that they had: slots may be
 * drawn by place. */
static fed_status read_places(fedserver_rounds *rounds, uint64_t count, fed_reader *r,
                              fed_error *err) {
    fedserver_devices places = {.change = rounds->devices.change};
    fed_status status = FED_OK;
    for (uint64_t k = 0; k < count && status == FED_OK; k++) {
        fedserver_device *device = NULL;
        const uint8_t *fingerprint = fed_read_bytes(r, FED_SHA256_SIZE);
        if (fingerprint != NULL) {
            status = fedserver_device_fetch(rounds, fingerprint, &device, err);
        }
        if (status == FED_OK) {
            status = device != NULL ? fedserver_devices_add(&places, device, NULL) : FED_EFORMAT;
        }
    }
    if (status == FED_OK && places.count != rounds->devices.count) {
        status = FED_EFORMAT;
    }
    if (status != FED_OK) {
        fedserver_devices_free(&places);
        return status;
    }
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_lease_list *list = &rounds->tasks[k]->leases;
        for (size_t i = 0; i < list->count; i++) {
            list->items[i].device =
                fedserver_devices_find(&places, list->items[i].device->fingerprint);
        }
    }
    for (size_t k = 0; k < rounds->task_count; k++) {
        rounds->tasks[k]->drawn_count = 0; /* read_all finds them again */
    }
    fedserver_devices_free(&rounds->devices);
    rounds->devices = places;
    return FED_OK;
}

static fed_status read_all(fedserver *server, fed_reader *r, fed_error *err) {
    const uint8_t *bytes = fed_read_bytes(r, sizeof(remembered));
    remembered m;
    FED_REQUIRE(bytes != NULL, FED_EFORMAT);
    memcpy(&m, bytes, sizeof m);
    FED_TRY(read_places(&server->rounds, m.devices, r, err));
    for (uint64_t k = 0; k < m.lately; k++) {
        seen one;
        bytes = fed_read_bytes(r, sizeof one);
        FED_REQUIRE(bytes != NULL, FED_EFORMAT);
        memcpy(&one, bytes, sizeof one);
        fedserver_device *device = fedserver_devices_find(&server->rounds.devices, one.fingerprint);
        FED_REQUIRE(device != NULL, FED_EFORMAT);
        fedserver_devices_checked_in(&server->rounds.devices, device, one.checkin_ms);
        device->turn = one.turn, device->kept_task = one.kept_task;
        device->away = one.away != 0;
    }
    for (uint64_t k = 0; k < m.tasks; k++) {
        remembered_task of_task;
        bytes = fed_read_bytes(r, sizeof of_task);
        FED_REQUIRE(bytes != NULL, FED_EFORMAT);
        memcpy(&of_task, bytes, sizeof of_task);
        fedserver_training *t = fedserver_rounds_task(&server->rounds, of_task.id);
        FED_REQUIRE(t != NULL, FED_EFORMAT);
        t->served = of_task.served, t->lease_ends_ms = of_task.lease_ends_ms;
        t->cohort = of_task.cohort;
        t->turn = of_task.turn, t->drawn_ms = of_task.drawn_ms, t->redraws = of_task.redraws;
        t->draws = of_task.draws, t->draws_ms = of_task.draws_ms;
        FED_TRY(fedserver_drawn_find(&server->rounds, t));
        FED_TRY(fedserver_downloads_read(&t->downloads, r));
    }
    server->rounds.epoch = m.epoch, server->rounds.active = m.active;
    server->rounds.active_ms = m.active_ms, server->rounds.turn = m.turn;
    server->rounds.served = m.served, server->rounds.wakes.count = 0;
    return FED_OK;
}

fed_status fedserver_remembered_read(fedserver *server, fed_reader *r, fed_error *err) {
    fed_error why = {0};
    fed_status status = read_all(server, r, &why);
    why.status = status;
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "the remembered state of a coordinator can't be read: %s",
                          fed_error_text(&why));
}
