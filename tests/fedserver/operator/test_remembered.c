/* What a coordinator keeps in memory only is handed to the next process unchanged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fedserver/remembered.h"

enum { CROWD = 300, SLOTS = 3 };

/* Let the devices check in, beginning with the one that was enrolled last. So the last SLOTS
 * devices get the leases. */
static void gather(coordinator *c, test_device d[CROWD]) {
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"cohort\": 3, \"rounds\": 9, \"deadline_s\": 3600}");
    for (size_t k = 0; k < CROWD; k++) {
        d[k] = coordinator_enrol(c);
    }
    for (size_t k = CROWD; k-- > 0;) {
        const fed_assignment work = device_ask_work(c, &d[k]);
        assert_int_equal(work.action, k + SLOTS >= CROWD ? FED_ACTION_TRAIN : FED_ACTION_WAIT);
        coordinator_wait(c, 1);
    }
    /* Every other waiting device asks again. So the order of check-ins is not the reverse of the
     * order of enrolment. */
    for (size_t k = 0; k < CROWD - SLOTS; k += 2) {
        assert_int_equal(device_ask_work(c, &d[k]).reason, FED_WAIT_FULL);
        coordinator_wait(c, 1);
    }
}

static void assert_same(const coordinator *c, const fed_writer *before) {
    fed_writer after;
    fed_writer_growing(&after);
    assert_fed_ok(fedserver_remembered_write(c->server, &after));
    assert_int_equal(after.len, before->len);
    assert_memory_equal(after.data, before->data, after.len);
    fed_writer_free(&after);
}

static void assert_leases_are_of_devices_in_memory(const coordinator *c) {
    const fedserver_training *t = fedserver_rounds_front(&c->server->rounds);
    assert_int_equal(t->leases.count, SLOTS);
    for (size_t k = 0; k < t->leases.count; k++) {
        const fedserver_device *device = t->leases.items[k].device;
        assert_ptr_equal(fedserver_devices_find(&c->server->rounds.devices, device->fingerprint),
                         device);
    }
}

static void devices_come_back_in_their_places(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    fed_writer bytes;
    fed_reader r;
    fed_error err = {0};
    gather(c, d);
    coordinator_commit(c);
    fed_writer_growing(&bytes);
    assert_fed_ok(fedserver_remembered_write(c->server, &bytes));
    coordinator_crash(c);
    assert_int_equal(c->server->rounds.devices.count, SLOTS);
    fed_reader_init(&r, bytes.data, bytes.len);
    assert_fed_ok_err(fedserver_remembered_read(c->server, &r, &err));
    assert_fed_ok(fed_reader_end(&r));
    assert_int_equal(c->server->rounds.devices.count, CROWD);
    for (size_t k = 0; k < CROWD; k++) {
        assert_ptr_equal(fedserver_devices_at(&c->server->rounds.devices, k),
                         coordinator_device(c, &d[CROWD - 1 - k]));
    }
    assert_same(c, &bytes);
    assert_leases_are_of_devices_in_memory(c);
    fed_writer_free(&bytes);
}

static void bytes_of_another_coordinator_are_refused(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    fed_writer bytes;
    fed_reader r;
    fed_error err = {0};
    gather(c, d);
    fed_writer_growing(&bytes);
    assert_fed_ok(fedserver_remembered_write(c->server, &bytes));
    coordinator_teardown(c);
    coordinator_setup(c);
    fed_reader_init(&r, bytes.data, bytes.len);
    assert_fed_status(fedserver_remembered_read(c->server, &r, &err), FED_EFORMAT);
    fed_writer_free(&bytes);
}

static void bytes_without_a_device_in_memory_are_refused(void **state) {
    coordinator *c = *state;
    test_device d[CROWD];
    fed_writer bytes;
    fed_reader r;
    fed_error err = {0};
    gather(c, d);
    fed_writer_growing(&bytes);
    assert_fed_ok(fedserver_remembered_write(c->server, &bytes));
    const test_device late = coordinator_enrol(c);
    assert_int_equal(device_ask_work(c, &late).reason, FED_WAIT_FULL);
    assert_int_equal(c->server->rounds.devices.count, CROWD + 1);
    fed_reader_init(&r, bytes.data, bytes.len);
    assert_fed_status(fedserver_remembered_read(c->server, &r, &err), FED_EFORMAT);
    assert_int_equal(c->server->rounds.devices.count, CROWD + 1);
    fed_writer_free(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(devices_come_back_in_their_places),
        WITH_COORDINATOR(bytes_of_another_coordinator_are_refused),
        WITH_COORDINATOR(bytes_without_a_device_in_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
