/* Downloads of deltas and snapshots, and what happens if they differ from what was announced. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"
#include "fedclient/state/record.h"

static int setup(void **state) {
    return fed_device_setup(state, "3lc:s=1", 20);
}

static void plan(fed_device *device, fed_fake_fault fault, unsigned times) {
    device->fake.plan = (fed_fake_plan){
        .path = "/v1/model", .fault = fault, .status = 404, .error = "model_gone", .times = times};
}

static void assert_model_is(fed_device *device, const float *wanted, uint32_t wanted_version) {
    uint64_t task = 0;
    uint32_t version = 0;
    float *values = NULL;
    size_t count = 0;
    assert_fed_ok_err_of(
        device, fedclient_model(device->client, &task, &version, &values, &count, &device->err));
    assert_int_equal(version, wanted_version);
    assert_int_equal(count, device->fake.arch.layout.size);
    assert_memory_equal(values, wanted, count * sizeof *values);
    free(values);
}

static void move_on(fed_device *device, unsigned n) {
    fed_device other;
    fed_device_open(&other, "3lc:s=1", 20);
    other.fake.version = device->fake.version;
    memcpy(other.fake.model, device->fake.model,
           device->fake.arch.layout.size * sizeof *other.fake.model);
    for (unsigned k = 0; k < n; k++) {
        fedclient_event event;
        uint32_t v = device->fake.version;
        assert_fed_ok_err_of(&other, fed_device_step(&other, &event));
        fed_write_bytes(&device->fake.delta[v], other.fake.delta[v].data, other.fake.delta[v].len);
        device->fake.version++;
        device->fake.lease++;
    }
    memcpy(device->fake.model, other.fake.model,
           device->fake.arch.layout.size * sizeof *other.fake.model);
    fed_device_close(&other);
}

FED_TEST_WITH(the_first_download_is_a_snapshot, fed_device *device) {
    float *before = malloc(device->fake.arch.layout.size * sizeof *before);
    assert_non_null(before);
    device->fake.model[3] = -0.0f;
    memcpy(before, device->fake.model, device->fake.arch.layout.size * sizeof *before);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.downloads, 1);
    assert_model_is(device, before, 0);
    free(before);
}

FED_TEST_WITH(a_version_that_is_held_is_not_downloaded_again, fed_device *device) {
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_fake_refuse(&device->fake, "/v1/update", 409, "round_closed");
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_REFUSED);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.downloads, 2);
}

FED_TEST_WITH(versions_that_were_missed_come_as_deltas, fed_device *device) {
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    move_on(device, 5);
    device->fake.rounds = 6;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_FINISHED);
    assert_non_null(strstr(device->fake.last_url, "task=7&have=0&want=6"));
    assert_model_is(device, device->fake.model, 6);
}

FED_TEST_WITH(a_model_that_is_gone_is_fetched_whole, fed_device *device) {
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    device->fake.gone = true;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.downloads, 3);
}

FED_TEST_WITH(deltas_that_are_broken_are_replaced_by_a_snapshot, fed_device *device) {
    static const fed_fake_fault faults[] = {FED_FAKE_GARBAGE, FED_FAKE_TRUNCATED};
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    for (size_t k = 0; k < 2; k++) {
        plan(device, faults[k], 1);
        assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
        assert_string_equal(device->err.text, "");
        assert_non_null(strstr(device->fake.last_url, "/v1/update"));
    }
    assert_int_equal(device->fake.downloads, 1 + 2 * 2);
    fed_device_check(device, 0);
}

FED_TEST_WITH(a_model_that_went_astray_is_fetched_whole, fed_device *device) {
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    device->fake.model[0] += 1; /* now the deltas lead to another model */
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.downloads, 3);
}

FED_TEST_WITH(a_snapshot_that_is_not_as_announced_is_for_a_person, fed_device *device) {
    device->fake.wrong_digest = true;
    fed_device_fail(device, FED_EFORMAT);
    assert_non_null(strstr(device->err.text, "digest"));
    assert_int_equal(device->calls, 0);
    device->fake.wrong_digest = false;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

FED_TEST_WITH(a_snapshot_that_is_cut_off_is_never_stored, fed_device *device) {
    plan(device, FED_FAKE_TRUNCATED, 1);
    fed_device_fail(device, FED_EFORMAT);
    assert_int_equal(device->flash.puts, 0);
}

FED_TEST_WITH(a_model_that_is_gone_altogether_means_to_ask_again, fed_device *device) {
    plan(device, FED_FAKE_STATUS, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_non_null(strstr(device->err.text, "model_gone"));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

FED_TEST_WITH(a_broken_line_is_tried_again, fed_device *device) {
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    plan(device, FED_FAKE_LOST_ANSWER, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_int_equal(device->fake.downloads, 2);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
}

/** Use pieces so small that any part of a download is stored as it comes. */
static void use_small_pieces(fed_device *device) {
    device->options.piece_bytes = 16;
    fed_device_restart(device);
}

static bool stored(fed_device *device) {
    fedclient_download_head head;
    fedclient_record record;
    bool found = fedclient_download_load(&device->flash.inner, 0, &head, &record, NULL) == FED_OK;
    fedclient_record_free(&record);
    return found;
}

/** Break the next download in the middle of its first piece; then power fails. */
static void break_download(fed_device *device) {
    plan(device, FED_FAKE_MIDWAY, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_true(stored(device));
    fed_device_restart(device);
}

FED_TEST_WITH(a_download_goes_on_where_the_line_broke, fed_device *device) {
    use_small_pieces(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    uint64_t calm = device->fake.sent_bytes;
    fed_device other;
    fed_device_open(&other, "3lc:s=1", 20);
    use_small_pieces(&other);
    for (int k = 0; k < 4; k++) {
        break_download(&other);
    }
    assert_int_equal(fed_device_event(&other).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(other.fake.sent_bytes, calm);
    assert_false(stored(&other));
    fed_device_check(&other, 0);
    fed_device_close(&other);
}

FED_TEST_WITH(a_request_that_brings_nothing_leaves_what_had_come_before, fed_device *device) {
    use_small_pieces(device);
    break_download(device);
    const uint64_t half = device->fake.sent_bytes;
    plan(device, FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_true(stored(device));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    const uint64_t whole = device->fake.sent_bytes;
    fed_device other;
    fed_device_open(&other, "3lc:s=1", 20);
    assert_int_equal(fed_device_event(&other).outcome, FEDCLIENT_COUNTED);
    assert_true(half > 0);
    assert_int_equal(whole, other.fake.sent_bytes);
    fed_device_close(&other);
}

FED_TEST_WITH(rounds_that_go_on_do_not_make_a_slow_device_start_anew, fed_device *device) {
    use_small_pieces(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    move_on(device, 5);
    uint64_t before = device->fake.sent_bytes;
    break_download(device);
    move_on(device, 3);
    device->fake.rounds = 9;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_FINISHED);
    assert_non_null(strstr(device->fake.last_url, "task=7&have=6&want=9"));
    assert_model_is(device, device->fake.model, 9);
    uint64_t deltas = 0;
    for (uint32_t v = 0; v < 9; v++) {
        fed_writer part;
        fed_writer_growing(&part);
        fed_part_write(&part, &(fed_part){.envelope = device->fake.delta[v].data,
                                          .envelope_len = device->fake.delta[v].len});
        deltas += part.len;
        fed_writer_free(&part);
    }
    assert_int_equal(device->fake.sent_bytes - before, deltas);
    assert_false(stored(device));
}

FED_TEST_WITH(a_download_that_is_gone_is_begun_anew, fed_device *device) {
    use_small_pieces(device);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    break_download(device);
    device->fake.gone = true;
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_false(stored(device));
    fed_device_check(device, 0);
}

FED_TEST_WITH(a_download_of_other_bytes_is_begun_anew, fed_device *device) {
    const fedclient_platform *store = &device->flash.inner;
    use_small_pieces(device);
    break_download(device);
    fedclient_download_head head;
    fedclient_record record;
    assert_fed_ok(fedclient_download_load(store, 0, &head, &record, &device->err));
    head.tag ^= 1;
    assert_fed_ok(fedclient_download_store(store, 0, &head, &record, &device->err));
    fedclient_record_free(&record);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.downloads, 2);
    assert_false(stored(device));
}

FED_TEST_WITH(a_download_of_a_task_that_is_over_is_forgotten, fed_device *device) {
    use_small_pieces(device);
    break_download(device);
    fed_fake_new_task(&device->fake, "input 7 | dense 3");
    fedclient_event event;
    assert_fed_ok_err_of(device, fedclient_step(device->client, &event, &device->err));
    assert_int_equal(event.outcome, FEDCLIENT_COUNTED);
    assert_false(stored(device));
}

FED_TEST_WITH(a_damaged_piece_is_fetched_again, fed_device *device) {
    const fedclient_platform *store = &device->flash.inner;
    uint8_t *data = NULL;
    size_t len = 0;
    use_small_pieces(device);
    break_download(device);
    break_download(device);
    assert_fed_ok(store->get(store->user, "download1", &data, &len, NULL));
    data[len - 1] ^= 1;
    assert_fed_ok(store->put(store->user, "download1", data, len, NULL));
    free(data);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(device, 0);
}

FED_TEST_WITH(a_store_without_room_for_pieces_costs_only_traffic, fed_device *device) {
    use_small_pieces(device);
    device->flash.full = "download";
    plan(device, FED_FAKE_MIDWAY, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_false(stored(device));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(device, 0);
}

FED_TEST_WITH(a_coordinator_without_tags_is_asked_for_everything_again, fed_device *device) {
    use_small_pieces(device);
    device->fake.rangeless = true;
    plan(device, FED_FAKE_MIDWAY, 1);
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_RETRY);
    assert_false(stored(device));
    assert_int_equal(fed_device_event(device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(device->fake.downloads, 2);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
