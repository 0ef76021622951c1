/* The status that programs and the page read, and the metrics. */
#include "coordinator_fixture.h"

#include <jansson.h>

#include "fed/version.h"

static const char task[] = "{\"name\": \"caf\\u00e9 \\\"1\\\"\", \"model\": \"input 2 | dense 2\","
                           " \"codec_up\": \"float32\", \"codec_down\": \"float32\","
                           " \"rounds\": 2, \"cohort\": 3, \"goal\": 2, \"minimum\": 1,"
                           " \"deadline_s\": 90}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

static int setup(void **state) {
    static coordinator c;
    coordinator_setup(&c);
    *state = &c;
    return 0;
}

static int teardown(void **state) {
    coordinator_teardown(*state);
    return 0;
}

static json_t *status(coordinator *c) {
    answer a = coordinator_ask(c, NULL, "GET", "/v1/status", "", NULL, 0);
    assert_int_equal(a.status, 200);
    json_t *root = json_loads((char *)a.body, 0, NULL);
    assert_non_null(root);
    answer_free(&a);
    return root;
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

static void the_sentence_says_what_is_awaited_until_when_and_what_then(void **state) {
    coordinator *c = *state;
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, task);
    json_t *root = status(c);
    const json_t *round = json_object_get(root, "round");
    assert_true(json_is_null(json_object_get(round, "deadline_ms")));
    assert_non_null(strstr(text(round, "waits_for"), "3 places are free"));
    json_decref(root);

    fed_assignment work = device_ask_work(c, &d[0]);
    root = status(c);
    round = json_object_get(root, "round");
    assert_int_equal(integer(round, "deadline_ms"), c->now_ms + 90000);
    assert_string_equal(text(round, "waits_for"),
                        "2 more updates (0 of 2) until 00:01:30 UTC; then a new attempt opens, "
                        "unless the minimum of 1 is met by 1 more");
    json_decref(root);

    assert_int_equal(device_upload(c, &d[0], &work, ones, 1, NULL), 200);
    root = status(c);
    round = json_object_get(root, "round");
    assert_string_equal(text(round, "waits_for"),
                        "1 more update (1 of 2) until 00:01:30 UTC; then the round commits, since "
                        "the minimum of 1 is met");
    assert_int_equal(integer(round, "received"), 1);
    assert_int_equal(integer(round, "leased"), 1);
    json_decref(root);
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
        json_t *root = status(c); /* while a round is open, too */
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
        "\nfed_model_version 1\n",
        "\nfed_round_number 2\n",
        "\nfed_task_running 1\n",
    };
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        if (strstr((char *)a.body, lines[k]) == NULL) {
            fail_msg("missing: %s in\n%s", lines[k], (char *)a.body);
        }
    }
    answer_free(&a);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(an_idle_coordinator_has_nulls),
        WITH(the_sentence_says_what_is_awaited_until_when_and_what_then),
        WITH(a_committed_round_and_its_task_are_told),
        WITH(at_most_200_rounds_are_told_newest_first),
        WITH(metrics_count_what_happened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
