/* fedclientd --device: a device of a federation that computes on a GPU, and says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_coordinator.h"
#include "fed_digits.h"
#include "fed_test.h"
#include "fed_test_gpu.h"

typedef struct world {
    char directory[256], log[300];
    fed_coordinator coordinator;
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->coordinator, w->directory, "coordinator");
    fed_digits_write(w->directory, 500, 200);
    snprintf(w->log, sizeof w->log, "%s/log", w->directory);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_coordinator_close(&w->coordinator);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void queue(world *w, const char *json) {
    char path[320];
    fed_error err = {0};
    uint64_t id = 0;
    fedserver *server = NULL;
    snprintf(path, sizeof path, "%s/task.json", w->directory);
    assert_fed_ok_err(fed_file_replace(path, json, strlen(json), 0600, &err));
    fed_coordinator_stop(&w->coordinator);
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_task_add(server, fed_clock_unix_ms(), path, &id, &err));
    fedserver_close(server);
    fed_coordinator_start(&w->coordinator);
}

/* Run fedclientd on that device until all tasks are finished, or for 60 s. Its output is in the
 * log. */
static int run(const world *w, const char *device) {
    char token[FEDSERVER_TOKEN], url[64], ca[320], state[300];
    int how = 0;
    fed_coordinator_token(&w->coordinator, token);
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->coordinator.front);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->coordinator.directory);
    snprintf(state, sizeof state, "%s/state", w->directory);
    const pid_t pid = fork();
    if (pid == 0) {
        int log = open(w->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        alarm(60);
        execl(FED_BIN_DIR "/fedclientd", "fedclientd", "--server", url, "--ca", ca, "--state",
              state, "--data", w->directory, "--token", token, "--until-finished", "--device",
              device, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void assert_logged(const world *w, const char *text) {
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(fed_file_read(w->log, 1 << 20, &data, &len, NULL));
    if (strstr((const char *)data, text) == NULL) {
        fail_msg("no \"%s\" in: %s", text, (char *)data);
    }
    free(data);
}

static void a_device_that_is_not_there_is_refused_before_it_enrols(void **state) {
    const world *w = *state;
    char path[320];
    assert_int_equal(run(w, "opencl:99"), 1);
    assert_logged(w, "--device opencl:99: ");
    assert_int_equal(run(w, "toaster"), 2);
    assert_logged(w, "--device toaster: a device is called gpu, opencl:0 or cuda:0");
    snprintf(path, sizeof path, "%s/state", w->directory);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* The name of the GPU of the tests; without one the test is skipped. */
static void need_gpu(char name[FED_GPU_NAME]) {
    int status = 0;
    fed_gpu *gpu = fed_test_gpu(&status);
    if (gpu == NULL) {
        assert_int_equal(status, FED_TEST_SKIPPED);
        skip();
    }
    snprintf(name, FED_GPU_NAME, "%s", fed_gpu_info_of(gpu)->name);
    fed_gpu_close(gpu);
}

static fed_status take_entry(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    *(fedserver_entry *)user = *entry;
    return FED_OK;
}

static void it_trains_there_and_the_operator_sees_where(void **state) {
    world *w = *state;
    char name[FED_GPU_NAME];
    fed_error err = {0};
    fedserver *server = NULL;
    fedserver_entry entry = {.name = ""};
    need_gpu(name);
    queue(w, "{ \"model\": \"input 1x28x28 | dense 16 | relu | dense 10\", \"rounds\": 3,\n"
             "  \"codec_up\": \"sbc:p=0.05\", \"optimizer\": \"momentum\", \"cohort\": 1,\n"
             "  \"local_steps\": 20, \"learning_rate\": 0.1 }\n");
    assert_int_equal(run(w, name), 0);
    assert_logged(w, "round 3: update counted");
    assert_logged(w, ", computes on ");
    fed_coordinator_stop(&w->coordinator);
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_device_each(server, fed_clock_unix_ms(), take_entry, &entry, &err));
    assert_int_equal(strncmp(entry.computes_on, name, strlen(name)), 0);
    assert_int_equal(entry.counted, 3);
    fedserver_close(server);
    fed_coordinator_start(&w->coordinator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_device_that_is_not_there_is_refused_before_it_enrols,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(it_trains_there_and_the_operator_sees_where, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
