/* Rounds with a helper: the coordinator reads nothing but the sum, and waits until it is opened. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/openings.h"

#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedcodec/ring.h"
#include "fedserver/rounds/masked.h"
#include "fedserver/server.h"
#include "fedserver/task/private_task.h"
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
    const json_t *told = json_object_get(json_object_get(status, "task"), "privacy");
    assert_int_equal(json_integer_value(json_object_get(told, "since_ms")), closed_ms);
    json_decref(status);
    end(f);
}

FED_TEST_WITH(a_restarted_coordinator_gets_the_same_opening, coordinator *c) {
    federation *f = begin(c, true);
    float values[VALUES];
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    answer before = ask(c, &f->helper_device);
    fedserver_reply first = reply_to(c, f);
    assert_int_equal(before.status, 200);
    coordinator_restart(c);
    coordinator_wait(c, 5000);
    assert_int_equal(device_download(c, &f->device[0], &f->work[0].task, -1, 1, values, NULL), 404);
    answer after = ask(c, &f->helper_device);
    fedserver_reply second = reply_to(c, f);
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.body, before.body, after.len);
    assert_int_equal(first.fields_len, second.fields_len);
    assert_memory_equal(first.fields, second.fields, first.fields_len);
    answer a = open_with(c, f, &second, 100000);
    answer_expect(&a, 200, "");
    model_of(c, f, values);
    a = ask(c, &f->helper_device); /* it owes nothing now */
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
    answer before = ask(c, &f->helper_device);
    assert_int_equal(before.status, 200);
    c->now_ms -= 120 * 1000; /* by this clock the deadline is not over yet */
    coordinator_restart(c);
    fed_writer_growing(&w);
    const fed_private_terms terms = terms_of(f, 3);
    encode_masked(f, 3, 3, &terms, &w);
    answer late = post(c, &f->device[3], &w);
    assert_int_equal(late.status, 409);
    answer_free(&late);
    answer after = ask(c, &f->helper_device);
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.body, before.body, after.len);
    open_round(c, f, 100000);
    answer_free(&before);
    answer_free(&after);
    fed_writer_free(&w);
    end(f);
}

/* Each device's part is over with its 200. Of those that have sent nobody comes back, one is shut
 * out, and the coordinator restarts. */
FED_TEST_WITH(devices_vanish_after_their_200_and_the_round_commits, coordinator *c) {
    federation *f = begin(c, true);
    fed_error err = {0};
    float values[VALUES];
    for (size_t k = 0; k < 3; k++) {
        send(c, f, k, true);
    }
    char name[FED_SHA256_HEX];
    fed_hex(f->device[1].fingerprint, FED_SHA256_SIZE, name);
    coordinator_commit(c);
    fedserver_entry revoked;
    assert_fed_ok_err(fedserver_device_revoke(c->server, c->now_ms, name, &revoked, &err));
    coordinator_restart(c);
    coordinator_wait(c, 601 * 1000);
    open_round(c, f, 100000);
    f->device[0] = f->device[3]; /* only the fourth is still there */
    model_of(c, f, values);
    assert_memory_not_equal(values, f->before, sizeof values);
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
    fedserver_reply reply = {
        .generation = f->work[0].privacy.generation, .task = f->work[0].task.id, .round = 1};
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

/* Put a restored copy of the coordinator in its place, as of the last backup. Where the store makes
 * no copies, its database is told that it is one. */
static void become_a_copy(coordinator *c, const char *backup) {
    fed_error err = {0};
    fedserver *server = NULL;
    fedserver_close(c->server);
    if (backup != NULL) {
        fed_test_rmdir(c->directory);
        assert_fed_ok_err(fedserver_restore(backup, c->directory, &err));
    } else {
        assert_fed_ok_err(fedserver_open(c->directory, NULL, &server, &err));
        assert_fed_ok_err(fedserver_restored(server, c->now_ms, &err));
        fedserver_close(server);
    }
    coordinator_check(c->directory);
    coordinator_open(c);
}

static fed_status find_event(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    char *found = user;
    (void)err;
    if (strcmp(entry->event, "round_voided") == 0) {
        snprintf(found, 200, "%.199s", entry->detail);
    }
    return FED_OK;
}

/* Send the same bytes once more. */
static void send_again(coordinator *c, const federation *f, size_t k, const fed_writer *w,
                       int status) {
    answer a = post(c, &f->device[k], w);
    assert_int_equal(a.status, status);
    answer_free(&a);
}

/* The copy has three updates of a round that the original, with a fourth, got opened. */
FED_TEST_WITH(a_restored_coordinator_opens_no_round_twice, coordinator *c) {
    federation *f = begin(c, true);
    char backup[300], voided[200] = "";
    float values[VALUES];
    fed_error err = {0};
    fed_writer w;
    fed_writer_growing(&w);
    const fed_private_terms terms = terms_of(f, 0);
    encode_masked(f, 0, 0, &terms, &w);
    send_again(c, f, 0, &w, 200);
    for (size_t k = 1; k < 3; k++) {
        send(c, f, k, true);
    }
    coordinator_commit(c);
    const bool copies = coordinator_store(c)->copy != NULL;
    fed_test_tmpdir(backup, 256);
    strcat(backup, "/copy");
    if (copies) {
        assert_fed_ok_err(fedserver_backup(c->server, backup, &err));
        send(c, f, 3, true);
        open_round(c, f, 100000);
    }
    become_a_copy(c, copies ? backup : NULL);
    assert_fed_ok_err(fedserver_audit_each(c->server, 0, find_event, voided, &err));
    assert_string_equal(voided, "task=1 round=1 updates=3");
    send_again(c, f, 0, &w, 409); /* its device still owes it */
    const uint64_t before = f->work[0].privacy.generation;
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].round, 1);
        assert_true(f->work[k].privacy.generation != before);
        send(c, f, k, true);
    }
    fedserver_reply reply = reply_to(c, f);
    assert_string_equal(reply.word, "");
    assert_true(reply.renewed == copies);
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    model_of(c, f, values);
    fedserver_reply_free(&reply);
    fed_writer_free(&w);
    backup[strlen(backup) - 5] = '\0';
    fed_test_rmdir(backup);
    end(f);
}

/* An opening that the store has is as good under the new generation. */
FED_TEST_WITH(a_round_that_was_opened_before_the_backup_commits_in_the_copy, coordinator *c) {
    federation *f = begin(c, true);
    fed_error err = {0};
    float values[VALUES];
    char voided[200] = "";
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    fedserver_reply reply = reply_to(c, f);
    assert_fed_ok_err(c->server->store->opening_put(c->server->db, f->work[0].task.id, 1,
                                                    reply.fields, reply.fields_len, &err));
    coordinator_commit(c);
    become_a_copy(c, NULL);
    assert_fed_ok_err(fedserver_audit_each(c->server, 0, find_event, voided, &err));
    assert_string_equal(voided, "");
    coordinator_wait(c, 1);
    model_of(c, f, values);
    fedserver_reply_free(&reply);
    end(f);
}

/* The helper's disk is lost: one with f->secret takes its place. */
static void replace_helper(coordinator *c, federation *f) {
    fedserver_helper_close(f->helper);
    assert_int_equal(remove(f->state), 0);
    enrol_helper(c, f);
}

static void new_helper(coordinator *c, federation *f, char hex[2 * FED_SEAL_KEY + 1]) {
    assert_fed_ok(fed_point_new(f->secret, f->key, &f->err));
    replace_helper(c, f);
    fed_hex(f->key, sizeof f->key, hex);
}

static void play_round_anew(coordinator *c, federation *f, float values[VALUES]) {
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_int_equal(f->work[k].round, 1);
        assert_memory_equal(f->work[k].privacy.helper_key[0], f->key, FED_SEAL_KEY);
        send(c, f, k, true);
    }
    open_round(c, f, 100000);
    model_of(c, f, values);
}

/* The round is open: nothing is said of a helper, nor kept of what one refused. */
static void expect_no_helper_waits(const coordinator *c) {
    char refusal[64] = "-";
    fed_error err = {0};
    const fedserver_training *t = fedserver_rounds_task(&c->server->rounds, 1);
    assert_false(t->asking.waits);
    assert_string_equal(t->asking.refusal, "");
    assert_fed_ok_err(
        c->server->store->opening_refused(c->server->db, 1, 1, refusal, sizeof refusal, &err));
    assert_string_equal(refusal, "");
}

/* The helper's disk is lost: another one gets a key of its own, and a person voids the round. */
FED_TEST_WITH(a_round_is_voided_for_another_helper, coordinator *c) {
    federation *f = begin(c, true);
    char hex[2 * FED_SEAL_KEY + 1], voided[200] = "";
    float values[VALUES];
    fedserver_reopened lost;
    fed_error err = {0};
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    refuse(c, f, 1); /* what the lost helper said last */
    new_helper(c, f, hex);
    answer a = ask(c, &f->helper_device);
    assert_int_equal(a.status, 204); /* no task names the new key yet */
    answer_free(&a);
    fedserver_reopening_options options = {.helper = hex};
    assert_fed_status(fedserver_task_reopen(c->server, c->now_ms, 1, &options, &lost, &err),
                      FED_EBUSY);
    assert_fed_says(err, "round 1 of task 1 has 4 updates");
    coordinator_wait(c, 1000);
    options.force = true;
    assert_fed_ok_err(fedserver_task_reopen(c->server, c->now_ms, 1, &options, &lost, &err));
    assert_int_equal(lost.round, 1);
    assert_int_equal(lost.updates, 4);
    coordinator_wait(c, 1000); /* the task runs on until the next batch begins */
    assert_int_equal(c->server->rounds.task_count, 1);
    coordinator_commit(c);
    coordinator_wait(c, 1000);
    assert_fed_ok_err(fedserver_audit_each(c->server, 0, find_event, voided, &err));
    assert_string_equal(voided, "task=1 round=1 updates=4");
    expect_no_helper_waits(c);
    coordinator_restart(c);
    expect_no_helper_waits(c);
    play_round_anew(c, f, values);
    end(f);
}

static void reopen(coordinator *c, const fedserver_reopening_options *options) {
    fedserver_reopened lost;
    fed_error err = {0};
    assert_fed_ok_err(fedserver_task_reopen(c->server, c->now_ms, 1, options, &lost, &err));
    coordinator_wait(c, 1000);
    coordinator_commit(c);
    coordinator_wait(c, 1000);
}

/* The helper is started again with the spare key that the task names, and a person voids the
 * round. */
FED_TEST_WITH(a_round_is_voided_for_the_spare_key, coordinator *c) {
    federation *f = begin(c, true);
    fed_points keys = {.count = 2};
    char text[FED_POINTS_TEXT];
    float values[VALUES];
    fedserver_reopened lost;
    fed_error err = {0};
    memcpy(keys.at[0], f->key, sizeof f->key);
    assert_fed_ok(fed_point_new(f->secret, keys.at[1], &err));
    fed_points_write(&keys, text);
    fedserver_reopening_options options = {.helper = text};
    reopen(c, &options);
    for (size_t k = 0; k < DEVICES; k++) {
        f->work[k] = device_ask_work(c, &f->device[k]);
        assert_memory_equal(f->work[k].privacy.helper_key[0], f->key, FED_SEAL_KEY);
        send(c, f, k, true);
    }
    coordinator_expect_waits(c, "to open the sum of 4 updates");
    replace_helper(c, f);
    memcpy(f->key, keys.at[1], sizeof f->key);
    answer a = ask(c, &f->helper_device);
    assert_int_equal(a.status, 204); /* nothing before a person says so */
    answer_free(&a);
    coordinator_expect_waits(c,
                             "the helper with its spare key is here: `fedserver reopen --spare 1`");
    options = (fedserver_reopening_options){.spare = true, .force = true};
    reopen(c, &options);
    play_round_anew(c, f, values);
    assert_fed_status(fedserver_task_reopen(c->server, c->now_ms, 1, &options, &lost, &err),
                      FED_EINVAL);
    assert_fed_says(err, "names no spare key");
    end(f);
}

/* The helper opened the round, but its reply was lost: the same helper opens it anew. */
FED_TEST_WITH(a_round_is_voided_for_the_same_helper, coordinator *c) {
    federation *f = begin(c, true);
    float values[VALUES];
    fedserver_reopened lost;
    fed_error err = {0};
    const fedserver_reopening_options options = {.force = true};
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    fedserver_reply reply = reply_to(c, f);
    assert_fed_ok_err(fedserver_task_reopen(c->server, c->now_ms, 1, &options, &lost, &err));
    coordinator_restart(c);
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 409, "round_closed");
    coordinator_wait(c, 1000);
    a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 409, "round_closed");
    play_round_anew(c, f, values);
    fedserver_reply_free(&reply);
    end(f);
}

FED_TEST_WITH(only_a_round_that_waits_for_a_helper_is_voided, coordinator *c) {
    federation *f = begin(c, true);
    fedserver_reopened lost;
    fed_error err = {0};
    fedserver_reopening_options options = {.force = true, .helper = "04"};
    assert_fed_status(fedserver_task_reopen(c->server, c->now_ms, 9, &options, &lost, &err),
                      FED_ENOTFOUND);
    assert_fed_status(fedserver_task_reopen(c->server, c->now_ms, 1, &options, &lost, &err),
                      FED_EINVAL);
    assert_fed_says(err, "130 hex digits");
    options.helper = NULL;
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    assert_fed_ok_err(
        c->server->store->opening_put(c->server->db, 1, 1, f->secret, sizeof f->secret, &err));
    coordinator_commit(c);
    assert_fed_status(fedserver_task_reopen(c->server, c->now_ms, 1, &options, &lost, &err),
                      FED_ESTATE);
    assert_fed_says(err, "has opened round 1");
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_CANCEL, &err));
    assert_fed_status(fedserver_task_reopen(c->server, c->now_ms, 1, &options, &lost, &err),
                      FED_ESTATE);
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"cohort\": 1, \"rounds\": 1}");
    assert_fed_status(fedserver_task_reopen(c->server, c->now_ms, 2, &options, &lost, &err),
                      FED_EINVAL);
    end(f);
}

#define PROMISE ", \"epsilon\": 8, \"delta\": 1e-5, \"participations\": 2"

/* The change of the model, of the sum of the fields less what the helper sent. */
static void change_of(const fedserver_training *t, const fedserver_reply *reply,
                      float change[VALUES]) {
    const fedcodec_ring ring = fedserver_masked_ring(&t->task, &t->arch.layout, 1);
    uint32_t *sums = malloc(ring.shape.fields * sizeof *sums);
    assert_non_null(sums);
    memcpy(sums, t->sum.fields, ring.shape.fields * sizeof *sums);
    fedcodec_ring_subtract(&ring, reply->fields, sums);
    (void)fedcodec_ring_sums(&ring, sums);
    fedcodec_ring_change(&ring, sums, DEVICES, change);
    free(sums);
}

/* Play a round with a promise. Returns how far the model is from what the helper opened. */
static double play_promise(coordinator *c, const char *rest) {
    static const uint8_t no_key[FEDSERVER_NOISE_KEY];
    federation *f = begin_more(c, true, rest);
    float values[VALUES], change[VALUES] = {0};
    double off = 0;
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    const fedserver_training *t = fedserver_rounds_task(&c->server->rounds, 1);
    const bool adds = memcmp(t->settled.noise_key, no_key, sizeof no_key) != 0;
    assert_int_equal(adds, fedserver_task_adds_noise(&t->task));
    for (size_t k = 0; k < DEVICES; k++) { /* charged before it is opened */
        assert_int_equal(fedserver_marks_get(&t->ledger.taken, t->sum.contributions[k].device, 0),
                         1);
    }
    fedserver_reply reply = reply_to(c, f);
    assert_string_equal(reply.word, "");
    change_of(t, &reply, change);
    answer a = open_with(c, f, &reply, 100000);
    answer_expect(&a, 200, "");
    model_of(c, f, values);
    for (size_t i = 0; i < VALUES; i++) {
        off = fmax(off, fabs((double)values[i] - (double)f->before[i] - (double)change[i]));
    }
    fedserver_reply_free(&reply);
    end(f);
    return off;
}

FED_TEST_WITH(a_helper_adds_the_noise_and_the_coordinator_none, coordinator *c) {
    assert_true(play_promise(c, PROMISE) < 1e-6);
}

FED_TEST_WITH(helper_and_coordinator_both_add_the_noise_where_the_task_says_so, coordinator *c) {
    assert_true(play_promise(c, PROMISE ", \"noise\": \"both\"") > 1e-2);
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

/* The task about which the helper is asked now; 0: none. */
static uint64_t asked_about(coordinator *c, const federation *f) {
    fedserver_inquiry q = {.groups = 1};
    fed_reader r;
    answer a = ask(c, &f->helper_device);
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
    uint8_t body[sizeof(uint32_t)];
    fed_writer w;
    for (size_t k = 0; k < DEVICES; k++) {
        send(c, f, k, true);
    }
    refuse(c, f, 1);
    coordinator_wait(c, 400);
    fed_writer_fixed(&w, body, sizeof body);
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
    coordinator_expect_waits(c, words);
    for (int k = 0; k < 2; k++) {
        refuse(c, f, 1);
        coordinator_expect_waits(
            c, "; it refuses (minimum): a sum of 4 devices is asked for; this helper");
        coordinator_restart(c);
        coordinator_expect_waits(c, words);
        coordinator_expect_waits(
            c, "; it refuses (minimum): a sum of 4 devices is asked for; this helper");
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
