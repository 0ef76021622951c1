/* A round of a device that is a worker group: its workers are started, watched and waited for. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fedclient/apps/fedworker_serve.h"

enum {
    LOOK_MS = 20,
    SETTLE_MS = 200,
    GRACE_MS = 20000,
    FIRST_PAUSE_MS = 1000,
    LONGEST_PAUSE_MS = 30000
};

typedef struct attempt {
    fedworker_cluster *cluster;
    fedclient_round *round;
    const fedtrain_job *job;
    fedworker_page *page;
    fedworker_member *members;
    uint32_t started;
    feddc_detector *detector;
} attempt;

static void *run_thread(void *user) {
    fedworker_member_run(user);
    return NULL;
}

static fed_status start_one(fedworker_member *m, fed_error *err) {
    if (!m->cluster->processes) {
        return pthread_create(&m->thread, NULL, run_thread, m) == 0
                   ? FED_OK
                   : fed_fail(err, FED_EBUSY, "the system gives no thread for worker %" PRIu32,
                              m->number);
    }
    const pid_t pid = fork();
    if (pid == 0) {
        fedworker_member_run(m);
        _exit(0);
    }
    m->pid = pid > 0 ? pid : 0;
    return pid > 0 ? FED_OK
                   : fed_fail(err, FED_EBUSY, "the system gives no process for worker %" PRIu32,
                              m->number);
}

/* Return whether workers still run. Worker processes that have ended are collected with waitpid. */
static bool are_left(attempt *a) {
    bool left = false;
    for (uint32_t k = 0; k < a->started; k++) {
        fedworker_member *m = &a->members[k];
        if (a->cluster->processes) {
            m->pid = m->pid != 0 && waitpid(m->pid, NULL, WNOHANG) != 0 ? 0 : m->pid;
            left = left || m->pid != 0;
        } else {
            left = left || !a->page->slot[k].over;
        }
    }
    return left;
}

static void end_all(attempt *a) {
    feddc_detector_end(a->detector, "the round is over");
    for (uint32_t k = 0; k < a->started; k++) {
        if (a->members[k].pid != 0) {
            (void)kill(a->members[k].pid, SIGKILL);
        }
    }
}

static fed_status start_members(attempt *a, const fed_arch *arch, struct feddc_hub *hub,
                                fed_error *err) {
    const fedworker_cluster *c = a->cluster;
    const uint32_t own =
        c->choice.place.size > 0 ? 1 : c->choice.ranks; /* mpi: mpirun has started the others */
    fed_status status = FED_OK;
    while (a->started < own && status == FED_OK) {
        fedworker_member *m = &a->members[a->started];
        *m = (fedworker_member){.cluster = c,
                                .job = a->job,
                                .arch = arch,
                                .page = a->page,
                                .hub = hub,
                                .number = a->started};
        status = start_one(m, err);
        a->started += status == FED_OK;
    }
    return status;
}

/* Start the workers, then the failure detector: the detector's thread must not exist yet when
 * worker processes are forked. */
static fed_status start(attempt *a, const fed_arch *arch, struct feddc_hub *hub, fed_error *err) {
    const fedworker_cluster *c = a->cluster;
    const bool mpi = c->choice.place.size > 0;
    FED_TRY(start_members(a, arch, hub, err));
    const feddc_detector_options o = {.address = mpi ? "0.0.0.0:0" : "127.0.0.1:0",
                                      .secret = a->page->secret,
                                      .size = c->choice.ranks,
                                      .min = c->min};
    FED_TRY(feddc_detector_open(&o, &a->detector, err));
    const char *port = strrchr(feddc_detector_address(a->detector), ':');
    snprintf(a->page->address, sizeof a->page->address, "127.0.0.1%s", port != NULL ? port : "");
    if (mpi) {
        FED_TRY(fedworker_ranks_order(c, a->round->task, a->job->seed, a->page, err));
    }
    a->page->go = true;
    return FED_OK;
}

static void look_after(attempt *a) {
    int64_t limit_ms = INT64_MAX;
    while (are_left(a)) {
        const size_t steps = a->page->steps;
        fedworker_group_report(a->cluster, a->round, a->detector, false);
        if (limit_ms == INT64_MAX && !a->job->after_step(a->job->user, steps - 1, 0)) {
            a->page->stop = true;
            limit_ms = fed_clock_monotonic_ms() + GRACE_MS;
        }
        if (fed_clock_monotonic_ms() > limit_ms) {
            end_all(a);
        }
        fed_sleep_ms(LOOK_MS);
    }
    (void)feddc_detector_wait(a->detector,
                              SETTLE_MS); /* the detector learns how the last workers ended */
    fedworker_group_count(a->cluster, a->page);
    fedworker_group_report(a->cluster, a->round, a->detector, true);
}

/* Return the result of an attempt. After a failure this is a worker's own error, if there is one:
 * other workers only saw that a worker left. Else it is what the failure detector says. */
static fed_status outcome(const attempt *a, fed_error *err) {
    feddc_detector_look look = {0};
    if (a->page->completed) {
        return FED_OK;
    }
    for (uint32_t k = 0; k < a->started; k++) {
        const fedworker_slot *slot = &a->page->slot[k];
        const bool saw = slot->status == FED_OK || slot->status == FED_ESTATE ||
                         fedworker_is_broken(slot->status);
        if (slot->over && !saw) {
            return fed_fail(err, slot->status, "%s", slot->why);
        }
    }
    feddc_detector_see(a->detector, &look);
    return fed_fail(err, FED_EBUSY, "%s",
                    look.why[0] != '\0' ? look.why : "the worker group ended without a result");
}

static fed_status run_members(attempt *a, const fed_arch *arch, fed_error *err) {
    struct feddc_hub *hub = NULL;
    if (!a->cluster->processes && a->cluster->choice.place.size == 0) {
        hub = feddc_hub_new(a->cluster->choice.ranks);
        FED_REQUIRE(hub != NULL, FED_ENOMEM);
    }
    fed_status status = start(a, arch, hub, err);
    if (status == FED_OK) {
        look_after(a);
        status = outcome(a, err);
    } else {
        a->page->stop = true; /* ends the workers that have been started */
        while (are_left(a)) {
            fed_sleep_ms(LOOK_MS);
        }
    }
    for (uint32_t k = 0; k < a->started && !a->cluster->processes; k++) {
        pthread_join(a->members[k].thread, NULL);
    }
    feddc_detector_close(a->detector);
    feddc_hub_free(hub);
    return status;
}

static fed_status try_once(attempt *a, const fed_arch *arch, float *values, float *memory,
                           fed_error *err) {
    fedworker_page *page = a->page;
    *page = (fedworker_page){.values = page->values, .memory = page->memory};
    memcpy(page->at, values, page->values * sizeof *values);
    if (page->memory > 0) {
        memcpy(page->at + page->values, memory, page->memory * sizeof *memory);
    }
    FED_TRY(fed_random(page->secret, sizeof page->secret));
    a->started = 0;
    a->detector = NULL;
    FED_TRY(run_members(a, arch, err));
    memcpy(values, page->at, page->values * sizeof *values);
    if (page->memory > 0) {
        memcpy(memory, page->at + page->values, page->memory * sizeof *memory);
    }
    return FED_OK;
}

static bool pause_for(const attempt *a, int64_t ms) {
    const int64_t until_ms = fed_clock_monotonic_ms() + ms;
    while (fed_clock_monotonic_ms() < until_ms) {
        if (!a->job->after_step(a->job->user, SIZE_MAX, 0)) {
            return false;
        }
        fed_sleep_ms(LOOK_MS);
    }
    return true;
}

/* Train for the round. A worker group that has lost too many workers is started again, from the
 * round's model, as long as the coordinator still waits for the update. */
static fed_status try_often(attempt *a, const fed_arch *arch, float *memory, fed_error *err) {
    for (int64_t pause_ms = FIRST_PAUSE_MS;; pause_ms *= 2) {
        fed_error why = {0};
        const fed_status status = try_once(a, arch, a->round->values, memory, &why);
        a->round->loss = a->page->loss;
        if (status != FED_EBUSY) {
            return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
        }
        fed_logf(&a->cluster->device.log, FED_LOG_WARN, "%s; the worker group is started again",
                 why.text);
        pause_ms = pause_ms < LONGEST_PAUSE_MS ? pause_ms : LONGEST_PAUSE_MS;
        if (!pause_for(a, pause_ms)) {
            return fed_fail(err, FED_EBUSY, "%s", why.text);
        }
    }
}

fed_status fedworker_round(void *user, fedclient_round *round, const fedtrain_job *job,
                           const fed_arch *arch, float *memory, size_t memory_count,
                           fed_error *err) {
    fedworker_cluster *c = user;
    const size_t floats = arch->layout.size + memory_count;
    const size_t bytes = sizeof(fedworker_page) + floats * sizeof(float);
    fedtrain_job own = *job;
    attempt a = {.cluster = c, .round = round, .job = &own};
    /* A worker's own steps begin with 0 in each round, so each round needs another seed. */
    const uint64_t mix[3] = {job->seed, job->round, job->client};
    own.seed = fed_digest_bytes(mix, sizeof mix);
    a.members = calloc(c->choice.ranks, sizeof *a.members);
    a.page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fed_status status = FED_ENOMEM;
    if (a.page != MAP_FAILED && a.members != NULL) {
        a.page->values = arch->layout.size;
        a.page->memory = memory_count;
        status = try_often(&a, arch, memory, err);
    }
    if (a.page != MAP_FAILED) {
        (void)munmap(a.page, bytes);
    }
    free(a.members);
    return status;
}
