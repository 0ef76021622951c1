/* The state machine of a round: single cases, and a search through all states that it can
 * reach. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <stdbool.h>

#include "fedserver/rounds/round.h"

static const fedserver_round_rules rules = {
    .rounds = 2, .cohort = 3, .goal = 2, .minimum = 1, .deadline_ms = 1000};
/* The rules of an asynchronous round, whose goal may exceed its cohort. */
static const fedserver_round_rules flowing = {
    .rounds = 2, .cohort = 3, .goal = 5, .minimum = 2, .deadline_ms = 1000, .staleness = 4};

#define STEP(round, event, now) fedserver_round_step(&rules, round, FEDSERVER_ON_##event, now)
#define EXPECT(round, event, now, action)                                                          \
    assert_int_equal(STEP(round, event, now), FEDSERVER_DO_##action)
#define FLOW(round, event, now, action)                                                            \
    assert_int_equal(fedserver_round_step(&flowing, round, FEDSERVER_ON_##event, now),             \
                     FEDSERVER_DO_##action)

static fedserver_round opened(void) {
    fedserver_round round = {0};
    EXPECT(&round, START, 50, OPEN);
    return round;
}

static void start_opens_round_one_without_a_deadline(void) {
    fedserver_round round = opened();
    assert_int_equal(round.phase, FEDSERVER_ROUND_OPEN);
    assert_int_equal(round.number, 1);
    assert_int_equal(round.attempt, 1);
    assert_int_equal(round.opened_ms, 50);
    assert_int_equal(round.deadline_ms, 0);
    EXPECT(&round, TICK, 1000000, NOTHING);
}

static void the_deadline_runs_from_the_first_lease(void) {
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    assert_int_equal(round.deadline_ms, 1100);
    EXPECT(&round, CHECKIN_NEW, 700, LEASE);
    assert_int_equal(round.deadline_ms, 1100);
    assert_int_equal(round.phase, FEDSERVER_ROUND_OPEN);
    EXPECT(&round, TICK, 1099, NOTHING);
}

static void a_full_round_lets_newcomers_wait_and_holders_go_on(void) {
    fedserver_round round = opened();
    for (int k = 0; k < 3; k++) {
        EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    }
    assert_int_equal(round.phase, FEDSERVER_ROUND_FULL);
    EXPECT(&round, CHECKIN_NEW, 100, WAIT_FULL);
    EXPECT(&round, CHECKIN_LEASED, 100, LEASE_AGAIN);
    EXPECT(&round, CHECKIN_REPORTED, 100, WAIT_REPORTED);
    assert_int_equal(round.leased, 3);
}

static void the_goal_commits_at_once(void) {
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_LEASED, 200, COUNT);
    EXPECT(&round, TICK, 200, NOTHING);
    EXPECT(&round, UPDATE_LEASED, 201, COUNT);
    EXPECT(&round, TICK, 201, CLOSE);
    EXPECT(&round, COMMITTED, 202, OPEN);
    assert_int_equal(round.number, 2);
    assert_int_equal(round.attempt, 1);
    assert_int_equal(round.leased + round.received, 0);
    assert_int_equal(round.opened_ms, 202);
}

static void a_edges_round_never_commits_by_itself(void) {
    const fedserver_round_rules edge = {
        .rounds = 2, .cohort = 3, .goal = 2, .minimum = 1, .deadline_ms = 1000, .upstream = "7"};
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_LEASED, 200, COUNT);
    assert_int_equal(fedserver_round_step(&edge, &round, FEDSERVER_ON_TICK, 1100),
                     FEDSERVER_DO_REOPEN);
    EXPECT(&round, CHECKIN_NEW, 1200, LEASE);
    EXPECT(&round, UPDATE_LEASED, 1300, COUNT);
    assert_int_equal(fedserver_round_step(&edge, &round, FEDSERVER_ON_TICK, 1400),
                     FEDSERVER_DO_NOTHING);
    assert_int_equal(fedserver_round_step(&edge, &round, FEDSERVER_ON_TICK, 9999),
                     FEDSERVER_DO_NOTHING);
    EXPECT(&round, GIVEN, 9999, CLOSE);
    assert_int_equal(fedserver_round_step(&edge, &round, FEDSERVER_ON_COMMITTED, 9999),
                     FEDSERVER_DO_OPEN);
}

static void the_minimum_commits_at_the_deadline_only(void) {
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_LEASED, 200, COUNT);
    EXPECT(&round, TICK, 1099, NOTHING);
    EXPECT(&round, TICK, 1100, CLOSE);
}

static void below_the_minimum_the_attempt_is_abandoned(void) {
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, TICK, 1100, REOPEN);
    assert_int_equal(round.phase, FEDSERVER_ROUND_OPEN);
    assert_int_equal(round.number, 1);
    assert_int_equal(round.attempt, 2);
    assert_int_equal(round.leased, 0);
    assert_int_equal(round.deadline_ms, 0);
    EXPECT(&round, UPDATE_EXPIRED, 1200, REFUSE_EXPIRED);
    EXPECT(&round, CHECKIN_NEW, 1300, LEASE);
    assert_int_equal(round.deadline_ms, 2300);
}

static void a_resumed_round_asks_anew_for_what_is_missing(void) {
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, RESUMED, 5000, REOPEN);
    assert_int_equal(round.number, 1);
    assert_int_equal(round.attempt, 2);
    assert_int_equal(round.leased, 0);
    assert_int_equal(round.deadline_ms, 0);
    const fedserver_round_rules stale = {
        .rounds = 2, .cohort = 2, .goal = 2, .minimum = 1, .deadline_ms = 1000, .staleness = 1};
    round = (fedserver_round){0};
    fedserver_round_step(&stale, &round, FEDSERVER_ON_START, 0);
    fedserver_round_step(&stale, &round, FEDSERVER_ON_CHECKIN_NEW, 0);
    fedserver_round_step(&stale, &round, FEDSERVER_ON_CHECKIN_NEW, 0);
    fedserver_round_step(&stale, &round, FEDSERVER_ON_UPDATE_LEASED, 10);
    fedserver_round_step(&stale, &round, FEDSERVER_ON_RESUMED, 5000);
    assert_int_equal(round.attempt, 1);
    assert_int_equal(round.leased, 1);
    assert_int_equal(round.deadline_ms, 6000);
}

static void what_was_counted_stays_counted_in_the_next_attempt(void) {
    const fedserver_round_rules strict = {
        .rounds = 1, .cohort = 3, .goal = 3, .minimum = 2, .deadline_ms = 1000};
    fedserver_round round = {0};
    fedserver_round_step(&strict, &round, FEDSERVER_ON_START, 0);
    fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_NEW, 0);
    fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_NEW, 0);
    fedserver_round_step(&strict, &round, FEDSERVER_ON_UPDATE_LEASED, 10);
    assert_int_equal(fedserver_round_step(&strict, &round, FEDSERVER_ON_TICK, 1000),
                     FEDSERVER_DO_REOPEN);
    assert_int_equal(round.received, 1);
    assert_int_equal(round.leased, 1); /* a device that has reported keeps its slot */
    assert_int_equal(fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_REPORTED, 1001),
                     FEDSERVER_DO_WAIT_REPORTED);
    fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_NEW, 1001);
    fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_NEW, 1001);
    assert_int_equal(round.phase, FEDSERVER_ROUND_FULL);
}

static void the_last_commit_finishes(void) {
    fedserver_round round = opened();
    for (uint32_t number = 1; number <= rules.rounds; number++) {
        EXPECT(&round, CHECKIN_NEW, 100, LEASE);
        EXPECT(&round, UPDATE_LEASED, 100, COUNT);
        EXPECT(&round, TICK, 5000, CLOSE);
        assert_int_equal(STEP(&round, COMMITTED, 5000),
                         number < rules.rounds ? FEDSERVER_DO_OPEN : FEDSERVER_DO_FINISH);
    }
    assert_int_equal(round.phase, FEDSERVER_ROUND_NONE);
    EXPECT(&round, CHECKIN_NEW, 6000, WAIT_NO_TASK);
    EXPECT(&round, UPDATE_CLOSED, 6000, REFUSE_CLOSED);
}

static void a_repeated_update_is_welcome_in_every_phase(void) {
    fedserver_round round = {0};
    EXPECT(&round, UPDATE_COUNTED, 0, COUNTED_BEFORE);
    round = opened();
    EXPECT(&round, UPDATE_COUNTED, 0, COUNTED_BEFORE);
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_COUNTED, 100, COUNTED_BEFORE);
    assert_int_equal(round.received, 0);
}

static void strangers_updates_are_refused(void) {
    fedserver_round round = opened();
    EXPECT(&round, UPDATE_UNKNOWN, 0, REFUSE_UNKNOWN);
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_UNKNOWN, 100, REFUSE_UNKNOWN);
    EXPECT(&round, UPDATE_CLOSED, 100, REFUSE_CLOSED);
    EXPECT(&round, UPDATE_EXPIRED, 100, REFUSE_EXPIRED);
    assert_int_equal(round.received, 0);
}

static void a_clock_set_back_does_not_put_the_deadline_out_of_reach(void) {
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 86400000, LEASE);
    EXPECT(&round, TICK, 1000, NOTHING);
    EXPECT(&round, TICK, 2000, REOPEN);
}

static void a_slot_whose_device_was_shut_out_is_given_to_another(void) {
    fedserver_round round = opened();
    for (int k = 0; k < 3; k++) {
        EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    }
    EXPECT(&round, LEASE_ENDED, 200, FREE);
    assert_int_equal(round.leased, 2);
    assert_int_equal(round.deadline_ms, 1100);
    EXPECT(&round, CHECKIN_NEW, 300, LEASE);
    EXPECT(&round, CHECKIN_NEW, 300, WAIT_FULL);
}

static void who_comes_early_waits_for_its_turn_and_who_is_not_wanted_for_a_task(void) {
    fedserver_round round = {0};
    EXPECT(&round, CHECKIN_EARLY, 0, WAIT_NO_TASK);
    round = opened();
    EXPECT(&round, CHECKIN_EARLY, 100, WAIT_ADMISSION);
    EXPECT(&round, CHECKIN_OTHER, 100, WAIT_NO_TASK);
    for (int k = 0; k < 3; k++) {
        EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    }
    EXPECT(&round, CHECKIN_EARLY, 100, WAIT_FULL);
    EXPECT(&round, CHECKIN_OTHER, 100, WAIT_NO_TASK);
}

static fedserver_round flows(void) {
    fedserver_round round = {0};
    FLOW(&round, START, 50, OPEN);
    return round;
}

static void asynchronous_a_report_frees_its_slot_at_once(void) {
    fedserver_round round = flows();
    for (int k = 0; k < 3; k++) {
        FLOW(&round, CHECKIN_NEW, 100, LEASE);
    }
    FLOW(&round, CHECKIN_NEW, 100, WAIT_FULL);
    FLOW(&round, UPDATE_LEASED, 200, COUNT);
    assert_int_equal(round.leased, 2);
    assert_int_equal(round.received, 1);
    FLOW(&round, CHECKIN_NEW, 200, LEASE);
    FLOW(&round, CHECKIN_NEW, 200, WAIT_FULL);
    FLOW(&round, LEASE_ENDED, 1200, FREE);
    FLOW(&round, CHECKIN_NEW, 1200, LEASE);
}

static void asynchronous_the_goal_commits_and_leases_stand_from_round_to_round(void) {
    fedserver_round round = flows();
    for (uint32_t k = 0; k < flowing.goal; k++) {
        FLOW(&round, TICK, 200, NOTHING);
        FLOW(&round, CHECKIN_NEW, 200, LEASE);
        FLOW(&round, UPDATE_LEASED, 200, COUNT);
    }
    FLOW(&round, CHECKIN_NEW, 200, LEASE);
    FLOW(&round, TICK, 200, CLOSE);
    FLOW(&round, COMMITTED, 200, OPEN);
    assert_int_equal(round.number, 2);
    assert_int_equal(round.received, 0);
    assert_int_equal(round.leased, 1);
    assert_int_equal(round.deadline_ms, 0);
    FLOW(&round, CHECKIN_LEASED, 300, LEASE_AGAIN);
    FLOW(&round, UPDATE_LEASED, 300, COUNT);
    assert_int_equal(round.leased, 0);
}

static void
asynchronous_the_deadline_runs_from_the_first_update_and_abandons_nothing(void **state) {
    (void)state;
    fedserver_round round = flows();
    FLOW(&round, CHECKIN_NEW, 100, LEASE);
    FLOW(&round, CHECKIN_NEW, 100, LEASE);
    assert_int_equal(round.deadline_ms, 0);
    FLOW(&round, UPDATE_LEASED, 300, COUNT);
    assert_int_equal(round.deadline_ms, 1300);
    FLOW(&round, TICK, 1300, NOTHING);
    FLOW(&round, TICK, 900000, NOTHING);
    assert_int_equal(round.attempt, 1);
    assert_int_equal(round.leased, 1);
    FLOW(&round, UPDATE_LEASED, 900000, COUNT);
    FLOW(&round, TICK, 900000, CLOSE);
}

static void asynchronous_too_old_an_update_is_refused(void) {
    fedserver_round round = flows();
    FLOW(&round, CHECKIN_NEW, 100, LEASE);
    FLOW(&round, UPDATE_STALE, 100, REFUSE_STALE);
    FLOW(&round, UPDATE_EXPIRED, 100, REFUSE_EXPIRED);
    assert_int_equal(round.received, 0);
    assert_int_equal(round.leased, 1);
}

static void an_update_weighs_less_the_older_its_model_is(void) {
    static const struct {
        uint32_t staleness, weight;
    } cases[] = {{0, 64}, {1, 45}, {2, 37}, {3, 32}, {8, 21}, {15, 16}, {63, 8}, {1000, 2}};
    fedserver_round_rules some = flowing;
    some.staleness = 1000;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_int_equal(fedserver_round_weight(&some, 1001, 1001 - cases[k].staleness),
                         cases[k].weight);
    }
    assert_int_equal(fedserver_round_weight(&rules, 1001, 1001), 1);
}

static void a_round_that_closes_gives_no_lease_and_counts_nothing(void) {
    fedserver_round round = opened();
    for (int k = 0; k < 3; k++) {
        EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    }
    EXPECT(&round, UPDATE_LEASED, 200, COUNT);
    EXPECT(&round, TICK, 1100, CLOSE);
    assert_int_equal(round.phase, FEDSERVER_ROUND_CLOSING);
    assert_int_equal(round.closing_ms, 1100);
    const fedserver_round settled = round;
    EXPECT(&round, TICK, 5000, NOTHING);
    EXPECT(&round, START, 5000, NOTHING);
    EXPECT(&round, RESUMED, 5000, NOTHING);
    EXPECT(&round, CHECKIN_NEW, 5000, WAIT_CLOSING);
    EXPECT(&round, CHECKIN_EARLY, 5000, WAIT_CLOSING);
    EXPECT(&round, CHECKIN_OTHER, 5000, WAIT_NO_TASK);
    EXPECT(&round, CHECKIN_REPORTED, 5000, WAIT_REPORTED);
    EXPECT(&round, UPDATE_LEASED, 5000, REFUSE_CLOSED);
    EXPECT(&round, UPDATE_CLOSED, 5000, REFUSE_CLOSED);
    EXPECT(&round, UPDATE_COUNTED, 5000, COUNTED_BEFORE);
    EXPECT(&round, UPDATE_CLONED, 5000, REFUSE_CLONED);
    assert_memory_equal(&round, &settled, sizeof round);
    EXPECT(&round, LEASE_ENDED, 5000, FREE);
    assert_int_equal(round.phase, FEDSERVER_ROUND_CLOSING);
    EXPECT(&round, COMMITTED, 5000, OPEN);
    assert_int_equal(round.phase, FEDSERVER_ROUND_OPEN);
    assert_int_equal(round.number, 2);
    assert_int_equal(round.leased + round.received, 0);
    assert_int_equal(round.closing_ms, 0);
}

/* Three slots, of which at least two must report. */
static const fedserver_round_rules pairs = {
    .rounds = 2, .cohort = 3, .goal = 3, .minimum = 2, .deadline_ms = 1000};

static fedserver_round_action pairs_step(fedserver_round *round, fedserver_round_event event,
                                         int64_t now_ms) {
    return fedserver_round_step(&pairs, round, event, now_ms);
}

static fedserver_round pairs_close(void) {
    fedserver_round round = {0};
    pairs_step(&round, FEDSERVER_ON_START, 0);
    for (int k = 0; k < 3; k++) {
        pairs_step(&round, FEDSERVER_ON_CHECKIN_NEW, 100);
        pairs_step(&round, FEDSERVER_ON_UPDATE_LEASED, 200);
    }
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_TICK, 200), FEDSERVER_DO_CLOSE);
    return round;
}

static void without_an_update_that_cant_be_opened_the_round_goes_on_closing(void) {
    fedserver_round round = pairs_close();
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_LEFT_OUT, 300), FEDSERVER_DO_LEAVE_OUT);
    assert_int_equal(round.phase, FEDSERVER_ROUND_CLOSING);
    assert_int_equal(round.closing_ms, 200);
    assert_int_equal(round.received, 2);
    assert_int_equal(round.leased, 2);
    assert_int_equal(round.attempt, 1);
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_TICK, 9000), FEDSERVER_DO_NOTHING);
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_COMMITTED, 9000), FEDSERVER_DO_OPEN);
}

static void with_too_few_that_can_be_opened_the_next_attempt_opens(void) {
    fedserver_round round = pairs_close();
    for (uint32_t left = 2; left > 0; left--) {
        assert_int_equal(pairs_step(&round, FEDSERVER_ON_LEFT_OUT, 300), FEDSERVER_DO_LEAVE_OUT);
        assert_int_equal(round.received, left);
    }
    assert_int_equal(round.phase, FEDSERVER_ROUND_OPEN);
    assert_int_equal(round.closing_ms, 0);
    assert_int_equal(round.attempt, 2);
    assert_int_equal(round.number, 1);
    assert_int_equal(round.leased, 1);
    assert_int_equal(round.deadline_ms, 0); /* it runs from the next lease on */
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_TICK, 9000), FEDSERVER_DO_NOTHING);
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_CHECKIN_NEW, 9000), FEDSERVER_DO_LEASE);
    assert_int_equal(round.deadline_ms, 10000);
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_UPDATE_LEASED, 9100), FEDSERVER_DO_COUNT);
    assert_int_equal(pairs_step(&round, FEDSERVER_ON_TICK, 10000), FEDSERVER_DO_CLOSE);
}

static void only_a_round_that_closes_can_be_committed(void) {
    fedserver_round round = opened();
    EXPECT(&round, COMMITTED, 100, NOTHING);
    for (int k = 0; k < 3; k++) {
        EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    }
    EXPECT(&round, COMMITTED, 100, NOTHING);
    assert_int_equal(round.number, 1);
    EXPECT(&round, GIVEN, 200, CLOSE); /* another coordinator has made the version */
    EXPECT(&round, GIVEN, 300, NOTHING);
    EXPECT(&round, COMMITTED, 300, OPEN);
    assert_int_equal(round.number, 2);
}

/* Make a round with three leases that closes with its minimum of two updates, so that one lease
 * is left. */
static fedserver_round flowing_closes(void) {
    fedserver_round round = flows();
    for (int k = 0; k < 3; k++) {
        FLOW(&round, CHECKIN_NEW, 100, LEASE);
    }
    FLOW(&round, UPDATE_LEASED, 200, COUNT);
    FLOW(&round, UPDATE_LEASED, 300, COUNT);
    FLOW(&round, TICK, 1200, CLOSE);
    return round;
}

static void asynchronous_while_a_round_closes_updates_count_in_the_next(void) {
    fedserver_round round = flowing_closes();
    assert_int_equal(fedserver_round_counting(&round), 2);
    FLOW(&round, CHECKIN_NEW, 1250, WAIT_CLOSING);
    FLOW(&round, CHECKIN_LEASED, 1250, LEASE_AGAIN);
    FLOW(&round, UPDATE_LEASED, 1300, COUNT);
    assert_int_equal(round.phase, FEDSERVER_ROUND_CLOSING);
    assert_int_equal(round.received, 2);
    assert_int_equal(round.ahead, 1);
    assert_int_equal(round.leased, 0);
    FLOW(&round, COMMITTED, 1500, OPEN);
    assert_int_equal(fedserver_round_counting(&round), 2);
    assert_int_equal(round.number, 2);
    assert_int_equal(round.received, 1);
    assert_int_equal(round.ahead, 0);
    assert_int_equal(round.deadline_ms, 2500);
    FLOW(&round, CHECKIN_NEW, 1600, LEASE);
    FLOW(&round, UPDATE_LEASED, 1700, COUNT);
    FLOW(&round, TICK, 2500, CLOSE);
    FLOW(&round, COMMITTED, 2500, FINISH);
}

static void asynchronous_no_update_counts_after_the_last_round(void) {
    fedserver_round round = flowing_closes();
    round.number = flowing.rounds;
    FLOW(&round, UPDATE_LEASED, 1300, REFUSE_CLOSED);
    assert_int_equal(round.ahead, 0);
    FLOW(&round, COMMITTED, 1500, FINISH);
}

static void check(const fedserver_round_rules *r, const fedserver_round *round) {
    bool open = round->phase != FEDSERVER_ROUND_NONE;
    assert_true(round->leased <= r->cohort);
    /* While a round closes, devices with leases may report for the next one. */
    assert_true(round->received <= (r->staleness > 0 ? r->goal + r->cohort : r->goal));
    const bool closing = round->phase == FEDSERVER_ROUND_CLOSING;
    assert_true(closing == (round->closing_ms != 0));
    assert_true(round->ahead == 0 || (closing && r->staleness > 0));
    assert_true(closing || (round->phase == FEDSERVER_ROUND_FULL) == (round->leased == r->cohort));
    assert_true(round->number <= r->rounds);
    assert_true(open == (round->number > 0) && open == (round->attempt > 0));
    if (r->staleness > 0) {
        assert_true((round->deadline_ms != 0) == (round->received > 0));
        assert_true(round->attempt <= 1);
    } else {
        assert_true(round->received <= round->leased);
        assert_true(round->deadline_ms != 0 || round->leased == round->received);
    }
}

/* Try every event in every state that can be reached within `depth` steps, and check the
 * invariants. */
static void walk(const fedserver_round_rules *r, fedserver_round round, int64_t now_ms, int depth) {
    check(r, &round);
    if (depth == 0) {
        return;
    }
    uint32_t leases = round.leased - (r->staleness > 0 ? 0 : round.received);
    for (int event = 0; event < FEDSERVER_ROUND_EVENTS; event++) {
        if (leases == 0 &&
            (event == FEDSERVER_ON_UPDATE_LEASED || event == FEDSERVER_ON_CHECKIN_LEASED ||
             event == FEDSERVER_ON_LEASE_ENDED)) {
            continue;
        }
        if (event == FEDSERVER_ON_LEFT_OUT && (round.received == 0 || r->staleness > 0)) {
            continue;
        }
        for (int64_t wait_ms = 0; wait_ms <= 1000; wait_ms += 500) {
            fedserver_round next = round;
            fedserver_round_action action =
                fedserver_round_step(r, &next, (fedserver_round_event)event, now_ms + wait_ms);
            if (action == FEDSERVER_DO_LEASE) {
                assert_int_equal(next.leased, round.leased + 1);
            } else if (action == FEDSERVER_DO_CLOSE && event == FEDSERVER_ON_TICK) {
                assert_true(round.received >= r->minimum);
            } else if (action == FEDSERVER_DO_COUNT) {
                const bool closing = round.phase == FEDSERVER_ROUND_CLOSING;
                assert_int_equal(next.received, round.received + !closing);
                assert_int_equal(next.ahead, round.ahead + closing);
            } else if (action == FEDSERVER_DO_LEAVE_OUT) {
                assert_int_equal(next.received, round.received - 1);
                assert_true(next.phase != FEDSERVER_ROUND_CLOSING || next.received >= r->minimum);
            } else if (action >= FEDSERVER_DO_LEASE_AGAIN) {
                assert_memory_equal(&next, &round, sizeof next);
            }
            /* As in the server, a tick follows each counted update. */
            if (action == FEDSERVER_DO_COUNT) {
                fedserver_round_step(r, &next, FEDSERVER_ON_TICK, now_ms + wait_ms);
            }
            walk(r, next, now_ms + wait_ms, depth - 1);
        }
    }
}

static void every_reachable_state_keeps_the_invariants(void) {
    walk(&rules, (fedserver_round){0}, 1000, 4);
    walk(&rules, opened(), 1000, 4);
    walk(&flowing, flows(), 1000, 4);
    fedserver_round full = flows();
    for (int k = 0; k < 3; k++) {
        FLOW(&full, CHECKIN_NEW, 1000, LEASE);
    }
    FLOW(&full, UPDATE_LEASED, 1000, COUNT);
    walk(&flowing, full, 1000, 3);
    walk(&flowing, flowing_closes(), 1300, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(start_opens_round_one_without_a_deadline),
        fed_unit_test(the_deadline_runs_from_the_first_lease),
        fed_unit_test(a_full_round_lets_newcomers_wait_and_holders_go_on),
        fed_unit_test(the_goal_commits_at_once),
        fed_unit_test(a_edges_round_never_commits_by_itself),
        fed_unit_test(the_minimum_commits_at_the_deadline_only),
        fed_unit_test(below_the_minimum_the_attempt_is_abandoned),
        fed_unit_test(a_resumed_round_asks_anew_for_what_is_missing),
        fed_unit_test(what_was_counted_stays_counted_in_the_next_attempt),
        fed_unit_test(the_last_commit_finishes),
        fed_unit_test(a_repeated_update_is_welcome_in_every_phase),
        fed_unit_test(strangers_updates_are_refused),
        fed_unit_test(a_clock_set_back_does_not_put_the_deadline_out_of_reach),
        fed_unit_test(a_slot_whose_device_was_shut_out_is_given_to_another),
        fed_unit_test(who_comes_early_waits_for_its_turn_and_who_is_not_wanted_for_a_task),
        fed_unit_test(asynchronous_a_report_frees_its_slot_at_once),
        fed_unit_test(asynchronous_the_goal_commits_and_leases_stand_from_round_to_round),
        cmocka_unit_test(asynchronous_the_deadline_runs_from_the_first_update_and_abandons_nothing),
        fed_unit_test(asynchronous_too_old_an_update_is_refused),
        fed_unit_test(an_update_weighs_less_the_older_its_model_is),
        fed_unit_test(a_round_that_closes_gives_no_lease_and_counts_nothing),
        fed_unit_test(without_an_update_that_cant_be_opened_the_round_goes_on_closing),
        fed_unit_test(with_too_few_that_can_be_opened_the_next_attempt_opens),
        fed_unit_test(only_a_round_that_closes_can_be_committed),
        fed_unit_test(asynchronous_while_a_round_closes_updates_count_in_the_next),
        fed_unit_test(asynchronous_no_update_counts_after_the_last_round),
        fed_unit_test(every_reachable_state_keeps_the_invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
