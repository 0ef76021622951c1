/* Which devices are in memory, and when their rows are read and written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/hash.h"
#include "fedserver/rounds/pace.h"
#include "fedserver/rounds/roster.h"

enum { CROWD = 5, SLOTS = 2 };

static const float ones[6] = {1, 1, 1, 1, 1, 1};

static void crowd_of(coordinator *c, test_device d[CROWD], const char *keys) {
    char json[300];
    for (size_t k = 0; k < CROWD; k++) {
        d[k] = coordinator_enrol(c);
    }
    snprintf(json, sizeof json,
             "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"cohort\": 2,"
             " \"rounds\": 9, \"deadline_s\": 100%s}",
             keys);
    coordinator_task(c, json);
}

static size_t in_memory(const coordinator *c) {
    return c->server->rounds.devices.count;
}

static void a_start_reads_the_devices_with_a_lease_and_no_other(void **state) {
    coordinator *c = *state;
    static const char *const settings[] = {"", ", \"staleness\": 2, \"goal\": 2"};
    for (size_t s = 0; s < 2; s++) {
        test_device d[CROWD];
        fed_assignment work[SLOTS];
        crowd_of(c, d, settings[s]);
        for (size_t k = 0; k < SLOTS; k++) {
            work[k] = device_ask_work(c, &d[k]);
            assert_int_equal(work[k].action, FED_ACTION_TRAIN);
        }
        assert_int_equal(device_ask_work(c, &d[2]).reason, FED_WAIT_FULL);
        coordinator_commit(c);
        coordinator_crash(c);
        assert_int_equal(in_memory(c), SLOTS);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, SLOTS);
        assert_int_equal(device_ask_work(c, &d[2]).reason, FED_WAIT_FULL);
        assert_int_equal(in_memory(c), SLOTS + 1);
        assert_int_equal(device_ask_work(c, &d[0]).lease, work[0].lease);
        assert_int_equal(in_memory(c), SLOTS + 1);
        assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, NULL), 200);
        coordinator_commit(c);
        coordinator_crash(c);
        assert_int_equal(in_memory(c), SLOTS - 1); /* a counted device leaves the memory */
        assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, NULL), 200);
        assert_int_equal(c->server->rounds.counters.updates_repeated, 1);
        assert_int_equal(device_upload(c, &d[1], &work[1], ones, 1, NULL), 200);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 1);
        coordinator_commit(c);
        coordinator_teardown(c);
        coordinator_setup(c);
    }
}

static void revoke(coordinator *c, const test_device *d) {
    fed_error err = {0};
    fedserver_entry entry;
    fedserver *other = NULL;
    char hex[FED_SHA256_HEX];
    fed_hex(d->fingerprint, FED_SHA256_SIZE, hex);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_device_revoke(other, c->now_ms, hex, &entry, &err));
    fedserver_close(other);
}

static void a_device_that_was_revoked_before_it_came_is_refused(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    crowd_of(c, d, "");
    coordinator_commit(c);
    coordinator_crash(c);
    assert_int_equal(in_memory(c), 0);
    revoke(c, &d[1]);
    coordinator_commit(c);
    answer a = coordinator_ask(c, &d[1], "GET", "/v1/model", "", NULL, 0);
    assert_string_equal(a.error, "device_revoked");
    answer_free(&a);
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_TRAIN);
}

static void a_revoked_devices_lease_frees_its_slot_also_after_a_start(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    crowd_of(c, d, "");
    for (size_t k = 0; k < SLOTS; k++) {
        assert_int_equal(device_ask_work(c, &d[k]).action, FED_ACTION_TRAIN);
    }
    coordinator_commit(c);
    coordinator_crash(c);
    revoke(c, &d[0]);
    coordinator_commit(c);
    coordinator_wait(c, 200);
    assert_int_equal(device_ask_work(c, &d[2]).action, FED_ACTION_TRAIN);
}

/* A revoked device can't return, so its declines need not be remembered. */
static void what_a_revoked_device_declined_is_forgotten(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    uint8_t body[64];
    fed_writer w;
    crowd_of(c, d, "");
    const fed_assignment work = device_ask_work(c, &d[0]);
    fed_writer_fixed(&w, body, sizeof body);
    fed_decline_write(&w, &(fed_decline){.task = work.task.id,
                                         .round = work.round,
                                         .lease = work.lease,
                                         .reason = "too large"});
    answer a = coordinator_ask(c, &d[0], "POST", "/v1/decline", "", body, w.len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
    assert_int_equal(t->declined.count, 1);
    coordinator_commit(c);
    revoke(c, &d[0]);
    coordinator_commit(c);
    assert_int_equal(t->declined.count, 0);
    coordinator_crash(c);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->declined.count, 0);
}

static void an_unknown_key_is_nobodys(void **state) {
    coordinator *c = *state;
    const test_device stranger = {.fingerprint = {7}};
    fedserver_device *device = NULL;
    fed_error err = {0};
    (void)coordinator_enrol(c);
    assert_fed_ok_err(
        fedserver_device_fetch(&c->server->rounds, stranger.fingerprint, &device, &err));
    assert_null(device);
    answer a = coordinator_ask(c, &stranger, "GET", "/v1/model", "", NULL, 0);
    assert_string_equal(a.error, "device_unknown");
    answer_free(&a);
}

static int64_t stored_seen_ms(const coordinator *c, const test_device *d) {
    fed_error err = {0};
    fedserver_device row = {0};
    assert_fed_ok_err(c->server->store->device_find(c->server->db, d->fingerprint, &row, &err));
    return row.seen_ms;
}

static void when_a_device_was_seen_is_written_within_a_minute(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    crowd_of(c, d, ", \"tag\": \"nobody's\"");
    coordinator_wait(c, 0);
    for (size_t k = 0; k < CROWD; k++) {
        assert_int_equal(device_ask_work(c, &d[k]).action, FED_ACTION_WAIT);
    }
    const int64_t seen_ms = c->now_ms;
    for (size_t k = 0; k < CROWD; k++) {
        assert_int_equal(stored_seen_ms(c, &d[k]), seen_ms);
    }
    coordinator_wait(c, 30000);
    assert_int_equal(device_ask_work(c, &d[1]).action, FED_ACTION_WAIT);
    coordinator_wait(c, 29000);
    assert_int_equal(stored_seen_ms(c, &d[1]), seen_ms);
    coordinator_wait(c, 1000);
    assert_int_equal(stored_seen_ms(c, &d[0]), seen_ms);
    assert_int_equal(stored_seen_ms(c, &d[1]), seen_ms + 30000);
    c->now_ms = seen_ms + FEDSERVER_PACE_LATELY_MS;
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_WAIT);
    assert_int_equal(device_ask_work(c, &d[1]).action, FED_ACTION_WAIT);
    assert_int_equal(stored_seen_ms(c, &d[0]), c->now_ms);
    assert_int_equal(stored_seen_ms(c, &d[1]), seen_ms + 30000);
}

static void many_seen(coordinator *c, uint64_t first, uint64_t count) {
    fed_error err = {0};
    for (uint64_t k = first; k < first + count; k++) {
        fedserver_device row = {.enrolled_ms = 1, .expires_ms = INT64_MAX}, *device = NULL;
        fed_sha256(&k, sizeof k, row.fingerprint);
        assert_fed_ok_err(c->server->store->device_add(c->server->db, &row, &err));
        assert_fed_ok_err(fedserver_device_keep(&c->server->rounds, &row, &device, &err));
        assert_true(fedserver_device_seen(&c->server->rounds, device, NULL, c->now_ms));
    }
}

static size_t unwritten(const coordinator *c) {
    size_t count = 0;
    for (size_t k = 0; k < in_memory(c); k++) {
        count += fedserver_devices_at(&c->server->rounds.devices, k)->unsaved;
    }
    return count;
}

static void rows_of_many_devices_are_written_a_part_at_a_time(void **state) {
    coordinator *c = *state;
    enum { MANY = 600, AT_ONCE = 256 };
    coordinator_wait(c, 0);
    many_seen(c, 0, MANY);
    coordinator_wait(c, 60000);
    assert_int_equal(unwritten(c), MANY - AT_ONCE);
    coordinator_wait(c, 1);
    assert_int_equal(unwritten(c), MANY - 2 * AT_ONCE);
    coordinator_wait(c, 1);
    assert_int_equal(unwritten(c), 0);
    many_seen(c, MANY, 5);
    coordinator_wait(c, 59000);
    assert_int_equal(unwritten(c), 5);
    coordinator_wait(c, 1000);
    assert_int_equal(unwritten(c), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_start_reads_the_devices_with_a_lease_and_no_other),
        WITH_COORDINATOR(a_device_that_was_revoked_before_it_came_is_refused),
        WITH_COORDINATOR(a_revoked_devices_lease_frees_its_slot_also_after_a_start),
        WITH_COORDINATOR(what_a_revoked_device_declined_is_forgotten),
        WITH_COORDINATOR(an_unknown_key_is_nobodys),
        WITH_COORDINATOR(rows_of_many_devices_are_written_a_part_at_a_time),
        WITH_COORDINATOR(when_a_device_was_seen_is_written_within_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
