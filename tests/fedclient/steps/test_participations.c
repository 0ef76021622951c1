/* A device's own record of its participations: a coordinator that forgets gets no message more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

enum { ROUNDS = 12 };

static fed_device *open_device(uint32_t participations) {
    fed_device *d = calloc(1, sizeof *d);
    assert_non_null(d);
    fed_device_open(d, "ring:b=16", ROUNDS);
    d->fake.privacy = (fed_privacy){.clip = 1,
                                    .minimum = 1,
                                    .goal = 1,
                                    .cohort = 1,
                                    .epsilon = 8,
                                    .delta = 1e-5f,
                                    .participations = participations,
                                    .apart = 1};
    return d;
}

static void close_device(fed_device *d) {
    fed_device_close(d);
    free(d);
}

/* The fake coordinator counts no participations. */
FED_TEST(a_participation_too_many_is_refused_by_the_device) {
    fed_device *d = open_device(3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
        fed_device_restart(d);
    }
    const fedclient_event event = fed_device_event(d);
    assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
    assert_int_equal(d->fake.version, 3);
    close_device(d);
}

/* The fake coordinator lets it go on at once, as an honest one would not. */
FED_TEST(a_round_too_early_is_refused_by_the_device) {
    fed_device *d = open_device(5);
    d->fake.privacy.apart = 3;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    d->fake.version += 2; /* other devices had their rounds */
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    d->fake.version += 1;
    fed_device_restart(d);
    const fedclient_event event = fed_device_event(d);
    assert_int_equal(event.outcome, FEDCLIENT_PAUSED); /* it rests: no reason to decline the task */
    assert_in_range(event.wait_ms, 100, 60 * 1000);
    assert_fed_says(d->err, "was promised to rest for 2 rounds");
    d->fake.version += 1;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    close_device(d);
}

FED_TEST(another_task_has_an_account_of_its_own) {
    fed_device *d = open_device(1);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    fed_device_new_task(d, "input 2 | dense 9");
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_DECLINED);
    close_device(d);
}

/* A message that was refused may have been read, so it is one of those promised. */
FED_TEST(a_refused_message_is_a_participation) {
    fed_device *d = open_device(2);
    fed_fake_refuse(&d->fake, "/v1/update", 409, "round_closed");
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_REFUSED);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_DECLINED);
    close_device(d);
}

/* Power fails at each put: a lease is one participation, however often its message is begun. */
FED_TEST(a_lease_is_one_participation_whenever_power_fails) {
    for (uint64_t at = 1; at < 40; at++) {
        fed_device *d = open_device(3);
        d->flash.dies_at = at;
        int counted = 0;
        for (int k = 0; k < 12 && counted < 3; k++) {
            fedclient_event event = {0};
            if (fed_device_step(d, &event) != FED_OK) {
                fed_device_restart(d);
            }
            counted = (int)d->fake.version;
        }
        assert_int_equal(counted, 3);
        close_device(d);
    }
}
