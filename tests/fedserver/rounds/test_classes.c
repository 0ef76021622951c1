/* Devices whose classes have other names, or another order, than those of the task's devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"

#include "fedserver/rounds/classes.h"
#include "fedserver/rounds/leases.h"

enum { PARAMETERS = 6, ONE = 0x11, OTHER = 0x22 };

static const fed_checkin asks = {.capabilities = FED_CAN_DECLINE | FED_CAN_APP};
static const fed_checkin starts = {.capabilities = FED_CAN_DECLINE | FED_CAN_APP | FED_STARTED};

static char said[2000];
static unsigned lines;

static void hear(void *user, fed_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(said, sizeof said, "%s", line);
    lines++;
}

static void listen(coordinator *c) {
    static const fed_log heard = {.write = hear, .level = FED_LOG_WARN};
    c->server->rounds.log = &heard;
    lines = 0;
}

static int setup(void **state) {
    coordinator_begin(state);
    coordinator *c = *state;
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 9, \"cohort\": 2, \"goal\": 2, \"minimum\": 1,"
                        " \"deadline_s\": 60}");
    listen(c);
    return 0;
}

static fed_assignment say(coordinator *c, const test_device *d, uint64_t classes,
                          const fed_checkin *checkin) {
    c->classes = classes;
    const fed_assignment told = device_say(c, d, checkin);
    c->classes = 0;
    return told;
}

static int upload(coordinator *c, const test_device *d, const fed_assignment *work) {
    static const float x[PARAMETERS] = {1, 1, 1, 1, 1, 1};
    assert_int_equal(work->action, FED_ACTION_TRAIN);
    return device_upload(c, d, work, x, 10, NULL);
}

static void train(coordinator *c, const test_device *d, uint64_t classes) {
    const fed_assignment work = say(c, d, classes, &asks);
    assert_int_equal(upload(c, d, &work), 200);
}

static void assert_declined(coordinator *c, const test_device *d, uint64_t classes) {
    for (int k = 0; k < 3; k++) {
        const fed_assignment told = say(c, d, classes, k == 1 ? &starts : &asks);
        assert_int_equal(told.action, FED_ACTION_WAIT);
        assert_int_equal(told.reason, FED_WAIT_DECLINED);
    }
}

static void assert_said(const test_device *d, const test_device *first) {
    char name[17], text[300];
    fed_hex(d->fingerprint, 4, name);
    assert_non_null(strstr(said, name));
    fed_hex(first->fingerprint, 8, name);
    snprintf(text, sizeof text,
             "its classes.txt has other classes, or another order, than that of device %s: copy "
             "one file to all devices, start them again, and run `fedserver resume 1`",
             name);
    assert_non_null(strstr(said, text));
    assert_int_equal(lines, 1);
}

/* Act through a second handle, as the command line does in another process. revoked: the device to
 * revoke; NULL: resume the task. */
static void command(coordinator *c, const test_device *revoked) {
    fed_error err = {0};
    fedserver *other;
    fedserver_entry entry;
    char name[FED_SHA256_HEX];
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    if (revoked != NULL) {
        fed_hex(revoked->fingerprint, FED_SHA256_SIZE, name);
        assert_fed_ok_err(fedserver_device_revoke(other, c->now_ms, name, &entry, &err));
    } else {
        assert_fed_ok_err(fedserver_task_change(other, c->now_ms, 1, FEDSERVER_RESUME, &err));
    }
    fedserver_close(other);
    coordinator_commit(c);
    coordinator_wait(c, 1000);
}

FED_TEST_WITH(devices_with_equal_classes_and_with_none_train, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const test_device none = coordinator_enrol(c);
    train(c, &none, 0);
    train(c, &a, ONE);
    train(c, &b, ONE);
    train(c, &none, 0);
    assert_int_equal(lines, 0);
    assert_int_equal(c->server->rounds.tasks[0]->round.number, 3);
}

FED_TEST_WITH(a_device_with_another_order_gets_no_task, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    train(c, &a, ONE);
    assert_declined(c, &b, OTHER);
    assert_said(&b, &a);
    assert_int_equal(c->server->rounds.tasks[0]->round.leased, 1);
}

FED_TEST_WITH(of_two_that_train_at_once_the_second_does_not_count, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const fed_assignment of_a = say(c, &a, ONE, &asks), of_b = say(c, &b, OTHER, &asks);
    assert_int_equal(upload(c, &a, &of_a), 200);
    assert_said(&b, &a);
    assert_int_equal(upload(c, &b, &of_b), 409);
    assert_declined(c, &b, OTHER);
    assert_int_equal(lines, 1);
}

/* Device b, which declines without training, may have data that do not fit the task at all. */
FED_TEST_WITH(a_device_that_has_not_trained_sets_nothing, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    fed_error err = {0};
    assert_int_equal(say(c, &b, OTHER, &asks).action, FED_ACTION_TRAIN);
    assert_fed_ok_err(fedserver_leases_decline(&c->server->rounds, c->server->rounds.tasks[0],
                                               coordinator_device(c, &b), "no such data", c->now_ms,
                                               &err));
    train(c, &a, ONE);
    assert_int_equal(lines, 1);
}

FED_TEST_WITH(a_restart_of_the_coordinator_changes_nothing, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    train(c, &a, ONE);
    coordinator_restart(c);
    listen(c);
    assert_declined(c, &b, OTHER);
    assert_said(&b, &a);
    coordinator_restart(c);
    listen(c);
    assert_declined(c, &b, OTHER);
    assert_int_equal(lines, 0);
    coordinator_wait(c, 61000);
    train(c, &a, ONE);
}

/* After a restart the coordinator knows only the declines in the store. */
FED_TEST_WITH(a_decline_of_the_first_device_after_the_second_has_trained_loses_nothing,
              coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const test_device other = coordinator_enrol(c);
    train(c, &a, ONE);
    train(c, &b, ONE);
    assert_declined(c, &a, OTHER);
    coordinator_restart(c);
    assert_declined(c, &other, OTHER);
    assert_declined(c, &a, OTHER);
}

FED_TEST_WITH(a_decline_of_the_first_device_loses_nothing, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const test_device other = coordinator_enrol(c);
    fed_error err = {0};
    train(c, &a, ONE);
    assert_fed_ok_err(fedserver_leases_decline(&c->server->rounds, c->server->rounds.tasks[0],
                                               coordinator_device(c, &a), "no such data", c->now_ms,
                                               &err));
    train(c, &b, ONE);
    coordinator_restart(c);
    assert_declined(c, &other, OTHER);
}

FED_TEST_WITH(the_mended_file_is_enough_after_a_start, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    train(c, &a, ONE);
    assert_declined(c, &b, OTHER);
    const fed_assignment work = say(c, &b, ONE, &starts);
    assert_int_equal(upload(c, &b, &work), 200);
    assert_declined(c, &a, OTHER);
    assert_non_null(strstr(said, "or another order, than it had before: "));
}

FED_TEST_WITH(after_resume_other_classes_may_come_first, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    train(c, &a, ONE);
    assert_declined(c, &b, OTHER);
    command(c, NULL);
    train(c, &b, OTHER);
    assert_declined(c, &a, ONE);
}

FED_TEST_WITH(so_they_may_when_the_first_device_is_revoked, coordinator *c) {
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    train(c, &a, ONE);
    command(c, &a);
    train(c, &b, OTHER);
    coordinator_restart(c);
    const test_device third = coordinator_enrol(c);
    assert_declined(c, &third, ONE);
}

FED_TEST_WITH(an_evaluator_with_another_order_measures_no_finished_task, coordinator *c) {
    const test_device a = coordinator_enrol(c), judge = coordinator_enrol_evaluator(c);
    fed_checkin measures = asks;
    measures.role = FED_ROLE_EVALUATE;
    for (int k = 0; k < 9; k++) {
        coordinator_wait(c, 61000); /* the deadline: one update is enough */
        train(c, &a, ONE);
        coordinator_wait(c, 61000);
    }
    assert_int_not_equal(say(c, &judge, OTHER, &measures).action, FED_ACTION_EVALUATE);
    assert_int_equal(say(c, &judge, ONE, &measures).action, FED_ACTION_EVALUATE);
}

FED_TEST_WITH(an_evaluator_with_another_order_measures_nothing, coordinator *c) {
    const test_device a = coordinator_enrol(c), judge = coordinator_enrol_evaluator(c);
    fed_checkin measures = asks;
    measures.role = FED_ROLE_EVALUATE;
    train(c, &a, ONE);
    assert_int_equal(say(c, &judge, OTHER, &measures).reason, FED_WAIT_DECLINED);
    assert_said(&judge, &a);
    measures.capabilities |= FED_STARTED;
    assert_int_equal(say(c, &judge, ONE, &measures).action, FED_ACTION_EVALUATE);
}

/* The store keeps the first device's digest of class names in the table of declines. No list may
 * show it as a decline. */
FED_TEST_WITH(the_first_device_counts_as_one_that_declined_nothing, coordinator *c) {
    const test_device a = coordinator_enrol(c);
    train(c, &a, ONE);
    coordinator_restart(c);
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *declined =
        json_object_get(json_array_get(json_object_get(status, "tasks"), 0), "declined");
    assert_int_equal(json_integer_value(json_object_get(declined, "count")), 0);
    json_decref(status);
    json_t *devices = coordinator_json(c, "/v1/devices", "");
    const json_t *first = json_array_get(json_object_get(devices, "devices"), 0);
    assert_true(json_is_null(json_object_get(first, "declined_until_ms")));
    json_decref(devices);
}

int main(void) {
    return fed_cases_run_each(setup, coordinator_end);
}
