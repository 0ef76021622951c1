/* Starts `fedserver helper` for a run, and ends it. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for wait4 */
#include "deploy/sim/https/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deploy/sim/scenario/helper_key.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"

enum { TOKEN_LIFE_S = 24 * 3600, PATH = 700 };

typedef struct words {
    char url[64], ca[PATH], token[FEDSERVER_TOKEN], log[PATH];
} words;

/** Remove what a helper has in its directory, and its directory. */
static void clear(const sim_helper_process *helper) {
    sim_coordinator files = {0};
    snprintf(files.directory, sizeof files.directory, "%s/identity", helper->directory);
    sim_coordinator_empty(&files);
    snprintf(files.directory, sizeof files.directory, "%s", helper->directory);
    sim_coordinator_empty(&files);
}

/** Give the helper the key that the task names. */
static fed_status write_key(const char *directory, uint64_t seed, fed_error *err) {
    char path[PATH], hex[2 * FED_POINT_SECRET + 1];
    uint8_t secret[FED_POINT_SECRET], key[FED_SEAL_KEY];
    FED_TRY(sim_helper_key(seed, secret, key, err));
    fed_hex(secret, sizeof secret, hex);
    snprintf(path, sizeof path, "%s/helper.key", directory);
    return fed_file_replace(path, hex, strlen(hex), 0600, err);
}

static fed_status grant(const sim_coordinator *coordinator, char token[FEDSERVER_TOKEN],
                        fed_error *err) {
    const fedserver_grant wanted = {.ttl_s = TOKEN_LIFE_S, .role = FEDSERVER_ROLE_HELPER};
    fedserver *server = NULL;
    FED_TRY(fedserver_open(coordinator->directory, NULL, &server, err));
    const fed_status status =
        fedserver_token_grant(server, fed_clock_unix_ms(), &wanted, token, err);
    fedserver_close(server);
    return status;
}

/** In the child process: run the helper, with all its output in its log. */
static void exec_helper(const sim_helper_process *helper, const char *program, const words *w) {
    const int log = open(w->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const int terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* however the simulation ends, the helper ends, too */
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
        dprintf(terminal, "fedsim: can't write %s: %s\n", w->log, strerror(errno));
        _exit(127);
    }
    execlp(program, "fedserver", "helper", "--dir", helper->directory, "--upstream", w->url,
           "--upstream-ca", w->ca, "--upstream-token", w->token, "--least", "2", (char *)NULL);
    dprintf(terminal, "fedsim: can't run %s: %s\n", program, strerror(errno));
    _exit(127);
}

fed_status sim_helper_start(sim_helper_process *helper, const sim_coordinator *coordinator,
                            const sim_options *options, fed_error *err) {
    words w;
    if (!options->helper) {
        return FED_OK;
    }
    if (strlen(coordinator->directory) + sizeof "-helper" > sizeof helper->directory) {
        return fed_fail(err, FED_EINVAL,
                        "%s: this path is too long for a helper's directory beside "
                        "it; choose a shorter --out",
                        coordinator->directory);
    }
    strcat(strcpy(helper->directory, coordinator->directory), "-helper");
    clear(helper);
    FED_TRY(fed_dir_make(helper->directory, 0700, err));
    FED_TRY(write_key(helper->directory, options->seed, err));
    FED_TRY(grant(coordinator, w.token, err));
    snprintf(w.url, sizeof w.url, "https://127.0.0.1:%u", coordinator->front_port);
    snprintf(w.ca, sizeof w.ca, "%s/ca.pem", coordinator->directory);
    snprintf(w.log, sizeof w.log, "%s/helper.log", helper->directory);
    helper->pid = fork();
    if (helper->pid == 0) {
        exec_helper(helper, coordinator->program, &w);
    }
    if (helper->pid < 0) {
        helper->pid = 0;
        return fed_fail(err, FED_EIO, "can't start the helper: %s", strerror(errno));
    }
    return FED_OK;
}

static void note_end(sim_helper_process *helper, const struct rusage *used) {
    helper->pid = 0;
    helper->cpu_s += (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
                     1e-6 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

fed_status sim_helper_alive(sim_helper_process *helper, fed_error *err) {
    struct rusage used;
    int how = 0;
    if (helper->pid == 0 || wait4(helper->pid, &how, WNOHANG, &used) != helper->pid) {
        return FED_OK;
    }
    note_end(helper, &used);
    return fed_fail(err, FED_EIO, "the helper ended before the task did; %s/helper.log says why",
                    helper->directory);
}

void sim_helper_stop(sim_helper_process *helper, const sim_coordinator *coordinator) {
    struct rusage used;
    int how = 0;
    if (helper->pid > 0) {
        kill(helper->pid, SIGTERM);
        while (wait4(helper->pid, &how, 0, &used) < 0 && errno == EINTR) {
        }
        note_end(helper, &used);
    }
    if (helper->directory[0] != '\0' && coordinator->temporary) {
        clear(helper);
    }
}
