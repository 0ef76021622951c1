/* A task that does not fit: the device declines it, frees its slot, and goes on running. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

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

FED_TEST_WITH(a_device_declines_with_its_reason_and_lives_on, fed_device *device) {
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

FED_TEST_WITH(a_decline_that_is_lost_is_made_again, fed_device *device) {
    train_with(device, cannot);
    fed_fake_fail(&device->fake, "/v1/decline", FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_int_equal(device->fake.declines, 1);
}

FED_TEST_WITH(an_older_coordinators_place_is_waited_out, fed_device *device) {
    device->fake.no_declines = true;
    train_with(device, cannot);
    const fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
    assert_true(event.wait_ms > 50000 && event.wait_ms <= 60000); /* the rest of the lease's 60 s */
}

FED_TEST_WITH(a_coordinator_that_asks_for_the_same_again_waits_longer_each_time,
              fed_device *device) {
    train_with(device, cannot);
    uint32_t waited_ms = 0;
    for (unsigned k = 0; k < 8; k++) {
        const fedclient_event event = fed_device_event(device);
        assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
        waited_ms += event.wait_ms;
        device->fake.declined.reason[0] = '\0';
    }
    assert_true(waited_ms > 30000);
}

FED_TEST_WITH(a_model_that_this_build_cannot_read_is_declined_before_it_is_downloaded,
              fed_device *device) {
    snprintf(device->fake.task.model, sizeof device->fake.task.model, "input 8 | attention 3");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_non_null(strstr(device->fake.declined.reason, "attention"));
    assert_int_equal(device->fake.downloads, 0);
}

FED_TEST_WITH(a_codec_that_this_build_does_not_have_is_declined, fed_device *device) {
    snprintf(device->fake.task.codec_up, sizeof device->fake.task.codec_up, "hologram");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_non_null(strstr(device->fake.declined.reason, "hologram"));
}

FED_TEST_WITH(a_finished_task_that_cannot_be_read_is_finished_all_the_same, fed_device *device) {
    snprintf(device->fake.task.model, sizeof device->fake.task.model, "input 8 | attention 3");
    device->fake.rounds = 0;
    const fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_FINISHED);
    assert_true(event.wait_ms > 0);
    assert_int_equal(device->fake.declines, 0);
}

/* One failed training. The slot must be free, and the coordinator must not hear a reason. */
static void fault(fed_device *device, uint32_t *wait_ms) {
    const uint64_t declines = device->fake.declines;
    const fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_RETRY);
    assert_int_equal(device->fake.declines,
                     declines + (device->options.role == FED_ROLE_TRAIN ? 1 : 0));
    assert_string_equal(device->fake.declined.reason, "");
    assert_true(event.wait_ms > *wait_ms);
    *wait_ms = event.wait_ms;
}

FED_TEST_WITH(training_that_diverges_again_and_again_is_declined, fed_device *device) {
    uint32_t wait_ms = 800 - 1;
    device->poison = 0.0f / 0.0f;
    for (int k = 1; k <= 3; k++) {
        fault(device, &wait_ms);
        assert_fed_says(device->err, "is the learning rate");
    }
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_non_null(strstr(device->fake.declined.reason, "is the learning rate"));
}

/* Failures of a training that need not happen again. */
static const struct {
    fed_status answer;
    float poison, loss;
} passing[] = {{FED_OK, 0.0f / 0.0f, 0.5f}, {FED_OK, 1.0f / 0.0f, 0.5f}, {FED_OK, 0, 0.0f / 0.0f},
               {FED_ENONFINITE, 0, 0.5f},   {FED_ENOMEM, 0, 0.5f},       {FED_EBUSY, 0, 0.5f}};

FED_TEST(a_fault_that_passes_costs_one_training) {
    for (size_t k = 0; k < 2 * sizeof passing / sizeof passing[0]; k++) {
        fed_device d;
        fed_device_open(&d, "float32", 9);
        d.options.role = k % 2 == 0 ? FED_ROLE_TRAIN : FED_ROLE_EVALUATE;
        fed_device_restart(&d);
        for (int row = 0; row < 3; row++) { /* a success resets the count of faults */
            uint32_t wait_ms = 0;
            for (int again = 0; again < 2; again++) {
                d.answer = passing[k / 2].answer;
                d.poison = k % 2 == 0 ? passing[k / 2].poison : 0;
                d.loss = k % 2 == 0 || passing[k / 2].poison == 0 ? passing[k / 2].loss
                                                                  : passing[k / 2].poison;
                fault(&d, &wait_ms);
            }
            d.answer = FED_OK;
            d.poison = 0;
            d.loss = 0.5f;
            assert_int_equal(fed_device_event(&d).outcome,
                             k % 2 == 0 ? FEDCLIENT_COUNTED : FEDCLIENT_EVALUATED);
            d.fake.evaluated = 0;
        }
        fed_device_close(&d);
    }
}

FED_TEST_WITH(the_first_check_in_says_that_the_device_has_started, fed_device *device) {
    train_with(device, cannot);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_true((device->fake.capabilities & FED_STARTED) != 0);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_WAITED);
    assert_true((device->fake.capabilities & FED_STARTED) == 0);
    fed_device_restart(device);
    fed_fake_fail(&device->fake, "/v1/checkin", FED_FAKE_LOST_ANSWER, 1);
    for (int k = 0; k < 2; k++) {
        (void)fed_device_event(device);
        assert_true((device->fake.capabilities & FED_STARTED) != 0);
    }
}

static void keep(void *user, fed_log_level level, const char *line) {
    (void)level;
    snprintf(user, 500, "%s", line);
}

FED_TEST_WITH(its_log_says_what_ends_a_decline, fed_device *device) {
    char line[500] = "";
    const fed_log log = {.write = keep, .user = line, .level = FED_LOG_WARN};
    device->options.log = &log;
    for (int older = 0; older < 2; older++) {
        device->fake.no_starts = older != 0;
        device->fake.declined.reason[0] = '\0';
        train_with(device, cannot);
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
        assert_int_equal(strstr(line, "after the next start of this program, or") != NULL,
                         older == 0);
        assert_non_null(strstr(line, "after 24 hours"));
    }
    device->options.log = NULL;
    fed_device_restart(device);
}

FED_TEST_WITH(an_evaluator_declines_too, fed_device *device) {
    device->options.role = FED_ROLE_EVALUATE;
    train_with(device, cannot);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    assert_true(device->fake.declined.lease == 0);
}

FED_TEST_WITH(another_task_is_taken_up_after_a_decline, fed_device *device) {
    device->answer = FED_EDECLINED;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    device->answer = FED_OK;
    device->fake.declined.reason[0] = '\0';
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(device, 0);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
