/* Model downloads that continue where they broke off. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fedcodec/envelope.h"

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 1}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

static answer get(coordinator *c, const test_device *d, const char *query, const char *range,
                  const char *if_range) {
    c->range = range;
    c->if_range = if_range;
    return coordinator_ask(c, d, "GET", "/v1/model", query, NULL, 0);
}

static void a_download_goes_on_at_any_byte(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    answer whole = get(c, &d, "task=1&have=none&want=0", NULL, NULL);
    assert_int_equal(whole.status, 200);
    assert_int_equal(strlen(whole.etag), 18);
    assert_string_equal(whole.content_range, "");
    for (size_t at = 0; at < whole.len; at++) {
        char range[40], wanted[72];
        snprintf(range, sizeof range, "bytes=%zu-", at);
        answer rest = get(c, &d, "task=1&have=none&want=0", range, whole.etag);
        assert_int_equal(rest.status, 206);
        assert_string_equal(rest.etag, whole.etag);
        snprintf(wanted, sizeof wanted, "bytes %zu-%zu/%zu", at, whole.len - 1, whole.len);
        assert_string_equal(rest.content_range, wanted);
        assert_int_equal(rest.len, whole.len - at);
        assert_memory_equal(rest.body, whole.body + at, rest.len);
        answer_free(&rest);
    }
    answer_free(&whole);
}

static void a_range_behind_the_end_is_refused_with_the_size(void **state) {
    coordinator *c = *state;
    char range[40], wanted[72];
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    answer whole = get(c, &d, "task=1&have=none&want=0", NULL, NULL);
    snprintf(range, sizeof range, "bytes=%zu-", whole.len);
    answer none = get(c, &d, "task=1&have=none&want=0", range, NULL);
    assert_int_equal(none.status, 416);
    assert_string_equal(none.error, "bad_range");
    snprintf(wanted, sizeof wanted, "bytes */%zu", whole.len);
    assert_string_equal(none.content_range, wanted);
    answer_free(&none);
    answer_free(&whole);
}

static void other_bytes_come_whole(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    answer first = get(c, &d, "task=1&have=none&want=0", NULL, NULL);
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    answer second = get(c, &d, "task=1&have=none&want=1", "bytes=5-", first.etag);
    assert_int_equal(second.status, 200);
    assert_string_not_equal(second.etag, first.etag);
    assert_int_equal(second.len, first.len);
    answer_free(&first);
    answer_free(&second);
}

static void a_slow_device_gets_the_end_of_a_version_that_is_no_longer_the_newest(void **state) {
    coordinator *c = *state;
    test_device slow = coordinator_enrol(c), fast = coordinator_enrol(c);
    coordinator_task(c, task);
    answer start = get(c, &slow, "task=1&have=none&want=0", "bytes=0-9", NULL);
    fed_assignment work = device_ask_work(c, &fast);
    assert_int_equal(device_upload(c, &fast, &work, ones, 1, NULL), 200);
    answer end = get(c, &slow, "task=1&have=none&want=0", "bytes=10-", start.etag);
    answer_expect(&end, 206, "");
    answer delta = get(c, &slow, "task=1&have=0&want=1", NULL, NULL);
    answer_expect(&delta, 200, "");
    answer future = get(c, &slow, "task=1&have=0&want=2", NULL, NULL);
    answer_expect(&future, 404, "model_gone");
    answer_free(&start);
}

static void a_restart_changes_no_tag(void **state) {
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    for (int k = 0; k < 2; k++) {
        fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    }
    static const char *const queries[] = {"task=1&have=none&want=2", "task=1&have=1&want=2"};
    for (size_t k = 0; k < 2; k++) {
        answer before = get(c, &d, queries[k], NULL, NULL);
        coordinator_restart(c);
        answer after = get(c, &d, queries[k], "bytes=3-", before.etag);
        assert_int_equal(after.status, 206);
        assert_string_equal(after.etag, before.etag);
        assert_memory_equal(after.body, before.body + 3, after.len);
        answer_free(&before);
        answer_free(&after);
    }
}

/* Returns whether the delta of the answer's round is packed by a second stage. */
static bool delta_is_packed(const answer *of) {
    fed_reader r;
    fed_part part;
    fed_reader_init(&r, of->body, of->len);
    assert_int_equal(of->status, 200);
    assert_fed_ok(fed_part_read(&r, &part));
    assert_int_equal(part.kind, FED_PART_DELTA);
    assert_int_equal(fed_reader_left(&r), 0);
    const size_t len = (size_t)part.envelope_len;
    return fedcodec_envelope_plain_len(part.envelope, len) > len;
}

/* The task's file names no codec_down, so devices of the first release, which read no stages, can
 * take part in it. */
static void only_who_says_that_it_reads_stages_gets_them(void **state) {
    enum { VALUES = 20 * 101 };
    static const char presets[] = "{\"model\": \"input 100 | dense 20\", \"codec_up\": \"float32\","
                                  " \"rounds\": 3, \"cohort\": 1}";
    coordinator *c = *state;
    test_device d = coordinator_enrol(c);
    coordinator_task(c, presets);
    float x[VALUES] = {1};
    fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(device_upload(c, &d, &work, x, 1, NULL), 200);
    answer first = get(c, &d, "task=1&have=0&want=1", NULL, NULL);
    answer patches = get(c, &d, "task=1&have=0&want=1&can=2", NULL, NULL);
    answer stages = get(c, &d, "task=1&have=0&want=1&can=1024", NULL, NULL);
    assert_false(delta_is_packed(&first));
    assert_string_equal(patches.etag, first.etag);
    assert_true(delta_is_packed(&stages));
    assert_true(stages.len < first.len);
    answer_free(&first);
    answer_free(&patches);
    answer_free(&stages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_download_goes_on_at_any_byte),
        WITH_COORDINATOR(a_range_behind_the_end_is_refused_with_the_size),
        WITH_COORDINATOR(other_bytes_come_whole),
        WITH_COORDINATOR(a_slow_device_gets_the_end_of_a_version_that_is_no_longer_the_newest),
        WITH_COORDINATOR(a_restart_changes_no_tag),
        WITH_COORDINATOR(only_who_says_that_it_reads_stages_gets_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
