/* Whose check-ins are asked again when slots are free, of ten thousand that are held. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/hash.h"
#include "fed/version.h"
#include "fedserver/rounds/rounds.h"

enum { FEW = 3000, MANY = 10000, SLOTS = 20 };

static const float ones[6] = {1, 1, 1, 1, 1, 1};

/* A device, and what the HTTPS adapter would know of its check-in. */
typedef struct one {
    test_device device;
    uint64_t key; /* of its held check-in */
    bool held;
    uint32_t asked; /* how often the coordinator was asked in this round */
    fed_assignment work;
} one;

typedef struct crowd {
    coordinator *c;
    one *ones;
    size_t count, working;
} crowd;

static uint64_t task_of(coordinator *c, const char *keys) {
    char json[400];
    snprintf(json, sizeof json,
             "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
             " \"codec_down\": \"float32\", \"rounds\": 999, \"deadline_s\": 100, %s}",
             keys);
    return coordinator_task(c, json);
}

/* Check in with a long poll. task: the one whose model the device holds; 0: none. */
static void check_in(crowd *all, one *o, uint64_t task) {
    uint8_t body[64];
    fed_error err = {0};
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_checkin_write(
        &w, &(fed_checkin){.role = FED_ROLE_TRAIN, .hold_ms = 50000, .held = {{task, 0}}});
    const fedserver_request request = {.listener = FEDSERVER_DEVICES,
                                       .method = "POST",
                                       .path = "/v1/checkin",
                                       .query = "",
                                       .body = body,
                                       .body_len = w.len,
                                       .fingerprint = o->device.fingerprint};
    fedserver_response response;
    assert_fed_ok_err(fedserver_handle(all->c->server, &request, all->c->now_ms, &response, &err));
    o->asked++;
    o->held = response.hold;
    o->key = response.hold ? response.hold_key : o->key;
    if (!response.hold) {
        fed_reader r;
        size_t len = 0;
        const uint8_t *data = fedserver_blob_data(response.body, &len);
        fed_reader_init(&r, data, len);
        assert_fed_ok(fed_assignment_read(&r, FED_PROTOCOL, &o->work));
        assert_int_equal(o->work.action, FED_ACTION_TRAIN);
        all->working++;
    }
    fedserver_blob_free(response.body);
}

static crowd crowd_of(coordinator *c, size_t count) {
    crowd all = {.c = c, .ones = calloc(count, sizeof(one)), .count = count};
    fed_error err = {0};
    assert_non_null(all.ones);
    for (uint64_t k = 0; k < count; k++) {
        fedserver_device row = {.enrolled_ms = c->now_ms, .expires_ms = INT64_MAX};
        fed_sha256(&k, sizeof k, row.fingerprint);
        memcpy(all.ones[k].device.fingerprint, row.fingerprint, sizeof row.fingerprint);
        memcpy(all.ones[k].device.certificate, row.fingerprint, sizeof row.fingerprint);
        assert_fed_ok_err(c->server->store->device_add(c->server->db, &row, &err));
    }
    coordinator_commit(c);
    for (size_t k = 0; k < count; k++) {
        check_in(&all, &all.ones[k], 0);
        assert_true(all.ones[k].held);
    }
    return all;
}

static void crowd_free(crowd *all) {
    free(all->ones);
}

static one *with_key(const crowd *all, uint64_t key) {
    for (size_t k = 0; k < all->count; k++) {
        if (all->ones[k].key == key) {
            return &all->ones[k];
        }
    }
    fail_msg("no device waits with the key %llu", (unsigned long long)key);
    return NULL;
}

/* Take the keys that were woken. Returns how many devices they are; none is named twice. */
static size_t woken(const crowd *all, one **found, size_t cap) {
    size_t count = 0;
    for (uint64_t key = fedserver_woken(all->c->server); key != 0;
         key = fedserver_woken(all->c->server)) {
        if (key != FEDSERVER_HOLD_VERSION) {
            assert_true(count < cap);
            found[count] = with_key(all, key);
            for (size_t k = 0; k < count; k++) {
                assert_ptr_not_equal(found[k], found[count]);
            }
            count++;
        }
    }
    return count;
}

static void ask_all(crowd *all) {
    for (size_t k = 0; k < all->count; k++) {
        if (all->ones[k].held) {
            check_in(all, &all->ones[k], 0);
        }
    }
}

/* All that work report. The last report closes the round and opens the next one. */
static void report_all(crowd *all) {
    for (size_t k = 0; k < all->count; k++) {
        one *o = &all->ones[k];
        o->asked = 0;
        if (o->work.lease != 0) {
            assert_int_equal(device_upload(all->c, &o->device, &o->work, ones, 1, NULL), 200);
            o->work = (fed_assignment){0};
            all->working--;
        }
    }
    assert_int_equal(all->working, 0);
}

/* Those drawn ask again if their check-ins are held, as the adapter asks for them. Else they come
 * by themselves. */
static void come(crowd *all, one **drawn, size_t count) {
    for (size_t k = 0; k < count; k++) {
        check_in(all, drawn[k], 0);
        assert_false(drawn[k]->held);
    }
}

static uint32_t asked_of(const crowd *all) {
    uint32_t asked = 0;
    for (size_t k = 0; k < all->count; k++) {
        asked += all->ones[k].asked;
    }
    return asked;
}

static const fedserver_round *round_of(const crowd *all) {
    return &fedserver_rounds_front(&all->c->server->rounds)->round;
}

/* Begin a task, and let the first round fill. */
static crowd begin(coordinator *c, size_t count, const char *keys) {
    crowd all = crowd_of(c, count);
    const uint64_t epoch = fedserver_epoch(c->server);
    task_of(c, keys);
    coordinator_wait(c, 0);
    assert_int_not_equal(fedserver_epoch(c->server), epoch); /* a new task is news for all */
    ask_all(&all);
    assert_int_equal(all.working, SLOTS);
    one *drawn[SLOTS];
    assert_int_equal(woken(&all, drawn, SLOTS), SLOTS);
    return all;
}

static void only_as_many_are_woken_as_there_are_slots(void **state) {
    coordinator *c = *state;
    static const char *const selections[] = {"uniform", "weighted", "round_robin"};
    static const size_t counts[] = {FEW, MANY};
    for (size_t k = 0; k < 6; k++) {
        char keys[100];
        snprintf(keys, sizeof keys, "\"cohort\": %d, \"selection\": \"%s\"", SLOTS,
                 selections[k % 3]);
        crowd all = begin(c, counts[k / 3], keys);
        const uint64_t epoch = fedserver_epoch(c->server);
        for (uint32_t round = 2; round < 6; round++) {
            one *drawn[SLOTS];
            report_all(&all);
            assert_int_equal(round_of(&all)->number, round);
            assert_int_equal(woken(&all, drawn, SLOTS), SLOTS);
            come(&all, drawn, SLOTS);
            assert_int_equal(round_of(&all)->phase, FEDSERVER_ROUND_FULL);
            coordinator_wait(c, 1000); /* no more are woken where all have come */
            assert_int_equal(woken(&all, drawn, SLOTS), 0);
            assert_int_equal(asked_of(&all), SLOTS);
        }
        assert_int_equal(fedserver_epoch(c->server), epoch);
        crowd_free(&all);
        coordinator_teardown(c);
        coordinator_setup(c);
    }
}

static bool is_among(const one *o, one **others, size_t count) {
    bool is = false;
    for (size_t k = 0; k < count; k++) {
        is = is || others[k] == o;
    }
    return is;
}

static void who_does_not_come_is_replaced(void **state) {
    coordinator *c = *state;
    enum { GONE = 5 };
    static const size_t counts[] = {FEW, MANY};
    for (size_t k = 0; k < 2; k++) {
        crowd all = begin(c, counts[k], "\"cohort\": 20");
        one *drawn[SLOTS], *others[SLOTS];
        coordinator_wait(c, 10);
        report_all(&all);
        assert_int_equal(woken(&all, drawn, SLOTS), SLOTS);
        come(&all, drawn + GONE, SLOTS - GONE);
        coordinator_wait(c, 999);
        assert_int_equal(woken(&all, others, SLOTS), 0);
        coordinator_wait(c, 1);
        assert_int_equal(woken(&all, others, SLOTS), GONE);
        for (size_t i = 0; i < GONE; i++) {
            assert_false(is_among(others[i], drawn, SLOTS));
            assert_true(coordinator_device(c, &drawn[i]->device)->away);
        }
        come(&all, others, GONE);
        assert_int_equal(round_of(&all)->phase, FEDSERVER_ROUND_FULL);
        check_in(&all, drawn[0], 0); /* it is back, and may be drawn again */
        assert_false(coordinator_device(c, &drawn[0]->device)->away);
        crowd_free(&all);
        coordinator_teardown(c);
        coordinator_setup(c);
    }
}

/* Who has missed its turn is not drawn again before it has checked in. */
static void who_is_gone_costs_one_turn(void **state) {
    coordinator *c = *state;
    enum { ALL = 60, GONE = 10 };
    crowd all = begin(c, ALL, "\"cohort\": 20");
    one *drawn[SLOTS];
    uint32_t missed = 0;
    for (int round = 0; round < 30; round++) {
        coordinator_wait(c, 10);
        report_all(&all);
        for (size_t k = 0; k < ALL && round_of(&all)->phase != FEDSERVER_ROUND_FULL; k++) {
            coordinator_wait(c, k > 0 ? 1000 : 0);
            const size_t count = woken(&all, drawn, SLOTS);
            for (size_t i = 0; i < count; i++) {
                if (round > 0 && drawn[i] < all.ones + GONE) {
                    missed++; /* it left after the first round */
                } else {
                    check_in(&all, drawn[i], 0);
                }
            }
        }
        assert_int_equal(round_of(&all)->phase, FEDSERVER_ROUND_FULL);
        for (size_t k = GONE; k < ALL; k++) { /* those of the last round that were not drawn */
            if (!all.ones[k].held && all.ones[k].work.lease == 0) {
                check_in(&all, &all.ones[k], 0);
            }
        }
    }
    assert_in_range(missed, 1, GONE);
    crowd_free(&all);
}

/* A new attempt is offered to those who wait, not to those who let their leases run out. */
static void a_new_attempt_wakes_others(void **state) {
    coordinator *c = *state;
    crowd all = begin(c, 3 * SLOTS, "\"cohort\": 20");
    one *drawn[SLOTS];
    coordinator_wait(c, 100000);
    assert_int_equal(round_of(&all)->attempt, 2);
    assert_int_equal(woken(&all, drawn, SLOTS), SLOTS);
    for (size_t k = 0; k < SLOTS; k++) {
        assert_true(drawn[k]->held);
    }
    come(&all, drawn, SLOTS);
    assert_int_equal(round_of(&all)->phase, FEDSERVER_ROUND_FULL);
    crowd_free(&all);
}

/* Two tasks, and devices with one slot: who keeps one task's model is not drawn for the other. */
static void a_device_that_another_task_needs_is_not_drawn(void **state) {
    coordinator *c = *state;
    enum { ALL = 2 * SLOTS };
    crowd all = begin(c, ALL, "\"cohort\": 20");
    const uint64_t first = all.ones[0].work.lease != 0 ? all.ones[0].work.task.id : 1;
    const uint64_t second = task_of(c, "\"cohort\": 20");
    coordinator_wait(c, 0);
    ask_all(&all);
    assert_int_equal(all.working, ALL);
    assert_true(second != first);
    one *drawn[ALL], *of_second[SLOTS];
    size_t count = 0;
    (void)woken(&all, drawn, ALL);
    for (size_t k = 0, reported = 0; k < ALL; k++) {
        one *o = &all.ones[k];
        if (o->work.task.id == first && reported++ < SLOTS / 2) { /* the others still train */
            assert_int_equal(device_upload(c, &o->device, &o->work, ones, 1, NULL), 200);
            check_in(&all, o, first);
            assert_true(o->held);
            o->work = (fed_assignment){0};
        }
    }
    for (size_t k = 0; k < ALL; k++) {
        one *o = &all.ones[k];
        if (o->work.task.id == second) {
            of_second[count++] = o;
            assert_int_equal(device_upload(c, &o->device, &o->work, ones, 1, NULL), 200);
            o->work = (fed_assignment){0};
        }
    }
    assert_int_equal(count, SLOTS);
    assert_int_equal(woken(&all, drawn, ALL), SLOTS);
    for (size_t k = 0; k < SLOTS; k++) {
        assert_true(is_among(drawn[k], of_second, SLOTS));
    }
    crowd_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(only_as_many_are_woken_as_there_are_slots),
        WITH_COORDINATOR(who_does_not_come_is_replaced),
        WITH_COORDINATOR(who_is_gone_costs_one_turn),
        WITH_COORDINATOR(a_new_attempt_wakes_others),
        WITH_COORDINATOR(a_device_that_another_task_needs_is_not_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
