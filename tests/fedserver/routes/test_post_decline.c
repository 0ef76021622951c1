/* A device that declines a task: its slot is free at once, and the task is not offered to it
 * again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#define SYNCHRONOUS                                                                                \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","   \
    " \"rounds\": 3, \"cohort\": 2, \"deadline_s\": 100}"
#define ASYNCHRONOUS                                                                               \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","   \
    " \"rounds\": 3, \"cohort\": 2, \"goal\": 2, \"staleness\": 4, \"deadline_s\": 100}"

static const char reason[] = "samples are 784 values, the model takes 3072";
static const int64_t day_ms = INT64_C(24) * 3600 * 1000;

static answer decline_with(coordinator *c, const test_device *d, const fed_assignment *work,
                           const char *why) {
    uint8_t body[400];
    fed_writer w;
    fed_decline message = {.task = work->task.id, .round = work->round, .lease = work->lease};
    snprintf(message.reason, sizeof message.reason, "%s", why);
    fed_writer_fixed(&w, body, sizeof body);
    fed_decline_write(&w, &message);
    return coordinator_ask(c, d, "POST", "/v1/decline", "", body, w.len);
}

static int decline(coordinator *c, const test_device *d, const fed_assignment *work) {
    answer a = decline_with(c, d, work, reason);
    answer_free(&a);
    return a.status;
}

static fed_assignment ask(coordinator *c, const test_device *d, fed_role role) {
    return device_say(c, d, &(fed_checkin){.role = role, .capabilities = FED_CAN_DECLINE});
}

static void assert_declined(coordinator *c, const test_device *d) {
    const fed_assignment told = ask(c, d, FED_ROLE_TRAIN);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_DECLINED);
    assert_true(told.retry_ms > 0);
    /* A device of an older release, which knows no declines. */
    assert_int_equal(device_ask_work(c, d).reason, FED_WAIT_NO_TASK);
}

static int begin(void **state) {
    coordinator_begin(state);
    coordinator_task(*state, SYNCHRONOUS);
    return 0;
}

#define DECLINING(test) cmocka_unit_test_setup_teardown(test, begin, coordinator_end)

static int upload(coordinator *c, const test_device *d, const fed_assignment *work) {
    const float x[6] = {1, 0, 0, 0, 0, 1};
    return device_upload(c, d, work, x, 10, NULL);
}

/* Three devices, two slots: a device with a slot declines, and the third device gets the slot
 * at once. */
static void slot_goes_to_another(const char *task) {
    coordinator c;
    test_device d[3];
    fed_assignment work[3];
    coordinator_setup(&c);
    coordinator_task(&c, task);
    for (int k = 0; k < 3; k++) {
        d[k] = coordinator_enrol(&c);
        work[k] = device_ask_work(&c, &d[k]);
    }
    assert_int_equal(work[1].capabilities & FED_CAN_DECLINE, FED_CAN_DECLINE);
    assert_int_equal(work[2].reason, FED_WAIT_FULL);
    assert_int_equal(decline(&c, &d[1], &work[1]), 200);
    assert_int_equal(fedserver_rounds_front(&c.server->rounds)->round.leased, 1);
    coordinator_wait(&c, 100);
    assert_true(coordinator_wakes(&c, &d[2]));
    work[2] = device_ask_work(&c, &d[2]);
    assert_int_equal(work[2].action, FED_ACTION_TRAIN);
    assert_declined(&c, &d[1]);
    assert_int_equal(upload(&c, &d[1], &work[1]), 409);
    assert_int_equal(upload(&c, &d[0], &work[0]), 200);
    assert_int_equal(upload(&c, &d[2], &work[2]), 200);
    assert_int_equal(fedserver_rounds_front(&c.server->rounds)->versions.version, 1);
    assert_declined(&c, &d[1]);
    coordinator_teardown(&c);
}

static void test_its_slot_is_another_ones_at_once(void) {
    slot_goes_to_another(SYNCHRONOUS);
}

static void test_so_it_is_in_asynchronous_rounds(void) {
    slot_goes_to_another(ASYNCHRONOUS);
}

static void decline_outlives_a_restart(const char *task) {
    coordinator c;
    coordinator_setup(&c);
    coordinator_task(&c, task);
    const test_device a = coordinator_enrol(&c), b = coordinator_enrol(&c);
    const fed_assignment work = device_ask_work(&c, &a);
    assert_int_equal(device_ask_work(&c, &b).action, FED_ACTION_TRAIN);
    assert_int_equal(decline(&c, &a, &work), 200);
    coordinator_restart(&c);
    assert_int_equal(fedserver_rounds_front(&c.server->rounds)->round.leased, 1);
    assert_declined(&c, &a);
    assert_int_equal(device_ask_work(&c, &b).action, FED_ACTION_TRAIN);
    coordinator_teardown(&c);
}

static void test_a_restart_knows_of_it(void) {
    decline_outlives_a_restart(SYNCHRONOUS);
    decline_outlives_a_restart(ASYNCHRONOUS);
}

static void test_it_may_be_sent_again(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &a);
    assert_int_equal(device_ask_work(c, &b).action, FED_ACTION_TRAIN);
    assert_int_equal(decline(c, &a, &work), 200);
    assert_int_equal(decline(c, &a, &work), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, 1);
    assert_int_equal(c->server->rounds.counters.declines, 1);
}

static void test_after_a_day_the_device_is_asked_again(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &a);
    assert_int_equal(decline(c, &a, &work), 200);
    coordinator_wait(c, day_ms - 1);
    assert_declined(c, &a);
    coordinator_wait(c, 1);
    assert_int_equal(device_ask_work(c, &a).action, FED_ACTION_TRAIN);
}

static void test_it_is_of_one_task(void **state) {
    coordinator *c = *state;
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 1, \"cohort\": 1}");
    coordinator_one_at_a_time(c);
    coordinator_task(c, SYNCHRONOUS);
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const fed_assignment first = device_ask_work(c, &a);
    assert_int_equal(decline(c, &a, &first), 200);
    const fed_assignment work = device_ask_work(c, &b);
    assert_int_equal(upload(c, &b, &work), 200);
    coordinator_wait(c, 0);
    const fed_assignment second = device_ask_work(c, &a);
    assert_int_equal(second.action, FED_ACTION_TRAIN);
    assert_int_equal(second.task.id, 2);
    answer late = decline_with(c, &a, &first, reason);
    answer_expect(&late, 409, "round_closed");
}

static void test_an_older_lease_takes_no_slot_away(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c);
    fed_assignment work = device_ask_work(c, &a);
    work.lease++;
    answer other = decline_with(c, &a, &work, reason);
    answer_expect(&other, 409, "lease_unknown");
    assert_int_equal(device_ask_work(c, &a).action, FED_ACTION_TRAIN);
}

static void test_an_evaluator_declines_too(void **state) {
    coordinator *c = *state;
    const test_device judge = coordinator_enrol_evaluator(c);
    const fed_assignment work = ask(c, &judge, FED_ROLE_EVALUATE);
    assert_int_equal(work.action, FED_ACTION_EVALUATE);
    assert_int_equal(decline(c, &judge, &work), 200);
    const fed_assignment told = ask(c, &judge, FED_ROLE_EVALUATE);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_DECLINED);
}

static fed_status keep_reason(void *user, const fedserver_decline *found, fed_error *err) {
    (void)err;
    snprintf(user, 256, "%s", found->reason);
    return FED_OK;
}

static void test_a_reason_is_made_fit_for_people(void **state) {
    coordinator *c = *state;
    char stored[256] = "";
    fed_error err = {0};
    const test_device a = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &a);
    answer taken = decline_with(c, &a, &work,
                                "gr\xc3\xb6\xc3\x9f"
                                "er\n\x1b[31m\xff");
    answer_expect(&taken, 200, "");
    assert_fed_ok_err(
        c->server->store->decline_each(c->server->db, 1, 0, keep_reason, stored, &err));
    assert_string_equal(stored, "gr\xc3\xb6\xc3\x9f"
                                "er??[31m?");
}

static void test_without_a_reason_the_slot_is_free_and_the_device_may_come_again(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &a);
    answer given = decline_with(c, &a, &work, "");
    answer_expect(&given, 200, "");
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, 0);
    assert_int_equal(c->server->rounds.counters.declines, 0);
    assert_int_equal(upload(c, &a, &work), 409);
    coordinator_wait(c, 60000);
    const fed_assignment again = ask(c, &a, FED_ROLE_TRAIN);
    assert_int_equal(again.action, FED_ACTION_TRAIN);
    assert_true(again.lease != work.lease);
    assert_int_equal(upload(c, &a, &again), 200);
}

static void test_what_is_no_decline_is_refused(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c);
    (void)device_ask_work(c, &a);
    answer garbage = coordinator_ask(c, &a, "POST", "/v1/decline", "", "no", 2);
    answer_expect(&garbage, 400, "bad_request");
    assert_int_equal(device_ask_work(c, &a).action, FED_ACTION_TRAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(test_its_slot_is_another_ones_at_once),
        fed_unit_test(test_so_it_is_in_asynchronous_rounds),
        fed_unit_test(test_a_restart_knows_of_it),
        DECLINING(test_it_may_be_sent_again),
        DECLINING(test_after_a_day_the_device_is_asked_again),
        WITH_COORDINATOR(test_it_is_of_one_task),
        DECLINING(test_an_older_lease_takes_no_slot_away),
        DECLINING(test_an_evaluator_declines_too),
        DECLINING(test_a_reason_is_made_fit_for_people),
        DECLINING(test_without_a_reason_the_slot_is_free_and_the_device_may_come_again),
        DECLINING(test_what_is_no_decline_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
