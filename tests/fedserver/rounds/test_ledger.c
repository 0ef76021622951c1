/* The ledger of a task that promises an epsilon: charges, refusals, and the noise of its rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/ledger.h"

#include <math.h>

#include "coordinator_fixture.h"
#include "fed/clock.h"
#include "fed_cases.h"
#include "fedserver/rounds/masked.h"
#include "fedserver/server.h"
#include "fedserver/task/private_task.h"

enum { DEVICES = 3, INPUTS = 100, VALUES = 2 * INPUTS + 2 };

#define TASK_OF(rounds, goal, rest)                                                                \
    "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1,"                \
    " \"codec_down\": \"float32\", \"cohort\": 3, \"goal\": " goal ", \"rounds\": " rounds         \
    ", \"epsilon\": 8, \"delta\": 1e-5" rest "}"
#define TASK TASK_OF("9", "2", ", \"participations\": 2")

static fedserver_training *task_of(coordinator *c) {
    fedserver_training *t = fedserver_rounds_task(&c->server->rounds, 1);
    assert_non_null(t);
    return t;
}

static const float zeros[VALUES];

/* A round in which the first `count` devices take part, with updates of zeros. */
static void play(coordinator *c, const test_device *devices, size_t count) {
    fed_assignment work[DEVICES];
    for (size_t k = 0; k < count; k++) {
        work[k] = device_ask_work(c, &devices[k]);
        assert_int_equal(work[k].action, FED_ACTION_TRAIN);
    }
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(device_upload(c, &devices[k], &work[k], zeros, 1, NULL), 200);
    }
}

static fed_status say_row(void *user, const fedserver_ledger_row *row, fed_error *err) {
    char *said = user;
    (void)err;
    sprintf(said + strlen(said), "%lld:%u@%u ", (long long)row->device, row->taken,
            row->last_round);
    return FED_OK;
}

static void expect_ledger(coordinator *c, const char *wanted) {
    char said[400] = "";
    fed_error err = {0};
    assert_fed_ok_err(c->server->store->ledger_each(c->server->db, 1, say_row, said, &err));
    assert_string_equal(said, wanted);
}

FED_TEST_WITH(devices_are_told_what_is_promised, coordinator *c) {
    coordinator_task(c, TASK);
    const test_device d = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &d);
    assert_true(work.privacy.epsilon == 8 && work.privacy.delta == 1e-5F);
    assert_int_equal(work.privacy.participations, 2);
    const fed_privacy_fields shape = fed_privacy_shape(&work.privacy, 6, 1, VALUES);
    const fedserver_promise promise =
        fedserver_promise_of(&task_of(c)->task, &task_of(c)->arch.layout);
    assert_true(fabs(sqrt(work.privacy.sigma2) / (promise.z * shape.reach) - 1) < 1e-12);
    assert_true(shape.width > fed_privacy_width(6, 3, 0));
    assert_true(fabs(fedserver_promise_spent(&task_of(c)->task, 2) - 8) < 1e-6);
    assert_true(fedserver_promise_spent(&task_of(c)->task, 1) < 8);
}

FED_TEST_WITH(a_device_is_refused_at_the_very_round, coordinator *c) {
    coordinator_task(c, TASK);
    test_device d[DEVICES];
    for (size_t k = 0; k < DEVICES; k++) {
        d[k] = coordinator_enrol(c);
    }
    play(c, d, 2);
    expect_ledger(c, "1:1@1 2:1@1 ");
    play(c, d, 2);
    expect_ledger(c, "1:2@2 2:2@2 ");
    fed_assignment told = device_ask_work(c, &d[0]);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_SPENT);
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(device_ask_work(c, &d[1]).reason, FED_WAIT_SPENT);
    assert_int_equal(device_ask_work(c, &d[2]).action, FED_ACTION_TRAIN);
}

FED_TEST_WITH(a_task_without_participations_is_finished, coordinator *c) {
    coordinator_task(c, TASK);
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    play(c, d, 2);
    assert_true(fedserver_training_runs(task_of(c)));
    play(c, d, 2);
    assert_false(fedserver_training_runs(task_of(c)));
    assert_int_equal(task_of(c)->task.state, FEDSERVER_TASK_FINISHED);
    assert_int_equal(task_of(c)->versions.version, 2);
}

#define APART                                                                                      \
    ", \"participations\": 3, \"apart\": 2, \"selection\": \"round_robin\", \"deadline_s\": 600"

FED_TEST_WITH(a_device_rests_between_its_rounds, coordinator *c) {
    coordinator_task(c, TASK_OF("9", "1", APART));
    const test_device d[] = {coordinator_enrol(c), coordinator_enrol(c)};
    play(c, &d[0], 1);
    fed_assignment told = device_ask_work(c, &d[0]);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_SPENT);
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(device_ask_work(c, &d[0]).reason, FED_WAIT_SPENT);
    play(c, &d[1], 1);
    assert_int_equal(device_ask_work(c, &d[1]).reason, FED_WAIT_SPENT);
    play(c, &d[0], 1); /* it is free again in round 3 */
    expect_ledger(c, "1:2@3 2:1@2 ");
}

static void give_back(coordinator *c, const test_device *d, const fed_assignment *work) {
    uint8_t body[100];
    fed_writer w;
    const fed_decline message = {.task = work->task.id, .round = work->round, .lease = work->lease};
    fed_writer_fixed(&w, body, sizeof body);
    fed_decline_write(&w, &message);
    answer a = coordinator_ask(c, d, "POST", "/v1/decline", "", body, w.len);
    answer_free(&a);
    assert_int_equal(a.status, 200);
}

/* By its own record it rests, where the ledger lacks its message, which came too late. */
FED_TEST_WITH(a_device_that_rests_gets_one_slot_of_a_round_to_give_back, coordinator *c) {
    coordinator_task(c, TASK_OF("9", "1", APART));
    const test_device d[] = {coordinator_enrol(c), coordinator_enrol(c)};
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_TRAIN);
    play(c, &d[1], 1);
    const fed_assignment work = device_ask_work(c, &d[0]);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(work.round, 2);
    give_back(c, &d[0], &work);
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_WAIT);
    coordinator_wait(c, 601000); /* the attempt is over, and nobody has trained */
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_TRAIN);
}

/* A training that has failed, for instance, may be tried again. */
FED_TEST_WITH(a_device_that_does_not_rest_gets_its_slot_again, coordinator *c) {
    coordinator_task(c, TASK_OF("9", "1", APART));
    const test_device d = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    give_back(c, &d, &work);
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_TRAIN);
}

/* A model that a thread makes: the set is settled in one transaction, and released in another. */
static void settle_task(coordinator *c, const char *task, fed_assignment work[2],
                        test_device d[2]) {
    c->server->rounds.apart_values = 1;
    coordinator_task(c, task);
    for (size_t k = 0; k < 2; k++) {
        d[k] = coordinator_enrol(c);
        work[k] = device_ask_work(c, &d[k]);
    }
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(device_upload(c, &d[k], &work[k], zeros, 1, NULL), 200);
    }
    assert_int_equal(task_of(c)->round.phase, FEDSERVER_ROUND_CLOSING);
}

static void settle(coordinator *c, fed_assignment work[2], test_device d[2]) {
    settle_task(c, TASK, work, d);
}

/* The sum of the round that closes, after its noise; a sum of zeros, so it is the noise. */
static void noise_of(coordinator *c, uint32_t *sums, size_t fields) {
    fed_error err = {0};
    const fedserver_training *t = task_of(c);
    const fedcodec_ring ring = {.shape = fedserver_private_fields(&t->task, &t->arch.layout)};
    assert_true(ring.shape.fields <= fields);
    memset(sums, 0, fields * sizeof *sums);
    assert_fed_ok_err(fedserver_ledger_open(&c->server->rounds, t, &ring, sums, &err));
}

FED_TEST_WITH(the_charge_is_durable_before_anything_is_released, coordinator *c) {
    fed_assignment work[2];
    test_device d[2];
    uint32_t before[512], after[512];
    settle(c, work, d);
    noise_of(c, before, 512);
    coordinator_commit(c);
    coordinator_crash(c); /* between settling and commit */
    expect_ledger(c, "1:1@1 2:1@1 ");
    assert_int_equal(task_of(c)->round.phase, FEDSERVER_ROUND_CLOSING);
    noise_of(c, after, 512);
    assert_memory_equal(before, after, sizeof before);
}

/* Are there so many rounds' correlated noises, from `first` on? */
static void expect_noises(coordinator *c, uint32_t first, uint32_t count) {
    for (uint32_t round = 1; round <= 9; round++) {
        fed_error err = {0};
        bool found = false;
        assert_fed_ok_err(
            c->server->store->opening_find(c->server->db, 1, round, NULL, 0, &found, &err));
        assert_int_equal(found, round >= first && round < first + count);
    }
}

/* Noise that later rounds take off is durable, and the same after a death. */
FED_TEST_WITH(correlated_noise_is_made_again_after_a_death, coordinator *c) {
    fed_assignment work[2];
    test_device d[2];
    uint32_t before[512], after[512];
    settle_task(c, TASK_OF("9", "2", APART), work, d);
    noise_of(c, before, 512);
    expect_noises(c, 1, 1);
    coordinator_commit(c);
    coordinator_crash(c);
    expect_noises(c, 1, 1);
    noise_of(c, after, 512);
    assert_memory_equal(before, after, sizeof before);
}

/* A thread makes the version, and stores the noise by a handle of its own. */
FED_TEST_WITH(a_threads_noise_is_there_for_the_next_round, coordinator *c) {
    enum { MOST_WAITS = 6000 };
    fed_assignment work[2];
    test_device d[2];
    settle_task(c, TASK_OF("9", "2", APART), work, d);
    coordinator_commit(c);
    for (int k = 0; k < MOST_WAITS && task_of(c)->round.phase == FEDSERVER_ROUND_CLOSING; k++) {
        fed_sleep_ms(10);
        coordinator_wait(c, 0);
        coordinator_commit(c);
    }
    assert_int_equal(task_of(c)->versions.version, 1);
    expect_noises(c, 1, 1);
}

/* Each round's noise is drawn with that of the round before, and only that one is kept. */
FED_TEST_WITH(a_round_takes_the_noise_of_the_round_before_off, coordinator *c) {
    float values[VALUES], change[VALUES], last[VALUES];
    double squares[2] = {0}, along = 0;
    coordinator_task(c, TASK_OF("4", "1", APART));
    const test_device d[] = {coordinator_enrol(c), coordinator_enrol(c)};
    const fed_assignment work = device_ask_work(c, &d[0]);
    const fedserver_training *t = task_of(c);
    const fedcodec_ring one = fedserver_masked_ring(&t->task, &t->arch.layout, 1);
    const fedcodec_ring two = fedserver_masked_ring(&t->task, &t->arch.layout, 2);
    assert_memory_equal(one.draw, two.draw, sizeof one.draw); /* one basis for all noise */
    assert_int_equal(device_download(c, &d[0], &work.task, -1, 0, values, NULL), 200);
    assert_int_equal(device_upload(c, &d[0], &work, zeros, 1, NULL), 200);
    for (uint32_t round = 1; round <= 3; round++) {
        float next[VALUES];
        expect_noises(c, round, 1);
        assert_int_equal(device_download(c, &d[0], &work.task, -1, round, next, NULL), 200);
        for (size_t i = 0; i < VALUES; i++) {
            change[i] = next[i] - values[i];
            values[i] = next[i];
            squares[round > 1] += (double)change[i] * (double)change[i];
            along += round > 1 ? (double)change[i] * (double)last[i] : 0;
            last[i] = change[i];
        }
        play(c, &d[round % 2], 1);
    }
    expect_noises(c, 1, 0); /* the task is over */
    /* Z_t = z_t - Z_(t-1) / 2: neighbours go against each other by half of a variance */
    assert_true(along / (squares[0] + squares[1]) * 3 / 2 < -0.25);
}

FED_TEST_WITH(a_settled_set_that_is_not_committed_is_not_charged, coordinator *c) {
    fed_assignment work[2];
    test_device d[2];
    settle(c, work, d);
    coordinator_crash(c);
    expect_ledger(c, "");
}

FED_TEST_WITH(the_noise_of_an_opening_has_its_variance, coordinator *c) {
    fed_assignment work[2];
    test_device d[2];
    fed_error err = {0};
    enum { TIMES = 100, FIELDS = 512 };
    double squares = 0, count = 0;
    settle(c, work, d);
    fedserver_training *t = task_of(c);
    const fedcodec_ring ring = {.shape = fedserver_private_fields(&t->task, &t->arch.layout)};
    for (int k = 0; k < TIMES; k++) {
        uint32_t sums[FIELDS] = {0};
        t->settled.set_digest[0] = (uint8_t)k;
        t->settled.noise_key[0] = 7;
        memset(&t->settled.noise_key[1], 1, sizeof t->settled.noise_key - 1);
        assert_fed_ok_err(fedserver_ledger_open(&c->server->rounds, t, &ring, sums, &err));
        for (size_t i = 0; i < ring.shape.fields; i++) {
            const double x = (double)(int32_t)sums[i];
            squares += x * x;
            count++;
        }
    }
    assert_true(count > 20000);
    /* a standard error is sqrt(2 / count), about 0.8 % */
    assert_true(fabs(squares / count / t->settled.sigma2 - 1) < 0.01);
}

/* As where a helper can't open some seals: what is left is another set, or too few updates. */
FED_TEST_WITH(a_set_that_loses_updates_is_named_anew_and_charged_once, coordinator *c) {
    coordinator_task(c, TASK_OF("3", "3", ", \"participations\": 1"));
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    fed_error err = {0};
    uint8_t whole[FED_SHA256_SIZE];
    play(c, d, 2);
    fedserver_training *t = task_of(c);
    t->round.phase = FEDSERVER_ROUND_CLOSING;
    assert_fed_ok_err(fedserver_ledger_charge(&c->server->rounds, t, &err));
    memcpy(whole, t->settled.set_digest, sizeof whole);
    t->sum.updates = t->round.received = 1;
    assert_fed_ok_err(fedserver_ledger_left_out(t, &err));
    assert_memory_not_equal(whole, t->settled.set_digest, sizeof whole);
    assert_true(t->settled.sigma2 > 0);
    t->round.phase = FEDSERVER_ROUND_OPEN;
    assert_fed_ok_err(fedserver_ledger_left_out(t, &err));
    assert_true(t->settled.sigma2 == 0);
    /* its one participation is charged for this round: it may come again, but not to the next */
    const int64_t device = t->sum.contributions[0].device;
    assert_true(fedserver_ledger_allows(t, device));
    t->round.number++;
    assert_false(fedserver_ledger_allows(t, device));
    t->round.number--;
    t->round.phase = FEDSERVER_ROUND_CLOSING;
    t->sum.updates = t->round.received = 2;
    assert_fed_ok_err(fedserver_ledger_charge(&c->server->rounds, t, &err));
    assert_memory_equal(whole, t->settled.set_digest, sizeof whole);
    expect_ledger(c, "1:1@1 2:1@1 ");
    t->round.phase = FEDSERVER_ROUND_OPEN;
}

FED_TEST_WITH(the_divisor_is_the_goal_and_never_the_count, coordinator *c) {
    float change[VALUES], before[VALUES];
    coordinator_task(c, TASK_OF("1", "3", ", \"participations\": 2, \"minimum\": 1"));
    const test_device d = coordinator_enrol(c);
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_download(c, &d, &work.task, -1, 0, before, NULL), 200);
    assert_int_equal(device_upload(c, &d, &work, zeros, 1, NULL), 200);
    coordinator_wait(c, 700000);
    assert_int_equal(device_download(c, &d, &work.task, -1, 1, change, NULL), 200);
    double squares = 0;
    for (size_t i = 0; i < VALUES; i++) {
        squares += pow((double)change[i] - (double)before[i], 2);
    }
    const fedserver_training *t = task_of(c);
    const fed_privacy_fields shape = fedserver_private_fields(&t->task, &t->arch.layout);
    const double sigma = sqrt(fedserver_privacy_of(&t->task, &t->arch.layout).sigma2);
    const double wanted = sigma * (double)shape.step * sqrt(VALUES) / 3;
    assert_true(fabs(sqrt(squares) / wanted - 1) < 0.25); /* divided by 1 it would be 3 */
}

FED_TEST(what_does_not_go_with_a_promise_is_refused) {
    static const char *const cases[][2] = {
        {", \"participations\": 2, \"staleness\": 3", "staleness"},
        {", \"participations\": 2, \"strategy\": \"median\"", "strategy"},
        {", \"participations\": 2, \"selection\": \"weighted\"", "selection"},
        {", \"participations\": 2, \"noise\": \"helper\"", "noise"},
        {", \"participations\": 2, \"noise\": \"both\"", "noise"},
        {", \"participations\": 2, \"apart\": 2", "selection"},
        {", \"participations\": 2, \"apart\": 65", "apart"},
        {"", "participations"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char text[800];
        fed_error err = {0};
        snprintf(text, sizeof text, TASK_OF("9", "2", "%s"), cases[k][0]);
        assert_fed_fails(fedserver_task_check("t.json", text, strlen(text), &err), FED_EINVAL,
                         cases[k][1]);
    }
    static const char *const alone[][2] = {
        {"\"epsilon\": 8, \"participations\": 2", "epsilon"},
        {"\"delta\": 1e-5", "delta"},
        {"\"participations\": 2", "participations"},
        {"\"noise\": \"coordinator\"", "noise"},
        {"\"apart\": 2", "apart"},
        {"\"codec_up\": \"ring:b=6\", \"clip\": 1, \"apart\": 2", "apart"},
        {"\"codec_up\": \"ring:b=6,p=0.5\", \"clip\": 1, \"epsilon\": 2, \"delta\": 1e-5,"
         " \"participations\": 2, \"apart\": 2, \"selection\": \"round_robin\"",
         "codec_up"},
        {"\"codec_up\": \"ring:b=16\", \"clip\": 1, \"epsilon\": 0.02, \"delta\": 1e-5,"
         " \"participations\": 2, \"apart\": 2, \"selection\": \"round_robin\"",
         "epsilon"},
        {"\"codec_up\": \"ring:b=6\", \"clip\": 1, \"epsilon\": 2, \"participations\": 2", "delta"},
        {"\"codec_up\": \"ring:b=16\", \"clip\": 1, \"epsilon\": 0.01, \"delta\": 1e-9,"
         " \"participations\": 1000000",
         "epsilon"},
    };
    for (size_t k = 0; k < sizeof alone / sizeof alone[0]; k++) {
        char text[800];
        fed_error err = {0};
        snprintf(text, sizeof text,
                 "{\"model\": \"input 100 | dense 2\", \"cohort\": 3, \"rounds\": 1, %s}",
                 alone[k][0]);
        assert_fed_fails(fedserver_task_check("t.json", text, strlen(text), &err), FED_EINVAL,
                         alone[k][1]);
    }
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
