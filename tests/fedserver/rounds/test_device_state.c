/* The word for a device's state, without a running task and in a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fedserver/rounds/device_state.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/pace.h"

enum { NOW_MS = 2000000000, LATER_MS = NOW_MS + 1 };

static const struct {
    const char *word;
    fedserver_device device;
} cases[] = {
    {"new", {.expires_ms = LATER_MS}},
    {"away", {.expires_ms = LATER_MS, .seen_ms = NOW_MS - FEDSERVER_PACE_LATELY_MS}},
    {"waiting", {.expires_ms = LATER_MS, .seen_ms = NOW_MS - FEDSERVER_PACE_LATELY_MS + 1}},
    {"waiting",
     {.expires_ms = LATER_MS, .seen_ms = NOW_MS, .cloned_ms = NOW_MS - FEDSERVER_CLONED_MS}},
    {"cloned",
     {.expires_ms = LATER_MS, .seen_ms = NOW_MS, .cloned_ms = NOW_MS - FEDSERVER_CLONED_MS + 1}},
    {"expired", {.expires_ms = NOW_MS, .seen_ms = NOW_MS, .cloned_ms = NOW_MS}},
    {"revoked", {.expires_ms = NOW_MS, .seen_ms = NOW_MS, .cloned_ms = NOW_MS, .revoked_ms = 1}},
    {"waiting", {.expires_ms = LATER_MS, .seen_ms = NOW_MS, .lease = 7}},
};

static void a_devices_row_and_the_time_make_its_word(void) {
    const fedserver_rounds idle = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_string_equal(fedserver_device_state(&idle, &cases[k].device, NOW_MS), cases[k].word);
    }
}

static const char *word_of(const coordinator *c, const test_device *d, int64_t now_ms) {
    return fedserver_device_state(&c->server->rounds, coordinator_device(c, d), now_ms);
}

static void small_task(coordinator *c) {
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"codec_down\": \"float32\", \"rounds\": 9, \"deadline_s\": 100,"
                        " \"cohort\": 2, \"goal\": 2}");
}

static void in_a_task_it_trains_until_its_update_or_the_deadline(void **state) {
    coordinator *c = *state;
    const float ones[6] = {1, 1, 1, 1, 1, 1};
    const test_device d = coordinator_enrol(c), e = coordinator_enrol(c);
    assert_string_equal(word_of(c, &d, c->now_ms), "new");
    (void)device_ask_work(c, &d);
    assert_string_equal(word_of(c, &d, c->now_ms), "waiting");
    small_task(c);
    const fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(device_ask_work(c, &e).action, FED_ACTION_TRAIN);
    assert_string_equal(word_of(c, &d, c->now_ms), "training");
    const int64_t deadline_ms = coordinator_device(c, &d)->lease_deadline_ms;
    assert_string_equal(word_of(c, &d, deadline_ms - 1), "training");
    assert_string_equal(word_of(c, &d, deadline_ms), "late");
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    assert_string_equal(word_of(c, &d, c->now_ms), "waiting");
    coordinator_wait(c, 101000);
    assert_string_equal(word_of(c, &e, c->now_ms), "late");
    assert_string_equal(word_of(c, &d, c->now_ms), "waiting");
}

static void a_device_that_has_declined_every_task_says_so_while_the_decline_stands(void **state) {
    coordinator *c = *state;
    uint8_t body[100];
    fed_writer w;
    small_task(c);
    const test_device d = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &d);
    fed_writer_fixed(&w, body, sizeof body);
    fed_decline_write(&w, &(fed_decline){.task = work.task.id,
                                         .round = work.round,
                                         .lease = work.lease,
                                         .reason = "no samples"});
    answer a = coordinator_ask(c, &d, "POST", "/v1/decline", "", body, w.len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    assert_string_equal(word_of(c, &d, c->now_ms), "declined");
    assert_string_not_equal(word_of(c, &d, c->now_ms + FEDSERVER_DECLINE_MS), "declined");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(a_devices_row_and_the_time_make_its_word),
        WITH_COORDINATOR(in_a_task_it_trains_until_its_update_or_the_deadline),
        WITH_COORDINATOR(a_device_that_has_declined_every_task_says_so_while_the_decline_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
