/* What a device checks while it trains: the deadline, the wish to end, the coordinator's answer,
 * and its progress. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

static int64_t now_ms;

static int64_t read_clock(void *user) {
    (void)user;
    return now_ms;
}

enum { STEPS = 20, STEP_MS = 1000 };

/** A program that trains one second for each step, and asks before each whether to go on. */
typedef struct program {
    fed_device device; /* must be the first member: teardown closes the device at this address */
    int64_t charges_until_ms, runs_until_ms;
    uint32_t steps, left_ms; /* steps of the last training, and the time left at its end */
    bool gives_up;           /* told to stop, the callback fails instead of keeping its training */
    bool loses_lease;
    bool breaks;
    uint32_t done, total;
} program;

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    program *p = user;
    fed_status status = FED_OK;
    for (p->steps = 0; p->steps < STEPS && status == FED_OK; p->steps++) {
        status = fedclient_round_wanted(round, err);
        now_ms += STEP_MS;
        round->values[0] += 1.0f / 1024;
        if (p->loses_lease && p->steps == 3) {
            fed_fake_expire(&p->device.fake);
        }
        fedclient_round_progress(round, p->steps + 1, STEPS);
    }
    p->left_ms = fedclient_round_left_ms(round);
    round->samples = 10;
    round->loss = 0.5f;
    if (p->breaks) {
        return fed_fail(err, FED_EINVAL, "the program's data are gone");
    }
    return p->gives_up ? status : FED_OK;
}

static fed_status may_train(void *user, fed_error *err) {
    const program *p = user;
    if (now_ms >= p->runs_until_ms) {
        return fed_fail(err, FED_ECANCELED, "the program has to stop");
    }
    return now_ms < p->charges_until_ms ? FED_OK
                                        : fed_fail(err, FED_ESTATE, "this device is not charging");
}

static void progress(void *user, const fedclient_round *round, uint32_t done, uint32_t total) {
    program *p = user;
    assert_int_equal(round->round, 1);
    p->done = done;
    p->total = total;
}

static int setup(void **state) {
    program *p = calloc(1, sizeof *p);
    assert_non_null(p);
    now_ms = 5000;
    p->charges_until_ms = p->runs_until_ms = INT64_MAX;
    fed_device_open(&p->device, "float32", 3);
    p->device.options.train = train;
    p->device.options.may_train = may_train;
    p->device.options.progress = progress;
    p->device.options.user = p;
    p->device.flash.platform.monotonic_ms = read_clock;
    fed_device_restart(&p->device);
    *state = p;
    return 0;
}

FED_TEST_WITH(a_training_in_time_is_told_how_much_time_is_left, program *p) {
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(p->steps, STEPS);
    assert_int_equal(p->left_ms, 60000 - STEPS * STEP_MS);
}

FED_TEST_WITH(progress_reaches_the_program, program *p) {
    (void)fed_device_event(&p->device);
    assert_int_equal(p->done, STEPS);
    assert_int_equal(p->total, STEPS);
}

FED_TEST_WITH(nobody_has_to_listen, program *p) {
    p->device.options.may_train = NULL;
    p->device.options.progress = NULL;
    fed_device_restart(&p->device);
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(p->total, 0);
}

FED_TEST_WITH(a_late_training_ends_at_the_deadline_and_travels_with_the_next_update, program *p) {
    p->device.fake.deadline_ms = 10 * STEP_MS;
    const fedclient_event late = fed_device_event(&p->device);
    assert_int_equal(late.outcome, FEDCLIENT_LATE);
    assert_int_equal(late.round, 1);
    assert_true(late.task == p->device.fake.task.id);
    assert_non_null(strstr(p->device.err.text, "the deadline of round 1 has passed"));
    assert_int_equal(p->left_ms, 0);
    assert_int_equal(p->steps, 11);
    assert_int_equal(p->device.fake.updates, 0);
    fed_fake_expire(&p->device.fake);
    p->device.fake.deadline_ms = 60000;
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_true(p->device.fake.counted[0] == (11.0f + STEPS) / 1024);
}

FED_TEST_WITH(what_a_program_gives_up_is_dropped, program *p) {
    p->device.fake.deadline_ms = 10 * STEP_MS;
    p->gives_up = true;
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_LATE);
    p->gives_up = false;
    p->device.fake.deadline_ms = 60000;
    fed_fake_expire(&p->device.fake);
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_true(p->device.fake.counted[0] == (float)STEPS / 1024);
}

FED_TEST_WITH(a_lease_that_is_gone_is_noticed_by_asking, program *p) {
    p->loses_lease = true;
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_LATE);
    assert_non_null(strstr(p->device.err.text, "round 1 no longer waits for this device"));
    assert_true(p->steps < STEPS);
    assert_int_equal(p->device.fake.updates, 0);
}

FED_TEST_WITH(the_coordinator_is_asked_a_few_times_only, program *p) {
    (void)fed_device_event(&p->device);
    assert_int_equal(p->device.fake.pieces, 3); /* every 6 s of the training's 20 s */
}

FED_TEST_WITH(a_coordinator_without_pieces_is_not_asked, program *p) {
    p->device.fake.whole_only = true;
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(p->device.fake.pieces, 0);
}

FED_TEST_WITH(a_line_that_is_down_meanwhile_stops_no_training, program *p) {
    fed_fake_fail(&p->device.fake, "/v1/piece", FED_FAKE_UNREACHABLE, 9);
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    /* 7 of 9 planned failures are left: the device asked after 6 s and after 18 s. */
    assert_int_equal(p->device.fake.plan.times, 7);
}

/* A lost request must not make the program's own error look like a network error. */
FED_TEST_WITH(a_fault_of_the_program_does_not_heal_because_the_line_was_down, program *p) {
    fedclient_event event;
    p->breaks = true;
    fed_fake_fail(&p->device.fake, "/v1/piece", FED_FAKE_UNREACHABLE, 9);
    assert_fed_status(fedclient_step(p->device.client, &event, &p->device.err), FED_EINVAL);
    assert_fed_says(p->device.err, "the program's data are gone");
    assert_int_equal(p->device.fake.plan.times, 7);
    assert_int_equal(event.outcome, (fedclient_event){0}.outcome);
    assert_int_equal(fedclient_failures(p->device.client), 0);
}

FED_TEST_WITH(a_coordinator_that_no_longer_knows_pieces_is_asked_once, program *p) {
    p->device.fake.plan = (fed_fake_plan){.path = "/v1/piece",
                                          .fault = FED_FAKE_STATUS,
                                          .status = 404,
                                          .error = "not_found",
                                          .times = 9};
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(p->steps, STEPS);
    assert_int_equal(p->device.fake.plan.times, 8);
}

FED_TEST_WITH(a_device_that_may_not_train_does_not_check_in, program *p) {
    p->charges_until_ms = 0;
    const fedclient_event paused = fed_device_event(&p->device);
    assert_int_equal(paused.outcome, FEDCLIENT_PAUSED);
    assert_true(paused.wait_ms > 0);
    assert_string_equal(p->device.err.text, "this device is not charging");
    assert_int_equal(p->device.fake.requests, 0);
}

FED_TEST_WITH(what_may_not_go_on_gives_its_place_back_and_keeps_what_it_trained, program *p) {
    p->charges_until_ms = now_ms + 5 * STEP_MS;
    const uint64_t lease = p->device.fake.lease;
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_PAUSED);
    assert_int_equal(p->steps, 6);
    assert_int_equal(p->device.fake.declines, 1);
    assert_true(p->device.fake.declined.lease == lease);
    /* Without a reason the coordinator may offer the task again. */
    assert_string_equal(p->device.fake.declined.reason, "");
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_PAUSED);
    p->charges_until_ms = INT64_MAX;
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_true(p->device.fake.counted[0] == (6.0f + STEPS) / 1024);
}

FED_TEST_WITH(a_program_that_ends_drops_what_is_half_trained, program *p) {
    fedclient_event event;
    p->runs_until_ms = now_ms + 5 * STEP_MS;
    assert_fed_status(fedclient_step(p->device.client, &event, &p->device.err), FED_ECANCELED);
    assert_int_equal(p->device.fake.declines, 0);
    assert_fed_status(fedclient_step(p->device.client, &event, &p->device.err), FED_ECANCELED);
    p->runs_until_ms = INT64_MAX;
    assert_int_equal(fed_device_event(&p->device).outcome, FEDCLIENT_COUNTED);
    assert_true(p->device.fake.counted[0] == (float)STEPS / 1024);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
