/* A device whose updates only a helper and the coordinator together can read: seeds, and the
 * device's own floor. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "fed_device.h"
#include "fedclient/state/record.h"

enum { N = 27, ROUNDS = 12, SEEDS = 64 };

#define FINE 2e-4f /* as in tests/fedclient/steps/test_private.c */

static void open_masked(fed_device *d, const char *codec) {
    fed_error err = {0};
    fed_device_open(d, codec, ROUNDS);
    d->fake.privacy =
        (fed_privacy){.clip = 1, .minimum = 20, .goal = 30, .cohort = 39, .apart = 1, .helpers = 1};
    assert_fed_ok_err(fed_point_new(d->fake.helper_secret, d->fake.privacy.helper_key[0], &err));
}

static int setup(void **state) {
    fed_device *d = calloc(1, sizeof *d);
    assert_non_null(d);
    open_masked(d, "ring:b=16");
    *state = d;
    return 0;
}

/* The fake is the helper, too: it checks the signature, opens the seed, and takes the mask off. */
FED_TEST_WITH(an_update_without_its_mask_is_the_update, fed_device *d) {
    for (int k = 0; k < 5; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    }
    fed_device_check(d, FINE);
}

/* The count travels behind the mask, too. */
FED_TEST_WITH(a_device_says_whether_the_clip_shortened_its_update, fed_device *d) {
    d->fake.privacy.counted = true;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(d->fake.count, 1);
    d->step = 1;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(d->fake.count, -1);
    assert_true((d->fake.capabilities & FED_CAN_COUNT) != 0);
}

/* Else the noise of one round could not take off that of another. */
FED_TEST_WITH(all_rounds_have_one_draw_where_devices_rest_between_them, fed_device *d) {
    d->fake.privacy.apart = 3;
    for (int k = 0; k < 5; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    }
    fed_device_check(d, FINE);
}

FED_TEST(a_part_of_the_values_is_masked_too_and_the_rest_is_owed) {
    fed_device *d = calloc(1, sizeof *d);
    assert_non_null(d);
    open_masked(d, "ring:b=16,p=0.5");
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    d->step = 0;
    while (d->fake.version < ROUNDS) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    }
    for (size_t i = 0; i < N; i++) {
        assert_true(d->fake.counted[i] - d->trained[i] < 2 * FINE &&
                    d->trained[i] - d->fake.counted[i] < 2 * FINE);
    }
    fed_device_close(d);
    free(d);
}

/* Notes the seed of the update that came last. A lease has one seed, another lease another one. */
typedef struct seeds {
    uint8_t seen[SEEDS][FED_SEED];
    uint64_t lease; /* of the last one that was noted */
    size_t count;
} seeds;

static void note(seeds *s, const fed_device *d) {
    if (d->fake.updates == 0) {
        return;
    }
    if (s->count > 0 && s->lease == d->fake.last_lease) {
        assert_memory_equal(s->seen[s->count - 1], d->fake.seed, FED_SEED);
        return;
    }
    for (size_t k = 0; k < s->count; k++) {
        assert_memory_not_equal(s->seen[k], d->fake.seed, FED_SEED);
    }
    assert_true(s->count < SEEDS);
    s->lease = d->fake.last_lease;
    memcpy(s->seen[s->count++], d->fake.seed, FED_SEED);
}

/* Power fails in put number `at`. True: fewer puts were made. The fake compares an update that is
 * sent again with the first one, byte for byte: its seed has masked one message. */
static bool survives(uint64_t at, bool writing) {
    fed_device *d = calloc(1, sizeof *d);
    seeds s = {.count = 0};
    assert_non_null(d);
    open_masked(d, "ring:b=16");
    d->fake.rounds = 3;
    d->flash.dies_at = at;
    d->flash.dies_writing = writing;
    fedclient_event event = {0};
    fed_status status = FED_OK;
    for (unsigned k = 0; k < 4 && status == FED_OK; k++) {
        status = fed_device_step(d, &event);
        note(&s, d);
    }
    const bool died = d->flash.dead;
    fed_device_restart(d);
    for (unsigned k = 0; k < 8 && d->fake.version < 3; k++) {
        (void)fed_device_step(d, &event);
        note(&s, d);
    }
    if (died) {
        fed_device_finish(d, 8);
    }
    assert_int_equal(d->fake.version, 3);
    fed_device_check(d, FINE);
    fed_device_close(d);
    free(d);
    return !died;
}

FED_TEST(no_seed_is_used_twice) {
    for (unsigned writing = 0; writing < 2; writing++) {
        uint64_t at = 0;
        while (!survives(at, writing == 1)) {
            at++;
            assert_true(at < 100);
        }
        assert_true(at > 0);
    }
}

/* Refused and made anew for the next round: another mask. */
FED_TEST_WITH(an_update_that_is_made_anew_has_a_new_seed, fed_device *d) {
    uint8_t first[FED_SEED];
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    memcpy(first, d->fake.seed, sizeof first);
    fed_fake_refuse(&d->fake, "/v1/update", 409, "round_closed");
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_REFUSED);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_memory_not_equal(first, d->fake.seed, sizeof first);
    fed_device_check(d, FINE);
}

/* What the stored message says to the helper, and its lease. */
static uint64_t stored_message(fed_device *d, fed_private *sealed) {
    uint8_t *record = NULL;
    size_t len = 0;
    fed_update head;
    fed_reader r;
    assert_fed_ok_err_of(
        d, d->flash.inner.get(d->flash.inner.user, "pending", &record, &len, &d->err));
    fed_reader_init(&r, record + FEDCLIENT_RECORD_HEAD, len - FEDCLIENT_RECORD_HEAD);
    assert_fed_ok(fed_update_read(&r, &head));
    assert_int_equal(fed_read_u8(&r), FED_OWN_ENVELOPE);
    assert_fed_ok(fed_private_read(&r, sealed));
    free(record);
    return head.lease;
}

static void seed_of(const fed_device *d, const fed_private *sealed, uint64_t lease,
                    uint8_t seed[FED_SEED]) {
    fed_error err = {0};
    assert_fed_ok_err(fed_private_open(sealed, 0, lease, d->fake.helper_secret, seed, &err));
}

static void make_a_message(fed_device *d) {
    fedclient_event event;
    fed_device_restart(d);
    fed_fake_fail(&d->fake, "/v1/update", FED_FAKE_UNREACHABLE, 1);
    assert_fed_ok_err_of(d, fed_device_step(d, &event));
    assert_int_not_equal(event.outcome, FEDCLIENT_COUNTED);
}

/* A device, and a copy of its disk from just before it made its message: the same training, the
 * same lease, and another seed. One seed for both would show what stands between two roundings. */
FED_TEST_WITH(a_clone_has_another_seed, fed_device *d) {
    fed_private first, second;
    uint8_t one[FED_SEED], other[FED_SEED];
    make_a_message(d);
    const uint64_t lease = stored_message(d, &first), calls = d->calls;
    assert_fed_ok_err_of(d, d->flash.inner.drop(d->flash.inner.user, "pending", &d->err));
    make_a_message(d);
    assert_int_equal(stored_message(d, &second), lease);
    assert_int_equal(d->calls, calls); /* it did not train again */
    seed_of(d, &first, lease, one);
    seed_of(d, &second, lease, other);
    assert_memory_not_equal(one, other, sizeof one);
}

/* As a helper asks with the device's identity: "nothing is owed" is an answer, and no failure. */
FED_TEST_WITH(an_answer_without_a_body_is_one, fed_device *d) {
    int status = 0;
    char word[32];
    fed_writer answer;
    fed_writer_growing(&answer);
    fed_fake_refuse(&d->fake, "/v1/helper", 204, "");
    assert_fed_ok_err_of(
        d, fedclient_post(d->client, "/v1/helper", "x", 1, 0, &status, word, &answer, &d->err));
    assert_int_equal(status, 204);
    assert_string_equal(word, "");
    fed_writer_free(&answer);
}

static void decline(fed_device *d, const char *why) {
    fedclient_event event;
    fed_device_restart(d);
    assert_fed_ok_err_of(d, fed_device_step(d, &event));
    assert_int_equal(d->fake.declines, 1);
    assert_non_null(strstr(d->fake.declined.reason, why));
    assert_int_equal(d->calls, 0); /* it has not trained */
}

FED_TEST_WITH(a_task_below_the_floor_is_declined, fed_device *d) {
    d->options.least_devices = 21;
    decline(d, "commit with 20 devices; this device wants 21");
}

FED_TEST_WITH(a_task_without_a_helper_is_below_the_floor, fed_device *d) {
    d->options.least_devices = 1;
    d->fake.privacy.helpers = 0;
    decline(d, "with a helper only");
}

FED_TEST_WITH(a_larger_epsilon_than_the_devices_own_is_declined, fed_device *d) {
    d->options.most_epsilon = 4;
    d->fake.privacy.epsilon = 4.5f;
    decline(d, "epsilon 4.5; this device wants 4 at most");
}

FED_TEST_WITH(a_task_without_a_promise_is_declined_where_the_device_wants_one, fed_device *d) {
    d->options.most_epsilon = 4;
    decline(d, "promises no epsilon");
}

static void refuse_options(fed_device *d, const char *why) {
    fedclient *client = NULL;
    assert_fed_status(fedclient_open(&d->options, &client, &d->err), FED_EINVAL);
    assert_fed_says(d->err, why);
}

FED_TEST_WITH(a_floor_that_makes_no_sense_is_refused, fed_device *d) {
    const float wrong[] = {-1, NAN, INFINITY};
    for (size_t k = 0; k < 3; k++) {
        d->options.most_epsilon = wrong[k];
        refuse_options(d, "is a number above 0, or 0 for any");
    }
    d->options.most_epsilon = 0;
    d->options.private_only = true;
    refuse_options(d, "get helper.pem from the helper's party");
}

/* The fake's rounds commit with 20 devices. */
FED_TEST_WITH(a_device_for_private_tasks_only_wants_twenty_devices, fed_device *d) {
    static fed_points keys = {.count = 1};
    memcpy(keys.at[0], d->fake.privacy.helper_key[0], FED_SEAL_KEY);
    d->options.helper = &keys;
    d->options.private_only = true;
    d->fake.privacy.minimum = 19;
    decline(d, "commit with 19 devices; this device wants 20");
}

FED_TEST_WITH(another_helpers_key_is_refused, fed_device *d) {
    static fed_points keys = {.count = 1};
    memcpy(keys.at[0], d->fake.privacy.helper_key[0], FED_SEAL_KEY);
    d->options.helper = &keys;
    keys.at[0][9] ^= 1;
    decline(d, "not the one that this device knows");
}

FED_TEST_WITH(the_spare_key_of_the_pinned_helper_is_as_good, fed_device *d) {
    static fed_points keys = {.count = 2};
    memcpy(keys.at[0], d->fake.privacy.helper_key[0], FED_SEAL_KEY);
    memcpy(keys.at[1], d->fake.privacy.helper_key[0], FED_SEAL_KEY);
    keys.at[0][9] ^= 1;
    d->options.helper = &keys;
    fed_device_restart(d);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
}

FED_TEST_WITH(the_pinned_helper_and_the_floor_are_met, fed_device *d) {
    static fed_points keys = {.count = 1};
    memcpy(keys.at[0], d->fake.privacy.helper_key[0], FED_SEAL_KEY);
    d->options.helper = &keys;
    d->options.least_devices = 20;
    d->options.most_epsilon = 4;
    d->fake.privacy.epsilon = 4;
    fed_device_restart(d);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
