/* fedworker's worker group: all ranks of this machine are started, and waited for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fedclient/apps/fedworker.h"
#include "fedclient/apps/fedworker_commands.h"
#include "fedclient/apps/fedworker_share.h"
#include "feddc/control.h"

/* ---- threads: the ranks are threads of this process ---- */

typedef struct member {
    const fedworker_job *job;
    fedworker_entry entry;
    pthread_t thread;
    fed_status status;
    fed_error err;
} member;

static void *run_member(void *user) {
    member *m = user;
    m->status = fedworker_rank(m->job, &m->entry, &m->err);
    return NULL;
}

/* Return whether a failure with this status can be the cause of other ranks' failures. FED_EIO and
 * FED_ETIMEOUT usually mean that a rank saw another one leave, or waited too long for one. */
static bool is_cause(fed_status status) {
    return status != FED_EIO && status != FED_ETIMEOUT;
}

/* A rank that was told to stop hides no failure of another rank. */
static fed_status worst(const member *members, uint32_t count, fed_error *err) {
    const member *found = NULL;
    bool stopped = false;
    for (uint32_t r = 0; r < count; r++) {
        const member *m = &members[r];
        stopped = stopped || m->status == FED_ECANCELED;
        if (m->status != FED_OK && m->status != FED_ECANCELED &&
            (found == NULL || !is_cause(found->status))) {
            found = is_cause(m->status) || found == NULL ? m : found;
        }
    }
    if (found == NULL) {
        return stopped ? FED_ECANCELED : FED_OK;
    }
    return fed_fail(err, found->status, "%s", found->err.text);
}

static fed_status run_threads(const fedworker_job *job, fed_error *err) {
    member *members = calloc(job->choice.ranks, sizeof *members);
    struct feddc_hub *hub = feddc_hub_new(job->choice.ranks);
    if (members == NULL || hub == NULL) {
        free(members);
        feddc_hub_free(hub);
        return fed_fail(err, FED_ENOMEM, "out of memory for %" PRIu32 " ranks", job->choice.ranks);
    }
    fed_status status = FED_OK;
    uint32_t started = 0;
    for (; started < job->choice.ranks && status == FED_OK; started++) {
        member *m = &members[started];
        *m = (member){
            .job = job,
            .entry = {
                .place = {.rank = started, .size = job->choice.ranks, .hub = hub, .listener = -1}}};
        if (pthread_create(&m->thread, NULL, run_member, m) != 0) {
            /* The ranks that run wait for the missing ones until their timeout, and then fail. */
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

enum {
    PATIENCE_MS = 2500, /* how long to wait for a rank, or for the failure detector in rank 0 */
    /* ranks other than 0 wait this time before they print and exit, so that rank 0 comes first */
    LISTEN_MS = 500
};

/** The place where the failure detector listens. Rank 0 sends it to the other ranks. */
typedef struct detector_place {
    char host[240], port[16];
    uint8_t secret[FEDDC_SECRET];
} detector_place;

/* The failure detector has ended the job. This rank may hang in MPI, waiting for a rank that is
 * gone, so the process exits; mpirun then ends the others. */
static void end_process(void *user, const char *why) {
    const fedworker_entry *entry = user;
    if (entry->place.rank > 0) {
        fed_sleep_ms(LISTEN_MS);
    }
    fprintf(stderr, "fedworker: %s\n", why);
    _exit(EXIT_FAILURE);
}

static fed_status run_watched(const fedworker_job *job, fedworker_entry *entry,
                              const char *detector, const uint8_t *secret, uint32_t patience_ms,
                              fed_error *err) {
    const feddc_worker_group *group = NULL;
    const feddc_watch_options watch = {.address = detector,
                                       .secret = secret,
                                       .rank = entry->place.rank,
                                       .settings = job->settings.text,
                                       .patience_ms = patience_ms,
                                       .over = end_process,
                                       .user = entry};
    FED_TRY(feddc_watch_open(&watch, &entry->watch, err));
    fed_status status = feddc_watch_next(entry->watch, 0, NULL, &group, err);
    if (status == FED_OK) {
        status = fedworker_rank(job, entry, err);
    }
    const bool failed = status != FED_OK && status != FED_ECANCELED;
    feddc_watch_close(entry->watch, failed ? err->text : NULL);
    return status;
}

static void say_refused(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "fedworker: %s\n", text);
}

static fed_status find_detector(const fedworker_job *job, const feddc_place *place,
                                detector_place *at, feddc_detector **detector, fed_error *err) {
    if (place->rank == 0) {
        FED_TRY(fed_random(at->secret, sizeof at->secret));
        const feddc_detector_options o = {.address = "0.0.0.0:0",
                                          .secret = at->secret,
                                          .size = place->size,
                                          .settings = job->settings.text,
                                          .refused = say_refused};
        FED_TRY(feddc_detector_open(&o, detector, err));
        const char *port = strrchr(feddc_detector_address(*detector), ':');
        gethostname(at->host, sizeof at->host - 1);
        snprintf(at->port, sizeof at->port, "%s", port != NULL ? port + 1 : "");
    }
    return fedworker_share_bytes(job->choice.link, place, (uint8_t *)at, sizeof *at, err);
}

/* Run a rank that mpirun started without fedworker launch: rank 0 has the failure detector. */
static fed_status run_judged(const fedworker_job *job, fedworker_entry *entry, fed_error *err) {
    detector_place at = {.host = ""};
    char own[sizeof at.host] = "", address[sizeof at.host + sizeof at.port];
    feddc_detector *detector = NULL;
    fed_status status = find_detector(job, &entry->place, &at, &detector, err);
    if (status == FED_OK) {
        gethostname(own, sizeof own - 1);
        snprintf(address, sizeof address, "%s:%s",
                 strcmp(own, at.host) == 0 ? "127.0.0.1" : at.host, at.port);
        status = run_watched(job, entry, address, at.secret, PATIENCE_MS, err);
    }
    if (detector != NULL) {
        feddc_detector_wait(detector, PATIENCE_MS); /* until all ranks have reported their end */
        feddc_detector_close(detector);
    }
    return status;
}

static fed_status run_mpi(const fedworker_job *job, fedworker_entry *entry, fed_error *err) {
    char detector[128];
    uint8_t secret[FEDDC_SECRET];
    FED_TRY(job->choice.link->find(&entry->place, err));
    if (fedworker_launched(detector, secret)) {
        return run_watched(job, entry, detector, secret, 0, err);
    }
    return entry->place.size > 1 ? run_judged(job, entry, err) : fedworker_rank(job, entry, err);
}

/* Wait for the trace files of ranks that end a moment after this one, at most 3 seconds. */
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

fed_status fedworker_group(fedworker_job *job, fed_error *err) {
    const bool threads = strcmp(job->choice.link->name, "threads") == 0;
    job->stop = fedworker_stop_open(threads ? FEDWORKER_TOLD : "");
    if (job->stop == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory to start the ranks");
    }
    fedworker_entry entry = {
        .place = {.listener = -1}}; /* rank 0, unless run_mpi sets another rank */
    FED_TRY(job->choice.link->find != NULL ? run_mpi(job, &entry, err)
            : threads                      ? run_threads(job, err)
                                           : fedworker_tcp(job, err));
    if (job->o->trace == NULL || entry.place.rank != 0) {
        return FED_OK;
    }
    if (job->choice.link->find != NULL) {
        wait_for_parts(job);
    }
    return feddc_trace_merge(job->o->trace, job->choice.ranks, err);
}
