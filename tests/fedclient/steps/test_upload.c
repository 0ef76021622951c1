/* Uploads: up to which size an update is sent in one request. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

/** Return how many pieces a device sends in a task whose updates are larger than a piece. */
static uint64_t pieces_of_a_task(uint32_t whole_bytes) {
    fed_device device;
    fed_device_open(&device, "float32", 3);
    device.options.piece_bytes = 24;
    device.options.whole_bytes = whole_bytes;
    fed_device_restart(&device);
    fed_device_finish(&device, 8);
    assert_int_equal(device.fake.version, 3);
    const uint64_t pieces = device.fake.pieces;
    fed_device_check(&device, 0);
    fed_device_close(&device);
    return pieces;
}

FED_TEST(an_update_over_the_size_of_a_piece_travels_in_pieces) {
    assert_true(pieces_of_a_task(0) > 3);
    assert_int_equal(pieces_of_a_task(25), pieces_of_a_task(0));
}

FED_TEST(an_update_that_may_go_as_one_does) {
    assert_int_equal(pieces_of_a_task(4096), 0);
}

typedef struct heard {
    unsigned warnings;
} heard;

static void hear(void *user, fed_log_level level, const char *line) {
    (void)line;
    ((heard *)user)->warnings += level == FED_LOG_WARN;
}

FED_TEST(a_cloned_device_says_so_keeps_all_and_stands_back) {
    fed_device device;
    fed_device_open(&device, "3lc:s=1", 3);
    fed_fake_refuse(&device.fake, "/v1/update", 409, "cloned");
    heard h = {0};
    const fed_log log = {.user = &h, .write = hear, .level = FED_LOG_WARN};
    device.options.log = &log;
    fed_device_restart(&device);
    fedclient_event event;
    assert_fed_ok_err_of(&device, fed_device_step(&device, &event));
    device.options.log = NULL;
    assert_int_equal(event.outcome, FEDCLIENT_REFUSED);
    assert_in_range(event.wait_ms, 30000, 60000);
    assert_int_equal(h.warnings, 1);
    fed_device_check(&device, 0);
    assert_true(fed_device_owed(&device) > 0);
    fed_device_restart(&device);
    fed_device_finish(&device, 4);
    fed_device_check(&device, 0);
    fed_device_close(&device);
}

/* The fake asks for the rest of a message (status 202), but says that all of it has arrived. */
FED_TEST(a_coordinator_that_has_all_and_wants_more_makes_no_sense) {
    fed_device device;
    fed_device_open(&device, "float32", 3);
    device.options.piece_bytes = 24;
    fed_device_restart(&device);
    device.fake.claims_all = true;
    fed_device_fail(&device, FED_EFORMAT);
    assert_non_null(
        strstr(device.err.text, "answer to a piece of the update names an impossible number"));
    device.fake.claims_all = false;
    fed_device_finish(&device, 8);
    fed_device_check(&device, 0);
    fed_device_close(&device);
}

/* Power fails before the message is stored. Then the task has a larger model. */
FED_TEST(a_task_whose_model_changed_its_size_is_refused) {
    fed_device device;
    fed_device_open(&device, "float32", 3);
    device.flash.dies_at = 2; /* the puts are the model, the residual and the pending message */
    fed_device_fail(&device, FED_EIO);
    fed_device_restart(&device);
    fed_fake_new_task(&device.fake, "input 8 | dense 4");
    device.fake.task.id--;
    device.fake.lease--;
    fed_device_fail(&device, FED_EFORMAT);
    assert_non_null(strstr(device.err.text, "has 36 values, but it had 27 before: the "
                                            "coordinator changed a running task"));
    fed_device_close(&device);
}
