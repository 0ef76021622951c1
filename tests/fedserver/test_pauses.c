/* Why a task is paused: in the status of a coordinator that serves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <jansson.h>

#include "fedserver/server.h"

static const char task[] =
    "{\"name\": \"t\", \"model\": \"vector 2\", \"rounds\": 3, \"cohort\": 2}";

static void deed(coordinator *c, uint64_t id, fedserver_task_deed what, const char *by) {
    fed_error err = {0};
    fedserver_act_for(c->server, by);
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, id, what, &err));
    coordinator_commit(c);
}

/* want: the beginning of what the status says; NULL: null. */
static void expect_why(coordinator *c, uint64_t id, const char *want) {
    json_t *root = coordinator_json(c, "/v1/status", "");
    json_t *entry;
    size_t k;
    bool found = false;
    json_array_foreach(json_object_get(root, "tasks"), k, entry) {
        const char *waits = json_string_value(json_object_get(entry, "waits"));
        if ((uint64_t)json_integer_value(json_object_get(entry, "id")) == id) {
            found = true;
            assert_true((waits == NULL) == (want == NULL));
            assert_true(want == NULL || strncmp(waits, want, strlen(want)) == 0);
        }
    }
    assert_true(found);
    json_decref(root);
}

static void the_status_says_who_paused_a_task(void **state) {
    coordinator *c = *state;
    (void)coordinator_task(c, task);
    (void)coordinator_task(c, task);
    expect_why(c, 1, NULL);
    deed(c, 1, FEDSERVER_PAUSE, "uid=7");
    expect_why(c, 1, "it was paused by uid=7 at 20");
    deed(c, 2, FEDSERVER_PAUSE, "uid=8");
    expect_why(c, 2, "it was paused by uid=8 at 20");
    expect_why(c, 1, "it was paused by uid=7 at 20");
    deed(c, 1, FEDSERVER_RESUME, "uid=7");
    expect_why(c, 2, "it was paused by uid=8 at 20");
    deed(c, 1, FEDSERVER_PAUSE, "uid=9");
    expect_why(c, 1, "it was paused by uid=9 at 20");
    coordinator_restart(c);
    expect_why(c, 1, "it was paused by uid=9 at 20");
    expect_why(c, 2, "it was paused by uid=8 at 20");
}

static void a_pause_that_the_log_has_forgotten_is_not_explained(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    (void)coordinator_task(c, task);
    deed(c, 1, FEDSERVER_PAUSE, "uid=7");
    coordinator_commit(c);
    c->server->pauses.read = 1000; /* as if the line had been pruned */
    expect_why(c, 1, NULL);
    fedserver_audit_entry entry = {.event = "task_paused", .detail = "task=1x"};
    assert_fed_ok_err(c->server->store->audit_add(c->server->db, &entry, &err));
    c->server->pauses.read = 0;
    expect_why(c, 1, "it was paused by uid=7 at 20");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(the_status_says_who_paused_a_task),
        WITH_COORDINATOR(a_pause_that_the_log_has_forgotten_is_not_explained),
    };
    return cmocka_run_group_tests_name("pauses", tests, NULL, NULL);
}
