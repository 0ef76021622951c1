/* The loop of a device: when it ends, what it tells, and what its log has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

enum { EVENTS = 32, LINES = 64 };

typedef struct runner {
    fed_device device; /* must be the first member: the callback gets a pointer to it */
    fed_status (*train)(void *user, fedclient_round *round, fed_error *err);
    fedclient_outcome told[EVENTS];
    unsigned count;
    bool over;               /* of the last event */
    unsigned end_at;         /* the event callback ends the run with this event, from 1; 0: never */
    unsigned asked, stop_at; /* `stopped` is true from this question on; 0: never */
    fed_log log;
    unsigned lines[FED_LOG_ERROR + 1]; /* lines of each level that say `words` */
    const char *words;
    fed_status within; /* of a run that the training callback begins */
    fed_error why;
} runner;

static bool tell(void *user, const fedclient_event *event, const char *why) {
    runner *r = user;
    assert_non_null(why);
    assert_true(r->count < EVENTS);
    r->told[r->count++] = event->outcome;
    r->over = event->over;
    return r->count != r->end_at;
}

static bool is_stopped(void *user) {
    runner *r = user;
    return r->stop_at != 0 && ++r->asked >= r->stop_at;
}

static void note_line(void *user, fed_log_level level, const char *line) {
    runner *r = user;
    r->lines[level] += r->words != NULL && strstr(line, r->words) != NULL;
}

static int setup(void **state) {
    runner *r = calloc(1, sizeof *r);
    assert_non_null(r);
    fed_device_open(&r->device, "float32", 3);
    r->device.fake.retry_ms = 1;
    r->train = r->device.options.train;
    r->log = (fed_log){.write = note_line, .user = r, .level = FED_LOG_DEBUG};
    r->device.options.log = &r->log;
    r->device.options.stopped = is_stopped;
    fed_device_restart(&r->device);
    *state = r;
    return 0;
}

static int teardown(void **state) {
    runner *r = *state;
    fed_device_close(&r->device);
    free(r);
    return 0;
}

static fed_status run(runner *r, bool until_finished) {
    const fedclient_run_options options = {
        .until_finished = until_finished, .event = tell, .user = r};
    r->count = 0;
    r->device.err = (fed_error){0};
    return fedclient_run(r->device.client, &options, &r->device.err);
}

FED_TEST_WITH(a_device_trains_until_its_task_is_finished, runner *r) {
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_int_equal(r->count, 4);
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(r->told[k], FEDCLIENT_COUNTED);
    }
    assert_int_equal(r->told[3], FEDCLIENT_FINISHED);
    assert_true(r->over);
}

FED_TEST_WITH(without_options_it_ends_too, runner *r) {
    assert_fed_ok_err_of(&r->device, fedclient_run(r->device.client, NULL, &r->device.err));
    assert_int_equal(r->device.calls, 3);
}

FED_TEST_WITH(a_device_that_comes_after_the_end_ends, runner *r) {
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_int_equal(r->count, 1);
    assert_int_equal(r->told[0], FEDCLIENT_WAITED);
}

FED_TEST_WITH(an_evaluator_ends, runner *r) {
    assert_fed_ok_err_of(&r->device, run(r, true));
    r->device.options.role = FED_ROLE_EVALUATE;
    fed_device_restart(&r->device);
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_int_equal(r->told[0], FEDCLIENT_EVALUATED);
    assert_int_equal(r->told[r->count - 1], FEDCLIENT_WAITED);
}

static uint32_t told_correct;
static float told_loss;

static fed_status measure(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    (void)err;
    round->samples = 8;
    round->correct = told_correct;
    round->loss = told_loss;
    return FED_OK;
}

FED_TEST_WITH(the_log_has_what_an_evaluator_told, runner *r) {
    static const struct {
        uint32_t correct;
        float loss;
        const char *line;
    } cases[] = {{6, 0.5f, "version 0: accuracy 75.00 % (6 of 8), loss 0.5000"},
                 {6, FEDCLIENT_NO_LOSS, "version 0: accuracy 75.00 % (6 of 8)"},
                 {FEDCLIENT_NO_CORRECT, 0.5f, "version 0: loss 0.5000"},
                 {FEDCLIENT_NO_CORRECT, FEDCLIENT_NO_LOSS, "version 0: measured"}};
    r->device.options.role = FED_ROLE_EVALUATE;
    r->device.options.train = measure;
    r->end_at = 1;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        told_correct = cases[k].correct;
        told_loss = cases[k].loss;
        r->words = cases[k].line;
        r->lines[FED_LOG_INFO] = 0;
        r->device.fake.evaluated = 0;
        fed_device_restart(&r->device);
        assert_fed_ok_err_of(&r->device, run(r, false));
        assert_int_equal(r->lines[FED_LOG_INFO], 1);
    }
}

FED_TEST_WITH(a_device_for_ever_goes_on_after_the_end, runner *r) {
    r->end_at = 6;
    assert_fed_ok_err_of(&r->device, run(r, false));
    assert_int_equal(r->count, 6);
    assert_true(r->over);
}

FED_TEST_WITH(the_event_callback_ends_it, runner *r) {
    r->end_at = 2;
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_int_equal(r->count, 2);
    assert_int_equal(r->device.calls, 2);
}

FED_TEST_WITH(a_stop_ends_it_before_a_step_and_the_next_run_goes_on, runner *r) {
    r->stop_at = 1;
    assert_fed_status(run(r, true), FED_ECANCELED);
    assert_int_equal(r->count, 0);
    assert_int_equal(r->device.fake.requests, 0);
    r->stop_at = 0;
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_int_equal(r->device.calls, 3);
}

FED_TEST_WITH(a_stop_ends_a_wait, runner *r) {
    assert_fed_ok_err_of(&r->device, run(r, true));
    r->device.fake.retry_ms = 24 * 3600 * 1000; /* as long as a wait can be */
    r->stop_at = r->asked + 2;                  /* the step asks once, the wait then */
    assert_fed_status(run(r, false), FED_ECANCELED);
    assert_int_equal(r->count, 1);
    assert_int_equal(r->told[0], FEDCLIENT_WAITED);
}

FED_TEST_WITH(a_failure_that_needs_a_person_ends_it_with_the_sentence, runner *r) {
    r->device.answer = FED_EIO;
    assert_fed_status(run(r, true), FED_EIO);
    assert_fed_says(r->device.err, "the test's callback fails");
}

static fed_status run_within(void *user, fedclient_round *round, fed_error *err) {
    runner *r = user;
    r->within = fedclient_run(r->device.client, NULL, &r->why);
    return r->train(user, round, err);
}

FED_TEST_WITH(a_callback_can_not_run_its_client, runner *r) {
    r->device.options.train = run_within;
    fed_device_restart(&r->device);
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_fed_status(r->within, FED_ESTATE);
    assert_fed_says(r->why, "within a callback of the same client");
}

FED_TEST_WITH(the_same_failure_is_a_warning_once, runner *r) {
    r->words = "trying again in";
    fed_fake_fail(&r->device.fake, "/v1/checkin", FED_FAKE_UNREACHABLE, 3);
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_int_equal(r->lines[FED_LOG_WARN], 1);
    assert_int_equal(r->lines[FED_LOG_DEBUG], 2);
}

FED_TEST_WITH(another_failure_and_one_after_a_success_are_warnings, runner *r) {
    r->words = "trying again in";
    fed_fake_fail(&r->device.fake, "/v1/checkin", FED_FAKE_UNREACHABLE, 1);
    r->end_at = 2;
    assert_fed_ok_err_of(&r->device, run(r, true)); /* a failure, then a round */
    fed_fake_fail(&r->device.fake, "/v1/checkin", FED_FAKE_UNREACHABLE, 1);
    r->end_at = 1;
    assert_fed_ok_err_of(&r->device, run(r, true)); /* the same failure */
    fed_fake_fail(&r->device.fake, "/v1/checkin", FED_FAKE_SILENT, 1);
    assert_fed_ok_err_of(&r->device, run(r, true)); /* another one */
    assert_int_equal(r->lines[FED_LOG_WARN], 3);
    assert_int_equal(r->lines[FED_LOG_DEBUG], 0);
}

static fed_status not_now(void *user, fed_error *err) {
    (void)user;
    return fed_fail(err, FED_EBUSY, "it is not charging");
}

FED_TEST_WITH(a_pause_is_told_with_its_reason_once, runner *r) {
    r->words = "it is not charging: this device pauses";
    r->device.options.may_train = not_now;
    fed_device_restart(&r->device);
    r->end_at = 1;
    assert_fed_ok_err_of(&r->device, run(r, true));
    assert_int_equal(r->told[0], FEDCLIENT_PAUSED);
    assert_int_equal(r->lines[FED_LOG_INFO], 1);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
