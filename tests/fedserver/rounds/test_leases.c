/* Slots through fedserver_handle: which devices get one, when a device may ask again, and when
 * a slot becomes free. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <math.h>

#include "fed/hash.h"
#include "fed/rng.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/rounds/leases.h"

enum { CROWD = 12 };

static const float ones[6] = {1, 1, 1, 1, 1, 1};

static void task_of(coordinator *c, const char *keys) {
    char json[400];
    snprintf(json, sizeof json,
             "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
             " \"codec_down\": \"float32\", \"rounds\": 999, \"deadline_s\": 100, %s}",
             keys);
    coordinator_task(c, json);
}

static void crowd_of(coordinator *c, test_device *d, size_t count) {
    for (size_t k = 0; k < count; k++) {
        d[k] = coordinator_enrol(c);
    }
}

static void crowd_seen(coordinator *c, test_device d[CROWD]) {
    crowd_of(c, d, CROWD);
    for (int k = 0; k < CROWD; k++) {
        assert_int_equal(device_ask_work(c, &d[k]).action, FED_ACTION_WAIT);
    }
}

static fedserver_device *row_of(const coordinator *c, const test_device *d) {
    return coordinator_device(c, d);
}

/* Check in with a long poll. Returns how long the answer is held back; 0: it is not. */
static int64_t held_ms(coordinator *c, const test_device *d) {
    fed_error err = {0};
    uint8_t body[64];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_checkin_write(&w, &(fed_checkin){.role = FED_ROLE_TRAIN, .hold_ms = 50000});
    const fedserver_request request = {.listener = FEDSERVER_DEVICES,
                                       .method = "POST",
                                       .path = "/v1/checkin",
                                       .query = "",
                                       .body = body,
                                       .body_len = w.len,
                                       .fingerprint = d->fingerprint};
    fedserver_response response;
    assert_fed_ok_err(fedserver_handle(c->server, &request, c->now_ms, &response, &err));
    fedserver_blob_free(response.body);
    return response.hold ? response.hold_ms : 0;
}

/* Let all devices check in, and check in again when their wait is over, until the round is
 * full. Returns the number of check-ins. */
static unsigned fill(coordinator *c, const test_device *d, size_t count, bool in[CROWD]) {
    const fedserver_round *round = &fedserver_rounds_front(&c->server->rounds)->round;
    int64_t next_ms[CROWD] = {0};
    unsigned asked = 0;
    for (size_t k = 0; k < count; k++) {
        in[k] = false;
    }
    while (round->phase != FEDSERVER_ROUND_FULL) {
        int64_t soonest_ms = INT64_MAX;
        for (size_t k = 0; k < count && round->phase != FEDSERVER_ROUND_FULL; k++) {
            if (!in[k] && next_ms[k] <= c->now_ms) {
                int64_t wait_ms = held_ms(c, &d[k]);
                asked++;
                in[k] = wait_ms == 0;
                next_ms[k] = c->now_ms + wait_ms;
            }
            soonest_ms = !in[k] && next_ms[k] < soonest_ms ? next_ms[k] : soonest_ms;
        }
        if (round->phase != FEDSERVER_ROUND_FULL) {
            assert_true(soonest_ms <= round->opened_ms + 2000); /* a 50th of the deadline */
            coordinator_wait(c, soonest_ms - c->now_ms);
        }
    }
    return asked;
}

static void finish_round(coordinator *c, const test_device *d, size_t count, const bool in[CROWD]) {
    for (size_t k = 0; k < count; k++) {
        if (in[k]) {
            fed_assignment work = device_ask_work(c, &d[k]);
            assert_int_equal(work.action, FED_ACTION_TRAIN);
            assert_int_equal(device_upload(c, &d[k], &work, ones, 1, NULL), 200);
        }
    }
}

static void those_whose_turn_has_not_come_are_held_until_it_does(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    bool in[CROWD];
    unsigned slots[CROWD] = {0};
    crowd_seen(c, d);
    task_of(c, "\"cohort\": 3");
    for (int round = 0; round < 40; round++) {
        unsigned asked = fill(c, d, CROWD, in);
        assert_in_range(asked, 3, 3 * CROWD);
        finish_round(c, d, CROWD, in);
        for (int k = 0; k < CROWD; k++) {
            slots[k] += in[k];
        }
    }
    for (int k = 0; k < CROWD; k++) { /* 10 each on average; 5 sigma = 13.7 */
        assert_in_range(slots[k], 1, 23);
    }
}

static void round_robin_gives_everybody_a_slot_before_anybody_two(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    bool in[CROWD];
    unsigned slots[CROWD] = {0};
    crowd_seen(c, d);
    task_of(c, "\"cohort\": 3, \"selection\": \"round_robin\"");
    for (unsigned round = 1; round <= 12; round++) {
        fill(c, d, CROWD, in);
        finish_round(c, d, CROWD, in);
        for (int k = 0; k < CROWD; k++) {
            slots[k] += in[k];
            assert_in_range(slots[k], round / 4, (round + 3) / 4);
        }
    }
}

static void who_may_not_hold_is_told_to_come_when_its_turn_comes(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    unsigned early = 0;
    crowd_seen(c, d);
    task_of(c, "\"cohort\": 1");
    for (int k = 0; k < CROWD && fedserver_rounds_front(&c->server->rounds)->round.leased == 0;
         k++) {
        fed_assignment work = device_ask_work(c, &d[k]);
        if (work.action == FED_ACTION_WAIT) {
            early++;
            assert_int_equal(work.reason, FED_WAIT_FULL);
            assert_true(work.retry_ms >= held_ms(c, &d[k]));
        }
    }
    assert_true(early > 0);
}

static void a_tag_admits_only_its_own(void **state) {
    coordinator *c = *state;
    test_device d[3];
    crowd_of(c, d, 3);
    snprintf(row_of(c, &d[1])->tag, FEDSERVER_TAG, "lab");
    snprintf(row_of(c, &d[2])->tag, FEDSERVER_TAG, "labs");
    task_of(c, "\"cohort\": 3, \"tag\": \"lab\"");
    for (int k = 0; k < 3; k++) {
        fed_assignment work = device_ask_work(c, &d[k]);
        assert_int_equal(work.action, k == 1 ? FED_ACTION_TRAIN : FED_ACTION_WAIT);
        assert_int_equal(work.reason, k == 1 ? 0 : FED_WAIT_NO_TASK);
    }
}

static void what_a_device_says_of_its_samples_is_kept(void **state) {
    coordinator *c = *state;
    test_device d[1];
    crowd_of(c, d, 1);
    task_of(c, "\"cohort\": 1");
    uint8_t body[64];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_checkin_write(&w, &(fed_checkin){.role = FED_ROLE_TRAIN, .samples = 600});
    answer a = coordinator_ask(c, d, "POST", "/v1/checkin", "", body, w.len);
    answer_free(&a);
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(row_of(c, d)->samples, 600);
    fed_assignment work = device_ask_work(c, d);
    assert_int_equal(row_of(c, d)->samples, 600);
    assert_int_equal(device_upload(c, d, &work, ones, 70, NULL), 200);
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(row_of(c, d)->samples, 70);
}

static void revoke(coordinator *c, const test_device *d) {
    fed_error err = {0};
    fedserver_entry entry;
    char hex[FED_SHA256_HEX];
    fed_hex(d->fingerprint, FED_SHA256_SIZE, hex);
    coordinator_commit(c);
    fedserver *cli = NULL;
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &cli, &err));
    assert_fed_ok_err(fedserver_device_revoke(cli, c->now_ms, hex, &entry, &err));
    fedserver_close(cli);
    coordinator_commit(c);
}

static void a_revoked_devices_slot_goes_to_another(void **state) {
    coordinator *c = *state;
    static const char *const settings[] = {"\"cohort\": 2", "\"cohort\": 2, \"staleness\": 1"};
    for (int k = 0; k < 2; k++) {
        test_device d[3];
        crowd_of(c, d, 3);
        task_of(c, settings[k]);
        fed_assignment work = device_ask_work(c, &d[0]);
        assert_int_equal(device_ask_work(c, &d[1]).action, FED_ACTION_TRAIN);
        assert_int_equal(device_ask_work(c, &d[2]).reason, FED_WAIT_FULL);
        uint64_t epoch = fedserver_epoch(c->server);
        revoke(c, &d[1]);
        coordinator_wait(c, 200);
        assert_int_not_equal(fedserver_epoch(c->server), epoch);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, 1);
        assert_int_equal(device_ask_work(c, &d[2]).action, FED_ACTION_TRAIN);
        assert_int_equal(device_upload(c, &d[0], &work, ones, 1, NULL), 200);
        revoke(c, &d[0]);
        coordinator_wait(c, 0);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
        coordinator_commit(c);
        coordinator_teardown(c);
        coordinator_setup(c);
    }
}

/* A new attempt leaves ended leases in the list. The ended leases are dropped when the list is
 * full. */
static void the_list_of_leases_does_not_grow_with_the_attempts(void **state) {
    coordinator *c = *state;
    test_device d[1];
    crowd_of(c, d, 1);
    task_of(c, "\"cohort\": 1");
    const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
    for (uint32_t attempt = 1; attempt <= 100; attempt++) {
        assert_int_equal(t->round.attempt, attempt);
        assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_TRAIN);
        assert_true(t->leases.cap <= 16);
        coordinator_wait(c, 100000);
    }
}

static void a_crowd_without_work_comes_back_over_a_longer_time(void **state) {
    coordinator *c = *state;
    test_device d[1];
    crowd_of(c, d, 1);
    assert_in_range(device_ask_work(c, d).retry_ms, 3750, 6250);
    for (uint64_t k = 0; k < 4000; k++) {
        fedserver_device other = *row_of(c, d);
        memcpy(other.fingerprint + 8, &k, sizeof k);
        memcpy(other.fingerprint, &(uint64_t){k * 0x9e3779b97f4a7c15u}, sizeof k);
        fedserver_device *added = NULL;
        assert_fed_ok(fedserver_devices_add(&c->server->rounds.devices, &other, &added));
        fedserver_devices_checked_in(&c->server->rounds.devices, added, c->now_ms);
    }
    uint32_t longest = 0;
    for (int k = 0; k < 50; k++) {
        coordinator_wait(c, 1000);
        fed_assignment work = device_ask_work(c, d);
        longest = work.retry_ms > longest ? work.retry_ms : longest;
        assert_in_range(work.retry_ms, 3750, 83770);
    }
    assert_true(longest > 60000);
    coordinator_wait(c, 20 * 60 * 1000);
    assert_in_range(device_ask_work(c, d).retry_ms, 3750, 6250);
}

/* Make up `count` devices that checked in just now, and then `left` devices that have left again.
 * Every third device has another tag. */
static void made_up_crowd(coordinator *c, const test_device *d, uint64_t count, uint64_t left) {
    for (uint64_t k = 0; k < count + left; k++) {
        fedserver_device other = *row_of(c, d), *added = NULL;
        fed_sha256(&k, sizeof k, other.fingerprint);
        other.id += (int64_t)k + 1;
        snprintf(other.tag, sizeof other.tag, "%s", k % 3 == 0 ? "lab" : "");
        assert_fed_ok(fedserver_devices_add(&c->server->rounds.devices, &other, &added));
        if (k < count) {
            fedserver_devices_checked_in(&c->server->rounds.devices, added, c->now_ms);
        } else {
            fedserver_devices_left(&c->server->rounds.devices, added);
        }
    }
}

/* How many of the devices in memory would the cohort admit at once? */
static uint32_t at_once(const coordinator *c) {
    const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
    uint32_t count = 0;
    for (size_t k = 0; k < c->server->rounds.devices.count; k++) {
        const fedserver_device *device = fedserver_devices_at(&c->server->rounds.devices, k);
        const fedserver_candidate one = {.device = device->id};
        count += strcmp(device->tag, t->task.tag) == 0 && device->checkin_ms != 0 &&
                 fedserver_cohort_admits_ms(&t->cohort, &one) == t->cohort.opened_ms;
    }
    return count;
}

static void a_draw_looks_at_all_of_a_few_and_at_some_of_many(void **state) {
    coordinator *c = *state;
    static const struct {
        uint64_t crowd, left;
        uint32_t least, most; /* of 100 slots; estimated: 83 on average, 5 sigma = 55 */
    } crowds[] = {
        {3000, 0, 100, 100}, {3999, 3999, 100, 100}, {60000, 0, 28, 138}, {60000, 30000, 28, 138}};
    for (size_t k = 0; k < sizeof crowds / sizeof crowds[0]; k++) {
        test_device d[1];
        crowd_of(c, d, 1);
        assert_int_equal(device_ask_work(c, d).action, FED_ACTION_WAIT);
        made_up_crowd(c, d, crowds[k].crowd, crowds[k].left);
        task_of(c, "\"cohort\": 100, \"tag\": \"lab\"");
        const double all = (double)crowds[k].crowd / 3;
        const double start = fedserver_rounds_front(&c->server->rounds)->cohort.start;
        assert_in_range(at_once(c), crowds[k].least, crowds[k].most);
        assert_true(crowds[k].least == 100 || fabs(start / (100 / all / 1.2) - 1) <= 0.15);
        coordinator_teardown(c);
        coordinator_setup(c);
    }
}

static void check_slots(const coordinator *c) {
    const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
    uint32_t taken = t->task.rules.staleness > 0 ? 0 : t->round.received;
    for (size_t k = 0; k < c->server->rounds.devices.count; k++) {
        taken += fedserver_lease_stands(t, fedserver_devices_at(&c->server->rounds.devices, k),
                                        c->now_ms);
    }
    assert_int_equal(t->round.leased, taken);
    assert_true(taken <= t->task.rules.cohort);
    assert_true((t->round.phase == FEDSERVER_ROUND_FULL) == (taken == t->task.rules.cohort));
}

static fed_status add_updates(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    *(uint32_t *)user += row->updates;
    return FED_OK;
}

/* Devices come, report, repeat requests, vanish and are revoked, the coordinator is killed, and
 * the clock jumps. Slots must always add up, and every acknowledged update must count once. */
static void live(coordinator *c, const char *keys, uint32_t seed) {
    test_device d[CROWD];
    fed_assignment work[CROWD] = {{0}};
    fed_rng rng;
    fed_error err = {0};
    uint32_t yes = 0, updates = 0;
    crowd_of(c, d, CROWD);
    task_of(c, keys);
    coordinator_commit(c);
    fed_rng_init(&rng, seed, 0, 0);
    for (int step = 0; step < 1500; step++) {
        uint32_t who = fed_rng_below(&rng, CROWD), dice = fed_rng_below(&rng, 1000);
        bool out = row_of(c, &d[who])->revoked_ms != 0;
        if (dice < 550 && !out) {
            fed_assignment asked = device_ask_work(c, &d[who]);
            work[who] = asked.action == FED_ACTION_TRAIN ? asked : work[who];
        } else if (dice < 900 && !out && work[who].lease != 0) {
            uint64_t counted = row_of(c, &d[who])->counted_lease;
            int status = device_upload(c, &d[who], &work[who], ones, 1, NULL);
            assert_true(status == 200 || status == 409);
            yes += status == 200 && counted != work[who].lease;
        } else if (dice < 980) {
            coordinator_wait(c, (int64_t)fed_rng_below(&rng, 20000));
        } else if (dice < 985) {
            coordinator_wait(c, -(int64_t)fed_rng_below(&rng, 200000));
        } else if (dice < 997) {
            coordinator_commit(c);
            coordinator_crash(c);
            coordinator_wait(c, 0);
        } else if (who < 2) {
            revoke(c, &d[who]);
            coordinator_wait(c, 0);
        }
        check_slots(c);
    }
    assert_fed_ok_err(c->server->store->round_each(
        c->server->db, fedserver_rounds_front(&c->server->rounds)->task.wire.id, 1000, add_updates,
        &updates, &err));
    assert_int_equal(updates + fedserver_rounds_front(&c->server->rounds)->round.received, yes);
    assert_true(fedserver_rounds_front(&c->server->rounds)->versions.version > 10);
}

static void whatever_happens_slots_and_updates_add_up(void **state) {
    coordinator *c = *state;
    static const char *const settings[] = {
        "\"cohort\": 4, \"goal\": 3, \"minimum\": 2",
        "\"cohort\": 4, \"goal\": 3, \"minimum\": 2, \"staleness\": 3,"
        " \"selection\": \"round_robin\"",
        "\"cohort\": 4, \"goal\": 9, \"staleness\": 1,"
        " \"selection\": \"weighted\"",
    };
    for (uint32_t k = 0; k < 3; k++) {
        live(c, settings[k], k);
        coordinator_teardown(c);
        coordinator_setup(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(those_whose_turn_has_not_come_are_held_until_it_does),
        WITH_COORDINATOR(round_robin_gives_everybody_a_slot_before_anybody_two),
        WITH_COORDINATOR(who_may_not_hold_is_told_to_come_when_its_turn_comes),
        WITH_COORDINATOR(a_tag_admits_only_its_own),
        WITH_COORDINATOR(what_a_device_says_of_its_samples_is_kept),
        WITH_COORDINATOR(a_revoked_devices_slot_goes_to_another),
        WITH_COORDINATOR(the_list_of_leases_does_not_grow_with_the_attempts),
        WITH_COORDINATOR(a_crowd_without_work_comes_back_over_a_longer_time),
        WITH_COORDINATOR(a_draw_looks_at_all_of_a_few_and_at_some_of_many),
        WITH_COORDINATOR(whatever_happens_slots_and_updates_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
