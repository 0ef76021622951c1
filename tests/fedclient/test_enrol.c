/* Enrolment: whole or not at all. */
#include "fed_fake.h"
#include "fed_test.h"
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
    return fed_fail(err, FED_ESTATE, "not called");
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

static void a_device_is_named_by_its_key(void **state) {
    world *w = *state;
    assert_false(fedclient_enrolled(w->client));
    assert_string_equal(fedclient_device(w->client), "");
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    assert_true(fedclient_enrolled(w->client));
    assert_int_equal(strlen(fedclient_device(w->client)), 64);
    assert_int_equal(w->fake.identified, 1);
    assert_string_equal(w->fake.last_url, "https://fake:8443/v1/enrol");
}

static void an_identity_survives(void **state) {
    world *w = *state;
    char device[65];
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    snprintf(device, sizeof device, "%s", fedclient_device(w->client));
    reopen(w);
    assert_string_equal(fedclient_device(w->client), device);
    assert_int_equal(w->fake.identified, 2);
    assert_int_equal(w->flash.puts, 1);
}

static void a_wrong_token_is_told_in_the_coordinators_words(void **state) {
    world *w = *state;
    assert_fed_status(fedclient_enrol(w->client, "bad-token", &w->err), FED_EAUTH);
    assert_non_null(strstr(w->err.text, "the fake said \"token_unknown\" (token_unknown)"));
    assert_int_equal(w->flash.puts, 0);
}

static void a_lost_answer_tells_that_the_token_may_be_used_up(void **state) {
    world *w = *state;
    w->fake.plan = (fed_fake_plan){.path = "/v1/enrol", .fault = FED_FAKE_LOST_ANSWER, .times = 1};
    assert_fed_status(fedclient_enrol(w->client, "good-token", &w->err), FED_ENET);
    assert_non_null(strstr(w->err.text, "the token is used up"));
    assert_false(fedclient_enrolled(w->client));
}

static void an_answer_that_is_no_certificate_is_refused(void **state) {
    world *w = *state;
    static const fed_fake_fault faults[] = {FED_FAKE_GARBAGE, FED_FAKE_TRUNCATED};
    for (size_t k = 0; k < 2; k++) {
        w->fake.plan = (fed_fake_plan){.path = "/v1/enrol", .fault = faults[k], .times = 1};
        assert_fed_status(fedclient_enrol(w->client, "good-token", &w->err), FED_EFORMAT);
        reopen(w);
        assert_false(fedclient_enrolled(w->client));
    }
}

static void power_loss_leaves_it_enrolled_or_not(void **state) {
    world *w = *state;
    for (unsigned writing = 0; writing < 2; writing++) {
        w->flash.dies_at = w->flash.puts;
        w->flash.dies_writing = writing == 1;
        assert_fed_status(fedclient_enrol(w->client, "good-token", &w->err), FED_EIO);
        reopen(w);
        assert_int_equal(fedclient_enrolled(w->client), writing);
    }
}

static void a_device_can_be_enrolled_anew(void **state) {
    world *w = *state;
    char device[65];
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    snprintf(device, sizeof device, "%s", fedclient_device(w->client));
    assert_fed_ok(fedclient_enrol(w->client, "good-token", &w->err));
    assert_string_not_equal(fedclient_device(w->client), device);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(a_device_is_named_by_its_key),
        test(an_identity_survives),
        test(a_wrong_token_is_told_in_the_coordinators_words),
        test(a_lost_answer_tells_that_the_token_may_be_used_up),
        test(an_answer_that_is_no_certificate_is_refused),
        test(power_loss_leaves_it_enrolled_or_not),
        test(a_device_can_be_enrolled_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
