/* A helper asks about its own tasks, and is woken when there is something to ask about. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedserver/rounds/openings.h"
#include "private_federation.h"

FED_TEST_WITH(only_a_helper_asks, coordinator *c) {
    federation *f = begin(c, true);
    answer a = ask(c, &f->device[0]);
    assert_int_equal(a.status, 403);
    answer_free(&a);
    a = coordinator_ask(c, &f->helper_device, "POST", "/v1/helper", "", "x", 1);
    answer_expect(&a, 400, "bad_request");
    end(f);
}

FED_TEST_WITH(another_helper_is_not_told_of_the_task, coordinator *c) {
    federation *f = begin(c, true);
    const test_device stranger = enrol_stranger(c);
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    answer a = ask(c, &stranger);
    assert_int_equal(a.status, 204);
    answer_free(&a);
    end(f);
}

/* Ask, and let the coordinator hold the answer back. Returns the key of the held request. */
static uint64_t ask_and_wait(coordinator *c, const test_device *who) {
    uint8_t body[sizeof(uint32_t)];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_write_u32(&w, 50000);
    answer a = coordinator_ask(c, who, "POST", "/v1/helper", "", body, w.len);
    assert_true(a.hold);
    const uint64_t key = a.hold_key;
    answer_free(&a);
    return key;
}

/* Take all keys. Returns how many are this one; *others: the rest. */
static unsigned woken(const coordinator *c, uint64_t wanted, unsigned *others) {
    unsigned times = 0;
    *others = 0;
    for (uint64_t key; (key = fedserver_woken(c->server)) != 0;) {
        times += key == wanted;
        *others += key != wanted;
    }
    return times;
}

/* A round that closes is news for the helper alone: nobody else's held request is handled again. */
FED_TEST_WITH(a_round_that_closes_wakes_its_helper_alone, coordinator *c) {
    federation *f = begin(c, true);
    const test_device stranger = enrol_stranger(c);
    const uint64_t key = ask_and_wait(c, &f->helper_device);
    unsigned others = 0;
    assert_int_not_equal(ask_and_wait(c, &stranger), key);
    for (size_t k = 0; k + 1 < DEVICES; k++) {
        send(c, f, k, true);
    }
    coordinator_commit(c);
    (void)woken(c, key, &others);
    const uint64_t epoch = fedserver_epoch(c->server);
    send(c, f, DEVICES - 1, true);
    assert_int_equal(woken(c, key, &others), 1);
    assert_int_equal(others, 0);
    assert_int_equal(fedserver_epoch(c->server), epoch);
    answer a = ask(c, &f->helper_device);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    end(f);
}

/* So is a set of which something was left out. */
FED_TEST_WITH(what_is_left_of_a_set_wakes_its_helper_alone, coordinator *c) {
    federation *f = begin_with(c, "1");
    unsigned others = 0;
    fedserver_reply reply = reply_to(c, f);
    coordinator_commit(c);
    const uint64_t key = (uint64_t)coordinator_device(c, &f->helper_device)->id;
    const uint64_t epoch = fedserver_epoch(c->server);
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    assert_int_equal(woken(c, key, &others), 1);
    assert_int_equal(others, 0);
    assert_int_equal(fedserver_epoch(c->server), epoch);
    fedserver_reply_free(&reply);
    end(f);
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
