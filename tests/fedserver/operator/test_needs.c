/* The memory that a task needs is reported before the task is queued, and a task that can't fit
 * is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed_cases.h"
#include "fedserver/operator/needs.h"

static fedserver_needs estimate_at(const char *downloads, const char *model, const char *strategy,
                                   uint32_t goal) {
    fed_error err = {0};
    fedserver_task task = {.rules = {.goal = goal, .rounds = 1}};
    fedserver_needs needs;
    snprintf(task.wire.model, sizeof task.wire.model, "%s", model);
    snprintf(task.wire.codec_up, sizeof task.wire.codec_up, "float32");
    snprintf(task.codec_down, sizeof task.codec_down, "float32");
    snprintf(task.strategy, sizeof task.strategy, "%s", strategy);
    snprintf(task.wire.downloads, sizeof task.wire.downloads, "%s", downloads);
    fed_arch arch;
    assert_fed_ok_err(fed_arch_parse(model, &arch, &err));
    assert_fed_ok_err(fedserver_needs_estimate(&task, &arch.layout, &needs, &err));
    fed_arch_free(&arch);
    return needs;
}

static fedserver_needs estimate(const char *model, const char *strategy, uint32_t goal) {
    return estimate_at("", model, strategy, goal);
}

FED_TEST(test_a_huge_task_is_said_to_be_one) {
    const fedserver_needs needs = estimate("input 12600 | dense 12600", "fedavg", 2);
    char text[400];
    assert_true(needs.values == 12600ULL * 12600 + 12600);
    assert_true(needs.model_bytes >= 6 * 4 * needs.values);
    assert_true(needs.update_bytes >= 2 * 4 * needs.values);
    assert_true(needs.memory_bytes >= 6 * 4 * needs.values);
    assert_true(fedserver_needs_much(&needs));
    fedserver_needs_report(&needs, text, sizeof text);
    assert_non_null(strstr(text, "158772600 values"));
    assert_non_null(strstr(text, "6.4 GB of disk"));
}

FED_TEST(test_a_small_task_needs_no_note) {
    const fedserver_needs needs = estimate("input 784 | dense 10", "fedavg", 10);
    assert_false(fedserver_needs_much(&needs));
}

FED_TEST(test_sizes_have_a_unit_that_fits_them) {
    const fedserver_needs needs = {.values = 7850,
                                   .model_bytes = 314000,
                                   .update_bytes = 999,
                                   .memory_bytes = 31400000,
                                   .disk_free_bytes = 999960,
                                   .machine_bytes = UINT64_C(6000000000)};
    char text[400];
    fedserver_needs_report(&needs, text, sizeof text);
    assert_non_null(strstr(text, "up to 314.0 KB of disk"));
    assert_non_null(strstr(text, "999 bytes for a round's updates (1.0 MB are free)"));
    assert_non_null(strstr(text, "about 31.4 MB of memory (this machine has 6.0 GB)"));
}

FED_TEST(test_a_strategys_state_counts) {
    const fedserver_needs plain = estimate("input 784 | dense 10", "fedavg", 10);
    const fedserver_needs adam = estimate("input 784 | dense 10", "fedadam", 10);
    const fedserver_needs median = estimate("input 784 | dense 10", "median", 10);
    assert_true(adam.model_bytes > plain.model_bytes);
    assert_true(median.update_bytes > plain.update_bytes);
}

FED_TEST(test_sealed_downloads_count) {
    const fedserver_needs plain = estimate("input 784 | dense 10", "fedavg", 10);
    const fedserver_needs sealed =
        estimate_at("https://cdn.example/", "input 784 | dense 10", "fedavg", 10);
    assert_true(sealed.model_bytes - plain.model_bytes >= 4 * 4 * plain.values);
    assert_true(sealed.update_bytes == plain.update_bytes);
    assert_true(sealed.memory_bytes == plain.memory_bytes);
}

FED_TEST(test_what_the_disk_cannot_hold_is_refused) {
    fed_error err = {0};
    const fedserver_needs needs = {.values = 9, .model_bytes = UINT64_MAX / 2};
    assert_fed_status(fedserver_needs_check(&needs, 0, "/tmp", &err), FED_ENOSPC);
    assert_non_null(strstr(err.text, "/tmp: a model of 9 values takes up to"));
    assert_non_null(strstr(err.text, " are free"));
    const fedserver_needs little = {.values = 9, .model_bytes = 1, .row_bytes = 10};
    assert_fed_ok(fedserver_needs_check(&little, 10, "/tmp", &err));
    assert_fed_status(fedserver_needs_check(&little, 9, "/tmp", &err), FED_ERANGE);
    assert_fed_says(err, "can't be stored");
}

static void assert_able(coordinator *c, const char *text, uint32_t able, uint32_t devices) {
    fedserver_needs needs;
    fed_error err = {0};
    const uint64_t id = coordinator_task(c, text);
    assert_fed_ok_err(fedserver_task_needs(c->server, id, &needs, &err));
    assert_int_equal(needs.able, able);
    assert_int_equal(needs.devices, devices);
}

FED_TEST(test_the_devices_that_may_train_are_counted) {
#define TASK                                                                                       \
    "{\"model\": \"input 2 | dense 2\", \"rounds\": 1, \"cohort\": 9, \"goal\": 5, \"minimum\": "
    coordinator c;
    fed_error err = {0};
    fedserver_entry entry;
    char hex[FED_SHA256_HEX];
    coordinator_setup(&c);
    const fedserver_grant grants[] = {{.ttl_s = 3600, .tag = "north"},
                                      {.ttl_s = 3600},
                                      {.ttl_s = 3600, .role = FEDSERVER_ROLE_EVALUATOR},
                                      {.ttl_s = 3600}};
    assert_able(&c, TASK "3}", 0, 3);
    for (size_t k = 0; k < 4; k++) {
        const test_device d = coordinator_enrol_as(&c, &grants[k]);
        fed_hex(d.fingerprint, FED_SHA256_SIZE, hex);
    }
    coordinator_commit(&c);
    assert_able(&c, TASK "3}", 3, 3);
    assert_able(&c, TASK "2}", 2, 2);
    assert_able(&c, TASK "3, \"tag\": \"north\"}", 1, 3);
    assert_able(&c, TASK "3, \"staleness\": 2}", 1, 1);
    assert_able(&c, /* a device rests for two rounds after its own */
                TASK "1, \"codec_up\": \"ring\", \"clip\": 1, \"epsilon\": 8, \"delta\": 1e-5,"
                     " \"participations\": 2, \"apart\": 3, \"selection\": \"round_robin\"}",
                3, 3);
    assert_fed_ok_err(fedserver_device_revoke(c.server, c.now_ms, hex, &entry, &err));
    assert_able(&c, TASK "3}", 2, 3);
    coordinator_teardown(&c);
#undef TASK
}

/* The model is too large for a row of the store, so the task's first commit would fail. The task is
 * refused before its model is made. */
FED_TEST(test_so_it_is_when_it_is_queued) {
    coordinator c;
    fed_error err = {0};
    char path[300];
    uint64_t id = 0;
    coordinator_setup(&c);
    if (coordinator_store(&c)->row_limit == 0) {
        coordinator_teardown(&c);
        skip();
    }
    coordinator_commit(&c);
    snprintf(path, sizeof path, "%s/huge.json", c.directory);
    static const char huge[] = "{\"model\": \"input 12600 | dense 12600\","
                               " \"rounds\": 1, \"cohort\": 1}";
    fed_test_put(c.directory, "huge.json", huge, sizeof huge - 1);
    assert_fed_status(fedserver_task_add(c.server, c.now_ms, path, &id, &err), FED_ERANGE);
    assert_non_null(strstr(err.text, "a model of 158772600 values can't be stored"));
    coordinator_teardown(&c);
}
