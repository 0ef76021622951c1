/* What `fedserver run` tells a service manager such as systemd: that it serves, is alive, and
 * ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "deploy/sim/clients/coordinator.h"

static int listen_as_manager(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = 60};
    const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_true(fd >= 0 && strlen(path) < sizeof address.sun_path);
    strcpy(address.sun_path, path);
    assert_int_equal(bind(fd, (const void *)&address, sizeof address), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

static void assert_next(int fd, const char *expected) {
    char text[100] = "";
    assert_true(recv(fd, text, sizeof text - 1, 0) > 0);
    assert_string_equal(text, expected);
}

FED_TEST(run_says_that_it_serves_lives_and_ends) {
    static const char task[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}";
    char dir[256], path[300], file[300];
    fed_test_tmpdir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/notify", dir);
    const int fd = listen_as_manager(path);
    assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "300000", 1), 0);
    fed_test_put(dir, "task.json", task, strlen(task));
    snprintf(file, sizeof file, "%s/task.json", dir);
    const sim_options options = {
        .transport = SIM_HTTPS, .task = file, .fedserver = FED_BIN_DIR "/fedserver"};
    sim_coordinator c;
    char token[1][FEDSERVER_TOKEN];
    fed_error err = {0};
    assert_fed_ok_err(sim_coordinator_prepare(&c, &options, 1, token, &err));
    assert_fed_ok_err(sim_coordinator_start(&c, &err));
    assert_next(fd, "READY=1");
    for (int k = 0; k < 5; k++) {
        assert_next(fd, "WATCHDOG=1");
    }
    assert_fed_ok_err(sim_coordinator_stop(&c, SIGTERM, &err));
    char text[100] = "";
    while (strcmp(text, "STOPPING=1") != 0) {
        memset(text, 0, sizeof text);
        assert_true(recv(fd, text, sizeof text - 1, 0) > 0);
        assert_true(strcmp(text, "WATCHDOG=1") == 0 || strcmp(text, "STOPPING=1") == 0);
    }
    sim_coordinator_clean(&c);
    close(fd);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    fed_test_rmdir(dir);
}
