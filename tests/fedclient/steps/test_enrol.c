/* Enrolment: a device is enrolled completely or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"
#include "fed_fake.h"
#include "fedclient/fedclient.h"

typedef struct world {
    fed_fake fake;
    fed_fake_flash flash;
    fedclient *client;
    fedclient_options options;
    fed_error err;
} world;

static fed_status nothing(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)round;
    return fed_fail(err, FED_ESTATE, "the test's training callback must not be called");
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_fake_open(&w->fake, "input 8 | dense 3", "float32", 1);
    fed_fake_flash_open(&w->flash);
    w->options = (fedclient_options){.server = "https://fake:8443",
                                     .platform = &w->flash.platform,
                                     .transport = &w->fake.transport,
                                     .train = nothing};
    assert_fed_ok(fedclient_open(&w->options, &w->client, &w->err));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedclient_close(w->client);
    fed_fake_flash_close(&w->flash);
    fed_fake_close(&w->fake);
    free(w);
    return 0;
}

static void reopen(world *w) {
    fedclient_close(w->client);
    w->client = NULL;
    fed_fake_flash_revive(&w->flash);
    assert_fed_ok(fedclient_open(&w->options, &w->client, &w->err));
}

FED_TEST_WITH(a_device_is_named_by_its_key, world *w) {
    assert_false(fedclient_enrolled(w->client));
    assert_string_equal(fedclient_device(w->client), "");
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    assert_string_equal(w->err.text, "");
    assert_true(fedclient_enrolled(w->client));
    assert_int_equal(strlen(fedclient_device(w->client)), 64);
    assert_int_equal(w->fake.identified, 1);
    assert_string_equal(w->fake.last_url, "https://fake:8443/v1/enrol");
}

FED_TEST_WITH(an_identity_survives, world *w) {
    char device[65];
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    snprintf(device, sizeof device, "%s", fedclient_device(w->client));
    reopen(w);
    assert_string_equal(fedclient_device(w->client), device);
    assert_int_equal(w->fake.identified, 2);
    assert_int_equal(w->flash.puts, 2);
}

FED_TEST_WITH(a_wrong_token_is_told_in_the_coordinators_words, world *w) {
    assert_fed_status(fedclient_enrol(w->client, "bad-token", &w->err), FED_EAUTH);
    assert_non_null(strstr(w->err.text, "the fake said \"token_unknown\" (token_unknown)"));
    reopen(w);
    assert_false(fedclient_enrolled(w->client));
}

static void lose_answer(world *w) {
    fed_fake_fail(&w->fake, "/v1/enrol", FED_FAKE_LOST_ANSWER, 1);
    assert_fed_status(fedclient_enrol(w->client, "good-token", &w->err), FED_ENET);
    reopen(w);
}

static void assert_enrolled_as(const world *w, const uint8_t key[FED_SHA256_SIZE]) {
    char name[FED_SHA256_HEX];
    fed_hex(key, FED_SHA256_SIZE, name);
    assert_string_equal(fedclient_device(w->client), name);
}

FED_TEST_WITH(a_key_without_a_certificate_is_not_enrolled, world *w) {
    fedclient_event event;
    lose_answer(w);
    assert_false(fedclient_enrolled(w->client));
    assert_string_equal(fedclient_device(w->client), "");
    assert_int_equal(w->fake.identified, 0);
    assert_fed_status(fedclient_step(w->client, &event, &w->err), FED_ESTATE);
}

FED_TEST_WITH(a_token_that_another_device_used_is_told, world *w) {
    snprintf(w->fake.used_token, sizeof w->fake.used_token, "good-token");
    assert_fed_status(fedclient_enrol(w->client, "good-token", &w->err), FED_EAUTH);
    assert_non_null(strstr(w->err.text, "token_used"));
}

FED_TEST_WITH(a_second_token_gets_a_key_of_its_own, world *w) {
    lose_answer(w);
    uint8_t lost[FED_SHA256_SIZE];
    memcpy(lost, w->fake.key, sizeof lost);
    assert_fed_ok(fedclient_enrol(w->client, "good-token-2", &w->err));
    assert_memory_not_equal(w->fake.key, lost, sizeof lost);
    assert_enrolled_as(w, w->fake.key);
}

static fed_pem given;

/* Let the program give a key. */
static void give_key(world *w, uint8_t fingerprint[FED_SHA256_SIZE]) {
    assert_fed_ok(fed_key_new(&given, &w->err));
    assert_fed_ok(fed_key_fingerprint(&given, fingerprint, &w->err));
    w->options.key = &given;
    reopen(w);
}

FED_TEST_WITH(a_program_enrols_with_the_key_that_it_gives, world *w) {
    uint8_t fingerprint[FED_SHA256_SIZE];
    give_key(w, fingerprint);
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    assert_enrolled_as(w, fingerprint);
    reopen(w);
    assert_enrolled_as(w, fingerprint);
    /* all that it stored is lost, and the coordinator knows the key */
    fedclient_close(w->client);
    w->client = NULL;
    fed_fake_flash_close(&w->flash);
    fed_fake_flash_open(&w->flash);
    reopen(w);
    assert_false(fedclient_enrolled(w->client));
    assert_fed_ok(fedclient_enrol(w->client, "good-token-2", &w->err));
    assert_enrolled_as(w, fingerprint);
}

FED_TEST_WITH(an_identity_of_another_key_than_the_given_one_does_not_count, world *w) {
    uint8_t fingerprint[FED_SHA256_SIZE];
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    give_key(w, fingerprint);
    assert_false(fedclient_enrolled(w->client));
    assert_fed_ok(fedclient_enrol(w->client, "good-token-2", &w->err));
    assert_enrolled_as(w, fingerprint);
}

FED_TEST_WITH(a_key_that_was_shut_out_meanwhile_is_told, world *w) {
    lose_answer(w);
    fed_fake_refuse(&w->fake, "/v1/renew", 403, "device_revoked");
    assert_fed_status(fedclient_enrol(w->client, "good-token", &w->err), FED_EAUTH);
    assert_non_null(strstr(w->err.text, "device_revoked"));
}

FED_TEST_WITH(an_answer_that_is_no_certificate_is_refused, world *w) {
    static const fed_fake_fault faults[] = {FED_FAKE_GARBAGE, FED_FAKE_TRUNCATED};
    for (size_t k = 0; k < 2; k++) {
        fed_fake_fail(&w->fake, "/v1/", faults[k], 2);
        assert_fed_status(fedclient_enrol(w->client, "good-token", &w->err), FED_EFORMAT);
        reopen(w);
        assert_false(fedclient_enrolled(w->client));
    }
}

/* Faults in an enrolment: none; a power failure before or after one of two puts; a link failure
 * before or after one of two requests. */
enum { FAULTS = 9 };

static void try_with_fault(world *w, unsigned fault) {
    const bool late = fault % 2 == 0;        /* the put or the request was done before the fault */
    const unsigned at = (fault - 1) / 2 % 2; /* 0: the first put or request; 1: the second */
    const bool power = fault >= 1 && fault <= 4; /* 0 is no fault; 5 and above: the link fails */
    const bool line = fault >= 5;
    w->flash.dies_at = power ? w->flash.puts + at : UINT64_MAX;
    w->flash.dies_writing = late;
    w->fake.dies_at = line ? w->fake.requests + at : UINT64_MAX;
    w->fake.dies_answering = late;
    w->err = (fed_error){0};
    fed_status status = fedclient_enrol(w->client, "good-token", &w->err);
    assert_true(status == FED_OK || status == FED_EIO || status == FED_ENET);
    assert_true(status != FED_OK || w->err.text[0] == '\0');
    w->fake.dies_at = UINT64_MAX;
    reopen(w);
}

FED_TEST(whatever_dies_the_same_token_enrols) {
    for (unsigned pair = 0; pair < FAULTS * FAULTS; pair++) {
        void *new_device = NULL;
        assert_int_equal(setup(&new_device), 0);
        world *w = new_device;
        try_with_fault(w, pair % FAULTS);
        if (!fedclient_enrolled(w->client)) {
            try_with_fault(w, pair / FAULTS);
        }
        if (!fedclient_enrolled(w->client)) {
            try_with_fault(w, 0);
        }
        assert_enrolled_as(w, w->fake.key);
        assert_int_equal(teardown(&new_device), 0);
    }
}

FED_TEST_WITH(a_device_can_be_enrolled_anew, world *w) {
    char device[65];
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    snprintf(device, sizeof device, "%s", fedclient_device(w->client));
    assert_fed_status(fedclient_enrol(w->client, "bad-token", &w->err), FED_EAUTH);
    reopen(w);
    assert_string_equal(fedclient_device(w->client), device);
    assert_fed_ok(fedclient_enrol(w->client, "good-token-2", &w->err));
    assert_string_not_equal(fedclient_device(w->client), device);
}

enum { ROUNDS = 12 };

/** The ways in which a coordinator refuses a device. word: the reason in an answer 403. */
static const struct {
    fed_fake_fault fault;
    const char *word;
} shut_out[] = {{FED_FAKE_STATUS, "device_unknown"},
                {FED_FAKE_STATUS, "device_revoked"},
                {FED_FAKE_STATUS, "device_refused"},
                {FED_FAKE_STATUS, "role"},
                {FED_FAKE_UNTRUSTED, NULL}}; /* TLS refuses a certificate that has expired */

static int64_t in_2999(void *user) {
    (void)user;
    return INT64_C(32472144000000);
}

static void shut_device_out(fed_device *d, size_t how) {
    if (shut_out[how].fault == FED_FAKE_STATUS) {
        fed_fake_refuse(&d->fake, "fake:8444/", 403, shut_out[how].word);
    } else {
        d->options.platform->unix_ms = in_2999;
        fed_fake_fail(&d->fake, "fake:8444/", shut_out[how].fault, 1);
    }
}

static void open_device(fed_device *d, char name[FED_SHA256_HEX]) {
    fed_device_open(d, "dgc:p=0.1", ROUNDS);
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    snprintf(name, FED_SHA256_HEX, "%s", fedclient_device(d->client));
}

FED_TEST(a_device_that_is_refused_enrols_anew_and_keeps_what_it_owes) {
    for (size_t k = 0; k < sizeof shut_out / sizeof shut_out[0]; k++) {
        fed_device d;
        char name[FED_SHA256_HEX];
        open_device(&d, name);
        fed_device_restart(&d);
        assert_fed_ok_err_of(&d, fedclient_token_give(d.client, "good-token-2", &d.err));
        assert_string_equal(fedclient_device(d.client), name);
        const float owed = fed_device_owed(&d);
        int64_t (*const right)(void *) = d.options.platform->unix_ms;
        shut_device_out(&d, k);
        const fedclient_event event = fed_device_event(&d);
        d.options.platform->unix_ms = right;
        assert_int_equal(event.outcome, FEDCLIENT_RETRY);
        assert_true(event.wait_ms > 0);
        assert_string_not_equal(fedclient_device(d.client), name);
        assert_true(owed > 0 && fed_device_owed(&d) == owed);
        const uint64_t downloads = d.fake.downloads;
        fed_device_finish(&d, 2 * ROUNDS);
        assert_int_equal(d.fake.version, ROUNDS);
        assert_true(d.fake.downloads - downloads <= ROUNDS);
        fed_device_check(&d, 0);
        fed_device_close(&d);
    }
}

FED_TEST(an_update_on_its_way_is_not_counted_under_a_second_key) {
    fed_device d;
    char name[FED_SHA256_HEX];
    open_device(&d, name);
    fed_fake_fail(&d.fake, "/v1/update", FED_FAKE_LOST_ANSWER, 1);
    assert_int_equal(fed_device_event(&d).outcome, FEDCLIENT_RETRY);
    fed_device_restart(&d);
    assert_fed_ok_err_of(&d, fedclient_token_give(d.client, "good-token-2", &d.err));
    shut_device_out(&d, 1);
    d.fake.last_lease = 0;
    const uint64_t updates = d.fake.updates;
    assert_int_equal(fed_device_event(&d).outcome, FEDCLIENT_RETRY);
    assert_int_equal(fed_device_event(&d).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(d.fake.updates, updates + 1);
    fed_device_check(&d, 0);
    fed_device_close(&d);
}

FED_TEST(a_fault_of_tls_is_no_refusal_and_costs_no_token) {
    fed_device d;
    char name[FED_SHA256_HEX];
    open_device(&d, name);
    assert_fed_ok_err_of(&d, fedclient_token_give(d.client, "good-token-2", &d.err));
    fed_fake_fail(&d.fake, "fake:8444/", FED_FAKE_UNTRUSTED, 1);
    fed_device_fail(&d, FED_EAUTH);
    assert_string_equal(fedclient_device(d.client), name);
    assert_int_equal(fed_device_event(&d).outcome, FEDCLIENT_COUNTED);
    assert_string_equal(fedclient_device(d.client), name);
    /* the certificate has expired, and TLS fails in the new enrolment, too */
    int64_t (*const right)(void *) = d.options.platform->unix_ms;
    d.options.platform->unix_ms = in_2999;
    fed_fake_fail(&d.fake, "fake:", FED_FAKE_UNTRUSTED, 2);
    fed_device_fail(&d, FED_EAUTH);
    assert_fed_says(d.err, "can't be enrolled again with its token");
    d.options.platform->unix_ms = right;
    shut_device_out(&d, 1);
    assert_int_equal(fed_device_event(&d).outcome, FEDCLIENT_RETRY);
    assert_string_not_equal(fedclient_device(d.client), name);
    fed_device_close(&d);
}

FED_TEST(a_used_token_is_tried_once) {
    fed_device d;
    char name[FED_SHA256_HEX];
    open_device(&d, name);
    assert_fed_ok_err_of(&d, fedclient_token_give(d.client, "good-token", &d.err));
    for (uint64_t more = 1; more < 3; more++) {
        shut_device_out(&d, 1);
        const uint64_t asked = d.fake.requests;
        fed_device_fail(&d, FED_EAUTH);
        assert_fed_says(d.err, more == 1 ? "can't be enrolled again with its token"
                                         : "the coordinator refuses this device");
        assert_int_equal(d.fake.requests - asked, more == 1 ? 3 : 1);
        assert_string_equal(fedclient_device(d.client), name);
    }
    assert_int_equal(fed_device_event(&d).outcome, FEDCLIENT_COUNTED);
    fed_device_close(&d);
}

FED_TEST(a_token_is_kept_while_nobody_answers_at_the_front) {
    fed_device d;
    char name[FED_SHA256_HEX];
    open_device(&d, name);
    assert_fed_ok_err_of(&d, fedclient_token_give(d.client, "good-token-2", &d.err));
    for (int k = 0; k < 2; k++) {
        shut_device_out(&d, 1);
        d.fake.dies_at = k == 0 ? d.fake.requests + 1 : UINT64_MAX;
        assert_int_equal(fed_device_event(&d).outcome, FEDCLIENT_RETRY);
        assert_int_equal(strcmp(fedclient_device(d.client), name) == 0, k == 0);
    }
    fed_device_close(&d);
}

FED_TEST(a_proxy_that_forbids_costs_no_token) {
    fed_device d;
    char name[FED_SHA256_HEX];
    open_device(&d, name);
    assert_fed_ok_err_of(&d, fedclient_token_give(d.client, "good-token-2", &d.err));
    static const int statuses[] = {401, 403};
    for (size_t k = 0; k < 2; k++) {
        fed_fake_refuse(&d.fake, "fake:8444/", statuses[k], "forbidden");
        fed_device_fail(&d, FED_EAUTH);
        assert_string_equal(fedclient_device(d.client), name);
    }
    fed_device_close(&d);
}

FED_TEST_WITH(a_device_says_what_it_is_called_and_what_runs_there, world *w) {
    fedclient_event event;
    w->options.name = "kitchen\r\nX: 1";
    w->options.software = "kettle/1.2";
    w->options.computes_on = "opencl:0 \x1b\r\nX: 1";
    w->options.classes = 0xab;
    w->fake.rounds = 0;
    reopen(w);
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    /* The line end was replaced: it would begin another header. */
    assert_string_equal(w->fake.last_name, "kitchen??X: 1");
    assert_string_equal(w->fake.last_software, "kettle/1.2");
    assert_string_equal(w->fake.last_computes_on, "");
    assert_string_equal(w->fake.last_classes, "");
    w->fake.last_software[0] = w->fake.last_name[0] = '\0';
    assert_fed_ok(fedclient_step(w->client, &event, &w->err));
    assert_string_equal(w->fake.last_name, "");
    assert_string_equal(w->fake.last_software, "kettle/1.2");
    assert_string_equal(w->fake.last_computes_on, "opencl:0 ???X: 1");
    assert_string_equal(w->fake.last_classes, "00000000000000ab");
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}

static bool count_question(void *user) {
    unsigned *left = user;
    return *left == 0 || --*left == 0;
}

FED_TEST_WITH(a_busy_coordinator_is_asked_again_as_often_as_said, world *w) {
    fed_fake_fail(&w->fake, "/v1/enrol", FED_FAKE_STATUS, 2);
    w->fake.plan.status = 503;
    assert_fed_status(fedclient_token_give_in_time(w->client, "good-token", 1, &w->err), FED_EBUSY);
    assert_fed_ok(fedclient_token_give_in_time(w->client, "good-token", 2, &w->err));
    assert_true(fedclient_enrolled(w->client));
}

/* Whoever reads the last error knows what to do. */
FED_TEST_WITH(a_coordinator_that_stays_busy_is_worth_another_try, world *w) {
    fed_fake_fail(&w->fake, "/v1/enrol", FED_FAKE_STATUS, 2);
    w->fake.plan.status = 503;
    assert_fed_status(fedclient_token_give_in_time(w->client, "good-token", 2, &w->err), FED_EBUSY);
    assert_fed_says(w->err, "; try again later, with the same token");
    assert_fed_status(fedclient_token_give_in_time(w->client, "bad-token", 1, &w->err), FED_EAUTH);
    assert_null(strstr(w->err.text, "try again"));
}

FED_TEST_WITH(a_wait_to_enrol_ends_when_the_program_says_so, world *w) {
    unsigned questions = 2;
    w->options.stopped = count_question;
    w->options.user = &questions;
    reopen(w);
    fed_fake_fail(&w->fake, "/v1/enrol", FED_FAKE_UNREACHABLE, 1000);
    assert_fed_status(fedclient_token_give_in_time(w->client, "good-token", 0, &w->err),
                      FED_ECANCELED);
}

FED_TEST_WITH(a_refused_token_is_given_once, world *w) {
    assert_fed_status(fedclient_token_give_in_time(w->client, "bad-token", 0, &w->err), FED_EAUTH);
}
