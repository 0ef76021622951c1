/* fedworker over TCP: ranks are processes of this machine, or of several, under one failure
 * detector. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fedclient/apps/fedworker.h"
#include "fedclient/apps/fedworker_address.h"
#include "feddc/control.h"

enum {
    ADDRESS = 300,
    TURN_MS = 100,
    GRACE_MS = 5000,
    EXIT_STOPPED = 130,
    FIRST_MS = 2000,  /* after this time, a listener says which workers it waits for */
    REPEAT_MS = 5000, /* time until the listener says it again */
    NAMED = 8         /* most workers that the listener names */
};

typedef struct launcher {
    const fedworker_job *job;
    uint32_t here;
    pid_t *child; /* [here] process ids; 0: the child is not started, or has ended */
    int told[2];  /* a pipe: children read the failure detector's address from it */
    uint8_t secret[FEDDC_SECRET];
    feddc_detector *detector; /* NULL: it is not open yet, or on another machine */
    uint32_t failed, stopped; /* children that failed; that ended as they were told to stop */
    bool stops;               /* stop_children has acted on a signal */
    int64_t say_ms;           /* when to say whom the listener waits for; 0: it does not wait */
} launcher;

static fed_status write_secret(const char *path, uint8_t secret[FEDDC_SECRET], fed_error *err) {
    char hex[2 * FEDDC_SECRET + 2];
    if (fed_random(secret, FEDDC_SECRET) != FED_OK) {
        return fed_fail(err, FED_EIO,
                        "the system gives no random bytes for the worker group's secret");
    }
    if (path == NULL) {
        return FED_OK;
    }
    fed_hex(secret, FEDDC_SECRET, hex);
    hex[2 * FEDDC_SECRET] = '\n';
    FED_TRY(fed_file_replace(path, hex, 2 * FEDDC_SECRET + 1, FED_FILE_OUTPUT | 0600, err));
    fprintf(
        stderr,
        "fedworker: %s was written with the worker group's secret: copy it to the other machines\n",
        path);
    return FED_OK;
}

static fed_status read_secret(const fedworker_options *o, uint8_t secret[FEDDC_SECRET],
                              fed_error *err) {
    if (o->listen == NULL && o->join == NULL) {
        return write_secret(NULL, secret, err);
    }
    char text[1001];
    const fed_status status = fed_file_read_word(o->secret_file, text, sizeof text, err);
    if (status == FED_ENOTFOUND && o->listen != NULL) {
        return write_secret(o->secret_file, secret, err);
    }
    FED_TRY(status);
    const bool good =
        strlen(text) == (size_t)2 * FEDDC_SECRET && fed_unhex(text, secret, FEDDC_SECRET) == FED_OK;
    return good ? FED_OK
                : fed_fail(err, FED_EFORMAT,
                           "--secret-file %.200s must hold %d hex digits, the worker group's "
                           "secret: copy it from the machine with --listen",
                           o->secret_file, 2 * FEDDC_SECRET);
}

static fed_status join_worker_group(const launcher *l, uint32_t k, fedworker_entry *entry,
                                    fed_error *err) {
    const fedworker_options *o = l->job->o;
    char address[ADDRESS] = "";
    if (o->join == NULL && read(l->told[0], address, sizeof address) <= 0) {
        return fed_fail(err, FED_EIO,
                        "the main process of fedworker has ended before this worker began");
    }
    const feddc_watch_options watch = {.address = o->join != NULL ? o->join : address,
                                       .secret = l->secret,
                                       .rank = o->join != NULL ? UINT32_MAX : k,
                                       .settings = l->job->settings.text,
                                       .listens = true,
                                       .host = o->host};
    FED_TRY(feddc_watch_open(&watch, &entry->watch, err));
    const feddc_worker_group *group = NULL;
    FED_TRY(feddc_watch_next(entry->watch, 0, NULL, &group, err));
    entry->place = group->place;
    entry->place.congestion = o->congestion;
    entry->elastic = true;
    return FED_OK;
}

static int run_child(const launcher *l, uint32_t k) {
    fedworker_entry entry = {0};
    fed_error err = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child is killed if the launcher ends */
    close(l->told[1]);
    fed_status status = join_worker_group(l, k, &entry, &err);
    close(l->told[0]);
    if (status == FED_OK) {
        status = fedworker_rank(l->job, &entry, &err);
    }
    const bool stopped = status == FED_ECANCELED, good = status == FED_OK || stopped;
    if (!good) {
        fprintf(stderr, "fedworker: pid %ld: %s\n", (long)getpid(), err.text);
    }
    feddc_watch_close(entry.watch, good ? NULL : err.text);
    fflush(stdout);
    return stopped ? EXIT_STOPPED : good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The launcher must have no other thread yet, since a forked child continues with one only. */
static fed_status start_children(launcher *l, fed_error *err) {
    l->child = calloc(l->here, sizeof *l->child);
    if (l->child == NULL || pipe(l->told) != 0) {
        return fed_fail(err, FED_ENOMEM,
                        "out of memory, or of open files for a pipe, to start %" PRIu32
                        " ranks: allow more open files (ulimit -n)",
                        l->here);
    }
    fflush(stdout);
    for (uint32_t k = 0; k < l->here; k++) {
        const pid_t pid = fork();
        if (pid == 0) {
            _exit(run_child(l, k));
        }
        if (pid < 0) {
            return fed_fail(err, FED_EBUSY, "the system gives no process for rank %" PRIu32 ": %s",
                            k, strerror(errno));
        }
        l->child[k] = pid;
    }
    return FED_OK;
}

static void say_verdict(void *user, const feddc_verdict *verdict) {
    (void)user;
    if (verdict->fate != FEDDC_FINISHED) {
        fprintf(stderr, "fedworker: %s\n", verdict->text);
    }
}

static void say_refused(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "fedworker: %s\n", text);
}

static fed_status open_detector(launcher *l, fed_error *err) {
    const fedworker_options *o = l->job->o;
    const feddc_detector_options options = {.address =
                                                o->listen != NULL ? o->listen : "127.0.0.1:0",
                                            .secret = l->secret,
                                            .size = l->job->choice.ranks,
                                            .min = o->min > 0 ? o->min : 1,
                                            .join_ms = o->listen != NULL ? 600000 : 0,
                                            .settings = l->job->settings.text,
                                            .verdict = say_verdict,
                                            .refused = say_refused};
    FED_TRY(feddc_detector_open(&options, &l->detector, err));
    char address[ADDRESS] = "";
    snprintf(address, sizeof address, "%s", feddc_detector_address(l->detector));
    for (uint32_t k = 0; k < l->here; k++) {
        if (write(l->told[1], address, sizeof address) != (ssize_t)sizeof address) {
            return fed_fail(err, FED_EIO,
                            "can't tell the workers where the failure detector listens");
        }
    }
    return FED_OK;
}

static uint32_t reap(launcher *l) {
    uint32_t left = 0;
    for (uint32_t k = 0; k < l->here; k++) {
        int how = 0;
        if (l->child[k] > 0 && waitpid(l->child[k], &how, WNOHANG) == l->child[k]) {
            l->child[k] = 0;
            const bool stopped = WIFEXITED(how) && WEXITSTATUS(how) == EXIT_STOPPED;
            l->stopped += stopped;
            l->failed += !stopped && (!WIFEXITED(how) || WEXITSTATUS(how) != 0);
        }
        left += l->child[k] > 0;
    }
    return left;
}

static void kill_children(launcher *l) {
    for (uint32_t k = 0; k < l->here; k++) {
        if (l->child[k] > 0) {
            kill(l->child[k], SIGKILL);
        }
    }
}

/* After a signal: let the children end after a step. If none has begun a step yet, end them now. */
static void stop_children(launcher *l) {
    if (l->stops || !fedworker_stop_told(l->job->stop)) {
        return;
    }
    l->stops = true;
    fedworker_stop_tell(l->job->stop);
    if (!fedworker_stop_has_begun(l->job->stop)) {
        fprintf(stderr, "fedworker: stopped: no worker of this machine has begun a step\n");
        l->stopped++;
        if (l->detector != NULL) {
            feddc_detector_end(l->detector, "fedworker was stopped by a signal");
        }
        kill_children(l);
    } else {
        fprintf(stderr, "%s",
                l->job->all_here
                    ? FEDWORKER_TOLD
                    : "fedworker: told to stop: the worker group ends at its next pause; a second "
                      "signal ends this machine's workers now\n");
    }
}

/* Name the workers that are ready, or those that are not. */
static void write_workers(const launcher *l, bool ready, fed_writer *w) {
    feddc_member_look look;
    uint32_t named = 0;
    for (uint32_t k = 0; k < l->job->choice.ranks; k++) {
        const bool fits = feddc_detector_member(l->detector, k, &look) &&
                          look.fate == FEDDC_ALIVE && look.meets == ready;
        if (fits && named++ < NAMED) {
            fed_write_printf(w, "%shost %s pid %" PRIu32, named > 1 ? ", " : "", look.host,
                             look.pid);
        }
    }
    if (named == 0 || named > NAMED) {
        fed_write_printf(w, "%s", named == 0 ? "nobody yet" : " and others");
    }
}

/* A worker group waits at its beginning for workers that have not come yet. Later it waits for
 * those that were there and do not meet the others again. */
static void say_whom(const launcher *l) {
    char text[1200];
    fed_writer w;
    feddc_detector_look look;
    feddc_detector_see(l->detector, &look);
    fed_writer_fixed(&w, text, sizeof text);
    if (look.state != FEDDC_MEETING) {
        return;
    }
    if (look.generation == 0) {
        const uint32_t missing = l->job->choice.ranks - look.members;
        fed_write_printf(&w, "waiting at %s for %" PRIu32 " of %" PRIu32 " workers; here: ",
                         feddc_detector_address(l->detector), missing, l->job->choice.ranks);
        write_workers(l, true, &w);
    } else {
        fed_write_printf(&w, "waiting for workers to meet again: ");
        write_workers(l, false, &w);
    }
    fprintf(stderr, "fedworker: %s\n", text);
}

static void say_if_waiting(launcher *l, feddc_detector_state state, int64_t now_ms) {
    if (l->job->o->listen == NULL || state != FEDDC_MEETING) {
        l->say_ms = 0;
    } else if (l->say_ms == 0) {
        l->say_ms = now_ms + FIRST_MS;
    } else if (now_ms >= l->say_ms) {
        l->say_ms = now_ms + REPEAT_MS;
        say_whom(l);
    }
}

/* Children that still run GRACE_MS after the end of the worker group are killed. */
static fed_status attend(launcher *l, fed_error *err) {
    feddc_detector_state state = FEDDC_TRAINING;
    int64_t over_ms = 0;
    while (reap(l) > 0) {
        stop_children(l);
        if (l->detector != NULL) {
            state = feddc_detector_wait(l->detector, TURN_MS);
        }
        const bool over = state == FEDDC_DONE || state == FEDDC_ENDED;
        const int64_t now_ms = fed_clock_monotonic_ms();
        say_if_waiting(l, state, now_ms);
        if (over) {
            over_ms = over_ms == 0 ? now_ms : over_ms;
        }
        if (over && now_ms - over_ms > GRACE_MS) {
            kill_children(l);
        }
        if (over || l->detector == NULL) {
            fed_sleep_ms(TURN_MS / 5);
        }
    }
    if (l->stopped > 0 && (l->failed == 0 || !fedworker_stop_has_begun(l->job->stop))) {
        if (l->detector != NULL) {
            (void)feddc_detector_wait(l->detector, GRACE_MS); /* for workers of other machines */
        }
        return FED_ECANCELED;
    }
    if (l->detector == NULL) {
        return l->failed == 0
                   ? FED_OK
                   : fed_fail(err, FED_EIO,
                              "%" PRIu32 " of the %" PRIu32 " workers of this machine failed",
                              l->failed, l->here);
    }
    /* Workers on other machines may end a moment later. */
    state = feddc_detector_wait(l->detector, GRACE_MS);
    feddc_detector_look look;
    feddc_detector_see(l->detector, &look);
    if (state != FEDDC_DONE) {
        return fed_fail(err, FED_EIO, "the worker group has ended: %s",
                        look.why[0] != '\0' ? look.why : "its workers have said above why");
    }
    return l->stopped > 0 ? FED_ECANCELED : FED_OK;
}

static fed_status check_options(const fedworker_options *o, fed_error *err) {
    if (o->listen != NULL && o->join != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--listen is for the machine with the failure detector, --join for the "
                        "others: give only one of them");
    }
    if ((o->listen != NULL || o->join != NULL) != (o->secret_file != NULL)) {
        return fed_fail(
            err, FED_EINVAL,
            "--listen and --join need --secret-file FILE, and --secret-file needs one of them");
    }
    return fedworker_address_check(o, err);
}

static fed_status run(launcher *l, fed_error *err) {
    const fedworker_options *o = l->job->o;
    FED_TRY(check_options(o, err));
    FED_TRY(read_secret(o, l->secret, err));
    FED_TRY(start_children(l, err));
    close(l->told[0]);
    if (o->join == NULL) {
        FED_TRY(open_detector(l, err));
    }
    return attend(l, err);
}

fed_status fedworker_tcp(const fedworker_job *job, fed_error *err) {
    const fedworker_options *o = job->o;
    launcher l = {.job = job, .here = o->here};
    if (l.here == 0) {
        l.here = o->listen != NULL || o->join != NULL ? 1 : job->choice.ranks;
    }
    const fed_status status = run(&l, err);
    if (l.child != NULL) {
        kill_children(&l);
        while (reap(&l) > 0) {
            fed_sleep_ms(1);
        }
    }
    feddc_detector_close(l.detector);
    free(l.child);
    return status;
}
