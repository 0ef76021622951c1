/* A private task with its helper, all as programs, of which some are killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fed_program.h"
#include "fedserver/privacy/helper_state.h"

enum { LIMIT_MS = 240 * 1000, DEVICES = 3, ROUNDS = 40, MOST = 4 << 20, WORDS = 20 };

typedef struct world {
    fed_program p;
    char home[300], ca[320], out[300], log[300], helper_log[300], url[64];
    unsigned front, devices; /* ports; 0: not known yet */
    char helper_token[FEDSERVER_TOKEN], token[DEVICES][FEDSERVER_TOKEN];
} world;

static int setup(void **state) {
    static world w;
    w.front = w.devices = 0;
    fed_program_open(&w.p, "fedserver");
    snprintf(w.home, sizeof w.home, "%s/c", w.p.directory);
    snprintf(w.ca, sizeof w.ca, "%s/ca.pem", w.home);
    snprintf(w.out, sizeof w.out, "%s/out", w.p.directory);
    snprintf(w.log, sizeof w.log, "%s/log", w.p.directory);
    snprintf(w.helper_log, sizeof w.helper_log, "%s/helper.log", w.p.directory);
    fed_digits_write(w.p.directory, 300, 20);
    assert_runs(&w.p, "init --dir c --host 127.0.0.1", 0, "");
    const fedserver_grant device = {.ttl_s = 3600, .role = FEDSERVER_ROLE_DEVICE};
    const fedserver_grant helper = {.ttl_s = 3600, .role = FEDSERVER_ROLE_HELPER};
    for (size_t k = 0; k < DEVICES; k++) {
        fed_operator_token(w.home, &device, w.token[k]);
    }
    fed_operator_token(w.home, &helper, w.helper_token);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_program_close(&w->p);
    return 0;
}

static pid_t spawn(const char *const *args, const char *out, const char *log) {
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
        alarm(300);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    return pid;
}

static void kill_it(pid_t pid) {
    int how = 0;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
}

/* Return the contents of a file as a text; "": there is no file yet. The caller frees it. */
static char *text_of(const char *path) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (fed_file_read(path, MOST, &bytes, &len, NULL) != FED_OK) {
        bytes = calloc(1, 1);
    }
    assert_non_null(bytes);
    return (char *)bytes;
}

/* Return the number in the last line with these words, as in "round 7: closes with"; 0: none. */
static unsigned last_round(const char *log, const char *words) {
    char *text = text_of(log);
    unsigned round = 0;
    for (char *at = text; (at = strstr(at, "round ")) != NULL; at++) {
        char *end = NULL;
        const unsigned number = (unsigned)strtoul(at + 6, &end, 10);
        if (strncmp(end, words, strlen(words)) == 0) {
            round = number;
        }
    }
    free(text);
    return round;
}

static size_t count(const char *log, const char *words) {
    char *text = text_of(log);
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        found++;
    }
    free(text);
    return found;
}

static void pause_until(int64_t until_ms) {
    assert_true(fed_clock_monotonic_ms() < until_ms);
    fed_sleep_ms(10);
}

static void await(const char *log, const char *words) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    while (count(log, words) == 0) {
        pause_until(until_ms);
    }
}

static pid_t start_coordinator(world *w) {
    char front[12], devices[12];
    snprintf(front, sizeof front, "%u", w->front);
    snprintf(devices, sizeof devices, "%u", w->devices);
    const char *const args[] = {
        FED_BIN_DIR "/fedserver", "run",   "--dir", w->home, "--front-port", front,
        "--devices-port",         devices, NULL};
    (void)unlink(w->out);
    const pid_t pid = spawn(args, w->out, w->log);
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    for (bool ready = false; !ready;) {
        char *text = text_of(w->out);
        ready = sscanf(text, "front https://127.0.0.1:%u/ devices https://127.0.0.1:%u", &w->front,
                       &w->devices) == 2;
        free(text);
        if (!ready) {
            pause_until(until_ms);
        }
    }
    snprintf(w->url, sizeof w->url, "https://127.0.0.1:%u", w->front);
    return pid;
}

/* token: NULL: the helper is enrolled already. */
static pid_t start_helper(const world *w, const char *token) {
    char directory[300], out[300];
    snprintf(directory, sizeof directory, "%s/h", w->p.directory);
    snprintf(out, sizeof out, "%s/helper.out", w->p.directory);
    const char *const args[WORDS] = {FED_BIN_DIR "/fedserver",
                                     "helper",
                                     "--dir",
                                     directory,
                                     "--upstream",
                                     w->url,
                                     "--upstream-ca",
                                     w->ca,
                                     "--least",
                                     "2",
                                     token != NULL ? "--upstream-token" : NULL,
                                     token,
                                     NULL};
    return spawn(args, out, w->helper_log);
}

/* Wait for the helper's key, and queue a task that names it. rest: further keys. */
static void queue_task(world *w, const char *rest) {
    char path[320], json[800];
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    snprintf(path, sizeof path, "%s/h/helper.pem", w->p.directory);
    while (access(path, R_OK) != 0) {
        pause_until(until_ms);
    }
    char *key = text_of(path);
    snprintf(json, sizeof json,
             "{\"model\": \"lr\", \"rounds\": %d, \"cohort\": %d, \"minimum\": %d,\n"
             " \"deadline_s\": 600, \"local_steps\": 2, \"codec_up\": \"ring:b=5\", \"clip\": 1,\n"
             " \"codec_down\": \"float32\", \"helper\": \"%s\"%s}\n",
             ROUNDS, DEVICES, DEVICES, key, rest);
    free(key);
    fed_test_put(w->p.directory, "task.json", json, strlen(json));
    assert_runs(&w->p, "task --dir c task.json", 0, "task 1 is queued");
}

static pid_t start_device(const world *w, unsigned k) {
    char state[320], shard[16], out[320], log[320];
    snprintf(state, sizeof state, "%s/device%u", w->p.directory, k);
    snprintf(out, sizeof out, "%s/device%u.out", w->p.directory, k);
    snprintf(log, sizeof log, "%s/device%u.log", w->p.directory, k);
    snprintf(shard, sizeof shard, "%u/%d", k, DEVICES);
    const char *const args[] = {FED_BIN_DIR "/fedclientd",
                                "--server",
                                w->url,
                                "--ca",
                                w->ca,
                                "--state",
                                state,
                                "--data",
                                w->p.directory,
                                "--shard",
                                shard,
                                "--token",
                                w->token[k],
                                "--until-finished",
                                NULL};
    return spawn(args, out, log);
}

/* Wait until a round closes and can't commit, as nobody opens it. */
static unsigned await_a_closed_round(const world *w) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    unsigned closes = 0;
    while ((closes = last_round(w->log, ": closes with")) <=
           last_round(w->log, ": committed with")) {
        pause_until(until_ms);
    }
    return closes;
}

FED_TEST_WITH(helper_and_coordinator_are_killed_and_each_round_commits_once, world *w) {
    pid_t device[DEVICES];
    pid_t coordinator = start_coordinator(w), helper = start_helper(w, w->helper_token);
    queue_task(w, "");
    for (unsigned k = 0; k < DEVICES; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    kill_it(helper);
    const unsigned closed = await_a_closed_round(w);
    kill_it(coordinator);
    coordinator = start_coordinator(w);
    assert_true(last_round(w->log, ": committed with") < closed);
    char key[320];
    snprintf(key, sizeof key, "%s/h/helper.pem", w->p.directory);
    assert_int_equal(unlink(key), 0); /* as if the first start had ended before it was written */
    helper = start_helper(w, NULL);
    for (unsigned k = 0; k < DEVICES; k++) {
        int how = 0;
        assert_int_equal(waitpid(device[k], &how, 0), device[k]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_int_equal(count(w->log, ": committed with 3 updates"), ROUNDS);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    assert_true(count(w->helper_log, "a sum of 3 devices") >= ROUNDS);
    assert_int_equal(access(key, R_OK), 0);
    kill_it(helper);
    kill_it(coordinator);
}

/* Of how many rounds, from the first on, does the helper's store have the row? */
static unsigned rounds_opened(const world *w) {
    char path[320];
    fed_error err = {0};
    fedserver_helper_state *state = NULL;
    unsigned rounds = 0;
    snprintf(path, sizeof path, "%s/h/helper.db", w->p.directory);
    assert_fed_ok_err(fedserver_helper_state_open(path, &state, &err));
    for (bool found = true; found; rounds += found) {
        uint8_t set[FED_SHA256_SIZE];
        const fedserver_opened which = {.task = 1, .round = rounds + 1};
        assert_fed_ok_err(fedserver_helper_state_find(state, &which, &found, set, &err));
    }
    fedserver_helper_state_close(state);
    return rounds;
}

/* The helper dies again and again, wherever it is. A round that the coordinator has was charged at
 * the helper before, and no charge is taken twice: the last round needs the last one. */
FED_TEST_WITH(a_helper_that_adds_noise_is_killed_often_and_charges_each_round_once, world *w) {
    enum { KILLS = 12 };
    char rest[200];
    pid_t device[DEVICES];
    pid_t coordinator = start_coordinator(w), helper = start_helper(w, w->helper_token);
    snprintf(rest, sizeof rest, ", \"epsilon\": 50, \"delta\": 1e-5, \"participations\": %d",
             ROUNDS);
    queue_task(w, rest);
    for (unsigned k = 0; k < DEVICES; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    for (unsigned k = 0; k < KILLS; k++) {
        const size_t opened = count(w->helper_log, "a sum of 3 devices");
        const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
        while (count(w->helper_log, "a sum of 3 devices") == opened && opened < ROUNDS) {
            pause_until(until_ms);
        }
        fed_sleep_ms(17 * k); /* before the answer leaves, while it does, and after it */
        kill_it(helper);
        const unsigned committed = last_round(w->log, ": committed with");
        assert_true(rounds_opened(w) >= committed);
        helper = start_helper(w, NULL);
    }
    for (unsigned k = 0; k < DEVICES; k++) {
        int how = 0;
        assert_int_equal(waitpid(device[k], &how, 0), device[k]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_int_equal(count(w->log, ": committed with 3 updates"), ROUNDS);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    kill_it(helper);
    assert_int_equal(rounds_opened(w), ROUNDS);
    kill_it(coordinator);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
