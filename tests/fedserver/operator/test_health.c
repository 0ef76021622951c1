/* The health check of a coordinator that serves, hangs, has died or never existed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deploy/sim/clients/coordinator.h"
#include "fed/clock.h"
#include "fedserver/operator.h"

/* Wait until the coordinator is healthy. The coordinator opens its ports a moment before the socket
 * in its directory. */
static void await_health(const char *directory) {
    enum { TRIES = 6000, PAUSE_MS = 10 };
    fed_error err = {0};
    for (int k = 0; k < TRIES; k++) {
        if (fedserver_health(directory, &err) == FED_OK) {
            return;
        }
        fed_sleep_ms(PAUSE_MS);
    }
    fail_msg("the coordinator does not become healthy: %s", err.text);
}

static int setup(void **state) {
    static const char task[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}";
    static char dir[256], file[300];
    static sim_coordinator c;
    fed_test_tmpdir(dir, sizeof dir);
    fed_test_put(dir, "task.json", task, strlen(task));
    snprintf(file, sizeof file, "%s/task.json", dir);
    const sim_options options = {
        .transport = SIM_HTTPS, .task = file, .fedserver = FED_BIN_DIR "/fedserver"};
    char token[1][FEDSERVER_TOKEN];
    fed_error err = {0};
    assert_fed_ok_err(sim_coordinator_prepare(&c, &options, 1, token, &err));
    assert_fed_ok_err(sim_coordinator_start(&c, &err));
    fed_test_rmdir(dir);
    await_health(c.directory);
    *state = &c;
    return 0;
}

static int teardown(void **state) {
    fed_error err = {0};
    assert_fed_ok_err(sim_coordinator_stop(*state, SIGKILL, &err));
    sim_coordinator_clean(*state);
    return 0;
}

static void one_that_serves_is_healthy(void **state) {
    const sim_coordinator *c = *state;
    fed_error err = {0};
    for (int k = 0; k < 8; k++) { /* more often than the relay has room for connections */
        assert_fed_ok_err(fedserver_health(c->directory, &err));
    }
}

static void one_that_hangs_is_not(void **state) {
    const sim_coordinator *c = *state;
    fed_error err = {0};
    assert_int_equal(kill(c->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(c->pid, NULL, WUNTRACED), c->pid); /* all of its threads stand now */
    const fed_status status = fedserver_health(c->directory, &err);
    assert_int_equal(kill(c->pid, SIGCONT), 0);
    assert_fed_fails(status, FED_EIO, "does not answer");
    assert_fed_ok_err(fedserver_health(c->directory, &err));
}

static void one_that_was_killed_is_not_though_its_socket_is_there(void **state) {
    sim_coordinator *c = *state;
    char path[600];
    fed_error err = {0};
    assert_fed_ok_err(sim_coordinator_stop(c, SIGKILL, &err));
    snprintf(path, sizeof path, "%s/front.sock", c->directory);
    assert_int_equal(access(path, F_OK), 0);
    assert_fed_fails(fedserver_health(c->directory, &err), FED_EIO, "nobody serves");
}

static void a_directory_that_is_empty_or_absent_is_not(void) {
    char dir[256];
    fed_error err = {0};
    fed_test_tmpdir(dir, sizeof dir);
    assert_fed_fails(fedserver_health(dir, &err), FED_EIO, "fedserver init");
    fed_test_rmdir(dir);
    assert_fed_fails(fedserver_health(dir, &err), FED_EIO, dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_serves_is_healthy, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_hangs_is_not, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_killed_is_not_though_its_socket_is_there,
                                        setup, teardown),
        fed_unit_test(a_directory_that_is_empty_or_absent_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
