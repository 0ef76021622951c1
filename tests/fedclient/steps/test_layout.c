/* A model of many tensors: the device fetches its layout once, keeps it, and refuses any other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

#include "fed/bytes.h"
#include "fed/layout_reference.h"
#include "fedclient/state/record.h"
#include "long_text.h"

enum { TENSORS = 1000, ROUNDS = 4, TURNS = 40 };

static int setup(void **state) {
    const int status = fed_device_setup(state, "float32", ROUNDS);
    fed_device_new_task(*state, long_text("one", TENSORS));
    return status;
}

static bool is_stored(const fed_device *device) {
    fed_error err = {0};
    uint8_t *bytes = NULL;
    size_t len = 0;
    const fedclient_platform *inner = &device->flash.inner;
    const fed_status status = inner->get(inner->user, "layout", &bytes, &len, &err);
    free(bytes);
    assert_true(status == FED_OK || status == FED_ENOTFOUND);
    return status == FED_OK;
}

FED_TEST_WITH(a_layout_is_fetched_once, fed_device *device) {
    assert_true(fed_layout_is_reference(device->fake.task.model));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_true(is_stored(device));
    fed_device_restart(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_restart(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.layouts, 1);
    fed_device_check(device, 0);
}

FED_TEST_WITH(a_layout_goes_when_its_task_is_over, fed_device *device) {
    fed_device_finish(device, TURNS);
    assert_int_equal(device->fake.layouts, 1);
    assert_false(is_stored(device));
}

FED_TEST_WITH(the_next_task_takes_the_layouts_place, fed_device *device) {
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_new_task(device, long_text("two", TENSORS));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.layouts, 2);
    fed_device_new_task(device, long_text("two", TENSORS));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.layouts, 2); /* another task of the same tensors */
    fed_device_restart(device);
    fed_device_new_task(device, "tensors a 8");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.layouts, 2);
    assert_false(is_stored(device));
}

/* C13 of docs/durability.md. */
FED_TEST(power_may_fail_at_each_put) {
    for (int k = 0; k < 24; k++) {
        fed_device d;
        fedclient_event event = {0};
        fed_device_open(&d, "float32", 2);
        fed_device_new_task(&d, long_text("one", TENSORS));
        d.flash.dies_at = d.flash.puts + (uint64_t)k / 2;
        d.flash.dies_writing = k % 2 == 1;
        for (int turn = 0; turn < TURNS && event.outcome != FEDCLIENT_FINISHED; turn++) {
            if (fed_device_step(&d, &event) != FED_OK) {
                fed_device_restart(&d);
            }
        }
        assert_int_equal(d.fake.version, 2);
        /* fetched again only if power failed before the first put, which keeps it, was done */
        assert_int_equal(d.fake.layouts, k == 0 ? 2 : 1);
        fed_device_check(&d, 0);
        fed_device_close(&d);
    }
}

FED_TEST_WITH(a_connection_that_breaks_is_tried_again, fed_device *device) {
    static const fed_fake_fault faults[] = {FED_FAKE_UNREACHABLE, FED_FAKE_LOST_ANSWER,
                                            FED_FAKE_SILENT, FED_FAKE_MIDWAY};
    for (size_t k = 0; k < sizeof faults / sizeof faults[0]; k++) {
        fed_fake_fail(&device->fake, "/v1/layout", faults[k], 1);
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
        assert_false(is_stored(device));
    }
    fed_fake_refuse(&device->fake, "/v1/layout", 404, "layout_gone");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    fed_fake_refuse(&device->fake, "/v1/layout", 503, "busy");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(device->fake.declines, 0);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

static void declined(fed_device *device, const char *says) {
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_DECLINED);
    if (strstr(device->fake.declined.reason, says) == NULL) {
        fail_msg("\"%s\" is not in: %s", says, device->fake.declined.reason);
    }
    assert_false(is_stored(device));
    assert_int_equal(device->fake.downloads, 0);
    device->fake.declined.reason[0] = '\0';
}

FED_TEST_WITH(other_bytes_are_refused_whole, fed_device *device) {
    static const fed_fake_fault faults[] = {FED_FAKE_TRUNCATED, FED_FAKE_GARBAGE};
    for (size_t k = 0; k < sizeof faults / sizeof faults[0]; k++) {
        fed_fake_fail(&device->fake, "/v1/layout", faults[k], 1);
        declined(device, "do not have the digest that the task names");
    }
    device->fake.misled = "";
    declined(device, "do not have the digest");
    device->fake.misled = "tensors a 1";
    declined(device, "do not have the digest");
    device->fake.misled = NULL;
    fed_fake_fail(&device->fake, "/v1/layout", FED_FAKE_LONG, 1);
    declined(device, "its layout is longer than any that is allowed");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

/* The digest is right, and the bytes are no model. */
FED_TEST_WITH(bytes_that_are_no_model_are_refused, fed_device *device) {
    static const struct {
        const char *bytes, *says;
    } wrong[] = {{"tensors a 1 | a 1", "two tensors have this one"},
                 {"tensors a 4294967295x4294967295", "at most 2^31 values"},
                 {"tensors a 3", "has 1 tensors of 3 values, and the task says 1 of 1"}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        uint8_t digest[FED_SHA256_SIZE];
        char hex[FED_SHA256_HEX];
        fed_sha256(wrong[k].bytes, strlen(wrong[k].bytes), digest);
        fed_hex(digest, sizeof digest, hex);
        snprintf(device->fake.task.model, sizeof device->fake.task.model,
                 "layout 1 tensors 1 values sha256 %s", hex);
        device->fake.misled = wrong[k].bytes;
        declined(device, wrong[k].says);
    }
}

FED_TEST_WITH(a_model_that_is_too_large_is_declined_before_its_layout_is_fetched,
              fed_device *device) {
    device->options.most_memory_bytes = 100000; /* for 1,500 values, and not for 1,000 tensors */
    fed_device_restart(device);
    declined(device, "its model of 1500 values takes 1.2 MB of memory");
    snprintf(device->fake.task.model, sizeof device->fake.task.model, "layout 65537 tensors");
    declined(device, "names no layout");
    assert_int_equal(device->fake.layouts, 0);
}

FED_TEST_WITH(a_damaged_layout_is_fetched_again, fed_device *device) {
    fed_error err = {0};
    const fedclient_platform *inner = &device->flash.inner;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok_err(inner->put(inner->user, "layout", "FEDr", 4, &err));
    fed_device_restart(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.layouts, 2);
    assert_fed_ok_err(inner->drop(inner->user, "layout", &err));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.layouts, 3);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
