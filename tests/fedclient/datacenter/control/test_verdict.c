/* Verdicts: heartbeats and their times tell which worker failed, and a sentence says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/datacenter/control/verdict.h"
#include "membership_case.h"

static feddc_membership group;

static int free_group(void **state) {
    (void)state;
    feddc_membership_free(&group);
    return 0;
}

/* Four workers are at step 1203; all but `rank` wait for its bucket 5. */
static void all_wait_for(feddc_membership *membership, uint32_t rank, feddc_phase phase,
                         int64_t now) {
    for (uint32_t i = 0; i < membership->members; i++) {
        if (i == rank) {
            membership_case_heartbeat(membership, i, 1203, phase, UINT32_MAX, 0, now);
        } else {
            membership_case_heartbeat(membership, i, 1203, FEDDC_WAITING, 5, rank, now);
        }
        membership->member[i].acks = true;
    }
}

static void assert_verdict(const feddc_membership *membership, uint32_t worker, feddc_fate fate,
                           const char *text) {
    assert_int_equal(membership->verdicts, 1);
    assert_int_equal(membership->verdict[0].worker, worker);
    assert_int_equal(membership->verdict[0].fate, fate);
    assert_string_equal(membership->verdict[0].text, text);
    assert_int_equal(membership->member[worker].fate, fate);
}

FED_TEST(a_connection_that_ends_is_a_death) {
    membership_case_begin(&group, 4, 2, 0);
    all_wait_for(&group, 2, FEDDC_BACKWARD, 100);
    feddc_membership_gone(&group, 2, 110);
    assert_int_equal(group.todo, FEDDC_SEND_ASK);
    feddc_membership_settle(&group, 110);
    assert_int_equal(group.verdicts, 0); /* first the others are asked what they wait for */
    for (uint32_t i = 0; i < 4; i++) {
        if (i != 2) {
            membership_case_heartbeat(&group, i, 1203, FEDDC_WAITING, 5, 2, 112);
        }
    }
    feddc_membership_settle(&group, 112);
    assert_verdict(&group, 2, FEDDC_DIED,
                   "worker 2 (host c, pid 4711) died at step 1203 in backward; 3 others wait for "
                   "bucket 5");
    assert_int_equal(group.verdict[0].left, 3);
}

FED_TEST(the_step_of_a_death_is_the_one_that_the_others_wait_in) {
    membership_case_begin(&group, 3, 2, 0);
    membership_case_heartbeat(&group, 1, 70, FEDDC_FORWARD, UINT32_MAX, 0, 100);
    feddc_membership_gone(&group, 1, 300);
    membership_case_heartbeat(&group, 0, 81, FEDDC_WAITING, 3, 1, 301);
    feddc_membership_settle(&group, 301);
    assert_int_equal(group.verdicts, 0);
    feddc_membership_settle(&group, 300 + FEDDC_ASK_MS); /* worker 2 does not answer */
    assert_verdict(&group, 1, FEDDC_DIED,
                   "worker 1 (host b, pid 4710) died at step 81 (last heard of in forward of step "
                   "70); 1 other waits for bucket 3");
}

FED_TEST(who_was_gone_first_is_named_first) {
    membership_case_begin(&group, 4, 4, 0); /* a minimum of 4: any death ends the worker group */
    all_wait_for(&group, 3, FEDDC_FORWARD, 100);
    feddc_membership_gone(&group, 3, 200);
    for (uint32_t i = 0; i < 3; i++) {
        feddc_membership_gone(&group, i, 200);
    }
    feddc_membership_settle(&group, 400);
    assert_int_equal(group.verdicts, 1);
    assert_int_equal(group.verdict[0].worker, 3);
    assert_int_equal(group.state, FEDDC_ENDED);
    assert_string_equal(group.why, group.verdict[0].text);
}

FED_TEST(silence_of_a_host_that_answers_is_a_stop) {
    membership_case_begin(&group, 4, 2, 0);
    all_wait_for(&group, 1, FEDDC_FORWARD, 0);
    int64_t now = 0;
    membership_case_pass(&group, 1, &now, FEDDC_SILENT_MS);
    assert_int_equal(group.verdicts, 0);
    membership_case_pass(&group, 1, &now, FEDDC_SILENT_MS + 50);
    assert_verdict(
        &group, 1, FEDDC_STOPPED,
        "worker 1 (host b, pid 4710) was stopped at step 1203 in forward: no heartbeat for "
        "2.0 s, but its host answers; 3 others wait for bucket 5");
}

FED_TEST(silence_of_a_silent_host_is_a_cut) {
    membership_case_begin(&group, 4, 2, 0);
    all_wait_for(&group, 0, FEDDC_UPDATING, 0);
    group.member[0].acks = false;
    int64_t now = 0;
    membership_case_pass(&group, 0, &now, FEDDC_SILENT_MS + 50);
    assert_verdict(
        &group, 0, FEDDC_CUT_OFF,
        "worker 0 (host a, pid 4709) was cut off at step 1203 in update: no heartbeat for "
        "2.0 s, and its host does not answer; 3 others wait for bucket 5");
}

FED_TEST(a_detector_that_was_away_condemns_nobody) {
    membership_case_begin(&group, 3, 1, 0);
    all_wait_for(&group, 1, FEDDC_FORWARD, 0);
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, 1000);
    feddc_membership_settle(&group, 61000); /* the failure detector was stopped for a minute */
    assert_int_equal(group.verdicts, 0);
    now = 61000;
    membership_case_pass(&group, 1, &now, 61000 + FEDDC_SILENT_MS + 100);
    assert_int_equal(group.verdicts, 1);
    assert_int_equal(group.verdict[0].worker, 1);
}

FED_TEST(who_stands_while_all_wait_is_stuck) {
    membership_case_begin(&group, 4, 2, 0);
    all_wait_for(&group, 2, FEDDC_BACKWARD, 0);
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, FEDDC_STUCK_MS + 50);
    assert_int_equal(group.verdicts, 0);
    membership_case_pass(&group, FEDDC_NOBODY, &now, FEDDC_STUCK_MS + 100);
    assert_verdict(
        &group, 2, FEDDC_STUCK,
        "worker 2 (host c, pid 4711) is stuck at step 1203 in backward: it sends heartbeats, but "
        "has done nothing for 10.1 s; 3 others wait for bucket 5");
}

FED_TEST(long_steps_have_long_limits) {
    membership_case_begin(&group, 3, 2, 0);
    all_wait_for(&group, 2, FEDDC_BACKWARD, 0);
    for (uint32_t i = 0; i < 3; i++) {
        group.member[i].heartbeat.step_s = 4;
    }
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, 80050);
    assert_int_equal(group.verdicts, 0);
    membership_case_pass(&group, FEDDC_NOBODY, &now, 80100);
    assert_int_equal(group.verdicts, 1);
}

FED_TEST(who_reports_is_not_stuck) {
    membership_case_begin(&group, 3, 2, 0);
    int64_t now = 0;
    for (int k = 0; k < 30; k++) { /* for 30 s, an evaluation reports its batches */
        all_wait_for(&group, 0, FEDDC_EVALUATING, now);
        membership_case_pass(&group, FEDDC_NOBODY, &now, now + 1000);
    }
    assert_int_equal(group.verdicts, 0);
}

FED_TEST(who_starts_is_not_stuck) {
    membership_case_begin(&group, 3, 2, 0);
    all_wait_for(&group, 0, FEDDC_STARTING, 0);
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, 100000);
    assert_int_equal(group.verdicts, 0);
}

/* All compute, such as a long evaluation without reports: nobody waits for anybody. */
FED_TEST(where_nobody_waits_nobody_is_stuck) {
    membership_case_begin(&group, 3, 2, 0);
    for (uint32_t i = 0; i < 3; i++) {
        membership_case_heartbeat(&group, i, 1203, FEDDC_BACKWARD, UINT32_MAX, 0, 0);
    }
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, 3 * FEDDC_STUCK_MS);
    assert_int_equal(group.verdicts, 0);
}

FED_TEST(who_waits_itself_but_is_awaited_by_all_is_cut_off) {
    membership_case_begin(&group, 4, 2, 0);
    all_wait_for(&group, 3, FEDDC_WAITING, 0);
    membership_case_heartbeat(&group, 3, 1203, FEDDC_WAITING, 2, 0, 0);
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, FEDDC_STUCK_MS + 100);
    assert_verdict(
        &group, 3, FEDDC_CUT_OFF,
        "worker 3 (host d, pid 4712) was cut off at step 1203 in wait from the others: "
        "it sends heartbeats, but nothing has moved for 10.1 s; 3 others wait for bucket 5");
}

FED_TEST(two_that_wait_for_each_other_meet_again_without_a_verdict) {
    membership_case_begin(&group, 2, 1, 0);
    membership_case_heartbeat(&group, 0, 9, FEDDC_WAITING, 1, 1, 0);
    membership_case_heartbeat(&group, 1, 9, FEDDC_WAITING, 0, 0, 0);
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, FEDDC_STUCK_MS + 100);
    assert_int_equal(group.verdicts, 0);
    assert_int_equal(group.state, FEDDC_MEETING);
    assert_int_equal(group.todo, FEDDC_SEND_OVER);
    assert_non_null(strstr(group.why, "wait for each other"));
}

FED_TEST(the_odd_digest_is_named) {
    membership_case_begin(&group, 3, 2, 0);
    for (uint32_t completed = 10; completed < 200; completed += 10) {
        for (uint32_t i = 0; i < 3; i++) {
            feddc_membership_digest_is(&group, (i + completed / 10) % 3, completed, completed, 10);
        }
    }
    assert_int_equal(group.verdicts, 0);
    feddc_membership_digest_is(&group, 1, 210, 7, 20);
    feddc_membership_digest_is(&group, 1, 220, 8, 20);
    feddc_membership_digest_is(&group, 0, 210, 6, 20);
    assert_int_equal(group.verdicts, 0);
    feddc_membership_digest_is(&group, 2, 210, 6, 20);
    assert_verdict(
        &group, 1, FEDDC_DIVERGED,
        "worker 1 (host b, pid 4710) has parameters of its own before its first step was "
        "over: "
        "their digest after 210 steps is not that of the majority");
}

FED_TEST(digests_without_a_majority_end_the_worker_group) {
    membership_case_begin(&group, 2, 1, 0);
    feddc_membership_digest_is(&group, 0, 10, 1, 0);
    feddc_membership_digest_is(&group, 1, 10, 2, 0);
    assert_int_equal(group.verdicts, 0);
    assert_int_equal(group.state, FEDDC_ENDED);
    assert_non_null(strstr(group.why, "differ after 10 steps"));
}

FED_TEST(a_goodbye_with_a_reason_is_a_verdict) {
    membership_case_begin(&group, 3, 2, 0);
    membership_case_heartbeat(&group, 1, 4, FEDDC_SAVING, UINT32_MAX, 0, 10);
    feddc_membership_bye(&group, 1, "disk full: /data/w", 20);
    assert_verdict(&group, 1, FEDDC_GAVE_UP,
                   "worker 1 (host b, pid 4710) gave up at step 4 in save: disk full: /data/w");
}

static float compute_of(const feddc_heartbeat *heartbeat) {
    return heartbeat->compute_s;
}

FED_TEST(the_slowest_is_named_by_compute_time) {
    static const float compute[] = {0.25F, 1, 0.5F, 0.25F};
    feddc_detector_look look;
    membership_case_begin(&group, 4, 2, 0);
    feddc_membership_look(&group, &look);
    assert_int_equal(look.slowest, FEDDC_NOBODY);
    for (uint32_t i = 0; i < 4; i++) {
        feddc_heartbeat heartbeat = {.compute_s = compute[i], .step_s = 2};
        feddc_membership_heartbeat(&group, i, &heartbeat, 0);
    }
    assert_true(feddc_verdict_median(&group, compute_of) == 0.25);
    feddc_membership_look(&group, &look);
    assert_int_equal(look.slowest, 1);
    assert_true(look.slowness == 4);
}

FED_TEST(every_phase_has_a_name) {
    for (int p = 0; p < FEDDC_PHASES; p++) {
        assert_string_not_equal(feddc_phase_name((feddc_phase)p), "?");
    }
    assert_string_equal(feddc_phase_name(FEDDC_PHASES), "?");
}

int main(void) {
    return fed_cases_run_each(NULL, free_group);
}
