/* Token buckets: what one peer may ask for, and that the table forgets who is idle. */
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
    for (int64_t now_ms = 0; now_ms < 10000; now_ms += 10) { /* a hundred a second */
        taken += ask(limits, peer, 0, false, now_ms) == 0;
    }
    assert_true(taken >= 119 && taken <= 121); /* 20, and 10 a second */
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
    assert_int_equal(ask(limits, peer, 0, false, 0), 0); /* it may still try */
    assert_int_equal(http_limits_fail(limits, peer, 2000), 0);
    assert_int_not_equal(http_limits_fail(limits, peer, 2000), 0);
    assert_int_equal(http_limits_fail(limits, enter(limits, 2, 0), 0), 0); /* others not */
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

/* A clock that goes backwards neither fills nor empties anything. */
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
        WITH(a_crowd_shares_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
