/* fedworker's gang: all ranks of this machine are started, and waited for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedclient/apps/fedworker.h"
#include "fedclient/apps/fedworker_launch.h"
#include "feddc/control.h"

/* ---- threads: the ranks are threads of this process ---- */

typedef struct member {
    const fedworker_job *job;
    fedworker_seat seat;
    pthread_t thread;
    fed_status status;
    fed_error err;
} member;

static void *run_member(void *user) {
    member *m = user;
    m->status = fedworker_rank(m->job, &m->seat, &m->err);
    return NULL;
}

/* The first failure is the cause; the others only saw a rank leave. */
static fed_status worst(const member *members, uint32_t count, fed_error *err) {
    const member *found = NULL;
    for (uint32_t r = 0; r < count; r++) {
        const member *m = &members[r];
        if (m->status != FED_OK && (found == NULL || found->status == FED_EIO)) {
            found = m->status != FED_EIO || found == NULL ? m : found;
        }
    }
    return found == NULL ? FED_OK : fed_fail(err, found->status, "%s", found->err.text);
}

static fed_status run_threads(const fedworker_job *job, fed_error *err) {
    member *members = calloc(job->choice.ranks, sizeof *members);
    struct feddc_hub *hub = feddc_hub_new(job->choice.ranks);
    if (members == NULL || hub == NULL) {
        free(members);
        feddc_hub_free(hub);
        return fed_fail(err, FED_ENOMEM, "no memory for %" PRIu32 " ranks", job->choice.ranks);
    }
    fed_status status = FED_OK;
    uint32_t started = 0;
    for (; started < job->choice.ranks && status == FED_OK; started++) {
        member *m = &members[started];
        *m = (member){
            .job = job,
            .seat = {
                .place = {.rank = started, .size = job->choice.ranks, .hub = hub, .listener = -1}}};
        if (pthread_create(&m->thread, NULL, run_member, m) != 0) {
            /* Those that run wait for the others until their patience ends. */
            status =
                fed_fail(err, FED_EBUSY, "the system gives no thread for rank %" PRIu32, started);
            break;
        }
    }
    for (uint32_t r = 0; r < started; r++) {
        pthread_join(members[r].thread, NULL);
    }
    if (status == FED_OK) {
        status = worst(members, started, err);
    }
    feddc_hub_free(hub);
    free(members);
    return status;
}

/* ---- mpi: this process is a rank already ---- */

/* The job of fedworker launch is over, and this rank may wait for one that is gone. */
static void end_process(void *user, const char *why) {
    (void)user;
    fprintf(stderr, "fedworker: %s\n", why);
    _exit(EXIT_FAILURE);
}

static fed_status run_watched(const fedworker_job *job, fedworker_seat *seat, const char *judge,
                              const uint8_t *secret, fed_error *err) {
    const feddc_gang *gang = NULL;
    const feddc_watch_options watch = {
        .address = judge, .secret = secret, .rank = seat->place.rank, .over = end_process};
    FED_TRY(feddc_watch_open(&watch, &seat->watch, err));
    fed_status status = feddc_watch_next(seat->watch, 0, NULL, &gang, err);
    if (status == FED_OK) {
        status = fedworker_rank(job, seat, err);
    }
    feddc_watch_close(seat->watch, status == FED_OK ? NULL : err->text);
    return status;
}

static fed_status run_mpi(const fedworker_job *job, fedworker_seat *seat, fed_error *err) {
    char judge[128];
    uint8_t secret[FEDDC_SECRET];
    FED_TRY(job->choice.link->find(&seat->place, err));
    return fedworker_launched(judge, secret) ? run_watched(job, seat, judge, secret, err)
                                             : fedworker_rank(job, seat, err);
}

/* The parts of the ranks that end a moment after this one. */
static void wait_for_parts(const fedworker_job *job) {
    char part[4096];
    int waits = 300;
    for (uint32_t r = 0; r < job->choice.ranks; r++) {
        (void)snprintf(part, sizeof part, "%s.%" PRIu32, job->o->trace, r);
        while (access(part, F_OK) != 0 && waits-- > 0) {
            fed_sleep_ms(10);
        }
    }
}

/* ---- All ---- */

static fed_status run_gang(const fedworker_job *job, fedworker_seat *seat, fed_error *err) {
    return job->choice.link->find != NULL                   ? run_mpi(job, seat, err)
           : strcmp(job->choice.link->name, "threads") == 0 ? run_threads(job, err)
                                                            : fedworker_tcp(job, err);
}

fed_status fedworker_gang(const fedworker_job *job, fed_error *err) {
    fedworker_seat seat = {.place = {.listener = -1}}; /* of mpi; else of rank 0 */
    FED_TRY(run_gang(job, &seat, err));
    if (job->o->trace == NULL || seat.place.rank != 0) {
        return FED_OK;
    }
    if (job->choice.link->find != NULL) {
        wait_for_parts(job);
    }
    return feddc_trace_merge(job->o->trace, job->choice.ranks, err);
}
