/* A coordinator with several addresses. If one does not answer, the device tries the next. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"
#include "fedclient/steps/steps.h"

#define TWO "https://a:8443,https://b:8443/"

static int open_with(void **state, const char *servers) {
    (void)fed_device_setup(state, "float32", 20);
    fed_device *device = *state;
    device->options.server = servers;
    fed_device_restart(device);
    return 0;
}

static int setup(void **state) {
    return open_with(state, TWO);
}

/* here() is the address that the device uses now, there() is the other address. */
static const char *here(const fed_device *device) {
    return strstr(device->client->front, "//a:") != NULL ? "//a:" : "//b:";
}

static const char *there(const fed_device *device) {
    return strstr(device->client->front, "//a:") != NULL ? "//b:" : "//a:";
}

static void down(fed_device *device, const char *part) {
    fed_fake_fail(&device->fake, part, FED_FAKE_UNREACHABLE, 1000);
}

FED_TEST_WITH(where_nobody_answers_the_next_address_is_asked_soon, fed_device *device) {
    const char *other = there(device);
    down(device, here(device));
    const fedclient_event event = fed_device_event(device);
    assert_int_equal(event.outcome, FEDCLIENT_RETRY);
    assert_in_range(event.wait_ms, 200, 400);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_non_null(strstr(device->fake.last_url, other));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_non_null(strstr(device->fake.last_url, other));
    fed_device_check(device, 0);
}

FED_TEST_WITH(waits_grow_once_all_addresses_have_failed, fed_device *device) {
    uint32_t most = 400;
    down(device, "https://");
    for (int round = 0; round < 5; round++) {
        for (int k = 0; k < 2; k++) {
            assert_in_range(fed_device_event(device).wait_ms, most / 2, most);
        }
        most *= 2;
    }
    device->fake.plan.times = 0;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

FED_TEST_WITH(what_a_failing_server_asks_is_not_asked_of_the_next, fed_device *device) {
    device->fake.plan = (fed_fake_plan){.path = "/v1/checkin",
                                        .fault = FED_FAKE_STATUS,
                                        .status = 503,
                                        .error = "stopping",
                                        .times = 2,
                                        .retry_after_s = 30};
    const char *first = here(device);
    assert_in_range(fed_device_event(device).wait_ms, 200, 400);
    assert_string_not_equal(here(device), first);
    assert_in_range(fed_device_event(device).wait_ms, 30200, 30400);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

FED_TEST_WITH(who_asks_too_often_waits_at_the_same_address, fed_device *device) {
    const char *first = here(device);
    device->fake.plan = (fed_fake_plan){.path = "/v1/checkin",
                                        .fault = FED_FAKE_STATUS,
                                        .status = 429,
                                        .error = "too_many",
                                        .times = 1,
                                        .retry_after_s = 30};
    assert_in_range(fed_device_event(device).wait_ms, 30200, 30400);
    assert_string_equal(here(device), first);
}

/* Check in, and return how long the request may be silent after the time that it is held. */
static uint32_t patience_ms(fed_device *device) {
    (void)fed_device_event(device);
    return device->fake.last_patience_ms;
}

FED_TEST_WITH(a_silent_address_gets_five_seconds, fed_device *device) {
    enum { SILENT_MS = 5000, HELD_MS = 2000 };
    for (uint32_t hold_ms = 0; hold_ms <= 60000; hold_ms += 1500) {
        device->client->options.hold_ms = hold_ms;
        const uint32_t held_ms = hold_ms < HELD_MS ? hold_ms : HELD_MS;
        assert_int_equal(patience_ms(device), SILENT_MS - held_ms);
        assert_int_equal(device->fake.last_hold_ms, held_ms);
    }
}

FED_TEST_WITH(where_addresses_refuse_the_device_stays_impatient, fed_device *device) {
    const uint32_t first_ms = patience_ms(device);
    down(device, "https://");
    for (int k = 0; k < 6; k++) {
        assert_int_equal(patience_ms(device), first_ms);
    }
}

FED_TEST_WITH(where_all_addresses_are_silent_the_device_becomes_patient, fed_device *device) {
    enum { TRANSPORT_MS = 30000 };
    device->client->options.hold_ms = 25000;
    const uint32_t first_ms = patience_ms(device);
    uint32_t least_ms = first_ms;
    fed_fake_fail(&device->fake, "https://", FED_FAKE_SILENT, 1000);
    for (int round = 0; round < 4; round++) {
        for (int k = 0; k < 2; k++) {
            assert_int_equal(patience_ms(device), least_ms);
        }
        least_ms *= 2;
    }
    assert_true(least_ms > TRANSPORT_MS);
    device->fake.plan.times = 0;
    (void)fed_device_event(device);
    assert_int_equal(patience_ms(device), first_ms);
}

FED_TEST_WITH(the_only_address_is_waited_for_as_before, fed_device *device) {
    device->options.server = "https://a:8443";
    device->options.hold_ms = 25000;
    fed_device_restart(device);
    assert_int_equal(patience_ms(device), 0);
    assert_int_equal(device->fake.last_hold_ms, 25000);
}

FED_TEST_WITH(an_update_is_sent_on_at_the_next_address, fed_device *device) {
    const char *first = here(device), *other = there(device);
    fed_fake_fail(&device->fake, "/v1/update", FED_FAKE_LOST_ANSWER, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    down(device, first);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_non_null(strstr(device->fake.last_url, other));
    assert_int_equal(device->fake.resent, 1);
    assert_int_equal(device->calls, 1);
    fed_device_check(device, 0);
}

FED_TEST_WITH(pieces_go_on_at_the_next_address, fed_device *device) {
    device->options.piece_bytes = 24;
    fed_device_restart(device);
    fed_device calm;
    fed_device_open(&calm, "float32", 20);
    calm.options.piece_bytes = 24;
    fed_device_restart(&calm);
    assert_int_equal(fed_device_event(&calm).outcome, FEDCLIENT_COUNTED);
    device->fake.dies_at = device->fake.requests + calm.fake.requests / 2;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_true(device->fake.message.len > 0);
    device->fake.dies_at = UINT64_MAX;
    down(device, there(device));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    const uint64_t questions = 1;
    assert_int_equal(device->fake.pieces, calm.fake.pieces + questions);
    fed_device_check(device, 0);
    fed_device_close(&calm);
}

static void forget_identity(fed_device *device) {
    const fedclient_platform *store = &device->flash.platform;
    device->fake.used_token[0] = '\0';
    assert_fed_ok(store->drop(store->user, "identity", NULL));
    fed_device_restart(device);
}

FED_TEST_WITH(enrolment_asks_at_each_address, fed_device *device) {
    forget_identity(device);
    assert_non_null(strstr(device->client->front, "//a:"));
    down(device, "//a:");
    assert_fed_ok_err_of(device, fedclient_enrol(device->client, "good-token", &device->err));
    down(device, "//");
    forget_identity(device);
    device->fake.requests = 0;
    assert_fed_status(fedclient_enrol(device->client, "good-token", &device->err), FED_ENET);
    assert_int_equal(device->fake.requests, 2);
}

FED_TEST_WITH(devices_begin_at_different_addresses, fed_device *device) {
    fedclient *client = device->client;
    unsigned at[2] = {0};
    for (unsigned k = 0; k < 200; k++) {
        snprintf(client->device, sizeof client->device, "%064x", k);
        fedclient_addresses_spread(client);
        at[client->address]++;
    }
    assert_in_range(at[0], 60, 140);
}

FED_TEST_WITH(the_devices_port_is_the_same_at_each_address, fed_device *device) {
    char port[16];
    snprintf(port, sizeof port, ":%u", device->client->devices_port);
    for (int k = 0; k < 3; k++) {
        assert_non_null(strstr(device->client->devices, port));
        assert_memory_equal(device->client->devices, device->client->front, strlen("https://a:"));
        fedclient_addresses_next(device->client);
    }
}

FED_TEST_WITH(what_is_no_list_of_addresses_is_refused, fed_device *device) {
    static const char *const wrong[] = {"https://a:8443,http://b:8443",
                                        "https://a:8443,",
                                        ",https://a:8443",
                                        "https://a:8443,https://b:8443/path",
                                        "https://user:secret@a:8443",
                                        "https://a:8443, https://b:8443",
                                        "",
                                        NULL};
    fedclient *client = NULL;
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        device->options.server = wrong[k];
        assert_fed_status(fedclient_open(&device->options, &client, &device->err), FED_EINVAL);
        assert_non_null(strstr(device->err.text, "write https://HOST:PORT"));
        assert_null(strstr(device->err.text, "secret"));
    }
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
