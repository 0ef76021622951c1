/* A task whose stored bytes can't be read is paused with a reason. The coordinator and its other
 * tasks go on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <sys/stat.h>
#include <unistd.h>

#include "coordinator_fixture.h"
#include "fed_operator.h"

/* The model has so many values that the store keeps them in a file. */
#define LARGE                                                                                      \
    "{\"model\": \"input 784 | dense 336\", \"codec_up\": \"float32\", \"rounds\": 1, "            \
    "\"cohort\": 1}"
#define SMALL                                                                                      \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"rounds\": 1, \"cohort\": 1}"

static char said[4000];

static void hear(void *user, fed_log_level level, const char *line) {
    const size_t len = strlen(said);
    (void)user, (void)level;
    snprintf(said + len, sizeof said - len, "%s\n", line);
}

static const fed_log heard = {.write = hear, .level = FED_LOG_WARN};

static void expect_said(const char *words) {
    if (strstr(said, words) == NULL) {
        fail_msg("the log has no \"%s\": %s", words, said);
    }
}

static void find_blob(const coordinator *c, uint64_t task, char path[400]) {
    fed_error err = {0};
    fedserver_model_row row;
    assert_fed_ok_err(c->server->store->model_find(c->server->db, task, &row, &err));
    snprintf(path, 400, "%s/blob-%llu-%016llx", c->directory, (unsigned long long)task,
             (unsigned long long)row.digest);
    assert_int_equal(access(path, R_OK), 0);
    free(row.values);
    free(row.residual);
    free(row.state);
}

/* Put a directory in the file's place, which even root can't read as a file. */
static void hide(const char *path) {
    char aside[420];
    snprintf(aside, sizeof aside, "%s.aside", path);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void unhide(const char *path) {
    char aside[420];
    snprintf(aside, sizeof aside, "%s.aside", path);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(aside, path), 0);
}

static void start(coordinator *c) {
    fed_error err = {0};
    said[0] = '\0';
    assert_fed_ok_err(fedserver_open(c->directory, &heard, &c->server, &err));
    fedserver_ports(c->server, 8443, 8444);
    assert_fed_ok_err(fedserver_begin(c->server, &err));
    coordinator_wait(c, 0);
    coordinator_commit(c); /* a batch's lines are logged when the batch is committed */
}

static fedserver_task_state state_of(const coordinator *c, uint64_t id) {
    fed_error err = {0};
    fedserver_task task;
    assert_fed_ok_err(
        c->server->store->task_find(c->server->db, FEDSERVER_PICK_ID, id, &task, &err));
    return task.state;
}

static fed_status note_unreadable(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    (void)err;
    if (strcmp(entry->event, "task_unreadable") == 0) {
        snprintf(user, sizeof entry->detail, "%s", entry->detail);
    }
    return FED_OK;
}

static void expect_paused(const coordinator *c, const char *path) {
    char audited[480] = "";
    fed_error err = {0};
    assert_fed_ok_err(fedserver_audit_each(c->server, 0, note_unreadable, audited, &err));
    assert_non_null(strstr(audited, "task=1 name="));
    assert_non_null(strstr(audited, path));
    assert_int_equal(state_of(c, 1), FEDSERVER_TASK_PAUSED);
    assert_int_equal(state_of(c, 2), FEDSERVER_TASK_RUNNING);
    expect_said("task 1 ");
    expect_said("is paused, because it can't be read: can't read ");
    expect_said(path);
    expect_said("fedserver resume");
    char args[400], told[4000];
    snprintf(args, sizeof args, "tasks --dir '%s'", c->directory);
    assert_int_equal(fed_test_run("/", "fedserver", args, told, sizeof told), 0);
    assert_non_null(strstr(told, "    waits: it can't be read: can't read "));
    assert_non_null(strstr(told, "; mend that, then call `fedserver resume`\n"));
}

static void expect_goes_on(coordinator *c, const char *path) {
    fed_error err = {0};
    unhide(path);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_RESUME, &err));
    assert_fed_ok_err(fedserver_begin(c->server, &err));
    coordinator_wait(c, 0);
    assert_int_equal(state_of(c, 1), FEDSERVER_TASK_RUNNING);
}

static void train(coordinator *c, uint64_t task) {
    const float x[6] = {1, 0, 0, 0, 0, 1};
    const test_device d = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &d);
    assert_true(work.task.id == task);
    assert_int_equal(device_upload(c, &d, &work, x, 10, NULL), 200);
}

FED_TEST(a_queued_task_that_cannot_be_read_is_paused_and_the_next_one_starts) {
    coordinator c;
    char path[400];
    coordinator_only_on_sqlite();
    coordinator_setup(&c);
    coordinator_commit(&c);
    assert_true(fed_operator_task(c.directory, c.directory, LARGE) == 1);
    assert_true(fed_operator_task(c.directory, c.directory, SMALL) == 2);
    find_blob(&c, 1, path);
    fedserver_close(c.server);
    hide(path);
    start(&c);
    expect_paused(&c, path);
    train(&c, 2);
    expect_goes_on(&c, path);
    coordinator_teardown(&c);
}

FED_TEST(a_restart_pauses_a_running_task_that_cannot_be_read) {
    coordinator c;
    char path[400];
    coordinator_only_on_sqlite();
    coordinator_setup(&c);
    coordinator_task(&c, LARGE);
    coordinator_task(&c, SMALL);
    coordinator_commit(&c);
    assert_int_equal(state_of(&c, 1), FEDSERVER_TASK_RUNNING);
    find_blob(&c, 1, path);
    fedserver_close(c.server);
    hide(path);
    start(&c);
    expect_paused(&c, path);
    train(&c, 2);
    expect_goes_on(&c, path);
    coordinator_teardown(&c);
}

FED_TEST(a_finished_model_that_cannot_be_read_is_left_out) {
    coordinator c;
    char path[400];
    coordinator_only_on_sqlite();
    coordinator_setup(&c);
    coordinator_task(&c, LARGE);
    coordinator_task(&c, SMALL);
    coordinator_commit(&c);
    find_blob(&c, 1, path);
    fed_error err = {0};
    fedserver_task task;
    const fedserver_store *store = c.server->store;
    assert_fed_ok_err(store->task_find(c.server->db, FEDSERVER_PICK_ID, 1, &task, &err));
    task.state = FEDSERVER_TASK_FINISHED;
    task.finished_ms = c.now_ms;
    assert_fed_ok_err(store->task_put(c.server->db, &task, 1 << FEDSERVER_TASK_RUNNING, &err));
    coordinator_commit(&c);
    fedserver_close(c.server);
    hide(path);
    start(&c);
    assert_int_equal(state_of(&c, 1), FEDSERVER_TASK_FINISHED);
    expect_said("task 1 ");
    expect_said("devices can't get its last model: can't read ");
    train(&c, 2);
    coordinator_teardown(&c);
}
