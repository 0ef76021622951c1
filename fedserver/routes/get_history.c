/* GET /v1/rounds?task=N&first=A&last=B&points=P: a task, and its rounds for a chart. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fed/arch.h"
#include "fedserver/operator.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"
#include "fedserver/routes/status_json.h"
#include "fedserver/routes/thinning.h"
#include "fedserver/stores/task_model.h"

enum { POINTS_LEAST = 6, POINTS_MOST = 500, DIGITS = 6, EVENTS = 50, OWN_NAMES = 12 };

typedef struct gathering {
    fed_writer rounds; /* fedserver_round_entry[], the newest first */
    uint64_t first, last;
    uint32_t all, newest; /* number of committed rounds; number of the newest one */
    char key[32];         /* "task=5 ", as the audit log has it */
    json_t *events;
} gathering;

/* The audit log comes oldest first, and the newest EVENTS are kept. Who did it is not told. */
static fed_status keep_event(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    gathering *g = user;
    if (strncmp(entry->detail, g->key, strlen(g->key)) != 0) {
        return FED_OK;
    }
    if (json_array_size(g->events) == EVENTS) {
        (void)json_array_remove(g->events, 0);
    }
    return json_array_append_new(g->events,
                                 json_pack("{s:I, s:s}", "at_ms", (json_int_t)entry->at_ms, "event",
                                           entry->event)) == 0
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for a task's events");
}

static fed_status gather(void *user, const fedserver_round_entry *entry, fed_error *err) {
    gathering *g = user;
    g->all++;
    g->newest = entry->number > g->newest ? entry->number : g->newest;
    if (entry->number >= g->first && entry->number <= g->last) {
        fed_write_bytes(&g->rounds, entry, sizeof *entry);
    }
    return g->rounds.status == FED_OK
               ? FED_OK
               : fed_fail(err, g->rounds.status, "out of memory for the rounds");
}

static json_t *number_or_null(double number) {
    return isfinite(number) ? json_real(number) : json_null();
}

/* rounds[count] has the newest first; the columns of the answer have the oldest first. */
static json_t *columns_json(const fedserver_round_entry *rounds, size_t count, bool graded) {
    static const char *const names[] = {"number",       "attempts",     "updates",     "opened_ms",
                                        "committed_ms", "update_bytes", "delta_bytes", "loss",
                                        "test_loss",    "accuracy"};
    enum { COLUMNS = sizeof names / sizeof names[0] };
    json_t *made = json_object();
    for (int c = 0; c < COLUMNS; c++) {
        json_object_set_new(made, names[c], json_array());
    }
    for (size_t k = count; k > 0; k--) {
        const fedserver_round_entry *r = &rounds[k - 1];
        json_t *const cells[COLUMNS] = {
            json_integer(r->number),
            json_integer(r->attempts),
            json_integer(r->updates),
            json_integer(r->opened_ms),
            json_integer(r->committed_ms),
            json_integer((json_int_t)r->update_bytes),
            json_integer((json_int_t)r->delta_bytes),
            number_or_null(r->loss),
            number_or_null(r->measured ? r->test_loss : (double)NAN),
            number_or_null(r->measured && graded ? r->accuracy : (double)NAN)};
        for (int c = 0; c < COLUMNS; c++) {
            json_array_append_new(json_object_get(made, names[c]), cells[c]);
        }
    }
    return made;
}

/* The custom metrics of the rounds that are told. */
typedef struct own_columns {
    const fedserver_round_entry *rounds; /* [count], the newest first */
    size_t count;
    json_t *list; /* the columns: {"name", "by", "mean": a cell for each round} */
} own_columns;

static json_t *own_column(const own_columns *o, const char *name, const char *by) {
    size_t k;
    json_t *column;
    json_array_foreach(o->list, k, column) {
        if (strcmp(json_string_value(json_object_get(column, "name")), name) == 0 &&
            strcmp(json_string_value(json_object_get(column, "by")), by) == 0) {
            return json_object_get(column, "mean");
        }
    }
    if (json_array_size(o->list) >= OWN_NAMES) {
        return NULL;
    }
    json_t *means = json_array();
    for (size_t i = 0; i < o->count; i++) {
        json_array_append_new(means, json_null());
    }
    json_array_append_new(o->list,
                          json_pack("{s:s, s:s, s:o}", "name", name, "by", by, "mean", means));
    return means;
}

static fed_status gather_own(void *user, const fedserver_own_list *list, fed_error *err) {
    const own_columns *o = user;
    size_t at = 0;
    while (at < o->count && o->rounds[at].number > list->round) {
        at++;
    }
    if (at == o->count || o->rounds[at].number != list->round) {
        return FED_OK; /* thinned out, or not asked for */
    }
    for (size_t k = 0; k < list->count; k++) {
        json_t *means =
            own_column(o, list->rows[k].name, list->evaluated ? "evaluators" : "devices");
        if (means != NULL &&
            json_array_set_new(means, o->count - 1 - at, number_or_null(list->rows[k].mean)) != 0) {
            return fed_fail(err, FED_ENOMEM, "out of memory for the rounds' metrics");
        }
    }
    return FED_OK;
}

/* Does accuracy mean something for the task's model? */
static bool is_graded(const fedserver *server, const fedserver_task *task) {
    fed_arch arch;
    fed_error unused = {0};
    if (fedserver_task_model(server->store, server->db, task, &arch, &unused) != FED_OK) {
        return true;
    }
    const bool graded = arch.loss != FED_LOSS_SQUARED;
    fed_arch_free(&arch);
    return graded;
}

static fed_status write_history(fedserver *server, const fedserver_task *task, gathering *g,
                                size_t points, fed_writer *text, fed_error *err) {
    fedserver_round_entry *rounds = (void *)g->rounds.data;
    const size_t count = fedserver_rounds_thin(rounds, g->rounds.len / sizeof *rounds, points);
    own_columns own = {.rounds = rounds, .count = count, .list = json_array()};
    json_t *privacy = NULL;
    fed_status status = fedserver_own_each(server, task->wire.id, 1, gather_own, &own, err);
    if (status == FED_OK) {
        status = fedserver_privacy_json(server, task, 0, &privacy, err);
    }
    if (status != FED_OK) {
        json_decref(own.list);
        return status;
    }
    json_t *about =
        json_pack("{s:I, s:s, s:I}", "id", (json_int_t)task->wire.id, "state",
                  fedserver_task_state_name(task->state), "version", (json_int_t)g->newest);
    fedserver_task_keys_add(about, task, g->newest);
    json_object_set_new(about, "privacy", privacy);
    json_t *root = json_pack("{s:o, s:I, s:O, s:o, s:o}", "task", about, "count",
                             (json_int_t)g->all, "events", g->events, "rounds",
                             columns_json(rounds, count, is_graded(server, task)), "own", own.list);
    FED_TRY(fedserver_json_write(root, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS), text));
    return FED_OK;
}

/* Gather what the answer tells of the task. */
static fed_status gather_all(fedserver *server, uint64_t id, fedserver_task *task, gathering *g,
                             fed_error *err) {
    int64_t read = 0;
    FED_TRY(server->store->task_find(server->db, FEDSERVER_PICK_ID, id, task, err));
    FED_TRY(fedserver_round_each(server, id, UINT32_MAX, gather, g, err));
    snprintf(g->key, sizeof g->key, "task=%" PRIu64 " ", id);
    return server->store->audit_tasks(server->db, &read, keep_event, g, err);
}

static void discard(gathering *g) {
    fed_writer_free(&g->rounds);
    json_decref(g->events);
}

fed_status fedserver_get_history(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    const char *query = call->request->query;
    gathering g = {.last = UINT32_MAX, .events = json_array()};
    uint64_t id = 0, points = POINTS_MOST;
    fedserver_task task;
    fed_error why = {0};
    (void)fedserver_query_number(query, "task", INT64_MAX, &id);
    (void)fedserver_query_number(query, "first", UINT32_MAX, &g.first);
    (void)fedserver_query_number(query, "last", UINT32_MAX, &g.last);
    (void)fedserver_query_number(query, "points", POINTS_MOST, &points);
    points = points < POINTS_LEAST ? POINTS_LEAST : points > POINTS_MOST ? POINTS_MOST : points;
    fed_writer_growing(&g.rounds);
    fed_status status = gather_all(server, id, &task, &g, &why);
    if (status != FED_OK) {
        discard(&g);
        return status == FED_ENOTFOUND ? fedserver_answer_error(response, err, 404, "task_unknown",
                                                                "there is no task of that number")
                                       : fed_fail(err, status, "%s", why.text);
    }
    fed_writer text;
    fed_writer_growing(&text);
    status = write_history(server, &task, &g, (size_t)points, &text, &why);
    discard(&g);
    if (status != FED_OK) {
        fed_writer_free(&text);
        return fed_fail(err, status, "the rounds can't be told: %s", fed_error_text(&why));
    }
    return fedserver_answer(response, 200, "application/json", &text, err);
}
