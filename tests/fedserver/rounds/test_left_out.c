/* Updates whose seals the helper can't open: they are left out, and the round goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/left_out.h"

#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "private_federation.h"

/* The helper names the seals of rubbish. */
static void name_rubbish(coordinator *c, federation *f, size_t count) {
    fedserver_reply reply = reply_to(c, f);
    assert_string_equal(reply.word, FEDSERVER_REPLY_SEALS);
    assert_int_equal(reply.unopened_count, count);
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    fedserver_reply_free(&reply);
}

static uint32_t knows(void) {
    return FED_CAN_DECLINE | FED_CAN_PRIVATE | fed_task_capabilities();
}

static void expect_wait(coordinator *c, const test_device *d, uint32_t capabilities,
                        fed_wait_reason reason) {
    const fed_checkin asks = {.capabilities = knows() | capabilities};
    const fed_assignment told = device_say(c, d, &asks);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, reason);
}

static void play_without(bool crash, float values[VALUES]) {
    coordinator c;
    coordinator_setup(&c);
    federation *f = begin_with(&c, "13");
    if (crash) {
        coordinator_restart(&c);
    }
    name_rubbish(&c, f, 2);
    if (crash) {
        coordinator_restart(&c);
    }
    open_round(&c, f, 100000);
    model_of(&c, f, values);
    end(f);
    coordinator_teardown(&c);
}

/* The model is that of a round in which only the devices 0 and 2 took part. */
FED_TEST(what_cant_be_opened_is_left_out_and_the_rest_makes_the_same_bits) {
    float left[VALUES], again[VALUES], plain[VALUES];
    coordinator c;
    coordinator_setup(&c);
    federation *f = begin(&c, false);
    send(&c, f, 0, false);
    send(&c, f, 2, false);
    coordinator_wait(&c, 601 * 1000);
    model_of(&c, f, plain);
    end(f);
    coordinator_teardown(&c);
    play_without(false, left);
    play_without(true, again);
    assert_memory_equal(plain, left, sizeof plain);
    assert_memory_equal(plain, again, sizeof plain);
}

FED_TEST_WITH(the_log_names_whose_seal_cant_be_opened, coordinator *c) {
    federation *f = begin_with(c, "1");
    char name[17];
    name_rubbish(c, f, 1);
    fed_hex(f->device[1].fingerprint, 8, name);
    assert_non_null(strstr(said, "1 of 4 updates are lost"));
    assert_non_null(strstr(said, name));
    fed_hex(f->device[0].fingerprint, 4, name);
    assert_null(strstr(said, name));
    end(f);
}

/* Its device has its 200, so it sends nothing again; told that a lease is another's, it would. */
FED_TEST_WITH(an_update_that_was_left_out_is_acknowledged_again, coordinator *c) {
    federation *f = begin(c, true);
    fed_writer w;
    fed_writer_growing(&w);
    const fed_private_terms terms = terms_of(f, 1);
    f->rubbish[1] = true;
    encode_masked(f, 1, 1, &terms, &w);
    answer a = post(c, &f->device[1], &w);
    answer_expect(&a, 200, "");
    for (size_t k = 0; k < DEVICES; k++) {
        if (k != 1) {
            send(c, f, k, true);
        }
    }
    name_rubbish(c, f, 1);
    coordinator_restart(c);
    a = post(c, &f->device[1], &w);
    answer_expect(&a, 200, "");
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, DEVICES - 1);
    fed_writer_free(&w);
    end(f);
}

/* Device k gives its place to a new one, which trains the round. */
static void replace(coordinator *c, federation *f, size_t k) {
    f->device[k] = coordinator_enrol(c);
    f->work[k] = device_ask_work(c, &f->device[k]);
    assert_int_equal(f->work[k].action, FED_ACTION_TRAIN);
    f->rubbish[k] = false;
}

/* Nobody else's slot is lost, and none of theirs is given to them again: not after their start, nor
 * after that of the coordinator. */
FED_TEST_WITH(with_too_few_left_other_devices_get_the_slots, coordinator *c) {
    federation *f = begin_with(c, "012");
    float values[VALUES];
    name_rubbish(c, f, 3);
    const fedserver_round *round = &fedserver_rounds_front(&c->server->rounds)->round;
    assert_int_equal(round->phase, FEDSERVER_ROUND_OPEN);
    assert_int_equal(round->number, 1);
    assert_int_equal(round->attempt, 2);
    assert_int_equal(round->received, 1);
    assert_int_equal(round->leased, 1);
    assert_non_null(strstr(said, "attempt 1 is abandoned with 1 of at least 2 updates"));
    for (int k = 0; k < 3; k++) {
        expect_wait(c, &f->device[0], k > 0 ? FED_STARTED : 0, FED_WAIT_REPORTED);
        expect_wait(c, &f->device[3], 0, FED_WAIT_REPORTED);
        coordinator_restart(c);
    }
    answer a = ask(c, &f->helper_device); /* the round is open */
    assert_int_equal(a.status, 204);
    answer_free(&a);
    for (size_t k = 0; k < 3; k++) {
        replace(c, f, k);
        send(c, f, k, true);
    }
    open_round(c, f, 100000);
    model_of(c, f, values);
    end(f);
}

/* With two tasks a device's row may forget in which round it reported. */
FED_TEST_WITH(who_was_left_out_gets_no_slot_of_the_round_after_another_task, coordinator *c) {
    federation *f = begin_with(c, "012");
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 2, \"cohort\": 2, \"goal\": 2, \"minimum\": 1}");
    name_rubbish(c, f, 3);
    coordinator_wait(c, 1000);
    const fed_checkin asks = {.capabilities = knows() | FED_CAN_TASKS, .slots = 2};
    fed_assignment told = device_say(c, &f->device[0], &asks);
    assert_int_equal(told.action, FED_ACTION_TRAIN);
    assert_int_equal(told.task.id, 2);
    coordinator_wait(c, 601 * 1000); /* that lease ends */
    coordinator_restart(c);
    const fed_checkin starts = {.capabilities = asks.capabilities | FED_STARTED, .slots = 2};
    for (int k = 0; k < 2; k++) {
        told = device_say(c, &f->device[0], &starts);
        assert_int_equal(told.action, FED_ACTION_TRAIN);
        assert_int_equal(told.task.id, 2);
        coordinator_wait(c, (k + 1) * INT64_C(86401) * 1000); /* a decline ends after a day */
        coordinator_restart(c);
    }
    end(f);
}

FED_TEST_WITH(a_reply_about_another_set_or_no_update_leaves_out_nothing, coordinator *c) {
    federation *f = begin_with(c, "1");
    fedserver_reply reply = reply_to(c, f);
    answer before = ask(c, &f->helper_device);
    reply.set[5] ^= 1;
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 409, "another_set");
    reply.set[5] ^= 1;
    reply.unopened[0] = DEVICES;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 400, "bad_opening");
    uint32_t twice[] = {1, 1}, *one = reply.unopened;
    reply.unopened = twice;
    reply.unopened_count = 2;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 400, "bad_opening");
    reply.unopened_count = 0;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 400, "bad_opening");
    coordinator_wait(c, FEDSERVER_ASK_MOST_MS);
    answer after = ask(c, &f->helper_device);
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.body, before.body, after.len);
    reply.unopened = one;
    reply.unopened[0] = 1;
    reply.unopened_count = 1;
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    a = open_with(c, f, &reply, 100000); /* its answer was lost: the set is another one now */
    answer_expect(&a, 409, "another_set");
    answer_free(&before);
    answer_free(&after);
    fedserver_reply_free(&reply);
    end(f);
}

static const fedserver_store *real;
static unsigned writes_left;

static fed_status failing_remove(void *db, uint64_t task, uint64_t lease, fed_error *err) {
    return writes_left-- > 0 ? real->update_remove(db, task, lease, err)
                             : fed_fail(err, FED_EIO, "the disk is gone");
}

/* A death at any write leaves the whole set or the rest, and the helper is asked about that. */
FED_TEST_WITH(updates_are_left_out_together_or_not_at_all, coordinator *c) {
    federation *f = begin_with(c, "13");
    fedserver_store failing = *(real = c->server->rounds.store);
    failing.update_remove = failing_remove;
    for (unsigned k = 0; k < 2; k++) {
        fed_error why = {0}, err = {0};
        answer before = ask(c, &f->helper_device);
        fedserver_reply reply = reply_to(c, f);
        coordinator_commit(c);
        writes_left = k;
        c->server->rounds.store = &failing;
        assert_fed_status(fedserver_left_out_take(&c->server->rounds,
                                                  fedserver_rounds_front(&c->server->rounds),
                                                  &reply, c->now_ms, &why, &err),
                          FED_EIO);
        c->server->rounds.store = real;
        coordinator_crash(c);
        answer after = ask(c, &f->helper_device);
        assert_int_equal(after.len, before.len);
        assert_memory_equal(after.body, before.body, after.len);
        answer_free(&before);
        answer_free(&after);
        fedserver_reply_free(&reply);
    }
    name_rubbish(c, f, 2);
    coordinator_crash(c); /* before the commit, after all writes */
    name_rubbish(c, f, 2);
    coordinator_restart(c);
    open_round(c, f, 100000);
    end(f);
}

FED_TEST_WITH(what_was_refused_of_another_set_is_forgotten, coordinator *c) {
    federation *f = begin_with(c, "1");
    refuse(c, f, 1);
    coordinator_wait(c, FEDSERVER_ASK_FIRST_MS);
    name_rubbish(c, f, 1);
    for (int k = 0; k < 2; k++) {
        const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
        coordinator_expect_waits(c, "to open the sum of 3 updates");
        assert_string_equal(t->asking.refusal, "");
        coordinator_restart(c);
    }
    end(f);
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
