/* /metrics: what each metric counts can be read from its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

/* Gauges without a unit. docs/monitoring.md says that these are counts, shares, or 0 and 1. */
static const char *const counts[] = {
    "fed_devices",
    "fed_devices_state",
    "fed_devices_computing",
    "fed_tasks_running",
    "fed_task_running",
    "fed_task_rounds",
    "fed_task_priority",
    "fed_model_version",
    "fed_model_accuracy",
    "fed_model_test_loss",
    "fed_round_number",
    "fed_round_attempt",
    "fed_round_cohort",
    "fed_round_goal",
    "fed_round_minimum",
    "fed_round_leased",
    "fed_round_received",
    "fed_round_closing",
    "fed_worker_groups",
    "fed_worker_group_workers",
    "fed_worker_group_workers_computing",
    "fed_upstream_failures",
    "fed_leads",
    "fed_term",
    "fed_coordinators",
    "fed_connections",
    "fed_task_queued",
};

static bool ends_with(const char *name, const char *end) {
    const size_t len = strlen(name), more = strlen(end);
    return len > more && strcmp(name + len - more, end) == 0;
}

static bool is_count(const char *name) {
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        if (strcmp(name, counts[k]) == 0) {
            return true;
        }
    }
    return false;
}

/* Check a metric by the text from "# HELP NAME ..." on. */
static void check_name(const char *help) {
    char name[80], told[80], type[16];
    const char *line = strstr(help, "\n# TYPE ");
    assert_int_equal(sscanf(help, "# HELP %79s", name), 1);
    assert_non_null(line);
    assert_int_equal(sscanf(line, "\n# TYPE %79s %15s", told, type), 2);
    assert_string_equal(told, name);
    const char *what = help + strlen("# HELP ") + strlen(name) + 1;
    const bool earlier = strncmp(what, "The earlier name, which 0.3.0 drops, of fed_", 44) == 0;
    const bool counter = strcmp(type, "counter") == 0;
    const bool unit = ends_with(name, "_seconds") || ends_with(name, "_bytes");
    if (strncmp(name, "fed_", 4) != 0 || counter != ends_with(name, "_total") ||
        !(counter || unit || earlier || ends_with(name, "_info") || is_count(name))) {
        fail_msg("%s (%s): end its name with the unit, _seconds or _bytes, and a counter's with "
                 "_total; add what is a count to `counts`",
                 name, type);
    }
}

static void each_name_says_the_unit(void **state) {
    coordinator *c = *state;
    size_t metrics = 0;
    c->server->is_edge = true;
    coordinator_task(c, "{\"model\": \"lr\", \"rounds\": 2, \"cohort\": 1}");
    (void)coordinator_enrol(c);
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_int_equal(a.status, 200);
    for (const char *at = strstr((const char *)a.body, "# HELP "); at != NULL;
         at = strstr(at + 1, "# HELP ")) {
        check_name(at);
        metrics++;
    }
    assert_true(metrics > 40);
    assert_non_null(strstr((const char *)a.body, "\nfed_certificate_expires_seconds{"));
    answer_free(&a);
}

static void a_task_has_a_name_while_it_waits_too(void **state) {
    coordinator *c = *state;
    coordinator_task(c, "{\"name\": \"a \\\"b\\\" c\\\\\", \"model\": \"lr\", \"rounds\": 2, "
                        "\"cohort\": 1}");
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    const char *body = (const char *)a.body;
    assert_non_null(strstr(body, "\nfed_task_info{task=\"1\",name=\"a \\\"b\\\" c\\\\\"} 1\n"));
    assert_null(strstr(body, "\nfed_task_queued{"));
    answer_free(&a);
    coordinator_one_at_a_time(c);
    coordinator_task(c, "{\"name\": \"next\", \"model\": \"lr\", \"rounds\": 2, \"cohort\": 1}");
    a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    body = (const char *)a.body;
    assert_non_null(strstr(body, "\nfed_task_info{task=\"2\",name=\"next\"} 1\n"));
    assert_non_null(strstr(body, "\nfed_task_queued{task=\"2\"} 1\n"));
    assert_null(strstr(body, "\nfed_task_running{task=\"2\"}"));
    answer_free(&a);
}

static void a_coordinator_without_others_leads_alone(void **state) {
    coordinator *c = *state;
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    const char *body = (const char *)a.body;
    assert_non_null(strstr(body, "\nfed_leads 1\n"));
    assert_non_null(strstr(body, "\nfed_term 0\n"));
    assert_non_null(strstr(body, "\nfed_coordinators 1\n"));
    answer_free(&a);
}

/* If a follower told what the leader counts, a sum over three coordinators would be three times too
 * large. */
static void a_follower_tells_of_itself_alone(void **state) {
    static const char *const shown[] = {"\nfed_leads 0\n",
                                        "\nfed_term 7\n",
                                        "\nfed_resident_bytes ",
                                        "\nfed_cpu_seconds_total ",
                                        "\nfed_connections 0\n",
                                        "\nfed_build_info{",
                                        "\nfed_directory_free_bytes "};
    static const char *const counted[] = {
        "fed_coordinators", "fed_updates",        "fed_devices", "fed_round",
        "fed_task",         "fed_requests_total", "fed_worker",  "fed_assignments"};
    coordinator *c = *state;
    size_t len = 0;
    fedserver_response response = {.status = 200};
    const fedserver_request status = {
        .listener = FEDSERVER_FRONT, .method = "GET", .path = "/v1/status", .query = ""};
    fedserver_request metrics = status;
    metrics.path = "/metrics";
    c->server->following = true;
    c->server->lead.term = 7;
    assert_false(c->server->routing->alone(c->server, &status, &response));
    assert_null(response.body);
    assert_true(c->server->routing->alone(c->server, &metrics, &response));
    c->server->following = false;
    assert_int_equal(response.status, 200);
    const uint8_t *data = fedserver_blob_data(response.body, &len);
    char *body = calloc(1, len + 1);
    assert_non_null(body);
    memcpy(body, data, len);
    for (size_t k = 0; k < sizeof shown / sizeof shown[0]; k++) {
        assert_non_null(strstr(body, shown[k]));
    }
    for (size_t k = 0; k < sizeof counted / sizeof counted[0]; k++) {
        assert_null(strstr(body, counted[k]));
    }
    free(body);
    fedserver_blob_free(response.body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(each_name_says_the_unit),
        WITH_COORDINATOR(a_task_has_a_name_while_it_waits_too),
        WITH_COORDINATOR(a_coordinator_without_others_leads_alone),
        WITH_COORDINATOR(a_follower_tells_of_itself_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
