/* The list of devices in portions, the table of rounds as a file, and the model as a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <jansson.h>

#include "fed/checkpoint.h"

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 1}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

static const char *state_of(const json_t *root, size_t k) {
    const json_t *device = json_array_get(json_object_get(root, "devices"), k);
    return json_string_value(json_object_get(device, "state"));
}

static void expect_state(coordinator *c, size_t k, const char *state) {
    json_t *root = coordinator_json(c, "/v1/devices", "");
    assert_string_equal(state_of(root, k), state);
    json_decref(root);
}

static void portions_follow_each_other_to_the_last(void **state) {
    coordinator *c = *state;
    enum { DEVICES = 5 };
    char query[64] = "limit=2";
    test_device d[DEVICES];
    size_t count = 0;
    for (int k = 0; k < DEVICES; k++) {
        d[k] = coordinator_enrol(c);
    }
    for (bool more = true; more;) {
        json_t *root = coordinator_json(c, "/v1/devices", query);
        const json_t *list = json_object_get(root, "devices"),
                     *next = json_object_get(root, "next");
        assert_int_equal(json_integer_value(json_object_get(root, "total")), DEVICES);
        for (size_t k = 0; k < json_array_size(list); k++) {
            char hex[FED_SHA256_HEX];
            fed_hex(d[count++].fingerprint, FED_SHA256_SIZE, hex);
            assert_string_equal(
                json_string_value(json_object_get(json_array_get(list, k), "fingerprint")), hex);
        }
        more = !json_is_null(next);
        snprintf(query, sizeof query, "limit=2&after=%lld", (long long)json_integer_value(next));
        json_decref(root);
    }
    assert_int_equal(count, DEVICES);
}

static void wrong_numbers_are_taken_for_the_usual_ones(void **state) {
    coordinator *c = *state;
    static const char *const queries[] = {"limit=0", "limit=99999999",
                                          "after=x&limit=", "limit=-1"};
    (void)coordinator_enrol(c);
    for (size_t k = 0; k < sizeof queries / sizeof queries[0]; k++) {
        json_t *root = coordinator_json(c, "/v1/devices", queries[k]);
        assert_int_equal(json_array_size(json_object_get(root, "devices")), 1);
        json_decref(root);
    }
}

static void a_devices_state_follows_its_life(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    fed_error err = {0};
    fedserver_entry entry;
    char name[9];
    expect_state(c, 0, "new");
    coordinator_task(c, task);
    fed_assignment work = device_ask_work(c, &d);
    expect_state(c, 0, "training");
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    coordinator_commit(c);
    json_t *root = coordinator_json(c, "/v1/devices", "");
    const json_t *row = json_array_get(json_object_get(root, "devices"), 0);
    assert_string_equal(state_of(root, 0), "waiting");
    assert_int_equal(json_integer_value(json_object_get(row, "counted")), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "last_seen_ms")), c->now_ms);
    json_decref(root);
    coordinator_wait(c, 30 * 60 * 1000);
    expect_state(c, 0, "away");
    fed_hex(d.fingerprint, 4, name);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_device_revoke(c->server, c->now_ms, name, &entry, &err));
    expect_state(c, 0, "revoked");
}

static const json_t *of_first(const json_t *root, const char *list, const char *key) {
    return json_object_get(json_array_get(json_object_get(root, list), 0), key);
}

/* Check declined_until_ms of the first device and of the first task; until_ms 0: both are null. */
static void expect_until(coordinator *c, int64_t until_ms) {
    json_t *devices = coordinator_json(c, "/v1/devices", "");
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *of_device = of_first(devices, "devices", "declined_until_ms");
    const json_t *of_task = of_first(status, "tasks", "declined_until_ms");
    assert_true(until_ms != 0 ? json_is_integer(of_device) : json_is_null(of_device));
    assert_true(until_ms != 0 ? json_is_integer(of_task) : json_is_null(of_task));
    assert_int_equal(json_integer_value(of_device), until_ms);
    assert_int_equal(json_integer_value(of_task), until_ms);
    json_decref(devices);
    json_decref(status);
}

static void a_decline_lasts_a_day_or_as_long_as_its_task(void **state) {
    coordinator *c = *state;
    const int64_t day_ms = INT64_C(24) * 3600 * 1000;
    fed_error err = {0};
    const test_device d = coordinator_enrol(c);
    coordinator_task(c, "{\"model\": \"vector 2\", \"rounds\": 2, \"cohort\": 1}");
    expect_until(c, 0);
    const int64_t now_ms = c->now_ms;
    assert_int_equal(device_say(c, &d, &(fed_checkin){.protocol = 1}).action, FED_ACTION_WAIT);
    coordinator_commit(c);
    coordinator_wait(c, day_ms - 1);
    expect_state(c, 0, "declined");
    expect_until(c, now_ms + day_ms);
    coordinator_wait(c, 1);
    expect_state(c, 0, "away");
    expect_until(c, 0);
    assert_int_equal(device_say(c, &d, &(fed_checkin){.protocol = 1}).action, FED_ACTION_WAIT);
    coordinator_commit(c);
    expect_until(c, c->now_ms + day_ms);
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_CANCEL, &err));
    coordinator_commit(c);
    expect_until(c, 0);
}

static void rounds_are_a_table_with_the_oldest_first(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    answer a = coordinator_ask(c, NULL, "GET", "/rounds.csv", "", NULL, 0);
    answer_expect(&a, 404, "task_unknown");
    coordinator_task(c, task);
    for (int k = 0; k < 2; k++) {
        fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(device_upload(c, &d, &work, ones, 7, NULL), 200);
        coordinator_wait(c, 1000);
    }
    a = coordinator_ask(c, NULL, "GET", "/rounds.csv", "task=1", NULL, 0);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.content_type, "text/csv; charset=utf-8");
    assert_string_equal(a.file_name, "rounds.csv");
    const char *text = (char *)a.body;
    assert_int_equal(strncmp(text, "round,attempts,opened_ms,", 25), 0);
    const char *first = strstr(text, "\r\n1,1,"), *second = strstr(text, "\r\n2,1,");
    assert_non_null(first);
    assert_true(second > first);
    assert_non_null(strstr(first, ",1,7,"));
    answer_free(&a);
}

static void the_model_is_for_operators(void **state) {
    coordinator *c = *state;
    const fedserver_grant grant = {.ttl_s = 60, .role = FEDSERVER_ROLE_OPERATOR};
    test_device d = coordinator_enrol(c), operator= coordinator_enrol_as(c, &grant);
    fed_error err = {0};
    fed_model model;
    coordinator_task(c, task);
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    coordinator_wait(c, 0);
    assert_int_equal(coordinator_status(c, NULL, "GET", "/model.safetensors", "", NULL, 0),
                     403); /* a reader of the page on this machine is not logged in */
    assert_int_equal(coordinator_status(c, &d, "GET", "/model.safetensors", "", NULL, 0), 403);
    answer a = coordinator_ask(c, &operator, "GET", "/model.safetensors", "task=1", NULL, 0);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.file_name, "model.safetensors");
    assert_fed_ok_err(fed_checkpoint_parse("answer", a.body, a.len, &model, &err));
    assert_int_equal(model.layout.size, 6);
    fed_model_free(&model);
    answer_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(portions_follow_each_other_to_the_last),
        WITH_COORDINATOR(wrong_numbers_are_taken_for_the_usual_ones),
        WITH_COORDINATOR(a_devices_state_follows_its_life),
        WITH_COORDINATOR(a_decline_lasts_a_day_or_as_long_as_its_task),
        WITH_COORDINATOR(rounds_are_a_table_with_the_oldest_first),
        WITH_COORDINATOR(the_model_is_for_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
