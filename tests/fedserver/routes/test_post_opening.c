/* Openings of a task are those of its own helper. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedserver/rounds/openings.h"
#include "private_federation.h"

/* What another helper sends is refused, though it is right, or a refusal. The round goes on with
 * its own helper. */
FED_TEST_WITH(an_opening_of_another_helper_is_refused, coordinator *c) {
    federation *f = begin_with(c, "");
    const test_device stranger = enrol_stranger(c);
    float values[VALUES];
    fedserver_reply reply = reply_to(c, f);
    answer a = coordinator_ask(c, &f->helper_device, "POST", "/v1/opening", "", "x", 1);
    answer_expect(&a, 400, "bad_opening");
    a = open_as(c, &stranger, &reply, 100000);
    answer_expect(&a, 403, "other_helper");
    assert_true(times_said("sent an opening and is not the task's helper") > 0);
    a = open_as(c, &stranger, &reply, 10); /* its first piece is refused, too */
    answer_expect(&a, 403, "other_helper");
    strcpy(reply.word, "minimum");
    a = open_as(c, &stranger, &reply, 100000);
    answer_expect(&a, 403, "other_helper");
    assert_int_equal(times_said("the helper does not open"), 0);
    coordinator_expect_waits(c, "to open the sum of 4 updates");
    reply.word[0] = '\0';
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    model_of(c, f, values);
    fedserver_reply_free(&reply);
    end(f);
}

/* The head of a piece names another task than the message: the message counts. */
FED_TEST_WITH(an_opening_of_another_helper_is_refused_under_another_task, coordinator *c) {
    federation *f = begin_with(c, "");
    const test_device stranger = enrol_stranger(c);
    fedserver_reply reply = reply_to(c, f);
    fed_writer whole, piece;
    fed_writer_growing(&whole);
    fed_writer_growing(&piece);
    fedserver_reply_write(&whole, &reply);
    const fed_piece head = {.task = 9,
                            .round = 1,
                            .lease = 1,
                            .digest = fed_digest_bytes(whole.data, whole.len),
                            .total = whole.len};
    fed_piece_write(&piece, &head);
    fed_write_bytes(&piece, whole.data, whole.len);
    answer a = coordinator_ask(c, &stranger, "POST", "/v1/opening", "", piece.data, piece.len);
    answer_expect(&a, 403, "other_helper");
    fed_writer_free(&whole);
    fed_writer_free(&piece);
    fedserver_reply_free(&reply);
    end(f);
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
