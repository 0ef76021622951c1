/* Rounds with a helper: the coordinator reads nothing but the sum, and waits until it is opened. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/openings.h"

#include <math.h>
#include <stdio.h>

#include "coordinator_fixture.h"
#include "fed/own_metrics.h"
#include "fed_cases.h"
#include "fedserver/private_helper.h"

enum { DEVICES = 4, INPUTS = 100, VALUES = 2 * INPUTS + 2, HEAD = 28, BITS = 6 };

#define TASK                                                                                       \
    "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1,"                \
    " \"codec_down\": \"float32\", \"cohort\": 4, \"goal\": 4, \"minimum\": 2, \"rounds\": "       \
    "2%s%s%s}"

typedef struct federation {
    test_device device[DEVICES], helper_device;
    fed_assignment work[DEVICES];
    float before[VALUES];
    uint8_t secret[FED_POINT_SECRET], key[FED_SEAL_KEY];
    char state[300];
    fedserver_helper *helper;
    fed_error err;
} federation;

static federation *begin(coordinator *c, bool masked) {
    federation *f = calloc(1, sizeof *f);
    char hex[2 * FED_SEAL_KEY + 1], task[1024];
    assert_non_null(f);
    assert_fed_ok(fed_point_new(f->secret, f->key, &f->err));
    fed_hex(f->key, sizeof f->key, hex);
    snprintf(task, sizeof task, TASK, masked ? ", \"helper\": \"" : "", masked ? hex : "",
             masked ? "\"" : "");
    coordinator_task(c, task);
    for (size_t k = 0; k < DEVICES; k++) {
        f->device[k] = coordinator_enrol(c);
    }
    f->helper_device =
        coordinator_enrol_as(c, &(fedserver_grant){.role = FEDSERVER_ROLE_HELPER, .ttl_s = 3600});
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].action, FED_ACTION_TRAIN);
        assert_int_equal(f->work[k].privacy.helpers, masked);
    }
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 0, f->before, NULL),
                     200);
    snprintf(f->state, sizeof f->state, "%s/helper-state.db", c->directory);
    fedserver_helper_options options = {.path = f->state, .least = 2};
    memcpy(options.secret, f->secret, sizeof options.secret);
    assert_fed_ok(fedserver_helper_open(&options, &f->helper, &f->err));
    return f;
}

static void end(federation *f) {
    fedserver_helper_close(f->helper);
    remove(f->state);
    free(f);
}

/* The terms, from what the device was told and has downloaded. */
static fed_private_terms terms_of(const federation *f, size_t k) {
    const fed_assignment *a = &f->work[k];
    fed_private_terms t = {.task = a->task.id, .round = a->round, .privacy = a->privacy};
    const fed_privacy_fields shape = fed_privacy_shape(&a->privacy, BITS, 1, VALUES);
    fed_writer w;
    fed_writer_growing(&w);
    for (size_t i = 0; i < VALUES; i++) {
        fed_write_f32(&w, f->before[i]);
    }
    fed_sha256(w.data, w.len, t.model);
    fed_writer_free(&w);
    fed_sha256(a->task.model, strlen(a->task.model), t.layout);
    memcpy(t.codec_up, a->task.codec_up, sizeof t.codec_up);
    t.width = shape.width;
    t.fields = shape.fields;
    fed_privacy_draw(t.task, t.round, t.draw);
    return t;
}

static void encode(const federation *f, size_t k, fed_writer *w) {
    float x[VALUES];
    for (size_t i = 0; i < VALUES; i++) {
        x[i] = 0.02F * sinf((float)(k * 37 + i));
    }
    device_encode(&f->work[k], x, 1, w);
}

/* An update under these terms, signed by device `signer`. */
static void encode_masked(const federation *f, size_t k, size_t signer,
                          const fed_private_terms *terms, fed_writer *w) {
    fed_private sealed;
    uint8_t seeds[FED_HELPERS][FED_SEED];
    fed_error err = {0};
    fed_writer plain;
    fed_writer_growing(&plain);
    encode(f, k, &plain);
    uint8_t *fields = plain.data + HEAD + FED_PRIVATE_HEAD;
    assert_fed_ok_err(
        fed_private_seal(terms, f->work[k].lease, &f->device[signer].key, &sealed, seeds, &err));
    assert_fed_ok(fed_private_mask_packed(seeds[0], terms->width, fields, (size_t)terms->fields));
    fed_write_bytes(w, plain.data, HEAD);
    fed_write_u8(w, FED_OWN_ENVELOPE);
    fed_private_write(w, &sealed);
    fed_write_bytes(w, fields, plain.len - HEAD - FED_PRIVATE_HEAD);
    fed_writer_free(&plain);
}

static answer post(coordinator *c, const test_device *d, const fed_writer *w) {
    return coordinator_ask(c, d, "POST", "/v1/update", "", w->data, w->len);
}

static void send(coordinator *c, const federation *f, size_t k, bool masked) {
    fed_writer w;
    fed_writer_growing(&w);
    if (masked) {
        const fed_private_terms terms = terms_of(f, k);
        encode_masked(f, k, k, &terms, &w);
    } else {
        encode(f, k, &w);
    }
    answer a = post(c, &f->device[k], &w);
    answer_expect(&a, 200, "");
    fed_writer_free(&w);
}

static answer ask(coordinator *c, const federation *f, const test_device *who) {
    uint8_t body[FED_SEAL_KEY + 4];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_write_bytes(&w, f->key, sizeof f->key);
    fed_write_u32(&w, 0);
    return coordinator_ask(c, who, "POST", "/v1/helper", "", body, w.len);
}

/* What the helper answers now. */
static fedserver_reply reply_to(coordinator *c, federation *f) {
    fedserver_inquiry q;
    fedserver_reply reply;
    fed_reader r;
    answer a = ask(c, f, &f->helper_device);
    assert_int_equal(a.status, 200);
    fed_reader_init(&r, a.body, a.len);
    assert_fed_ok(fedserver_inquiry_read(&r, &q));
    assert_fed_ok(fed_reader_end(&r));
    assert_fed_ok(fedserver_helper_answer(f->helper, &q, &reply, &f->err));
    fedserver_inquiry_free(&q);
    answer_free(&a);
    return reply;
}

/* Send a reply in pieces of this many bytes. Returns the last answer. */
static answer open_with(coordinator *c, const federation *f, const fedserver_reply *reply,
                        size_t most) {
    fed_writer whole, piece;
    answer last = {0};
    fed_writer_growing(&whole);
    fedserver_reply_write(&whole, reply);
    for (size_t at = 0; at < whole.len;) {
        const size_t n = whole.len - at < most ? whole.len - at : most;
        fed_piece head = {.task = reply->task,
                          .round = reply->round,
                          .lease = 1,
                          .digest = fed_digest_bytes(whole.data, whole.len),
                          .total = whole.len,
                          .offset = at};
        answer_free(&last);
        fed_writer_growing(&piece);
        fed_piece_write(&piece, &head);
        fed_write_bytes(&piece, whole.data + at, n);
        last =
            coordinator_ask(c, &f->helper_device, "POST", "/v1/opening", "", piece.data, piece.len);
        fed_writer_free(&piece);
        at += n;
        assert_int_equal(last.status, at < whole.len ? 202 : last.status);
    }
    fed_writer_free(&whole);
    return last;
}

static void open_round(coordinator *c, federation *f, size_t most) {
    fedserver_reply reply = reply_to(c, f);
    assert_string_equal(reply.word, "");
    answer a = open_with(c, f, &reply, most);
    answer_expect(&a, 200, "");
    fedserver_reply_free(&reply);
}

static void model_of(coordinator *c, const federation *f, float values[VALUES]) {
    memset(values, 0, VALUES * sizeof *values);
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 1, values, NULL), 200);
}

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

FED_TEST_WITH(the_status_says_since_when_a_round_waits_for_its_helper, coordinator *c) {
    federation *f = begin(c, true);
    for (size_t k = 0; k < DEVICES; k++) {
        json_t *before = coordinator_json(c, "/v1/status", NULL);
        const json_t *task = json_object_get(before, "task");
        assert_true(json_is_null(json_object_get(json_object_get(task, "privacy"), "since_ms")));
        json_decref(before);
        send(c, f, k, true);
    }
    const int64_t closed_ms = c->now_ms;
    coordinator_wait(c, 5000);
    json_t *status = coordinator_json(c, "/v1/status", NULL);
    const json_t *said = json_object_get(json_object_get(status, "task"), "privacy");
    assert_int_equal(json_integer_value(json_object_get(said, "since_ms")), closed_ms);
    json_decref(status);
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

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
