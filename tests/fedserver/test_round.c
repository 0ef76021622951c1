/* The round's state machine, case by case and by a walk through everything it can reach. */
#include "fed_test.h"

#include <stdbool.h>

#include "fedserver/round.h"

static const fedserver_round_rules rules = {
    .rounds = 2, .cohort = 3, .goal = 2, .minimum = 1, .deadline_ms = 1000};

#define STEP(round, event, now) fedserver_round_step(&rules, round, FEDSERVER_ON_##event, now)
#define EXPECT(round, event, now, action)                                                          \
    assert_int_equal(STEP(round, event, now), FEDSERVER_DO_##action)

static fedserver_round opened(void) {
    fedserver_round round = {0};
    EXPECT(&round, START, 50, OPEN);
    return round;
}

static void start_opens_round_one_without_a_deadline(void **state) {
    (void)state;
    fedserver_round round = opened();
    assert_int_equal(round.phase, FEDSERVER_ROUND_OPEN);
    assert_int_equal(round.number, 1);
    assert_int_equal(round.attempt, 1);
    assert_int_equal(round.opened_ms, 50);
    assert_int_equal(round.deadline_ms, 0);
    EXPECT(&round, TICK, 1000000, NOTHING);
}

static void the_deadline_runs_from_the_first_lease(void **state) {
    (void)state;
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    assert_int_equal(round.deadline_ms, 1100);
    EXPECT(&round, CHECKIN_NEW, 700, LEASE);
    assert_int_equal(round.deadline_ms, 1100);
    assert_int_equal(round.phase, FEDSERVER_ROUND_LEASING);
    EXPECT(&round, TICK, 1099, NOTHING);
}

static void a_full_round_lets_newcomers_wait_and_holders_go_on(void **state) {
    (void)state;
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

static void the_goal_commits_at_once(void **state) {
    (void)state;
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_LEASED, 200, COUNT);
    EXPECT(&round, TICK, 200, NOTHING);
    EXPECT(&round, UPDATE_LEASED, 201, COUNT);
    EXPECT(&round, TICK, 201, COMMIT);
    EXPECT(&round, COMMITTED, 202, OPEN);
    assert_int_equal(round.number, 2);
    assert_int_equal(round.attempt, 1);
    assert_int_equal(round.leased + round.received, 0);
    assert_int_equal(round.opened_ms, 202);
}

static void the_minimum_commits_at_the_deadline_only(void **state) {
    (void)state;
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_LEASED, 200, COUNT);
    EXPECT(&round, TICK, 1099, NOTHING);
    EXPECT(&round, TICK, 1100, COMMIT);
}

static void below_the_minimum_the_attempt_is_abandoned(void **state) {
    (void)state;
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

static void what_was_counted_stays_counted_in_the_next_attempt(void **state) {
    (void)state;
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
    assert_int_equal(round.leased, 1); /* who has reported keeps its place */
    assert_int_equal(fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_REPORTED, 1001),
                     FEDSERVER_DO_WAIT_REPORTED);
    fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_NEW, 1001);
    fedserver_round_step(&strict, &round, FEDSERVER_ON_CHECKIN_NEW, 1001);
    assert_int_equal(round.phase, FEDSERVER_ROUND_FULL);
}

static void the_last_commit_finishes(void **state) {
    (void)state;
    fedserver_round round = opened();
    for (uint32_t number = 1; number <= rules.rounds; number++) {
        EXPECT(&round, CHECKIN_NEW, 100, LEASE);
        EXPECT(&round, UPDATE_LEASED, 100, COUNT);
        EXPECT(&round, TICK, 5000, COMMIT);
        assert_int_equal(STEP(&round, COMMITTED, 5000),
                         number < rules.rounds ? FEDSERVER_DO_OPEN : FEDSERVER_DO_FINISH);
    }
    assert_int_equal(round.phase, FEDSERVER_ROUND_NONE);
    EXPECT(&round, CHECKIN_NEW, 6000, WAIT_NO_TASK);
    EXPECT(&round, UPDATE_CLOSED, 6000, REFUSE_CLOSED);
}

static void a_repeated_update_is_welcome_in_every_phase(void **state) {
    (void)state;
    fedserver_round round = {0};
    EXPECT(&round, UPDATE_COUNTED, 0, COUNTED_BEFORE);
    round = opened();
    EXPECT(&round, UPDATE_COUNTED, 0, COUNTED_BEFORE);
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_COUNTED, 100, COUNTED_BEFORE);
    assert_int_equal(round.received, 0);
}

static void strangers_updates_are_refused(void **state) {
    (void)state;
    fedserver_round round = opened();
    EXPECT(&round, UPDATE_UNKNOWN, 0, REFUSE_UNKNOWN);
    EXPECT(&round, CHECKIN_NEW, 100, LEASE);
    EXPECT(&round, UPDATE_UNKNOWN, 100, REFUSE_UNKNOWN);
    EXPECT(&round, UPDATE_CLOSED, 100, REFUSE_CLOSED);
    EXPECT(&round, UPDATE_EXPIRED, 100, REFUSE_EXPIRED);
    assert_int_equal(round.received, 0);
}

static void a_clock_set_back_does_not_put_the_deadline_out_of_reach(void **state) {
    (void)state;
    fedserver_round round = opened();
    EXPECT(&round, CHECKIN_NEW, 86400000, LEASE);
    EXPECT(&round, TICK, 1000, NOTHING);
    EXPECT(&round, TICK, 2000, REOPEN);
}

/* Every event in every state that can be reached, to a depth, keeps the invariants. */
static void walk(fedserver_round round, int64_t now_ms, int depth) {
    assert_true(round.received <= round.leased || round.phase == FEDSERVER_ROUND_NONE);
    assert_true(round.leased <= rules.cohort);
    assert_true((round.deadline_ms != 0) == (round.phase >= FEDSERVER_ROUND_LEASING));
    assert_true((round.phase == FEDSERVER_ROUND_FULL) == (round.leased == rules.cohort));
    assert_true(round.number <= rules.rounds);
    if (depth == 0) {
        return;
    }
    for (int event = 0; event < FEDSERVER_ROUND_EVENTS; event++) {
        bool lost = round.leased == round.received; /* nobody holds a lease */
        if (lost && (event == FEDSERVER_ON_UPDATE_LEASED || event == FEDSERVER_ON_CHECKIN_LEASED)) {
            continue; /* the caller can't have seen it */
        }
        for (int64_t wait_ms = 0; wait_ms <= 1000; wait_ms += 500) {
            fedserver_round next = round;
            fedserver_round_action action =
                fedserver_round_step(&rules, &next, (fedserver_round_event)event, now_ms + wait_ms);
            if (action == FEDSERVER_DO_LEASE) {
                assert_int_equal(next.leased, round.leased + 1);
            } else if (action == FEDSERVER_DO_COUNT) {
                assert_int_equal(next.received, round.received + 1);
            } else if (action >= FEDSERVER_DO_LEASE_AGAIN) {
                assert_memory_equal(&next, &round, sizeof next);
            }
            if (action == FEDSERVER_DO_COMMIT) {
                assert_true(next.received >= rules.minimum);
            }
            /* as the server does: a counted update is followed by a tick, a commit by COMMITTED */
            if (action == FEDSERVER_DO_COUNT &&
                fedserver_round_step(&rules, &next, FEDSERVER_ON_TICK, now_ms + wait_ms) ==
                    FEDSERVER_DO_COMMIT) {
                action = FEDSERVER_DO_COMMIT;
            }
            if (action == FEDSERVER_DO_COMMIT) {
                fedserver_round_step(&rules, &next, FEDSERVER_ON_COMMITTED, now_ms + wait_ms);
            }
            walk(next, now_ms + wait_ms, depth - 1);
        }
    }
}

static void every_reachable_state_keeps_the_invariants(void **state) {
    (void)state;
    walk((fedserver_round){0}, 1000, 4);
    walk(opened(), 1000, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_opens_round_one_without_a_deadline),
        cmocka_unit_test(the_deadline_runs_from_the_first_lease),
        cmocka_unit_test(a_full_round_lets_newcomers_wait_and_holders_go_on),
        cmocka_unit_test(the_goal_commits_at_once),
        cmocka_unit_test(the_minimum_commits_at_the_deadline_only),
        cmocka_unit_test(below_the_minimum_the_attempt_is_abandoned),
        cmocka_unit_test(what_was_counted_stays_counted_in_the_next_attempt),
        cmocka_unit_test(the_last_commit_finishes),
        cmocka_unit_test(a_repeated_update_is_welcome_in_every_phase),
        cmocka_unit_test(strangers_updates_are_refused),
        cmocka_unit_test(a_clock_set_back_does_not_put_the_deadline_out_of_reach),
        cmocka_unit_test(every_reachable_state_keeps_the_invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
