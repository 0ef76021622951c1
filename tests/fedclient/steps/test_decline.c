/* A task that does not fit a device: it says so, its place is free, and it lives on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_device.h"
#include "fed_test.h"

static fed_status cannot(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)round;
    return fed_fail(err, FED_EDECLINED, "samples are 784 values, the model takes 3072");
}

static int setup(void **state) {
    return fed_device_setup(state, "float32", 3);
}

static void train_with(fed_device *device,
                       fed_status (*train)(void *, fedclient_round *, fed_error *)) {
    device->options.train = train;
    fed_device_restart(device);
}

static void a_device_declines_with_its_reason_and_lives_on(void **state) {
    fed_device *device = *state;
    train_with(device, cannot);
    const uint64_t lease = device->fake.lease;
    const fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
    assert_true(event.task == device->fake.task.id);
    assert_int_equal(event.round, 1);
    assert_string_equal(device->err.text, "samples are 784 values, the model takes 3072");
    assert_string_equal(device->fake.declined.reason, device->err.text);
    assert_true(device->fake.declined.lease == lease);
    assert_int_equal(device->fake.declined.round, 1);
    const fedclient_event next = fed_device_event(device);
    assert_int_equal(next.outcome, FEDCLIENT_WAITED);
    assert_int_equal(next.reason, FED_WAIT_DECLINED);
}

static void a_decline_that_is_lost_is_made_again(void **state) {
    fed_device *device = *state;
    train_with(device, cannot);
    fed_fake_fail(&device->fake, "/v1/decline", FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_int_equal(device->fake.declines, 1);
}

static void an_older_coordinators_place_is_waited_out(void **state) {
    fed_device *device = *state;
    device->fake.no_declines = true;
    train_with(device, cannot);
    const fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
    assert_true(event.wait_ms > 50000 && event.wait_ms <= 60000); /* the lease's 60 s */
}

static void a_coordinator_that_asks_for_the_same_again_waits_longer_each_time(void **state) {
    fed_device *device = *state;
    train_with(device, cannot);
    uint32_t waited_ms = 0;
    for (unsigned k = 0; k < 8; k++) {
        const fedclient_event event = fed_device_event(device);
        assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
        waited_ms += event.wait_ms;
        device->fake.declined.reason[0] = '\0'; /* and is forgotten */
    }
    assert_true(waited_ms > 30000);
}

static void a_model_that_this_build_cannot_read_is_declined_before_it_is_downloaded(void **state) {
    fed_device *device = *state;
    snprintf(device->fake.task.model, sizeof device->fake.task.model, "input 8 | attention 3");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_non_null(strstr(device->fake.declined.reason, "attention"));
    assert_int_equal(device->fake.downloads, 0);
}

static void a_codec_that_this_build_does_not_have_is_declined(void **state) {
    fed_device *device = *state;
    snprintf(device->fake.task.codec_up, sizeof device->fake.task.codec_up, "hologram");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_non_null(strstr(device->fake.declined.reason, "hologram"));
}

static void a_finished_task_that_cannot_be_read_is_finished_all_the_same(void **state) {
    fed_device *device = *state;
    snprintf(device->fake.task.model, sizeof device->fake.task.model, "input 8 | attention 3");
    device->fake.rounds = 0;
    const fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_FINISHED);
    assert_true(event.wait_ms > 0);
    assert_int_equal(device->fake.declines, 0);
}

static void training_that_diverges_is_declined(void **state) {
    fed_device *device = *state;
    device->poison = 0.0f / 0.0f;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_non_null(strstr(device->fake.declined.reason, "is the learning rate"));
}

static void an_evaluator_declines_too(void **state) {
    fed_device *device = *state;
    device->options.role = FED_ROLE_EVALUATE;
    train_with(device, cannot);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_true(device->fake.declined.lease == 0);
}

static void another_task_is_taken_up_after_a_decline(void **state) {
    fed_device *device = *state;
    device->answer = FED_EDECLINED;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    device->answer = FED_OK;
    device->fake.declined.reason[0] = '\0';
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(device, 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, fed_device_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(a_device_declines_with_its_reason_and_lives_on),
        test(a_decline_that_is_lost_is_made_again),
        test(an_older_coordinators_place_is_waited_out),
        test(a_coordinator_that_asks_for_the_same_again_waits_longer_each_time),
        test(a_model_that_this_build_cannot_read_is_declined_before_it_is_downloaded),
        test(a_codec_that_this_build_does_not_have_is_declined),
        test(a_finished_task_that_cannot_be_read_is_finished_all_the_same),
        test(training_that_diverges_is_declined),
        test(an_evaluator_declines_too),
        test(another_task_is_taken_up_after_a_decline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
