/* Adding a form of updates takes a file and a line of intakes.def; an addition to the rounds
 * takes a line of additions.def. This test uses copies of both tables, with the rest of the
 * coordinator unchanged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#define TASK(name, strategy)                                                                       \
    "{\"name\": \"" name "\", \"model\": \"input 8 | dense 3\", \"codec_up\": \"float32\","        \
    " \"codec_down\": \"float32\", \"cohort\": 2, \"rounds\": 2, \"strategy\": \"" strategy "\"}"

enum { VALUES = 27 };

static void values_of(coordinator *c, const test_device *d, const fed_task *task, uint32_t version,
                      float values[VALUES]) {
    assert_int_equal(device_download(c, d, task, -1, version, values, NULL), 200);
}

static int send_masked(coordinator *c, const test_device *d, const fed_assignment *work,
                       size_t bytes) {
    static const uint8_t sealed[8] = {0xfe, 0xdc, 0xba, 0x98};
    fed_writer w;
    fed_writer_growing(&w);
    fed_update_write(&w, &(fed_update){.task = work->task.id,
                                       .round = work->round,
                                       .lease = work->lease,
                                       .samples = 5,
                                       .loss = 1});
    fed_write_bytes(&w, sealed, bytes);
    answer a = coordinator_ask(c, d, "POST", "/v1/update", NULL, w.data, w.len);
    const int status = a.status;
    answer_free(&a);
    fed_writer_free(&w);
    return status;
}

static void a_round_of_masked_updates_commits_and_outlives_a_crash(void **state) {
    coordinator *c = *state;
    float before[VALUES], after[VALUES];
    coordinator_task(c, TASK("sealed sums", "fedavg"));
    test_device d[] = {coordinator_enrol(c), coordinator_enrol(c)};
    const fed_assignment work[] = {device_ask_work(c, &d[0]), device_ask_work(c, &d[1])};
    values_of(c, &d[0], &work[0].task, 0, before);
    assert_int_equal(send_masked(c, &d[0], &work[0], 5), 400);
    assert_int_equal(send_masked(c, &d[0], &work[0], 4), 200);
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(send_masked(c, &d[1], &work[1], 4), 200);
    assert_int_equal(device_ask_work(c, &d[0]).round, 2);
    values_of(c, &d[0], &work[0].task, 1, after);
    assert_memory_equal(before, after, sizeof before);
}

static void another_task_beside_it_is_plain(void **state) {
    coordinator *c = *state;
    coordinator_task(c, TASK("as ever", "fedavg"));
    test_device d[] = {coordinator_enrol(c), coordinator_enrol(c)};
    const fed_assignment work[] = {device_ask_work(c, &d[0]), device_ask_work(c, &d[1])};
    float x[VALUES] = {0}, before[VALUES], after[VALUES];
    x[0] = 0.5F;
    values_of(c, &d[0], &work[0].task, 0, before);
    assert_int_equal(send_masked(c, &d[0], &work[0], 4), 400);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(device_upload(c, &d[k], &work[k], x, 5, NULL), 200);
    }
    values_of(c, &d[0], &work[0].task, 1, after);
    assert_true(after[0] == before[0] + 0.5F && after[1] == before[1]);
}

static void an_addition_changes_what_the_updates_were_combined_into(void **state) {
    coordinator *c = *state;
    float before[VALUES], after[VALUES];
    coordinator_task(c, TASK("sealed and moved", "clip:norm=3+fedavg+shift:by=0.25"));
    test_device d[] = {coordinator_enrol(c), coordinator_enrol(c)};
    const fed_assignment work[] = {device_ask_work(c, &d[0]), device_ask_work(c, &d[1])};
    values_of(c, &d[0], &work[0].task, 0, before);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(send_masked(c, &d[k], &work[k], 4), 200);
    }
    values_of(c, &d[0], &work[0].task, 1, after);
    for (size_t i = 0; i < VALUES; i++) {
        assert_true(after[i] == before[i] + 0.25F);
    }
}

static void messages_name_what_there_is(void **state) {
    fed_error err = {0};
    fedserver_strategy strategy;
    (void)state;
    assert_fed_status(fedserver_strategy_parse("mean", &strategy, &err), FED_EINVAL);
    assert_fed_says(err, "shift:by=1, clip:norm=1");
    assert_fed_status(fedserver_strategy_parse("shift+clip:norm=1+shift", &strategy, &err),
                      FED_EINVAL);
    assert_fed_says(err, "shift is given twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_round_of_masked_updates_commits_and_outlives_a_crash),
        WITH_COORDINATOR(another_task_beside_it_is_plain),
        WITH_COORDINATOR(an_addition_changes_what_the_updates_were_combined_into),
        cmocka_unit_test(messages_name_what_there_is),
    };
    return cmocka_run_group_tests_name("new_intake", tests, NULL, NULL);
}
