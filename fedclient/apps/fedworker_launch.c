/* fedworker launch: start a job of MPI under a failure detector, and start it again with the
 * workers that are left. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_commands.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/hash.h"
#include "fedclient/apps/option_table.h"
#include "feddc/control.h"

const char fedworker_launch_usage[] =
    "launch: run a job under a failure detector, and again from its checkpoint when a worker "
    "fails\n"
    "  fedworker launch [options] -- mpirun -n N [...] fedworker train --link mpi [...]\n"
    "  --min N            start again while at least N workers are left (never, if not given)\n"
    "  --detector HOST:PORT, --judge HOST:PORT (its earlier name, which 0.3.0 drops)\n"
    "                     where the failure detector listens (127.0.0.1:0). With several machines\n"
    "                     give a host that all of them reach\n"
    "  The job is started again with --resume; a machine that was lost is taken out of --host.\n";

enum {
    DETECTOR_MS = 600000, /* time for a job's ranks to join: mpirun over many machines is slow */
    TERM_MS = 3000,       /* from a verdict to SIGTERM */
    KILL_MS = 6000, /* from a verdict to SIGKILL, for mpirun and for stopped or stuck workers */
    TURN_MS = 100,
    MOST_WORDS = 1024
};

#define ENV_DETECTOR "FEDWORKER_DETECTOR"
#define ENV_SECRET   "FEDWORKER_SECRET"

extern char **environ;

typedef struct launch {
    uint32_t min;
    const char *address;
    char **words; /* the job's command, NULL at the end */
    int count;
    int ranks_at; /* index of the word that is the number of ranks */
    uint32_t ranks;
    char number[16];
    char *own[MOST_WORDS + 2];
    char hosts[4096]; /* --host without lost machines */
    int hosts_at;     /* the index of the word after --host; 0: there is none */
} launch;

bool fedworker_launched(char address[128], uint8_t secret[FEDDC_SECRET]) {
    const char *where = getenv(ENV_DETECTOR), *hex = getenv(ENV_SECRET);
    if (where == NULL || hex == NULL || strlen(where) >= 128 ||
        fed_unhex(hex, secret, FEDDC_SECRET) != FED_OK) {
        return false;
    }
    memcpy(address, where, strlen(where) + 1);
    return true;
}

static bool is_one_of(const char *word, const char *const *list) {
    for (; *list != NULL; list++) {
        if (strcmp(word, *list) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_word(const launch *l, const char *word) {
    for (int k = 0; k < l->count; k++) {
        if (strcmp(l->own[k], word) == 0) {
            return true;
        }
    }
    return false;
}

static fed_status read_command(launch *l, fed_error *err) {
    static const char *const number[] = {"-n", "-np", "--np", "-c", NULL};
    static const char *const host[] = {"-H", "-host", "--host", NULL};
    if (l->count == 0 || l->count > MOST_WORDS) {
        return fed_fail(err, FED_EINVAL,
                        "launch needs a command of 1 to %d words: fedworker "
                        "launch --min 2 -- mpirun -n 4 fedworker train ...",
                        MOST_WORDS);
    }
    for (int k = 0; k < l->count; k++) {
        l->own[k] = l->words[k];
    }
    for (int k = 1; k + 1 < l->count && strcmp(l->words[k], "train") != 0; k++) {
        if (l->ranks_at == 0 && is_one_of(l->words[k], number) &&
            option_number(l->words[k + 1], '\0', 1, FEDDC_RANKS, &l->ranks) != NULL) {
            l->ranks_at = k + 1;
        } else if (l->hosts_at == 0 && is_one_of(l->words[k], host) &&
                   strlen(l->words[k + 1]) < sizeof l->hosts) {
            l->hosts_at = k + 1;
            memcpy(l->hosts, l->words[k + 1], strlen(l->words[k + 1]) + 1);
        }
    }
    if (l->ranks_at == 0) {
        return fed_fail(
            err, FED_EINVAL,
            "the command after -- has no possible number of ranks: write mpirun -n N ...");
    }
    if (l->min == 0) {
        l->min = l->ranks;
    }
    if (l->min > l->ranks) {
        return fed_fail(err, FED_EINVAL, "--min %u is more than the %u ranks of the command",
                        l->min, l->ranks);
    }
    return FED_OK;
}

static fed_status read_line(launch *l, int argc, char **argv, fed_error *err) {
    static const option_row rows[] = {
        {"min", OPTION_NUMBER, offsetof(launch, min), 1, FEDDC_RANKS, 1, NULL},
        {"detector", OPTION_TEXT, offsetof(launch, address), 0, 0, 1, NULL},
        /* the deprecated name of --detector */
        {"judge", OPTION_TEXT, offsetof(launch, address), 0, 0, 1, NULL},
    };
    int words = 0;
    FED_TRY(option_table_read(rows, sizeof rows / sizeof rows[0], 1, argc, argv, l, &words, err));
    l->words = argv + words;
    l->count = argc - words;
    return read_command(l, err);
}

/* Take one host out of the list: without host b, "a,b:2,c" is "a,c". */
static void take_host_out(launch *l, const char *host) {
    char left[sizeof l->hosts];
    size_t len = 0, named = strlen(host);
    for (const char *at = l->hosts; *at != '\0';) {
        size_t n = strcspn(at, ",");
        bool lost = strncmp(at, host, named) == 0 && n >= named && (n == named || at[named] == ':');
        if (!lost) {
            len += len > 0;
            memcpy(left + len, at, n);
            len += n;
            left[len] = ',';
        }
        at += at[n] == ',' ? n + 1 : n;
    }
    if (len > 0) { /* the list is never emptied: mpirun then reports that its last host is lost */
        left[len] = '\0';
        memcpy(l->hosts, left, len + 1);
        l->own[l->hosts_at] = l->hosts;
    }
}

typedef struct try_of {
    feddc_detector *detector;
    pid_t pid;
    bool running;
    int status;
    int64_t verdict_ms;
} try_of;

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    interrupted = number;
}

static void say_verdict(void *user, const feddc_verdict *verdict) {
    (void)user;
    fprintf(stderr, "fedworker launch: %s\n", verdict->text);
}

static void say_refused(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "fedworker launch: %s\n", text);
}

static fed_status open_detector(const launch *l, try_of *t, fed_error *err) {
    uint8_t secret[FEDDC_SECRET];
    char hex[2 * FEDDC_SECRET + 1];
    if (fed_random(secret, sizeof secret) != FED_OK) {
        return fed_fail(err, FED_EIO, "the system gives no random bytes for a secret");
    }
    feddc_detector_options options = {.address = l->address,
                                      .secret = secret,
                                      .size = l->ranks,
                                      .join_ms = DETECTOR_MS,
                                      .verdict = say_verdict,
                                      .refused = say_refused};
    FED_TRY(feddc_detector_open(&options, &t->detector, err));
    fed_hex(secret, sizeof secret, hex);
    if (setenv(ENV_DETECTOR, feddc_detector_address(t->detector), 1) != 0 ||
        setenv(ENV_SECRET, hex, 1) != 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the job's environment");
    }
    return FED_OK;
}

static fed_status start(launch *l, try_of *t, fed_error *err) {
    int code = posix_spawnp(&t->pid, l->own[0], NULL, NULL, l->own, environ);
    if (code != 0) {
        return fed_fail(err, FED_EINVAL, "the command %.200s can't be started: %s", l->own[0],
                        strerror(code));
    }
    t->running = true;
    return FED_OK;
}

/* Return whether this try started the process. The process's environment must have the try's
 * secret, because the system may have given the id of an ended process to another one. */
static bool is_ours(uint32_t pid) {
    char path[40], text[64 * 1024];
    const char *secret = getenv(ENV_SECRET);
    (void)snprintf(path, sizeof path, "/proc/%u/environ", pid);
    FILE *file = fopen(path, "re");
    size_t len = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    text[len] = '\0';
    for (size_t at = 0; at < len; at += strlen(text + at) + 1) {
        if (strncmp(text + at, ENV_SECRET "=", sizeof ENV_SECRET) == 0) {
            return secret != NULL && strcmp(text + at + sizeof ENV_SECRET, secret) == 0;
        }
    }
    return false;
}

/* Kill the workers on this machine that are stopped or stuck. mpirun starts them in process groups
 * of their own, and only SIGKILL ends a stopped process. */
static void kill_members(try_of *t) {
    char own[64] = "";
    feddc_member_look look;
    (void)gethostname(own, sizeof own - 1);
    for (uint32_t k = 0; feddc_detector_member(t->detector, k, &look); k++) {
        bool stands = look.fate == FEDDC_STOPPED || look.fate == FEDDC_STUCK;
        if (stands && strcmp(look.host, own) == 0 && is_ours(look.pid)) {
            (void)kill((pid_t)look.pid, SIGKILL);
        }
    }
}

static void hurry(try_of *t, int64_t now) {
    int64_t since = now - t->verdict_ms;
    if (since > KILL_MS) {
        (void)kill(t->pid, SIGKILL);
        kill_members(t);
    } else if (since > TERM_MS) {
        (void)kill(t->pid, SIGTERM);
    }
}

static void attend(try_of *t) {
    bool asked = false;
    while (t->running) {
        feddc_detector_state state = feddc_detector_wait(t->detector, TURN_MS);
        int64_t now = fed_clock_monotonic_ms();
        if (interrupted != 0 && !asked) {
            feddc_detector_end(t->detector, "fedworker launch was stopped by a signal");
            (void)kill(t->pid, SIGTERM);
            asked = true;
        }
        if (state == FEDDC_ENDED && t->verdict_ms == 0) {
            t->verdict_ms = now;
        }
        if (t->verdict_ms > 0) {
            hurry(t, now);
        }
        pid_t got = waitpid(t->pid, &t->status, WNOHANG);
        t->running = got == 0 || (got < 0 && errno == EINTR);
        if (t->running && state != FEDDC_MEETING && state != FEDDC_TRAINING) {
            fed_sleep_ms(TURN_MS); /* when the job is over, feddc_detector_wait returns at once */
        }
    }
    kill_members(t);
}

typedef struct loss {
    uint32_t workers;
    feddc_fate fate;
    char host[64];
} loss;

static loss find_loss(feddc_detector *detector) {
    feddc_member_look look;
    loss lost = {0};
    for (uint32_t k = 0; lost.workers == 0 && feddc_detector_member(detector, k, &look); k++) {
        if (look.fate > FEDDC_FINISHED) {
            lost = (loss){.workers = 1, .fate = look.fate};
            memcpy(lost.host, look.host, sizeof lost.host);
        }
    }
    if (lost.fate == FEDDC_CUT_OFF) {
        lost.workers = 0;
        for (uint32_t k = 0; feddc_detector_member(detector, k, &look); k++) {
            lost.workers += strcmp(look.host, lost.host) == 0;
        }
    }
    return lost;
}

static void shrink(launch *l, const loss *lost) {
    static char resume[] = "--resume";
    l->ranks -= lost->workers;
    (void)snprintf(l->number, sizeof l->number, "%u", l->ranks);
    l->own[l->ranks_at] = l->number;
    if (l->hosts_at > 0 && lost->fate == FEDDC_CUT_OFF) {
        take_host_out(l, lost->host);
    }
    if (has_word(l, "--checkpoint") && !has_word(l, resume)) {
        l->own[l->count++] = resume;
        l->own[l->count] = NULL;
    }
}

static fed_status attempt(launch *l, loss *lost, int *code, fed_error *err) {
    try_of t = {0};
    fed_status status = open_detector(l, &t, err);
    if (status == FED_OK) {
        status = start(l, &t, err);
    }
    if (status == FED_OK) {
        attend(&t);
        *code = WIFEXITED(t.status) ? WEXITSTATUS(t.status) : 128 + WTERMSIG(t.status);
    }
    if (status == FED_OK && *code != 0) {
        (void)feddc_detector_wait(
            t.detector, 10 * TURN_MS); /* time for a verdict on ranks that ended just now */
        *lost = find_loss(t.detector);
        if (lost->workers > 0) {
            feddc_detector_look look;
            feddc_detector_see(t.detector, &look);
            status = fed_fail(err, FED_EIO, "%s", look.why);
        }
    }
    feddc_detector_close(t.detector);
    return status;
}

fed_status fedworker_launch(int argc, char **argv, int *code, fed_error *err) {
    launch l = {.address = "127.0.0.1:0"};
    FED_TRY(read_line(&l, argc, argv, err));
    interrupted = 0;
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    for (;;) {
        loss lost = {0};
        fed_status status = attempt(&l, &lost, code, err);
        if (lost.workers == 0 || lost.fate == FEDDC_GAVE_UP || interrupted != 0 ||
            l.ranks < l.min + lost.workers) {
            return status;
        }
        shrink(&l, &lost);
        fprintf(stderr, "fedworker launch: the job is started again with %u workers\n", l.ranks);
    }
}
