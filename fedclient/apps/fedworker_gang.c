/* fedworker's gang: all ranks of this machine are started, and waited for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/crypto.h"
#include "fedclient/apps/fedworker.h"

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
    member *members = calloc(job->ranks, sizeof *members);
    struct feddc_hub *hub = feddc_hub_new(job->ranks);
    fed_status status =
        members != NULL && hub != NULL
            ? FED_OK
            : fed_fail(err, FED_ENOMEM, "no memory for %" PRIu32 " ranks", job->ranks);
    uint32_t started = 0;
    for (; started < job->ranks && status == FED_OK; started++) {
        member *m = &members[started];
        *m = (member){
            .job = job,
            .seat = {.place = {.rank = started, .size = job->ranks, .hub = hub, .listener = -1}}};
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

/* ---- tcp: the ranks are processes of this machine ---- */

typedef struct doors {
    int *listener;
    char (*address)[32];
    const char **list; /* [ranks], into address */
    pid_t *child;
    uint8_t secret[FEDDC_SECRET];
} doors;

static void close_doors(doors *d, uint32_t ranks) {
    for (uint32_t r = 0; d->listener != NULL && r < ranks; r++) {
        if (d->listener[r] > 0) {
            close(d->listener[r]);
        }
    }
    free(d->listener);
    free(d->address);
    free(d->list);
    free(d->child);
}

/* A socket on loopback for each rank, so that all addresses are known before the first child. */
static fed_status open_doors(doors *d, uint32_t ranks, fed_error *err) {
    d->listener = calloc(ranks, sizeof *d->listener);
    d->address = calloc(ranks, sizeof *d->address);
    d->list = calloc(ranks, sizeof *d->list);
    d->child = calloc(ranks, sizeof *d->child);
    if (d->listener == NULL || d->address == NULL || d->list == NULL || d->child == NULL) {
        return fed_fail(err, FED_ENOMEM, "no memory for %" PRIu32 " ranks", ranks);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof at;
        d->listener[r] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (d->listener[r] < 0 || bind(d->listener[r], (struct sockaddr *)&at, len) != 0 ||
            listen(d->listener[r], (int)ranks) != 0 ||
            getsockname(d->listener[r], (struct sockaddr *)&at, &len) != 0) {
            return fed_fail(err, FED_ENET, "can't listen on loopback: %s", strerror(errno));
        }
        snprintf(d->address[r], sizeof d->address[r], "127.0.0.1:%u", ntohs(at.sin_port));
        d->list[r] = d->address[r];
    }
    return fed_random(d->secret, sizeof d->secret) == FED_OK
               ? FED_OK
               : fed_fail(err, FED_EIO, "the system gives no random bytes for the gang's secret");
}

static int run_child(const fedworker_job *job, doors *d, uint32_t r) {
    fedworker_seat seat = {.place = {.rank = r,
                                     .size = job->ranks,
                                     .address = d->list,
                                     .listener = d->listener[r],
                                     .secret = d->secret,
                                     .congestion = job->o->congestion}};
    fed_error err = {0};
    for (uint32_t k = 0; k < job->ranks; k++) {
        if (k != r) {
            close(d->listener[k]);
        }
    }
    const fed_status status = fedworker_rank(job, &seat, &err);
    if (status != FED_OK) {
        fprintf(stderr, "fedworker: rank %" PRIu32 ": %s\n", r, err.text);
    }
    fflush(stdout);
    return status == FED_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The process has no other thread yet, so a child may go on as this program. */
static fed_status start_children(const fedworker_job *job, doors *d, fed_error *err) {
    fflush(stdout);
    for (uint32_t r = 0; r < job->ranks; r++) {
        d->child[r] = fork();
        if (d->child[r] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no child outlives the launcher */
            _exit(run_child(job, d, r));
        }
        if (d->child[r] < 0) {
            d->child[r] = 0;
            return fed_fail(err, FED_EBUSY, "the system gives no process for rank %" PRIu32 ": %s",
                            r, strerror(errno));
        }
    }
    return FED_OK;
}

static fed_status wait_for_children(const fedworker_job *job, doors *d, fed_status started,
                                    fed_error *err) {
    fed_status status = started;
    for (uint32_t r = 0; r < job->ranks && d->child[r] > 0; r++) {
        int how = 0;
        if (started != FED_OK) {
            kill(d->child[r], SIGKILL);
        }
        while (waitpid(d->child[r], &how, 0) < 0 && errno == EINTR) {
        }
        if (status == FED_OK && WIFSIGNALED(how)) {
            status = fed_fail(err, FED_EIO, "rank %" PRIu32 " (pid %ld) was ended by signal %d", r,
                              (long)d->child[r], WTERMSIG(how));
        } else if (status == FED_OK && (!WIFEXITED(how) || WEXITSTATUS(how) != 0)) {
            status = fed_fail(err, FED_EIO, "rank %" PRIu32 " failed", r);
        }
    }
    return status;
}

static fed_status run_tcp(const fedworker_job *job, fed_error *err) {
    doors d = {0};
    fed_status status = open_doors(&d, job->ranks, err);
    if (status == FED_OK) {
        status = start_children(job, &d, err);
        status = wait_for_children(job, &d, status, err);
    }
    close_doors(&d, job->ranks);
    return status;
}

/* ---- All ---- */

fed_status fedworker_gang(fedworker_job *job, fed_error *err) {
    if (job->link->find != NULL) {
        fedworker_seat seat = {.place = {.listener = -1}};
        FED_TRY(job->link->find(&seat.place, err));
        return fedworker_rank(job, &seat, err);
    }
    return strcmp(job->link->name, "threads") == 0 ? run_threads(job, err) : run_tcp(job, err);
}
