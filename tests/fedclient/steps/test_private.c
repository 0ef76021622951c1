/* A device of a private task: what it sends, what it drops and what it owes, also when power
 * fails. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "fed_device.h"

enum { N = 27, ROUNDS = 12 };

/* With 16 bits a level is below 1e-4 of what is sent: less than a quarter of the least change. */
#define FINE 2e-4f

static void open_private(fed_device *d, const char *codec, float clip) {
    fed_device_open(d, codec, ROUNDS);
    d->fake.privacy = (fed_privacy){.clip = clip, .minimum = 1, .goal = 1, .cohort = 1, .apart = 1};
}

static int setup(void **state) {
    fed_device *d = calloc(1, sizeof *d);
    assert_non_null(d);
    open_private(d, "ring:b=16", 1);
    *state = d;
    return 0;
}

static double norm_of(const float *x) {
    double squares = 0;
    for (size_t i = 0; i < N; i++) {
        squares += (double)x[i] * (double)x[i];
    }
    return sqrt(squares);
}

FED_TEST_WITH(an_update_is_short_enough_and_is_sent_in_full, fed_device *d) {
    for (int k = 0; k < 5; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
        assert_true(fed_device_owed(d) == 0); /* p is 1: nothing is owed */
    }
    fed_device_check(d, FINE);
}

/* The fake checks that an update has 1 sample, loss 0 and no custom metrics. */
FED_TEST_WITH(a_check_in_does_not_say_how_many_samples_there_are, fed_device *d) {
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(d->fake.samples, 0);
}

/* The coordinator is not told the loss, and the device's own user is. */
FED_TEST_WITH(the_events_of_a_device_have_its_loss, fed_device *d) {
    d->loss = 0.75f;
    assert_true(fed_device_event(d).loss == d->loss);
}

/* trained = acknowledged + owed + dropped. */
FED_TEST(what_the_clip_takes_is_dropped_and_not_owed) {
    fed_device *d = calloc(1, sizeof *d);
    const float clip = 0.004f;
    float before[N] = {0};
    open_private(d, "ring:b=16", clip);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
        const double norm = norm_of(d->last);
        assert_true(norm > (double)clip);
        for (size_t i = 0; i < N; i++) {
            const float counted = d->fake.counted[i] - before[i];
            assert_true(fabs((double)counted - (double)d->last[i] * (double)clip / norm) < 1e-5);
            before[i] = d->fake.counted[i];
        }
        assert_true(fed_device_owed(d) == 0);
    }
    fed_device_close(d);
    free(d);
}

FED_TEST_WITH(what_was_refused_is_owed_and_goes_with_the_next_update, fed_device *d) {
    fed_fake_refuse(&d->fake, "/v1/update", 409, "round_closed");
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_REFUSED);
    assert_true(fed_device_owed(d) > 0);
    fed_device_check(d, 0);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_true(fed_device_owed(d) == 0);
    fed_device_check(d, FINE);
}

FED_TEST(what_a_part_leaves_out_is_sent_later) {
    fed_device *d = calloc(1, sizeof *d);
    open_private(d, "ring:b=16,p=0.5", 1);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    size_t unsent = 0;
    for (size_t i = 0; i < N; i++) {
        unsent += d->fake.counted[i] == 0;
    }
    assert_true(unsent >= N / 2);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    d->step = 0; /* from here on only what is owed is sent */
    while (d->fake.version < ROUNDS) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    }
    for (size_t i = 0; i < N; i++) {
        assert_true(fabsf(d->fake.counted[i] - d->trained[i]) < 2 * FINE);
    }
    fed_device_close(d);
    free(d);
}

/* Power fails in put number `at`. True: fewer puts were made. */
static bool survives(const char *codec, uint64_t at, bool writing) {
    fed_device *d = calloc(1, sizeof *d);
    open_private(d, codec, 1);
    d->fake.rounds = 3;
    d->flash.dies_at = at;
    d->flash.dies_writing = writing;
    fedclient_event event = {0};
    fed_status status = FED_OK;
    for (unsigned k = 0; k < 4 && status == FED_OK; k++) {
        status = fed_device_step(d, &event);
    }
    const bool died = d->flash.dead;
    assert_int_equal(died, status != FED_OK);
    fed_device_restart(d);
    if (died) {
        fed_device_finish(d, 8);
    }
    assert_int_equal(d->fake.version, 3);
    fed_device_check(d, FINE);
    fed_device_close(d);
    free(d);
    return !died;
}

/* The fake compares an update that is sent again with the first one, byte for byte. */
FED_TEST(power_that_fails_at_any_put_loses_and_repeats_nothing) {
    for (unsigned writing = 0; writing < 2; writing++) {
        uint64_t at = 0;
        while (!survives("ring:b=16", at, writing == 1)) {
            at++;
        }
        assert_int_equal(at, 13); /* 3 rounds of 4 puts, and the final model */
    }
}

static void decline(fed_device *d, const char *why) {
    fedclient_event event;
    assert_fed_ok_err_of(d, fed_device_step(d, &event));
    assert_int_equal(d->fake.declines, 1);
    assert_non_null(strstr(d->fake.declined.reason, why));
    assert_int_equal(d->calls, 0); /* it has not trained */
}

FED_TEST_WITH(updates_for_two_helpers_are_declined, fed_device *d) {
    d->fake.privacy.helpers = 2;
    decline(d, "2 helpers");
}

FED_TEST_WITH(a_codec_without_a_clip_is_declined, fed_device *d) {
    d->fake.privacy.clip = 0;
    decline(d, "go together");
}

FED_TEST(a_clip_without_the_codec_is_declined) {
    fed_device *d = calloc(1, sizeof *d);
    open_private(d, "float32", 1);
    decline(d, "go together");
    fed_device_close(d);
    free(d);
}

FED_TEST_WITH(a_sum_that_does_not_fit_is_declined, fed_device *d) {
    d->fake.privacy.cohort = 1000000;
    decline(d, "32 bits");
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
