/* fedclientd as a person runs it: against a real coordinator, on made-up digits. */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_coordinator.h"
#include "fed_curl.h"
#include "fed_digits.h"
#include "fed_test.h"

typedef struct world {
    char directory[256], state[300], ca[320], log[300], url[64];
    fed_coordinator coordinator;
} world;

static const char task_json[] =
    "{ \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\", \"optimizer\": \"momentum\",\n"
    "  \"local_steps\": 20, \"learning_rate\": 0.1, \"rounds\": 3, \"cohort\": 1 }\n";

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->coordinator, w->directory, "coordinator");
    fed_digits_write(w->directory, 500, 200);
    snprintf(w->state, sizeof w->state, "%s/state", w->directory);
    snprintf(w->log, sizeof w->log, "%s/log", w->directory);
    snprintf(w->ca, sizeof w->ca, "%s/ca.pem", w->coordinator.directory);
    snprintf(w->url, sizeof w->url, "https://127.0.0.1:%u", w->coordinator.front);
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

static void queue_task(world *w) {
    char path[320];
    fed_error err = {0};
    uint64_t id = 0;
    fedserver *server = NULL;
    snprintf(path, sizeof path, "%s/task.json", w->directory);
    assert_fed_ok_err(fed_file_replace(path, task_json, strlen(task_json), 0600, &err));
    fed_coordinator_stop(&w->coordinator);
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_task_add(server, fed_clock_unix_ms(), path, &id, &err));
    fedserver_close(server);
    fed_coordinator_start(&w->coordinator);
}

/** Start it with the usual options, then these. Its output goes to the log. */
static pid_t spawn(const world *w, const char *const *more) {
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
        args[n] = *more++;
    }
    pid_t pid = fork();
    if (pid == 0) {
        int log = open(w->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    return pid;
}

static int wait_for(pid_t pid) {
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static bool log_says(const world *w, const char *text) {
    uint8_t *data = NULL;
    size_t len = 0;
    bool says = fed_file_read(w->log, 1 << 20, &data, &len, NULL) == FED_OK &&
                strstr((const char *)data, text) != NULL;
    free(data);
    return says;
}

static void assert_run(const world *w, const char *const *more, int wanted, const char *text) {
    int status = wait_for(spawn(w, more));
    if (status != wanted || !log_says(w, text)) {
        uint8_t *data = NULL;
        size_t len = 0;
        assert_fed_ok(fed_file_read(w->log, 1 << 20, &data, &len, NULL));
        fail_msg("status %d, wanted %d and \"%s\": %s", status, wanted, text, (char *)data);
    }
}

static void it_trains_until_the_task_is_finished(void **state) {
    world *w = *state;
    char token[FEDSERVER_TOKEN];
    queue_task(w);
    fed_coordinator_token(&w->coordinator, token);
    const char *const first[] = {"--token", token, "--until-finished", NULL};
    assert_run(w, first, 0, "round 3: update counted");
    assert_true(log_says(w, "finished; its model is version 3"));
    const char *const again[] = {"--until-finished", "--hold", "0", NULL};
    assert_run(w, again, 0, "at https://");
}

static void an_evaluator_measures_a_model(void **state) {
    world *w = *state;
    char token[FEDSERVER_TOKEN];
    queue_task(w);
    fed_coordinator_token(&w->coordinator, token);
    const char *const train[] = {"--token", token, "--until-finished", NULL};
    assert_run(w, train, 0, "finished");
    fed_test_rmdir(w->state);
    fed_coordinator_token_for(&w->coordinator, FEDSERVER_ROLE_EVALUATOR, token);
    const char *const evaluate[] = {"--token", token, "--evaluate", NULL};
    pid_t pid = spawn(w, evaluate);
    while (!log_says(w, "accuracy")) {
        fed_sleep_ms(20);
    }
    kill(pid, SIGINT);
    assert_int_equal(wait_for(pid), 0);
}

static void a_signal_ends_it_in_the_middle_of_a_wait(void **state) {
    world *w = *state;
    char token[FEDSERVER_TOKEN];
    fed_coordinator_token(&w->coordinator, token);
    const char *const args[] = {"--token", token, "--hold", "50", NULL};
    pid_t pid = spawn(w, args);
    while (!log_says(w, "enrolled as device")) {
        fed_sleep_ms(20);
    }
    kill(pid, SIGTERM);
    assert_int_equal(wait_for(pid), 0);
    assert_true(log_says(w, "stopped; what is not sent yet is kept in"));
}

static void a_state_directory_serves_one_device(void **state) {
    world *w = *state;
    char token[FEDSERVER_TOKEN];
    fed_coordinator_token(&w->coordinator, token);
    const char *const args[] = {"--token", token, NULL};
    pid_t pid = spawn(w, args);
    while (!log_says(w, "enrolled as device")) {
        fed_sleep_ms(20);
    }
    assert_run(w, args, 1, "is in use by another client");
    kill(pid, SIGTERM);
    assert_int_equal(wait_for(pid), 0);
}

/** The test takes the requests that are granted to this address (all but one in a hundred). */
static void a_coordinator_without_time_is_asked_again(void **state) {
    world *w = *state;
    char token[FEDSERVER_TOKEN];
    fed_pem ca;
    fed_coordinator_stop(&w->coordinator);
    w->coordinator.requests_per_s = 1;
    fed_coordinator_start(&w->coordinator);
    fed_coordinator_token(&w->coordinator, token);
    snprintf(ca.text, sizeof ca.text, "%s", w->coordinator.ca);
    CURL *curl = fed_curl_new(&ca, NULL, w->coordinator.front, "/v1/status");
    pid_t pid = 0;
    while (pid == 0 ||
           !(log_says(w, "enrolling is tried again") || log_says(w, "enrolled as device"))) {
        fed_reply reply = fed_curl_ask(curl);
        if (reply.status == 429 && pid == 0) {
            const char *const args[] = {"--token", token, NULL};
            pid = spawn(w, args);
        }
        fed_reply_free(&reply);
    }
    curl_easy_cleanup(curl);
    while (!log_says(w, "enrolled as device")) {
        fed_sleep_ms(20);
    }
    kill(pid, SIGTERM);
    assert_int_equal(wait_for(pid), 0);
}

static void wrong_usage_is_told(void **state) {
    world *w = *state;
    static const struct {
        const char *args[3], *text;
    } cases[] = {
        {{"--shard", "2/2"}, "--shard wants K/N"},      {{"--shard", "x"}, "--shard wants K/N"},
        {{"--split", "odd"}, "write iid, classes:k=2"}, {{"--hold", "-1"}, "--hold wants"},
        {{"--nonsense"}, "--help tells more"},          {{"stray"}, "not an option: stray"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *const args[] = {cases[k].args[0], cases[k].args[1], NULL};
        assert_run(w, args, 2, cases[k].text);
    }
    const char *const help[] = {"--help", NULL};
    assert_run(w, help, 0, "Usage: fedclientd");
}

static void what_a_person_has_to_do_is_told(void **state) {
    world *w = *state;
    static const struct {
        const char *args[5], *text;
    } cases[] = {{{NULL}, "make a token"},
                 {{"--token", "wrong"}, "token_unknown"},
                 {{"--token", "t", "--ca", "/nowhere/ca.pem"}, "/nowhere/ca.pem"},
                 {{"--token", "t", "--data", "/nowhere"}, "/nowhere"},
                 {{"--token", "t", "--server", "https://127.0.0.1:1"}, "127.0.0.1:1"},
                 {{"--token", "t", "--server", "127.0.0.1:1"}, "write https://HOST:PORT"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *args[5] = {NULL};
        memcpy(args, cases[k].args, sizeof args);
        assert_run(w, args, 1, cases[k].text);
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(it_trains_until_the_task_is_finished),      test(an_evaluator_measures_a_model),
        test(a_signal_ends_it_in_the_middle_of_a_wait),  test(a_state_directory_serves_one_device),
        test(a_coordinator_without_time_is_asked_again), test(wrong_usage_is_told),
        test(what_a_person_has_to_do_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
