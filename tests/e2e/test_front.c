/* The front as a process: it alone needs the CA's key, it is restarted, and it ends with its
 * parent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deploy/sim/clients/coordinator.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fed_curl.h"

enum { TOKENS = 6, TRIES = 500, PAUSE_MS = 20 };

typedef struct world {
    char directory[300], task[400];
    sim_coordinator coordinator;
    char token[TOKENS][FEDSERVER_TOKEN];
    int tokens_used;
} world;

static int setup(void **state) {
    static world w;
    static const char task[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}";
    fed_error err = {0};
    w = (world){.tokens_used = 0};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    snprintf(w.task, sizeof w.task, "%s/task.json", w.directory);
    fed_test_put(w.directory, "task.json", task, strlen(task));
    const sim_options options = {
        .transport = SIM_HTTPS, .task = w.task, .fedserver = FED_BIN_DIR "/fedserver"};
    assert_fed_ok_err(sim_coordinator_prepare(&w.coordinator, &options, TOKENS, w.token, &err));
    assert_fed_ok_err(sim_coordinator_start(&w.coordinator, &err));
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_error err = {0};
    const fed_status ended = sim_coordinator_stop(&w->coordinator, SIGTERM, &err);
    sim_coordinator_clean(&w->coordinator);
    fed_test_rmdir(w->directory);
    return ended == FED_OK ? 0 : 1;
}

/* Returns the HTTP status; 0: no answer came. */
static long enrol(world *w) {
    fed_identity who;
    const char *token = w->token[w->tokens_used++];
    return fed_curl_enrol(&w->coordinator.ca, w->coordinator.front_port, token, &who);
}

static void assert_status_says(const world *w, const char *words) {
    CURL *curl = fed_curl_new(&w->coordinator.ca, NULL, w->coordinator.front_port, "/v1/status");
    fed_curl_expect(curl, 200, words);
    curl_easy_cleanup(curl);
}

/* Has the process ended, perhaps as a zombie? */
static bool gone(pid_t pid) {
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        (void)!fscanf(file, "%*d %*s %c", &state);
        fclose(file);
    }
    return state == 'X' || state == 'Z';
}

FED_TEST_WITH(what_the_front_enrols_the_rounds_know_at_once, world *w) {
    assert_int_equal(enrol(w), 200);
    assert_status_says(w, "\"devices\":1");
    assert_int_equal(enrol(w), 200);
    assert_status_says(w, "\"devices\":2");
}

FED_TEST_WITH(a_status_that_has_not_changed_is_not_sent_again, world *w) {
    char line[100];
    CURL *curl = fed_curl_new(&w->coordinator.ca, NULL, w->coordinator.front_port, "/v1/status");
    fed_reply r = fed_curl_ask(curl);
    const char *tag = strstr(fed_reply_text(&r.headers), "ETag: ");
    assert_int_equal(r.status, 200);
    assert_non_null(tag);
    snprintf(line, sizeof line, "If-None-Match: %.*s", (int)strcspn(tag + 6, "\r"), tag + 6);
    fed_reply_free(&r);
    fed_curl_header(curl, line);
    fed_curl_expect(curl, 304, "");
    assert_int_equal(enrol(w), 200);
    assert_status_says(w, "\"devices\":1");
    fed_curl_expect(curl, 200, "\"devices\":1");
    fed_curl_close(curl);
}

static void queue_long_tasks(const world *w, size_t count) {
    static char json[5000] = "{\"rounds\": 1, \"cohort\": 1, \"model\": \"input 2";
    fed_error err = {0};
    fedserver *home = NULL;
    const size_t begin = strlen(json);
    for (size_t at = begin; at < begin + 4000; at += 10) {
        strcpy(json + at, " | dense 2");
    }
    strcat(json, "\"}");
    fed_test_put(w->directory, "long.json", json, strlen(json));
    char path[400];
    snprintf(path, sizeof path, "%s/long.json", w->directory);
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &home, &err));
    for (size_t k = 0; k < count; k++) {
        uint64_t id;
        assert_fed_ok_err(fedserver_task_add(home, fed_clock_unix_ms(), path, &id, &err));
    }
    assert_fed_ok_err(fedserver_commit(home, &err));
    fedserver_close(home);
}

/* A status of many tasks is larger than the buffer of a Unix socket. */
FED_TEST_WITH(a_status_of_many_tasks_passes_the_front, world *w) {
    enum { LONG_TASKS = 60, BYTES = 256 * 1024, ASKED_MOST = 3000 };
    fed_error err = {0};
    queue_long_tasks(w, LONG_TASKS);
    CURL *curl = fed_curl_new(&w->coordinator.ca, NULL, w->coordinator.front_port, "/v1/status");
    size_t len = 0;
    for (int k = 0; k < ASKED_MOST && len < BYTES; k++) {
        fed_reply r = fed_curl_ask(curl);
        assert_true(r.status == 200 || r.status == 503);
        len = r.status == 200 ? r.body.len : 0;
        fed_reply_free(&r);
        fed_sleep_ms(PAUSE_MS);
    }
    fed_curl_close(curl);
    assert_true(len >= BYTES);
    assert_fed_ok_err(fedserver_health(w->coordinator.directory, &err));
}

FED_TEST_WITH(anybody_may_ask_whether_the_coordinator_is_well, world *w) {
    CURL *curl = fed_curl_new(&w->coordinator.ca, NULL, w->coordinator.front_port, "/healthz");
    fed_curl_expect(curl, 200, "ok\n");
    fed_curl_close(curl);
}

FED_TEST_WITH(a_front_that_hangs_is_not_well, const world *w) {
    char args[600], said[2000];
    const pid_t front = fed_test_child(w->coordinator.pid);
    snprintf(args, sizeof args, "health --dir %s", w->coordinator.directory);
    assert_int_equal(fed_test_run(w->directory, "fedserver", args, said, sizeof said), 0);
    assert_int_equal(kill(front, SIGSTOP), 0);
    const int code = fed_test_run(w->directory, "fedserver", args, said, sizeof said);
    assert_int_equal(kill(front, SIGCONT), 0);
    assert_int_equal(code, 1);
    assert_non_null(strstr(said, "the front of "));
    assert_int_equal(fed_test_run(w->directory, "fedserver", args, said, sizeof said), 0);
}

/* The parent has the listening socket, too, so connections wait while there is no front. */
FED_TEST_WITH(a_front_that_dies_comes_back, world *w) {
    const pid_t first = fed_test_child(w->coordinator.pid);
    assert_true(first > 0);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(enrol(w), 200);
    assert_status_says(w, "\"devices\":1");
    const pid_t second = fed_test_child(w->coordinator.pid);
    assert_true(second > 0 && second != first);
}

FED_TEST_WITH(a_front_ends_with_its_parent, world *w) {
    fed_error err = {0};
    const pid_t front = fed_test_child(w->coordinator.pid);
    assert_fed_ok_err(sim_coordinator_stop(&w->coordinator, SIGKILL, &err));
    for (int k = 0; k < TRIES && !gone(front); k++) {
        fed_sleep_ms(PAUSE_MS);
    }
    assert_true(gone(front));
    assert_fed_ok_err(sim_coordinator_start(&w->coordinator, &err));
    assert_int_equal(enrol(w), 200);
}

/* Without the key no front can start, but devices are served. */
FED_TEST_WITH(the_rounds_that_serve_do_not_need_the_key, world *w) {
    fed_error err = {0};
    char key[700], away[720];
    snprintf(key, sizeof key, "%s/ca.key", w->coordinator.directory);
    snprintf(away, sizeof away, "%s.away", key);
    assert_int_equal(rename(key, away), 0);
    assert_int_equal(kill(fed_test_child(w->coordinator.pid), SIGKILL), 0);
    CURL *curl = fed_curl_raw(&w->coordinator.ca, NULL, w->coordinator.devices_port);
    curl_easy_cleanup(curl);
    assert_fed_ok_err(sim_coordinator_alive(&w->coordinator, &err));
    assert_int_equal(rename(away, key), 0);
    assert_int_equal(enrol(w), 200);
}

static void copy(const world *w, const char *from, const char *more, const char *to) {
    char path[700], text[20000] = "";
    const char *const parts[] = {from, more};
    for (size_t k = 0; k < 2 && parts[k] != NULL; k++) {
        uint8_t *data = NULL;
        size_t len = 0;
        fed_error err = {0};
        snprintf(path, sizeof path, "%s/%s", w->coordinator.directory, parts[k]);
        assert_fed_ok_err(fed_file_read(path, 9000, &data, &len, &err));
        strcat(text, (const char *)data);
        free(data);
    }
    fed_test_put(w->coordinator.directory, to, text, strlen(text));
}

/* The coordinator must end with this reason, because its front can't start. */
static void expect_no_start(const world *w, const char *why) {
    char command[1200], said[4000] = "";
    snprintf(command, sizeof command,
             "timeout -k 5 200 " FED_BIN_DIR "/fedserver run --dir '%s' --front-port 0 "
             "--devices-port 0 2>&1",
             w->coordinator.directory);
    FILE *run = popen(command, "r");
    assert_non_null(run);
    (void)!fread(said, 1, sizeof said - 1, run);
    const int how = pclose(run);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 1 || strstr(said, why) == NULL ||
        strstr(said, "the front can't serve") == NULL || strstr(said, "front https://") != NULL) {
        fail_msg("with %s the coordinator ended with wait status %d, and said: %s", why, how, said);
    }
}

FED_TEST_WITH(a_front_that_cannot_serve_ends_the_start, world *w) {
    static const char encrypted[] =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
        "MIGjME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAhpcyBub3QgYSBrZXk=\n"
        "-----END ENCRYPTED PRIVATE KEY-----\n";
    fed_error err = {0};
    char key[700], away[720];
    snprintf(key, sizeof key, "%s/ca.key", w->coordinator.directory);
    snprintf(away, sizeof away, "%s.away", key);
    assert_fed_ok_err(sim_coordinator_stop(&w->coordinator, SIGTERM, &err));
    assert_int_equal(rename(key, away), 0);
    expect_no_start(w, "ca.key");
    assert_int_equal(rename(away, key), 0);
    copy(w, "server.pem", NULL, "front.pem");
    copy(w, "ca.key", NULL, "front.key");
    expect_no_start(w, "front.key");
    fed_test_put(w->coordinator.directory, "front.key", encrypted, strlen(encrypted));
    expect_no_start(w, "front.key");
    copy(w, "server.key", NULL, "front.key");
    copy(w, "ca.pem", "server.pem", "front.pem");
    expect_no_start(w, "front.pem");
    copy(w, "server.pem", "ca.pem", "front.pem");
    assert_fed_ok_err(sim_coordinator_start(&w->coordinator, &err));
    assert_int_equal(enrol(w), 200);
}

/* Ask by a host name that only the renewed certificate has. Returns the HTTP status; 0: no answer,
 * as when the certificate is not trusted. */
static long ask_by_new_name(const world *w, uint16_t port, const fed_identity *who) {
    char url[100], line[100];
    CURL *curl = fed_curl_new(&w->coordinator.ca, who, port, "/");
    snprintf(url, sizeof url, "https://new.example:%u/v1/status", port);
    snprintf(line, sizeof line, "new.example:%u:127.0.0.1", port);
    struct curl_slist *resolve = curl_slist_append(NULL, line);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_RESOLVE, resolve);
    fed_reply r = fed_curl_ask(curl);
    const long status = r.status;
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    curl_slist_free_all(resolve);
    return status;
}

FED_TEST_WITH(a_renewed_certificate_is_taken_up_at_sighup, world *w) {
    fed_identity who;
    fed_error err = {0};
    char said[2000], args[700];
    const uint16_t ports[2] = {w->coordinator.front_port, w->coordinator.devices_port};
    const pid_t front = fed_test_child(w->coordinator.pid);
    assert_int_equal(fed_curl_enrol(&w->coordinator.ca, ports[0], w->token[w->tokens_used++], &who),
                     200);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(ask_by_new_name(w, ports[k], k == 0 ? NULL : &who), 0);
    }
    snprintf(args, sizeof args, "cert renew --add-host new.example --dir %s",
             w->coordinator.directory);
    assert_int_equal(fed_test_run(w->directory, "fedserver", args, said, sizeof said), 0);
    assert_non_null(strstr(said, "new.example"));
    CURL *curl = fed_curl_new(&w->coordinator.ca, NULL, ports[0], "/metrics");
    fed_curl_expect(curl, 200, "\nfed_certificate_days 365");
    curl_easy_cleanup(curl);
    assert_int_equal(kill(w->coordinator.pid, SIGHUP), 0);
    for (int k = 0; k < 2; k++) {
        for (int n = 0; n < TRIES && ask_by_new_name(w, ports[k], k == 0 ? NULL : &who) == 0; n++) {
            fed_sleep_ms(PAUSE_MS);
        }
        assert_int_not_equal(ask_by_new_name(w, ports[k], k == 0 ? NULL : &who), 0);
    }
    assert_fed_ok_err(sim_coordinator_alive(&w->coordinator, &err));
    assert_int_equal(fed_test_child(w->coordinator.pid), front);
}

int main(void) {
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        return 77;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int failed = fed_cases_run_each(setup, teardown);
    curl_global_cleanup();
    return failed;
}
