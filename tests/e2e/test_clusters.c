/* Two clusters and ten devices train one model, with real programs. The coordinator's status must
 * show the clusters' workers, and name a killed worker. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_coordinator.h"
#include "fed_curl.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fed_test.h"
#include "feddc/link.h"
#include "mpi_job.h"

enum { PHONES = 10, CLUSTERS = 2, EVALUATOR = PHONES + CLUSTERS, PROGRAMS = EVALUATOR + 1 };
enum { PATIENCE_MS = 240000, ROUNDS = 4 };

typedef struct world {
    char directory[256];
    fed_coordinator coordinator;
    pid_t programs[PROGRAMS];
} world;

static json_int_t queue(const world *w, const char *json) {
    return (json_int_t)fed_operator_task(w->coordinator.directory, w->directory, json);
}

static void make_token(const world *w, fedserver_role role, const char *tag,
                       char token[FEDSERVER_TOKEN]) {
    const fedserver_grant grant = {.role = role, .tag = tag, .ttl_s = 3600};
    fed_operator_token(w->coordinator.directory, &grant, token);
}

/* Start program k. more: at most ten further arguments, and NULL. */
static void start(world *w, int k, const char *program, const char *token,
                  const char *const *more) {
    char path[320], url[64], ca[320], state[320], log[320], shard[32];
    const char *args[32] = {path,  "--server", url,          "--ca",    ca,    "--state",
                            state, "--data",   w->directory, "--token", token, NULL};
    int n = 11;
    snprintf(path, sizeof path, "%s/%s", FED_BIN_DIR, program);
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->coordinator.front);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->coordinator.directory);
    snprintf(state, sizeof state, "%s/state%d", w->directory, k);
    snprintf(log, sizeof log, "%s/log%d", w->directory, k);
    if (k < EVALUATOR) {
        snprintf(shard, sizeof shard, "%d/%d", k, EVALUATOR);
        args[n++] = "--shard";
        args[n++] = shard;
    }
    if (strcmp(program, "fedworker") == 0) {
        memmove(args + 2, args + 1, (size_t)(n - 1) * sizeof *args);
        args[1] = "train";
        n++;
    }
    while (*more != NULL) {
        args[n++] = *more++;
    }
    args[n] = NULL;
    const pid_t pid = fork();
    if (pid == 0) {
        const int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
        execv(path, (char *const *)(uintptr_t)args);
        _exit(127);
    }
    assert_true(pid > 0);
    w->programs[k] = pid;
}

static void start_all(world *w) {
    static const char *const phone[] = {NULL};
    static const char *const judge[] = {"--evaluate", NULL};
    static const char *const cluster[CLUSTERS][11] = {
        {"--workers", "2", "--link", "threads", "--name", "east", NULL},
        {"--workers", "3", "--min", "2", "--link", "tcp", "--codec", "int8", "--sync", "bitsgd"}};
    char token[FEDSERVER_TOKEN];
    for (int k = 0; k < PHONES; k++) {
        make_token(w, FEDSERVER_ROLE_DEVICE, NULL, token);
        start(w, k, "fedclientd", token, phone);
    }
    for (int k = 0; k < CLUSTERS; k++) {
        make_token(w, FEDSERVER_ROLE_DEVICE, "cluster", token);
        start(w, PHONES + k, "fedworker", token, cluster[k]);
    }
    make_token(w, FEDSERVER_ROLE_EVALUATOR, NULL, token);
    start(w, EVALUATOR, "fedclientd", token, judge);
}

static void look_at_programs(world *w) {
    for (int k = 0; k < PROGRAMS; k++) {
        if (w->programs[k] > 0 && waitpid(w->programs[k], NULL, WNOHANG) != 0) {
            char path[320];
            uint8_t *text = NULL;
            size_t len = 0;
            fed_error err = {0};
            w->programs[k] = 0;
            snprintf(path, sizeof path, "%s/log%d", w->directory, k);
            assert_fed_ok_err(fed_file_read(path, 1 << 20, &text, &len, &err));
            fail_msg("program %d has ended: %s", k, (const char *)text);
        }
    }
}

static json_t *status(const world *w) {
    fed_pem ca = {0};
    snprintf(ca.text, sizeof ca.text, "%s", w->coordinator.ca);
    CURL *curl = fed_curl_new(&ca, NULL, w->coordinator.front, "/v1/status");
    fed_reply reply = fed_curl_ask(curl);
    json_t *root = reply.status == 200 ? json_loads(fed_reply_text(&reply.body), 0, NULL) : NULL;
    fed_reply_free(&reply);
    curl_easy_cleanup(curl);
    assert_non_null(root);
    return root;
}

static json_int_t integer(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key) {
    const char *found = json_string_value(json_object_get(object, key));
    return found != NULL ? found : "";
}

/* Return the status of the worker group with this link, or NULL if there is none yet. */
static const json_t *worker_group_over(const json_t *root, const char *link) {
    size_t k = 0;
    const json_t *group = NULL;
    json_array_foreach(json_object_get(root, "worker_groups"), k, group) {
        if (strcmp(text(group, "link"), link) == 0) {
            return group;
        }
    }
    return NULL;
}

/* Ask for the status until says() is true for it. The caller frees the status. */
static json_t *await(world *w, bool (*says)(const json_t *root), const char *what) {
    const int64_t limit_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    while (fed_clock_monotonic_ms() < limit_ms) {
        json_t *root = status(w);
        if (says(root)) {
            return root;
        }
        json_decref(root);
        look_at_programs(w);
        fed_sleep_ms(100);
    }
    fail_msg("the status never said %s", what);
    return NULL;
}

static bool is_finished(const json_t *root) {
    const json_t *last = json_array_get(json_object_get(root, "rounds"), 0);
    return strcmp(text(json_object_get(root, "task"), "state"), "finished") == 0 &&
           json_is_number(json_object_get(last, "accuracy"));
}

static void check_worker_group(const json_t *root, const char *link, const char *codec,
                               size_t size) {
    const json_t *group = worker_group_over(root, link);
    assert_non_null(group);
    assert_int_equal(integer(group, "size"), size);
    assert_string_equal(text(group, "codec"), codec);
    assert_string_equal(text(group, "verdict"), "");
    const json_t *workers = json_object_get(group, "workers");
    assert_int_equal(json_array_size(workers), size);
    for (size_t k = 0; k < size; k++) {
        assert_int_equal(integer(json_array_get(workers, k), "rank"), k);
        assert_string_equal(text(json_array_get(workers, k), "phase"), "done");
        assert_true(integer(json_array_get(workers, k), "sent_bytes") > 0);
    }
}

/* The log of program k, at the level that fedworker has by itself, must say something once. */
static void says_once(const world *w, int k, const char *words) {
    char path[320];
    uint8_t *log = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/log%d", w->directory, k);
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &log, &len, &err));
    char *lines = strndup((const char *)log, len);
    const char *found = strstr(lines, words);
    if (found == NULL || strstr(found + 1, words) != NULL) {
        fail_msg("program %d must say \"%s\" once: %s", k, words, lines);
    }
    free(lines);
    free(log);
}

static double accuracy_of(const json_t *round) {
    return json_number_value(json_object_get(round, "accuracy"));
}

static void one_model_is_trained_by_clusters_and_phones(void **state) {
    world *w = *state;
    (void)queue(w,
                "{\"model\": \"lr\", \"rounds\": 4, \"cohort\": 12, \"goal\": 12, \"minimum\": 12,"
                " \"local_steps\": 4, \"batch\": 8, \"optimizer\": \"momentum:m=0.9,lr=0.01\","
                " \"codec_up\": \"int8\", \"deadline_s\": 200, \"personal_steps\": 2}");
    json_t *root = await(w, is_finished, "that the task is finished and measured");
    const json_t *rounds = json_object_get(root, "rounds");
    assert_int_equal(json_array_size(rounds), ROUNDS);
    for (size_t k = 0; k < ROUNDS; k++) {
        assert_int_equal(integer(json_array_get(rounds, k), "updates"), EVALUATOR);
    }
    const double first = accuracy_of(json_array_get(rounds, ROUNDS - 1));
    const double last = accuracy_of(json_array_get(rounds, 0));
    assert_true(last > 0.9);
    assert_true(last > first);
    check_worker_group(root, "threads", "float32", 2);
    check_worker_group(root, "tcp", "int8", 3);
    json_decref(root);
    for (int k = PHONES; k < EVALUATOR; k++) {
        says_once(w, k, "for a personal model let this device run fedclientd");
    }
}

static void ranks_that_mpirun_has_started_are_one_device(void **state) {
    world *w = *state;
    char args[1200], out[4096], token[FEDSERVER_TOKEN];
    if (feddc_link_named("mpi") == NULL || !mpi_job_possible()) {
        print_message("skipped: this build or this machine has no MPI\n");
        skip();
    }
    (void)queue(w, "{\"model\": \"lr\", \"rounds\": 2, \"cohort\": 1, \"tag\": \"mpi\","
                   " \"local_steps\": 20, \"batch\": 8, \"codec_up\": \"int8\"}");
    make_token(w, FEDSERVER_ROLE_DEVICE, "mpi", token);
    snprintf(args, sizeof args,
             "train --server https://127.0.0.1:%u --ca %s/ca.pem --state %s/mpi --data %s"
             " --token %s --link mpi --codec int8 --sync bitsgd --until-finished",
             w->coordinator.front, w->coordinator.directory, w->directory, w->directory, token);
    const int ended = mpi_job_run(FED_BIN_DIR "/fedworker", args, 3, out, sizeof out);
    if (ended != 0) {
        fail_msg("mpirun ended with %d: %s", ended, out);
    }
    json_t *root = status(w);
    assert_string_equal(text(json_object_get(root, "task"), "state"), "finished");
    assert_int_equal(integer(json_object_get(root, "task"), "version"), 2);
    check_worker_group(root, "mpi", "int8", 3);
    json_decref(root);
}

static const json_t *worker_of(const json_t *root, size_t rank) {
    return json_array_get(json_object_get(worker_group_over(root, "tcp"), "workers"), rank);
}

static bool is_well(const json_t *worker) {
    return strcmp(text(worker, "state"), "well") == 0 || strcmp(text(worker, "state"), "slow") == 0;
}

static json_int_t long_task;

static bool three_work(const json_t *root) {
    bool all = integer(worker_group_over(root, "tcp"), "task") == long_task;
    for (size_t k = 0; k < 3 && all; k++) {
        const json_t *worker = worker_of(root, k);
        all = is_well(worker) && integer(worker, "pid") > 0 && integer(worker, "step") > 0;
    }
    return all;
}

static json_int_t killed_at;

static bool two_go_on(const json_t *root) {
    return text(worker_group_over(root, "tcp"), "verdict")[0] != '\0' &&
           strcmp(text(worker_of(root, 1), "state"), "dead") == 0 && is_well(worker_of(root, 0)) &&
           integer(worker_of(root, 0), "step") > killed_at + 10 &&
           integer(worker_of(root, 2), "step") > killed_at + 10;
}

static void kill_worker(const json_t *root, size_t rank, char words[32]) {
    const pid_t pid = (pid_t)integer(worker_of(root, rank), "pid");
    assert_true(pid > 1 && pid != getpid());
    killed_at = integer(worker_of(root, 0), "step");
    snprintf(words, 32, "pid %d", (int)pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
}

static void a_worker_that_is_killed_is_named_and_the_others_go_on(void **state) {
    world *w = *state;
    char words[32];
    /* A task for clusters only, whose training outlasts the test. */
    long_task = queue(w, "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 2, \"tag\": \"cluster\","
                         " \"local_steps\": 1000000, \"batch\": 8, \"codec_up\": \"int8\","
                         " \"deadline_s\": 1000}");
    json_t *root = await(w, three_work, "that the worker group over tcp trains");
    kill_worker(root, 1, words);
    json_decref(root);
    root = await(w, two_go_on, "that the others go on");
    const char *verdict = text(worker_group_over(root, "tcp"), "verdict");
    assert_non_null(strstr(verdict, "worker 1"));
    assert_non_null(strstr(verdict, words));
    assert_non_null(strstr(verdict, "died"));
    json_decref(root);
}

/* With --min 2, one worker is too few. */
static void a_worker_group_with_too_few_is_started_again(void **state) {
    world *w = *state;
    char words[32];
    json_t *root = await(w, two_go_on, "that two train");
    kill_worker(root, 2, words);
    json_decref(root);
    root = await(w, three_work, "that three train again");
    assert_non_null(strstr(text(worker_group_over(root, "tcp"), "verdict"), words));
    json_decref(root);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_digits_write(w->directory, 2400, 400);
    fed_coordinator_open(&w->coordinator, w->directory, "coordinator");
    start_all(w);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (int k = 0; k < PROGRAMS; k++) {
        if (w->programs[k] > 0) {
            (void)kill(w->programs[k], SIGKILL);
            (void)waitpid(w->programs[k], NULL, 0);
        }
    }
    fed_coordinator_close(&w->coordinator);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model_is_trained_by_clusters_and_phones),
        cmocka_unit_test(ranks_that_mpirun_has_started_are_one_device),
        cmocka_unit_test(a_worker_that_is_killed_is_named_and_the_others_go_on),
        cmocka_unit_test(a_worker_group_with_too_few_is_started_again),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
