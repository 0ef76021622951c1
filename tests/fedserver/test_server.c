/* Whole rounds through fedserver_handle: what devices are told, which updates count, and the
 * resulting model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/rounds/intake.h"

enum { PARAMETERS = 6 }; /* of the model "input 2 | dense 2" */

static const char plain[] = "{\"name\": \"plain\", \"model\": \"input 2 | dense 2\","
                            " \"codec_up\": \"float32\", \"codec_down\": \"float32\","
                            " \"rounds\": 2, \"cohort\": 3, \"goal\": 2, \"deadline_s\": 10}";
static const char single[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                             " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 1}";
static const char strict[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                             " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 3,"
                             " \"minimum\": 2, \"deadline_s\": 10}";

static const float ones[PARAMETERS] = {1, 1, 1, 1, 1, 1};

static const float *model(const coordinator *c) {
    return fedserver_rounds_front(&c->server->rounds)->versions.values;
}

/* Upload x and return the answer in short form, such as "409 lease_unknown". */
static const char *upload(coordinator *c, const test_device *d, const fed_assignment *work,
                          const float *x) {
    char word[32];
    const int status = device_upload(c, d, work, x, 1, word);
    return answer_short(status, word);
}

static void without_a_task_a_device_waits(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(work.action, FED_ACTION_WAIT);
    assert_int_equal(work.reason, FED_WAIT_NO_TASK);
    assert_in_range(work.retry_ms, 3000, 8000);
}

static void a_round_commits_the_weighted_mean(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    coordinator_task(c, plain);
    float before[PARAMETERS];
    memcpy(before, model(c), sizeof before);
    const fed_assignment work_a = device_ask_work(c, &a), work_b = device_ask_work(c, &b);
    assert_int_equal(work_a.action, FED_ACTION_TRAIN);
    assert_int_equal(work_a.round, 1);
    assert_int_equal(work_a.version, 0);
    assert_int_equal(work_a.deadline_ms, 10000);
    assert_string_equal(work_a.task.codec_up, "float32");
    assert_true(work_a.lease != work_b.lease);
    const float x[PARAMETERS] = {4, -4, 2, 0, 8, 0.5f};
    assert_int_equal(device_upload(c, &a, &work_a, x, 1, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 0);
    assert_int_equal(device_upload(c, &b, &work_b, ones, 3, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
    for (int i = 0; i < PARAMETERS; i++) {
        float mean = (x[i] + 3.0f) / 4.0f;
        assert_true(model(c)[i] == before[i] + mean);
    }
    assert_int_equal(device_ask_work(c, &a).round, 2);
}

static void the_same_device_gets_the_same_lease_and_what_is_left_of_the_deadline(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    fed_assignment first = device_ask_work(c, &d);
    coordinator_restart(c);
    coordinator_wait(c, 4000);
    fed_assignment second = device_ask_work(c, &d);
    assert_true(first.lease == second.lease && first.lease != 0);
    assert_int_equal(second.deadline_ms, 6000);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, 1);
}

static void an_update_counts_once_however_often_it_is_sent(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    coordinator_task(c, plain);
    const fed_assignment work_a = device_ask_work(c, &a), work_b = device_ask_work(c, &b);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(device_upload(c, &a, &work_a, ones, 1, NULL), 200);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
    }
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 1, 0).reason, FED_WAIT_REPORTED);
    assert_int_equal(device_upload(c, &b, &work_b, ones, 1, NULL), 200);
    coordinator_restart(c);
    /* the update's round is committed already, but a repeated update is still acknowledged */
    assert_int_equal(device_upload(c, &a, &work_a, ones, 1, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 0);
}

typedef struct heard {
    unsigned warnings;
    char last[300];
} heard;

static void hear(void *user, fed_log_level level, const char *line) {
    heard *h = user;
    h->warnings += level == FED_LOG_WARN;
    snprintf(h->last, sizeof h->last, "%s", line);
}

static void a_clone_is_refused_marked_and_named(void **state) {
    coordinator *c = *state;
    heard h = {0};
    const fed_log log = {.user = &h, .write = hear, .level = FED_LOG_WARN};
    const float others[PARAMETERS] = {2, 2, 2, 2, 2, 2};
    char name[17];
    test_device a = coordinator_enrol(c);
    coordinator_task(c, plain);
    const fed_assignment work = device_ask_work(c, &a);
    assert_int_equal(device_upload(c, &a, &work, ones, 1, NULL), 200);
    coordinator_restart(c);
    c->server->rounds.log = &log;
    assert_int_equal(device_upload(c, &a, &work, ones, 1, NULL), 200);
    assert_int_equal(h.warnings, 0);
    for (int k = 0; k < 3; k++) {
        assert_string_equal(upload(c, &a, &work, others), "409 cloned");
    }
    fed_hex(a.fingerprint, 8, name);
    assert_int_equal(h.warnings, 1);
    assert_non_null(strstr(h.last, name));
    assert_int_equal(device_upload(c, &a, &work, ones, 1, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
    coordinator_restart(c);
    const fedserver_device *row = coordinator_device(c, &a);
    assert_int_equal(row->cloned_ms, c->now_ms);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->sum.updates, 1);
}

static void what_an_older_release_counted_is_learned_from_its_first_repetition(void **state) {
    coordinator *c = *state;
    const float others[PARAMETERS] = {2, 2, 2, 2, 2, 2};
    test_device a = coordinator_enrol(c);
    coordinator_task(c, plain);
    const fed_assignment work = device_ask_work(c, &a);
    assert_int_equal(device_upload(c, &a, &work, ones, 1, NULL), 200);
    coordinator_device(c, &a)->counted_digest = 0;
    assert_int_equal(device_upload(c, &a, &work, ones, 1, NULL), 200);
    assert_int_equal(device_upload(c, &a, &work, others, 1, NULL), 409);
}

static void upload_expect_loss(coordinator *c, const test_device *d, const fed_assignment *work,
                               float loss) {
    fed_writer w, body;
    fed_reader r;
    fed_update head;
    fed_writer_growing(&w);
    fed_writer_growing(&body);
    device_encode(work, ones, 1, &w);
    fed_reader_init(&r, w.data, w.len);
    assert_fed_ok(fed_update_read(&r, &head));
    head.loss = loss;
    fed_update_write(&body, &head);
    fed_write_bytes(&body, w.data + r.pos, w.len - r.pos);
    answer a = coordinator_ask(c, d, "POST", "/v1/update", "", body.data, body.len);
    assert_int_equal(a.status, 422);
    assert_string_equal(a.error, "out_of_range");
    assert_non_null(strstr((const char *)a.body, "plausible"));
    answer_free(&a);
    fed_writer_free(&w);
    fed_writer_free(&body);
}

static void devices_of_any_size_count(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const float two[PARAMETERS] = {2, 2, 2, 2, 2, 2};
    coordinator_task(c, plain);
    const float before = model(c)[0];
    const fed_assignment work_a = device_ask_work(c, &a), work_b = device_ask_work(c, &b);
    assert_int_equal(device_upload(c, &a, &work_a, ones, 1100000, NULL), 200);
    assert_int_equal(device_upload(c, &b, &work_b, two, 4095u << 20, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
    const double mean = 2 - 1100000 / (1100000 + 4095.0 * (1 << 20));
    const float change = model(c)[0] - before;
    assert_true(fabs((double)change - mean) < 1e-6);
}

static void updates_that_can_not_count_say_why(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    coordinator_task(c, plain);
    fed_assignment work = device_ask_work(c, &a);
    fed_assignment other = work;
    assert_string_equal(upload(c, &b, &work, ones), "409 lease_unknown");
    other.lease++;
    assert_string_equal(upload(c, &a, &other, ones), "409 lease_unknown");
    other = work;
    other.round = 2;
    assert_string_equal(upload(c, &a, &other, ones), "409 round_closed");
    other = work;
    other.task.id = 7;
    assert_string_equal(upload(c, &a, &other, ones), "409 round_closed");
    const float large[PARAMETERS] = {0, 0, 0, 0, 0, -16.5f};
    assert_string_equal(upload(c, &a, &work, large), "422 out_of_range");
    upload_expect_loss(c, &a, &work, -3e38f);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 0);
    assert_int_equal(device_upload(c, &a, &work, ones, 1, NULL), 200);
}

static void bytes_that_are_no_update_are_refused(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    fed_assignment work = device_ask_work(c, &d);
    fed_writer w;
    fed_writer_growing(&w);
    device_encode(&work, ones, 1, &w);
    const size_t whole = w.len;
    fed_writer_free(&w);

    for (size_t len = 0; len < whole; len++) {
        device_encode(&work, ones, 1, &w);
        w.len = len;
        device_expect(c, &d, &w, 400, "bad_update");
    }
    device_encode(&work, ones, 1, &w);
    fed_write_u8(&w, 0);
    device_expect(c, &d, &w, 400, "bad_update");
    device_encode(&work, ones, 1, &w);
    for (size_t k = 0; k <= FED_OWN_BYTES; k++) {
        fed_write_u8(&w, 0);
    }
    device_expect(c, &d, &w, 413, "too_large");
    device_encode(&work, ones, 1, &w);
    memset(w.data + fedserver_intake_head_bytes(), 0xa5, w.len - fedserver_intake_head_bytes());
    device_expect(c, &d, &w, 400, "bad_update");
    device_encode(&work, ones, 1, &w);
    memset(w.data + w.len - 4, 0xff, 4);
    device_expect(c, &d, &w, 400, "bad_update");
    fed_assignment other = work;
    snprintf(other.task.codec_up, sizeof other.task.codec_up, "sbc:p=0.5");
    other.task.small_tensor = 0;
    device_encode(&other, ones, 1, &w);
    device_expect(c, &d, &w, 400, "bad_update");
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 0);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->sum.samples, 0);
}

static void a_missed_minimum_abandons_the_attempt_and_keeps_what_is_counted(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    coordinator_task(c, strict);
    const fed_assignment work_a = device_ask_work(c, &a), work_b = device_ask_work(c, &b);
    assert_int_equal(device_upload(c, &a, &work_a, ones, 1, NULL), 200);
    coordinator_wait(c, 10000);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.attempt, 2);
    coordinator_restart(c);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.attempt, 2);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, 1);
    assert_string_equal(upload(c, &b, &work_b, ones), "409 lease_expired");
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 1, 0).reason, FED_WAIT_REPORTED);
    fed_assignment again = device_ask_work(c, &b);
    assert_int_equal(again.action, FED_ACTION_TRAIN);
    assert_true(again.lease != work_b.lease);
    assert_int_equal(device_upload(c, &b, &again, ones, 1, NULL), 200);
    coordinator_wait(c, 10000); /* the deadline passes with the minimum of 2 updates */
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
}

static void a_lease_of_an_abandoned_attempt_is_not_given_again(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    coordinator_task(c, strict);
    fed_assignment old = device_ask_work(c, &a);
    coordinator_wait(c, 10000);
    assert_int_equal(device_ask_work(c, &b).action, FED_ACTION_TRAIN);
    fed_assignment fresh = device_ask_work(c, &a);
    assert_int_equal(fresh.action, FED_ACTION_TRAIN);
    assert_true(fresh.lease != old.lease);
    assert_int_equal(device_upload(c, &a, &fresh, ones, 1, NULL), 200);
}

static void a_deadline_counts_for_requests_that_come_before_the_tick(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, strict);
    fed_assignment work = device_ask_work(c, &d);
    c->now_ms += 10000;
    assert_string_equal(upload(c, &d, &work, ones), "409 lease_expired");
}

static void what_was_not_committed_never_was(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    fed_assignment work = device_ask_work(c, &d);
    coordinator_commit(c);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    coordinator_crash(c);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 0);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
}

enum { CROWD = 5, CROWD_PARAMETERS = 330 };

static const char crowded[] = "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"sbc:p=0.1\","
                              " \"codec_down\": \"3lc:s=1\", \"small_tensor\": 0, \"rounds\": 3,"
                              " \"cohort\": 5, \"goal\": 5, \"deadline_s\": 10}";

static void noise(float *x, uint32_t round, uint32_t who) {
    fed_rng rng;
    fed_rng_init(&rng, 99, round, who);
    for (int i = 0; i < CROWD_PARAMETERS; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

/* Run three rounds. `order` permutes the uploads. With `crash` the coordinator crashes after
 * each upload. */
static uint64_t crowd_digest(const int order[CROWD], bool crash) {
    coordinator c;
    test_device d[CROWD];
    coordinator_setup(&c);
    for (int k = 0; k < CROWD; k++) {
        d[k] = coordinator_enrol(&c);
    }
    coordinator_task(&c, crowded);
    for (uint32_t round = 1; round <= 3; round++) {
        fed_assignment work[CROWD];
        for (int k = 0; k < CROWD; k++) {
            work[k] = device_ask_work(&c, &d[k]);
        }
        for (int k = 0; k < CROWD; k++) {
            float x[CROWD_PARAMETERS];
            int who = order[k];
            noise(x, round, (uint32_t)who);
            assert_int_equal(device_upload(&c, &d[who], &work[who], x, (uint32_t)who + 1, NULL),
                             200);
            coordinator_commit(&c);
            if (crash) {
                coordinator_crash(&c);
            }
        }
        assert_int_equal(fedserver_rounds_front(&c.server->rounds)->versions.version, round);
    }
    uint64_t digest = fedserver_rounds_front(&c.server->rounds)->versions.digest;
    coordinator_teardown(&c);
    return digest;
}

static void neither_order_nor_restarts_change_a_bit_of_the_model(void) {
    const int forward[CROWD] = {0, 1, 2, 3, 4};
    const int mixed[CROWD] = {3, 0, 4, 2, 1};
    uint64_t digest = crowd_digest(forward, false);
    assert_true(crowd_digest(mixed, false) == digest);
    assert_true(crowd_digest(mixed, true) == digest);
}

static void deltas_and_snapshots_give_the_same_bits(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    for (int k = 0; k < CROWD; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, crowded);
    float follower[CROWD_PARAMETERS];
    float sleeper[CROWD_PARAMETERS];
    float newcomer[CROWD_PARAMETERS];
    fed_assignment work[CROWD];
    size_t snapshot_len;
    for (uint32_t round = 1; round <= 3; round++) {
        for (int k = 0; k < CROWD; k++) {
            work[k] = device_ask_work(c, &d[k]);
        }
        int64_t have = round == 1 ? -1 : (int64_t)round - 2;
        assert_int_equal(
            device_download(c, &d[0], &work[0].task, have, round - 1, follower, &snapshot_len),
            200);
        assert_true(fed_digest(follower, CROWD_PARAMETERS) == work[0].digest);
        if (round == 1) {
            memcpy(sleeper, follower, sizeof sleeper);
        }
        for (int k = 0; k < CROWD; k++) {
            float x[CROWD_PARAMETERS];
            noise(x, round, (uint32_t)k);
            assert_int_equal(device_upload(c, &d[k], &work[k], x, 1, NULL), 200);
        }
        coordinator_restart(c);
    }
    fed_assignment done = device_checkin(c, &d[0], FED_ROLE_TRAIN, 1, 2);
    assert_int_equal(done.action, FED_ACTION_DONE);
    assert_int_equal(done.version, 3);
    size_t delta_len;
    size_t chain_len;
    assert_int_equal(device_download(c, &d[0], &done.task, 2, 3, follower, &delta_len), 200);
    assert_int_equal(device_download(c, &d[1], &done.task, 0, 3, sleeper, &chain_len), 200);
    assert_int_equal(device_download(c, &d[2], &done.task, -1, 3, newcomer, &snapshot_len), 200);
    assert_true(delta_len < chain_len && chain_len < snapshot_len);
    assert_memory_equal(follower, sleeper, sizeof follower);
    assert_memory_equal(follower, newcomer, sizeof follower);
    assert_true(fed_digest(newcomer, CROWD_PARAMETERS) == done.digest);
    assert_int_equal(device_download(c, &d[0], &done.task, 3, 3, follower, &delta_len), 200);
    assert_int_equal(delta_len, 0);
    assert_int_equal(device_download(c, &d[0], &done.task, 9, 3, follower, &chain_len), 200);
    assert_int_equal(chain_len, snapshot_len);
}

static void only_the_newest_version_is_served(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain);
    fed_task task = device_ask_work(c, &d).task;
    float values[PARAMETERS];
    assert_int_equal(device_download(c, &d, &task, -1, 1, values, NULL), 404);
    task.id = 2;
    assert_int_equal(device_download(c, &d, &task, -1, 0, values, NULL), 404);
    static const char *const wrong[] = {"",
                                        "task=1",
                                        "task=1&have=none",
                                        "task=1&have=x&want=0",
                                        "task=1&have=-1&want=0",
                                        "task=1&have=none&want=4294967296",
                                        "task=&have=none&want=0"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        assert_int_equal(coordinator_status(c, &d, "GET", "/v1/model", wrong[k], NULL, 0), 400);
    }
}

static answer say_held(coordinator *c, const test_device *d, const fed_checkin *checkin,
                       int64_t waited_ms) {
    fed_error err = {0};
    uint8_t body[64];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_checkin_write(&w, checkin);
    const fedserver_request request = {.listener = FEDSERVER_DEVICES,
                                       .method = "POST",
                                       .path = "/v1/checkin",
                                       .query = "",
                                       .body = body,
                                       .body_len = w.len,
                                       .fingerprint = d->fingerprint,
                                       .waited_ms = waited_ms};
    fedserver_response response;
    assert_fed_ok_err(fedserver_handle(c->server, &request, c->now_ms, &response, &err));
    fedserver_blob_free(response.body);
    return (answer){.status = response.status, .hold = response.hold, .hold_ms = response.hold_ms};
}

static answer ask_held(coordinator *c, const test_device *d, uint32_t hold_ms, int64_t waited_ms) {
    const fed_checkin checkin = {.role = FED_ROLE_TRAIN, .hold_ms = hold_ms};
    return say_held(c, d, &checkin, waited_ms);
}

static void a_wait_is_held_until_its_time_or_until_there_is_work(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    answer a = ask_held(c, &d, 30000, 0);
    assert_true(a.hold);
    assert_int_equal(a.hold_ms, 30000);
    a = ask_held(c, &d, 30000, 29000);
    assert_true(a.hold);
    assert_int_equal(a.hold_ms, 1000);
    assert_false(ask_held(c, &d, 30000, 30000).hold);
    assert_int_equal(ask_held(c, &d, UINT32_MAX, 0).hold_ms, 55000);
    uint64_t epoch = fedserver_epoch(c->server);
    coordinator_task(c, plain);
    assert_int_not_equal(fedserver_epoch(c->server), epoch);
    assert_false(ask_held(c, &d, 30000, 5).hold);
}

static void those_who_wait_are_woken_when_a_round_opens_and_rest_otherwise(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    coordinator_task(c, plain);
    const fed_assignment work_a = device_ask_work(c, &a), work_b = device_ask_work(c, &b);
    const uint64_t epoch = fedserver_epoch(c->server);
    assert_false(coordinator_wakes(c, &a));
    assert_int_equal(device_upload(c, &a, &work_a, ones, 1, NULL), 200);
    assert_false(coordinator_wakes(c, &a));
    assert_int_equal(device_upload(c, &b, &work_b, ones, 1, NULL), 200);
    assert_true(coordinator_wakes(c, &a));
    assert_int_equal(fedserver_epoch(c->server), epoch); /* not all are asked again */
}

static void a_finished_task_is_told_to_those_who_lack_its_last_model(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    coordinator_task(c, single);
    fed_assignment work = device_ask_work(c, &a);
    assert_int_equal(device_checkin(c, &b, FED_ROLE_TRAIN, 0, 0).reason, FED_WAIT_FULL);
    assert_int_equal(device_upload(c, &a, &work, ones, 1, NULL), 200);
    coordinator_restart(c);
    fed_assignment done = device_checkin(c, &a, FED_ROLE_TRAIN, 1, 0);
    assert_int_equal(done.action, FED_ACTION_DONE);
    assert_int_equal(done.version, 1);
    fed_assignment known = device_checkin(c, &a, FED_ROLE_TRAIN, 1, 1);
    assert_int_equal(known.action, FED_ACTION_WAIT);
    assert_int_equal(known.reason, FED_WAIT_FINISHED);
    assert_int_equal(device_checkin(c, &b, FED_ROLE_TRAIN, 0, 0).reason, FED_WAIT_FINISHED);
}

static void queued_tasks_that_do_not_fit_together_run_one_after_the_other(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    assert_int_equal(coordinator_task(c, single), 1);
    coordinator_one_at_a_time(c);
    assert_int_equal(coordinator_task(c, single), 2);
    assert_int_equal(coordinator_task(c, single), 3);
    for (uint64_t task = 1; task <= 3; task++) {
        fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(work.action, FED_ACTION_TRAIN);
        assert_int_equal(work.task.id, task);
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
        coordinator_wait(c, 0);
    }
    assert_int_equal(device_checkin(c, &d, FED_ROLE_TRAIN, 3, 0).action, FED_ACTION_DONE);
    assert_int_equal(device_checkin(c, &d, FED_ROLE_TRAIN, 2, 0).reason, FED_WAIT_FINISHED);
    coordinator_restart(c);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->task.wire.id, 3);
}

static int report(coordinator *c, const test_device *d, const fed_metric *metric) {
    uint8_t body[64];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_metric_write(&w, metric);
    return coordinator_status(c, d, "POST", "/v1/metric", "", body, w.len);
}

static void an_evaluator_measures_every_newest_version_once_and_the_last_one_too(void **state) {
    coordinator *c = *state;
    test_device trainer = coordinator_enrol(c);
    test_device judge = coordinator_enrol_evaluator(c);
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0).reason, FED_WAIT_NO_TASK);
    coordinator_task(c, single);
    fed_assignment work = device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0);
    assert_int_equal(work.action, FED_ACTION_EVALUATE);
    assert_int_equal(work.version, 0);
    const fed_metric first = {.task = 1, .version = 0, .samples = 10, .correct = 1, .loss = 2};
    assert_int_equal(report(c, &judge, &first), 200);
    /* the same report again, as if its answer was lost */
    assert_int_equal(report(c, &judge, &first), 200);
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 1, 0).reason, FED_WAIT_NO_MODEL);
    fed_assignment round = device_ask_work(c, &trainer);
    assert_int_equal(device_upload(c, &trainer, &round, ones, 1, NULL), 200);
    coordinator_restart(c);
    work = device_checkin(c, &judge, FED_ROLE_EVALUATE, 1, 0);
    assert_int_equal(work.action, FED_ACTION_EVALUATE);
    assert_int_equal(work.version, 1);
    fed_metric last = {.task = 1, .version = 1, .samples = 10, .correct = 9, .loss = 0.5f};
    assert_int_equal(report(c, &judge, &last), 200);
    coordinator_restart(c);
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 1, 0).action, FED_ACTION_DONE);
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 1, 1).reason, FED_WAIT_FINISHED);
    last.version = 2;
    assert_int_equal(report(c, &judge, &last), 404);
    last = (fed_metric){.task = 1, .version = 1, .samples = 10, .correct = 11, .loss = 0.5f};
    assert_int_equal(report(c, &judge, &last), 400);
}

static bool is_held(coordinator *c, const test_device *d, fed_role role) {
    const fed_checkin checkin = {.role = role, .held = {{1, 1}}, .hold_ms = 30000};
    return say_held(c, d, &checkin, 0).hold;
}

static void an_evaluator_learns_the_end_of_the_tasks_at_once(void **state) {
    coordinator *c = *state;
    const test_device trainer = coordinator_enrol(c), judge = coordinator_enrol_evaluator(c);
    assert_true(is_held(c, &judge, FED_ROLE_EVALUATE));
    coordinator_task(c, single);
    const fed_assignment round = device_ask_work(c, &trainer);
    assert_int_equal(device_upload(c, &trainer, &round, ones, 1, NULL), 200);
    const fed_metric last = {.task = 1, .version = 1, .samples = 10, .correct = 9, .loss = 0.5f};
    coordinator_restart(c);
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0).version, 1);
    assert_int_equal(report(c, &judge, &last), 200);
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 1, 1).reason, FED_WAIT_FINISHED);
    assert_false(is_held(c, &judge, FED_ROLE_EVALUATE));
    assert_int_equal(device_checkin(c, &trainer, FED_ROLE_TRAIN, 1, 1).reason, FED_WAIT_FINISHED);
    assert_true(is_held(c, &trainer, FED_ROLE_TRAIN));
}

static void only_known_paths_methods_and_devices_get_in(void **state) {
    coordinator *c = *state;
    const test_device stranger = {.fingerprint = {1, 2, 3}};
    test_device d = coordinator_enrol(c);
    const struct {
        const test_device *who;
        const char *method, *path;
        uint64_t len;
        int status;
    } cases[] = {
        {&stranger, "POST", "/v1/checkin", 14, 403}, {&d, "GET", "/v1/checkin", 0, 405},
        {&d, "GET", "/v1/status", 0, 403},           {NULL, "POST", "/v1/checkin", 14, 404},
        {&d, "POST", "/v1/checkin", 129, 413},       {NULL, "GET", "/v1/status", 1, 413},
        {&d, "POST", "/v1/update", 1000, 413},       {NULL, "POST", "/v1/enrol", 4096, 413},
    };
    uint8_t body[4096] = {0};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const fedserver_request head = {
            .listener = cases[k].who != NULL ? FEDSERVER_DEVICES : FEDSERVER_FRONT,
            .method = cases[k].method,
            .path = cases[k].path,
            .query = "",
            .fingerprint = cases[k].who != NULL ? cases[k].who->fingerprint : NULL};
        /* A request that gets 403 is refused only after its body has been read. */
        const int early = cases[k].status == 403 ? 0 : cases[k].status;
        assert_int_equal(fedserver_body_refused(c->server, &head, cases[k].len), early);
        assert_int_equal(coordinator_status(c, cases[k].who, cases[k].method, cases[k].path, "",
                                            body, (size_t)cases[k].len),
                         cases[k].status);
    }
}

static int refused(fedserver *server, const char *method, const char *path, uint64_t len) {
    const fedserver_request head = {
        .listener = FEDSERVER_DEVICES, .method = method, .path = path, .query = ""};
    return fedserver_body_refused(server, &head, len);
}

/* A follower never answers an update with 413. Otherwise a device could believe that an update was
 * not counted, although it was (D2 in docs/durability.md). */
static void a_follower_refuses_bodies_by_what_its_leader_says(void **state) {
    coordinator *c = *state;
    const uint64_t huge = 1 << 28;
    c->server->following = true;
    assert_int_equal(refused(c->server, "POST", "/v1/update", huge), 0);
    fedserver_update_limit_heard(c->server, 1000);
    assert_int_equal(refused(c->server, "POST", "/v1/update", huge), 503);
    assert_int_equal(refused(c->server, "POST", "/v1/update", 1001), 503);
    assert_int_equal(refused(c->server, "POST", "/v1/update", 1000), 0);
    assert_int_equal(refused(c->server, "POST", "/v1/checkin", huge), 413);
    assert_int_equal(refused(c->server, "PUT", "/v1/update", 1), 405);
    assert_int_equal(refused(c->server, "POST", "/nothing", 1), 404);
    c->server->following = false;
}

static void a_check_in_of_another_protocol_is_named_so(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    uint8_t body[64];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_checkin_write(&w, &(fed_checkin){.role = FED_ROLE_TRAIN});
    answer a = coordinator_ask(c, &d, "POST", "/v1/checkin", "", body, w.len - 1);
    answer_expect(&a, 400, "bad_request");
    body[0]++;
    a = coordinator_ask(c, &d, "POST", "/v1/checkin", "", body, w.len);
    answer_expect(&a, 400, "protocol_version");
}

static void a_task_of_another_process_starts_by_itself(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver *cli = NULL;
    char path[300];
    uint64_t id = 0;
    coordinator_commit(c);
    coordinator_wait(c, 1000);
    snprintf(path, sizeof path, "%s/other.json", c->directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(plain, file);
    fclose(file);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &cli, &err));
    assert_fed_ok_err(fedserver_task_add(cli, c->now_ms, path, &id, &err));
    fedserver_close(cli);
    fed_sleep_ms(FEDSERVER_CHANGED_MS);
    coordinator_commit(c);
    coordinator_wait(c, 1000);
    assert_non_null(fedserver_rounds_front(&c->server->rounds));
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->task.wire.id, id);
}

static void a_second_process_may_not_serve(void **state) {
    coordinator *c = *state;
    pid_t child = fork();
    if (child == 0) {
        fed_error err = {0};
        fedserver *second = NULL;
        bool refused = fedserver_open(c->directory, NULL, &second, &err) == FED_OK &&
                       fedserver_begin(second, &err) == FED_EBUSY &&
                       strstr(err.text, "process") != NULL;
        fedserver_close(second);
        _exit(refused ? 0 : 1);
    }
    int status = 1;
    assert_true(waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void the_newest_model_can_be_exported(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/out.safetensors", c->directory);
    assert_fed_status(fedserver_model_export(c->server, 0, path, &err), FED_ENOTFOUND);
    coordinator_task(c, plain);
    assert_fed_ok_err(fedserver_model_export(c->server, 0, path, &err));
    fed_model exported;
    assert_fed_ok_err(fed_checkpoint_load(path, &exported, &err));
    assert_int_equal(exported.layout.size, PARAMETERS);
    assert_memory_equal(exported.values, model(c), sizeof(float) * PARAMETERS);
    fed_model_free(&exported);
    assert_fed_status(fedserver_model_export(c->server, 9, path, &err), FED_ENOTFOUND);
}

static void a_batch_is_settled_until_it_writes(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    assert_false(fedserver_settled(c->server));
    coordinator_commit(c);
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_WAIT);
    assert_false(fedserver_settled(c->server));
    coordinator_commit(c);
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_WAIT);
    assert_true(fedserver_settled(c->server));
    coordinator_task(c, plain);
    coordinator_commit(c);
    const fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_false(fedserver_settled(c->server));
    coordinator_commit(c);
    float values[PARAMETERS];
    assert_true(device_ask_work(c, &d).lease == work.lease);
    assert_int_equal(device_download(c, &d, &work.task, -1, 0, values, NULL), 200);
    assert_true(fedserver_settled(c->server));
    for (int k = 0; k < 2; k++) {
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
        assert_int_equal(fedserver_settled(c->server), k == 1);
        coordinator_commit(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(without_a_task_a_device_waits),
        WITH_COORDINATOR(a_round_commits_the_weighted_mean),
        WITH_COORDINATOR(the_same_device_gets_the_same_lease_and_what_is_left_of_the_deadline),
        WITH_COORDINATOR(an_update_counts_once_however_often_it_is_sent),
        WITH_COORDINATOR(a_clone_is_refused_marked_and_named),
        WITH_COORDINATOR(what_an_older_release_counted_is_learned_from_its_first_repetition),
        WITH_COORDINATOR(devices_of_any_size_count),
        WITH_COORDINATOR(updates_that_can_not_count_say_why),
        WITH_COORDINATOR(bytes_that_are_no_update_are_refused),
        WITH_COORDINATOR(a_missed_minimum_abandons_the_attempt_and_keeps_what_is_counted),
        WITH_COORDINATOR(a_lease_of_an_abandoned_attempt_is_not_given_again),
        WITH_COORDINATOR(a_deadline_counts_for_requests_that_come_before_the_tick),
        WITH_COORDINATOR(what_was_not_committed_never_was),
        WITH_COORDINATOR(a_batch_is_settled_until_it_writes),
        fed_unit_test(neither_order_nor_restarts_change_a_bit_of_the_model),
        WITH_COORDINATOR(deltas_and_snapshots_give_the_same_bits),
        WITH_COORDINATOR(only_the_newest_version_is_served),
        WITH_COORDINATOR(a_wait_is_held_until_its_time_or_until_there_is_work),
        WITH_COORDINATOR(those_who_wait_are_woken_when_a_round_opens_and_rest_otherwise),
        WITH_COORDINATOR(a_finished_task_is_told_to_those_who_lack_its_last_model),
        WITH_COORDINATOR(queued_tasks_that_do_not_fit_together_run_one_after_the_other),
        WITH_COORDINATOR(an_evaluator_measures_every_newest_version_once_and_the_last_one_too),
        WITH_COORDINATOR(an_evaluator_learns_the_end_of_the_tasks_at_once),
        WITH_COORDINATOR(only_known_paths_methods_and_devices_get_in),
        WITH_COORDINATOR(a_follower_refuses_bodies_by_what_its_leader_says),
        WITH_COORDINATOR(a_check_in_of_another_protocol_is_named_so),
        WITH_COORDINATOR(a_task_of_another_process_starts_by_itself),
        WITH_COORDINATOR(a_second_process_may_not_serve),
        WITH_COORDINATOR(the_newest_model_can_be_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
