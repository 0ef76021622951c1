/* A store that fails: each acknowledged update counts, and the coordinator reports the failure
 * and stops. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <stdatomic.h>

#include "fed/clock.h"
#include "fed/version.h"
#include "fed_cases.h"
#include "fedserver/open.h"

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 1}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

/* The real store, except that call number `fail_at` of its writing functions fails. */
static fedserver_store faulty;
static const fedserver_store *real;
static long calls, fail_at;

static fed_status spend(fed_error *err) {
    return ++calls == fail_at ? fed_fail(err, FED_ENOSPC, "the disk is full (test)") : FED_OK;
}

#define FAULTY(name, parameters, arguments)                                                        \
    static fed_status faulty_##name parameters {                                                   \
        FED_TRY(spend(err));                                                                       \
        return real->name arguments;                                                               \
    }
FAULTY(device_put, (void *db, const fedserver_device *device, fed_error *err), (db, device, err))
FAULTY(task_put, (void *db, const fedserver_task *t, unsigned from, fed_error *err),
       (db, t, from, err))
FAULTY(model_put, (void *db, uint64_t id, const fedserver_model_row *row, fed_error *err),
       (db, id, row, err))
FAULTY(delta_add,
       (void *db, uint64_t id, uint32_t version, const uint8_t *part, size_t len,
        const uint64_t *kept, fed_error *err),
       (db, id, version, part, len, kept, err))
FAULTY(keyframe_add, (void *db, uint64_t id, const fedserver_keyframe *keyframe, fed_error *err),
       (db, id, keyframe, err))
FAULTY(keyframe_prune, (void *db, uint64_t id, uint32_t version, fed_error *err),
       (db, id, version, err))
FAULTY(delta_prune, (void *db, uint64_t id, uint32_t version, fed_error *err),
       (db, id, version, err))
FAULTY(round_put, (void *db, uint64_t id, const fedserver_round_row *row, fed_error *err),
       (db, id, row, err))
FAULTY(update_add,
       (void *db, const fedserver_update_row *row, const uint8_t *body, size_t len, fed_error *err),
       (db, row, body, len, err))
FAULTY(update_clear, (void *db, uint64_t id, uint32_t round, fed_error *err), (db, id, round, err))
FAULTY(piece_add,
       (void *db, int64_t device, const fed_piece *piece, const uint8_t *data, size_t len,
        fed_error *err),
       (db, device, piece, data, len, err))
FAULTY(piece_clear, (void *db, int64_t device, fed_error *err), (db, device, err))
FAULTY(lease_prune, (void *db, uint64_t id, uint32_t round, fed_error *err), (db, id, round, err))

static fed_status faulty_commit(void *db, fed_error *err) {
    const fed_status status = spend(err);
    if (status != FED_OK) {
        real->rollback(db); /* a failed commit must leave nothing (S18 in docs/durability.md) */
        return status;
    }
    return real->commit(db, err);
}

static void make_faulty(const coordinator *c) {
    real = coordinator_store(c);
    faulty = *real;
    faulty.device_put = faulty_device_put;
    faulty.task_put = faulty_task_put;
    faulty.model_put = faulty_model_put;
    faulty.delta_add = faulty_delta_add;
    faulty.keyframe_add = faulty_keyframe_add;
    faulty.keyframe_prune = faulty_keyframe_prune;
    faulty.delta_prune = faulty_delta_prune;
    faulty.round_put = faulty_round_put;
    faulty.update_add = faulty_update_add;
    faulty.update_clear = faulty_update_clear;
    faulty.piece_add = faulty_piece_add;
    faulty.piece_clear = faulty_piece_clear;
    faulty.lease_prune = faulty_lease_prune;
    faulty.commit = faulty_commit;
}

/* The requests of one device from enrolment to the task's end. Each request has its own
 * fedserver_begin and fedserver_commit. The journey stops at the first failure. */
typedef struct journey {
    fedserver *server;
    const test_device *who;
    int64_t now_ms;
    uint32_t counted; /* updates whose acknowledgement was committed */
    bool done;
} journey;

static fed_status post(journey *j, const char *path, const fed_writer *body, fed_writer *reply,
                       int *http, fed_error *err) {
    const fedserver_request request = {.listener = FEDSERVER_DEVICES,
                                       .method = "POST",
                                       .path = path,
                                       .query = "",
                                       .body = body->data,
                                       .body_len = body->len,
                                       .fingerprint = j->who->fingerprint};
    fedserver_response response;
    int64_t next_ms;
    FED_TRY(fedserver_begin(j->server, err));
    FED_TRY(fedserver_handle(j->server, &request, j->now_ms, &response, err));
    if (response.body != NULL) {
        size_t len;
        const uint8_t *data = fedserver_blob_data(response.body, &len);
        fed_write_bytes(reply, data, len);
        fedserver_blob_free(response.body);
    }
    *http = response.status;
    FED_TRY(fedserver_tick(j->server, j->now_ms, &next_ms, err));
    return fedserver_commit(j->server, err);
}

static fed_status upload(journey *j, const fed_assignment *work, fed_error *err) {
    fed_writer message, out, in;
    int http = 0;
    fed_status status = FED_OK;
    fed_writer_growing(&message);
    device_encode(work, ones, 1, &message);
    for (size_t k = 0; k < 2 && status == FED_OK; k++) {
        fed_writer_growing(&out);
        fed_writer_growing(&in);
        size_t half = message.len / 2, at = k * half;
        fed_piece_write(&out, &(fed_piece){.task = work->task.id,
                                           .round = work->round,
                                           .lease = work->lease,
                                           .digest = fed_digest_bytes(message.data, message.len),
                                           .total = message.len,
                                           .offset = at});
        fed_write_bytes(&out, message.data + at, k == 0 ? half : message.len - half);
        status = post(j, "/v1/piece", &out, &in, &http, err);
        if (status == FED_OK) {
            assert_int_equal(http, k == 0 ? 202 : 200);
            j->counted += k == 1;
        }
        fed_writer_free(&out);
        fed_writer_free(&in);
    }
    fed_writer_free(&message);
    return status;
}

static fed_status one_round(journey *j, fed_error *err) {
    fed_writer out;
    fed_writer in;
    int http = 0;
    fed_writer_growing(&out);
    fed_writer_growing(&in);
    fed_checkin_write(&out, &(fed_checkin){.role = FED_ROLE_TRAIN, .held = {{1, 99}}});
    fed_status status = post(j, "/v1/checkin", &out, &in, &http, err);
    fed_assignment work = {0};
    if (status == FED_OK) {
        fed_reader r;
        fed_reader_init(&r, in.data, in.len);
        assert_fed_ok(fed_assignment_read(&r, FED_PROTOCOL, &work));
        j->done = work.action == FED_ACTION_DONE;
    }
    if (status == FED_OK && work.action == FED_ACTION_TRAIN) {
        status = upload(j, &work, err);
    }
    fed_writer_free(&out);
    fed_writer_free(&in);
    return status;
}

static fed_status travel(journey *j, fed_error *err) {
    for (int k = 0; k < 10 && !j->done; k++) {
        FED_TRY(one_round(j, err));
    }
    return FED_OK;
}

/* Number of rounds that the log has reported. The log may report a round only when the round is on
 * the disk. */
static long claimed;

static void count_claims(void *user, fed_log_level level, const char *line) {
    (void)user;
    (void)level;
    claimed += strstr(line, " committed with ") != NULL;
}

static const fed_log counting = {.write = count_claims, .level = FED_LOG_INFO};

FED_TEST(whatever_write_fails_the_task_ends_with_the_same_model) {
    uint64_t clean = 0;
    bool failed = true;
    for (long at = 0; failed; at++) {
        coordinator c;
        fed_error err = {0};
        coordinator_setup(&c);
        make_faulty(&c);
        test_device d = coordinator_enrol(&c);
        coordinator_task(&c, task);
        coordinator_commit(&c);
        fedserver_close(c.server);

        journey j = {.who = &d, .now_ms = c.now_ms};
        calls = claimed = 0;
        fail_at = at;
        assert_fed_ok_err(fedserver_open_store(c.directory, &faulty, &counting, &j.server, &err));
        fed_status status = travel(&j, &err);
        failed = status != FED_OK || at == 0;
        if (status != FED_OK) {
            assert_fed_status(status, FED_ENOSPC);
            assert_fed_status(fedserver_begin(j.server, &err), FED_ESTATE);
            fedserver_close(j.server);
            assert_fed_ok_err(
                fedserver_open_store(c.directory, &faulty, &counting, &j.server, &err));
            assert_fed_ok_err(travel(&j, &err));
        }
        assert_true(j.done);
        assert_int_equal(claimed, 2);
        assert_in_range(j.counted, 2, 3);
        assert_int_equal(fedserver_rounds_front(&j.server->rounds)->versions.version, 2);
        clean = clean == 0 ? fedserver_rounds_front(&j.server->rounds)->versions.digest : clean;
        assert_true(fedserver_rounds_front(&j.server->rounds)->versions.digest == clean);
        c.server = j.server;
        coordinator_teardown(&c);
    }
}

/* A store that several coordinators share, whose connection breaks. Opening the store again blocks
 * until the test allows it, and may fail. */
static bool gone, comes_back;
static atomic_int opens_now;
static atomic_bool may_open;

static fed_status gone_lead(void *db, const char *address, fedserver_lead *lead, fed_error *err) {
    (void)db, (void)address;
    if (gone) {
        return fed_fail(err, FED_EIO, "the connection is lost (test)");
    }
    *lead = (fedserver_lead){.term = 7, .address = "127.0.0.1:9"};
    return FED_OK;
}

static fed_status gone_open(const char *directory, const char *where, void **db, fed_error *err) {
    atomic_fetch_add(&opens_now, 1);
    for (int k = 0; k < 20000 && !atomic_load(&may_open); k++) {
        fed_sleep_ms(1);
    }
    atomic_fetch_sub(&opens_now, 1);
    if (gone && !comes_back) {
        return fed_fail(err, FED_EIO, "no connection (test)");
    }
    gone = false;
    return real->open(directory, where, db, err);
}

static void gone_let_go(void *db) {
    assert_non_null(db);
}

static fedserver *lose_store(coordinator *c) {
    fed_error err = {0};
    fedserver *server = NULL;
    coordinator_setup(c);
    fedserver_close(c->server);
    real = coordinator_store(c);
    faulty = *real;
    faulty.open = gone_open;
    faulty.lead = gone_lead;
    faulty.let_go = gone_let_go;
    gone = false;
    atomic_store(&may_open, true);
    assert_fed_ok_err(fedserver_open_store(c->directory, &faulty, NULL, &server, &err));
    const fedserver_setup setup = {.part = FEDSERVER_ROUNDS, .address = "127.0.0.1:8445"};
    fedserver_configure(server, &setup);
    assert_fed_ok_err(fedserver_begin(server, &err));
    assert_fed_ok_err(fedserver_commit(server, &err));
    gone = true;
    atomic_store(&may_open, false);
    for (int k = 0; k < 20000 && atomic_load(&opens_now) == 0; k++) {
        assert_fed_ok_err(fedserver_begin(server, &err));
        assert_fed_ok_err(fedserver_commit(server, &err));
        fed_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&opens_now), 1);
    return server;
}

static fed_status await_store(fedserver *server, fed_error *err) {
    fed_status status = FED_OK;
    for (int k = 0; k < 20000 && status == FED_OK && server->db == NULL; k++) {
        fed_sleep_ms(1);
        status = fedserver_begin(server, err);
        status = status == FED_OK ? fedserver_commit(server, err) : status;
    }
    return status;
}

static void end_follower(coordinator *c, fedserver *server) {
    fed_error err = {0};
    fedserver_let_go(server);
    fedserver_close(server);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &c->server, &err));
    coordinator_teardown(c);
}

FED_TEST(a_follower_whose_store_does_not_come_back_says_so_and_ends) {
    coordinator c;
    fed_error err = {0};
    fedserver *server = lose_store(&c);
    comes_back = false;
    atomic_store(&may_open, true);
    assert_fed_fails(await_store(server, &err), FED_EIO, "no connection (test)");
    end_follower(&c, server);
}

FED_TEST(a_follower_goes_on_while_its_store_is_silent) {
    coordinator c;
    fed_error err = {0};
    const char *leader;
    uint64_t term;
    fedserver *server = lose_store(&c);
    comes_back = true;
    for (int batches = 0; batches < 300; batches++) {
        /* None of these batches may wait for the store. */
        assert_fed_ok_err(fedserver_begin(server, &err));
        assert_fed_ok_err(fedserver_commit(server, &err));
        fed_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&opens_now), 1);
    assert_true(fedserver_follows(server, &leader, &term));
    assert_string_equal(leader, "127.0.0.1:9");
    assert_int_equal(term, 7);
    atomic_store(&may_open, true);
    assert_fed_ok_err(await_store(server, &err));
    assert_non_null(server->db);
    end_follower(&c, server);
}

FED_TEST(a_follower_ends_while_its_store_is_silent) {
    coordinator c;
    fedserver *server = lose_store(&c);
    comes_back = true;
    fedserver_let_go(server);
    atomic_store(&may_open, true);
    end_follower(&c, server);
}
