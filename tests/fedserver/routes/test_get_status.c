/* The status as JSON, which programs and the page read, and the metrics for Prometheus. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <jansson.h>
#include <math.h>

#include "fed/version.h"

static const char task[] = "{\"name\": \"caf\\u00e9 \\\"1\\\"\", \"model\": \"input 2 | dense 2\","
                           " \"codec_up\": \"float32\", \"codec_down\": \"float32\","
                           " \"rounds\": 2, \"cohort\": 3, \"goal\": 2, \"minimum\": 1,"
                           " \"deadline_s\": 90}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

static json_t *status(coordinator *c) {
    return coordinator_json(c, "/v1/status", "");
}

static int64_t integer(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    assert_non_null(value);
    return value;
}

static void an_idle_coordinator_has_nulls(void **state) {
    coordinator *c = *state;
    json_t *root = status(c);
    assert_true(json_is_null(json_object_get(root, "task")));
    assert_true(json_is_null(json_object_get(root, "round")));
    assert_int_equal(json_array_size(json_object_get(root, "rounds")), 0);
    assert_int_equal(integer(root, "devices"), 0);
    assert_int_equal(integer(root, "protocol"), FED_PROTOCOL);
    assert_int_equal(integer(root, "now_ms"), c->now_ms);
    json_decref(root);
}

/* Check the status's sentence. Each '*' in the pattern stands for the name of the next device. */
static void expect_sentence(coordinator *c, const test_device *d, const char *pattern) {
    char want[512] = "";
    for (const char *p = pattern; *p != '\0'; p++) {
        char name[FED_SHA256_HEX] = {*p};
        if (*p == '*') {
            fed_hex(d->fingerprint, 4, name);
            d++;
        }
        strncat(want, name, sizeof want - strlen(want) - 1);
    }
    json_t *root = status(c);
    assert_string_equal(text(json_object_get(root, "round"), "waits_for"), want);
    json_decref(root);
}

static void the_sentence_says_what_is_awaited_until_when_and_what_then(void **state) {
    coordinator *c = *state;
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, task);
    expect_sentence(c, d,
                    "a device to check in (3 slots are free, 2 updates are missing); the deadline "
                    "of 90.0 s starts then");
    fed_assignment work = device_ask_work(c, &d[0]);
    expect_sentence(c, d,
                    "2 more updates (0 of 2) from 1 device (*) and 2 free slots until 00:01:30 "
                    "UTC; then a new attempt opens, unless the minimum of 1 is met by 1 more");
    assert_int_equal(device_upload(c, &d[0], &work, ones, 1, NULL), 200);
    expect_sentence(c, d,
                    "1 more update (1 of 2) from 2 free slots until 00:01:30 UTC; then the round "
                    "commits, since the minimum of 1 is met");
    (void)device_ask_work(c, &d[1]);
    expect_sentence(c, &d[1],
                    "1 more update (1 of 2) from 1 device (*) and 1 free slot until 00:01:30 UTC; "
                    "then the round commits, since the minimum of 1 is met");
}

static void the_sentence_of_an_asynchronous_round_says_when_a_slot_is_free(void **state) {
    coordinator *c = *state;
    test_device d[7];
    fed_assignment work = {0};
    for (int k = 0; k < 7; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 2, \"cohort\": 7, \"goal\": 3, \"minimum\": 2,"
                        " \"deadline_s\": 90, \"staleness\": 1}");
    expect_sentence(c, d,
                    "a device to check in (7 slots are free, 3 updates are missing); the deadline "
                    "of 90.0 s starts with its update");
    for (int k = 6; k >= 0; k--) {
        work = device_ask_work(c, &d[k]);
        coordinator_wait(c, 1000);
    }
    expect_sentence(c, d,
                    "3 more updates (0 of 3) from 7 devices (*, *, *, * and 3 more); the first "
                    "lease ends at 00:01:30 UTC, and its slot is free again then");
    assert_int_equal(device_upload(c, &d[0], &work, ones, 1, NULL), 200);
    expect_sentence(c, &d[1],
                    "2 more updates (1 of 3) from 6 devices (*, *, *, * and 2 more) and 1 free "
                    "slot until 00:01:37 UTC; from then on the minimum of 2 is enough to commit");
    coordinator_wait(c, 90000);
    expect_sentence(c, d,
                    "2 more updates (1 of 3) from 7 free slots; the round commits with the "
                    "minimum of 2");
}

static void who_is_out_is_told_to_programs_too(void **state) {
    coordinator *c = *state;
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    char name[FED_SHA256_HEX];
    coordinator_task(c, task);
    (void)device_ask_work(c, &d[1]);
    json_t *root = status(c);
    const json_t *round = json_object_get(root, "round");
    const json_t *devices = json_object_get(round, "devices");
    fed_hex(d[1].fingerprint, 4, name);
    assert_int_equal(integer(round, "out"), 1);
    assert_int_equal(integer(round, "free"), 2);
    assert_int_equal(integer(round, "staleness"), 0);
    assert_int_equal(integer(round, "deadline_ms"), c->now_ms + 90000);
    assert_int_equal(json_array_size(devices), 1);
    assert_string_equal(json_string_value(json_array_get(devices, 0)), name);
    json_decref(root);
}

static void the_command_line_says_the_same(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver *cli = NULL;
    char lines[1024], want[1024];
    test_device d = coordinator_enrol(c);
    coordinator_task(c, "{\"name\": \"t\", \"model\": \"input 2 | dense 2\", \"rounds\": 2,"
                        " \"cohort\": 3, \"codec_up\": \"float32\"}");
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    coordinator_commit(c);
    json_t *root = status(c);
    snprintf(want, sizeof want, "task 1 (t): round 1 of 2, attempt 1\nwaiting for %s\n",
             text(json_object_get(root, "round"), "waits_for"));
    json_decref(root);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &cli, &err));
    assert_fed_ok_err(fedserver_status(cli, c->now_ms, lines, sizeof lines, &err));
    fedserver_close(cli);
    lines[strlen(want)] = '\0';
    assert_string_equal(lines, want);
}

static void the_phase_of_the_open_round_is_told(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver *cli = NULL;
    char lines[1024];
    test_device d = coordinator_enrol(c);
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"rounds\": 3, \"cohort\": 1,"
                        " \"codec_up\": \"float32\", \"phases\": [{\"round\": 2, \"batch\": 3,"
                        " \"learning_rate\": 0.0005, \"codec_down\": \"float32\"}]}");
    json_t *root = status(c);
    const json_t *told = json_object_get(root, "task");
    assert_int_equal(integer(told, "phase"), 1);
    assert_int_equal(integer(told, "phases"), 2);
    assert_int_equal(integer(told, "next_phase"), 2);
    assert_int_equal(integer(told, "batch"), 8);
    json_decref(root);
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    coordinator_commit(c);
    root = status(c);
    told = json_object_get(root, "task");
    assert_int_equal(integer(told, "phase"), 2);
    assert_true(json_is_null(json_object_get(told, "next_phase")));
    assert_int_equal(integer(told, "batch"), 3);
    assert_int_equal(integer(told, "local_steps"), 10);
    assert_true(json_real_value(json_object_get(told, "learning_rate")) == 0.0005);
    assert_string_equal(text(told, "optimizer"), "sgd");
    assert_string_equal(text(told, "codec_down"), "float32");
    json_decref(root);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &cli, &err));
    assert_fed_ok_err(fedserver_status(cli, c->now_ms, lines, sizeof lines, &err));
    fedserver_close(cli);
    assert_non_null(strstr(lines, "round 2 of 3, attempt 1\n"
                                  "phase 2 of 2, since round 2: codec_up float32, codec_down "
                                  "float32, local_steps 10, batch 3, optimizer sgd, learning_rate "
                                  "0.0005\nwaiting for "));
}

static void a_chosen_codec_is_told_with_what_was_asked(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver *cli = NULL;
    char lines[1024], line[200];
    coordinator_task(c, "{\"model\": \"lr\", \"codec_up\": \"auto:bytes=300\", \"rounds\": 2,"
                        " \"cohort\": 1}");
    json_t *root = status(c);
    const json_t *main_task = json_object_get(root, "task");
    const json_t *listed = json_array_get(json_object_get(root, "tasks"), 0);
    assert_string_equal(text(main_task, "codec_up_asked"), "auto:bytes=300");
    assert_memory_equal(text(main_task, "codec_up"), "eden:", 5);
    assert_string_equal(text(listed, "codec_up_asked"), "auto:bytes=300");
    assert_string_equal(text(listed, "codec_up"), text(main_task, "codec_up"));
    snprintf(line, sizeof line, "\nupdates: %s, chosen for auto:bytes=300\n",
             text(main_task, "codec_up"));
    json_decref(root);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &cli, &err));
    assert_fed_ok_err(fedserver_status(cli, c->now_ms, lines, sizeof lines, &err));
    fedserver_close(cli);
    assert_non_null(strstr(lines, line));
}

static void a_committed_round_and_its_task_are_told(void **state) {
    coordinator *c = *state;
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, task);
    for (int k = 0; k < 2; k++) {
        fed_assignment work = device_ask_work(c, &d[k]);
        assert_int_equal(device_upload(c, &d[k], &work, ones, (uint32_t)k + 2, NULL), 200);
    }
    json_t *root = status(c);
    const json_t *told = json_object_get(root, "task");
    assert_string_equal(text(told, "name"), "caf\xc3\xa9 \"1\"");
    assert_string_equal(text(told, "state"), "running");
    assert_string_equal(text(told, "codec_up"), "float32");
    assert_int_equal(strlen(text(told, "digest")), 16);
    assert_int_equal(integer(told, "parameters"), 6);
    assert_int_equal(integer(told, "version"), 1);
    const json_t *rounds = json_object_get(root, "rounds");
    assert_int_equal(json_array_size(rounds), 1);
    const json_t *round = json_array_get(rounds, 0);
    assert_int_equal(integer(round, "number"), 1);
    assert_int_equal(integer(round, "updates"), 2);
    assert_int_equal(integer(round, "samples"), 5);
    assert_true(json_real_value(json_object_get(round, "loss")) == 0.5);
    assert_true(integer(round, "update_bytes") > 2 * 24);
    assert_true(json_is_null(json_object_get(round, "accuracy")));
    assert_int_equal(integer(json_object_get(root, "round"), "number"), 2);
    assert_true(integer(json_object_get(root, "traffic"), "requests") >= 4);
    json_decref(root);
}

/* The root has the newest rounds of the main task, so `running` has only the rounds of other
 * tasks. */
static void no_rounds_are_told_twice(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 3, \"cohort\": 1}");
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    coordinator_task(c, task);
    json_t *root = status(c);
    const json_t *running = json_object_get(root, "running");
    assert_int_equal(json_array_size(json_object_get(root, "rounds")), 1);
    assert_int_equal(json_array_size(running), 2);
    for (size_t k = 0; k < 2; k++) {
        const json_t *one = json_array_get(running, k);
        const bool main_task = k == 0;
        assert_int_equal(json_equal(json_object_get(one, "task"), json_object_get(root, "task")),
                         main_task);
        assert_int_equal(json_object_get(one, "rounds") == NULL, main_task);
        assert_non_null(json_object_get(one, "round"));
    }
    json_decref(root);
}

static void a_model_that_predicts_numbers_has_a_test_loss_and_no_accuracy(void **state) {
    coordinator *c = *state;
    static const float update[3] = {1, 1, 1};
    uint8_t body[64];
    fed_writer w;
    test_device d = coordinator_enrol(c), judge = coordinator_enrol_evaluator(c);
    coordinator_task(c, "{\"model\": \"input 2 | dense 1 | mse\", \"codec_up\": \"float32\","
                        " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 1}");
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, update, 1, NULL), 200);
    work = device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0);
    const fed_metric metric = {.task = work.task.id, .version = 1, .samples = 9, .loss = 0.25F};
    fed_writer_fixed(&w, body, sizeof body);
    fed_metric_write(&w, &metric);
    assert_int_equal(coordinator_status(c, &judge, "POST", "/v1/metric", "", body, w.len), 200);
    coordinator_commit(c);
    json_t *root = status(c);
    const json_t *round = json_array_get(json_object_get(root, "rounds"), 0);
    assert_true(json_is_null(json_object_get(round, "accuracy")));
    assert_true(json_real_value(json_object_get(round, "test_loss")) == 0.25);
    json_decref(root);
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, "fed_model_test_loss{task=\"1\"} 0.25"));
    assert_null(strstr((char *)a.body, "fed_model_accuracy{"));
    answer_free(&a);
}

static void at_most_200_rounds_are_told_newest_first(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 203, \"cohort\": 1}");
    for (int k = 0; k < 203; k++) {
        fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
        if (k != 201) {
            continue;
        }
        json_t *root = status(c);
        const json_t *rounds = json_object_get(root, "rounds");
        assert_int_equal(json_array_size(rounds), 200);
        assert_int_equal(integer(json_array_get(rounds, 0), "number"), 202);
        json_decref(root);
    }
    json_t *root = status(c);
    const json_t *rounds = json_object_get(root, "rounds");
    assert_int_equal(json_array_size(rounds), 200);
    assert_int_equal(integer(json_array_get(rounds, 0), "number"), 203);
    assert_int_equal(integer(json_array_get(rounds, 199), "number"), 4);
    assert_string_equal(text(json_object_get(root, "task"), "state"), "finished");
    assert_true(json_is_null(json_object_get(root, "round")));
    json_decref(root);
}

static void metrics_count_what_happened(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    work.round = 9;
    work.lease++;
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 409);
    coordinator_wait(c, 90000);
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_int_equal(a.status, 200);
    static const char *const lines[] = {
        "\n# TYPE fed_updates_total counter\n",
        "\nfed_updates_total{result=\"counted\"} 1\n",
        "\nfed_updates_total{result=\"repeated\"} 1\n",
        "\nfed_updates_total{result=\"round_closed\"} 1\n",
        "\nfed_updates_total{result=\"bad_update\"} 0\n",
        "\nfed_rounds_committed_total 1\n",
        "\nfed_assignments_total{action=\"train\"} 1\n",
        "\nfed_devices 1\n",
        "\nfed_model_version{task=\"1\"} 1\n",
        "\nfed_round_number{task=\"1\"} 2\n",
        "\nfed_task_running{task=\"1\"} 1\n",
        "\nfed_tasks_running 1\n",
    };
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        if (strstr((char *)a.body, lines[k]) == NULL) {
            fail_msg("the line %s is missing in the metrics:\n%s", lines[k], (char *)a.body);
        }
    }
    answer_free(&a);
}

static void expect_crowd(coordinator *c, unsigned waiting, unsigned away) {
    char line[100];
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, "\nfed_devices 3\n"));
    snprintf(line, sizeof line, "\nfed_devices_state{state=\"waiting\"} %u\n", waiting);
    assert_non_null(strstr((char *)a.body, line));
    snprintf(line, sizeof line, "\nfed_devices_state{state=\"away\"} %u\n", away);
    assert_non_null(strstr((char *)a.body, line));
    answer_free(&a);
}

static void metrics_count_devices_that_have_not_come_as_away(void **state) {
    coordinator *c = *state;
    const test_device d[3] = {coordinator_enrol(c), coordinator_enrol(c), coordinator_enrol(c)};
    expect_crowd(c, 0, 3);
    (void)device_ask_work(c, &d[0]);
    (void)device_ask_work(c, &d[2]);
    expect_crowd(c, 2, 1);
    expect_crowd(c, 2, 1);
    coordinator_restart(c);
    expect_crowd(c, 0, 3);
    (void)device_ask_work(c, &d[1]);
    expect_crowd(c, 1, 2);
}

static void metrics_go_on_counting_where_they_stopped(void **state) {
    coordinator *c = *state;
    fedserver_census *census = &c->server->census;
    const test_device d[3] = {coordinator_enrol(c), coordinator_enrol(c), coordinator_enrol(c)};
    for (size_t k = 0; k < 3; k++) {
        (void)device_ask_work(c, &d[k]);
    }
    census->next = 2;
    expect_crowd(c, 1, 2);
    expect_crowd(c, 3, 0);
}

/* Return the device that a round's row names under `key`, or "" if the row names none. Also check
 * its amount. */
static const char *standout(const json_t *round, const char *key, const char *amount,
                            double wanted) {
    const json_t *who = json_object_get(round, key);
    assert_true(fabs(json_number_value(json_object_get(who, amount)) - wanted) < 1e-9);
    return text(who, "device");
}

static void a_round_says_who_weighed_most_and_who_moved_the_model_most(void **state) {
    coordinator *c = *state;
    test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const float far[6] = {3, 4, 0, 0, 0, 0}, near[6] = {1};
    char name_a[17], name_b[17];
    fed_hex(a.fingerprint, 8, name_a);
    fed_hex(b.fingerprint, 8, name_b);
    coordinator_task(c, task);
    const fed_assignment work_a = device_ask_work(c, &a), work_b = device_ask_work(c, &b);
    assert_int_equal(device_upload(c, &a, &work_a, far, 1, NULL), 200);
    assert_int_equal(device_upload(c, &b, &work_b, near, 3, NULL), 200);
    json_t *root = status(c);
    const json_t *round = json_array_get(json_object_get(root, "rounds"), 0);
    assert_string_equal(standout(round, "heaviest", "share", 0.75), name_b);
    assert_string_equal(standout(round, "furthest", "norm", 5), name_a);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(an_idle_coordinator_has_nulls),
        WITH_COORDINATOR(no_rounds_are_told_twice),
        WITH_COORDINATOR(a_round_says_who_weighed_most_and_who_moved_the_model_most),
        WITH_COORDINATOR(the_sentence_says_what_is_awaited_until_when_and_what_then),
        WITH_COORDINATOR(the_sentence_of_an_asynchronous_round_says_when_a_slot_is_free),
        WITH_COORDINATOR(who_is_out_is_told_to_programs_too),
        WITH_COORDINATOR(the_command_line_says_the_same),
        WITH_COORDINATOR(the_phase_of_the_open_round_is_told),
        WITH_COORDINATOR(a_chosen_codec_is_told_with_what_was_asked),
        WITH_COORDINATOR(a_committed_round_and_its_task_are_told),
        WITH_COORDINATOR(a_model_that_predicts_numbers_has_a_test_loss_and_no_accuracy),
        WITH_COORDINATOR(at_most_200_rounds_are_told_newest_first),
        WITH_COORDINATOR(metrics_count_what_happened),
        WITH_COORDINATOR(metrics_count_devices_that_have_not_come_as_away),
        WITH_COORDINATOR(metrics_go_on_counting_where_they_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
