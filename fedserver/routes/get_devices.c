/* GET /v1/devices?after=ID&limit=N: lists the enrolled devices, at most `limit` in an answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/asked_again.h"
#include "fedserver/rounds/device_state.h"
#include "fedserver/rounds/running.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"

enum { PORTION = 100, PORTION_MOST = 2000 };

typedef struct scene {
    fedserver_rounds rounds;
    int64_t now_ms;
    json_t *list;
    int64_t last;
} scene;

static fed_status append_device(void *user, const fedserver_device *d, fed_error *err) {
    scene *s = user;
    char fingerprint[FED_SHA256_HEX];
    fed_hex(d->fingerprint, FED_SHA256_SIZE, fingerprint);
    const int64_t until_ms = fedserver_declined_until(&s->rounds, d, s->now_ms);
    s->last = d->id;
    json_t *device = json_pack(
        "{s:I, s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}",
        "id", (json_int_t)d->id, "name", d->name, "fingerprint", fingerprint, "state",
        fedserver_device_state(&s->rounds, d, s->now_ms), "last_seen_ms",
        d->seen_ms != 0 ? json_integer(d->seen_ms) : json_null(), "samples", (json_int_t)d->samples,
        "counted", (json_int_t)d->counted, "late", (json_int_t)d->late, "refused",
        (json_int_t)d->refused, "software", d->software, "computes_on", d->computes_on, "role",
        fedserver_role_name(d->role), "tag", d->tag, "enrolled_ms", (json_int_t)d->enrolled_ms,
        "expires_ms", (json_int_t)d->expires_ms, "cloned_ms", (json_int_t)d->cloned_ms,
        "declined_until_ms", until_ms != 0 ? json_integer(until_ms) : json_null());
    return json_array_append_new(s->list, device) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for the devices");
}

static fed_status mark_declined(void *user, const fedserver_device *d, fed_error *err) {
    fedserver_training *t = user;
    return d->declined_ms != 0 ? fedserver_marks_set(&t->declined, d->id, d->declined_ms, err)
                               : FED_OK;
}

/* Reads only the store, so that the front can list devices without the rounds' process. */
static fed_status list_devices(fedserver *server, scene *s, int64_t after, uint32_t limit,
                               uint64_t *total, fed_error *err) {
    FED_TRY(fedserver_rounds_outline(server->store, server->db, NULL, &s->rounds, err));
    for (size_t k = 0; k < s->rounds.task_count; k++) {
        fedserver_training *t = s->rounds.tasks[k];
        FED_TRY(server->store->device_page(server->db, t->task.wire.id, after, limit, mark_declined,
                                           t, err));
    }
    FED_TRY(server->store->device_count(server->db, total, err));
    return server->store->device_page(server->db, 0, after, limit, append_device, s, err);
}

fed_status fedserver_get_devices(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    const char *query = call->request->query;
    scene s = {.now_ms = call->now_ms, .list = json_array()};
    uint64_t after = 0, limit = PORTION, total = 0;
    (void)fedserver_query_number(query, "after", INT64_MAX, &after);
    (void)fedserver_query_number(query, "limit", PORTION_MOST, &limit);
    limit = limit < 1 ? 1 : limit > PORTION_MOST ? PORTION_MOST : limit;
    const fed_status status =
        list_devices(server, &s, (int64_t)after, (uint32_t)limit, &total, err);
    fedserver_rounds_free(&s.rounds);
    if (status != FED_OK) {
        json_decref(s.list);
        return status;
    }
    json_t *next = json_array_size(s.list) < limit ? json_null() : json_integer(s.last);
    return fedserver_answer_json(
        response, 200,
        json_pack("{s:o, s:o, s:I}", "devices", s.list, "next", next, "total", (json_int_t)total),
        err);
}
