/* Writes the worker groups behind devices as JSON and as metrics. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/status_json.h"

#include "fedserver/routes/metrics.h"

static json_t *worker_json(const fed_worker *m) {
    return json_pack(
        "{s:I, s:s, s:s, s:I, s:s, s:s, s:I, s:f, s:o, s:I, s:I}", "rank", (json_int_t)m->rank,
        "host", m->host, "computes_on", m->computes_on, "pid", (json_int_t)m->pid, "state",
        fed_worker_state_name(m->state), "phase", m->phase, "step", (json_int_t)m->step,
        "compute_ms", (double)m->compute_ms, "waits_for",
        m->waits_for == FED_WORKER_GROUP_NOBODY ? json_null() : json_integer(m->waits_for),
        "sent_bytes", (json_int_t)m->sent_bytes, "received_bytes", (json_int_t)m->received_bytes);
}

static json_t *worker_group_json(const fedserver_worker_group *group) {
    const fed_worker_group *m = &group->told;
    char device[17];
    json_t *workers = json_array();
    fed_hex(group->fingerprint, 8, device);
    for (uint32_t k = 0; k < m->count; k++) {
        json_array_append_new(workers, worker_json(&m->worker[k]));
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:f, s:o, s:o}", "device",
                     device, "heard_ms", (json_int_t)group->heard_ms, "task", (json_int_t)m->task,
                     "round", (json_int_t)m->round, "size", (json_int_t)m->size, "link", m->link,
                     "collective", m->collective, "sync", m->sync, "codec", m->codec, "pull",
                     m->pull, "exposed", (double)m->exposed, "verdict",
                     m->verdict[0] != '\0' ? json_string(m->verdict) : json_null(), "workers",
                     workers);
}

json_t *fedserver_worker_groups_json(fedserver *server, int64_t now_ms) {
    fedserver_worker_groups *groups = &server->groups;
    json_t *list = json_array();
    fedserver_worker_groups_forget(groups, &server->rounds.devices, now_ms);
    for (size_t k = 0; k < groups->count; k++) {
        json_array_append_new(list, worker_group_json(groups->items[k]));
    }
    return list;
}

/* Begins the help text of metrics under their earlier names, which stay until release 0.3.0. */
#define OLD_NAME "The earlier name, which 0.3.0 drops, of "

static void states_metric(fed_writer *w, const char *name, const char *help,
                          const uint64_t workers[FED_WORKER_STATES]) {
    fedserver_metric_head(w, name, "gauge", help);
    for (fed_worker_state state = 0; state < FED_WORKER_STATES; state++) {
        fed_write_printf(w, "%s{state=\"%s\"} %llu\n", name, fed_worker_state_name(state),
                         (unsigned long long)workers[state]);
    }
}

void fedserver_worker_groups_metrics(fedserver *server, int64_t now_ms, fed_writer *w) {
    uint64_t fresh = 0, workers[FED_WORKER_STATES] = {0}, computers[FEDSERVER_COMPUTERS] = {0};
    fedserver_worker_groups *groups = &server->groups;
    fedserver_worker_groups_forget(groups, &server->rounds.devices, now_ms);
    for (size_t k = 0; k < groups->count; k++) {
        const fedserver_worker_group *group = groups->items[k];
        if (now_ms - group->heard_ms < FEDSERVER_WORKER_GROUP_FRESH_MS) {
            fresh++;
            for (uint32_t i = 0; i < group->told.count; i++) {
                workers[group->told.worker[i].state]++;
                fedserver_metric_computer(computers, group->told.worker[i].computes_on);
            }
        }
    }
    fedserver_metric_gauge(w, "fed_worker_groups",
                           "Clusters that have reported their workers lately.", (double)fresh);
    fedserver_metric_gauge(w, "fed_gangs", OLD_NAME "fed_worker_groups.", (double)fresh);
    states_metric(w, "fed_worker_group_workers", "Workers of these clusters, by state.", workers);
    states_metric(w, "fed_gang_workers", OLD_NAME "fed_worker_group_workers.", workers);
    fedserver_metric_computers(w, "fed_worker_group_workers_computing",
                               "Workers of clusters, by what they compute on.", computers);
    fedserver_metric_computers(w, "fed_gang_workers_computing",
                               OLD_NAME "fed_worker_group_workers_computing.", computers);
    fedserver_metric_counter(w, "fed_worker_group_reports_total",
                             "Reports of clusters about their workers.", groups->reports);
    fedserver_metric_counter(w, "fed_gang_reports_total",
                             OLD_NAME "fed_worker_group_reports_total.", groups->reports);
}
