/* A device that is a cluster reports its worker group. The status shows the workers until the
 * device is forgotten. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <jansson.h>

#include "fed/worker_group.h"
#include "fedserver/operator.h"

static const fed_worker_group two = {
    .task = 1,
    .round = 2,
    .size = 2,
    .exposed = 0.5f,
    .link = "tcp",
    .collective = "owners",
    .sync = "ssgd",
    .codec = "int8",
    .pull = "float32",
    .verdict = "worker 1 (host \"b\", pid 12) died at step 7 in backward",
    .count = 2,
    .worker = {{.waits_for = 1,
                .pid = 11,
                .step = 7,
                .compute_ms = 12.5f,
                .phase = "exchange",
                .host = "a",
                .sent_bytes = 1000,
                .received_bytes = 2000},
               {.rank = 1,
                .state = FED_WORKER_DEAD,
                .pid = 12,
                .waits_for = FED_WORKER_GROUP_NOBODY,
                .step = 7,
                .phase = "backward",
                .computes_on = "cuda:1 H100",
                .host = "b"}},
};

static answer tell(coordinator *c, const test_device *d, const fed_worker_group *group) {
    uint8_t body[FED_WORKER_GROUP_BYTES];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_worker_group_write(&w, group);
    assert_fed_ok(w.status);
    return coordinator_ask(c, d, "POST", "/v1/gang", "", body, w.len);
}

static int report_status(coordinator *c, const test_device *d, const fed_worker_group *group) {
    answer a = tell(c, d, group);
    answer_free(&a);
    return a.status;
}

static json_t *groups(coordinator *c, json_t **root) {
    *root = coordinator_json(c, "/v1/status", "");
    return json_object_get(*root, "worker_groups");
}

static size_t worker_group_count(coordinator *c) {
    json_t *root = NULL;
    const size_t count = json_array_size(groups(c, &root));
    json_decref(root);
    return count;
}

static const char *text(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static json_int_t integer(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void the_status_shows_a_device_with_its_workers(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    char device[17];
    json_t *root = NULL;
    assert_int_equal(worker_group_count(c), 0);
    assert_int_equal(report_status(c, &d, &two), 200);
    const json_t *group = json_array_get(groups(c, &root), 0);
    fed_hex(d.fingerprint, 8, device);
    assert_string_equal(text(group, "device"), device);
    assert_int_equal(integer(group, "heard_ms"), c->now_ms);
    assert_int_equal(integer(group, "round"), 2);
    assert_int_equal(integer(group, "size"), 2);
    assert_string_equal(text(group, "link"), "tcp");
    assert_string_equal(text(group, "codec"), "int8");
    assert_string_equal(text(group, "verdict"), two.verdict);
    assert_true(json_real_value(json_object_get(group, "exposed")) == 0.5);
    const json_t *workers = json_object_get(group, "workers");
    assert_int_equal(json_array_size(workers), 2);
    const json_t *first = json_array_get(workers, 0), *last = json_array_get(workers, 1);
    assert_int_equal(integer(first, "waits_for"), 1);
    assert_int_equal(integer(first, "received_bytes"), 2000);
    assert_string_equal(text(first, "state"), "well");
    assert_string_equal(text(last, "state"), "dead");
    assert_string_equal(text(last, "phase"), "backward");
    assert_true(json_is_null(json_object_get(last, "waits_for")));
    assert_string_equal(text(first, "computes_on"), "");
    assert_string_equal(text(last, "computes_on"), "cuda:1 H100");
    json_decref(root);
}

static void a_device_tells_of_its_own_worker_group_alone(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    fed_worker_group other = two;
    json_t *root = NULL;
    other.verdict[0] = '\0';
    other.round = 9;
    assert_int_equal(report_status(c, &a, &two), 200);
    assert_int_equal(report_status(c, &b, &other), 200);
    assert_int_equal(report_status(c, &b, &other), 200);
    const json_t *list = groups(c, &root);
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(integer(json_array_get(list, 0), "round"), 2);
    assert_int_equal(integer(json_array_get(list, 1), "round"), 9);
    assert_true(json_is_null(json_object_get(json_array_get(list, 1), "verdict")));
    json_decref(root);
    const test_device judge = coordinator_enrol_evaluator(c);
    assert_int_equal(report_status(c, &judge, &two), 403);
    test_device stranger = a;
    stranger.fingerprint[0] ^= 1;
    stranger.certificate[0] ^= 1;
    assert_int_equal(report_status(c, &stranger, &two), 403);
    assert_int_equal(worker_group_count(c), 2);
}

static void it_is_forgotten_with_its_device_and_after_an_hour(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    fed_error err = {0};
    char digits[FED_SHA256_HEX];
    assert_int_equal(report_status(c, &a, &two), 200);
    assert_int_equal(report_status(c, &b, &two), 200);
    coordinator_commit(c);
    fed_hex(a.fingerprint, FED_SHA256_SIZE, digits);
    fedserver *cli = NULL;
    fedserver_entry found;
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &cli, &err));
    assert_fed_ok_err(fedserver_device_revoke(cli, c->now_ms, digits, &found, &err));
    fedserver_close(cli);
    coordinator_commit(c);
    assert_int_equal(worker_group_count(c), 1);
    coordinator_wait(c, FEDSERVER_WORKER_GROUP_KEPT_MS - 1);
    assert_int_equal(worker_group_count(c), 1);
    coordinator_wait(c, 1);
    assert_int_equal(worker_group_count(c), 0);
}

static void what_is_no_worker_group_is_refused(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    fed_worker_group wrong = two;
    wrong.worker[1].rank = 2;
    answer a = tell(c, &d, &wrong);
    answer_expect(&a, 400, "bad_gang");
    a = coordinator_ask(c, &d, "POST", "/v1/gang", "", "\x03", 1);
    answer_expect(&a, 400, "gang_layout");
    static const uint8_t large[FED_WORKER_GROUP_BYTES + 1];
    assert_int_equal(coordinator_status(c, &d, "POST", "/v1/gang", "", large, sizeof large), 413);
    assert_int_equal(worker_group_count(c), 0);
}

static void texts_are_made_fit_for_people(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    fed_worker_group odd = two;
    json_t *root = NULL;
    strcpy(odd.verdict, "\x1b[2J\xff <b>");
    strcpy(odd.worker[0].host, "a\nb");
    strcpy(odd.worker[0].computes_on, "cuda:0\t\x80");
    assert_int_equal(report_status(c, &d, &odd), 200);
    const json_t *group = json_array_get(groups(c, &root), 0);
    assert_string_equal(text(group, "verdict"), "?[2J? <b>");
    assert_string_equal(text(json_array_get(json_object_get(group, "workers"), 0), "host"), "a?b");
    assert_string_equal(text(json_array_get(json_object_get(group, "workers"), 0), "computes_on"),
                        "cuda:0??");
    json_decref(root);
}

static void all_worker_groups_together_have_a_limit(void **state) {
    coordinator *c = *state;
    fed_worker_group *full = calloc(1, sizeof *full);
    assert_non_null(full);
    *full = two;
    full->size = full->count = FED_WORKER_GROUP_WORKERS;
    for (uint32_t k = 0; k < FED_WORKER_GROUP_WORKERS; k++) {
        full->worker[k] = (fed_worker){.rank = k, .waits_for = FED_WORKER_GROUP_NOBODY};
    }
    enum { FIT = FEDSERVER_WORKER_GROUP_WORKERS / FED_WORKER_GROUP_WORKERS };
    test_device d[FIT + 1];
    for (int k = 0; k <= FIT; k++) {
        d[k] = coordinator_enrol(c);
        assert_int_equal(report_status(c, &d[k], full), 200);
    }
    assert_int_equal(worker_group_count(c), FIT);
    /* The group of d[0] becomes smaller, which makes room for another group of two workers. */
    assert_int_equal(report_status(c, &d[0], &two), 200);
    assert_int_equal(report_status(c, &d[FIT], &two), 200);
    assert_int_equal(worker_group_count(c), FIT + 1);
    free(full);
}

static void metrics_count_workers_by_state_while_they_are_heard(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    assert_int_equal(report_status(c, &d, &two), 200);
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, "\nfed_worker_groups 1\n"));
    assert_non_null(strstr((char *)a.body, "\nfed_worker_group_workers{state=\"well\"} 1\n"));
    assert_non_null(strstr((char *)a.body, "\nfed_worker_group_workers{state=\"dead\"} 1\n"));
    assert_non_null(strstr((char *)a.body, "\nfed_worker_group_reports_total 1\n"));
    assert_non_null(
        strstr((char *)a.body, "\nfed_worker_group_workers_computing{on=\"cuda\"} 1\n"));
    assert_non_null(
        strstr((char *)a.body, "\nfed_worker_group_workers_computing{on=\"processor\"} 1\n"));
    answer_free(&a);
    coordinator_wait(c, FEDSERVER_WORKER_GROUP_FRESH_MS);
    a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, "\nfed_worker_groups 0\n"));
    assert_non_null(strstr((char *)a.body, "\nfed_worker_group_workers{state=\"dead\"} 0\n"));
    answer_free(&a);
}

/* Names of releases before 0.3.0, which still work. */
static void what_tells_of_worker_groups_has_its_earlier_names_too(void **state) {
    static const char *const lines[] = {"\nfed_gangs 1\n",
                                        "\nfed_gang_workers{state=\"well\"} 1\n",
                                        "\nfed_gang_workers_computing{on=\"cuda\"} 1\n",
                                        "\nfed_gang_reports_total 1\n",
                                        "\nfed_downloads_elsewhere_total 0\n",
                                        "\nfed_downloads_elsewhere_bytes_total 0\n"};
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    assert_int_equal(report_status(c, &d, &two), 200);
    json_t *root = NULL;
    const json_t *now = groups(c, &root);
    assert_int_equal(json_array_size(now), 1);
    assert_true(json_equal(json_object_get(root, "gangs"), now));
    json_decref(root);
    answer a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        if (strstr((char *)a.body, lines[k]) == NULL) {
            fail_msg("the metrics lack this line:%s", lines[k]);
        }
    }
    answer_free(&a);
}

static void only_a_device_that_can_is_told_that_the_coordinator_can(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    static const uint32_t each[] = {0, FED_CAN_WORKER_GROUP, FED_CAN_WORKER_GROUP | FED_CAN_NAMED};
    for (size_t k = 0; k < sizeof each / sizeof each[0]; k++) {
        const fed_assignment told = device_say(c, &d, &(fed_checkin){.capabilities = each[k]});
        assert_int_equal(told.capabilities & (FED_CAN_WORKER_GROUP | FED_CAN_NAMED), each[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(the_status_shows_a_device_with_its_workers),
        WITH_COORDINATOR(a_device_tells_of_its_own_worker_group_alone),
        WITH_COORDINATOR(it_is_forgotten_with_its_device_and_after_an_hour),
        WITH_COORDINATOR(what_is_no_worker_group_is_refused),
        WITH_COORDINATOR(texts_are_made_fit_for_people),
        WITH_COORDINATOR(all_worker_groups_together_have_a_limit),
        WITH_COORDINATOR(metrics_count_workers_by_state_while_they_are_heard),
        WITH_COORDINATOR(what_tells_of_worker_groups_has_its_earlier_names_too),
        WITH_COORDINATOR(only_a_device_that_can_is_told_that_the_coordinator_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
