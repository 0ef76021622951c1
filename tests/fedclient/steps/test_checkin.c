/* A device's check-ins at coordinators of other releases. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "arch_case.h"
#include "fed_cases.h"
#include "fed_device.h"

#include "fed/version.h"

FED_TEST(a_coordinator_of_the_protocol_before_gets_the_whole_task_done) {
    fed_device device;
    fed_device_open(&device, "sbc:p=0.1", 5);
    device.fake.protocol = FED_PROTOCOL - 1;
    fed_device_finish(&device, 20);
    assert_int_equal(device.fake.updates, 5);
    /* A check-in for each of five rounds, and one at the end; refused ones are not counted. */
    assert_int_equal(device.fake.checkins, 6);
    assert_int_equal(device.fake.refused, 1);
    fed_device_check(&device, 1e-6f);
    fed_device_close(&device);
}

FED_TEST(a_coordinator_too_old_is_named) {
    fed_device device;
    fed_device_open(&device, "sbc:p=0.1", 5);
    device.fake.protocol = FED_PROTOCOL_OLDEST - 1;
    fed_device_fail(&device, FED_EVERSION);
    assert_fed_says(device.err, "protocol_version");
    fed_device_close(&device);
}

FED_TEST(a_coordinator_that_knows_no_slots_gets_the_whole_task_done) {
    fed_device device;
    fed_device_open(&device, "sbc:p=0.1", 5);
    device.options.slots = 3;
    fed_device_restart(&device);
    device.fake.no_tasks = true;
    fed_device_finish(&device, 20);
    assert_int_equal(device.fake.updates, 5);
    assert_int_equal(device.fake.checkins, 6);
    assert_int_equal(device.fake.refused, 1);
    fed_device_check(&device, 1e-6f);
    device.fake.no_tasks = false; /* now the coordinator is of a newer release */
    fed_device_restart(&device);
    fed_device_event(&device);
    assert_int_equal(device.fake.refused, 1);
    fed_device_close(&device);
}

/* An older coordinator may also find a check-in with the list of tasks too long (413). The device
 * then sends it without the list. */
FED_TEST(so_does_one_for_which_the_list_is_too_long) {
    fed_device device;
    fed_device_open(&device, "sbc:p=0.1", 2);
    device.options.slots = 3;
    fed_device_restart(&device);
    fed_fake_refuse(&device.fake, "/v1/checkin", 413, "too_large");
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_COUNTED);
    fed_device_close(&device);
}

FED_TEST(a_device_with_one_slot_is_not_asked_again_for_what_it_did_not_say) {
    fed_device device;
    fed_device_open(&device, "sbc:p=0.1", 2);
    fed_fake_refuse(&device.fake, "/v1/checkin", 400, "bad_request");
    fed_device_fail(&device, FED_EFORMAT);
    assert_int_equal(device.fake.requests, 1);
    fed_device_close(&device);
}

FED_TEST(the_longest_task_is_trained) {
    fed_device device;
    char model[FED_ARCH_TEXT];
    fed_device_open(&device, "float32", 1);
    arch_case_longest(model);
    fed_device_new_task(&device, model);
    snprintf(device.fake.task.codec_up, sizeof device.fake.task.codec_up, "%s", "float32");
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_COUNTED);
    fed_device_close(&device);
}

/* A later release may have longer tasks than this one can read. */
FED_TEST(an_answer_longer_than_any_task_of_today_does_not_end_the_device) {
    fed_device device;
    fed_device_open(&device, "float32", 1);
    fed_fake_fail(&device.fake, "/v1/checkin", FED_FAKE_LONG, 2);
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_RETRY);
    const fedclient_event again = fed_device_event(&device);
    assert_int_equal(again.outcome, FEDCLIENT_RETRY);
    assert_true(again.wait_ms > 0);
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_COUNTED);
    fed_device_close(&device);
}

/* ---- A coordinator that sends tasks which no honest one sends ---- */

static fed_status no_cache_is_asked(void *user, const fedclient_request *request, int *status,
                                    fed_writer *answer, fed_error *err) {
    (void)user, (void)status, (void)answer, (void)err;
    fail_msg("the device asked %s", request->url);
    return FED_ENET;
}

enum { MOST_BYTES = 1000000, FITS = MOST_BYTES / 12 /* values */ };

static const struct {
    const char *model, *downloads; /* NULL: as the honest task's */
    const char *says;
} demands[] = {
    {NULL, "file:///etc/", "a cache's URL is"},
    {NULL, "gopher://192.0.2.1/", "a cache's URL is"},
    {NULL, "/v1/", "a cache's URL is"},
    {NULL, "https:///", "a cache's URL is"},
    {NULL, "http://192.0.2.1", "a cache's URL is"},
    {NULL, "http://192.0.2.1/reboot?now=/", "a cache's URL is"},
    {NULL, "http://192.0.2.1/reboot#/", "a cache's URL is"},
    {NULL, "http://admin:admin@192.0.2.1/", "a cache's URL is"},
    {NULL, "http://192.0.2.1/\r\nX: y/", "a cache's URL is"},
    {"vector 83334", NULL, "its model of 83334 values takes 1.0 MB of memory"},
    {"vector 2000000000", NULL, "its model of 2000000000 values takes 24000.0 MB of memory"},
    {"vector 1000000000000", NULL, "model: column"},
    {"input 60000 | dense 60000", NULL, "model: column"},
    {"input 40000 | dense 50000", NULL, "takes 24000.6 MB of memory, and this device gives a task"},
};

/* No demand ends the device, or makes it fetch anything. The next honest task is trained. */
FED_TEST(a_task_that_demands_too_much_is_declined_before_anything_is_fetched) {
    fedclient_transport cache = {.send = no_cache_is_asked};
    for (size_t k = 0; k < 2 * sizeof demands / sizeof demands[0]; k++) {
        fed_device device;
        const char *model = demands[k / 2].model, *downloads = demands[k / 2].downloads;
        fed_device_open(&device, "float32", 1);
        device.options.role = k % 2 == 0 ? FED_ROLE_TRAIN : FED_ROLE_EVALUATE;
        device.options.downloads = &cache;
        device.options.most_memory_bytes = MOST_BYTES;
        fed_device_restart(&device);
        fed_task *task = &device.fake.task;
        const fed_task honest = *task;
        snprintf(task->model, sizeof task->model, "%s", model != NULL ? model : honest.model);
        snprintf(task->downloads, sizeof task->downloads, "%s", downloads != NULL ? downloads : "");
        assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_DECLINED);
        assert_fed_says(device.err, demands[k / 2].says);
        assert_string_equal(device.fake.declined.reason, device.err.text);
        assert_int_equal(device.fake.downloads, 0);
        *task = honest;
        device.fake.declined.reason[0] = '\0';
        assert_int_equal(fed_device_event(&device).outcome,
                         k % 2 == 0 ? FEDCLIENT_COUNTED : FEDCLIENT_EVALUATED);
        fed_device_close(&device);
    }
}

FED_TEST(a_model_that_takes_all_the_memory_of_a_task_is_trained) {
    fed_device device;
    char model[32];
    fed_device_open(&device, "float32", 1);
    device.options.most_memory_bytes = MOST_BYTES;
    fed_device_restart(&device);
    snprintf(model, sizeof model, "vector %d", FITS);
    fed_device_new_task(&device, model);
    assert_int_equal(fed_device_event(&device).outcome, FEDCLIENT_COUNTED);
    fed_device_close(&device);
}
