/* Buffered asynchronous training through fedserver_handle: which updates count and with which
 * weight, what a crash leaves, and that clients keep refused updates. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <math.h>

#include "fed/rng.h"

enum { PARAMETERS = 6, LARGE_PARAMETERS = 330, NORMED_SUMMED = 16, NORMED_VALUES = 20 };

static const char plain[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                            " \"codec_down\": \"float32\", \"rounds\": 5, \"cohort\": 3,"
                            " \"goal\": 2, \"deadline_s\": 10, \"staleness\": 2}";
static const char coded[] = "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"sbc:p=0.1\","
                            " \"codec_down\": \"3lc:s=1\", \"small_tensor\": 0, \"rounds\": 3,"
                            " \"cohort\": 5, \"goal\": 3, \"deadline_s\": 10, \"staleness\": 2}";
static const char normed[] =
    "{\"model\": \"input 2 | dense 2 | bn | dense 2\", \"codec_up\": \"float32\","
    " \"codec_down\": \"float32\", \"rounds\": 9, \"cohort\": 3, \"goal\": 2,"
    " \"deadline_s\": 10, \"staleness\": 5, \"strategy\": \"%s\"}";
static const float ones[PARAMETERS] = {1, 1, 1, 1, 1, 1};

static const fedserver_round *round_of(const coordinator *c) {
    return &fedserver_rounds_front(&c->server->rounds)->round;
}

static void a_device_trains_again_at_once_after_its_report(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    for (uint32_t k = 1; k <= 4; k++) {
        fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(work.action, FED_ACTION_TRAIN);
        assert_int_equal(work.deadline_ms, 10000);
        assert_int_equal(work.version, (k - 1) / 2);
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
        coordinator_commit(c);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, k / 2);
    }
}

static void older_updates_count_for_less(void **state) {
    coordinator *c = *state;
    test_device d[3] = {coordinator_enrol(c), coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, plain);
    fed_assignment old = device_ask_work(c, &d[0]);
    for (int k = 0; k < 2; k++) {
        for (int who = 1; who < 3; who++) {
            fed_assignment work = device_ask_work(c, &d[who]);
            assert_int_equal(device_upload(c, &d[who], &work, ones, 1, NULL), 200);
        }
    }
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 2);
    float before[PARAMETERS];
    const float x[PARAMETERS] = {4, -4, 2, 0, 8, 0.5f};
    memcpy(before, fedserver_rounds_front(&c->server->rounds)->versions.values, sizeof before);
    assert_int_equal(device_upload(c, &d[0], &old, x, 5, NULL), 200);
    fed_assignment fresh = device_ask_work(c, &d[1]);
    assert_int_equal(fresh.version, 2);
    assert_int_equal(device_upload(c, &d[1], &fresh, ones, 3, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 3);
    for (int i = 0; i < PARAMETERS; i++) { /* staleness 2: the weight is 64 / sqrt(1 + 2) = 37 */
        double mean = (37.0 * 5 * (double)x[i] + 64.0 * 3 * 1) / (37.0 * 5 + 64.0 * 3);
        float want = before[i] + (float)mean;
        assert_true(fabsf(fedserver_rounds_front(&c->server->rounds)->versions.values[i] - want) <
                    1e-6f);
    }
}

/* Let five rounds pass. The first one changes all running statistics by `change`. */
static void move_statistics(coordinator *c, const test_device *d, float change) {
    float x[NORMED_VALUES] = {0};
    for (int k = 0; k < 10; k++) {
        fed_assignment work = device_ask_work(c, d);
        for (int i = NORMED_SUMMED; i < NORMED_VALUES; i++) {
            x[i] = k < 2 ? change : 0;
        }
        assert_int_equal(device_upload(c, d, &work, x, 1, NULL), 200);
    }
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 5);
}

static void check_late_statistics(const char *strategy, double late, double fresh, bool crash) {
    char task[sizeof normed + 64];
    float x[NORMED_VALUES], before[NORMED_VALUES];
    const float *values;
    coordinator c;
    coordinator_setup(&c);
    test_device d[2] = {coordinator_enrol(&c), coordinator_enrol(&c)};
    snprintf(task, sizeof task, normed, strategy);
    coordinator_task(&c, task);
    fed_assignment old = device_ask_work(&c, &d[0]);
    move_statistics(&c, &d[1], -0.75f);
    coordinator_commit(&c);
    if (crash) {
        coordinator_crash(&c);
        coordinator_wait(&c, 0);
    }
    fed_assignment work = device_ask_work(&c, &d[1]);
    memcpy(before, fedserver_rounds_front(&c.server->rounds)->versions.values, sizeof before);
    /* This value is a variance, which begins with 1. */
    assert_float_equal(before[NORMED_VALUES - 1], 0.25f, 1e-6);
    for (int i = 0; i < NORMED_VALUES; i++) { /* the model's variance was 1, here it is 0.1 */
        x[i] = i < NORMED_SUMMED ? 0.5f : -0.9f;
    }
    assert_int_equal(device_upload(&c, &d[0], &old, x, 1, NULL), 200);
    for (int i = 0; i < NORMED_VALUES; i++) { /* the model's variance was 0.25, here it is 0.2 */
        x[i] = i < NORMED_SUMMED ? 0.5f : -0.05f;
    }
    assert_int_equal(device_upload(&c, &d[1], &work, x, 1, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c.server->rounds)->versions.version, 6);
    values = fedserver_rounds_front(&c.server->rounds)->versions.values;
    for (int i = 0; i < NORMED_SUMMED; i++) {
        assert_float_equal(values[i], before[i] + 0.5f, 1e-6);
    }
    const double between = (late * 0.1 + fresh * 0.2) / (late + fresh);
    assert_float_equal(values[NORMED_VALUES - 1], (float)between, 1e-6);
    /* This value is a mean, which begins with 0. */
    assert_float_equal(values[NORMED_SUMMED], (float)between - 1, 1e-6);
    coordinator_teardown(&c);
}

static void late_statistics_count_as_what_was_measured(void) {
    check_late_statistics("fedavg", 26, 64, false); /* 64 / sqrt(1 + 5) */
    check_late_statistics("fedavg", 26, 64, true);
    check_late_statistics("median", 1, 1, false);
    check_late_statistics("median", 1, 1, true);
}

static void too_old_an_update_is_refused_and_its_slot_is_free(void **state) {
    coordinator *c = *state;
    char word[32];
    test_device d[3] = {coordinator_enrol(c), coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, plain);
    fed_assignment old = device_ask_work(c, &d[0]);
    for (int k = 0; k < 6; k++) {
        fed_assignment work = device_ask_work(c, &d[1 + k % 2]);
        assert_int_equal(device_upload(c, &d[1 + k % 2], &work, ones, 1, NULL), 200);
    }
    assert_int_equal(round_of(c)->number, 4);
    assert_int_equal(device_upload(c, &d[0], &old, ones, 1, word), 409);
    assert_string_equal(word, "too_stale");
    assert_int_equal(round_of(c)->leased, 0);
    fed_assignment fresh = device_ask_work(c, &d[0]);
    assert_true(fresh.lease != old.lease);
    assert_int_equal(fresh.version, 3);
    fresh.round = 0;
    assert_int_equal(device_upload(c, &d[0], &fresh, ones, 1, word), 409);
    assert_string_equal(word, "lease_unknown");
    fresh.round = 5;
    assert_int_equal(device_upload(c, &d[0], &fresh, ones, 1, word), 409);
    assert_string_equal(word, "lease_unknown");
    fresh.round = 4;
    assert_int_equal(device_upload(c, &d[0], &fresh, ones, 1, NULL), 200);
}

static void a_lease_ends_at_its_own_deadline_and_its_slot_is_given_to_who_waits(void **state) {
    coordinator *c = *state;
    char word[32];
    fed_error err = {0};
    int64_t next_ms;
    test_device d[4];
    fed_assignment work[4];
    for (int k = 0; k < 4; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, plain);
    for (int k = 0; k < 3; k++) {
        work[k] = device_ask_work(c, &d[k]);
        coordinator_wait(c, 1000);
    }
    assert_int_equal(device_ask_work(c, &d[3]).reason, FED_WAIT_FULL);
    coordinator_wait(c, 6500);
    assert_fed_ok_err(fedserver_tick(c->server, c->now_ms, &next_ms, &err));
    assert_int_equal(next_ms - c->now_ms, 500); /* when the first lease ends */
    coordinator_wait(c, 500);
    assert_true(coordinator_wakes(c, &d[3]));
    assert_int_equal(round_of(c)->leased, 2);
    assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, word), 409);
    assert_string_equal(word, "lease_expired");
    coordinator_wait(c, 500);
    assert_int_equal(device_ask_work(c, &d[3]).action, FED_ACTION_TRAIN);
    assert_int_equal(device_upload(c, &d[1], &work[1], ones, 1, NULL), 200);
}

static void the_deadline_commits_what_is_in_and_without_anything_waits_on(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    coordinator_wait(c, 3600000);
    fed_assignment work = device_ask_work(c, &d);
    coordinator_wait(c, 3600000);
    assert_int_equal(round_of(c)->attempt, 1);
    work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    coordinator_commit(c);
    coordinator_crash(c);
    coordinator_wait(c, 9999);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 0);
    coordinator_wait(c, 1);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
}

static void who_asks_again_gets_its_lease_with_the_newest_model(void **state) {
    coordinator *c = *state;
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, plain);
    fed_assignment first = device_ask_work(c, &d[0]);
    for (int k = 0; k < 4; k++) {
        fed_assignment work = device_ask_work(c, &d[1]);
        assert_int_equal(device_upload(c, &d[1], &work, ones, 1, NULL), 200);
    }
    coordinator_wait(c, 4000);
    fed_assignment again = device_ask_work(c, &d[0]);
    assert_true(again.lease == first.lease);
    assert_int_equal(again.version, 2);
    assert_int_equal(again.round, 3);
    assert_int_equal(again.deadline_ms, 6000);
    for (int k = 0; k < 4; k++) {
        fed_assignment work = device_ask_work(c, &d[1]);
        assert_int_equal(device_upload(c, &d[1], &work, ones, 1, NULL), 200);
    }
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(device_upload(c, &d[0], &again, ones, 1, NULL), 200);
}

static void a_round_of_large_devices_is_reached(void **state) {
    coordinator *c = *state;
    enum { DEVICES = 4, GOAL = 200 };
    test_device d[DEVICES];
    const float values[PARAMETERS] = {0.5f, 0.25f, -2, 1, 1, 1};
    float before[PARAMETERS];
    for (int k = 0; k < DEVICES; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 4,"
                        " \"goal\": 200, \"staleness\": 4}");
    memcpy(before, fedserver_rounds_front(&c->server->rounds)->versions.values, sizeof before);
    for (int k = 0; k < GOAL; k++) {
        const fed_assignment work = device_ask_work(c, &d[k % DEVICES]);
        assert_int_equal(device_upload(c, &d[k % DEVICES], &work, values, 60000, NULL), 200);
        if (k == GOAL - 2) {
            coordinator_commit(c);
            coordinator_crash(c);
        }
    }
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(fedserver_rounds_front(&c->server->rounds)->versions.values[i] ==
                    before[i] + values[i]);
    }
}

static void one_device_does_not_fill_a_round_that_others_work_on(void **state) {
    coordinator *c = *state;
    test_device d[3] = {coordinator_enrol(c), coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 3,"
                        " \"goal\": 8, \"staleness\": 4, \"deadline_s\": 10}");
    (void)device_ask_work(c, &d[1]);
    for (int k = 0; k < 4; k++) {
        const fed_assignment work = device_ask_work(c, &d[0]);
        assert_int_equal(work.action, FED_ACTION_TRAIN);
        assert_int_equal(device_upload(c, &d[0], &work, ones, 1, NULL), 200);
    }
    const fed_assignment none = device_ask_work(c, &d[0]);
    assert_int_equal(none.action, FED_ACTION_WAIT);
    assert_int_equal(none.reason, FED_WAIT_REPORTED);
    assert_int_equal(device_ask_work(c, &d[2]).action, FED_ACTION_TRAIN);
    coordinator_wait(c, 9999);
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_WAIT);
    coordinator_wait(c, 1);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
}

static void after_a_restart_everything_is_as_before(void **state) {
    coordinator *c = *state;
    test_device d[4];
    fed_assignment work[4];
    for (int k = 0; k < 4; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, plain);
    for (int k = 0; k < 3; k++) {
        work[k] = device_ask_work(c, &d[k]);
        coordinator_wait(c, 3000);
    }
    assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, NULL), 200);
    coordinator_commit(c);
    const fedserver_round before = *round_of(c);
    assert_int_equal(before.leased, 2);
    assert_int_equal(before.received, 1);
    coordinator_crash(c);
    assert_memory_equal(round_of(c), &before, sizeof before);
    coordinator_wait(c, 0);
    assert_memory_equal(round_of(c), &before, sizeof before);
    assert_true(device_ask_work(c, &d[1]).lease == work[1].lease);
    coordinator_crash(c);
    coordinator_wait(c, 4000); /* the lease of d[1] is over, that of d[2] is not */
    assert_int_equal(round_of(c)->leased, 1);
    assert_int_equal(device_upload(c, &d[1], &work[1], ones, 1, NULL), 409);
    assert_int_equal(device_upload(c, &d[2], &work[2], ones, 1, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
    assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, NULL), 200);
}

static void leases_that_are_over_take_no_slot_after_a_restart(void **state) {
    coordinator *c = *state;
    test_device d[5];
    fed_assignment work = {0};
    coordinator_task(c, plain);
    for (int k = 0; k < 5; k++) {
        d[k] = coordinator_enrol(c);
        coordinator_wait(c, k == 3 ? 10000 : 0);
        work = device_ask_work(c, &d[k]);
        assert_int_equal(work.action, FED_ACTION_TRAIN);
    }
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(round_of(c)->leased, 3);
    coordinator_wait(c, 0);
    assert_int_equal(round_of(c)->leased, 2);
    assert_int_equal(device_upload(c, &d[4], &work, ones, 1, NULL), 200);
    assert_int_equal(round_of(c)->leased, 1);
}

static void a_clock_set_back_ends_no_wait_later_than_a_deadline_from_now(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    fed_assignment first = device_ask_work(c, &d);
    coordinator_wait(c, -86400000);
    assert_int_equal(round_of(c)->leased, 1);
    coordinator_wait(c, 10000);
    assert_int_equal(round_of(c)->leased, 0);
    coordinator_wait(c, -5000);
    assert_int_equal(device_upload(c, &d, &first, ones, 1, NULL), 409);
    assert_int_equal(round_of(c)->leased, 0);
}

static void a_new_version_wakes_who_waits_for_one(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    coordinator_wait(c, 100);
    for (int k = 0; k < 4; k++) {
        fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
        assert_true(coordinator_wakes(c, NULL) == (k % 2 == 1));
        coordinator_wait(c, 100);
    }
}

static void noise(float *x, uint32_t number) {
    fed_rng rng;
    fed_rng_init(&rng, 99, number, 0);
    for (int i = 0; i < LARGE_PARAMETERS; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

static void settle(coordinator *c, bool crash) {
    coordinator_commit(c);
    if (crash) {
        coordinator_crash(c);
        coordinator_wait(c, 0);
    }
}

/* Run three rounds with updates up to two versions old. `order` permutes the updates of each
 * round. With `crash` the coordinator crashes after every lease and every upload. */
static uint64_t digest_of(const int order[3], bool crash) {
    enum { DEVICES = 5, ROUNDS = 3 };
    static const int reports[ROUNDS][3] = {{0, 1, 2}, {3, 0, 1}, {4, 2, 3}};
    coordinator c;
    test_device d[DEVICES];
    fed_assignment work[DEVICES];
    float x[LARGE_PARAMETERS];
    coordinator_setup(&c);
    for (int k = 0; k < DEVICES; k++) {
        d[k] = coordinator_enrol(&c);
    }
    coordinator_task(&c, coded);
    for (int k = 0; k < DEVICES; k++) {
        work[k] = device_ask_work(&c, &d[k]);
        settle(&c, crash);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 3; k++) {
            int who = reports[round][order[k]];
            noise(x, round * DEVICES + (uint32_t)who);
            assert_int_equal(device_upload(&c, &d[who], &work[who], x, (uint32_t)who + 1, NULL),
                             200);
            settle(&c, crash);
        }
        assert_int_equal(fedserver_rounds_front(&c.server->rounds)->versions.version, round + 1);
        for (int k = 0; k < 3 && round + 1 < ROUNDS; k++) {
            int who = reports[round][k];
            work[who] = device_ask_work(&c, &d[who]);
            assert_int_equal(work[who].version, round + 1);
            settle(&c, crash);
        }
    }
    uint64_t digest = fedserver_rounds_front(&c.server->rounds)->versions.digest;
    coordinator_teardown(&c);
    return digest;
}

static void neither_order_nor_a_crash_at_every_upload_changes_a_bit(void) {
    const int forward[3] = {0, 1, 2};
    const int mixed[3] = {2, 0, 1};
    uint64_t digest = digest_of(forward, false);
    assert_true(digest_of(mixed, false) == digest);
    assert_true(digest_of(forward, true) == digest);
    assert_true(digest_of(mixed, true) == digest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_device_trains_again_at_once_after_its_report),
        WITH_COORDINATOR(older_updates_count_for_less),
        fed_unit_test(late_statistics_count_as_what_was_measured),
        WITH_COORDINATOR(too_old_an_update_is_refused_and_its_slot_is_free),
        WITH_COORDINATOR(a_lease_ends_at_its_own_deadline_and_its_slot_is_given_to_who_waits),
        WITH_COORDINATOR(the_deadline_commits_what_is_in_and_without_anything_waits_on),
        WITH_COORDINATOR(who_asks_again_gets_its_lease_with_the_newest_model),
        WITH_COORDINATOR(a_round_of_large_devices_is_reached),
        WITH_COORDINATOR(one_device_does_not_fill_a_round_that_others_work_on),
        WITH_COORDINATOR(after_a_restart_everything_is_as_before),
        WITH_COORDINATOR(leases_that_are_over_take_no_slot_after_a_restart),
        WITH_COORDINATOR(a_clock_set_back_ends_no_wait_later_than_a_deadline_from_now),
        WITH_COORDINATOR(a_new_version_wakes_who_waits_for_one),
        fed_unit_test(neither_order_nor_a_crash_at_every_upload_changes_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
