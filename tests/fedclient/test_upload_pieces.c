/* An update that is sent in pieces: no training is lost, and no byte is sent twice. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

static const char *const codecs[] = {"float32", "sbc:p=0.1"};

/** Return the tolerance for a codec. sbc decodes to rounded means; float32 is exact. */
static float tolerance_of(const char *codec) {
    return strncmp(codec, "sbc", 3) == 0 ? 1e-6f : 0;
}

/** Open a device that sends each update in several pieces. */
static void open_in_pieces(fed_device *device, const char *codec) {
    fed_device_open(device, codec, 3);
    device->options.piece_bytes = 24;
    fed_device_restart(device);
}

static bool survives_in_pieces(const char *codec, uint64_t at, bool answering, bool midway,
                               uint64_t put) {
    fed_device device;
    open_in_pieces(&device, codec);
    device.fake.dies_at = at;
    device.fake.dies_answering = answering;
    device.fake.dies_midway = midway;
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
    assert_true(device.fake.pieces > 0);
    fed_device_check(&device, tolerance_of(codec));
    fed_device_close(&device);
    return !died;
}

FED_TEST(a_break_before_in_or_after_any_piece_loses_no_gradient) {
    for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
        for (unsigned how = 0; how < 3; how++) {
            uint64_t at = 0;
            while (!survives_in_pieces(codecs[c], at, how == 1, how == 2, UINT64_MAX)) {
                at++;
            }
            assert_in_range(at, 20, 100);
        }
    }
}

FED_TEST(power_loss_at_any_put_of_a_piece_loses_no_gradient) {
    for (uint64_t put = 0; put < 16; put++) {
        (void)survives_in_pieces("float32", UINT64_MAX, false, false, put);
        (void)survives_in_pieces("float32", 5, false, true, put);
    }
}

FED_TEST(no_byte_that_came_through_travels_twice) {
    fed_device calm, rough;
    open_in_pieces(&calm, "float32");
    fed_device_finish(&calm, 4);
    open_in_pieces(&rough, "float32");
    fedclient_event event = {0};
    for (unsigned k = 0; k < 400 && event.outcome != FEDCLIENT_FINISHED; k++) {
        rough.fake.dies_at =
            rough.fake.requests + 2; /* the third request from here, which may be a piece */
        rough.fake.dies_midway = true;
        assert_fed_ok_err_of(&rough, fed_device_step(&rough, &event));
        fed_device_restart(&rough);
    }
    assert_int_equal(event.outcome, FEDCLIENT_FINISHED);
    assert_true(rough.fake.requests > calm.fake.requests * 3 / 2);
    assert_int_equal(rough.fake.sent_bytes, calm.fake.sent_bytes);
    assert_int_equal(rough.fake.received_bytes, calm.fake.received_bytes);
    fed_device_check(&rough, 0);
    fed_device_close(&calm);
    fed_device_close(&rough);
}

FED_TEST(an_older_coordinator_gets_the_update_whole) {
    fed_device device;
    open_in_pieces(&device, "float32");
    device.fake.whole_only = true;
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_COUNTED);
    /* The coordinator that answers the check-in takes pieces. Then an older release replaces it. */
    device.fake.whole_only = false;
    fed_fake_fail(&device.fake, "/v1/piece", FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_RETRY);
    device.fake.whole_only = true;
    fed_device_restart(&device);
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device.fake.pieces, 0);
    fed_device_check(&device, 0);
    fed_device_close(&device);
}

FED_TEST(a_lease_that_is_over_is_noticed_before_the_bytes_are_sent) {
    fed_device device;
    open_in_pieces(&device, "float32");
    fed_fake_fail(&device.fake, "/v1/piece", FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_RETRY);
    fed_fake_expire(&device.fake);
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_REFUSED);
    assert_int_equal(device.fake.received_bytes, 0);
    fed_device_finish(&device, 6);
    fed_device_check(&device, 0);
    fed_device_close(&device);
}
