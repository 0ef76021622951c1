/* GET /metrics: counters and gauges in the text format of Prometheus. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedserver/rounds/device_state.h"
#include "fedserver/routes/answers.h"
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

typedef struct recent {
    const fedserver_training *training;
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

/* TASK_GAUGE(name, help, which, value): writes `value` for each task in memory for which `which` is
 * true. t: the task; runs: the task runs; r: what its newest rounds tell. */
#define TASK_GAUGES(TASK_GAUGE)                                                                    \
    TASK_GAUGE("fed_task_running", "1 while the task runs; 0: it finished not long ago.", true,    \
               runs)                                                                               \
    TASK_GAUGE("fed_task_rounds", "Rounds that the task is to have.", true, t->task.rules.rounds)  \
    TASK_GAUGE("fed_task_priority", "Which task comes first where a device could serve several.",  \
               true, t->task.priority)                                                             \
    TASK_GAUGE("fed_task_memory_bytes", "Estimate of the memory that the task takes.", true,       \
               t->memory_bytes)                                                                    \
    TASK_GAUGE("fed_model_version", "Rounds committed into the task's model.", true,               \
               t->versions.version)                                                                \
    TASK_GAUGE("fed_round_number", "Number of the open round.", runs, t->round.number)             \
    TASK_GAUGE("fed_round_attempt", "Attempt of the open round.", runs, t->round.attempt)          \
    TASK_GAUGE("fed_round_cohort", "Slots of the open round.", runs, t->task.rules.cohort)         \
    TASK_GAUGE("fed_round_goal", "Updates at which the round commits at once.", runs,              \
               t->task.rules.goal)                                                                 \
    TASK_GAUGE("fed_round_minimum", "Updates with which the round commits at its deadline.", runs, \
               fedserver_round_least(&t->task.rules))                                              \
    TASK_GAUGE("fed_round_leased", "Slots of the open round that are taken.", runs,                \
               t->round.leased)                                                                    \
    TASK_GAUGE("fed_round_received", "Updates counted in the open round.", runs,                   \
               t->round.received)                                                                  \
    TASK_GAUGE("fed_round_closing", "1 while the open round's version is being made, else 0.",     \
               runs, t->round.phase == FEDSERVER_ROUND_CLOSING)                                    \
    TASK_GAUGE("fed_round_opened_seconds", "When the open round opened, Unix time.", runs,         \
               (double)t->round.opened_ms / 1000.0)                                                \
    TASK_GAUGE("fed_round_deadline_seconds",                                                       \
               "Deadline of the open round, Unix time; 0 before the first lease.", runs,           \
               (double)t->round.deadline_ms / 1000.0)                                              \
    TASK_GAUGE("fed_last_commit_seconds",                                                          \
               "When the task's last round was committed, Unix time; 0: none was.", true,          \
               (double)r->committed_ms / 1000.0)                                                   \
    TASK_GAUGE("fed_model_accuracy", "Accuracy of the newest version that was evaluated.",         \
               r->measured.measured && t->arch.loss != FED_LOSS_SQUARED &&                         \
                   !isnan(r->measured.accuracy),                                                   \
               r->measured.accuracy)                                                               \
    TASK_GAUGE("fed_model_test_loss", "Test loss of the newest version that was evaluated.",       \
               r->measured.measured && !isnan(r->measured.test_loss), r->measured.test_loss)

static void write_tasks(fed_writer *w, const recent *tasks, size_t count) {
#define WRITE_GAUGE(name, help, which, value)                                                      \
    fedserver_metric_head(w, name, "gauge", help);                                                 \
    for (const recent *r = tasks; r < tasks + count; r++) {                                        \
        const fedserver_training *t = r->training;                                                 \
        const bool runs = fedserver_training_runs(t);                                              \
        (void)runs;                                                                                \
        if (which) {                                                                               \
            fed_write_printf(w, name "{task=\"%llu\"} %.17g\n", (number)t->task.wire.id,           \
                             (double)(value));                                                     \
        }                                                                                          \
    }
    TASK_GAUGES(WRITE_GAUGE)
#undef WRITE_GAUGE
}

/* Write a series of fed_task_info. The format wants quotes and backslashes of a name escaped. */
static void write_info(fed_writer *w, uint64_t id, const char *name) {
    fed_write_printf(w, "fed_task_info{task=\"%llu\",name=\"", (number)id);
    for (; *name != '\0'; name++) {
        if (*name == '"' || *name == '\\') {
            fed_write_bytes(w, "\\", 1);
        }
        fed_write_bytes(w, name, 1);
    }
    fed_write_printf(w, "\"} 1\n");
}

typedef struct queued {
    const fedserver_rounds *rounds;
    fed_writer *info;
    fed_writer lines;
} queued;

static fed_status write_queued(void *user, const fedserver_task_entry *entry, fed_error *err) {
    queued *q = user;
    (void)err;
    if (entry->state == FEDSERVER_TASK_QUEUED) {
        fed_write_printf(&q->lines, "fed_task_queued{task=\"%llu\"} 1\n", (number)entry->id);
        if (fedserver_rounds_task(q->rounds, entry->id) == NULL) {
            write_info(q->info, entry->id, entry->name);
        }
    }
    return FED_OK;
}

/* Write the names of the tasks in memory and in the queue, and which are in the queue. */
static fed_status names(fed_writer *w, fedserver *server, int64_t now_ms, fed_error *err) {
    const fedserver_rounds *rounds = &server->rounds;
    queued q = {.rounds = rounds, .info = w};
    fed_writer_growing(&q.lines);
    fedserver_metric_head(w, "fed_task_info", "gauge",
                          "Always 1; the labels have a task's number and its name.");
    for (size_t k = 0; k < rounds->task_count; k++) {
        write_info(w, rounds->tasks[k]->task.wire.id, rounds->tasks[k]->task.name);
    }
    fed_status status = fedserver_task_each(server, now_ms, write_queued, &q, err);
    fedserver_metric_head(w, "fed_task_queued", "gauge", "1 while the task waits for its start.");
    fed_write_bytes(w, q.lines.data, q.lines.len);
    if (status == FED_OK && q.lines.status != FED_OK) {
        status = fed_fail(err, FED_ENOMEM, "out of memory for the metrics");
    }
    fed_writer_free(&q.lines);
    return status;
}

static fed_status tasks(fed_writer *w, fedserver *server, int64_t now_ms, fed_error *err) {
    const fedserver_rounds *rounds = &server->rounds;
    recent *newest = calloc(rounds->task_count + 1, sizeof *newest);
    if (newest == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the metrics");
    }
    fed_status status = FED_OK;
    size_t running = 0;
    for (size_t k = 0; k < rounds->task_count && status == FED_OK; k++) {
        newest[k].training = rounds->tasks[k];
        running += fedserver_training_runs(rounds->tasks[k]);
        status = server->store->round_each(server->db, rounds->tasks[k]->task.wire.id, 16, quality,
                                           &newest[k], err);
    }
    fedserver_metric_gauge(w, "fed_tasks_running", "Tasks that run.", (double)running);
    fedserver_metric_gauge(w, "fed_task_memory_limit_bytes",
                           "Memory that all tasks together may take; 0: no limit.",
                           (double)rounds->memory_limit);
    if (status == FED_OK) {
        write_tasks(w, newest, rounds->task_count);
    }
    free(newest);
    return status == FED_OK ? names(w, server, now_ms, err) : status;
}

static const char *const states[] = {"training", "late",    "declined", "waiting", "away",
                                     "cloned",   "revoked", "expired",  "new"};
enum { STATES = sizeof states / sizeof states[0], AWAY = 4 };
_Static_assert((int)STATES + (int)FEDSERVER_COMPUTERS <= (int)FEDSERVER_CENSUS,
               "make FEDSERVER_CENSUS of server.h larger");

/* Count some more devices. All requests wait meanwhile, so a call counts AT_ONCE devices at most.
 * `counted` has the numbers of the last complete count. */
static void go_on_counting(fedserver *server, int64_t now_ms) {
    enum { AT_ONCE = 20000 };
    fedserver_census *census = &server->census;
    const fedserver_devices *all = &server->rounds.devices;
    for (int k = 0; k < AT_ONCE && census->next < all->count; k++) {
        const fedserver_device *device = fedserver_devices_at(all, census->next++);
        const char *state = fedserver_device_state(&server->rounds, device, now_ms);
        if (device->seen_ms != 0 && device->revoked_ms == 0 && device->expires_ms > now_ms) {
            fedserver_metric_computer(census->counting + STATES, device->computes_on);
        }
        for (size_t s = 0; s < STATES; s++) {
            census->counting[s] += strcmp(states[s], state) == 0;
        }
    }
    if (census->next == all->count) {
        memcpy(census->counted, census->counting, sizeof census->counted);
        memset(census->counting, 0, sizeof census->counting);
        census->next = 0;
    }
}

/* Devices that are not in memory have sent no request since the start, so they count as away. */
static void write_devices(fed_writer *w, fedserver *server, uint64_t enrolled, int64_t now_ms) {
    const uint64_t *counted = server->census.counted;
    uint64_t in_memory = 0;
    go_on_counting(server, now_ms);
    for (size_t s = 0; s < STATES; s++) {
        in_memory += counted[s];
    }
    fedserver_metric_head(
        w, "fed_devices_state", "gauge",
        "Devices, by state; away has also those that sent no request since the start. "
        "A scrape counts 20,000 of them anew.");
    for (size_t s = 0; s < STATES; s++) {
        const number others = s == AWAY && enrolled > in_memory ? enrolled - in_memory : 0;
        const number devices = counted[s];
        fed_write_printf(w, "fed_devices_state{state=\"%s\"} %llu\n", states[s], devices + others);
    }
    fedserver_metric_computers(w, "fed_devices_computing",
                               "Valid devices that sent a request since the start, by what they "
                               "compute on.",
                               counted + STATES);
}

fed_status fedserver_get_metrics(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    const fedserver_counters *c = &server->rounds.counters;
    uint64_t enrolled = 0;
    FED_TRY(server->store->device_count(server->db, &enrolled, err));
    fed_writer w;
    fed_writer_growing(&w);
    fedserver_metric_gauge(&w, "fed_devices", "Devices enrolled.", (double)enrolled);
    const int32_t days = fedserver_certificate_days(server->directory, call->now_ms);
    if (days != INT32_MIN) {
        fedserver_metric_gauge(&w, "fed_certificate_days",
                               "The earlier name, which 0.3.0 drops, of "
                               "fed_certificate_expires_seconds{certificate=\"server\"}, as whole "
                               "days from now.",
                               days);
    }
    write_devices(&w, server, enrolled, call->now_ms);
    const fed_status status = tasks(&w, server, call->now_ms, err);
    if (status != FED_OK) {
        fed_writer_free(&w);
        return status;
    }
    fedserver_metrics_rounds(&w, c);
    fedserver_metric_counter(&w, "fed_rounds_committed_total", "Rounds committed since the start.",
                             c->rounds_committed);
    fedserver_metric_counter(&w, "fed_attempts_abandoned_total",
                             "Attempts that missed the minimum.", c->attempts_abandoned);
    updates(&w, c);
    fedserver_metric_counter(&w, "fed_declines_total", "Devices that said they can't serve a task.",
                             c->declines);
    assignments(&w, c);
    fedserver_metric_counter(&w, "fed_cache_downloads_total",
                             "Downloads answered with the address of a cache.", c->cache_downloads);
    fedserver_metric_counter(&w, "fed_cache_download_bytes_total",
                             "Bytes of downloads answered with the address of a cache.",
                             c->cache_download_bytes);
    /* Earlier names of the two metrics above; release 0.3.0 drops them. */
    fedserver_metric_counter(&w, "fed_downloads_elsewhere_total",
                             "The earlier name, which 0.3.0 drops, of fed_cache_downloads_total.",
                             c->cache_downloads);
    fedserver_metric_counter(
        &w, "fed_downloads_elsewhere_bytes_total",
        "The earlier name, which 0.3.0 drops, of fed_cache_download_bytes_total.",
        c->cache_download_bytes);
    fedserver_worker_groups_metrics(server, call->now_ms, &w);
    if (server->is_edge) {
        fedserver_metric_gauge(&w, "fed_upstream_failures",
                               "Steps upstream that failed in a row; 0: upstream answers.",
                               server->upstream_failures);
    }
    fedserver_metric_counter(&w, "fed_requests_total", "Requests answered.",
                             server->traffic.requests);
    fedserver_metric_counter(&w, "fed_received_bytes_total", "Bytes of requests.",
                             server->traffic.received_bytes);
    fedserver_metric_counter(&w, "fed_sent_bytes_total", "Bytes of answers, without their heads.",
                             server->traffic.sent_bytes);
    fedserver_metrics_cluster(server, &w);
    fedserver_metrics_process(server, "fed", &w);
    fedserver_metrics_place(server, &w);
    return fedserver_answer(response, 200, FEDSERVER_METRICS_TYPE, &w, err);
}
