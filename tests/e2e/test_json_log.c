/* With --log json, each line of a coordinator's two processes and of a device is a JSON object. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fed_program.h"

enum { LIMIT_MS = 120 * 1000, MOST = 1 << 20 };

#define TASK_NAME "say \"no\" \\ na\xc3\xafve"

static const char task_json[] =
    "{\"name\": \"say \\\"no\\\" \\\\ na\xc3\xafve\", \"model\": \"lr\", \"rounds\": 2,\n"
    " \"cohort\": 1, \"local_steps\": 1}";

typedef struct world {
    fed_program p;
    char home[300], out[300], log[300], device_log[300];
} world;

static int setup(void **state) {
    static world w;
    fed_program_open(&w.p, "fedserver");
    snprintf(w.home, sizeof w.home, "%s/c", w.p.directory);
    snprintf(w.out, sizeof w.out, "%s/out", w.p.directory);
    snprintf(w.log, sizeof w.log, "%s/log", w.p.directory);
    snprintf(w.device_log, sizeof w.device_log, "%s/device.log", w.p.directory);
    fed_digits_write(w.p.directory, 100, 20);
    assert_runs(&w.p, "init --dir c --host 127.0.0.1", 0, "");
    (void)fed_operator_task(w.home, w.p.directory, task_json);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_program_close(&w->p);
    return 0;
}

static pid_t spawn(const char *const *args, const char *out, const char *log) {
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
        alarm(300);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    return pid;
}

static int status_of(pid_t pid) {
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static pid_t start_coordinator(const world *w, unsigned *front) {
    const char *const args[] = {FED_BIN_DIR "/fedserver",
                                "run",
                                "--dir",
                                w->home,
                                "--front-port",
                                "0",
                                "--devices-port",
                                "0",
                                "--log",
                                "json",
                                NULL};
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    const pid_t pid = spawn(args, w->out, w->log);
    char line[200] = "";
    while (sscanf(line, "front https://127.0.0.1:%u/", front) != 1) {
        assert_true(fed_clock_monotonic_ms() < until_ms);
        FILE *file = fopen(w->out, "r");
        if (file != NULL) {
            (void)!fgets(line, sizeof line, file);
            fclose(file);
        }
        fed_sleep_ms(10);
    }
    return pid;
}

/* Run a device to its end. It must end with this status. token: NULL: none. */
static void run_device(const world *w, unsigned front, const char *token, int status) {
    char url[64], ca[320], state[320];
    snprintf(url, sizeof url, "https://127.0.0.1:%u", front);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->home);
    snprintf(state, sizeof state, "%s/device", w->p.directory);
    const char *const args[] = {FED_BIN_DIR "/fedclientd",
                                "--server",
                                url,
                                "--ca",
                                ca,
                                "--state",
                                state,
                                "--data",
                                w->p.directory,
                                token != NULL ? "--token" : "--hold",
                                token != NULL ? token : "1",
                                "--until-finished",
                                "--log",
                                "json",
                                NULL};
    assert_int_equal(status_of(spawn(args, w->out, w->device_log)), status);
}

static bool is(const json_t *line, const char *key, const char *wanted) {
    const char *text = json_string_value(json_object_get(line, key));
    return text != NULL && strcmp(text, wanted) == 0;
}

/* Read the log, whose lines must all be objects with time, level and message. */
static json_t *read_log(const char *path) {
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    json_error_t why;
    json_t *lines = json_array();
    assert_fed_ok_err(fed_file_read(path, MOST, &text, &len, &err));
    assert_true(len > 0 && text[len - 1] == '\n');
    for (char *at = (char *)text; *at != '\0'; at += strlen(at) + 1) {
        *strchr(at, '\n') = '\0';
        json_t *line = json_loads(at, JSON_REJECT_DUPLICATES, &why);
        if (line == NULL || !json_is_string(json_object_get(line, "time")) ||
            !json_is_string(json_object_get(line, "level")) ||
            !json_is_string(json_object_get(line, "message"))) {
            fail_msg("%s: %s", path, at);
        }
        json_array_append_new(lines, line);
    }
    free(text);
    return lines;
}

/* Return the first line whose message has these words. */
static const json_t *line_with(const json_t *lines, const char *words) {
    for (size_t k = 0; k < json_array_size(lines); k++) {
        const json_t *line = json_array_get(lines, k);
        if (strstr(json_string_value(json_object_get(line, "message")), words) != NULL) {
            return line;
        }
    }
    fail_msg("no line says %s", words);
    return NULL;
}

static json_int_t number(const json_t *line, const char *key) {
    return json_integer_value(json_object_get(line, key));
}

static void check_coordinator(const world *w) {
    json_t *lines = read_log(w->log);
    const json_t *enrolled = line_with(lines, "name=\"pump\" address=127.0.0.1 token=");
    const json_t *committed = line_with(lines, "round 2: committed with 1 updates");
    assert_true(is(enrolled, "part", "front"));
    assert_true(is(committed, "part", "rounds") && is(committed, "level", "INFO"));
    assert_int_equal(number(committed, "task"), 1);
    assert_int_equal(number(committed, "round"), 2);
    assert_true(is(committed, "task_name", TASK_NAME));
    for (size_t k = 0; k < json_array_size(lines); k++) { /* no line names a task in words alone */
        const json_t *line = json_array_get(lines, k);
        const char *message = json_string_value(json_object_get(line, "message"));
        assert_true(strncmp(message, "task ", 5) != 0 || number(line, "task") == 1);
    }
    json_decref(lines);
}

static void check_device(const world *w) {
    json_t *lines = read_log(w->device_log);
    const json_t *counted = line_with(lines, "round 1: update counted");
    assert_int_equal(number(counted, "task"), 1);
    assert_int_equal(number(counted, "round"), 1);
    assert_true(is(line_with(lines, "holds no identity yet"), "level", "ERROR"));
    json_decref(lines);
}

FED_TEST_WITH(each_line_is_an_object, world *w) {
    unsigned front = 0;
    char token[FEDSERVER_TOKEN];
    const fedserver_grant grant = {.ttl_s = 3600, .role = FEDSERVER_ROLE_DEVICE, .name = "pump"};
    fed_operator_token(w->home, &grant, token);
    const pid_t coordinator = start_coordinator(w, &front);
    run_device(w, front, NULL, 1);
    run_device(w, front, token, 0);
    assert_int_equal(kill(coordinator, SIGTERM), 0);
    assert_int_equal(status_of(coordinator), 0);
    check_coordinator(w);
    check_device(w);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
