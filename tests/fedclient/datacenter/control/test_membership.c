/* The membership of a worker group: who joins and leaves, and which generations follow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/datacenter/control/membership.h"
#include "membership_case.h"

static feddc_membership group;

static int free_group(void **state) {
    (void)state;
    feddc_membership_free(&group);
    return 0;
}

FED_TEST(wishes_come_first_then_arrival) {
    static const uint32_t requested[] = {FEDDC_NOBODY, 2, FEDDC_NOBODY, 0};
    static const uint32_t rank[] = {2, 1, 3, 0};
    fed_error err = {0};
    assert_fed_ok_err(feddc_membership_init(&group, 4, 0, 0, 0, &err));
    for (uint32_t i = 0; i < 4; i++) {
        feddc_join join = {.requested = requested[i], .pid = i, .host = "h"};
        uint32_t slot = 0;
        assert_fed_ok_err(feddc_membership_join(&group, &join, 0, &slot, &err));
        feddc_membership_meet(&group, slot, 0, "", "", 0);
        assert_int_equal(group.generation, 0);
        feddc_membership_settle(&group, 0);
    }
    assert_int_equal(group.generation, 1);
    assert_int_equal(group.ranks, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(group.member[i].rank, rank[i]);
        assert_int_equal(group.member[i].worker, rank[i]);
        assert_int_equal(group.slot[rank[i]], i);
    }
}

FED_TEST(who_cannot_join_is_told_why) {
    fed_error err = {0};
    uint32_t slot = 77;
    assert_fed_ok_err(feddc_membership_init(&group, 2, 0, 0, 0, &err));
    feddc_join join = {.requested = 2, .pid = 5, .host = "h"};
    assert_fed_status(feddc_membership_join(&group, &join, 0, &slot, &err), FED_EINVAL);
    assert_fed_says(err, "rank 2 does not exist in a worker group of 2");
    join.requested = 1;
    assert_fed_ok_err(feddc_membership_join(&group, &join, 0, &slot, &err));
    assert_fed_status(feddc_membership_join(&group, &join, 0, &slot, &err), FED_EEXIST);
    assert_fed_says(err, "rank 1 is taken by host h, pid 5");
    join.requested = FEDDC_NOBODY;
    assert_fed_ok_err(feddc_membership_join(&group, &join, 0, &slot, &err));
    assert_fed_status(feddc_membership_join(&group, &join, 0, &slot, &err), FED_ESTATE);
    assert_fed_says(err, "its 2 members have joined");
    feddc_membership_gone(&group, 0, 0); /* before the group begins, a place becomes free again */
    assert_fed_ok_err(feddc_membership_join(&group, &join, 0, &slot, &err));
    assert_int_equal(slot, 0);
    feddc_membership_meet(&group, 0, 0, "", "", 0);
    feddc_membership_meet(&group, 1, 0, "", "", 0);
    feddc_membership_settle(&group, 0);
    assert_fed_status(feddc_membership_join(&group, &join, 0, &slot, &err), FED_ESTATE);
    assert_fed_says(err, "has begun");
    assert_int_equal(group.verdicts, 0);
}

static fed_status join(const char *settings, uint32_t *slot, fed_error *err) {
    feddc_join join = {.requested = FEDDC_NOBODY, .pid = 5, .host = "h"};
    snprintf(join.settings, sizeof join.settings, "%s", settings);
    return feddc_membership_join(&group, &join, 0, slot, err);
}

FED_TEST(the_first_member_decides_which_settings_the_others_need) {
    fed_error err = {0};
    uint32_t slot = 0;
    assert_fed_ok_err(feddc_membership_init(&group, 3, 0, 0, 0, &err));
    assert_fed_ok_err(join("batch=8\n", &slot, &err));
    assert_fed_status(join("batch=9\n", &slot, &err), FED_ESTATE);
    assert_fed_says(err, "its batch is \"9\", and the worker group's is \"8\"");
    assert_fed_ok_err(join("batch=8\n", &slot, &err));
    feddc_membership_gone(&group, 0, 0); /* another member with these settings is there */
    assert_fed_status(join("batch=9\n", &slot, &err), FED_ESTATE);
    assert_int_equal(group.refusals, 2);
    assert_non_null(strstr(group.refused, "a worker (host h, pid 5) was refused: its batch"));
    feddc_membership_gone(&group, 1, 0); /* nobody is there */
    assert_fed_ok_err(join("batch=9\n", &slot, &err));
}

FED_TEST(expected_settings_hold_for_the_first_member_too) {
    fed_error err = {0};
    uint32_t slot = 0;
    assert_fed_ok_err(feddc_membership_init(&group, 2, 0, 0, 0, &err));
    feddc_membership_expect(&group, "batch=8\n");
    assert_fed_status(join("batch=9\n", &slot, &err), FED_ESTATE);
    assert_fed_status(join("", &slot, &err), FED_ESTATE);
    assert_fed_says(err, "the same release");
    assert_fed_ok_err(join("batch=8\n", &slot, &err));
}

FED_TEST(who_has_refused_a_member_does_not_begin_with_fewer) {
    fed_error err = {0};
    uint32_t slot = 0;
    membership_case_join(&group, 3, 1, 0);
    feddc_membership_gone(&group, 1, 0);
    assert_fed_status(join("batch=9\n", &slot, &err), FED_ESTATE);
    feddc_membership_meet(&group, 2, 0, "", "", 0);
    feddc_membership_meet(&group, 0, 0, "", "", 0);
    int64_t now = 0;
    membership_case_pass(&group, 1, &now, 9950);
    assert_int_equal(group.state, FEDDC_MEETING);
    membership_case_pass(&group, 1, &now, 10050);
    assert_int_equal(group.state, FEDDC_ENDED);
    assert_non_null(strstr(group.why, "2 of 3 workers came within 10.0 s, and a worker (host h"));
}

FED_TEST(a_size_that_no_worker_group_has_is_refused) {
    feddc_membership membership;
    fed_error err = {0};
    assert_fed_status(feddc_membership_init(&membership, 0, 0, 0, 0, &err), FED_EINVAL);
    assert_fed_status(feddc_membership_init(&membership, 2, 3, 0, 0, &err), FED_EINVAL);
    assert_fed_status(feddc_membership_init(&membership, FEDDC_RANKS + 1, 0, 0, 0, &err),
                      FED_EINVAL);
}

FED_TEST(enough_begin_when_the_time_to_join_is_over) {
    membership_case_join(&group, 3, 2, 0);
    feddc_membership_meet(&group, 2, 0, "", "", 0);
    feddc_membership_meet(&group, 0, 0, "", "", 0);
    feddc_membership_gone(&group, 1, 0);
    int64_t now = 0;
    membership_case_pass(&group, 1, &now, 10000);
    assert_int_equal(group.state, FEDDC_MEETING);
    membership_case_pass(&group, 1, &now, 10050);
    assert_int_equal(group.state, FEDDC_TRAINING);
    assert_int_equal(group.ranks, 2);
}

FED_TEST(too_few_do_not_begin) {
    membership_case_join(&group, 3, 3, 0);
    feddc_membership_meet(&group, 0, 0, "", "", 0);
    feddc_membership_gone(&group, 1, 0);
    int64_t now = 0;
    membership_case_pass(&group, 1, &now, 10050);
    assert_int_equal(group.state, FEDDC_ENDED);
    assert_int_equal(group.todo & FEDDC_SEND_END, FEDDC_SEND_END);
    assert_non_null(strstr(group.why, "1 of 3 workers came within 10.0 s"));
}

FED_TEST(those_left_go_on_with_dense_ranks_and_old_numbers) {
    membership_case_begin(&group, 4, 2, 0);
    feddc_membership_gone(&group, 1, 10);
    feddc_membership_settle(&group, 200);
    assert_int_equal(group.state, FEDDC_MEETING);
    assert_int_equal(group.todo, FEDDC_SEND_ASK | FEDDC_SEND_OVER);
    group.todo = 0;
    feddc_membership_meet(&group, 3, 17, "c:3", "rank 1 is gone", 210);
    feddc_membership_meet(&group, 0, 16, "c:0", "rank 1 is gone", 210);
    feddc_membership_settle(&group, 210);
    assert_int_equal(group.generation, 1);
    feddc_membership_meet(&group, 2, 16, "c:2", "rank 1 is gone", 220);
    feddc_membership_settle(&group, 220);
    assert_int_equal(group.generation, 2);
    assert_int_equal(group.todo, FEDDC_SEND_WORKER_GROUP);
    assert_int_equal(group.ranks, 3);
    static const uint32_t worker[] = {0, 2, 3}, completed[] = {16, 16, 17};
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(group.member[group.slot[r]].worker, worker[r]);
        assert_int_equal(group.member[group.slot[r]].completed, completed[r]);
        assert_int_equal(group.member[group.slot[r]].rank, r);
    }
    assert_int_equal(group.member[1].rank, FEDDC_NOBODY);
    assert_string_equal(group.why, group.verdict[0].text);
    feddc_membership_gone(&group, 3, 300);
    feddc_membership_settle(&group, 500);
    assert_int_equal(group.verdicts, 2);
    assert_int_equal(group.verdict[1].worker, 3);
    assert_int_equal(group.verdict[1].generation, 2);
    assert_string_equal(group.why, group.verdict[1].text);
}

FED_TEST(a_broken_exchange_without_a_death_brings_all_together_again) {
    membership_case_begin(&group, 3, 3, 0);
    feddc_membership_meet(&group, 1, 5, "", "connection reset", 10);
    assert_int_equal(group.state, FEDDC_MEETING);
    assert_int_equal(group.todo, FEDDC_SEND_OVER);
    assert_non_null(strstr(group.why, "worker 1 (host b, pid 4710) left an exchange: connection"));
    feddc_membership_meet(&group, 0, 5, "", "", 10);
    feddc_membership_meet(&group, 2, 4, "", "", 10);
    feddc_membership_settle(&group, 10);
    assert_int_equal(group.generation, 2);
    assert_int_equal(group.ranks, 3);
    assert_int_equal(group.verdicts, 0);
}

FED_TEST(meetings_without_a_step_do_not_go_on_for_ever) {
    membership_case_begin(&group, 2, 1, 0);
    int k = 0;
    for (; k < 100 && group.state == FEDDC_TRAINING; k++) {
        feddc_membership_meet(&group, 0, 7, "", "no way to rank 1", 10);
        feddc_membership_meet(&group, 1, 7, "", "no way to rank 0", 10);
        feddc_membership_settle(&group, 10);
    }
    assert_int_equal(group.state, FEDDC_ENDED);
    assert_int_equal(k, 1 + FEDDC_FRUITLESS + 1);
    assert_non_null(strstr(group.why, "nobody is to blame"));
    assert_non_null(strstr(group.why, "no way to rank"));
}

FED_TEST(a_death_while_they_meet_is_told_with_the_first) {
    membership_case_begin(&group, 4, 2, 0);
    feddc_membership_gone(&group, 0, 10);
    feddc_membership_settle(&group, 120);
    feddc_membership_meet(&group, 1, 3, "", "", 130);
    feddc_membership_gone(&group, 2, 140);
    feddc_membership_settle(&group, 300);
    assert_int_equal(group.verdicts, 2);
    assert_int_equal(group.state, FEDDC_MEETING);
    feddc_membership_meet(&group, 3, 3, "", "", 310);
    feddc_membership_settle(&group, 310);
    assert_int_equal(group.generation, 2);
    assert_int_equal(group.ranks, 2);
    assert_non_null(strstr(group.why, "worker 0"));
    assert_non_null(strstr(group.why, ". Also: worker 2"));
}

FED_TEST(who_does_not_come_to_the_meeting_is_stuck) {
    membership_case_begin(&group, 3, 1, 0);
    for (uint32_t i = 0; i < 3; i++) {
        membership_case_heartbeat(&group, i, 8, FEDDC_FORWARD, UINT32_MAX, 0, 0);
    }
    feddc_membership_meet(&group, 0, 8, "", "broke", 0);
    feddc_membership_meet(&group, 1, 8, "", "broke", 0);
    int64_t now = 0;
    membership_case_pass(&group, FEDDC_NOBODY, &now, FEDDC_STUCK_MS + 50);
    assert_int_equal(group.verdicts, 0);
    membership_case_pass(&group, FEDDC_NOBODY, &now, FEDDC_STUCK_MS + 100);
    assert_int_equal(group.verdicts, 1);
    assert_int_equal(group.verdict[0].worker, 2);
    assert_int_equal(group.verdict[0].fate, FEDDC_STUCK);
    assert_int_equal(group.generation, 2);
    assert_int_equal(group.ranks, 2);
}

FED_TEST(too_few_left_end_with_the_verdict) {
    membership_case_begin(&group, 3, 2, 0);
    feddc_membership_gone(&group, 0, 10);
    feddc_membership_gone(&group, 2, 11);
    feddc_membership_settle(&group, 200);
    assert_int_equal(group.state, FEDDC_ENDED);
    assert_int_equal(group.verdicts, 2);
    assert_non_null(strstr(group.why, "worker 0 (host a, pid 4709) died"));
    assert_non_null(strstr(group.why, "1 is left, and the worker group needs 2"));
}

FED_TEST(it_is_done_when_all_who_are_left_have_finished) {
    membership_case_begin(&group, 3, 2, 0);
    feddc_membership_bye(&group, 1, "", 10);
    feddc_membership_settle(&group, 10);
    assert_int_equal(group.state, FEDDC_TRAINING);
    feddc_membership_gone(&group, 1, 11); /* member 1 has left, so this is no death */
    feddc_membership_bye(&group, 0, "", 12);
    feddc_membership_bye(&group, 2, "", 13);
    feddc_membership_settle(&group, 500);
    assert_int_equal(group.state, FEDDC_DONE);
    assert_int_equal(group.verdicts, 0);
    assert_int_equal(group.todo & FEDDC_SEND_END, 0);
}

FED_TEST(a_look_shows_members_by_their_numbers) {
    feddc_detector_look look;
    feddc_member_look member;
    membership_case_begin(&group, 3, 1, 0);
    membership_case_heartbeat(&group, 0, 5, FEDDC_WAITING, 4, 2, 100);
    membership_case_heartbeat(&group, 1, 6, FEDDC_FORWARD, UINT32_MAX, 0, 100);
    membership_case_heartbeat(&group, 2, 5, FEDDC_BACKWARD, UINT32_MAX, 0, 100);
    feddc_membership_look(&group, &look);
    assert_int_equal(look.state, FEDDC_TRAINING);
    assert_int_equal(look.generation, 1);
    assert_int_equal(look.members, 3);
    assert_int_equal(look.alive, 3);
    assert_int_equal(look.step, 5);
    assert_true(feddc_membership_member_look(&group, 0, 150, &member));
    assert_string_equal(member.host, "a");
    assert_int_equal(member.phase, FEDDC_WAITING);
    assert_int_equal(member.bucket, 4);
    assert_int_equal(member.waits_for, 2);
    assert_int_equal(member.silent_ms, 50);
    assert_string_equal(member.computes_on, "");
    assert_true(feddc_membership_member_look(&group, 1, 150, &member));
    assert_string_equal(member.computes_on, "cuda:0");
    assert_int_equal(member.waits_for, FEDDC_NOBODY);
    assert_false(feddc_membership_member_look(&group, 3, 150, &member));
}

int main(void) {
    return fed_cases_run_each(NULL, free_group);
}
