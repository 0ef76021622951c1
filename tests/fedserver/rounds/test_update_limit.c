/* A counted update that is sent again must be acknowledged even if it exceeds the present
 * limit, and whatever has become of its task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#define LARGE                                                                                      \
    "{\"model\": \"input 100 | dense 10\", \"codec_up\": \"float32\", \"codec_down\": "            \
    "\"float32\", \"rounds\": 2, \"cohort\": 1}"
#define SMALL                                                                                      \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"float32\", "  \
    "\"rounds\": 1, \"cohort\": 1}"

enum { VALUES = 1010, BYTES = 4 * VALUES };

static int refusal(coordinator *c, const test_device *d, uint64_t len) {
    const fedserver_request head = {.listener = FEDSERVER_DEVICES,
                                    .method = "POST",
                                    .path = "/v1/update",
                                    .query = "",
                                    .fingerprint = d->fingerprint,
                                    .certificate = d->certificate};
    return fedserver_body_refused(c->server, &head, len);
}

static uint64_t begin_large(coordinator *c, const test_device *d, fed_writer *update) {
    static float x[VALUES];
    const uint64_t id = coordinator_task(c, LARGE);
    const fed_assignment work = device_ask_work(c, d);
    fed_writer_growing(update);
    device_encode(&work, x, 1, update);
    answer a = coordinator_ask(c, d, "POST", "/v1/update", "", update->data, update->len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    coordinator_commit(c);
    return id;
}

static void assert_taken_again(coordinator *c, const test_device *d, const fed_writer *update) {
    assert_int_equal(refusal(c, d, update->len), 0);
    answer a = coordinator_ask(c, d, "POST", "/v1/update", "", update->data, update->len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

static void deed(coordinator *c, uint64_t id, fedserver_task_deed what) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, id, what, &err));
    coordinator_commit(c);
    coordinator_wait(c, 1);
    coordinator_commit(c);
}

static void of_a_paused_task_after_a_restart(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    fed_writer update;
    const uint64_t id = begin_large(c, &d, &update);
    deed(c, id, FEDSERVER_PAUSE);
    assert_taken_again(c, &d, &update);
    coordinator_crash(c);
    assert_taken_again(c, &d, &update);
    fed_writer_free(&update);
}

static void of_a_cancelled_task_while_a_smaller_one_runs(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    fed_writer update;
    const uint64_t id = begin_large(c, &d, &update);
    coordinator_task(c, SMALL);
    deed(c, id, FEDSERVER_CANCEL);
    for (int k = 0; k < 2; k++) {
        assert_taken_again(c, &d, &update);
        coordinator_crash(c);
    }
    assert_taken_again(c, &d, &update);
    fed_writer_free(&update);
}

static void what_no_task_can_have_made_is_refused(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    fed_writer update;
    assert_int_equal(refusal(c, &d, BYTES), 413);
    begin_large(c, &d, &update);
    assert_int_equal(refusal(c, &d, 3 * BYTES), 413);
    coordinator_crash(c);
    assert_int_equal(refusal(c, &d, 3 * BYTES), 413);
    fed_writer_free(&update);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(of_a_paused_task_after_a_restart),
        WITH_COORDINATOR(of_a_cancelled_task_while_a_smaller_one_runs),
        WITH_COORDINATOR(what_no_task_can_have_made_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
