/* Updates in pieces: in any order, twice, from the wrong device, with false lengths; and what
 * the coordinator keeps of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/hash.h"
#include "fed_cases.h"
#include "fedserver/identity/device_table.h"

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 2,"
                           " \"deadline_s\": 10}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

typedef struct sender {
    coordinator c;
    test_device d, other;
    fed_assignment work, other_work;
    fed_writer message;
    fed_piece head;
} sender;

static void make_message_of(sender *s, const float *x) {
    fed_writer_free(&s->message);
    device_encode(&s->work, x, 1, &s->message);
    s->head = (fed_piece){.task = s->work.task.id,
                          .round = s->work.round,
                          .lease = s->work.lease,
                          .digest = fed_digest_bytes(s->message.data, s->message.len),
                          .total = s->message.len};
}

static void make_message(sender *s, float value) {
    const float x[6] = {value, value, value, value, value, value};
    make_message_of(s, x);
}

static int setup(void **state) {
    sender *s = calloc(1, sizeof *s);
    assert_non_null(s);
    coordinator_setup(&s->c);
    s->d = coordinator_enrol(&s->c);
    s->other = coordinator_enrol(&s->c);
    coordinator_task(&s->c, task);
    s->work = device_ask_work(&s->c, &s->d);
    s->other_work = device_ask_work(&s->c, &s->other);
    assert_int_equal(s->work.capabilities & FED_CAN_PIECES, FED_CAN_PIECES);
    fed_writer_growing(&s->message);
    make_message(s, 1);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    sender *s = *state;
    coordinator_teardown(&s->c);
    fed_writer_free(&s->message);
    free(s);
    return 0;
}

/* Send the bytes [from, to) of the message. Returns the HTTP status. *end gets the number of
 * bytes that have arrived according to the answer. */
static int send_as(sender *s, const test_device *d, size_t from, size_t to, uint64_t *end,
                   char word[32]) {
    fed_writer w;
    fed_writer_growing(&w);
    s->head.offset = from;
    fed_piece_write(&w, &s->head);
    fed_write_bytes(&w, s->message.data + from, to - from);
    answer a = coordinator_ask(&s->c, d, "POST", "/v1/piece", "", w.data, w.len);
    fed_reader r;
    fed_reader_init(&r, a.body, a.len);
    *end = a.status == 202 ? fed_read_u64(&r) : UINT64_MAX;
    memcpy(word, a.error, 32);
    fed_writer_free(&w);
    answer_free(&a);
    return a.status;
}

static void must_have(sender *s, size_t from, size_t to, uint64_t wanted) {
    uint64_t end;
    char word[32];
    assert_int_equal(send_as(s, &s->d, from, to, &end, word), 202);
    assert_int_equal(end, wanted);
}

static void must_be(sender *s, size_t from, size_t to, int status, const char *error) {
    uint64_t end;
    char word[32];
    assert_int_equal(send_as(s, &s->d, from, to, &end, word), status);
    assert_string_equal(word, error);
}

static uint32_t counted(const sender *s) {
    return fedserver_rounds_front(&s->c.server->rounds)->sum.updates;
}

FED_TEST_WITH(the_last_piece_counts_the_update, sender *s) {
    must_have(s, 0, 0, 0);
    must_have(s, 0, 10, 10);
    must_have(s, 10, 11, 11);
    must_have(s, 0, 0, 11);
    assert_int_equal(counted(s), 0);
    must_be(s, 11, s->message.len, 200, "");
    assert_int_equal(counted(s), 1);
    must_be(s, 11, s->message.len, 200, ""); /* the same piece again, as if its answer was lost */
    must_be(s, 0, 0, 200, "");
    assert_int_equal(counted(s), 1);
}

FED_TEST_WITH(the_pieces_of_a_clone_are_refused, sender *s) {
    must_be(s, 0, s->message.len, 200, "");
    s->head.digest++;
    must_be(s, 0, 0, 409, "cloned");
    must_be(s, 0, s->message.len, 409, "cloned");
    s->head.digest--;
    must_be(s, 0, 0, 200, "");
    assert_int_equal(counted(s), 1);
}

FED_TEST_WITH(one_piece_can_be_all_of_it, sender *s) {
    must_be(s, 0, s->message.len, 200, "");
    assert_int_equal(counted(s), 1);
}

FED_TEST_WITH(pieces_out_of_order_and_twice_change_nothing, sender *s) {
    must_have(s, 20, 30, 0);
    must_have(s, 0, 20, 20);
    must_have(s, 0, 20, 20);
    must_have(s, 10, 30, 20);
    must_have(s, 25, 30, 20);
    must_be(s, s->message.len, s->message.len, 202, "");
    must_be(s, 20, s->message.len, 200, "");
    assert_int_equal(counted(s), 1);
    assert_true(fedserver_rounds_front(&s->c.server->rounds)->sum.acc[0] ==
                INT64_C(1) << FEDCODEC_FOLD_BITS);
}

FED_TEST_WITH(pieces_outlive_the_coordinator, sender *s) {
    for (size_t at = 0; at + 1 < s->message.len; at++) {
        must_have(s, at, at + 1, at + 1);
        coordinator_restart(&s->c);
        must_have(s, 0, 0, at + 1);
    }
    must_be(s, s->message.len - 1, s->message.len, 200, "");
    coordinator_restart(&s->c);
    assert_int_equal(counted(s), 1);
    must_be(s, 0, 0, 200, "");
}

FED_TEST_WITH(what_was_not_committed_is_asked_for_again, sender *s) {
    must_have(s, 0, 10, 10);
    coordinator_commit(&s->c);
    must_have(s, 10, 20, 20);
    coordinator_crash(&s->c);
    must_have(s, 20, 30, 10);
    must_be(s, 10, s->message.len, 200, "");
}

FED_TEST_WITH(another_devices_lease_is_unknown, sender *s) {
    uint64_t end;
    char word[32];
    must_have(s, 0, 10, 10);
    assert_int_equal(send_as(s, &s->other, 10, 20, &end, word), 409);
    assert_string_equal(word, "lease_unknown");
    must_have(s, 0, 0, 10);
}

FED_TEST_WITH(two_devices_do_not_mix, sender *s) {
    must_have(s, 0, 10, 10);
    sender second = {.c = s->c, .d = s->other, .work = s->other_work};
    fed_writer_growing(&second.message);
    make_message(&second, 2);
    must_have(&second, 0, 5, 5);
    must_have(s, 0, 0, 10);
    must_be(&second, 5, second.message.len, 200, "");
    must_be(s, 10, s->message.len, 200, "");
    assert_int_equal(fedserver_rounds_front(&s->c.server->rounds)->versions.version, 1);
    fed_writer_free(&second.message);
}

/* A device that has lost its state trains again with the same lease. */
FED_TEST_WITH(another_message_begins_anew, sender *s) {
    must_have(s, 0, 10, 10);
    make_message(s, 2);
    must_have(s, 0, 0, 0);
    must_have(s, 10, 20, 0);
    must_have(s, 0, 5, 5);
    make_message(s, 1);
    must_have(s, 0, 0, 0);
    make_message(s, 2);
    must_be(s, 5, s->message.len, 200, "");
    assert_true(fedserver_rounds_front(&s->c.server->rounds)->sum.acc[0] ==
                INT64_C(2) << FEDCODEC_FOLD_BITS);
}

FED_TEST_WITH(lying_totals_and_digests_are_refused, sender *s) {
    s->head.total = UINT64_MAX;
    must_be(s, 0, 10, 413, "too_large");
    s->head.total = s->message.len + 1000000;
    must_be(s, 0, 10, 413, "too_large");
    s->head.total = 5;
    must_be(s, 0, 10, 400, "bad_update");
    s->head.total = s->message.len - 1; /* the message would be complete too early */
    must_have(s, 0, 10, 10);
    must_be(s, 10, s->message.len - 1, 400, "bad_update");
    s->head.total = s->message.len;
    s->head.digest ^= 1;
    must_have(s, 0, 10, 10);
    must_be(s, 10, s->message.len, 400, "bad_update");
    must_have(s, 0, 0, 0);
    assert_int_equal(counted(s), 0);
    make_message(s, 1);
    must_be(s, 0, s->message.len, 200, "");
}

FED_TEST_WITH(a_message_that_is_no_update_is_refused_when_it_is_complete, sender *s) {
    s->message.data[s->message.len - 1] = 0x7f;
    s->message.data[s->message.len - 2] = 0xff;
    s->head.digest = fed_digest_bytes(s->message.data, s->message.len);
    must_have(s, 0, 10, 10);
    must_be(s, 10, s->message.len, 400, "bad_update");
    must_have(s, 0, 0, 0);
    make_message(s, 17);
    must_have(s, 0, 10, 10);
    must_be(s, 10, s->message.len, 422, "out_of_range");
}

FED_TEST_WITH(a_body_that_is_no_piece_is_refused, sender *s) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_piece_write(&w, &s->head);
    for (size_t len = 0; len < w.len; len++) {
        assert_int_equal(coordinator_status(&s->c, &s->d, "POST", "/v1/piece", "", w.data, len),
                         400);
    }
    fed_writer_free(&w);
    uint8_t *large = calloc(1, FED_PIECE_BYTES + 65);
    assert_int_equal(
        coordinator_status(&s->c, &s->d, "POST", "/v1/piece", "", large, FED_PIECE_BYTES + 65),
        413);
    free(large);
}

FED_TEST_WITH(crumbs_are_not_kept, sender *s) {
    static const char large[] = "{\"model\": \"input 100 | dense 150\", \"codec_up\": \"float32\","
                                " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 1}";
    for (int k = 0; k < 3; k++) {
        fed_assignment work = device_ask_work(&s->c, &s->d);
        assert_int_equal(device_upload(&s->c, &s->d, &work, ones, 1, NULL), 200);
        coordinator_wait(&s->c, 10001);
    }
    coordinator_task(&s->c, large);
    coordinator_wait(&s->c, 2000);
    s->work = device_ask_work(&s->c, &s->d);
    assert_int_equal(s->work.action, FED_ACTION_TRAIN);
    float *x = calloc(15150, sizeof *x);
    make_message_of(s, x);
    free(x);
    size_t least = s->message.len / FED_PIECES;
    assert_int_equal(least, 3);
    must_have(s, 0, least - 1, 0);
    must_have(s, 0, least, least);
    must_have(s, least, s->message.len - 1, s->message.len - 1);
    must_be(s, s->message.len - 1, s->message.len, 200, "");
}

static uint64_t stored(sender *s) {
    fed_piece piece;
    fed_error err = {0};
    uint64_t end = 0;
    const fedserver_device *d = coordinator_device(&s->c, &s->d);
    fed_status status = s->c.server->store->piece_find(s->c.server->db, d->id, &piece, &end, &err);
    assert_true(status == FED_OK || status == FED_ENOTFOUND);
    return end;
}

FED_TEST_WITH(pieces_go_when_their_round_closes, sender *s) {
    must_have(s, 0, 10, 10);
    assert_int_equal(device_upload(&s->c, &s->other, &s->other_work, ones, 1, NULL), 200);
    assert_int_equal(stored(s), 10);
    coordinator_wait(&s->c, 10001);
    assert_int_equal(fedserver_rounds_front(&s->c.server->rounds)->versions.version, 1);
    assert_int_equal(stored(s), 0);
    must_be(s, 10, 20, 409, "round_closed");
    must_be(s, 0, 0, 409, "round_closed");
}

FED_TEST_WITH(pieces_go_when_their_device_gets_another_lease, sender *s) {
    must_have(s, 0, 10, 10);
    coordinator_wait(&s->c, 10001); /* without an update, the deadline begins another attempt */
    must_be(s, 10, 20, 409, "lease_expired");
    s->work = device_ask_work(&s->c, &s->d);
    assert_int_equal(stored(s), 0);
    make_message(s, 1);
    must_have(s, 0, 0, 0);
    must_be(s, 0, s->message.len, 200, "");
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
