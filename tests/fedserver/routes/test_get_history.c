/* GET /v1/rounds: the whole history of a task, thinned to what a chart shows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"

#include <math.h>

/* Store `count` committed rounds of task 1, each with a loss of its own. */
static void store_rounds(coordinator *c, uint32_t count) {
    fed_error err = {0};
    for (uint32_t k = 1; k <= count; k++) {
        const fedserver_round_row row = {.number = k,
                                         .attempts = 1 + k % 3,
                                         .opened_ms = 1700000000000 + k * 1000,
                                         .committed_ms = 1700000000900 + k * 1000,
                                         .updates = 12,
                                         .samples = 7200,
                                         .loss =
                                             k == count / 2 ? 99.5 : 2.0 / (1 + k) + 0.123456789,
                                         .update_bytes = 310000 + k,
                                         .delta_bytes = 41000 + k};
        assert_fed_ok_err(c->server->store->round_put(c->server->db, 1, &row, &err));
    }
}

static json_t *column(const json_t *root, const char *name) {
    return json_object_get(json_object_get(root, "rounds"), name);
}

static void task_with(coordinator *c, uint32_t count) {
    coordinator_task(c, "{\"name\": \"leaves\", \"model\": \"lr\", \"rounds\": 1000000, "
                        "\"cohort\": 1, \"learning_rate\": 0.25}");
    store_rounds(c, count);
}

FED_TEST_WITH(a_short_history_is_whole_and_names_the_task, coordinator *c) {
    task_with(c, 3);
    json_t *root = coordinator_json(c, "/v1/rounds", "task=1");
    const json_t *task = json_object_get(root, "task");
    assert_string_equal(json_string_value(json_object_get(task, "name")), "leaves");
    assert_true(json_real_value(json_object_get(task, "learning_rate")) == 0.25);
    assert_int_equal(json_integer_value(json_object_get(task, "version")), 3);
    assert_int_equal(json_integer_value(json_object_get(root, "count")), 3);
    char *numbers = json_dumps(column(root, "number"), JSON_COMPACT);
    assert_string_equal(numbers, "[1,2,3]");
    assert_true(json_is_null(json_array_get(column(root, "accuracy"), 0)));
    free(numbers);
    json_decref(root);
}

FED_TEST_WITH(a_long_history_keeps_its_ends_and_its_spike, coordinator *c) {
    const uint32_t count = 3000;
    task_with(c, count);
    json_t *root = coordinator_json(c, "/v1/rounds", "task=1");
    const json_t *numbers = column(root, "number"), *losses = column(root, "loss");
    const size_t points = json_array_size(numbers);
    assert_in_range(points, 200, 500);
    assert_int_equal(json_integer_value(json_array_get(numbers, 0)), 1);
    assert_int_equal(json_integer_value(json_array_get(numbers, points - 1)), count);
    json_int_t before = 0;
    double most = 0;
    for (size_t k = 0; k < points; k++) {
        assert_true(json_integer_value(json_array_get(numbers, k)) > before);
        before = json_integer_value(json_array_get(numbers, k));
        most = fmax(most, json_real_value(json_array_get(losses, k)));
    }
    assert_true(most == 99.5);
    assert_int_equal(json_integer_value(json_object_get(root, "count")), count);
    json_decref(root);
}

FED_TEST_WITH(a_part_of_the_history_has_each_round, coordinator *c) {
    task_with(c, 1200);
    json_t *root = coordinator_json(c, "/v1/rounds", "task=1&first=401&last=500&points=9999");
    assert_int_equal(json_array_size(column(root, "number")), 100);
    assert_int_equal(json_integer_value(json_array_get(column(root, "number"), 0)), 401);
    json_decref(root);
    root = coordinator_json(c, "/v1/rounds", "task=1&points=1");
    assert_in_range(json_array_size(column(root, "number")), 2, 6);
    json_decref(root);
    root = coordinator_json(c, "/v1/rounds", "task=1&first=500&last=400");
    assert_int_equal(json_array_size(column(root, "number")), 0);
    json_decref(root);
}

FED_TEST_WITH(a_history_says_what_was_done_to_its_task_and_not_by_whom, coordinator *c) {
    fed_error err = {0};
    task_with(c, 3);
    coordinator_task(c, "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}");
    coordinator_commit(c);
    fedserver_act_for(c->server, "uid=1000");
    for (uint64_t id = 1; id <= 2; id++) {
        assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, id, FEDSERVER_PAUSE, &err));
    }
    for (uint32_t k = 0; k < 60; k++) {
        assert_fed_ok_err(fedserver_task_prioritize(c->server, c->now_ms, 1, 1 + k % 2, &err));
    }
    answer a = coordinator_ask(c, NULL, "GET", "/v1/rounds", "task=2", NULL, 0);
    assert_non_null(strstr((char *)a.body, "\"event\":\"task_queued\"}"));
    assert_non_null(strstr((char *)a.body, "\"event\":\"task_paused\"}]"));
    assert_null(strstr((char *)a.body, "uid="));
    answer_free(&a);
    json_t *root = coordinator_json(c, "/v1/rounds", "task=1");
    assert_int_equal(json_array_size(json_object_get(root, "events")), 50);
    json_decref(root);
}

static void store_own(coordinator *c, uint32_t round, const char *name, double value) {
    fedserver_own_metric row = {
        .reports = 2, .samples = 10, .mean = value, .least = value, .most = value};
    fed_error err = {0};
    snprintf(row.name, sizeof row.name, "%s", name);
    assert_fed_ok_err(c->server->store->own_put(c->server->db, 1, round, FEDSERVER_OWN_OF_UPDATES,
                                                &row, 1, &err));
}

FED_TEST_WITH(custom_metrics_have_a_cell_for_each_round, coordinator *c) {
    task_with(c, 4);
    store_own(c, 2, "f1", 0.5);
    store_own(c, 4, "f1", 0.75);
    json_t *root = coordinator_json(c, "/v1/rounds", "task=1");
    char *own = json_dumps(json_object_get(root, "own"), JSON_COMPACT);
    assert_string_equal(own,
                        "[{\"name\":\"f1\",\"by\":\"devices\",\"mean\":[null,0.5,null,0.75]}]");
    free(own);
    json_decref(root);
    root = coordinator_json(c, "/v1/rounds", "task=1&first=3&last=3");
    assert_int_equal(json_array_size(json_object_get(root, "own")), 0);
    json_decref(root);
}

/* The page asks for it when a task is opened, and at most every ten seconds. */
FED_TEST_WITH(the_longest_answer_has_less_than_64_kb, coordinator *c) {
    task_with(c, 4000);
    answer a = coordinator_ask(c, NULL, "GET", "/v1/rounds", "task=1", NULL, 0);
    assert_int_equal(a.status, 200);
    assert_in_range(a.len, 1000, 64 * 1024);
    answer_free(&a);
}

FED_TEST_WITH(an_unknown_task_has_no_history, coordinator *c) {
    const char *const queries[] = {"", "task=1", "task=x", "task=99999999999999999999"};
    for (size_t k = 0; k < sizeof queries / sizeof queries[0]; k++) {
        answer a = coordinator_ask(c, NULL, "GET", "/v1/rounds", queries[k], NULL, 0);
        answer_expect(&a, 404, "task_unknown");
    }
    c->from_elsewhere = true;
    answer a = coordinator_ask(c, NULL, "GET", "/v1/rounds", "task=1", NULL, 0);
    answer_expect(&a, 401, "login");
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
