/* Token buckets: what one peer may ask for, and which idle peers the table forgets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fed/hash.h"
#include "fedserver/http/http_limits.h"

static const http_limits_rules rules = {.requests_per_s = 10,
                                        .requests_burst = 20,
                                        .bytes_per_s = 1000,
                                        .bytes_burst = 5000,
                                        .failures_per_s = 0.5,
                                        .failures_burst = 3,
                                        .connections = 2,
                                        .uploads = 1};

static int setup(void **state) {
    static http_limits limits;
    http_limits_open(&limits, &rules);
    *state = &limits;
    return 0;
}

static int teardown(void **state) {
    http_limits_free(*state);
    return 0;
}

static http_limits_peer *enter(http_limits *limits, uint32_t who, int64_t now_ms) {
    uint8_t key[HTTP_LIMITS_KEY];
    fed_sha256(&who, sizeof who, key);
    return http_limits_enter(limits, key, now_ms);
}

static uint32_t ask(const http_limits *limits, http_limits_peer *peer, uint64_t bytes, bool upload,
                    int64_t now_ms) {
    const uint32_t wait_s = http_limits_ask(limits, peer, upload, now_ms);
    if (wait_s == 0) {
        http_limits_pay(peer, bytes);
    }
    return wait_s;
}

static void requests_are_let_in_at_their_rate_and_a_burst_before(void **state) {
    http_limits *limits = *state;
    http_limits_peer *peer = enter(limits, 1, 0);
    int taken = 0;
    for (int64_t now_ms = 0; now_ms < 10000; now_ms += 10) { /* 100 requests a second */
        taken += ask(limits, peer, 0, false, now_ms) == 0;
    }
    assert_true(taken >= 119 && taken <= 121); /* 20 at once, then 10 a second */
}

static void a_body_of_any_size_gets_in_and_is_paid_for_by_waiting(void **state) {
    http_limits *limits = *state;
    http_limits_peer *peer = enter(limits, 1, 0);
    assert_int_equal(ask(limits, peer, 25000, false, 0), 0);
    const uint32_t wait_s = ask(limits, peer, 1, false, 0);
    assert_true(wait_s >= 20 && wait_s <= 21);
    assert_int_not_equal(ask(limits, peer, 1, false, 19000), 0);
    assert_int_equal(ask(limits, peer, 1, false, 20100), 0);
}

static void answers_are_paid_for_too(void **state) {
    http_limits *limits = *state;
    http_limits_peer *peer = enter(limits, 1, 0);
    assert_int_equal(ask(limits, peer, 0, false, 0), 0);
    http_limits_pay(peer, 6000);
    assert_int_not_equal(ask(limits, peer, 0, false, 0), 0);
    assert_int_equal(ask(limits, peer, 0, false, 2000), 0);
}

static void failures_are_counted_up_to_their_rate(void **state) {
    http_limits *limits = *state;
    http_limits_peer *peer = enter(limits, 1, 0);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(http_limits_fail(limits, peer, 0), 0);
    }
    assert_int_not_equal(http_limits_fail(limits, peer, 0), 0);
    assert_int_equal(ask(limits, peer, 0, false, 0), 0);
    assert_int_equal(http_limits_fail(limits, peer, 2000), 0);
    assert_int_not_equal(http_limits_fail(limits, peer, 2000), 0);
    assert_int_equal(http_limits_fail(limits, enter(limits, 2, 0), 0), 0);
}

static void too_many_connections_or_uploads_have_to_wait(void **state) {
    http_limits *limits = *state;
    http_limits_peer *peer = enter(limits, 1, 0);
    peer->uploads = 1;
    assert_int_equal(ask(limits, peer, 10, true, 0), 1);
    assert_int_equal(ask(limits, peer, 10, false, 0), 0);
    assert_ptr_equal(enter(limits, 1, 0), peer);
    assert_int_equal(ask(limits, peer, 0, false, 0), 0);
    (void)enter(limits, 1, 0);
    assert_int_equal(ask(limits, peer, 0, false, 0), 1);
    http_limits_leave(peer);
    assert_int_equal(ask(limits, peer, 0, false, 0), 0);
}

/* A clock that goes backwards does not fill a bucket. */
static void time_may_stand_still(void **state) {
    http_limits *limits = *state;
    http_limits_peer *peer = enter(limits, 1, 5000);
    for (int k = 0; k < 20; k++) {
        assert_int_equal(ask(limits, peer, 0, false, 5000 - k), 0);
    }
    assert_int_not_equal(ask(limits, peer, 0, false, 4000), 0);
}

static void the_table_forgets_who_is_idle_and_nobody_else(void **state) {
    http_limits *limits = *state;
    http_limits_peer *kept = enter(limits, 0, 0);
    http_limits_peer *debtor = enter(limits, UINT32_MAX, 0);
    http_limits_pay(debtor, 1000000000);
    http_limits_leave(debtor);
    for (uint32_t who = 1; who <= 100000; who++) {
        http_limits_leave(enter(limits, who, who));
    }
    assert_true(limits->count <= 256);
    assert_ptr_equal(enter(limits, 0, 200000), kept);
    assert_ptr_equal(enter(limits, UINT32_MAX, 200000), debtor);
}

/* A peer is kept as long as one of its buckets is not full, or it has a connection. */
static void the_table_keeps_who_owes_anything(void **state) {
    enum { REQUEST, BYTES, FAILURE, CONNECTION, DEBTS, OTHERS = 1000 };
    http_limits *limits = *state;
    http_limits_peer *debtor[DEBTS];
    for (uint32_t k = 0; k < DEBTS; k++) {
        debtor[k] = enter(limits, k, 0);
    }
    while (ask(limits, debtor[REQUEST], 0, false, 0) == 0) {
    }
    http_limits_pay(debtor[BYTES], 6000);
    while (http_limits_fail(limits, debtor[FAILURE], 0) == 0) {
    }
    for (uint32_t k = 0; k < CONNECTION; k++) {
        http_limits_leave(debtor[k]);
    }
    for (uint32_t who = 0; who < OTHERS; who++) {
        http_limits_leave(enter(limits, DEBTS + who, 0));
    }
    assert_true(limits->count < OTHERS);
    for (uint32_t k = 0; k < DEBTS; k++) {
        assert_int_equal(enter(limits, k, 0)->connections, k == CONNECTION ? 2 : 1);
    }
    assert_int_not_equal(ask(limits, enter(limits, REQUEST, 0), 0, false, 0), 0);
    assert_int_not_equal(ask(limits, enter(limits, BYTES, 0), 0, false, 0), 0);
    assert_int_not_equal(http_limits_fail(limits, enter(limits, FAILURE, 0), 0), 0);
    assert_int_equal(http_limits_fail(limits, enter(limits, DEBTS, 0), 0), 0);
}

static void a_peer_is_forgotten_once_it_owes_nothing(void **state) {
    http_limits *limits = *state;
    for (uint32_t who = 0; who < 1000; who++) {
        http_limits_peer *peer = enter(limits, who, 0);
        assert_int_equal(ask(limits, peer, 5500, false, 0), 0);
        assert_int_equal(http_limits_fail(limits, peer, 0), 0);
        http_limits_leave(peer);
    }
    assert_int_equal(limits->count, 1000);
    for (uint32_t who = 1000; who < 3000; who++) {
        http_limits_leave(enter(limits, who, 100000));
    }
    assert_true(limits->count <= 1024);
}

static void a_wait_is_told_in_whole_seconds_and_an_hour_at_most(void **state) {
    http_limits *limits = *state;
    http_limits_peer *peer = enter(limits, 1, 0);
    assert_int_equal(ask(limits, peer, 5000 + 3000000, false, 0), 0);
    assert_int_equal(ask(limits, peer, 0, false, 0), 3001);
    http_limits_pay(peer, 3000000);
    assert_int_equal(ask(limits, peer, 0, false, 0), 3600);
}

/* The limits must be those that the section "Limits" of docs/protocol.md states. */
static void the_usual_limits_are_those_of_the_document(void **state) {
    (void)state;
    http_limits device, address, all, hello[2], hello_of_all[2];
    http_limits_usual(0, 0, &device, &address, &all);
    assert_true(device.rules.requests_per_s == 100 && device.rules.requests_burst == 1000);
    assert_true(device.rules.bytes_per_s == 32e6 && device.rules.bytes_burst == 256e6);
    assert_true(device.rules.connections == 16 && device.rules.uploads == 4);
    assert_true(address.rules.requests_per_s == 1000 && address.rules.requests_burst == 10000);
    assert_true(address.rules.bytes_per_s == 32e6 && address.rules.bytes_burst == 256e6);
    assert_true(address.rules.failures_per_s == 1.0 / 6 && address.rules.failures_burst == 10);
    assert_true(address.rules.connections == UINT32_MAX && address.rules.uploads == 4);
    assert_true(all.rules.requests_per_s == 25600 && all.rules.requests_burst == 25600);
    assert_int_equal(all.rules.uploads, 256);
    for (int tickets = 0; tickets < 2; tickets++) {
        http_limits_handshakes(0, tickets == 1, &hello[tickets], &hello_of_all[tickets]);
        const double rate = tickets == 1 ? 200 : 100;
        assert_true(hello[tickets].rules.requests_per_s == rate * 2);
        assert_true(hello[tickets].rules.requests_burst == rate * 20);
        assert_true(hello_of_all[tickets].rules.requests_per_s == rate * 5);
        assert_true(hello_of_all[tickets].rules.requests_burst == rate * 40);
    }
    http_limits_usual(7, 3, &device, &address, &all);
    assert_true(device.rules.requests_per_s == 7 && device.rules.connections == 3);
    assert_true(address.rules.requests_per_s == 70 && all.rules.requests_per_s == 7 * 256);
}

static void a_crowd_shares_what_is_left(void **state) {
    http_limits *limits = *state;
    for (uint32_t who = 0; who < HTTP_LIMITS_PEERS; who++) {
        assert_ptr_not_equal(enter(limits, who, 0), &limits->crowd);
    }
    assert_ptr_equal(enter(limits, HTTP_LIMITS_PEERS, 0), &limits->crowd);
    assert_ptr_equal(enter(limits, HTTP_LIMITS_PEERS + 1, 0), &limits->crowd);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(requests_are_let_in_at_their_rate_and_a_burst_before),
        WITH(a_body_of_any_size_gets_in_and_is_paid_for_by_waiting),
        WITH(answers_are_paid_for_too),
        WITH(failures_are_counted_up_to_their_rate),
        WITH(too_many_connections_or_uploads_have_to_wait),
        WITH(time_may_stand_still),
        WITH(the_table_forgets_who_is_idle_and_nobody_else),
        WITH(the_table_keeps_who_owes_anything),
        WITH(a_peer_is_forgotten_once_it_owes_nothing),
        WITH(a_wait_is_told_in_whole_seconds_and_an_hour_at_most),
        WITH(the_usual_limits_are_those_of_the_document),
        WITH(a_crowd_shares_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
