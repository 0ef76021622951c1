/* PostgreSQL fails in several ways during a batch. Then the commit must fail, no answer may
 * leave, and the coordinator that is opened next must have none of the batch (S1, S2 and S18 in
 * docs/durability.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "fed_cases.h"
#include "fed_postgres.h"
#include "fedserver/stores/stores.h"

static const char task[] =
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
    " \"codec_down\": \"float32\", \"rounds\": 1000, \"cohort\": 2, \"goal\": 1}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

/* A coordinator with a task, a device that has a lease, an evaluator, a device without a lease,
 * and a token for a new device. */
typedef struct scene {
    coordinator c;
    test_device trainer, judge, unseen;
    fed_assignment work;
    uint64_t task;
    char token[FEDSERVER_TOKEN];
    uint8_t body[FED_PEM_SIZE];
} scene;

static fedserver_request from(const test_device *d, const char *path, const uint8_t *body,
                              size_t len) {
    return (fedserver_request){.listener = FEDSERVER_DEVICES,
                               .method = "POST",
                               .path = path,
                               .query = "",
                               .body = body,
                               .body_len = len,
                               .fingerprint = d->fingerprint,
                               .certificate = d->certificate};
}

static fedserver_request a_lease_of(scene *s, const test_device *d, fed_role role) {
    fed_writer w;
    fed_writer_fixed(&w, s->body, sizeof s->body);
    fed_checkin_write(&w, &(fed_checkin){.role = role});
    return from(d, "/v1/checkin", s->body, w.len);
}

static fedserver_request a_lease(scene *s) {
    return a_lease_of(s, &s->unseen, FED_ROLE_TRAIN);
}

/* The update completes the round, so the batch's tick commits a version. */
static fedserver_request an_update_and_its_round(scene *s) {
    fed_writer w;
    fed_writer_fixed(&w, s->body, sizeof s->body);
    device_encode(&s->work, ones, 1, &w);
    return from(&s->trainer, "/v1/update", s->body, w.len);
}

static fedserver_request the_last_piece(scene *s) {
    fed_writer w, message;
    fed_writer_growing(&message);
    device_encode(&s->work, ones, 1, &message);
    fed_writer_fixed(&w, s->body, sizeof s->body);
    fed_piece_write(&w, &(fed_piece){.task = s->work.task.id,
                                     .round = s->work.round,
                                     .lease = s->work.lease,
                                     .digest = fed_digest_bytes(message.data, message.len),
                                     .total = message.len});
    fed_write_bytes(&w, message.data, message.len);
    fed_writer_free(&message);
    return from(&s->trainer, "/v1/piece", s->body, w.len);
}

static fedserver_request a_decline(scene *s) {
    fed_writer w;
    fed_decline message = {
        .task = s->work.task.id, .round = s->work.round, .lease = s->work.lease, .reason = "no"};
    fed_writer_fixed(&w, s->body, sizeof s->body);
    fed_decline_write(&w, &message);
    return from(&s->trainer, "/v1/decline", s->body, w.len);
}

static fedserver_request a_metric(scene *s) {
    fed_writer w;
    fed_writer_fixed(&w, s->body, sizeof s->body);
    fed_metric_write(&w, &(fed_metric){.task = s->task, .samples = 10, .correct = 9, .loss = 0.5f});
    return from(&s->judge, "/v1/metric", s->body, w.len);
}

static fedserver_request signed_by(scene *s, const test_device *d, const char *path) {
    fed_error err = {0};
    fed_pem csr;
    assert_fed_ok_err(fed_csr_new(&d->key, "test", &csr, &err));
    const size_t len = strlen(csr.text);
    memcpy(s->body, csr.text, len);
    fedserver_request request = from(d, path, s->body, len);
    request.listener = FEDSERVER_FRONT;
    request.fingerprint = request.certificate = NULL;
    return request;
}

/* The request uses a token and writes a device and a line of the audit log. */
static fedserver_request an_enrolment(scene *s) {
    static test_device newcomer;
    fed_error err = {0};
    assert_fed_ok_err(fed_key_new(&newcomer.key, &err));
    fedserver_request request = signed_by(s, &newcomer, "/v1/enrol");
    request.bearer = s->token;
    return request;
}

static fedserver_request a_renewal(scene *s) {
    return signed_by(s, &s->trainer, "/v1/renew");
}

static const struct {
    const char *name;
    fedserver_request (*make)(scene *s);
    int answer;
} promises[] = {
    {"a lease", a_lease, 200},
    {"an update and its round", an_update_and_its_round, 200},
    {"a last piece", the_last_piece, 200},
    {"a decline", a_decline, 200},
    {"a metric", a_metric, 200},
    {"an enrolment", an_enrolment, 200},
    {"a renewal", a_renewal, 200},
};
enum { PROMISES = sizeof promises / sizeof promises[0] };

static const char *where(const scene *s) {
    (void)s;
    return fed_postgres_shared();
}

static void trap(const scene *s, const char *deed) {
    char text[1000];
    snprintf(text, sizeof text,
             "CREATE OR REPLACE FUNCTION fedserver.trap() RETURNS trigger LANGUAGE plpgsql AS"
             " $$ BEGIN %s; RETURN NULL; END $$;"
             "DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables"
             " WHERE schemaname = 'fedserver' AND tablename NOT IN ('leader', 'revision') LOOP"
             " EXECUTE format('CREATE TRIGGER trap BEFORE INSERT OR UPDATE OR DELETE ON"
             " fedserver.%%I FOR EACH STATEMENT EXECUTE FUNCTION fedserver.trap()', t);"
             " END LOOP; END $$",
             deed);
    fed_postgres_sql(where(s), text, NULL, 0);
}

static void end_trap(const scene *s) {
    fed_postgres_sql(where(s), "DROP FUNCTION fedserver.trap CASCADE", NULL, 0);
}

static void fills_the_disk(const scene *s) {
    trap(s, "RAISE EXCEPTION 'full' USING ERRCODE = '53100'");
}

static void keeps_a_lock(const scene *s) {
    trap(s, "RAISE EXCEPTION 'lock' USING ERRCODE = '55P03'");
}

static void ends_the_connection(const scene *s) {
    trap(s, "PERFORM pg_terminate_backend(pg_backend_pid())");
}

static void lets_another_lead(const scene *s) {
    fed_postgres_sql(where(s), "UPDATE fedserver.revision SET term = term + 1", NULL, 0);
}

static void leads_again(const scene *s) {
    fed_postgres_sql(where(s), "UPDATE fedserver.revision SET term = term - 1", NULL, 0);
}

typedef struct failure {
    void (*begin)(const scene *s), (*end)(const scene *s);
    bool shared;
} failure;

static void set_up(scene *s, bool shared) {
    fed_error err = {0};
    memset(s, 0, sizeof *s);
    coordinator_setup(&s->c);
    s->c.address = shared ? "127.0.0.1:9" : NULL;
    coordinator_crash(&s->c);
    s->trainer = coordinator_enrol(&s->c);
    s->unseen = coordinator_enrol(&s->c);
    s->judge = coordinator_enrol_evaluator(&s->c);
    s->task = coordinator_task(&s->c, task);
    coordinator_commit(&s->c);
    const fedserver_grant grant = {.ttl_s = 3600};
    assert_fed_ok_err(fedserver_token_grant(s->c.server, s->c.now_ms, &grant, s->token, &err));
    s->work = device_ask_work(&s->c, &s->trainer);
    assert_int_equal(s->work.action, FED_ACTION_TRAIN);
    coordinator_commit(&s->c);
}

static void digest_rows(const scene *s, char digest[40]) {
    fed_postgres_sql(where(s),
                     "SET search_path = fedserver; SELECT md5(concat("
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM devices t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM tokens t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM updates t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM declines t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM metrics t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM rounds t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM models t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM deltas t),"
                     "(SELECT string_agg(t::text, '' ORDER BY t::text) FROM audit t)))",
                     digest, 40);
}

static void look_carelessly(const scene *s, bool careless) {
    fedserver_device found;
    fed_error dropped = {0};
    const uint8_t nobody[FED_SHA256_SIZE] = {9};
    if (careless) {
        (void)!s->c.server->store->device_find(s->c.server->db, nobody, &found, &dropped);
    }
}

/* Run a batch: handle the request, check the head of another request, tick and commit. *status gets
 * the HTTP status of the answer, which may leave only if FED_OK is returned. */
static fed_status run_batch(scene *s, const fedserver_request *request, bool careless,
                            int *status) {
    fed_error err = {0};
    fedserver_response response = {0};
    int64_t next_ms = 0;
    const fedserver_request head = {.listener = FEDSERVER_DEVICES,
                                    .method = "POST",
                                    .path = "/v1/update",
                                    .query = "",
                                    .fingerprint = (const uint8_t[FED_SHA256_SIZE]){7}};
    FED_TRY(fedserver_handle(s->c.server, request, s->c.now_ms, &response, &err));
    *status = response.status;
    fedserver_blob_free(response.body);
    assert_int_equal(fedserver_body_refused(s->c.server, &head, 100), 0);
    look_carelessly(s, careless);
    FED_TRY(fedserver_tick(s->c.server, s->c.now_ms, &next_ms, &err));
    return fedserver_commit(s->c.server, &err);
}

static void walk(const failure *f, bool careless) {
    for (size_t k = 0; k < PROMISES; k += FED_TEST_TRIES(1, 3)) {
        scene s;
        char before[40], after[40];
        int status = 0;
        set_up(&s, f->shared);
        const fedserver_request request = promises[k].make(&s);
        digest_rows(&s, before);
        f->begin(&s);
        const fed_status committed = run_batch(&s, &request, careless, &status);
        f->end(&s);
        digest_rows(&s, after);
        if (committed == FED_OK) {
            fail_msg("%s: the commit succeeded in spite of the fault, and the answer was %d",
                     promises[k].name, status);
        }
        assert_true(status == 0 || status == promises[k].answer);
        assert_string_equal(after, before);
        /* This coordinator must stop. The next coordinator can handle the same request. */
        fed_error err = {0};
        assert_fed_status(fedserver_begin(s.c.server, &err), FED_ESTATE);
        coordinator_crash(&s.c);
        assert_fed_ok(run_batch(&s, &request, careless, &status));
        assert_int_equal(status, promises[k].answer);
        digest_rows(&s, after);
        assert_string_not_equal(after, before);
        coordinator_teardown(&s.c);
    }
}

FED_TEST(of_a_full_disk) {
    walk(&(failure){fills_the_disk, end_trap, false}, true);
}

FED_TEST(of_a_lock_that_does_not_come) {
    walk(&(failure){keeps_a_lock, end_trap, false}, true);
}

FED_TEST(of_a_connection_that_ends) {
    walk(&(failure){ends_the_connection, end_trap, false}, true);
}

FED_TEST(of_another_leader) {
    walk(&(failure){lets_another_lead, leads_again, true}, true);
}

FED_TEST(of_a_full_disk_that_nobody_looks_at) {
    walk(&(failure){fills_the_disk, end_trap, false}, false);
}

int main(void) {
    if (!fed_postgres_is_there() || setenv("FED_TEST_STORE", "postgres", 1) != 0) {
        return 77;
    }
    return fed_cases_run(NULL, NULL);
}
