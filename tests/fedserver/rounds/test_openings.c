/* Rounds with a helper: the coordinator reads nothing but the sum, and waits until it is opened. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/openings.h"

#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedserver/rounds/masked.h"
#include "private_federation.h"

static void play(bool masked, bool crash, float values[VALUES]) {
    coordinator c;
    coordinator_setup(&c);
    federation *f = begin(&c, masked);
    for (size_t k = 0; k < DEVICES; k++) {
        send(&c, f, crash ? DEVICES - 1 - k : k, masked);
        if (crash) {
            coordinator_restart(&c);
        }
    }
    if (masked) {
        open_round(&c, f, crash ? 100 : 100000);
    }
    if (crash) {
        coordinator_restart(&c);
    }
    model_of(&c, f, values);
    end(f);
    coordinator_teardown(&c);
}

FED_TEST(masked_and_plain_rounds_make_the_same_bits) {
    float plain[VALUES], masked[VALUES], again[VALUES];
    play(false, false, plain);
    play(true, false, masked);
    play(true, true, again);
    assert_memory_equal(plain, masked, sizeof plain);
    assert_memory_equal(plain, again, sizeof plain);
}

/* What the store has of an update tells nothing of it: the same update twice is unlike. */
FED_TEST_WITH(the_coordinator_gets_other_bytes_each_time, coordinator *c) {
    federation *f = begin(c, true);
    const fed_private_terms terms = terms_of(f, 0);
    fed_writer a, b;
    fed_writer_growing(&a);
    fed_writer_growing(&b);
    encode_masked(f, 0, 0, &terms, &a);
    encode_masked(f, 0, 0, &terms, &b);
    size_t same = 0;
    const size_t head = HEAD + 1 + fed_private_bytes(1);
    for (size_t k = head; k < a.len; k++) {
        same += a.data[k] == b.data[k];
    }
    assert_true(same < (a.len - head) / 16);
    fed_writer_free(&a);
    fed_writer_free(&b);
    end(f);
}

FED_TEST_WITH(a_restarted_coordinator_asks_the_same_question_and_gets_the_same_opening,
              coordinator *c) {
    federation *f = begin(c, true);
    float values[VALUES];
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    answer before = ask(c, f, &f->helper_device);
    fedserver_reply first = reply_to(c, f);
    assert_int_equal(before.status, 200);
    coordinator_restart(c);
    coordinator_wait(c, 5000);
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 1, values, NULL), 404);
    answer after = ask(c, f, &f->helper_device);
    fedserver_reply second = reply_to(c, f);
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.body, before.body, after.len);
    assert_int_equal(first.fields_len, second.fields_len);
    assert_memory_equal(first.fields, second.fields, first.fields_len);
    answer a = open_with(c, f, &second, 100000);
    answer_expect(&a, 200, "");
    model_of(c, f, values);
    a = ask(c, f, &f->helper_device); /* it owes nothing now */
    assert_int_equal(a.status, 204);
    answer_free(&a);
    a = open_with(c, f, &second, 100000);
    answer_expect(&a, 409, "round_closed");
    answer_free(&before);
    answer_free(&after);
    fedserver_reply_free(&first);
    fedserver_reply_free(&second);
    end(f);
}

/* A round that closes at its deadline has its set for good, also after a restart. */
FED_TEST_WITH(a_settled_set_takes_no_more_updates_after_a_restart, coordinator *c) {
    federation *f = begin(c, true);
    fed_writer w;
    for (size_t k = 0; k < 3; k++) {
        send(c, f, k, true);
    }
    coordinator_wait(c, 601 * 1000);
    answer before = ask(c, f, &f->helper_device);
    assert_int_equal(before.status, 200);
    c->now_ms -= 120 * 1000; /* by this clock the deadline is not over yet */
    coordinator_restart(c);
    fed_writer_growing(&w);
    const fed_private_terms terms = terms_of(f, 3);
    encode_masked(f, 3, 3, &terms, &w);
    answer late = post(c, &f->device[3], &w);
    assert_int_equal(late.status, 409);
    answer_free(&late);
    answer after = ask(c, f, &f->helper_device);
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.body, before.body, after.len);
    open_round(c, f, 100000);
    answer_free(&before);
    answer_free(&after);
    fed_writer_free(&w);
    end(f);
}

FED_TEST_WITH(masks_of_another_set_or_length_are_refused, coordinator *c) {
    federation *f = begin(c, true);
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    fedserver_reply reply = reply_to(c, f);
    reply.set[0] ^= 1;
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 409, "another_set");
    reply.set[0] ^= 1;
    reply.fields_len--;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 409, "another_set");
    reply.fields_len++;
    reply.round++;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 409, "round_closed");
    reply.round--;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    fedserver_reply_free(&reply);
    end(f);
}

/* A refusal releases nothing. The round goes on waiting, and so may be opened later. */
FED_TEST_WITH(a_refusal_leaves_the_round_waiting, coordinator *c) {
    federation *f = begin(c, true);
    float values[VALUES];
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    fedserver_reply reply = {.task = f->work[0].task.id, .round = 1};
    strcpy(reply.word, "roster");
    strcpy(reply.sentence, "device 0123 is not on this helper's roster");
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 1, values, NULL), 404);
    coordinator_wait(c, FEDSERVER_ASK_FIRST_MS);
    open_round(c, f, 100000);
    model_of(c, f, values);
    end(f);
}

static void expect_bad(coordinator *c, const federation *f, fed_writer *w) {
    answer a = post(c, &f->device[0], w);
    answer_expect(&a, 400, "bad_update");
    w->len = 0;
}

FED_TEST_WITH(an_update_under_other_terms_or_another_key_is_refused, coordinator *c) {
    federation *f = begin(c, true);
    fed_private_terms terms = terms_of(f, 0);
    fed_writer w;
    fed_writer_growing(&w);
    terms.model[0] ^= 1;
    encode_masked(f, 0, 0, &terms, &w);
    expect_bad(c, f, &w);
    terms = terms_of(f, 0);
    terms.privacy.cohort = 400;
    encode_masked(f, 0, 0, &terms, &w);
    expect_bad(c, f, &w);
    terms = terms_of(f, 0);
    encode_masked(f, 0, 1, &terms, &w); /* signed by device 1 */
    expect_bad(c, f, &w);
    encode_masked(f, 0, 0, &terms, &w);
    w.data[HEAD + 1 + fed_private_bytes(1) - 1] ^= 1; /* the signature */
    expect_bad(c, f, &w);
    encode(f, 0, &w); /* not masked */
    expect_bad(c, f, &w);
    encode_masked(f, 0, 0, &terms, &w);
    answer a = post(c, &f->device[0], &w);
    answer_expect(&a, 200, "");
    fed_writer_free(&w);
    end(f);
}

FED_TEST_WITH(only_a_helper_asks_and_only_for_its_own_key, coordinator *c) {
    federation *f = begin(c, true);
    answer a = ask(c, f, &f->device[0]);
    assert_int_equal(a.status, 403);
    answer_free(&a);
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    f->key[5] ^= 1;
    a = ask(c, f, &f->helper_device);
    assert_int_equal(a.status, 204);
    answer_free(&a);
    a = coordinator_ask(c, &f->helper_device, "POST", "/v1/helper", "", "x", 1);
    answer_expect(&a, 400, "bad_request");
    a = coordinator_ask(c, &f->helper_device, "POST", "/v1/opening", "", "x", 1);
    answer_expect(&a, 400, "bad_opening");
    end(f);
}

/* The task about which the helper is asked now; 0: none. */
static uint64_t asked_about(coordinator *c, const federation *f) {
    fedserver_inquiry q = {.count = 0};
    fed_reader r;
    answer a = ask(c, f, &f->helper_device);
    if (a.status == 200) {
        fed_reader_init(&r, a.body, a.len);
        assert_fed_ok(fedserver_inquiry_read(&r, &q));
    } else {
        assert_int_equal(a.status, 204);
    }
    const uint64_t task = q.count > 0 ? q.terms.task : 0;
    fedserver_inquiry_free(&q);
    answer_free(&a);
    return task;
}

FED_TEST_WITH(a_refused_task_hides_no_other_of_its_helper, coordinator *c) {
    federation *f = begin(c, true), *other = calloc(1, sizeof *other);
    float values[VALUES];
    assert_non_null(other);
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    *other = *f;
    begin_task(c, other, true, "");
    assert_int_equal(asked_about(c, f), 1);
    refuse(c, f, 1);
    assert_int_equal(asked_about(c, f), 0);
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, other, k, true);
    }
    assert_int_equal(asked_about(c, f), 2);
    coordinator_wait(c, FEDSERVER_ASK_FIRST_MS);
    assert_int_equal(asked_about(c, f), 1); /* its turn, as it was asked about longer ago */
    assert_int_equal(asked_about(c, f), 2);
    refuse(c, f, 1);
    open_round(c, other, 100000);
    model_of(c, other, values);
    free(other);
    end(f);
}

FED_TEST_WITH(a_refused_task_is_asked_about_after_growing_pauses, coordinator *c) {
    federation *f = begin(c, true);
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    int64_t pause_ms = FEDSERVER_ASK_FIRST_MS;
    for (int k = 0; k < 10; k++) {
        assert_int_equal(asked_about(c, f), 1);
        refuse(c, f, 1);
        coordinator_wait(c, pause_ms - 1);
        assert_int_equal(asked_about(c, f), 0);
        coordinator_wait(c, 1);
        pause_ms = 2 * pause_ms < FEDSERVER_ASK_MOST_MS ? 2 * pause_ms : FEDSERVER_ASK_MOST_MS;
    }
    refuse(c, f, 1);
    c->now_ms -= INT64_C(3600) * 1000; /* the wall clock is set back: no wait without an end */
    assert_int_equal(asked_about(c, f), 1);
    refuse(c, f, 1);
    assert_int_equal(asked_about(c, f), 0);
    coordinator_restart(c);
    assert_int_equal(asked_about(c, f), 1);
    end(f);
}

/* A helper that waits is asked when the pause is over, not when its patience is. */
FED_TEST_WITH(a_held_question_comes_when_the_pause_is_over, coordinator *c) {
    federation *f = begin(c, true);
    uint8_t body[FED_SEAL_KEY + 4];
    fed_writer w;
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    refuse(c, f, 1);
    coordinator_wait(c, 400);
    fed_writer_fixed(&w, body, sizeof body);
    fed_write_bytes(&w, f->key, sizeof f->key);
    fed_write_u32(&w, 50000);
    answer a = coordinator_ask(c, &f->helper_device, "POST", "/v1/helper", "", body, w.len);
    assert_true(a.hold);
    assert_int_equal(a.hold_ms, FEDSERVER_ASK_FIRST_MS - 400);
    answer_free(&a);
    end(f);
}

FED_TEST_WITH(the_status_names_the_helper_and_what_it_says, coordinator *c) {
    federation *f = begin(c, true);
    char key[2 * FED_SEAL_KEY + 1], helper[64], since[40], words[200];
    const time_t seconds = (time_t)(c->now_ms / 1000);
    struct tm utc;
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    assert_non_null(gmtime_r(&seconds, &utc));
    strftime(since, sizeof since, "since %H:%M:%S UTC", &utc);
    fed_hex(f->key, sizeof f->key, key);
    snprintf(helper, sizeof helper, "its helper (key %.16s)", key);
    snprintf(words, sizeof words, "%s to open the sum of 4 updates, %s", helper, since);
    coordinator_wait(c, 5000);
    expect_waits(c, words);
    for (int k = 0; k < 2; k++) {
        refuse(c, f, 1);
        expect_waits(c, "; it refuses (minimum): a sum of 4 devices is asked for; this helper");
        coordinator_restart(c);
        expect_waits(c, words);
        expect_waits(c, "; it refuses (minimum): a sum of 4 devices is asked for; this helper");
    }
    open_round(c, f, 100000);
    const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
    assert_false(t->asking.waits);
    assert_string_equal(t->asking.refusal, "");
    end(f);
}

/* After 1, 2, 4, 8, 16, 32, 64 minutes, and every hour. */
FED_TEST_WITH(the_log_says_more_and_more_seldom_that_a_round_waits, coordinator *c) {
    federation *f = begin_with(c, "");
    coordinator_wait(c, 59 * 1000);
    assert_int_equal(times_said("still waits for its helper (key 04"), 0);
    coordinator_wait(c, 1000);
    for (int minute = 1; minute < 64; minute++) {
        coordinator_wait(c, 60 * 1000);
    }
    assert_int_equal(times_said("round 1: still waits for its helper (key 04"), 7);
    for (int minute = 0; minute < 240; minute++) {
        coordinator_wait(c, 60 * 1000);
    }
    assert_int_equal(times_said("still waits for its helper"), 4);
    end(f);
}

/* The devices get the next round's work. */
static void next_round(coordinator *c, federation *f) {
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].action, FED_ACTION_TRAIN);
    }
    memset(f->before, 0, sizeof f->before);
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, f->work[0].version,
                                     f->before, NULL),
                     200);
}

/* In the second round a device ignores its clip. The strategy's momentum moves nothing, either. */
static void play_too_long(bool crash) {
    coordinator c;
    coordinator_setup(&c);
    federation *f = begin_more(&c, true, ", \"strategy\": \"fedavgm:m=0.9\"");
    float after[VALUES] = {0};
    for (size_t k = 0; k < DEVICES; k++) {
        send(&c, f, k, true);
    }
    open_round(&c, f, 100000);
    next_round(&c, f);
    f->ignores[DEVICES - 1] = true;
    for (size_t k = 0; k < DEVICES; k++) {
        send(&c, f, k, true);
    }
    if (crash) {
        coordinator_restart(&c);
    }
    said[0] = '\0';
    c.server->rounds.log = &heard;
    open_round(&c, f, 100000);
    assert_non_null(strstr(said, "round 2: its 4 updates are lost, and the model stays"));
    assert_int_equal(device_download(&c, &f->device[0], &f->work[0].task, -1, 2, after, NULL), 200);
    assert_memory_equal(f->before, after, sizeof after);
    end(f);
    coordinator_teardown(&c);
}

FED_TEST(a_sum_that_is_too_long_is_lost_and_the_model_stays) {
    play_too_long(false);
    play_too_long(true);
}

/* All devices send the same vector, as long as the clip allows. */
FED_TEST_WITH(the_longest_honest_sum_counts, coordinator *c) {
    federation *f = begin(c, true);
    float after[VALUES];
    f->along = true;
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    said[0] = '\0';
    c->server->rounds.log = &heard;
    open_round(c, f, 100000);
    model_of(c, f, after);
    double squares = 0;
    for (size_t i = 0; i < VALUES; i++) {
        squares += pow(after[i] - f->before[i], 2);
    }
    assert_true(squares > 0.9); /* the clip is 1 */
    assert_string_equal(said, "");
    end(f);
}

FED_TEST(the_longest_sum_grows_with_updates_and_noise) {
    const fedcodec_ring ring = {.shape = {.reach = 12.5, .fields = 64}};
    assert_true(fabs(fedserver_masked_longest(&ring, 1, 0) - 12.5) < 1e-6);
    assert_true(fabs(fedserver_masked_longest(&ring, 400, 0) - 5000) < 1e-4);
    assert_true(fabs(fedserver_masked_longest(&ring, 1, 100) - (12.5 + 10 * (8 + 8))) < 1e-6);
    fed_privacy told = {.sigma2 = 100, .apart = 1};
    assert_true(fedserver_masked_noise(&told) == 100);
    told.helpers = 1; /* each of two parties may add all of it */
    assert_true(fedserver_masked_noise(&told) == 200);
    told.apart = 3;
    assert_true(fedserver_masked_noise(&told) > 2 * 134.1);
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
