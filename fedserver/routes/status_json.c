/* Makes parts of the status as JSON: the open round, and the list of tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/status_json.h"

#include "fedserver/operator/waiting.h"
#include "fedserver/rounds/outliers.h"
#include "fedserver/rounds/running.h"
#include "fedserver/routes/answers.h"
#include "fedserver/task/fields.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/private_task.h"

/* most devices that are named of a task */
enum { OUTLIERS_SHOWN = 10 };

static json_t *time_or_null(int64_t time_ms) {
    return time_ms == 0 ? json_null() : json_integer(time_ms);
}

json_t *fedserver_round_json(const fedserver_training *t, int64_t now_ms) {
    const fedserver_round *round = &t->round;
    const fedserver_round_rules *rules = &t->task.rules;
    if (round->phase == FEDSERVER_ROUND_NONE) {
        return json_null();
    }
    char text[sizeof t->asking.refusal + 300];
    fedserver_waiting waiting;
    fedserver_waiting_find(t, now_ms, &waiting);
    fedserver_waiting_report(t, &waiting, now_ms, text, sizeof text);
    json_t *names = json_array();
    for (uint32_t k = 0; k < waiting.out && k < FEDSERVER_WAITING_NAMES; k++) {
        json_array_append_new(names, json_string(waiting.names[k]));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:s}",
                     "number", (json_int_t)round->number, "attempt", (json_int_t)round->attempt,
                     "cohort", (json_int_t)rules->cohort, "goal", (json_int_t)rules->goal,
                     "minimum", (json_int_t)fedserver_round_least(rules), "staleness",
                     (json_int_t)rules->staleness, "leased", (json_int_t)round->leased, "received",
                     (json_int_t)round->received, "out", (json_int_t)waiting.out, "free",
                     (json_int_t)waiting.free, "devices", names, "opened_ms",
                     (json_int_t)round->opened_ms, "deadline_ms", time_or_null(round->deadline_ms),
                     "closing_ms", time_or_null(round->closing_ms), "waits_for", text);
}

void fedserver_task_keys_add(json_t *made, const fedserver_task *task, uint32_t version) {
    const fedserver_phase phase = fedserver_phase_of(task, version + 1);
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        const char *member = field->where == FEDSERVER_IN_BOTH
                                 ? (const char *)&phase + field->phase_offset
                                 : (const char *)task + field->offset;
        if (fedserver_field_kept(field) && field->kind != FEDSERVER_LIST) {
            fed_writer text;
            fed_writer_growing(&text);
            fedserver_field_write(field, member, &text);
            json_t *value = text.status == FED_OK ? json_loadb((const char *)text.data, text.len,
                                                               JSON_DECODE_ANY, NULL)
                                                  : NULL;
            fed_writer_free(&text);
            json_object_set_new(made, field->name, value);
        }
    }
}

static json_t *text_or_null(const char *text) {
    return text[0] != '\0' ? json_string(text) : json_null();
}

/* The devices that are in the worst group too often for chance, and are not revoked. */
static fed_status append_outlier(void *user, const fedserver_outlier_row *row, fed_error *err) {
    if (row->revoked || !fedserver_outlier_stands_out(row) ||
        json_array_size(user) == OUTLIERS_SHOWN) {
        return FED_OK;
    }
    json_t *made = json_pack("{s:s, s:s, s:I, s:I, s:f}", "device", row->fingerprint, "name",
                             row->name, "worst", (json_int_t)row->worst, "rounds",
                             (json_int_t)row->rounds, "expected", row->expected);
    return json_array_append_new(user, made) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for the status");
}

/* Into how many sums a round falls, and who stands out; nulls where the task has no groups. */
static fed_status add_groups(fedserver *server, const fedserver_task *task, json_t *made,
                             fed_error *err) {
    const uint32_t groups = fedserver_task_groups(task);
    json_t *outliers = groups > 1 ? json_array() : json_null();
    json_object_set_new(made, "groups", groups > 1 ? json_integer(groups) : json_null());
    json_object_set_new(made, "outliers", outliers);
    return groups > 1
               ? server->store->outliers_each(server->db, task->wire.id, FEDSERVER_OUTLIER_LEAST,
                                              append_outlier, outliers, err)
               : FED_OK;
}

fed_status fedserver_privacy_json(fedserver *server, const fedserver_task *task, int64_t since_ms,
                                  json_t **made, fed_error *err) {
    fedserver_account a;
    if (!fedserver_task_is_private(task)) {
        *made = json_null();
        return FED_OK;
    }
    FED_TRY(fedserver_account_find(server, task->wire.id, &a, err));
    const bool promises = a.promises;
    *made = json_pack(
        "{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "clip",
        (double)fedserver_task_clip(task), "epsilon", promises ? json_real(a.epsilon) : json_null(),
        "delta", promises ? json_real(a.delta) : json_null(), "spent",
        promises ? json_real(a.spent) : json_null(), "z", promises ? json_real(a.z) : json_null(),
        "participations", promises ? json_integer(a.participations) : json_null(), "left",
        promises ? json_integer((json_int_t)a.left) : json_null(), "complete",
        promises ? json_boolean(a.complete) : json_null(), "helper", text_or_null(a.helper),
        "helper_is", text_or_null(a.helper_is), "since_ms", time_or_null(since_ms));
    return add_groups(server, task, *made, err);
}

typedef struct listing {
    json_t *tasks;
    const fedserver_rounds *rounds;
    int64_t now_ms;
    /* tasks that are over: how many were visited, and how many may be listed */
    size_t over, most;
} listing;

static fed_status append_task(void *user, const fedserver_task_entry *entry, fed_error *err) {
    listing *l = user;
    const bool over =
        entry->state == FEDSERVER_TASK_FINISHED || entry->state == FEDSERVER_TASK_CANCELLED;
    if (over && l->over++ >= l->most) {
        return FED_OK;
    }
    const fedserver_training *t = fedserver_rounds_task(l->rounds, entry->id);
    json_t *reasons = json_array();
    for (size_t k = 0; k < FEDSERVER_TASK_REASONS && entry->reasons[k].devices > 0; k++) {
        json_array_append_new(reasons, json_pack("{s:s, s:I}", "reason", entry->reasons[k].text,
                                                 "devices", (json_int_t)entry->reasons[k].devices));
    }
    json_t *json =
        json_pack("{s:I, s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o,"
                  " s:{s:I, s:o}, s:o}",
                  "id", (json_int_t)entry->id, "name", entry->name, "state",
                  fedserver_task_state_name(entry->state), "priority", (json_int_t)entry->priority,
                  "codec_up", entry->codec_up, "codec_up_asked", entry->codec_up_asked, "waits",
                  entry->waits[0] != '\0' ? json_string(entry->waits) : json_null(), "round",
                  t != NULL ? fedserver_round_json(t, l->now_ms) : json_null(), "position",
                  entry->position != 0 ? json_integer(entry->position) : json_null(), "rounds",
                  (json_int_t)entry->rounds, "version", (json_int_t)entry->version, "queued_ms",
                  time_or_null(entry->queued_ms), "started_ms", time_or_null(entry->started_ms),
                  "finished_ms", time_or_null(entry->finished_ms), "declined", "count",
                  (json_int_t)entry->declined, "reasons", reasons, "declined_until_ms",
                  time_or_null(entry->declined_until_ms));
    return json_array_append_new(l->tasks, json) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for the list of tasks");
}

fed_status fedserver_tasks_list(fedserver *server, const fedserver_rounds *rounds, int64_t now_ms,
                                size_t most, json_t **tasks, fed_error *err) {
    listing l = {.tasks = json_array(), .rounds = rounds, .now_ms = now_ms, .most = most};
    fed_status status = fedserver_task_each(server, now_ms, append_task, &l, err);
    if (status != FED_OK) {
        json_decref(l.tasks);
        return status;
    }
    *tasks = l.tasks;
    return FED_OK;
}

static fed_status print(json_t *value, fed_writer *w, fed_error *err) {
    const fed_status status = fedserver_json_write(value, JSON_INDENT(2), w);
    fed_write_bytes(w, "\n", 1);
    return status != FED_OK || w->status != FED_OK
               ? fed_fail(err, FED_ENOMEM, "out of memory for the status as JSON")
               : FED_OK;
}

static fed_status view_json(fedserver *server, int64_t now_ms, json_t **round, json_t **tasks,
                            fed_error *err) {
    fedserver_rounds view;
    fed_status status = fedserver_rounds_view(server->store, server->db, server->log, &view, err);
    if (status == FED_OK) {
        status = fedserver_tasks_list(server, &view, now_ms, SIZE_MAX, tasks, err);
    }
    if (status == FED_OK) {
        const fedserver_training *front = fedserver_rounds_front(&view);
        *round = front != NULL ? fedserver_round_json(front, now_ms) : json_null();
    }
    fedserver_rounds_free(&view);
    return status;
}

fed_status fedserver_tasks_json(fedserver *server, int64_t now_ms, fed_writer *w, fed_error *err) {
    json_t *tasks = NULL;
    json_t *round = NULL;
    FED_TRY(view_json(server, now_ms, &round, &tasks, err));
    json_decref(round);
    return print(tasks, w, err);
}

fed_status fedserver_status_json(fedserver *server, int64_t now_ms, fed_writer *w, fed_error *err) {
    json_t *tasks = NULL;
    json_t *round = NULL;
    const long process = server->store->holder(server->db);
    FED_TRY(view_json(server, now_ms, &round, &tasks, err));
    return print(json_pack("{s:I, s:o, s:o, s:o}", "now_ms", (json_int_t)now_ms, "served_by",
                           process != 0 ? json_integer(process) : json_null(), "round", round,
                           "tasks", tasks),
                 w, err);
}
