/* Who gets a certificate, and who does not. */
#include "coordinator_fixture.h"

#include "fed/crypto.h"

static int setup(void **state) {
    static coordinator c;
    coordinator_setup(&c);
    *state = &c;
    return 0;
}

static int teardown(void **state) {
    coordinator_teardown(*state);
    return 0;
}

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

/* The answer's status; *word = the error's. */
static int enrol(coordinator *c, const char *token, const char *csr, size_t len, char word[32]) {
    fed_error err = {0};
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "POST",
                                       .path = "/v1/enrol",
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
    word[0] = '\0';
    (void)sscanf(text, "{\"error\":\"%31[a-z_]\"", word);
    fedserver_blob_free(response.body);
    return response.status;
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
    char word[32];
    fed_pem csr;
    new_token(c, token);
    new_request(&csr);
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text), word), 200);
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text), word), 401);
    assert_string_equal(word, "token_used");
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text), word), 401);
    assert_string_equal(word, "token_used");
    assert_int_equal(c->server->devices.count, 1);
}

static void a_crash_before_the_commit_gives_the_token_back(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    char word[32];
    fed_pem csr;
    new_token(c, token);
    new_request(&csr);
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text), word), 200);
    coordinator_crash(c);
    assert_int_equal(c->server->devices.count, 0);
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text), word), 200);
}

static void wrong_tokens_are_told_apart(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    char word[32];
    fed_pem csr;
    new_request(&csr);
    assert_int_equal(enrol(c, NULL, csr.text, strlen(csr.text), word), 401);
    assert_string_equal(word, "token_missing");
    assert_int_equal(enrol(c, "guess", csr.text, strlen(csr.text), word), 401);
    assert_string_equal(word, "token_unknown");
    new_token(c, token);
    c->now_ms += 3600 * 1000;
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text), word), 401);
    assert_string_equal(word, "token_expired");
    assert_int_equal(c->server->devices.count, 0);
}

static void a_wrong_request_does_not_use_up_the_token(void **state) {
    coordinator *c = *state;
    char token[FEDSERVER_TOKEN];
    char word[32];
    fed_pem csr;
    new_token(c, token);
    new_request(&csr);
    assert_int_equal(enrol(c, token, "", 0, word), 400);
    assert_string_equal(word, "bad_request");
    assert_int_equal(enrol(c, token, "no PEM", 6, word), 400);
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text) + 1, word), 400); /* a NUL */
    char *digit = strstr(csr.text, "-----END") - 9; /* in the signature */
    *digit = *digit == 'A' ? 'B' : 'A';
    int status = enrol(c, token, csr.text, strlen(csr.text), word);
    assert_true(status == 403 || status == 400);
    *digit = 'A';
    new_request(&csr);
    assert_int_equal(enrol(c, token, csr.text, strlen(csr.text), word), 200);
}

static void an_expired_certificate_is_refused(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    c->now_ms += INT64_C(731) * 24 * 3600 * 1000;
    answer a = coordinator_ask(c, &d, "GET", "/v1/model", "", NULL, 0);
    assert_int_equal(a.status, 403);
    assert_string_equal(a.error, "device_unknown");
    answer_free(&a);
}

/* The command line: another process on the same directory. */
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

static int ask_model(coordinator *c, const test_device *d, char word[32]) {
    answer a = coordinator_ask(c, d, "GET", "/v1/model", "", NULL, 0);
    snprintf(word, 32, "%s", a.error);
    int status = a.status;
    answer_free(&a);
    return status;
}

static void a_revoked_device_is_refused_from_its_next_request_on(void **state) {
    coordinator *c = *state;
    char word[32];
    fedserver_entry entry;
    test_device kept = coordinator_enrol(c), lost = coordinator_enrol(c);
    coordinator_commit(c);
    revoke(c, &lost, &entry);
    assert_int_equal(entry.revoked_ms, c->now_ms);
    coordinator_commit(c); /* the next batch */
    assert_int_equal(ask_model(c, &lost, word), 403);
    assert_string_equal(word, "device_revoked");
    assert_int_not_equal(ask_model(c, &kept, word), 403);
    coordinator_crash(c);
    assert_int_equal(ask_model(c, &lost, word), 403);
    assert_string_equal(word, "device_revoked");
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
    assert_fed_status(fedserver_device_revoke(c->server, c->now_ms, "no such one", &entry, &err),
                      FED_ENOTFOUND);
    assert_fed_says(err, "0 devices");
}

static void many_devices_are_found_and_no_other(void **state) {
    (void)state;
    fedserver_devices devices = {0};
    fedserver_device one = {0};
    for (int64_t id = 0; id < 5000; id++) {
        one.id = id;
        fed_sha256(&id, sizeof id, one.fingerprint);
        assert_fed_ok(fedserver_devices_add(&devices, &one));
    }
    for (int64_t id = 0; id < 10000; id++) {
        uint8_t fingerprint[FED_SHA256_SIZE];
        fed_sha256(&id, sizeof id, fingerprint);
        const fedserver_device *found = fedserver_devices_find(&devices, fingerprint);
        assert_true((found != NULL) == (id < 5000));
        assert_true(found == NULL || found->id == id);
    }
    fedserver_devices_free(&devices);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_token_is_43_url_safe_characters_and_never_twice_the_same),
        WITH(a_token_enrols_one_device),
        WITH(a_crash_before_the_commit_gives_the_token_back),
        WITH(wrong_tokens_are_told_apart),
        WITH(a_wrong_request_does_not_use_up_the_token),
        WITH(an_expired_certificate_is_refused),
        WITH(a_revoked_device_is_refused_from_its_next_request_on),
        WITH(a_device_stays_revoked_since_the_first_time),
        WITH(a_revocation_must_say_which_device),
        cmocka_unit_test(many_devices_are_found_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
