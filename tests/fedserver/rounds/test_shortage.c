/* Too few devices may take part in a round, for the others have spent their privacy: the task says
 * so, waits for further devices, and ends for its budget. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/shortage.h"

#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedserver/operator.h"
#include "fedserver/rounds/masked.h"
#include "fedserver/server.h"

enum { DEADLINE_MS = 600 * 1000, VALUES = 2 * 100 + 2 };

/* Two devices make a round, and each takes part once. */
#define TASK_WITH(rest)                                                                            \
    "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1,"                \
    " \"codec_down\": \"float32\", \"cohort\": 2, \"goal\": 2, \"minimum\": 2, \"rounds\": 9,"     \
    " \"epsilon\": 8, \"delta\": 1e-5, \"deadline_s\": 600" rest "}"
#define TASK TASK_WITH(", \"participations\": 1")

static const float zeros[VALUES];

static fedserver_training *task_of(coordinator *c) {
    fedserver_training *t = fedserver_rounds_task(&c->server->rounds, 1);
    assert_non_null(t);
    return t;
}

static void play_with(coordinator *c, const test_device *devices, size_t count) {
    fed_assignment work[3];
    for (size_t k = 0; k < count; k++) {
        work[k] = device_ask_work(c, &devices[k]);
        assert_int_equal(work[k].action, FED_ACTION_TRAIN);
    }
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(device_upload(c, &devices[k], &work[k], zeros, 1, NULL), 200);
    }
}

static void play(coordinator *c, const test_device devices[2]) {
    play_with(c, devices, 2);
}

/* Begin a task, and play its first round with two of `count` devices. */
static void begin(coordinator *c, const char *task, test_device *d, size_t count) {
    coordinator_task(c, task);
    for (size_t k = 0; k < count; k++) {
        d[k] = coordinator_enrol(c);
    }
    play(c, d);
    assert_int_equal(task_of(c)->versions.version, 1);
}

static void expect_finished(coordinator *c) {
    assert_int_equal(task_of(c)->task.state, FEDSERVER_TASK_FINISHED);
    assert_int_equal(task_of(c)->versions.version, 1);
}

static fed_status find_ended(void *user, const fedserver_task_entry *entry, fed_error *err) {
    char *text = user;
    (void)err;
    assert_int_equal(entry->state, FEDSERVER_TASK_FINISHED);
    snprintf(text, sizeof entry->waits, "%s", entry->waits);
    return FED_OK;
}

FED_TEST_WITH(a_task_with_too_few_devices_left_ends_for_its_budget, coordinator *c) {
    test_device d[3];
    fed_error err = {0};
    char ended[FEDSERVER_TASK_WAITS] = "";
    begin(c, TASK, d, 3);
    assert_true(fedserver_is_short(task_of(c)));
    assert_int_equal(device_ask_work(c, &d[2]).action, FED_ACTION_WAIT); /* it would be in vain */
    coordinator_expect_waits(c, "devices that may still take part: 1 may, and the minimum is 2");
    coordinator_wait(c, DEADLINE_MS - 1);
    assert_true(fedserver_training_runs(task_of(c)));
    coordinator_wait(c, 1);
    expect_finished(c);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_task_each(c->server, c->now_ms, find_ended, ended, &err));
    assert_string_equal(ended, "its budget is spent after 1 of 9 rounds; `fedserver ledger 1` "
                               "lists who took part");
    coordinator_restart(c);
    assert_int_equal(device_ask_work(c, &d[2]).reason, FED_WAIT_FINISHED);
}

/* A round of groups needs `minimum` devices for each of them. */
FED_TEST_WITH(too_few_devices_for_all_groups_are_too_few, coordinator *c) {
    test_device d[5];
    coordinator_task(c,
                     "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1,"
                     " \"codec_down\": \"float32\", \"cohort\": 3, \"goal\": 3, \"minimum\": 1,"
                     " \"groups\": 3, \"strategy\": \"median\", \"rounds\": 9, \"epsilon\": 8,"
                     " \"delta\": 1e-5, \"deadline_s\": 600, \"participations\": 1}");
    for (size_t k = 0; k < 5; k++) {
        d[k] = coordinator_enrol(c);
    }
    play_with(c, d, 3);
    coordinator_expect_waits(c, "devices that may still take part: 2 may, and the minimum is 3");
    coordinator_wait(c, DEADLINE_MS);
    expect_finished(c);
}

/* A device that waits is not drawn: it would be told to wait on. */
FED_TEST_WITH(nobody_is_woken_in_vain, coordinator *c) {
    test_device d[3];
    fed_assignment work[2];
    coordinator_task(c, TASK);
    for (size_t k = 0; k < 3; k++) {
        d[k] = coordinator_enrol(c);
    }
    work[0] = device_ask_work(c, &d[0]);
    work[1] = device_ask_work(c, &d[1]);
    assert_int_equal(device_ask_work(c, &d[2]).action, FED_ACTION_WAIT);
    while (fedserver_woken(c->server) != 0) {
    }
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(device_upload(c, &d[k], &work[k], zeros, 1, NULL), 200);
    }
    coordinator_wait(c, 1000);
    assert_true(fedserver_is_short(task_of(c)));
    for (uint64_t key; (key = fedserver_woken(c->server)) != 0;) {
        assert_int_equal(key, FEDSERVER_HOLD_VERSION); /* evaluators */
    }
}

FED_TEST_WITH(devices_that_enrol_let_it_go_on, coordinator *c) {
    test_device d[4];
    begin(c, TASK, d, 3);
    coordinator_wait(c, DEADLINE_MS - 1000);
    d[3] = coordinator_enrol(c);
    coordinator_wait(c, 1000);
    assert_false(fedserver_is_short(task_of(c)));
    play(c, &d[2]);
    assert_int_equal(task_of(c)->versions.version, 2);
}

FED_TEST_WITH(the_wait_is_no_longer_after_a_restart, coordinator *c) {
    test_device d[3];
    begin(c, TASK, d, 3);
    coordinator_wait(c, DEADLINE_MS - 1000);
    const int64_t ends_ms = fedserver_shortage_ends_ms(task_of(c));
    coordinator_restart(c);
    assert_int_equal(fedserver_shortage_ends_ms(task_of(c)), ends_ms);
    coordinator_wait(c, 1000);
    expect_finished(c);
}

/* Where devices rest, no later round can come without this one. */
FED_TEST_WITH(a_fleet_that_rests_is_short_of_devices, coordinator *c) {
    test_device d[4];
    begin(c, TASK_WITH(", \"participations\": 5, \"apart\": 2, \"selection\": \"round_robin\""), d,
          3);
    assert_true(fedserver_is_short(task_of(c)));
    d[3] = coordinator_enrol(c);
    coordinator_wait(c, 1000);
    assert_false(fedserver_is_short(task_of(c)));
    play(c, &d[2]);
    assert_false(fedserver_is_short(task_of(c))); /* the first two may again */
    play(c, d);
}

static void revoke(coordinator *c, const test_device *device) {
    fedserver_entry entry;
    char name[FED_SHA256_HEX];
    fed_error err = {0};
    fedserver *other = NULL;
    coordinator_commit(c);
    fed_hex(device->fingerprint, FED_SHA256_SIZE, name);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_device_revoke(other, c->now_ms, name, &entry, &err));
    fedserver_close(other);
    coordinator_commit(c);
    coordinator_wait(c, 1000);
}

/* A device that was counted on is shut out. The round had an update of another one by then. */
FED_TEST_WITH(an_attempt_goes_to_its_end_before_the_task_does, coordinator *c) {
    test_device d[4];
    begin(c, TASK, d, 4);
    const fed_assignment work = device_ask_work(c, &d[2]);
    assert_int_equal(device_upload(c, &d[2], &work, zeros, 1, NULL), 200);
    revoke(c, &d[3]);
    coordinator_wait(c, DEADLINE_MS);
    assert_true(fedserver_is_short(task_of(c)));
    assert_true(fedserver_training_runs(task_of(c)));
    coordinator_wait(c, DEADLINE_MS);
    expect_finished(c);
    uint32_t left = 9;
    fed_error err = {0};
    assert_fed_ok_err(c->server->store->update_count(c->server->db, 1, 2, &left, &err));
    assert_int_equal(left, 0);
}

/* A restart finds a device shut out, while another one has a lease: that may report. */
FED_TEST_WITH(a_lease_stands_while_there_are_too_few_devices, coordinator *c) {
    enum { LATER_MS = 100 * 1000 };
    test_device d[4];
    begin(c, TASK, d, 4);
    coordinator_wait(c, LATER_MS);
    const fed_assignment work = device_ask_work(c, &d[2]);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    revoke(c, &d[3]);
    coordinator_restart(c);
    assert_true(fedserver_is_short(task_of(c)));
    coordinator_wait(c, DEADLINE_MS - 2000);
    assert_true(fedserver_training_runs(task_of(c)));
    assert_int_equal(device_upload(c, &d[2], &work, zeros, 1, NULL), 200);
    coordinator_wait(c, LATER_MS);
    expect_finished(c);
}

/* Too few devices are enrolled, whatever they have spent: that is not the budget. */
FED_TEST_WITH(too_few_enrolled_devices_are_no_spent_budget, coordinator *c) {
    test_device d[2];
    begin(c, TASK_WITH(", \"participations\": 5"), d, 2);
    revoke(c, &d[1]);
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_TRAIN);
    coordinator_wait(c, DEADLINE_MS);
    assert_int_equal(task_of(c)->round.attempt, 2);
    coordinator_wait(c, DEADLINE_MS);
    assert_false(fedserver_is_short(task_of(c)));
    assert_true(fedserver_training_runs(task_of(c)));
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
