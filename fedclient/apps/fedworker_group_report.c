/* A device that is a worker group reports the states of its workers to the coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/utf8.h"
#include "fedclient/apps/fedworker_serve.h"

enum { EVERY_MS = 1000, VERDICT_MS = 60000 };

/* the slowest worker is called slow if its compute time is above this multiple of the median */
static const double slow = 1.5;

static fed_worker_state state_of(feddc_fate fate) {
    switch (fate) {
    case FEDDC_ALIVE:
    case FEDDC_FINISHED:
        return FED_WORKER_WELL;
    case FEDDC_STOPPED:
    case FEDDC_CUT_OFF:
        return FED_WORKER_STOPPED;
    case FEDDC_STUCK:
    case FEDDC_DIVERGED:
        return FED_WORKER_STUCK;
    default:
        return FED_WORKER_DEAD;
    }
}

static void fill_worker(const fedworker_cluster *c, feddc_detector *detector,
                        const feddc_detector_look *group, uint32_t k, fed_worker *worker) {
    feddc_member_look m = {0};
    *worker = (fed_worker){.rank = k, .waits_for = FED_WORKER_GROUP_NOBODY};
    if (!feddc_detector_member(detector, k, &m)) { /* the worker has not joined yet */
        snprintf(worker->phase, sizeof worker->phase, "%s", feddc_phase_name(FEDDC_STARTING));
        return;
    }
    worker->state = state_of(m.fate);
    if (worker->state == FED_WORKER_WELL && group->slowest == k && group->slowness > slow) {
        worker->state = FED_WORKER_SLOW;
    }
    worker->pid = m.pid;
    worker->step = m.step;
    worker->compute_ms = m.compute_s > 0 ? 1000 * m.compute_s : 0;
    if (m.bucket != UINT32_MAX && m.waits_for < c->choice.ranks && m.waits_for != k) {
        worker->waits_for = m.waits_for;
    }
    snprintf(worker->phase, sizeof worker->phase, "%s",
             m.fate == FEDDC_FINISHED ? "done" : feddc_phase_name(m.phase));
    snprintf(worker->host, sizeof worker->host, "%s", m.host);
    snprintf(worker->computes_on, sizeof worker->computes_on, "%s", m.computes_on);
    worker->sent_bytes = c->bytes[k].sent;
    worker->received_bytes = c->bytes[k].received;
}

static void fill(const fedworker_cluster *c, feddc_detector *detector,
                 const feddc_detector_look *look, fed_worker_group *group) {
    *group = (fed_worker_group){.size = c->choice.ranks};
    group->exposed = c->step_s > 0 ? (float)(c->exposed_s / c->step_s) : 0;
    group->exposed = group->exposed < 1 ? group->exposed : 1;
    snprintf(group->link, sizeof group->link, "%s", c->link);
    snprintf(group->collective, sizeof group->collective, "%s", c->collective);
    snprintf(group->sync, sizeof group->sync, "%s", c->sync);
    snprintf(group->codec, sizeof group->codec, "%s", c->codec);
    snprintf(group->pull, sizeof group->pull, "%s", c->pull);
    snprintf(group->verdict, sizeof group->verdict, "%s", c->verdict);
    group->count =
        c->choice.ranks < FED_WORKER_GROUP_WORKERS ? c->choice.ranks : FED_WORKER_GROUP_WORKERS;
    for (uint32_t k = 0; k < group->count; k++) {
        fill_worker(c, detector, look, k, &group->worker[k]);
    }
}

/* Keep a new verdict, and return whether there is one. A kept verdict is cleared after VERDICT_MS,
 * once the failure detector has none. */
static bool take_verdict(fedworker_cluster *c, const char *why, int64_t now_ms) {
    char cut[sizeof c->verdict];
    snprintf(cut, sizeof cut, "%.255s", why);
    fed_utf8_clean(cut); /* the text may be cut within a character */
    if (why[0] == '\0' || strcmp(cut, c->verdict) == 0) {
        if (why[0] == '\0' && now_ms - c->verdict_ms > VERDICT_MS) {
            c->verdict[0] = '\0';
        }
        return false;
    }
    memcpy(c->verdict, cut, sizeof cut);
    c->verdict_ms = now_ms;
    return true;
}

void fedworker_group_report(fedworker_cluster *c, const fedclient_round *round,
                            feddc_detector *detector, bool last) {
    static const fed_worker_group none;
    feddc_detector_look look = {0};
    const int64_t now_ms = fed_clock_monotonic_ms();
    feddc_detector_see(detector, &look);
    const bool news = take_verdict(c, look.why, now_ms);
    const bool due = look.generation > 0 && (last || now_ms - c->told_ms >= EVERY_MS);
    if (!news && !due) {
        return;
    }
    fed_worker_group group = none;
    fed_error err = {0};
    fill(c, detector, &look, &group);
    if (fedclient_round_worker_group(round, &group, &err) != FED_OK) {
        fed_logf(&c->device.log, FED_LOG_DEBUG, "%s", err.text);
    }
    if (news) {
        fed_logf(&c->device.log, FED_LOG_WARN, "%s", c->verdict);
    }
    c->told_ms = fed_clock_monotonic_ms();
}

void fedworker_group_count(fedworker_cluster *c, const fedworker_page *page) {
    for (uint32_t k = 0; k < c->choice.ranks && k < FED_WORKER_GROUP_WORKERS; k++) {
        const feddc_worker_tally *tally = &page->slot[k].tally;
        c->bytes[k].sent += tally->sent_bytes;
        c->bytes[k].received += tally->received_bytes;
        c->exposed_s += tally->exposed_s;
        c->step_s += tally->step_s;
    }
}
