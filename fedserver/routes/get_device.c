/* GET /v1/device?id=N: what has happened to a device, and why it declined tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fedserver/rounds/running.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"

enum { EVENTS = 20, KEY = 32 };

typedef struct life {
    int64_t device, enrolled_ms; /* device 0: there is none */
    char key[KEY];               /* "device=1f2e3d4c5b6a7988", as the audit log has it */
    const fedserver_task *task;  /* whose declines are visited */
    json_t *events, *declines;
} life;

static fed_status keep_device(void *user, const fedserver_device *d, fed_error *err) {
    life *l = user;
    char digits[17];
    (void)err;
    fed_hex(d->fingerprint, 8, digits);
    snprintf(l->key, sizeof l->key, "device=%s", digits);
    l->device = d->id;
    l->enrolled_ms = d->enrolled_ms;
    return FED_OK;
}

/* The audit log comes oldest first, and the newest EVENTS are kept. */
static fed_status keep_event(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    life *l = user;
    if (strstr(entry->detail, l->key) == NULL) {
        return FED_OK;
    }
    if (json_array_size(l->events) == EVENTS) {
        (void)json_array_remove(l->events, 0);
    }
    return json_array_append_new(l->events,
                                 json_pack("{s:I, s:s, s:s}", "at_ms", (json_int_t)entry->at_ms,
                                           "event", entry->event, "detail", entry->detail)) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for a device's history");
}

static fed_status keep_decline(void *user, const fedserver_decline *decline, fed_error *err) {
    life *l = user;
    if (decline->device != l->device || decline->at_ms <= 1) {
        return FED_OK; /* 1: the device has none any more */
    }
    return json_array_append_new(
               l->declines, json_pack("{s:I, s:s, s:I, s:s}", "task", (json_int_t)l->task->wire.id,
                                      "name", l->task->name, "at_ms", (json_int_t)decline->at_ms,
                                      "reason", decline->reason)) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for a device's declines");
}

static fed_status gather_declines(fedserver *server, life *l, fed_error *err) {
    fedserver_rounds rounds = {0};
    fed_status status = fedserver_rounds_outline(server->store, server->db, NULL, &rounds, err);
    for (size_t k = 0; status == FED_OK && k < rounds.task_count; k++) {
        l->task = &rounds.tasks[k]->task;
        status = server->store->decline_each(server->db, l->task->wire.id, 0, keep_decline, l, err);
    }
    l->task = NULL;
    fedserver_rounds_free(&rounds);
    return status;
}

fed_status fedserver_get_device(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    life l = {.events = json_array(), .declines = json_array()};
    uint64_t id = 0;
    fed_status status = FED_OK;
    (void)fedserver_query_number(call->request->query, "id", INT64_MAX, &id);
    if (id > 0) {
        status =
            server->store->device_page(server->db, 0, (int64_t)id - 1, 1, keep_device, &l, err);
    }
    const bool found = status == FED_OK && id > 0 && l.device == (int64_t)id;
    if (found) {
        status = fedserver_audit_each(server, l.enrolled_ms, keep_event, &l, err);
    }
    if (found && status == FED_OK) {
        status = gather_declines(server, &l, err);
    }
    if (status != FED_OK || !found) {
        json_decref(l.events);
        json_decref(l.declines);
        return status != FED_OK ? status
                                : fedserver_answer_error(response, err, 404, "absent",
                                                         "there is no device of that number");
    }
    return fedserver_answer_json(
        response, 200, json_pack("{s:o, s:o}", "events", l.events, "declines", l.declines), err);
}
