/* Personal models: a device's own copies of the shared model; they cost nobody else anything. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "fed_device.h"
#include "fedclient/state/record.h"

enum { ROUNDS = 3, STEPS = 7 };

static void open_device(fed_device *d) {
    fed_device_open(d, "3lc:s=1", ROUNDS);
    d->fake.task.personal_steps = STEPS;
}

static int setup(void **state) {
    fed_device *d = calloc(1, sizeof *d);
    assert_non_null(d);
    open_device(d);
    *state = d;
    return 0;
}

/* The copy is of this version, and of the fake's task: the model's values then, plus 1. */
static void check_copy(fed_device *d, uint32_t version, const float *model) {
    fedclient_personal_model own = {0};
    assert_fed_ok_err_of(d, fedclient_personal(d->client, &own, &d->err));
    assert_int_equal(own.task, d->fake.task.id);
    assert_int_equal(own.version, version);
    assert_string_equal(own.model, d->fake.arch.text);
    assert_int_equal(own.count, d->fake.arch.layout.size);
    for (size_t i = 0; i < own.count; i++) {
        assert_true(own.values[i] == model[i] + 1);
    }
    fedclient_personal_free(&own);
}

static void check_none(fed_device *d) {
    fedclient_personal_model own;
    assert_fed_status(fedclient_personal(d->client, &own, &d->err), FED_ENOTFOUND);
    assert_fed_says(d->err, "no personal model yet");
}

static float *model_of(const fed_device *d) {
    const size_t n = d->fake.arch.layout.size;
    float *copy = malloc(n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, d->fake.model, n * sizeof *copy);
    return copy;
}

static fed_status look(fed_device *d, fedclient_round *round, fed_error *err) {
    (void)d;
    (void)err;
    assert_int_equal(round->task->local_steps, STEPS);
    assert_int_equal(fedclient_round_left_ms(round), UINT32_MAX);
    assert_true(round->round > 0 && round->number > 0);
    return fedclient_round_wanted(round, err);
}

FED_TEST_WITH(a_copy_is_made_after_each_round_and_at_the_end, fed_device *d) {
    d->copy = look;
    d->fake.deadline_ms = 1000;
    check_none(d);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        float *before = model_of(d);
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
        check_copy(d, round - 1, before);
        free(before);
    }
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_FINISHED);
    check_copy(d, ROUNDS, d->fake.model);
    fed_device_check(d, 0);
    assert_int_equal(d->copies, ROUNDS + 1);
    fed_device_restart(d);
    check_copy(d, ROUNDS, d->fake.model);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_WAITED);
    assert_int_equal(d->copies, ROUNDS + 1);
}

FED_TEST_WITH(no_copy_is_made_where_the_task_or_its_coordinator_knows_none, fed_device *d) {
    d->fake.no_personal = true;
    fed_device_finish(d, ROUNDS + 1);
    check_none(d);
    assert_int_equal(d->copies, 0);
    assert_int_equal(d->flash.puts, 4 * ROUNDS + 1);
}

static fed_status change(fed_device *d, fedclient_round *round, fed_error *err) {
    (void)d;
    (void)err;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] = 1;
    }
    round->is_change = true;
    return FED_OK;
}

FED_TEST_WITH(a_program_may_leave_the_change, fed_device *d) {
    d->copy = change;
    fed_device_finish(d, ROUNDS + 1);
    check_copy(d, ROUNDS, d->fake.model);
}

static fed_status diverge(fed_device *d, fedclient_round *round, fed_error *err) {
    (void)d;
    (void)err;
    round->values[3] = NAN;
    return FED_OK;
}

static fed_status decline(fed_device *d, fedclient_round *round, fed_error *err) {
    (void)d;
    (void)round;
    return fed_fail(err, FED_EDECLINED, "this test keeps no copy");
}

static fed_status (*const failures[])(fed_device *, fedclient_round *, fed_error *) = {diverge,
                                                                                       decline};

FED_TEST(a_copy_that_fails_costs_nothing_else) {
    for (size_t k = 0; k < sizeof failures / sizeof failures[0]; k++) {
        fed_device d;
        open_device(&d);
        d.copy = failures[k];
        fed_device_finish(&d, ROUNDS + 1);
        check_none(&d);
        assert_int_equal(d.copies, ROUNDS + 1);
        assert_int_equal(d.fake.version, ROUNDS);
        assert_int_equal(d.fake.declines, 0);
        fed_device_check(&d, 0);
        fed_device_close(&d);
    }
}

static unsigned warnings;

static void count_warnings(void *user, fed_log_level level, const char *line) {
    (void)user;
    if (strstr(line, "this test keeps no copy") != NULL) {
        assert_int_equal(level, FED_LOG_WARN);
        warnings++;
    }
}

FED_TEST_WITH(a_program_that_declines_copies_says_so_once_for_a_task, fed_device *d) {
    static const fed_log log = {.write = count_warnings, .level = FED_LOG_INFO};
    warnings = 0;
    d->options.log = &log;
    fed_device_restart(d);
    d->copy = decline;
    fed_device_finish(d, ROUNDS + 1);
    assert_int_equal(d->copies, ROUNDS + 1);
    assert_int_equal(warnings, 1);
}

FED_TEST_WITH(a_full_store_costs_the_copy_only, fed_device *d) {
    d->flash.full = "personal";
    fed_device_finish(d, ROUNDS + 1);
    check_none(d);
    fed_device_check(d, 0);
}

FED_TEST_WITH(a_damaged_copy_is_made_again, fed_device *d) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    fedclient_platform *store = &d->flash.inner;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok_err_of(d, store->get(store->user, "personal", &bytes, &len, &d->err));
    bytes[len - 20] ^= 1;
    assert_fed_ok_err_of(d, store->put(store->user, "personal", bytes, len, &d->err));
    free(bytes);
    fed_device_restart(d);
    check_none(d);
    fed_device_finish(d, ROUNDS + 1);
    check_copy(d, ROUNDS, d->fake.model);
}

static fed_status measure(fed_device *d, fedclient_round *round, fed_error *err) {
    return fedclient_round_metric(round, "personal/accuracy", 0.25 * (double)d->copies, err);
}

FED_TEST_WITH(what_the_copy_reports_goes_with_the_next_update, fed_device *d) {
    d->copy = measure;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(d->fake.own.count, 0);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(d->fake.own.count, 1);
    assert_string_equal(d->fake.own.items[0].name, "personal/accuracy");
    assert_true(d->fake.own.items[0].value == 0.25);
    fed_device_new_task(d, "input 8 | dense 3");
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(d->fake.own.count, 0); /* it is of another task */
}

/* The fake refuses a private update with metrics. */
FED_TEST(a_private_task_hears_nothing_of_the_copy) {
    fed_device d;
    fed_device_open(&d, "ring:b=16", ROUNDS);
    d.fake.privacy = (fed_privacy){.clip = 1, .minimum = 1, .goal = 1, .cohort = 1, .apart = 1};
    d.fake.task.personal_steps = STEPS;
    d.copy = measure;
    fed_device_finish(&d, ROUNDS + 1);
    assert_int_equal(d.fake.version, ROUNDS);
    assert_int_equal(d.fake.own.count, 0);
    check_copy(&d, ROUNDS, d.fake.model);
    fed_device_close(&d);
}

FED_TEST_WITH(a_copy_stays_until_the_next_one, fed_device *d) {
    fed_device_finish(d, ROUNDS + 1);
    const uint64_t task = d->fake.task.id;
    fed_device_new_task(d, "input 8 | dense 3");
    d->fake.task.personal_steps = 0;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    fedclient_personal_model own = {0};
    assert_fed_ok_err_of(d, fedclient_personal(d->client, &own, &d->err));
    assert_int_equal(own.task, task);
    assert_int_equal(own.version, ROUNDS);
    fedclient_personal_free(&own);
}

static fed_status verdict;

static fed_status may_train(void *user, fed_error *err) {
    (void)user;
    return verdict == FED_OK ? FED_OK : fed_fail(err, verdict, "not now");
}

static fed_status interrupted(fed_device *d, fedclient_round *round, fed_error *err) {
    if (d->copies == ROUNDS + 1) { /* the one after the end */
        verdict = d->step > 0 ? FED_EBUSY : FED_ECANCELED;
    }
    return fedclient_round_wanted(round, err);
}

FED_TEST_WITH(a_pause_in_the_last_copy_only_delays_it, fed_device *d) {
    verdict = FED_OK;
    d->options.may_train = may_train;
    d->copy = interrupted;
    fed_device_restart(d);
    for (int k = 0; k < ROUNDS; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    }
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_PAUSED);
    verdict = FED_OK;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_FINISHED);
    check_copy(d, ROUNDS, d->fake.model);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_WAITED);
}

FED_TEST_WITH(a_stop_in_the_last_copy_only_delays_it, fed_device *d) {
    verdict = FED_OK;
    d->options.may_train = may_train;
    d->copy = interrupted;
    d->step = 0;
    fed_device_restart(d);
    for (int k = 0; k < ROUNDS; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    }
    fed_device_fail(d, FED_ECANCELED);
    verdict = FED_OK;
    fed_device_restart(d);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_FINISHED);
    check_copy(d, ROUNDS, d->fake.model);
}

/* Power fails in put number `at`. Returns true if fewer puts were made. */
static bool survives(uint64_t at, bool writing) {
    fed_device d;
    open_device(&d);
    d.flash.dies_at = at;
    d.flash.dies_writing = writing;
    fedclient_event event;
    for (unsigned k = 0; k <= ROUNDS && !d.flash.dead; k++) {
        const fed_status status = fed_device_step(&d, &event);
        assert_true(status == FED_OK || d.flash.dead);
    }
    const bool died = d.flash.dead;
    fed_device_restart(&d);
    fed_device_finish(&d, 2 * ROUNDS);
    assert_int_equal(d.fake.version, ROUNDS);
    fed_device_check(&d, 0);
    check_copy(&d, ROUNDS, d.fake.model);
    fed_device_close(&d);
    return !died;
}

FED_TEST(power_loss_at_any_put_loses_neither_training_nor_the_last_copy) {
    for (unsigned writing = 0; writing < 2; writing++) {
        uint64_t at = 0;
        while (!survives(at, writing == 1)) {
            at++;
        }
        assert_int_equal(at, 5 * ROUNDS + 2); /* rounds of 5 puts; the last model and its copy */
    }
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
