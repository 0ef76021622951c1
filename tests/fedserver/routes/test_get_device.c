/* GET /v1/device: the history of one device, for operators who have logged in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"

static void log_in(coordinator *c) {
    static char cookie[128];
    char link[FEDSERVER_TOKEN];
    fed_error err = {0};
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_LINK,
                                           FEDSERVER_LINK_S, link, &err));
    answer a = coordinator_ask(c, NULL, "POST", "/v1/login", "", link, strlen(link));
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(a.set_cookie, ";"), a.set_cookie);
    c->cookie = cookie;
    answer_free(&a);
}

static void ask_for(const coordinator *c, const test_device *d, char query[32]) {
    snprintf(query, 32, "id=%lld", (long long)coordinator_device(c, d)->id);
}

FED_TEST_WITH(a_device_has_its_events_and_its_reasons, coordinator *c) {
    fed_error err = {0};
    char query[32], hex[FED_SHA256_HEX];
    fedserver_entry entry;
    const test_device d = coordinator_enrol(c), other = coordinator_enrol(c);
    coordinator_task(c, "{\"name\": \"leaves\", \"model\": \"lr\", \"rounds\": 3, \"cohort\": 2}");
    coordinator_wait(c, 1000);
    (void)device_ask_work(c, &d);
    (void)device_ask_work(c, &other);
    assert_fed_ok_err(c->server->store->decline_put(c->server->db, 1, coordinator_device(c, &d)->id,
                                                    "too few samples", c->now_ms, &err));
    coordinator_commit(c);
    fed_hex(d.fingerprint, FED_SHA256_SIZE, hex);
    assert_fed_ok_err(fedserver_device_rename(c->server, c->now_ms, hex, "kiln", &entry, &err));
    log_in(c);
    ask_for(c, &d, query);
    json_t *root = coordinator_json(c, "/v1/device", query);
    const json_t *events = json_object_get(root, "events");
    assert_int_equal(json_array_size(events), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(events, 0), "event")),
                        "enrolled");
    assert_string_equal(json_string_value(json_object_get(json_array_get(events, 1), "event")),
                        "renamed");
    const json_t *decline = json_array_get(json_object_get(root, "declines"), 0);
    assert_string_equal(json_string_value(json_object_get(decline, "reason")), "too few samples");
    assert_string_equal(json_string_value(json_object_get(decline, "name")), "leaves");
    json_decref(root);
    ask_for(c, &other, query);
    root = coordinator_json(c, "/v1/device", query);
    assert_int_equal(json_array_size(json_object_get(root, "events")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "declines")), 0);
    json_decref(root);
}

FED_TEST_WITH(only_the_newest_events_are_told, coordinator *c) {
    fed_error err = {0};
    char query[32], hex[FED_SHA256_HEX], name[16];
    fedserver_entry entry;
    const test_device d = coordinator_enrol(c);
    (void)device_ask_work(c, &d);
    coordinator_commit(c);
    fed_hex(d.fingerprint, FED_SHA256_SIZE, hex);
    for (int k = 0; k < 30; k++) {
        snprintf(name, sizeof name, "name %d", k);
        assert_fed_ok_err(fedserver_device_rename(c->server, c->now_ms, hex, name, &entry, &err));
    }
    log_in(c);
    ask_for(c, &d, query);
    json_t *root = coordinator_json(c, "/v1/device", query);
    const json_t *events = json_object_get(root, "events");
    assert_int_equal(json_array_size(events), 20);
    assert_non_null(strstr(json_string_value(json_object_get(json_array_get(events, 19), "detail")),
                           "name 29"));
    json_decref(root);
}

FED_TEST_WITH(readers_do_not_see_who_did_what, coordinator *c) {
    const char *const queries[] = {"", "id=0", "id=99", "id=x"};
    answer a = coordinator_ask(c, NULL, "GET", "/v1/device", "id=1", NULL, 0);
    answer_expect(&a, 403, "login");
    log_in(c);
    for (size_t k = 0; k < sizeof queries / sizeof queries[0]; k++) {
        a = coordinator_ask(c, NULL, "GET", "/v1/device", queries[k], NULL, 0);
        answer_expect(&a, 404, "absent");
    }
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
