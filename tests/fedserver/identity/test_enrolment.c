/* Who gets a certificate, and who does not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/crypto.h"
#include "fedserver/stores/stores.h"

static void new_token(coordinator *c, char token[FEDSERVER_TOKEN]) {
    fed_error err = {0};
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_token_new(c->server, c->now_ms, 3600, token, &err));
}

static void new_request(fed_pem *csr) {
    fed_error err = {0};
    fed_pem key;
    assert_fed_ok_err(fed_key_new(&key, &err));
    assert_fed_ok_err(fed_csr_new(&key, "somebody else", csr, &err));
}

/* Ask for a certificate and return the answer in short form, such as "403 device_unknown".
 * Without a token the request is a renewal. */
static const char *certify(coordinator *c, const char *path, const char *token, const char *csr,
                           size_t len) {
    char word[32] = "";
    fed_error err = {0};
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "POST",
                                       .path = path,
                                       .query = "",
                                       .bearer = token,
                                       .body = (const uint8_t *)csr,
                                       .body_len = len};
    fedserver_response response;
    assert_fed_ok_err(fedserver_handle(c->server, &request, c->now_ms, &response, &err));
    size_t size;
    const uint8_t *body = fedserver_blob_data(response.body, &size);
    char text[600] = "";
    memcpy(text, body, size < sizeof text ? size : sizeof text - 1);
    (void)sscanf(text, "{\"error\":\"%31[a-z_]\"", word);
    fedserver_blob_free(response.body);
    return answer_short(response.status, word);
}

static const char *enrol(coordinator *c, const char *token, const fed_pem *csr) {
    return certify(c, "/v1/enrol", token, csr->text, strlen(csr->text));
}

static const char *renew(coordinator *c, const fed_pem *key) {
    fed_error err = {0};
    fed_pem csr;
    assert_fed_ok_err(fed_csr_new(key, "me", &csr, &err));
    return certify(c, "/v1/renew", NULL, csr.text, strlen(csr.text));
}

/* A changed byte makes the signature wrong or unreadable. */
static void assert_spoilt(const char *said) {
    assert_true(strncmp(said, "403", 3) == 0 || strncmp(said, "400", 3) == 0);
}

static void a_token_is_43_url_safe_characters_and_never_twice_the_same(void **state) {
    char a[FEDSERVER_TOKEN];
    char b[FEDSERVER_TOKEN];
    new_token(*state, a);
    new_token(*state, b);
    assert_int_equal(strlen(a), 43);
    assert_int_equal(strspn(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                     43);
    assert_string_not_equal(a, b);
}

static void a_token_enrols_one_device(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    fed_pem csr;
    new_token(c, token);
    new_request(&csr);
    assert_string_equal(enrol(c, token, &csr), "200");
    assert_string_equal(enrol(c, token, &csr), "401 token_used");
    coordinator_restart(c);
    assert_string_equal(enrol(c, token, &csr), "401 token_used");
    assert_int_equal(coordinator_enrolled(c), 1);
}

static fedserver_device only_device(const coordinator *c) {
    fedserver_device device = {0};
    fed_error err = {0};
    assert_fed_ok_err(fedserver_store_device(c->server->store, c->server->db, 1, &device, &err));
    return device;
}

/** The device asks again because it did not get the answer to its enrolment. */
static void a_key_that_its_token_enrolled_gets_its_certificate_again(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    fed_error err = {0};
    fed_pem key, csr;
    const fedserver_grant grant = {.ttl_s = 3600, .role = FEDSERVER_ROLE_EVALUATOR, .tag = "lab"};
    assert_fed_ok_err(fedserver_token_grant(c->server, c->now_ms, &grant, token, &err));
    assert_fed_ok_err(fed_key_new(&key, &err));
    assert_fed_ok_err(fed_csr_new(&key, "me", &csr, &err));
    assert_string_equal(enrol(c, token, &csr), "200");
    coordinator_restart(c);
    assert_string_equal(enrol(c, token, &csr), "401 token_used");
    assert_string_equal(renew(c, &key), "200");
    coordinator_restart(c);
    assert_int_equal(coordinator_enrolled(c), 1);
    const fedserver_device device = only_device(c);
    assert_int_equal(device.role, FEDSERVER_ROLE_EVALUATOR);
    assert_string_equal(device.tag, "lab");
}

static void a_crash_before_the_commit_gives_the_token_back(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    fed_pem csr;
    new_token(c, token);
    new_request(&csr);
    assert_string_equal(enrol(c, token, &csr), "200");
    coordinator_crash(c);
    assert_int_equal(coordinator_enrolled(c), 0);
    assert_string_equal(enrol(c, token, &csr), "200");
}

static void wrong_tokens_are_told_apart(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    fed_pem csr;
    new_request(&csr);
    assert_string_equal(enrol(c, NULL, &csr), "401 token_missing");
    assert_string_equal(enrol(c, "guess", &csr), "401 token_unknown");
    new_token(c, token);
    c->now_ms += 3600 * 1000;
    assert_string_equal(enrol(c, token, &csr), "401 token_expired");
    assert_int_equal(coordinator_enrolled(c), 0);
}

static void a_wrong_request_does_not_use_up_the_token(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    fed_pem csr;
    new_token(c, token);
    new_request(&csr);
    assert_string_equal(certify(c, "/v1/enrol", token, "", 0), "400 bad_request");
    assert_string_equal(certify(c, "/v1/enrol", token, "no PEM", 6), "400 bad_request");
    assert_string_equal(certify(c, "/v1/enrol", token, csr.text, strlen(csr.text) + 1),
                        "400 bad_request"); /* the request contains a NUL */
    char *digit = strstr(csr.text, "-----END") - 9;
    *digit = *digit == 'A' ? 'B' : 'A';
    assert_spoilt(enrol(c, token, &csr));
    *digit = 'A';
    new_request(&csr);
    assert_string_equal(enrol(c, token, &csr), "200");
}

static void an_expired_certificate_is_refused(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    c->now_ms += INT64_C(731) * 24 * 3600 * 1000;
    answer a = coordinator_ask(c, &d, "GET", "/v1/model", "", NULL, 0);
    answer_expect(&a, 403, "device_unknown");
}

/* Revoke a device through a second handle, as the command line does in another process. */
static void revoke(coordinator *c, const test_device *d, fedserver_entry *entry) {
    fedserver *other;
    fed_error err = {0};
    char prefix[2 * FED_SHA256_SIZE + 1];
    fed_hex(d->fingerprint, FED_SHA256_SIZE, prefix);
    prefix[8] = '\0';
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_device_revoke(other, c->now_ms, prefix, entry, &err));
    fedserver_close(other);
}

static const char *ask_model(coordinator *c, const test_device *d) {
    answer a = coordinator_ask(c, d, "GET", "/v1/model", "", NULL, 0);
    answer_free(&a);
    return answer_short(a.status, a.error);
}

static void a_revoked_device_is_refused_from_its_next_request_on(void **state) {
    coordinator *c = *state;
    fedserver_entry entry;
    test_device kept = coordinator_enrol(c), lost = coordinator_enrol(c);
    coordinator_commit(c);
    revoke(c, &lost, &entry);
    assert_int_equal(entry.revoked_ms, c->now_ms);
    coordinator_commit(c);
    assert_string_equal(ask_model(c, &lost), "403 device_revoked");
    assert_string_equal(ask_model(c, &kept), "400 bad_request");
    coordinator_crash(c);
    assert_string_equal(ask_model(c, &lost), "403 device_revoked");
}

static fed_status no_walk(void *db, fedserver_device_visit visit, void *user, fed_error *err) {
    (void)db, (void)visit, (void)user;
    return fed_fail(err, FED_ESTATE, "the table of devices is read as a whole");
}

static void what_another_process_changes_costs_no_walk_over_all_devices(void **state) {
    coordinator *c = *state;
    fedserver_entry entry;
    test_device lost = coordinator_enrol(c);
    coordinator_commit(c);
    const fedserver_store *store = c->server->rounds.store;
    fedserver_store watched = *store;
    watched.device_each = no_walk;
    c->server->rounds.store = &watched;
    revoke(c, &lost, &entry);
    coordinator_commit(c);
    assert_string_equal(ask_model(c, &lost), "403 device_revoked");
    c->server->rounds.store = store;
}

static void a_device_stays_revoked_since_the_first_time(void **state) {
    coordinator *c = *state;
    fedserver_entry entry;
    test_device d = coordinator_enrol(c);
    coordinator_commit(c);
    int64_t first = c->now_ms;
    revoke(c, &d, &entry);
    c->now_ms += 1000;
    revoke(c, &d, &entry);
    assert_int_equal(entry.revoked_ms, first);
}

static void a_revocation_must_say_which_device(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver_entry entry;
    (void)coordinator_enrol(c);
    coordinator_commit(c);
    assert_fed_status(fedserver_device_revoke(c->server, c->now_ms, "0123456", &entry, &err),
                      FED_EINVAL);
    assert_fed_fails(fedserver_device_revoke(c->server, c->now_ms, "no such one", &entry, &err),
                     FED_ENOTFOUND, "0 devices");
}

static void a_key_is_enrolled_once(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    fed_pem csr;
    new_request(&csr);
    new_token(c, token);
    assert_string_equal(enrol(c, token, &csr), "200");
    new_token(c, token);
    assert_string_equal(enrol(c, token, &csr), "409 key_known");
    new_request(&csr);
    assert_string_equal(enrol(c, token, &csr), "200");
}

enum { DAY_MS = 24 * 3600 * 1000 };

static void a_renewed_device_stays_the_same_one(void **state) {
    coordinator *c = *state;
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 2, \"cohort\": 2}");
    const test_device d = coordinator_enrol(c);
    fed_assignment work = device_ask_work(c, &d);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(device_upload(c, &d, &work, x, 1, NULL), 200);
    c->now_ms += INT64_C(729) * DAY_MS;
    assert_string_equal(renew(c, &d.key), "200");
    coordinator_restart(c);
    c->now_ms += INT64_C(700) * DAY_MS; /* by now the old certificate would have expired */
    assert_int_equal(device_upload(c, &d, &work, x, 1, NULL), 200);
    assert_int_equal(c->server->rounds.counters.updates_repeated, 1);
    assert_int_equal(coordinator_enrolled(c), 1);
}

static void a_renewal_counts_at_once_and_after_a_restart(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c), other = coordinator_enrol(c);
    const int64_t old_ms = coordinator_device(c, &d)->expires_ms;
    assert_int_equal(coordinator_device(c, &other)->expires_ms, old_ms);
    c->now_ms = old_ms - DAY_MS;
    assert_string_equal(renew(c, &d.key), "200");
    coordinator_commit(c);
    const int64_t new_ms = coordinator_device(c, &d)->expires_ms;
    assert_true(new_ms > old_ms + 700 * INT64_C(86400000));
    for (int restarts = 0; restarts < 2; restarts++) {
        for (int k = 0; k < 2; k++) { /* just after the old end, just before the new */
            c->now_ms = k == 0 ? old_ms : new_ms - 1;
            assert_string_equal(ask_model(c, &d), "400 bad_request");
            assert_string_equal(ask_model(c, &other), "403 device_unknown");
        }
        c->now_ms = new_ms;
        assert_string_equal(ask_model(c, &d), "403 device_unknown");
        coordinator_crash(c);
    }
    assert_int_equal(coordinator_device(c, &d)->expires_ms, new_ms);
}

static fed_status count_renewed(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    (void)err;
    *(int *)user += strcmp(entry->event, "renewed") == 0;
    return FED_OK;
}

static void renewals_of_one_device_do_not_fill_the_audit_log(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    int rows = 0;
    const test_device d = coordinator_enrol(c);
    for (int k = 0; k < 20; k++) {
        c->now_ms += 60 * 1000;
        assert_string_equal(renew(c, &d.key), "200");
    }
    assert_fed_ok_err(fedserver_audit_each(c->server, 0, count_renewed, &rows, &err));
    assert_int_equal(rows, 0);
    c->now_ms += 3600 * 1000;
    assert_string_equal(renew(c, &d.key), "200");
    assert_fed_ok_err(fedserver_audit_each(c->server, 0, count_renewed, &rows, &err));
    assert_int_equal(rows, 1);
}

static void a_renewal_that_is_not_committed_costs_nothing(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    coordinator_commit(c);
    assert_string_equal(renew(c, &d.key), "200");
    coordinator_crash(c);
    assert_string_equal(renew(c, &d.key), "200");
    assert_string_equal(renew(c, &d.key), "200"); /* as if the first answer was lost */
}

static void only_a_device_in_good_standing_renews(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fed_pem stranger;
    fedserver_entry entry;
    assert_fed_ok_err(fed_key_new(&stranger, &err));
    assert_string_equal(renew(c, &stranger), "403 device_unknown");
    const test_device lost = coordinator_enrol(c), late = coordinator_enrol(c);
    coordinator_commit(c);
    revoke(c, &lost, &entry);
    coordinator_commit(c);
    assert_string_equal(renew(c, &lost.key), "403 device_revoked");
    c->now_ms += INT64_C(731) * DAY_MS;
    assert_string_equal(renew(c, &late.key), "403 device_unknown");
    assert_string_equal(certify(c, "/v1/renew", NULL, "no PEM", 6), "400 bad_request");
}

static void a_renewal_is_signed_with_the_devices_key(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fed_pem csr;
    const test_device d = coordinator_enrol(c);
    assert_fed_ok_err(fed_csr_new(&d.key, "me", &csr, &err));
    char *digit = strstr(csr.text, "-----END") - 9;
    *digit = *digit == 'A' ? 'B' : 'A';
    assert_spoilt(certify(c, "/v1/renew", NULL, csr.text, strlen(csr.text)));
}

/* Databases of early schemas name a device by its certificate, not by its key. */
static void a_device_of_an_old_database_is_known_and_renews(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    const test_device d = coordinator_enrol(c), other = coordinator_enrol(c);
    const fedserver_store *store = c->server->store;
    assert_fed_ok_err(
        store->device_name(c->server->db, coordinator_device(c, &d)->id, d.certificate, &err));
    coordinator_restart(c);
    assert_string_equal(renew(c, &d.key), "403 device_unknown");
    assert_string_equal(ask_model(c, &d), "400 bad_request");
    assert_string_equal(renew(c, &d.key), "200");
    coordinator_restart(c);
    assert_string_equal(ask_model(c, &d), "400 bad_request");
    assert_string_equal(ask_model(c, &other), "400 bad_request");
    assert_int_equal(coordinator_enrolled(c), 2);
}

static void each_role_has_its_own_doors(void **state) {
    coordinator *c = *state;
    static const struct {
        const char *method, *path;
        bool role[3]; /* in the order: device, evaluator, operator */
    } doors[] = {
        {"POST", "/v1/checkin", {true, true, false}}, {"GET", "/v1/model", {true, true, false}},
        {"POST", "/v1/update", {true, false, false}}, {"POST", "/v1/metric", {false, true, false}},
        {"GET", "/v1/status", {false, false, true}},  {"GET", "/metrics", {false, false, true}},
    };
    for (int role = 0; role < 3; role++) {
        const fedserver_grant grant = {.ttl_s = 60, .role = (fedserver_role)role};
        const test_device d = coordinator_enrol_as(c, &grant);
        for (size_t k = 0; k < sizeof doors / sizeof doors[0]; k++) {
            answer a = coordinator_ask(c, &d, doors[k].method, doors[k].path, "", NULL, 0);
            assert_int_equal(strcmp(a.error, "role") != 0, doors[k].role[role]);
            assert_int_equal(a.status != 403, doors[k].role[role]);
            answer_free(&a);
        }
    }
}

static void who_trains_does_not_judge_and_who_judges_does_not_train(void **state) {
    coordinator *c = *state;
    for (int role = FED_ROLE_TRAIN; role <= FED_ROLE_EVALUATE; role++) {
        uint8_t body[64];
        fed_writer w;
        fed_writer_fixed(&w, body, sizeof body);
        fed_checkin_write(&w, &(fed_checkin){.role = (fed_role)role});
        const test_device d =
            role == FED_ROLE_TRAIN ? coordinator_enrol_evaluator(c) : coordinator_enrol(c);
        answer a = coordinator_ask(c, &d, "POST", "/v1/checkin", "", body, w.len);
        answer_expect(&a, 403, "role");
    }
}

static void a_device_is_what_its_token_says(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    char token[FEDSERVER_TOKEN];
    const fedserver_grant grant = {.ttl_s = 60, .tag = "north"};
    (void)coordinator_enrol_as(c, &grant);
    coordinator_restart(c);
    const fedserver_device device = only_device(c);
    assert_string_equal(device.tag, "north");
    assert_int_equal(device.role, FEDSERVER_ROLE_DEVICE);
    static const char *const wrong[] = {"a tag of thirty-two characters!!", "x\x1b[2J", "a\nb",
                                        "nor\xe2\x80\x8bth"};
    coordinator_commit(c);
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        const fedserver_grant bad = {.ttl_s = 60, .tag = wrong[k]};
        assert_fed_status(fedserver_token_grant(c->server, c->now_ms, &bad, token, &err),
                          FED_EINVAL);
        assert_non_null(strstr(err.text, "is not valid: give at most 31 bytes"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_token_is_43_url_safe_characters_and_never_twice_the_same),
        WITH_COORDINATOR(a_token_enrols_one_device),
        WITH_COORDINATOR(a_key_that_its_token_enrolled_gets_its_certificate_again),
        WITH_COORDINATOR(a_crash_before_the_commit_gives_the_token_back),
        WITH_COORDINATOR(wrong_tokens_are_told_apart),
        WITH_COORDINATOR(a_wrong_request_does_not_use_up_the_token),
        WITH_COORDINATOR(an_expired_certificate_is_refused),
        WITH_COORDINATOR(a_revoked_device_is_refused_from_its_next_request_on),
        WITH_COORDINATOR(what_another_process_changes_costs_no_walk_over_all_devices),
        WITH_COORDINATOR(a_device_stays_revoked_since_the_first_time),
        WITH_COORDINATOR(a_revocation_must_say_which_device),
        WITH_COORDINATOR(a_key_is_enrolled_once),
        WITH_COORDINATOR(a_renewed_device_stays_the_same_one),
        WITH_COORDINATOR(a_renewal_counts_at_once_and_after_a_restart),
        WITH_COORDINATOR(renewals_of_one_device_do_not_fill_the_audit_log),
        WITH_COORDINATOR(a_renewal_that_is_not_committed_costs_nothing),
        WITH_COORDINATOR(only_a_device_in_good_standing_renews),
        WITH_COORDINATOR(a_renewal_is_signed_with_the_devices_key),
        WITH_COORDINATOR(a_device_of_an_old_database_is_known_and_renews),
        WITH_COORDINATOR(each_role_has_its_own_doors),
        WITH_COORDINATOR(who_trains_does_not_judge_and_who_judges_does_not_train),
        WITH_COORDINATOR(a_device_is_what_its_token_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
