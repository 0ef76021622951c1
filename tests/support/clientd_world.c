/* Runs fedclientd in tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "clientd_world.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_digits.h"
#include "fed_operator.h"

int clientd_setup(void **state) {
    clientd_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->coordinator, w->directory, "coordinator");
    fed_digits_write(w->directory, 500, 200);
    snprintf(w->state, sizeof w->state, "%s/state", w->directory);
    snprintf(w->log, sizeof w->log, "%s/log", w->directory);
    snprintf(w->ca, sizeof w->ca, "%s/ca.pem", w->coordinator.directory);
    fed_coordinator_token(&w->coordinator, w->token);
    snprintf(w->url, sizeof w->url, "https://127.0.0.1:%u", w->coordinator.front);
    *state = w;
    return 0;
}

int clientd_teardown(void **state) {
    clientd_world *w = *state;
    fed_coordinator_close(&w->coordinator);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

void clientd_queue(clientd_world *w, const char *json) {
    fed_coordinator_stop(&w->coordinator);
    (void)fed_operator_task(w->coordinator.directory, w->directory, json);
    fed_coordinator_start(&w->coordinator);
}

pid_t clientd_spawn(const clientd_world *w, const char *const *more) {
    const char *args[32] = {FED_BIN_DIR "/fedclientd",
                            "--server",
                            w->url,
                            "--ca",
                            w->ca,
                            "--state",
                            w->state,
                            "--data",
                            w->directory};
    for (size_t n = 9; *more != NULL; n++) {
        /* The test's own --server replaces the default one. */
        const bool other = strcmp(*more, "--server") == 0;
        args[other ? 1 : n] = *more++;
        if (other) {
            args[2] = *more++;
            n--;
        }
    }
    pid_t pid = fork();
    if (pid == 0) {
        int log = open(w->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        alarm(300);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    return pid;
}

int clientd_wait(pid_t pid) {
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

void clientd_end(pid_t pid, int signal) {
    kill(pid, signal);
    assert_int_equal(clientd_wait(pid), 0);
}

bool clientd_says(const clientd_world *w, const char *text) {
    uint8_t *data = NULL;
    size_t len = 0;
    bool says = fed_file_read(w->log, 1 << 20, &data, &len, NULL) == FED_OK &&
                strstr((const char *)data, text) != NULL;
    free(data);
    return says;
}

void clientd_wait_for(const clientd_world *w, pid_t pid, const char *text) {
    while (!clientd_says(w, text)) {
        if (waitpid(pid, NULL, WNOHANG) != 0) {
            fail_msg("fedclientd has ended without printing \"%s\"", text);
        }
        fed_sleep_ms(5);
    }
}

void clientd_run(const clientd_world *w, const char *const *more, int wanted, const char *text) {
    int status = clientd_wait(clientd_spawn(w, more));
    if (status != wanted || !clientd_says(w, text)) {
        uint8_t *data = NULL;
        size_t len = 0;
        assert_fed_ok(fed_file_read(w->log, 1 << 20, &data, &len, NULL));
        fail_msg("fedclientd ended with status %d; wanted: %d, and \"%s\" in its log: %s", status,
                 wanted, text, (char *)data);
    }
}
