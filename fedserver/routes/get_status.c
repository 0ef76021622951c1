/* GET /v1/status: the coordinator's state as JSON, with what each open round waits for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "fed/version.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"
#include "fedserver/routes/status_json.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/private_task.h"

/* ROUNDS_SHOWN: most rounds that are listed of the main task, and of the other running tasks
 * together. ROUNDS_LEAST: rounds that each other task may list in any case. TASKS_SHOWN: most tasks
 * that are listed of those that are over. */
enum { ROUNDS_SHOWN = 200, ROUNDS_LEAST = 10, TASKS_SHOWN = 20 };

static json_t *task_json(const fedserver_training *t) {
    if (t == NULL) {
        return json_null();
    }
    char digest[17];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)t->versions.digest);
    const fedserver_task *task = &t->task;
    const uint32_t number = fedserver_phase_number(task, t->versions.version + 1);
    json_t *made = json_pack(
        "{s:I, s:s, s:I, s:I, s:I, s:o, s:I, s:s}", "id", (json_int_t)task->wire.id, "state",
        fedserver_task_state_name(task->state), "parameters", (json_int_t)t->arch.trained, "phase",
        (json_int_t)number + 1, "phases", (json_int_t)task->phase_count + 1, "next_phase",
        number < task->phase_count ? json_integer(task->phases[number].round) : json_null(),
        "version", (json_int_t)t->versions.version, "digest", digest);
    fedserver_task_keys_add(made, task, t->versions.version);
    return made;
}

static json_t *standout_json(const fedserver_standout *who, const char *amount) {
    return who->device == 0 ? json_null()
                            : json_pack("{s:s, s:f}", "device", who->name, amount, who->amount);
}

typedef struct told_rounds {
    json_t *rounds;
    size_t most;
    bool regression; /* the model predicts numbers, so accuracy means nothing */
} told_rounds;

static json_t *number_or_null(double number) {
    return isnan(number) ? json_null() : json_real(number);
}

static fed_status append_round(void *user, const fedserver_round_row *row, fed_error *err) {
    const told_rounds *told = user;
    json_t *rounds = told->rounds;
    const bool graded = row->measured && !told->regression;
    if (row->committed_ms == 0 || json_array_size(rounds) == told->most) {
        return FED_OK;
    }
    json_t *round = json_pack(
        "{s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:[], s:I}", "number",
        (json_int_t)row->number, "attempts", (json_int_t)row->attempts, "updates",
        (json_int_t)row->updates, "samples", (json_int_t)row->samples, "loss",
        number_or_null(row->loss), "opened_ms", (json_int_t)row->opened_ms, "committed_ms",
        (json_int_t)row->committed_ms, "update_bytes", (json_int_t)row->update_bytes, "delta_bytes",
        (json_int_t)row->delta_bytes, "accuracy",
        graded ? number_or_null(row->accuracy) : json_null(), "test_loss",
        row->measured ? number_or_null(row->test_loss) : json_null(), "heaviest",
        standout_json(&row->heaviest, "share"), "furthest", standout_json(&row->furthest, "norm"),
        "metrics", "metrics_dropped", (json_int_t)row->own_dropped);
    return json_array_append_new(rounds, round) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for the status");
}

static fed_status append_own(void *user, const fedserver_own_list *list, fed_error *err) {
    /* Rounds are listed without gaps, newest first, so a round's number gives its index. */
    const json_int_t newest =
        json_integer_value(json_object_get(json_array_get(user, 0), "number"));
    json_t *round =
        list->round <= newest ? json_array_get(user, (size_t)(newest - list->round)) : NULL;
    json_t *metrics = json_object_get(round, "metrics");
    if (round == NULL) {
        return FED_OK;
    }
    int failed = 0;
    for (size_t k = 0; k < list->count; k++) {
        const fedserver_own_metric *m = &list->rows[k];
        failed |= json_array_append_new(
            metrics, json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "name", m->name, "by",
                               list->evaluated ? "evaluators" : "devices", "reports",
                               (json_int_t)m->reports, "samples", (json_int_t)m->samples, "mean",
                               m->mean, "least", m->least, "most", m->most));
    }
    json_t *dropped = json_object_get(round, "metrics_dropped");
    failed |= json_integer_set(dropped, json_integer_value(dropped) + (json_int_t)list->dropped);
    return failed == 0 ? FED_OK : fed_fail(err, FED_ENOMEM, "out of memory for the status");
}

/* Set a weak entity tag of the status. The tag ignores the time and the traffic, which change with
 * each answer. */
static void tag_status(json_t *root, fedserver_response *response) {
    fed_writer text;
    json_t *rest = json_copy(root);
    fed_writer_growing(&text);
    if (rest != NULL && json_object_del(rest, "now_ms") == 0 &&
        json_object_del(rest, "traffic") == 0 &&
        fedserver_json_write(json_incref(rest), JSON_COMPACT, &text) == FED_OK) {
        const uint64_t digest = fed_digest_bytes(text.data, text.len);
        snprintf(response->etag, sizeof response->etag, "W/\"%014" PRIx64 "\"", digest >> 8);
    }
    fed_writer_free(&text);
    json_decref(rest);
}

static fed_status rounds_json(fedserver *server, const fedserver_training *t, uint32_t most,
                              json_t **rounds, fed_error *err) {
    told_rounds told = {json_array(), most, t->arch.loss == FED_LOSS_SQUARED};
    const uint64_t id = t->task.wire.id; /* the open round is visited, too, so ask for one more */
    fed_status status =
        server->store->round_each(server->db, id, most + 1, append_round, &told, err);
    const size_t count = json_array_size(told.rounds);
    if (status == FED_OK && count > 0) {
        const json_t *oldest = json_array_get(told.rounds, count - 1);
        const json_int_t first = json_integer_value(json_object_get(oldest, "number"));
        status = fedserver_own_each(server, id, (uint32_t)first, append_own, told.rounds, err);
    }
    *rounds = told.rounds;
    return status;
}

static json_t *text_or_null(const char *text) {
    return text[0] != '\0' ? json_string(text) : json_null();
}

/* How the task's devices are protected; a JSON null where it is not private. */
static fed_status privacy_json(fedserver *server, const fedserver_training *t, json_t **made,
                               fed_error *err) {
    const fedserver_task *task = &t->task;
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
        "helper_is", text_or_null(a.helper_is), "since_ms",
        t->asking.waits ? json_integer(t->round.closing_ms) : json_null());
    return FED_OK;
}

static fed_status add_task(fedserver *server, const fedserver_training *t, uint32_t most,
                           int64_t now_ms, json_t *made, fed_error *err) {
    json_t *rounds = NULL;
    json_t *privacy = NULL;
    fed_status status = t != NULL && most > 0 ? rounds_json(server, t, most, &rounds, err) : FED_OK;
    json_t *task = task_json(t);
    json_object_set_new(made, "task", task);
    if (t != NULL && status == FED_OK) {
        status = privacy_json(server, t, &privacy, err);
        json_object_set_new(task, "privacy", privacy);
    }
    json_object_set_new(made, "round", t != NULL ? fedserver_round_json(t, now_ms) : json_null());
    if (most > 0) {
        json_object_set_new(made, "rounds", rounds != NULL ? rounds : json_array());
    }
    return status;
}

static fed_status add_running(fedserver *server, const fedserver_training *main_task,
                              int64_t now_ms, json_t *running, fed_error *err) {
    const fedserver_rounds *rounds = &server->rounds;
    const uint32_t share = ROUNDS_SHOWN / (uint32_t)(rounds->task_count + 1);
    const uint32_t most = share > ROUNDS_LEAST ? share : ROUNDS_LEAST;
    fed_status status = FED_OK;
    for (size_t k = 0; k < rounds->task_count && status == FED_OK; k++) {
        const fedserver_training *t = rounds->tasks[k];
        if (fedserver_training_runs(t)) {
            json_t *made = json_object();
            status = add_task(server, t, t != main_task ? most : 0, now_ms, made, err);
            json_array_append_new(running, made);
        }
    }
    return status;
}

static fed_status add_all(fedserver *server, int64_t now_ms, json_t *root, fed_error *err) {
    const fedserver_training *main_task = fedserver_rounds_front(&server->rounds);
    json_t *tasks = NULL;
    json_t *running = json_array();
    json_object_set_new(root, "running", running);
    FED_TRY(add_task(server, main_task, ROUNDS_SHOWN, now_ms, root, err));
    FED_TRY(add_running(server, main_task, now_ms, running, err));
    FED_TRY(fedserver_tasks_list(server, &server->rounds, now_ms, TASKS_SHOWN, &tasks, err));
    json_object_set_new(root, "tasks", tasks);
    return FED_OK;
}

fed_status fedserver_get_status(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    const fedserver_traffic *traffic = &server->traffic;
    const int64_t expires_s = fedserver_certificate_expires_s(server->directory, "server.pem");
    uint64_t devices = 0;
    FED_TRY(server->store->device_count(server->db, &devices, err));
    /* Only the leader answers this request, so "leader" is this coordinator's address. */
    json_t *coordinators =
        server->setup.address == NULL
            ? json_null()
            : json_pack("{s:s, s:I, s:I, s:I}", "leader", server->setup.address, "term",
                        (json_int_t)server->lead.term, "followers", (json_int_t)server->followers,
                        "since_ms", (json_int_t)server->leads_since_ms);
    json_t *groups = fedserver_worker_groups_json(server, call->now_ms);
    /* "gangs" is the earlier name of "worker_groups"; release 0.3.0 drops it. */
    json_t *root = json_pack(
        "{s:s, s:i, s:I, s:I, s:O, s:o, s:{s:I, s:I, s:I}, s:o, s:o}", "version", FED_VERSION,
        "protocol", FED_PROTOCOL, "now_ms", (json_int_t)call->now_ms, "devices",
        (json_int_t)devices, "gangs", groups, "worker_groups", groups, "traffic", "received_bytes",
        (json_int_t)traffic->received_bytes, "sent_bytes", (json_int_t)traffic->sent_bytes,
        "requests", (json_int_t)traffic->requests, "certificate_ends_ms",
        expires_s != 0 ? json_integer(expires_s * 1000) : json_null(), "coordinators",
        coordinators);
    const fed_status status = add_all(server, call->now_ms, root, err);
    if (status != FED_OK) {
        json_decref(root);
        return status;
    }
    tag_status(root, response);
    return fedserver_answer_json(response, 200, root, err);
}
