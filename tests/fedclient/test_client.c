/* The steps of a client: what it does, what it reports, and that no training is ever lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_device.h"
#include "fed_test.h"
#include "fedclient/state/record.h"

static const char *const codecs[] = {"3lc:s=1", "float32", "sbc:p=0.1"};

/** Return the tolerance for a codec. sbc decodes to rounded means; the others are exact here. */
static float tolerance_of(const char *codec) {
    return strncmp(codec, "sbc", 3) == 0 ? 1e-6f : 0;
}

/** The devices' store: a flash chip, memory that lends its values, or memory whose values are
 * changed in place. */
static enum { CHIP, LENDING, IN_PLACE } store_kind;

static void open_device(fed_device *device, const char *codec) {
    fed_device_open(device, codec, 3);
    if (store_kind == LENDING) {
        fed_fake_flash_lend(&device->flash);
    } else if (store_kind == IN_PLACE) {
        device->flash.inner.memory = device->flash.lends;
        device->options.platform = &device->flash.inner;
        fed_device_restart(device);
        device->fake.requests = 0;
    }
}

static int setup(void **state) {
    fed_device *device = calloc(1, sizeof *device);
    assert_non_null(device);
    open_device(device, "3lc:s=1");
    *state = device;
    return 0;
}

static void a_round_is_trained_uploaded_and_counted(void **state) {
    fed_device *device = *state;
    fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_COUNTED);
    assert_int_equal(event.round, 1);
    assert_int_equal(event.samples, 10);
    assert_true(event.loss == 0.5f);
    assert_int_equal(event.wait_ms, 0);
    assert_int_equal(device->fake.version, 1);
    assert_int_equal(device->flash.puts, 4); /* model, residual, and twice the message */
    fed_device_check(device, 0);
}

static void a_task_ends_with_the_coordinators_model(void **state) {
    fed_device *device = *state;
    fed_device_finish(device, 4);
    uint64_t task = 0;
    uint32_t version = 0;
    float *values = NULL;
    size_t count = 0;
    assert_fed_ok_err_of(
        device, fedclient_model(device->client, &task, &version, &values, &count, &device->err));
    assert_int_equal(task, device->fake.task.id);
    assert_int_equal(version, 3);
    assert_int_equal(count, device->fake.arch.layout.size);
    assert_memory_equal(values, device->fake.model, count * sizeof *values);
    free(values);
}

static void a_device_that_knows_waits_as_long_as_it_is_told(void **state) {
    fed_device *device = *state;
    fed_device_finish(device, 4);
    fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_WAITED);
    assert_int_equal(event.reason, FED_WAIT_FINISHED);
    assert_int_equal(event.wait_ms, 1234);
}

static void nobody_makes_a_device_hurry_or_sleep_for_more_than_a_day(void **state) {
    fed_device *device = *state;
    enum { DAY_MS = 24 * 3600 * 1000 };
    static const uint32_t told_ms[] = {1, 99, 100, 101, DAY_MS, DAY_MS + 1, UINT32_MAX};
    static const uint32_t waits_ms[] = {100, 100, 100, 101, DAY_MS, DAY_MS, DAY_MS};
    fedclient_event event = fed_device_event(device);
    while (event.outcome == FEDCLIENT_COUNTED) {
        event = fed_device_event(device);
    }
    assert_int_equal(event.outcome, FEDCLIENT_FINISHED);
    assert_int_equal(event.wait_ms, 100);
    for (size_t k = 0; k < sizeof told_ms / sizeof told_ms[0]; k++) {
        device->fake.retry_ms = told_ms[k];
        assert_int_equal(fed_device_event(device).wait_ms, waits_ms[k]);
    }
}

/* Each lease is already over when its assignment arrives. */
static void a_lease_without_time_is_no_reason_to_hurry(void **state) {
    fed_device *device = *state;
    device->fake.deadline_ms = 0;
    device->fake.no_declines = true;
    device->answer = FED_EDECLINED;
    fed_device_restart(device);
    for (unsigned k = 0; k < 3; k++) {
        const fedclient_event event = fed_device_event(device);
        assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
        assert_int_equal(event.wait_ms, 100);
    }
}

static int64_t in_1970(void *user) {
    (void)user;
    return 20000;
}

/* A device without a battery boots in 1970, and asks before its clock is set. */
static void a_device_whose_clock_is_not_set_yet_waits(void **state) {
    fed_device *device = *state;
    int64_t (*const right)(void *) = device->options.platform->unix_ms;
    fed_fake_fail(&device->fake, "/v1/checkin", FED_FAKE_UNTRUSTED, 3);
    device->options.platform->unix_ms = in_1970;
    for (unsigned k = 0; k < 2; k++) {
        const fedclient_event event = fed_device_event(device);
        assert_int_equal(event.outcome, FEDCLIENT_RETRY);
        assert_true(event.wait_ms > 0);
        assert_fed_says(device->err, "clock is behind (20 s since 1970)");
    }
    device->options.platform->unix_ms = right; /* now the certificate is at fault */
    fed_device_fail(device, FED_EAUTH);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

static void no_model_is_there_before_the_first_download(void **state) {
    fed_device *device = *state;
    uint64_t task = 0;
    uint32_t version = 0;
    float *values = NULL;
    size_t count = 0;
    assert_fed_status(
        fedclient_model(device->client, &task, &version, &values, &count, &device->err),
        FED_ENOTFOUND);
}

static void a_client_that_is_not_enrolled_says_so(void **state) {
    fed_device *device = *state;
    fedclient *client = NULL;
    fedclient_event event;
    fed_fake_flash flash;
    fed_fake_flash_open(&flash);
    fedclient_options options = device->options;
    options.platform = &flash.platform;
    assert_fed_ok_err_of(device, fedclient_open(&options, &client, &device->err));
    assert_false(fedclient_enrolled(client));
    assert_fed_status(fedclient_step(client, &event, &device->err), FED_ESTATE);
    fedclient_close(client);
    fed_fake_flash_close(&flash);
}

static void addresses_that_make_no_sense_are_refused(void **state) {
    fed_device *device = *state;
    static const char *const bad[] = {"",          "http://host:1",       "https://",
                                      "host:8443", "https://host:1/path", "https:///"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        fedclient *client = NULL;
        fedclient_options options = device->options;
        options.server = bad[k];
        assert_fed_status(fedclient_open(&options, &client, &device->err), FED_EINVAL);
    }
}

static void the_devices_port_replaces_that_of_the_address(void **state) {
    fed_device *device = *state;
    static const char *const pairs[][2] = {{"https://fake:8443", "https://fake:8444/v1/checkin"},
                                           {"https://fake/", "https://fake:8444/v1/checkin"},
                                           {"https://[::1]:8443/", "https://[::1]:8444/v1/checkin"},
                                           {"https://[::1]", "https://[::1]:8444/v1/checkin"}};
    fed_device_finish(device, 4);
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        device->options.server = pairs[k][0];
        fed_device_restart(device);
        fed_device_event(device);
        assert_string_equal(device->fake.last_url, pairs[k][1]);
    }
}

static void a_lost_acknowledgement_is_asked_for_again_and_counts_once(void **state) {
    fed_device *device = *state;
    fed_fake_fail(&device->fake, "/v1/update", FED_FAKE_LOST_ANSWER, 2);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_true(strstr(device->err.text, "connection broke") != NULL);
    fed_device_restart(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->calls, 1);
    assert_int_equal(device->fake.version, 1);
    assert_int_equal(device->fake.resent, 2);
    fed_device_check(device, 0);
}

static void waits_grow_while_the_line_is_down(void **state) {
    fed_device *device = *state;
    /* 20 check-ins, and a renewal after each third one */
    fed_fake_fail(&device->fake, "/", FED_FAKE_UNREACHABLE, 26);
    uint32_t first = fed_device_event(device).wait_ms, last = 0;
    assert_in_range(first, 200, 400);
    for (unsigned k = 0; k < 19; k++) {
        last = fed_device_event(device).wait_ms;
    }
    assert_in_range(last, 30000, 60000);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

static void who_was_told_to_wait_long_comes_back_as_slowly(void **state) {
    fed_device *device = *state;
    const uint32_t told_ms = 900000;
    device->fake.retry_ms = told_ms;
    fed_device_finish(device, 4);
    assert_int_equal(fed_device_event(device).wait_ms, told_ms);
    fed_fake_fail(&device->fake, "/", FED_FAKE_UNREACHABLE, 20);
    assert_in_range(fed_device_event(device).wait_ms, told_ms / 64, told_ms / 32);
    uint32_t last = 0;
    for (unsigned k = 0; k < 19; k++) {
        last = fed_device_event(device).wait_ms;
    }
    assert_in_range(last, told_ms / 2, told_ms);
}

static void a_busy_coordinator_is_tried_again(void **state) {
    fed_device *device = *state;
    static const int busy[] = {500, 503, 429, 408};
    for (size_t k = 0; k < sizeof busy / sizeof busy[0]; k++) {
        fed_fake_refuse(&device->fake, "/v1/update", busy[k], "busy");
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    }
    assert_true(strstr(device->err.text, "the fake said \"busy\"") != NULL);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->calls, 1);
    fed_device_check(device, 0);
}

static void a_coordinator_that_says_when_is_asked_no_earlier(void **state) {
    fed_device *device = *state;
    static const uint32_t asked_s[] = {0, 90, UINT32_MAX};
    static const uint32_t least_ms[] = {200, 90200, 3600200};
    for (size_t k = 0; k < 3; k++) {
        fed_device_restart(device);
        device->fake.plan = (fed_fake_plan){.path = "/v1/checkin",
                                            .fault = FED_FAKE_STATUS,
                                            .status = 503,
                                            .error = "busy",
                                            .times = 1,
                                            .retry_after_s = asked_s[k]};
        assert_in_range(fed_device_event(device).wait_ms, least_ms[k], least_ms[k] + 200);
    }
    fed_fake_fail(&device->fake, "/v1/checkin", FED_FAKE_UNREACHABLE, 1);
    /* The earlier Retry-After no longer counts. */
    assert_in_range(fed_device_event(device).wait_ms, 400, 800);
}

static void a_refused_update_stays_owed_and_travels_with_the_next(void **state) {
    fed_device *device = *state;
    static const int refused[] = {400, 409, 413, 422};
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        fed_fake_refuse(&device->fake, "/v1/update", refused[k], "no");
        fedclient_event event = fed_device_event(device);
        assert_int_equal(event.outcome, FEDCLIENT_REFUSED);
        assert_int_equal(event.round, 1);
        assert_int_equal(event.wait_ms == 0, refused[k] == 409);
        fed_device_check(device, 0);
        fed_device_restart(device);
    }
    fed_device_finish(device, 4);
    assert_int_equal(device->calls, 4 + 3);
    fed_device_check(device, 0);
}

static void an_expired_lease_loses_nothing(void **state) {
    fed_device *device = *state;
    fed_fake_fail(&device->fake, "/v1/update", FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    fed_fake_expire(&device->fake);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_REFUSED);
    fed_device_finish(device, 4);
    fed_device_check(device, 0);
}

static void words_that_are_not_in_the_protocol_are_for_a_person(void **state) {
    fed_device *device = *state;
    fedclient_event event;
    static const struct {
        int status;
        fed_status wanted;
    } cases[] = {{404, FED_EFORMAT}, {302, FED_EFORMAT}, {403, FED_EAUTH}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fed_fake_refuse(&device->fake, "/v1/update", cases[k].status, "what");
        assert_fed_status(fed_device_step(device, &event), cases[k].wanted);
    }
    assert_in_range(event.wait_ms, 192 * 60000, 288 * 60000);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->calls, 1);
}

static void a_garbled_assignment_is_for_a_person(void **state) {
    fed_device *device = *state;
    fed_fake_fail(&device->fake, "/v1/checkin", FED_FAKE_GARBAGE, 1);
    fed_device_fail(device, FED_EFORMAT);
    fed_fake_fail(&device->fake, "/v1/checkin", FED_FAKE_TRUNCATED, 1);
    fed_device_fail(device, FED_EFORMAT);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

static void a_failing_callback_gives_the_round_up(void **state) {
    fed_device *device = *state;
    device->answer = FED_EIO;
    fed_device_fail(device, FED_EIO);
    assert_true(strstr(device->err.text, "the test's callback fails") != NULL);
    assert_int_equal(device->fake.updates, 0);
    device->answer = FED_OK;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(device, 0);
}

static void values_that_are_not_numbers_are_never_stored(void **state) {
    fed_device *device = *state;
    for (unsigned k = 0; k < 2; k++) {
        device->poison = k == 0 ? NAN : INFINITY;
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
        assert_true(strstr(device->err.text, "dense1.weight at value 5") != NULL);
    }
    device->poison = 0;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(device, 0);
}

static void a_callback_must_say_how_many_samples(void **state) {
    fed_device *device = *state;
    device->samples = 0;
    fed_device_fail(device, FED_EINVAL);
}

static void what_a_sum_cannot_hold_is_sent_in_pieces(void **state) {
    fed_device *device = *state;
    device->step = 4; /* values up to 16, twice the largest value of one message */
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_true(fed_device_owed(device) > 0);
    device->step = 0;
    fed_device_finish(device, 4);
    assert_int_equal(device->fake.resent, 0);
    fed_device_check(device, 0);
}

static void float32_sends_in_pieces_too(void **state) {
    fed_device *device = *state;
    snprintf(device->fake.task.codec_up, sizeof device->fake.task.codec_up, "float32");
    device->step = 4;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_true(fed_device_owed(device) > 0);
    device->step = 0;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_true(fed_device_owed(device) == 0);
    fed_device_check(device, 0);
}

static void a_codec_without_feedback_leaves_nothing_owed(void **state) {
    fed_device *device = *state;
    snprintf(device->fake.task.codec_up, sizeof device->fake.task.codec_up, "float32");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_true(fed_device_owed(device) == 0);
    fed_device_finish(device, 3);
    fed_device_check(device, 0);
}

static void a_new_task_starts_from_nothing(void **state) {
    fed_device *device = *state;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_true(fed_device_owed(device) > 0);
    fed_device_new_task(device, "input 5 | dense 4");
    fed_device_finish(device, 4);
    fed_device_check(device, 0);
}

static void an_upload_of_a_task_that_is_over_is_let_go(void **state) {
    fed_device *device = *state;
    fed_fake_fail(&device->fake, "/v1/update", FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    fed_device_new_task(device, "input 8 | dense 3");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_REFUSED);
    fed_device_finish(device, 4);
    fed_device_check(device, 0);
}

static void a_training_cut_short_before_its_message_is_not_done_twice(void **state) {
    fed_device *device = *state;
    device->flash.dies_at = 2; /* puts: model, residual, message */
    fed_device_fail(device, FED_EIO);
    fed_device_restart(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->calls, 1);
    fed_device_check(device, 0);
}

static void a_training_whose_round_is_over_travels_with_the_next(void **state) {
    fed_device *device = *state;
    device->flash.dies_at = 2;
    fed_device_fail(device, FED_EIO);
    fed_fake_expire(&device->fake);
    fed_device_restart(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->calls, 2);
    fed_device_check(device, 0);
}

static void a_full_disk_loses_nothing(void **state) {
    fed_device *device = *state;
    for (uint64_t k = 0; k < 4; k++) {
        device->flash.dies_at = device->flash.puts + k % 3;
        fed_device_fail(device, FED_EIO);
        fed_fake_flash_revive(&device->flash);
    }
    fed_device_finish(device, 8);
    fed_device_check(device, 0);
}

static void a_damaged_model_is_downloaded_again(void **state) {
    fed_device *device = *state;
    const fedclient_platform *store = &device->flash.inner;
    uint8_t *data = NULL;
    size_t len = 0;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok(store->get(store->user, "model", &data, &len, NULL));
    data[len - 1] ^= 1;
    assert_fed_ok(store->put(store->user, "model", data, len, NULL));
    free(data);
    fed_device_restart(device);
    fed_device_finish(device, 4);
    fed_device_check(device, 0);
}

static void damaged_state_that_nobody_else_has_is_for_a_person(void **state) {
    fed_device *device = *state;
    const fedclient_platform *store = &device->flash.inner;
    static const char *const keys[] = {"identity", "residual", "pending"};
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    for (size_t k = 0; k < 3; k++) {
        uint8_t *data = NULL;
        size_t len = 0;
        fedclient *client = NULL;
        assert_fed_ok(store->get(store->user, keys[k], &data, &len, NULL));
        data[len - 1] ^= 1;
        assert_fed_ok(store->put(store->user, keys[k], data, len, NULL));
        assert_fed_status(fedclient_open(&device->options, &client, &device->err), FED_EFORMAT);
        assert_true(strstr(device->err.text, keys[k]) != NULL);
        data[len - 1] ^= 1;
        assert_fed_ok(store->put(store->user, keys[k], data, len, NULL));
        free(data);
    }
}

static void an_evaluator_measures_and_reports(void **state) {
    fed_device *device = *state;
    device->options.role = FED_ROLE_EVALUATE;
    fed_device_restart(device);
    fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_EVALUATED);
    assert_int_equal(event.version, 0);
    assert_int_equal(event.samples, 10);
    assert_int_equal(event.correct, 5);
    assert_int_equal(device->fake.metric.correct, 5);
    event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_WAITED);
    assert_int_equal(event.reason, FED_WAIT_NO_MODEL);
}

static void a_measurement_is_reported_again_without_measuring_again(void **state) {
    fed_device *device = *state;
    device->options.role = FED_ROLE_EVALUATE;
    fed_device_restart(device);
    fed_fake_fail(&device->fake, "/v1/metric", FED_FAKE_LOST_ANSWER, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_EVALUATED);
    assert_int_equal(device->calls, 1);
    assert_int_equal(device->fake.metrics, 2);
}

static void a_measurement_nobody_wants_is_dropped(void **state) {
    fed_device *device = *state;
    device->options.role = FED_ROLE_EVALUATE;
    fed_device_restart(device);
    fed_fake_refuse(&device->fake, "/v1/metric", 404, "version_unknown");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_EVALUATED);
    assert_int_equal(device->calls, 2);
}

static void make_old(fed_device *device) {
    const fedclient_platform *store = &device->flash.inner;
    device->fake.enrolled_until_s = store->unix_ms(store->user) / 1000 + 24 * 3600;
    assert_fed_ok_err_of(device, fedclient_enrol(device->client, "good-token-2", &device->err));
    device->flash.puts = 0;
    device->fake.requests = 0;
}

static void a_certificate_is_renewed_in_the_last_third_of_its_life(void **state) {
    fed_device *device = *state;
    make_old(device);
    char name[FED_SHA256_HEX];
    snprintf(name, sizeof name, "%s", fedclient_device(device->client));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.renewals, 1);
    assert_string_equal(fedclient_device(device->client), name);
    fed_device_restart(device);
    fed_device_finish(device, 4);
    assert_int_equal(device->fake.renewals, 1);
    assert_string_equal(fedclient_device(device->client), name);
}

static void a_renewal_that_fails_is_tried_later_and_stops_nothing(void **state) {
    fed_device *device = *state;
    make_old(device);
    static const fed_fake_fault faults[] = {FED_FAKE_UNREACHABLE, FED_FAKE_STATUS,
                                            FED_FAKE_GARBAGE};
    for (size_t k = 0; k < 3; k++) {
        device->fake.plan = (fed_fake_plan){.path = "/v1/renew",
                                            .fault = faults[k],
                                            .status = 404,
                                            .error = "not_found",
                                            .times = 1};
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
        assert_int_equal(device->fake.plan.times, 0);
        fed_device_restart(device);
    }
    fed_device_check(device, 0);
}

/* The coordinator has moved its port for devices. Its front names the new port when the device
 * renews, which the device does after three failures. */
static void a_new_devices_port_is_found_at_the_front(void **state) {
    fed_device *device = *state;
    fed_device_event(device);
    assert_string_equal(device->fake.last_url, "https://fake:8444/v1/update");
    fed_fake_fail(&device->fake, "/v1/checkin", FED_FAKE_UNREACHABLE, 3);
    device->fake.devices_port = 9555;
    for (int k = 0; k < 3; k++) {
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
        assert_int_equal(device->fake.renewals, 0);
    }
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.renewals, 1);
    assert_string_equal(device->fake.last_url, "https://fake:9555/v1/update");
    fed_device_restart(device);
    fed_device_event(device);
    assert_string_equal(device->fake.last_url, "https://fake:9555/v1/update");
    assert_int_equal(device->fake.renewals, 1);
}

/* While the coordinator is down, the device tries one renewal for every three failed requests. */
static void a_device_asks_the_front_until_somebody_answers(void **state) {
    fed_device *device = *state;
    fed_device_event(device);
    fed_fake_fail(&device->fake, "/v1/", FED_FAKE_UNREACHABLE, 8);
    for (int k = 0; k < 6; k++) { /* six check-ins, and a renewal before the fourth */
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    }
    assert_int_equal(device->fake.plan.times, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.plan.times, 0);
    assert_int_equal(device->fake.renewals, 0);
    for (int turn = 0; turn < 2; turn++) {
        fed_fake_fail(&device->fake, "/v1/checkin", FED_FAKE_UNREACHABLE, 3);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
        }
        assert_int_not_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
        assert_int_equal(device->fake.renewals, 1);
    }
}

/* A firewall may let devices reach only their own port. Then a renewal that the coordinator asks
 * for is tried at most once in ten minutes. */
static void a_front_that_is_cut_off_is_not_asked_at_each_step(void **state) {
    enum { MANY = 100 };
    fed_device *device = *state;
    device->fake.wants_renewal = true;
    fed_fake_fail(&device->fake, "/v1/renew", FED_FAKE_UNREACHABLE, MANY);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    }
    assert_int_equal(device->fake.plan.times, MANY - 1);
    assert_int_equal(device->fake.renewals, 0);
}

static fed_status fail_to_train(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)round;
    return fed_fail(err, FED_EINVAL, "the program's data are gone");
}

/* The failed renewal must not make the program's own error look like a network error. */
static void a_fault_of_the_program_does_not_heal_because_a_renewal_failed(void **state) {
    fed_device *device = *state;
    fedclient_event event;
    device->options.train = fail_to_train;
    fed_device_restart(device);
    make_old(device);
    fed_fake_fail(&device->fake, "/v1/renew", FED_FAKE_UNREACHABLE, 1);
    assert_fed_status(fedclient_step(device->client, &event, &device->err), FED_EINVAL);
    assert_fed_says(device->err, "the program's data are gone");
    assert_int_equal(device->fake.plan.times, 0);
}

/** Run 3 rounds in which power fails in put number `at`, counted from 0. writing: that put has
 * written its value. old: the certificate is due for renewal. Returns true if fewer puts were
 * made, so that power did not fail. */
static bool survives_power_loss(const char *codec, uint64_t at, bool writing, bool old) {
    fed_device device;
    open_device(&device, codec);
    if (old) {
        make_old(&device);
    }
    device.flash.dies_at = at;
    device.flash.dies_writing = writing;
    fedclient_event event = {0};
    fed_status status = FED_OK;
    for (unsigned k = 0; k < 4 && status == FED_OK; k++) {
        status = fed_device_step(&device, &event);
    }
    bool died = device.flash.dead;
    assert_int_equal(died, status != FED_OK);
    fed_device_restart(&device);
    if (died) {
        fed_device_finish(&device, 8);
    }
    assert_int_equal(device.fake.version, 3);
    assert_int_equal(device.fake.renewals > 0, old);
    fed_device_check(&device, tolerance_of(codec));
    fed_device_close(&device);
    return !died;
}

static void power_loss_at_any_put_loses_no_gradient(void) {
    for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
        for (unsigned writing = 0; writing < 2; writing++) {
            uint64_t at = 0;
            while (!survives_power_loss(codecs[c], at, writing == 1, false)) {
                at++;
            }
            assert_int_equal(at, 13); /* 3 rounds of 4 puts, and the final model */
        }
    }
}

static void power_loss_at_any_put_leaves_one_of_two_good_certificates(void) {
    for (unsigned writing = 0; writing < 2; writing++) {
        uint64_t at = 0;
        while (!survives_power_loss("3lc:s=1", at, writing == 1, true)) {
            at++;
        }
        assert_int_equal(at, 14); /* one more put than above, for the identity */
    }
}

/** The link fails at request number `at`, counted from 0, and power in put number `put`. answering:
 * that request is still done. old: the certificate is due for renewal. Returns true if neither
 * happened. */
static bool survives_dead_line(const char *codec, uint64_t at, bool answering, uint64_t put,
                               bool old) {
    fed_device device;
    open_device(&device, codec);
    if (old) {
        make_old(&device);
    }
    device.fake.dies_at = at;
    device.fake.dies_answering = answering;
    device.flash.dies_at = put;
    fedclient_event event = {0};
    fed_status status = FED_OK;
    for (unsigned k = 0; k < 4 && status == FED_OK && event.outcome != FEDCLIENT_RETRY; k++) {
        status = fed_device_step(&device, &event);
    }
    bool died = status != FED_OK || event.outcome == FEDCLIENT_RETRY;
    fed_device_restart(&device);
    if (died) {
        fed_device_finish(&device, 8);
    }
    assert_int_equal(device.fake.version, 3);
    fed_device_check(&device, tolerance_of(codec));
    fed_device_close(&device);
    return !died;
}

static void a_line_that_dies_at_any_request_loses_no_gradient(void) {
    for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
        for (unsigned answering = 0; answering < 2; answering++) {
            uint64_t at = 0;
            while (!survives_dead_line(codecs[c], at, answering == 1, UINT64_MAX, false)) {
                at++;
            }
            assert_int_equal(at, 11); /* three requests in each of 3 rounds, and two at the end */
        }
    }
}

static void two_faults_in_a_row_lose_no_gradient(void) {
    for (uint64_t at = 0; at < 11; at++) {
        for (uint64_t put = 0; put < 14; put++) {
            (void)survives_dead_line("3lc:s=1", at, true, put, put % 2 == 0);
        }
    }
}

static void what_does_not_get_through_as_one_goes_on_in_pieces(void **state) {
    fed_device *device = *state;
    fed_device_new_task(device, "input 100 | dense 60");
    snprintf(device->fake.task.codec_up, sizeof device->fake.task.codec_up, "float32");
    fed_fake_fail(&device->fake, "/v1/update", FED_FAKE_MIDWAY, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_true(device->fake.pieces > 1);
    fed_device_check(device, 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, fed_device_teardown)

static const struct CMUnitTest tests[] = {
    test(a_round_is_trained_uploaded_and_counted),
    test(a_task_ends_with_the_coordinators_model),
    test(a_device_that_knows_waits_as_long_as_it_is_told),
    test(nobody_makes_a_device_hurry_or_sleep_for_more_than_a_day),
    test(a_lease_without_time_is_no_reason_to_hurry),
    test(a_device_whose_clock_is_not_set_yet_waits),
    test(no_model_is_there_before_the_first_download),
    test(a_client_that_is_not_enrolled_says_so),
    test(addresses_that_make_no_sense_are_refused),
    test(the_devices_port_replaces_that_of_the_address),
    test(a_lost_acknowledgement_is_asked_for_again_and_counts_once),
    test(waits_grow_while_the_line_is_down),
    test(who_was_told_to_wait_long_comes_back_as_slowly),
    test(a_busy_coordinator_is_tried_again),
    test(a_coordinator_that_says_when_is_asked_no_earlier),
    test(a_refused_update_stays_owed_and_travels_with_the_next),
    test(an_expired_lease_loses_nothing),
    test(words_that_are_not_in_the_protocol_are_for_a_person),
    test(a_garbled_assignment_is_for_a_person),
    test(a_failing_callback_gives_the_round_up),
    test(values_that_are_not_numbers_are_never_stored),
    test(a_callback_must_say_how_many_samples),
    test(what_a_sum_cannot_hold_is_sent_in_pieces),
    test(float32_sends_in_pieces_too),
    test(a_codec_without_feedback_leaves_nothing_owed),
    test(a_new_task_starts_from_nothing),
    test(an_upload_of_a_task_that_is_over_is_let_go),
    test(a_training_cut_short_before_its_message_is_not_done_twice),
    test(a_training_whose_round_is_over_travels_with_the_next),
    test(a_full_disk_loses_nothing),
    test(a_damaged_model_is_downloaded_again),
    test(damaged_state_that_nobody_else_has_is_for_a_person),
    test(an_evaluator_measures_and_reports),
    test(a_measurement_is_reported_again_without_measuring_again),
    test(a_measurement_nobody_wants_is_dropped),
    test(a_certificate_is_renewed_in_the_last_third_of_its_life),
    test(a_renewal_that_fails_is_tried_later_and_stops_nothing),
    test(a_fault_of_the_program_does_not_heal_because_a_renewal_failed),
    test(a_new_devices_port_is_found_at_the_front),
    test(a_device_asks_the_front_until_somebody_answers),
    test(a_front_that_is_cut_off_is_not_asked_at_each_step),
    fed_unit_test(power_loss_at_any_put_loses_no_gradient),
    fed_unit_test(power_loss_at_any_put_leaves_one_of_two_good_certificates),
    fed_unit_test(a_line_that_dies_at_any_request_loses_no_gradient),
    fed_unit_test(two_faults_in_a_row_lose_no_gradient),
    test(what_does_not_get_through_as_one_goes_on_in_pieces),
};

static const struct CMUnitTest lending[] = {
    test(a_training_cut_short_before_its_message_is_not_done_twice),
    test(a_full_disk_loses_nothing),
    fed_unit_test(power_loss_at_any_put_loses_no_gradient),
    fed_unit_test(a_line_that_dies_at_any_request_loses_no_gradient),
};

static const struct CMUnitTest in_place[] = {
    test(what_a_sum_cannot_hold_is_sent_in_pieces),
    test(a_new_task_starts_from_nothing),
    fed_unit_test(a_line_that_dies_at_any_request_loses_no_gradient),
};

int main(void) {
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_kind = LENDING;
    failed += cmocka_run_group_tests_name("where values are lent", lending, NULL, NULL);
    store_kind = IN_PLACE;
    return failed + cmocka_run_group_tests_name("and changed where they lie", in_place, NULL, NULL);
}
