/* /metrics: what each metric counts can be read from its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

/* Gauges without a unit. docs/monitoring.md says that these are counts, shares, or 0 and 1. */
static const char *const counts[] = {
    "fed_devices",           "fed_devices_state",        "fed_devices_computing",
    "fed_tasks_running",     "fed_task_running",         "fed_task_rounds",
    "fed_task_priority",     "fed_model_version",        "fed_model_accuracy",
    "fed_model_test_loss",   "fed_round_number",         "fed_round_attempt",
    "fed_round_cohort",      "fed_round_goal",           "fed_round_minimum",
    "fed_round_leased",      "fed_round_received",       "fed_round_closing",
    "fed_worker_groups",     "fed_worker_group_workers", "fed_worker_group_workers_computing",
    "fed_upstream_failures",
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

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(each_name_says_the_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
