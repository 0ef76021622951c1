/* A task with phases: devices are told each round's phase, and updates are decoded by it,
 * whatever process dies and however late an update comes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/rng.h"

enum { VALUES = 330 };

#define TASK                                                                                       \
    "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"dgc:p=0.25\", \"codec_down\": "          \
    "\"float32\","                                                                                 \
    " \"optimizer\": \"momentum\", \"local_steps\": 1, \"learning_rate\": 0.5, \"rounds\": 6,"     \
    " \"phases\": [{\"round\": 3, \"codec_up\": \"topk:p=0.01\", \"local_steps\": 7, \"batch\": "  \
    "3},"                                                                                          \
    " {\"round\": 5, \"codec_up\": \"sbc:p=0.01\", \"codec_down\": \"3lc:s=1\","                   \
    " \"learning_rate\": 0.125}]"

static const char sync_task[] = TASK ", \"cohort\": 1}";
static const char async_task[] = TASK ", \"cohort\": 3, \"goal\": 2, \"staleness\": 3}";

static void make_update(uint32_t seed, float *x) {
    fed_rng rng;
    fed_rng_init(&rng, seed, 0, 0);
    for (int i = 0; i < VALUES; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

static void expect_phase(const fed_task *task, uint32_t round) {
    assert_string_equal(task->codec_up, round < 3   ? "dgc:p=0.25"
                                        : round < 5 ? "topk:p=0.01"
                                                    : "sbc:p=0.01");
    assert_int_equal(task->local_steps, round < 3 ? 1 : 7);
    assert_int_equal(task->batch, round < 3 ? 8 : 3);
    assert_true(task->learning_rate == (round < 5 ? 0.5f : 0.125f));
    assert_string_equal(task->optimizer, "momentum");
}

static void send_update(coordinator *c, const test_device *d, const fed_assignment *work) {
    float x[VALUES];
    make_update(work->round, x);
    assert_int_equal(device_upload(c, d, work, x, 1, NULL), 200);
    coordinator_commit(c);
}

typedef struct sizes {
    uint64_t up[7], down[7];
} sizes;

static fed_status note_sizes(void *user, const fedserver_round_row *row, fed_error *err) {
    sizes *s = user;
    (void)err;
    s->up[row->number] = row->update_bytes;
    s->down[row->number] = row->delta_bytes;
    return FED_OK;
}

static void each_round_is_as_its_phase_says_also_after_a_crash(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    sizes s = {0};
    float values[VALUES];
    test_device d = coordinator_enrol(c), e = coordinator_enrol_evaluator(c);
    coordinator_task(c, sync_task);
    for (uint32_t round = 1; round <= 6; round++) {
        fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(work.round, round);
        expect_phase(&work.task, round);
        coordinator_restart(c);
        fed_assignment again = device_ask_work(c, &d);
        assert_true(again.lease == work.lease);
        expect_phase(&again.task, round);
        fed_assignment measure = device_checkin(c, &e, FED_ROLE_EVALUATE, 0, 0);
        assert_int_equal(measure.action, FED_ACTION_EVALUATE);
        expect_phase(&measure.task, round);
        assert_int_equal(device_download(c, &d, &work.task,
                                         round - 1 == 0 ? -1 : (int64_t)round - 2, work.version,
                                         values, NULL),
                         200);
        assert_true(fed_digest(values, VALUES) == work.digest);
        send_update(c, &d, &work);
    }
    assert_fed_ok_err(c->server->store->round_each(c->server->db, 1, 10, note_sizes, &s, &err));
    assert_true(s.up[2] > 4 * s.up[3] && s.up[3] == s.up[4] && s.up[4] > s.up[5]);
    assert_true(s.down[4] > VALUES * 4 && s.down[5] < VALUES * 2);
}

static void an_update_in_another_phases_codec_is_none_of_this_task(void **state) {
    coordinator *c = *state;
    float x[VALUES];
    char word[32];
    test_device d = coordinator_enrol(c);
    coordinator_task(c, sync_task);
    make_update(1, x);
    fed_assignment work = device_ask_work(c, &d), wrong = work;
    snprintf(wrong.task.codec_up, sizeof wrong.task.codec_up, "topk:p=0.01");
    assert_int_equal(device_upload(c, &d, &wrong, x, 1, word), 400);
    assert_string_equal(word, "bad_update");
    assert_int_equal(device_upload(c, &d, &work, x, 1, NULL), 200);
}

/* If the repeated update was refused as too large, the device would keep the update and send it a
 * second time. */
static void an_update_of_a_larger_phase_is_still_known_as_counted(void **state) {
    coordinator *c = *state;
    float x[VALUES];
    fed_writer body;
    fed_writer_growing(&body);
    test_device d = coordinator_enrol(c);
    coordinator_task(c,
                     "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"float32\", \"goal\": 1,"
                     " \"rounds\": 2, \"phases\": [{\"round\": 2, \"codec_up\": \"sbc\"}]}");
    make_update(1, x);
    fed_assignment work = device_ask_work(c, &d);
    device_encode(&work, x, 1, &body);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(coordinator_status(c, &d, "POST", "/v1/update", "", body.data, body.len),
                         200);
        coordinator_commit(c);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
    }
    fed_writer_free(&body);
}

/** Let rounds 1 and 2 pass, with updates of d[1] and d[2]. Returns the lease of d[0] for round
 * 1. */
static fed_assignment reach_round_3(coordinator *c, test_device *d) {
    for (int k = 0; k < 3; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, async_task);
    fed_assignment first = device_ask_work(c, &d[0]);
    assert_int_equal(first.round, 1);
    for (int k = 0; k < 4; k++) {
        fed_assignment work = device_ask_work(c, &d[1 + k % 2]);
        send_update(c, &d[1 + k % 2], &work);
    }
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.number, 3);
    return first;
}

static void an_update_counts_in_the_codec_of_its_own_round(void **state) {
    coordinator *c = *state;
    float x[VALUES];
    test_device d[3];
    fed_assignment old = reach_round_3(c, d), wrong = old;
    expect_phase(&old.task, 1);
    make_update(1, x);
    /* The codec of round 3's phase. */
    snprintf(wrong.task.codec_up, sizeof wrong.task.codec_up, "topk:p=0.01");
    assert_int_equal(device_upload(c, &d[0], &wrong, x, 1, NULL), 400);
    assert_int_equal(device_upload(c, &d[0], &old, x, 1, NULL), 200);
    fed_assignment fresh = device_ask_work(c, &d[0]);
    assert_int_equal(fresh.round, 3);
    expect_phase(&fresh.task, 3);
    assert_int_equal(device_upload(c, &d[0], &fresh, x, 1, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 3);
}

static void a_device_that_asks_again_gets_the_new_phase_with_its_lease(void **state) {
    coordinator *c = *state;
    float x[VALUES];
    test_device d[3];
    fed_assignment old = reach_round_3(c, d), again = device_ask_work(c, &d[0]);
    assert_true(again.lease == old.lease && again.round == 3);
    expect_phase(&again.task, 3);
    make_update(1, x);
    assert_int_equal(device_upload(c, &d[0], &again, x, 1, NULL), 200);
}

static uint64_t digest_of(bool crash) {
    static coordinator c;
    coordinator_setup(&c);
    float x[VALUES];
    test_device d[3];
    fed_assignment old = reach_round_3(&c, d), fresh = device_ask_work(&c, &d[1]);
    make_update(9, x);
    assert_int_equal(device_upload(&c, &d[0], &old, x, 5, NULL), 200);
    coordinator_commit(&c);
    if (crash) {
        coordinator_crash(&c);
    }
    send_update(&c, &d[1], &fresh);
    assert_int_equal(fedserver_rounds_front(&c.server->rounds)->versions.version, 3);
    uint64_t digest = fedserver_rounds_front(&c.server->rounds)->versions.digest;
    coordinator_teardown(&c);
    return digest;
}

static void a_crash_between_updates_of_two_phases_changes_no_bit(void) {
    assert_true(digest_of(true) == digest_of(false));
}

static void expect_sound(coordinator *c) {
    fedserver_close(c->server);
    coordinator_check(c->directory);
    coordinator_open(c);
}

static void a_check_knows_the_codec_of_each_round(void **state) {
    coordinator *c = *state;
    test_device d[3];
    fed_assignment work = reach_round_3(c, d);
    send_update(c, &d[0], &work);
    expect_sound(c);
    for (int k = 0; k < 6; k++) {
        work = device_ask_work(c, &d[0]);
        send_update(c, &d[0], &work);
        expect_sound(c);
    }
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.number, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(each_round_is_as_its_phase_says_also_after_a_crash),
        WITH_COORDINATOR(an_update_in_another_phases_codec_is_none_of_this_task),
        WITH_COORDINATOR(an_update_of_a_larger_phase_is_still_known_as_counted),
        WITH_COORDINATOR(an_update_counts_in_the_codec_of_its_own_round),
        WITH_COORDINATOR(a_device_that_asks_again_gets_the_new_phase_with_its_lease),
        fed_unit_test(a_crash_between_updates_of_two_phases_changes_no_bit),
        WITH_COORDINATOR(a_check_knows_the_codec_of_each_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
