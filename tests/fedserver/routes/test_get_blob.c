/* Downloads that caches may keep. The coordinator tells devices the names of objects, and the
 * front sends an object to anybody who has its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/sealed.h"
#include "fedserver/operator.h"

enum { SIZE = 784 * 10 + 10 };

#define MODEL "\"model\": \"input 784 | dense 10\", \"codec_up\": \"float32\", "

static const char task[] = "{" MODEL "\"codec_down\": \"float32\", \"rounds\": 9, \"cohort\": 1, "
                           "\"downloads\": \"https://cache.example/fed/\"}";
static const char plain_task[] = "{" MODEL "\"codec_down\": \"float32\", \"rounds\": 9, "
                                 "\"cohort\": 1}";
static const char small_task[] = "{\"model\": \"input 2 | dense 2\", \"rounds\": 3, \"cohort\": 1, "
                                 "\"downloads\": \"https://cache.example/fed/\"}";

static answer get_model(coordinator *c, const test_device *d, const char *have, unsigned want,
                        unsigned can) {
    char query[100];
    snprintf(query, sizeof query, "task=1&have=%s&want=%u&can=%u", have, want, can);
    answer a = coordinator_ask(c, d, "GET", "/v1/model", query, NULL, 0);
    assert_int_equal(a.status, 200);
    return a;
}

static answer get_blob(coordinator *c, const fed_address *address, const char *range) {
    char path[100] = FED_PATH_BLOB;
    fed_sealed_name(address->key, path + strlen(FED_PATH_BLOB));
    c->range = range;
    answer a = coordinator_ask(c, NULL, "GET", path, "", NULL, 0);
    c->range = NULL;
    return a;
}

/* Read the addresses that the answer names. Returns their number, or 0 if the answer has the
 * bytes themselves. */
static size_t addresses_of(const answer *a, fed_address *addresses) {
    fed_reader r;
    fed_part part;
    size_t count = 0;
    fed_reader_init(&r, a->body, a->len);
    assert_fed_ok(fed_part_read(&r, &part));
    if (part.kind != FED_PART_CACHE) {
        return 0;
    }
    assert_fed_ok(fed_reader_end(&r));
    fed_reader_init(&r, part.envelope, (size_t)part.envelope_len);
    while (fed_reader_left(&r) > 0) {
        assert_true(count < FED_ADDRESSES);
        assert_fed_ok(fed_address_read(&r, &addresses[count++]));
    }
    return count;
}

static size_t assert_same_bytes(coordinator *c, const test_device *d, const char *have,
                                unsigned want) {
    fed_address addresses[FED_ADDRESSES];
    answer plain = get_model(c, d, have, want, FED_CAN_PATCH);
    answer named = get_model(c, d, have, want, FED_CAN_PATCH | FED_CAN_URL);
    const size_t count = addresses_of(&named, addresses);
    size_t at = 0;
    assert_true(count > 0);
    for (size_t k = 0; k < count; k++) {
        answer blob = get_blob(c, &addresses[k], NULL);
        assert_int_equal(blob.status, 200);
        assert_int_equal(blob.len, addresses[k].len);
        assert_fed_ok(fed_sealed_open(addresses[k].key, blob.body, blob.len));
        assert_true(at + blob.len <= plain.len);
        assert_memory_equal(blob.body, plain.body + at, blob.len);
        at += blob.len;
        answer_free(&blob);
    }
    assert_int_equal(at, plain.len);
    answer_free(&plain);
    answer_free(&named);
    return count;
}

static void advance(coordinator *c, const test_device *d, unsigned rounds) {
    float *values = malloc(SIZE * sizeof *values);
    assert_non_null(values);
    for (unsigned k = 0; k < rounds; k++) {
        fed_assignment work = device_ask_work(c, d);
        for (unsigned i = 0; i < SIZE; i++) {
            values[i] = 1.0f / (float)(1 + (i * 7 + work.round) % 13);
        }
        assert_int_equal(device_upload(c, d, &work, values, 1, NULL), 200);
    }
    free(values);
}

static void snapshots_and_deltas_are_named(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    assert_int_equal(assert_same_bytes(c, &d, "none", 0), 1);
    advance(c, &d, 1);
    assert_int_equal(assert_same_bytes(c, &d, "0", 1), 1);
    assert_int_equal(assert_same_bytes(c, &d, "none", 1), 1);
    assert_int_equal(c->server->rounds.counters.cache_downloads, 3);
    assert_int_equal(c->server->blobs, 3);
}

/* Devices with versions 1 and 3 both need the run of deltas from version 4 to 8. */
static void devices_that_lack_other_versions_share_runs(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, "{" MODEL "\"codec_down\": \"3lc:s=1\", \"rounds\": 9, \"cohort\": 1, "
                        "\"downloads\": \"https://cache.example/fed/\"}");
    advance(c, &d, 8);
    fed_address one[FED_ADDRESSES], three[FED_ADDRESSES];
    answer from_one = get_model(c, &d, "1", 8, FED_CAN_URL);
    answer from_three = get_model(c, &d, "3", 8, FED_CAN_URL);
    if (addresses_of(&from_one, one) == 3) {                   /* 1-2, 2-4 and 4-8 */
        assert_int_equal(addresses_of(&from_three, three), 2); /* 3-4 and 4-8 */
        assert_memory_equal(&one[2], &three[1], sizeof one[2]);
    } else {
        fail_msg("a chain of 7 deltas has %zu runs", addresses_of(&from_one, one));
    }
    assert_int_equal(assert_same_bytes(c, &d, "1", 8), 3);
    answer_free(&from_one);
    answer_free(&from_three);
}

static void only_who_can_is_named_a_cache(void **state) {
    coordinator *c = *state;
    fed_address addresses[FED_ADDRESSES];
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    for (unsigned can = 0; can < 4; can++) {
        answer a = get_model(c, &d, "none", 0, can);
        assert_int_equal(addresses_of(&a, addresses), 0);
        answer_free(&a);
    }
}

static void a_task_without_a_cache_names_none(void **state) {
    coordinator *c = *state;
    fed_address addresses[FED_ADDRESSES];
    test_device d = coordinator_enrol(c);
    coordinator_task(c, plain_task);
    answer a = get_model(c, &d, "none", 0, FED_CAN_URL);
    assert_int_equal(addresses_of(&a, addresses), 0);
    answer_free(&a);
}

static void what_is_shorter_than_a_request_is_sent_at_once(void **state) {
    coordinator *c = *state;
    fed_address addresses[FED_ADDRESSES];
    test_device d = coordinator_enrol(c);
    coordinator_task(c, small_task);
    answer a = get_model(c, &d, "none", 0, FED_CAN_URL);
    assert_int_equal(addresses_of(&a, addresses), 0);
    answer_free(&a);
}

static fed_address name_one(coordinator *c, const test_device *d) {
    fed_address addresses[FED_ADDRESSES];
    answer a = get_model(c, d, "none", 0, FED_CAN_URL);
    assert_int_equal(addresses_of(&a, addresses), 1);
    answer_free(&a);
    return addresses[0];
}

static void a_cache_can_go_on_at_any_byte(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    const fed_address address = name_one(c, &d);
    answer whole = get_blob(c, &address, NULL);
    assert_int_equal(strlen(whole.etag), 18);
    for (size_t at = 1; at < whole.len; at += 997) {
        char range[40];
        snprintf(range, sizeof range, "bytes=%zu-", at);
        answer rest = get_blob(c, &address, range);
        assert_int_equal(rest.status, 206);
        assert_string_equal(rest.etag, whole.etag);
        assert_int_equal(rest.len, whole.len - at);
        assert_memory_equal(rest.body, whole.body + at, rest.len);
        answer_free(&rest);
    }
    answer_free(&whole);
}

static void a_restart_changes_no_address(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    const fed_address before = name_one(c, &d);
    coordinator_restart(c);
    const fed_address after = name_one(c, &d);
    assert_memory_equal(&before, &after, sizeof before);
    answer blob = get_blob(c, &after, NULL);
    answer_expect(&blob, 200, "");
}

static void nothing_else_is_there(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    fed_address address = name_one(c, &d);
    address.key[0] ^= 1;
    answer other = get_blob(c, &address, NULL);
    answer_expect(&other, 404, "blob_gone");
    static const char *const paths[] = {"/v1/blob/", "/v1/blob/../store.db", "/v1/blob/x/y"};
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(coordinator_status(c, NULL, "GET", paths[k], "", NULL, 0), 404);
    }
    answer listed = coordinator_ask(c, NULL, "GET", "/v1/blob", "", NULL, 0);
    answer_expect(&listed, 404, "not_found");
    assert_int_equal(coordinator_status(c, NULL, "POST", "/v1/blob/x", "", NULL, 0), 405);
}

static void strangers_from_elsewhere_may_ask(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    const fed_address address = name_one(c, &d);
    c->from_elsewhere = true;
    answer blob = get_blob(c, &address, NULL);
    answer_expect(&blob, 200, "");
}

static void a_cancelled_task_leaves_nothing(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    const fed_address address = name_one(c, &d);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_CANCEL, &err));
    coordinator_commit(c);
    coordinator_wait(c, 0);
    answer blob = get_blob(c, &address, NULL);
    answer_expect(&blob, 404, "blob_gone");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(snapshots_and_deltas_are_named),
        WITH_COORDINATOR(devices_that_lack_other_versions_share_runs),
        WITH_COORDINATOR(only_who_can_is_named_a_cache),
        WITH_COORDINATOR(a_task_without_a_cache_names_none),
        WITH_COORDINATOR(what_is_shorter_than_a_request_is_sent_at_once),
        WITH_COORDINATOR(a_cache_can_go_on_at_any_byte),
        WITH_COORDINATOR(a_restart_changes_no_address),
        WITH_COORDINATOR(nothing_else_is_there),
        WITH_COORDINATOR(strangers_from_elsewhere_may_ask),
        WITH_COORDINATOR(a_cancelled_task_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
