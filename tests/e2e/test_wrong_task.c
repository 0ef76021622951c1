/* A task that fits no device has a higher priority than one that fits. Each device must say why it
 * declines, and the other task must be trained to its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_coordinator.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fed_test.h"

enum { DEVICES = 2, PATIENCE_MS = 120000 };

typedef struct world {
    char directory[256];
    fed_coordinator coordinator;
    pid_t devices[DEVICES];
} world;

static pid_t start_device(const world *w, int k) {
    char url[64], ca[320], state[320], log[320], token[FEDSERVER_TOKEN];
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->coordinator.front);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->coordinator.directory);
    snprintf(state, sizeof state, "%s/state%d", w->directory, k);
    snprintf(log, sizeof log, "%s/log%d", w->directory, k);
    fed_coordinator_token(&w->coordinator, token);
    const char *const args[] = {FED_BIN_DIR "/fedclientd",
                                "--server",
                                url,
                                "--ca",
                                ca,
                                "--state",
                                state,
                                "--data",
                                w->directory,
                                "--token",
                                token,
                                NULL};
    const pid_t pid = fork();
    if (pid == 0) {
        const int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static fed_status keep(void *user, const fedserver_task_entry *entry, fed_error *err) {
    fedserver_task_entry *entries = user;
    (void)err;
    assert_true(entry->id == 1 || entry->id == 2);
    entries[entry->id - 1] = *entry;
    return FED_OK;
}

static void list(const world *w, fedserver_task_entry entries[2]) {
    fed_error err = {0};
    fedserver *server = NULL;
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_task_each(server, fed_clock_unix_ms(), keep, entries, &err));
    fedserver_close(server);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_digits_write(w->directory, 500, 200);
    fed_coordinator_open(&w->coordinator, w->directory, "coordinator");
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (int k = 0; k < DEVICES; k++) {
        if (w->devices[k] > 0) {
            (void)kill(w->devices[k], SIGKILL);
            (void)waitpid(w->devices[k], NULL, 0);
        }
    }
    fed_coordinator_close(&w->coordinator);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void a_task_that_fits_no_device_holds_up_nobody(void **state) {
    world *w = *state;
    fedserver_task_entry entries[2] = {0};
    (void)fed_operator_task(w->coordinator.directory, w->directory,
                            "{\"model\": \"resnet20\", \"rounds\": 3, \"cohort\": 2,"
                            " \"deadline_s\": 1, \"priority\": 9}");
    (void)fed_operator_task(
        w->coordinator.directory, w->directory,
        "{\"model\": \"lr\", \"rounds\": 2, \"cohort\": 2, \"deadline_s\": 60}");
    for (int k = 0; k < DEVICES; k++) {
        w->devices[k] = start_device(w, k);
    }
    const int64_t limit_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    do {
        fed_sleep_ms(50);
        list(w, entries);
    } while (entries[1].state != FEDSERVER_TASK_FINISHED && fed_clock_monotonic_ms() < limit_ms);
    assert_int_equal(entries[1].state, FEDSERVER_TASK_FINISHED);
    assert_int_equal(entries[1].version, 2);
    assert_int_equal(entries[1].declined, 0);
    assert_int_equal(entries[0].version, 0);
    assert_int_equal(entries[0].declined, DEVICES);
    assert_non_null(strstr(entries[0].reasons[0].text, "784"));
    assert_non_null(strstr(entries[0].reasons[0].text, "3072"));
    for (int k = 0; k < DEVICES; k++) {
        assert_int_equal(waitpid(w->devices[k], NULL, WNOHANG), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_task_that_fits_no_device_holds_up_nobody, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
