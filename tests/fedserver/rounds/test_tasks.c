/* Tasks that are cancelled, paused, resumed and moved in the queue while devices train. A
 * person's command runs in another process; here it uses another handle of the same directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <dirent.h>
#include <sys/stat.h>

#include "fed/bytes.h"
#include "fedserver/routes/status_json.h"

#define SMALL(keys)                                                                                \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"float32\", "  \
    "\"deadline_s\": 10, " keys "}"
#define TWO_ROUNDS SMALL("\"rounds\": 2, \"cohort\": 2")

static int setup(void **state) {
    coordinator *c = calloc(1, sizeof *c);
    assert_non_null(c);
    coordinator_setup(c);
    *state = c;
    return 0;
}

static int teardown(void **state) {
    coordinator_teardown(*state);
    free(*state);
    return 0;
}

static fedserver *person(const coordinator *c) {
    fed_error err = {0};
    fedserver *other = NULL;
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    return other;
}

/* Run a person's command, which the coordinator notices at its next batch. */
static fed_status do_to(coordinator *c, uint64_t id, fedserver_task_deed deed, fed_error *err) {
    coordinator_commit(c);
    fedserver *other = person(c);
    fed_status status = fedserver_task_change(other, c->now_ms, id, deed, err);
    fedserver_close(other);
    coordinator_commit(c);
    coordinator_wait(c, 1);
    return status;
}

static void must_do(coordinator *c, uint64_t id, fedserver_task_deed deed) {
    fed_error err = {0};
    assert_fed_ok_err(do_to(c, id, deed, &err));
}

static void move(coordinator *c, uint64_t id, uint32_t position) {
    fed_error err = {0};
    coordinator_commit(c);
    fedserver *other = person(c);
    assert_fed_ok_err(fedserver_task_move(other, c->now_ms, id, position, &err));
    fedserver_close(other);
    coordinator_commit(c);
}

typedef struct listed {
    char text[400]; /* such as "2 running, 1 queued 1, ..." */
    fedserver_task_entry last, wanted;
    uint64_t id;
} listed;

static fed_status note(void *user, const fedserver_task_entry *entry, fed_error *err) {
    listed *l = user;
    const size_t len = strlen(l->text);
    (void)err;
    snprintf(l->text + len, sizeof l->text - len, "%s%llu %s", len > 0 ? ", " : "",
             (unsigned long long)entry->id, fedserver_task_state_name(entry->state));
    l->last = *entry;
    if (entry->id == l->id) {
        l->wanted = *entry;
    }
    return FED_OK;
}

static listed list(coordinator *c, uint64_t id) {
    fed_error err = {0};
    listed l = {.id = id};
    assert_fed_ok_err(fedserver_task_each(c->server, c->now_ms, note, &l, &err));
    return l;
}

static void assert_list(coordinator *c, const char *wanted) {
    assert_string_equal(list(c, 0).text, wanted);
}

static void check(coordinator *c) {
    coordinator_commit(c);
    fedserver_close(c->server);
    coordinator_check(c->directory);
    coordinator_open(c);
    coordinator_wait(c, 0);
}

static int upload(coordinator *c, const test_device *d, const fed_assignment *work, char word[32]) {
    const float x[6] = {1, 0, 0, 0, 0, 1};
    return device_upload(c, d, work, x, 10, word);
}

static void report(coordinator *c, const test_device *d, uint64_t task) {
    const fed_assignment work = device_ask_work(c, d);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_true(work.task.id == task);
    assert_int_equal(upload(c, d, &work, NULL), 200);
    coordinator_wait(c, 1);
}

static void a_cancelled_task_ends_and_the_next_one_runs(void **state) {
    coordinator *c = *state;
    char word[32];
    coordinator_task(c, TWO_ROUNDS);
    coordinator_one_at_a_time(c);
    coordinator_task(c, TWO_ROUNDS);
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    report(c, &a, 1);
    const fed_assignment late = device_ask_work(c, &b);
    must_do(c, 1, FEDSERVER_CANCEL);
    assert_list(c, "2 running, 1 cancelled");
    assert_int_equal(upload(c, &b, &late, word), 409);
    assert_string_equal(word, "task_cancelled");
    for (int round = 0; round < 2; round++) {
        report(c, &a, 2);
        report(c, &b, 2);
    }
    assert_list(c, "2 finished, 1 cancelled");
    check(c);
}

static fed_status count_round(void *user, const fedserver_round_entry *entry, fed_error *err) {
    uint32_t *count = user;
    (void)entry, (void)err;
    ++*count;
    return FED_OK;
}

static void assert_rounds(coordinator *c, uint32_t most, uint32_t wanted) {
    fed_error err = {0};
    uint32_t count = 0;
    assert_fed_ok_err(fedserver_round_each(c->server, 1, most, count_round, &count, &err));
    assert_int_equal(count, wanted);
}

static void its_rounds_stay_in_the_history(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    coordinator_task(c, SMALL("\"rounds\": 3, \"cohort\": 1"));
    const test_device a = coordinator_enrol(c);
    report(c, &a, 1);
    report(c, &a, 1);
    assert_rounds(c, 1, 1);
    must_do(c, 1, FEDSERVER_CANCEL);
    for (int turn = 0; turn < 100; turn++) { /* meanwhile the task's open round is deleted */
        coordinator_commit(c);
        coordinator_wait(c, 1);
    }
    for (uint32_t most = 0; most <= 3; most++) {
        assert_rounds(c, most, most < 2 ? most : 2);
    }
    assert_rounds(c, UINT32_MAX, 2);
    const fedserver_task_entry entry = list(c, 1).wanted;
    assert_int_equal(entry.version, 2);
    assert_int_equal(entry.rounds, 3);
    assert_true(entry.finished_ms > 0);
    assert_fed_status(fedserver_model_export(c->server, 1, "/dev/null", &err), FED_ENOTFOUND);
    assert_non_null(strstr(err.text, "was cancelled"));
    check(c);
}

static void a_device_of_a_cancelled_task_learns_that_it_is_over(void **state) {
    coordinator *c = *state;
    coordinator_task(c, TWO_ROUNDS);
    const test_device a = coordinator_enrol(c);
    report(c, &a, 1);
    must_do(c, 1, FEDSERVER_CANCEL);
    coordinator_commit(c);
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 1, 0).reason, FED_WAIT_FINISHED);
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 0, 0).reason, FED_WAIT_NO_TASK);
}

/* The reply to the update was lost, and then the task was cancelled. A repeated update must
 * still be acknowledged. */
static void an_acknowledged_update_stays_acknowledged(void **state) {
    coordinator *c = *state;
    coordinator_task(c, TWO_ROUNDS);
    const test_device a = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &a);
    assert_int_equal(upload(c, &a, &work, NULL), 200);
    must_do(c, 1, FEDSERVER_CANCEL);
    assert_int_equal(upload(c, &a, &work, NULL), 200);
}

static void a_queued_or_paused_task_can_be_cancelled_a_finished_one_not(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    coordinator_one_at_a_time(c);
    coordinator_task(c, TWO_ROUNDS);
    coordinator_task(c, TWO_ROUNDS);
    must_do(c, 2, FEDSERVER_CANCEL);
    must_do(c, 3, FEDSERVER_PAUSE);
    must_do(c, 3, FEDSERVER_CANCEL);
    const test_device a = coordinator_enrol(c);
    report(c, &a, 1);
    assert_list(c, "1 finished, 3 cancelled, 2 cancelled");
    assert_fed_status(do_to(c, 1, FEDSERVER_CANCEL, &err), FED_ESTATE);
    assert_non_null(strstr(err.text, "is finished"));
    assert_fed_status(do_to(c, 9, FEDSERVER_CANCEL, &err), FED_ENOTFOUND);
    assert_non_null(strstr(err.text, "fedserver tasks"));
    check(c);
}

static off_t database_size(const coordinator *c) {
    off_t size = 0;
    DIR *folder = opendir(c->directory);
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        char path[600];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", c->directory, e->d_name);
        if (strcmp(e->d_name, "server.db") == 0 || strncmp(e->d_name, "blob-", 5) == 0) {
            assert_int_equal(stat(path, &st), 0);
            size += st.st_size;
        }
    }
    closedir(folder);
    return size;
}

/* A model of 1 MB is in a database row, so the database grows and later shrinks. */
static void the_space_of_a_cancelled_task_is_given_back(void **state) {
    coordinator *c = *state;
    coordinator_only_on_sqlite();
    coordinator_task(c, "{\"model\": \"input 500 | dense 500\", \"rounds\": 2, \"cohort\": 1}");
    coordinator_commit(c);
    must_do(c, 1, FEDSERVER_CANCEL);
    for (int k = 0; k < 20; k++) {
        coordinator_wait(c, 10);
        coordinator_commit(c);
    }
    fedserver_close(c->server); /* closing writes the journal into the database file */
    assert_true(database_size(c) < 800000);
    coordinator_open(c);
}

/* A cancelled task's model of 4 MB is deleted, although the coordinator does not run. */
static void nobody_need_serve_for_it(void **state) {
    coordinator *c = *state;
    coordinator_only_on_sqlite();
    fed_error err = {0};
    coordinator_task(c, "{\"model\": \"input 1000 | dense 1000\", \"rounds\": 2, \"cohort\": 1}");
    coordinator_commit(c);
    fedserver_close(c->server);
    assert_true(database_size(c) > 4000000);
    fedserver *other = person(c);
    assert_fed_ok_err(fedserver_task_change(other, c->now_ms, 1, FEDSERVER_CANCEL, &err));
    fedserver_close(other);
    assert_true(database_size(c) < 1000000);
    coordinator_open(c);
    assert_list(c, "1 cancelled");
}

static void a_paused_task_keeps_what_its_open_round_has(void **state) {
    coordinator *c = *state;
    char word[32];
    coordinator_task(c, TWO_ROUNDS);
    coordinator_one_at_a_time(c);
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    report(c, &a, 1);
    const fed_assignment late = device_ask_work(c, &b);
    must_do(c, 1, FEDSERVER_PAUSE);
    assert_list(c, "2 running, 1 paused");
    check(c);
    assert_int_equal(upload(c, &b, &late, word), 409);
    assert_string_equal(word, "round_closed");
    report(c, &b, 2);
    assert_list(c, "1 paused, 2 finished");
    must_do(c, 1, FEDSERVER_RESUME);
    assert_list(c, "1 running, 2 finished");
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
    check(c);
    report(c, &b, 1);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
    assert_int_equal((int)fedserver_rounds_front(&c->server->rounds)->round.number, 2);
    check(c);
}

/* A device may stop for good when it is told that all tasks are over. */
static void its_devices_are_not_told_that_all_is_over(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    const test_device a = coordinator_enrol(c);
    report(c, &a, 1);
    coordinator_task(c, TWO_ROUNDS);
    report(c, &a, 2);
    must_do(c, 2, FEDSERVER_PAUSE);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 2, 0).reason, FED_WAIT_NO_TASK);
        assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 0, 0).reason, FED_WAIT_NO_TASK);
        assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 1, 1).reason, FED_WAIT_FINISHED);
        coordinator_crash(c);
        coordinator_wait(c, 1);
    }
    must_do(c, 2, FEDSERVER_CANCEL);
    coordinator_commit(c);
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 0, 0).reason, FED_WAIT_FINISHED);
}

static void so_it_is_in_asynchronous_rounds(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 2, \"cohort\": 2, \"goal\": 2, \"staleness\": 3"));
    coordinator_one_at_a_time(c);
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    report(c, &a, 1);
    assert_int_equal(device_ask_work(c, &a).action, FED_ACTION_TRAIN);
    must_do(c, 1, FEDSERVER_PAUSE);
    report(c, &b, 2);
    must_do(c, 1, FEDSERVER_RESUME);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
    assert_true(fedserver_rounds_front(&c->server->rounds)->round.deadline_ms > c->now_ms);
    report(c, &a, 1);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
    check(c);
}

static void large_updates_of_a_paused_task_are_kept_and_copied(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    char copy[300];
    static const char large[] = "{\"model\": \"input 150 | dense 150\", \"codec_up\": \"float32\","
                                " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 2}";
    static float x[150 * 150 + 150];
    coordinator_task(c, large);
    coordinator_one_at_a_time(c);
    coordinator_task(c, large);
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    fed_assignment work = device_ask_work(c, &a);
    assert_int_equal(device_upload(c, &a, &work, x, 1, NULL), 200);
    must_do(c, 1, FEDSERVER_PAUSE);
    work = device_ask_work(c, &a);
    assert_true(work.task.id == 2);
    assert_int_equal(device_upload(c, &a, &work, x, 1, NULL), 200);
    check(c);
    coordinator_commit(c);
    if (coordinator_store(c)->copy != NULL) {
        snprintf(copy, sizeof copy, "%s/copy", c->directory);
        fedserver *other = person(c);
        assert_fed_ok_err(fedserver_backup(other, copy, &err));
        fedserver_close(other);
        coordinator_check(copy);
        fed_test_rmdir(copy);
    }
    work = device_ask_work(c, &b);
    assert_int_equal(device_upload(c, &b, &work, x, 1, NULL), 200);
    coordinator_wait(c, 0);
    assert_list(c, "1 paused, 2 finished");
    must_do(c, 1, FEDSERVER_RESUME);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
    must_do(c, 1, FEDSERVER_CANCEL);
    check(c);
}

static void a_paused_task_in_the_queue_is_passed_over(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    coordinator_one_at_a_time(c);
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    must_do(c, 2, FEDSERVER_PAUSE);
    assert_fed_status(do_to(c, 2, FEDSERVER_PAUSE, &err), FED_ESTATE);
    const test_device a = coordinator_enrol(c);
    report(c, &a, 1);
    assert_list(c, "3 running, 2 paused, 1 finished");
    must_do(c, 2, FEDSERVER_RESUME);
    assert_list(c, "3 running, 2 queued, 1 finished");
}

static void tasks_run_in_the_order_to_which_they_were_moved(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    for (int k = 0; k < 5; k++) {
        coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
        if (k == 0) {
            coordinator_one_at_a_time(c);
        }
    }
    move(c, 4, 1);
    assert_list(c, "1 running, 4 queued, 2 queued, 3 queued, 5 queued");
    move(c, 2, 3);
    assert_list(c, "1 running, 4 queued, 3 queued, 2 queued, 5 queued");
    move(c, 4, 99);
    assert_list(c, "1 running, 3 queued, 2 queued, 5 queued, 4 queued");
    assert_int_equal(list(c, 5).wanted.position, 3);
    fedserver *other = person(c);
    assert_fed_status(fedserver_task_move(other, c->now_ms, 1, 2, &err), FED_ESTATE);
    assert_fed_status(fedserver_task_move(other, c->now_ms, 77, 2, &err), FED_ENOTFOUND);
    fedserver_close(other);
    const test_device a = coordinator_enrol(c);
    const uint64_t order[] = {1, 3, 2, 5, 4};
    for (int k = 0; k < 5; k++) {
        report(c, &a, order[k]);
    }
    assert_list(c, "4 finished, 5 finished, 2 finished, 3 finished, 1 finished");
}

static void decline(coordinator *c, const test_device *d, const fed_assignment *work) {
    uint8_t body[400];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_decline_write(&w, &(fed_decline){.task = work->task.id,
                                         .round = work->round,
                                         .lease = work->lease,
                                         .reason = "samples are 784 values"});
    answer a = coordinator_ask(c, d, "POST", "/v1/decline", "", body, w.len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

static void decline_next(coordinator *c, const test_device *d, uint64_t task) {
    const fed_assignment work = device_ask_work(c, d);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_true(work.task.id == task);
    decline(c, d, &work);
}

static void resuming_a_task_asks_everybody_anew(void **state) {
    coordinator *c = *state;
    coordinator_task(c, TWO_ROUNDS);
    const test_device a = coordinator_enrol(c);
    decline_next(c, &a, 1);
    assert_int_equal(device_ask_work(c, &a).action, FED_ACTION_WAIT);
    must_do(c, 1, FEDSERVER_RESUME);
    assert_list(c, "1 running");
    assert_int_equal(device_ask_work(c, &a).action, FED_ACTION_TRAIN);
    assert_int_equal(list(c, 1).wanted.declined, 0);
}

static void the_status_lists_tasks(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    coordinator_task(c, TWO_ROUNDS);
    coordinator_one_at_a_time(c);
    coordinator_task(c, TWO_ROUNDS);
    const test_device a = coordinator_enrol(c);
    decline_next(c, &a, 1);
    coordinator_commit(c);
    answer status = coordinator_ask(c, NULL, "GET", "/v1/status", "", NULL, 0);
    json_t *root = json_loads((const char *)status.body, 0, NULL);
    const json_t *tasks = json_object_get(root, "tasks");
    assert_int_equal(json_array_size(tasks), 2);
    const json_t *first = json_array_get(tasks, 0);
    const json_t *second = json_array_get(tasks, 1);
    assert_string_equal(json_string_value(json_object_get(first, "state")), "running");
    assert_true(json_is_null(json_object_get(first, "position")));
    const json_t *declined = json_object_get(first, "declined");
    assert_int_equal(json_integer_value(json_object_get(declined, "count")), 1);
    const json_t *reason = json_array_get(json_object_get(declined, "reasons"), 0);
    assert_string_equal(json_string_value(json_object_get(reason, "reason")),
                        "samples are 784 values");
    assert_int_equal(json_integer_value(json_object_get(reason, "devices")), 1);
    assert_int_equal(json_integer_value(json_object_get(second, "position")), 1);
    fedserver *other = person(c);
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok_err(fedserver_tasks_json(other, c->now_ms, &w, &err));
    json_t *said = json_loadb((const char *)w.data, w.len, 0, NULL);
    assert_true(json_equal(said, tasks));
    json_decref(said);
    w.len = 0;
    assert_fed_ok_err(fedserver_status_json(other, c->now_ms, &w, &err));
    said = json_loadb((const char *)w.data, w.len, 0, NULL);
    assert_true(json_equal(json_object_get(said, "tasks"), tasks));
    assert_true(json_equal(json_object_get(said, "round"), json_object_get(root, "round")));
    json_decref(said);
    fed_writer_free(&w);
    char text[2000];
    assert_fed_ok_err(fedserver_status(other, c->now_ms, text, sizeof text, &err));
    assert_non_null(strstr(text, "1 device declined: samples are 784 values\n"));
    assert_non_null(strstr(text, "besides: 1 queued, 0 paused"));
    fedserver_close(other);
    json_decref(root);
    answer_free(&status);
}

#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_cancelled_task_ends_and_the_next_one_runs),
        WITH(its_rounds_stay_in_the_history),
        WITH(a_device_of_a_cancelled_task_learns_that_it_is_over),
        WITH(an_acknowledged_update_stays_acknowledged),
        WITH(a_queued_or_paused_task_can_be_cancelled_a_finished_one_not),
        WITH(the_space_of_a_cancelled_task_is_given_back),
        WITH(nobody_need_serve_for_it),
        WITH(a_paused_task_keeps_what_its_open_round_has),
        WITH(its_devices_are_not_told_that_all_is_over),
        WITH(so_it_is_in_asynchronous_rounds),
        WITH(large_updates_of_a_paused_task_are_kept_and_copied),
        WITH(a_paused_task_in_the_queue_is_passed_over),
        WITH(tasks_run_in_the_order_to_which_they_were_moved),
        WITH(resuming_a_task_asks_everybody_anew),
        WITH(the_status_lists_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
