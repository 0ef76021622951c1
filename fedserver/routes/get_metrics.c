/* GET /metrics: counters and gauges in the text format of Prometheus. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/rounds/device_state.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/gang_json.h"
#include "fedserver/routes/metrics.h"
#include "fedserver/routes/router.h"

typedef unsigned long long number;

static void updates(fed_writer *w, const fedserver_counters *c) {
    const struct {
        const char *result;
        uint64_t count;
    } results[] = {
        {"counted", c->updates_counted},       {"repeated", c->updates_repeated},
        {"round_closed", c->updates_closed},   {"lease_unknown", c->updates_unknown},
        {"lease_expired", c->updates_expired}, {"too_stale", c->updates_stale},
        {"bad_update", c->updates_bad},        {"out_of_range", c->updates_out_of_range},
        {"too_large", c->updates_too_large},   {"cloned", c->updates_cloned},
    };
    fedserver_metric_head(w, "fed_updates_total", "counter",
                          "Updates received, by what became of them.");
    for (size_t k = 0; k < sizeof results / sizeof results[0]; k++) {
        fed_write_printf(w, "fed_updates_total{result=\"%s\"} %llu\n", results[k].result,
                         (number)results[k].count);
    }
}

static void assignments(fed_writer *w, const fedserver_counters *c) {
    static const char *const actions[] = {"wait", "train", "evaluate", "done"};
    fedserver_metric_head(w, "fed_assignments_total", "counter",
                          "Answers to check-ins, by action.");
    for (size_t k = 0; k < sizeof actions / sizeof actions[0]; k++) {
        fed_write_printf(w, "fed_assignments_total{action=\"%s\"} %llu\n", actions[k],
                         (number)c->assignments[k]);
    }
}

static void training(fed_writer *w, const fedserver_training *t) {
    bool running = t->loaded && t->round.phase != FEDSERVER_ROUND_NONE;
    fedserver_metric_gauge(w, "fed_task_running", "1 while a task runs, else 0.", running);
    if (!t->loaded) {
        return;
    }
    fedserver_metric_gauge(w, "fed_task_id", "The task that runs or ran last.",
                           (double)t->task.wire.id);
    fedserver_metric_gauge(w, "fed_task_rounds", "Rounds that it has in all.",
                           t->task.rules.rounds);
    fedserver_metric_gauge(w, "fed_model_version", "Rounds committed into its model.",
                           t->versions.version);
    if (!running) {
        return;
    }
    fedserver_metric_gauge(w, "fed_round_number", "The open round.", t->round.number);
    fedserver_metric_gauge(w, "fed_round_attempt", "Its attempt.", t->round.attempt);
    fedserver_metric_gauge(w, "fed_round_cohort", "Slots of the open round.", t->task.rules.cohort);
    fedserver_metric_gauge(w, "fed_round_goal", "Updates at which it commits at once.",
                           t->task.rules.goal);
    fedserver_metric_gauge(w, "fed_round_minimum", "Updates with which it commits at the deadline.",
                           t->task.rules.minimum);
    fedserver_metric_gauge(w, "fed_round_leased", "Slots of the open round that are taken.",
                           t->round.leased);
    fedserver_metric_gauge(w, "fed_round_received", "Updates counted.", t->round.received);
    fedserver_metric_gauge(w, "fed_round_closing", "1 while its version is being made, else 0.",
                           t->round.phase == FEDSERVER_ROUND_CLOSING);
    fedserver_metric_gauge(w, "fed_round_opened_seconds", "When it opened, Unix time.",
                           (double)t->round.opened_ms / 1000.0);
    fedserver_metric_gauge(w, "fed_round_deadline_seconds",
                           "Its deadline, Unix time; 0 before the first lease.",
                           (double)t->round.deadline_ms / 1000.0);
}

/* Writes nothing if the certificate can't be read: another process may serve it. */
static void certificate(fed_writer *w, const char *directory, int64_t now_ms) {
    const int32_t days = fedserver_certificate_days(directory, now_ms);
    if (days != INT32_MIN) {
        fedserver_metric_gauge(w, "fed_certificate_days",
                               "Whole days until server.pem expires; below 0: it has.", days);
    }
}

static void devices(fed_writer *w, const fedserver *server, int64_t now_ms) {
    static const char *const states[] = {"training", "late",   "declined", "waiting",
                                         "away",     "cloned", "revoked",  "expired"};
    enum { STATES = sizeof states / sizeof states[0] };
    uint64_t counts[STATES] = {0}, computers[FEDSERVER_COMPUTERS] = {0};
    for (size_t k = 0; k < server->rounds.devices.count; k++) {
        const fedserver_device *device = &server->rounds.devices.items[k];
        const char *state = fedserver_device_state(&server->rounds.training, device, now_ms);
        if (device->seen_ms != 0 && device->revoked_ms == 0 && device->expires_ms > now_ms) {
            fedserver_metric_computer(computers, device->computes_on);
        }
        for (size_t s = 0; s < STATES; s++) {
            counts[s] += strcmp(states[s], state) == 0;
        }
    }
    fedserver_metric_head(w, "fed_devices_state", "gauge", "Devices, by what they do.");
    for (size_t s = 0; s < STATES; s++) {
        fed_write_printf(w, "fed_devices_state{state=\"%s\"} %llu\n", states[s], (number)counts[s]);
    }
    fedserver_metric_computers(w, "fed_devices_computing",
                               "Admitted devices that have come, by what they compute on.",
                               computers);
}

/* What the newest rounds say: the quality measured last, and the last commit. */
typedef struct recent {
    fedserver_round_row measured;
    int64_t committed_ms;
} recent;

static fed_status quality(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    recent *r = user;
    if (!r->measured.measured && row->measured) {
        r->measured = *row;
    }
    r->committed_ms = r->committed_ms != 0 ? r->committed_ms : row->committed_ms;
    return FED_OK;
}

fed_status fedserver_get_metrics(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    const fedserver_counters *c = &server->rounds.counters;
    const fedserver_training *t = &server->rounds.training;
    recent newest = {0};
    if (t->loaded) {
        FED_TRY(server->store->round_each(server->db, t->task.wire.id, 16, quality, &newest, err));
    }
    fed_writer w;
    fed_writer_growing(&w);
    fedserver_metric_gauge(&w, "fed_devices", "Devices enrolled.",
                           (double)server->rounds.devices.count);
    certificate(&w, server->directory, call->now_ms);
    devices(&w, server, call->now_ms);
    training(&w, t);
    fedserver_metric_gauge(&w, "fed_last_commit_seconds",
                           "When the task's last round was committed, Unix time; 0: none was.",
                           (double)newest.committed_ms / 1000.0);
    fedserver_metrics_rounds(&w, c);
    if (newest.measured.measured) {
        if (t->arch.loss != FED_LOSS_SQUARED) {
            fedserver_metric_gauge(&w, "fed_model_accuracy",
                                   "Of the newest version that was evaluated.",
                                   newest.measured.accuracy);
        }
        fedserver_metric_gauge(&w, "fed_model_test_loss", "Likewise.", newest.measured.test_loss);
    }
    fedserver_metric_counter(&w, "fed_rounds_committed_total", "Rounds committed since the start.",
                             c->rounds_committed);
    fedserver_metric_counter(&w, "fed_attempts_abandoned_total",
                             "Attempts that missed the minimum.", c->attempts_abandoned);
    updates(&w, c);
    fedserver_metric_counter(&w, "fed_declines_total", "Devices that said they can't serve a task.",
                             c->declines);
    assignments(&w, c);
    fedserver_gangs_metrics(server, call->now_ms, &w);
    fedserver_metric_counter(&w, "fed_requests_total", "Requests answered.",
                             server->traffic.requests);
    fedserver_metric_counter(&w, "fed_received_bytes_total", "Bytes of requests.",
                             server->traffic.received_bytes);
    fedserver_metric_counter(&w, "fed_sent_bytes_total", "Bytes of answers, without their heads.",
                             server->traffic.sent_bytes);
    fedserver_metrics_process(server, "fed", &w);
    fedserver_metrics_place(server, &w);
    return fedserver_answer(response, 200, "text/plain; version=0.0.4; charset=utf-8", &w, err);
}
