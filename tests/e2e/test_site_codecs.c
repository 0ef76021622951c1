/* An edge aggregator with two devices, all of them real programs. Updates of a device, and those of
 * the edge aggregator, travel in eden with less than a bit a value. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fed_port.h"

enum { DEVICES = 2, SITE = DEVICES, PROGRAMS, POLL_MS = 50, LIMIT_MS = 120000 };

static const char task[] =
    "{\"model\": \"lr\", \"codec_up\": \"eden:p=0.008\", \"codec_down\": \"eden\", \"rounds\": 3,"
    " \"cohort\": 1, \"local_steps\": 4, \"batch\": 8, \"learning_rate\": 0.05,"
    " \"phases\": [{\"round\": 3, \"codec_up\": \"eden:p=0.008,scale=tensor\"}]}";

typedef struct world {
    char directory[256], site[300];
    fed_coordinator upstream;
    uint16_t front, devices; /* the edge aggregator's ports */
    pid_t programs[PROGRAMS];
} world;

static int setup(void **state) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    fed_error err = {0};
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->upstream, w->directory, "upstream");
    fed_digits_write(w->directory, 200, 50);
    (void)fed_operator_task(w->upstream.directory, w->directory, task);
    snprintf(w->site, sizeof w->site, "%s/site", w->directory);
    w->front = fed_port_keep();
    w->devices = fed_port_keep();
    assert_fed_ok_err(fedserver_init(w->site, &(fedserver_init_options){.hosts = hosts}, &err));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (int k = 0; k < PROGRAMS; k++) {
        if (w->programs[k] > 0) {
            kill(w->programs[k], SIGKILL);
            waitpid(w->programs[k], NULL, 0);
        }
    }
    fed_coordinator_close(&w->upstream);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void log_path(const world *w, int k, char path[320]) {
    snprintf(path, 320, "%s/log%d", w->directory, k);
}

/* args: the program's path, then its arguments up to NULL. */
static void start(world *w, int k, const char *const args[]) {
    char log[320];
    log_path(w, k, log);
    w->programs[k] = fork();
    assert_true(w->programs[k] >= 0);
    if (w->programs[k] == 0) {
        const int out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
}

static void start_site(world *w) {
    char front[16], devices[16], url[64], ca[340], token[FEDSERVER_TOKEN];
    fed_coordinator_token(&w->upstream, token);
    snprintf(front, sizeof front, "%u", w->front);
    snprintf(devices, sizeof devices, "%u", w->devices);
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->upstream.front);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->upstream.directory);
    start(w, SITE,
          (const char *[]){FED_BIN_DIR "/fedserver", "run", "--dir", w->site, "--front-port", front,
                           "--devices-port", devices, "--upstream", url, "--upstream-ca", ca,
                           "--upstream-token", token, "--edge-cohort", "2", "--edge-minimum", "2",
                           NULL});
}

static void start_device(world *w, int k) {
    char url[64], ca[340], state[320], shard[16], token[FEDSERVER_TOKEN];
    const fedserver_grant grant = {.ttl_s = 3600};
    fed_operator_token(w->site, &grant, token);
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->front);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->site);
    snprintf(state, sizeof state, "%s/device%d", w->directory, k);
    snprintf(shard, sizeof shard, "%d/%d", k, DEVICES);
    start(w, k,
          (const char *[]){FED_BIN_DIR "/fedclientd", "--server", url, "--ca", ca, "--state", state,
                           "--data", w->directory, "--shard", shard, "--token", token, NULL});
}

static void fail_with_logs(const world *w, const char *why) {
    for (int k = 0; k < PROGRAMS; k++) {
        char path[320];
        uint8_t *text = NULL;
        size_t len = 0;
        log_path(w, k, path);
        if (fed_file_read(path, 1 << 20, &text, &len, NULL) == FED_OK) {
            printf("---- program %d\n%s", k, (const char *)text);
        }
        free(text);
    }
    fail_msg("%s", why);
}

FED_TEST_WITH(an_edge_aggregator_and_its_devices_send_less_than_a_bit_a_value, world *w) {
    char args[400], out[2000] = "";
    start_site(w);
    for (int k = 0; k < DEVICES; k++) {
        start_device(w, k);
    }
    snprintf(args, sizeof args, "tasks --dir '%s'", w->upstream.directory);
    const int64_t limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    while (strstr(out, "1  finished") == NULL) {
        if (fed_clock_monotonic_ms() > limit_ms) {
            fail_with_logs(w, "the task did not end");
        }
        fed_sleep_ms(POLL_MS);
        assert_int_equal(fed_test_run("/", "fedserver", args, out, sizeof out), 0);
    }
    assert_non_null(strstr(out, "3 of 3 rounds"));
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
