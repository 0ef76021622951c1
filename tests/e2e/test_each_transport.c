/* For each transport of this build, a coordinator and two devices train a task to its end, with
 * real programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fedclient/transport.h"

enum { DEVICES = 2 };

/* The model is large enough for uploads with Expect: 100-continue. Devices check the digest of each
 * version. */
static const char task[] =
    "{\"model\": \"lenet5-caffe\", \"codec_up\": \"float32\", \"codec_down\": \"3lc\","
    " \"local_steps\": 2, \"batch\": 8, \"learning_rate\": 0.05, \"rounds\": 4, \"cohort\": 2,"
    " \"phases\": [{\"round\": 2, \"codec_up\": \"eden:p=0.008\", \"codec_down\": \"eden\"},"
    "  {\"round\": 3, \"codec_up\": \"eden:p=0.008,scale=tensor\","
    "   \"codec_down\": \"eden:p=0.05\"}]}";

typedef struct world {
    char directory[256], url[64];
    fed_coordinator home;
} world;

static void start_world(world *w) {
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->home, w->directory, "home");
    fed_digits_write(w->directory, 200, 50);
    (void)fed_operator_task(w->home.directory, w->directory, task);
    snprintf(w->url, sizeof w->url, "https://127.0.0.1:%u", w->home.front);
}

static void log_path(const world *w, int k, char path[320]) {
    snprintf(path, 320, "%s/log%d", w->directory, k);
}

static pid_t start_device(const world *w, int k, const char *transport) {
    char token[FEDSERVER_TOKEN], ca[340], state[320], log[320], shard[16];
    fed_coordinator_token(&w->home, token);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->home.directory);
    snprintf(state, sizeof state, "%s/device%d", w->directory, k);
    snprintf(shard, sizeof shard, "%d/%d", k, DEVICES);
    log_path(w, k, log);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        execl(FED_BIN_DIR "/fedclientd", "fedclientd", "--server", w->url, "--ca", ca, "--state",
              state, "--data", w->directory, "--shard", shard, "--token", token, "--transport",
              transport, "--until-finished", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void assert_finished(const world *w, int k, pid_t pid) {
    char path[320];
    uint8_t *log = NULL;
    size_t len = 0;
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    log_path(w, k, path);
    assert_fed_ok(fed_file_read(path, 1 << 20, &log, &len, NULL));
    if (how != 0 || strstr((char *)log, "the task is finished; its model is version 4") == NULL) {
        fail_msg("device %d did not finish the task: %s", k, (char *)log);
    }
    free(log);
}

static bool is_built(const char *transport) {
    const char *name = NULL;
    for (size_t k = 0; (name = fedclient_transport_name(k)) != NULL; k++) {
        if (strcmp(name, transport) == 0) {
            return true;
        }
    }
    return false;
}

static void train_over(const char *transport) {
    static world w;
    pid_t devices[DEVICES];
    if (!is_built(transport)) {
        print_message("skipped: this build has no transport \"%s\"; cmake's output says why\n",
                      transport);
        skip();
    }
    start_world(&w);
    for (int k = 0; k < DEVICES; k++) {
        devices[k] = start_device(&w, k, transport);
    }
    for (int k = 0; k < DEVICES; k++) {
        assert_finished(&w, k, devices[k]);
    }
    fed_coordinator_close(&w.home);
    fed_test_rmdir(w.directory);
}

FED_TEST(two_devices_train_over_curl) {
    train_over("curl");
}

FED_TEST(two_devices_train_over_mbedtls) {
    train_over("mbedtls");
}
