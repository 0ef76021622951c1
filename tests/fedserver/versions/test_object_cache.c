/* Encrypted downloads as files for caches: their names, and the limits of disk space and time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fedserver/versions/object_cache.h"

enum { LIMIT = 64 << 20, LONG = 6 << 20 };

typedef struct fixture {
    char directory[300];
    fedserver_object_cache object_cache;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    fed_test_tmpdir(f->directory, sizeof f->directory);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    fedserver_object_cache_free(&f->object_cache, f->directory);
    fed_test_rmdir(f->directory);
    free(f);
    return 0;
}

static fedserver_object_request request_of(uint64_t task, uint8_t first, size_t len) {
    fed_writer w;
    fed_writer_growing(&w);
    for (size_t k = 0; k < len; k++) {
        fed_write_u8(&w, (uint8_t)(first + k));
    }
    const uint64_t tag = fed_digest_bytes(w.data, w.len);
    return (fedserver_object_request){
        .task = task, .limit = LIMIT, .run = {.blob = fedserver_blob_new(&w), .tag = tag}};
}

static fed_status get(fixture *f, const fedserver_object_request *request, int64_t now_ms,
                      fed_address *address) {
    fed_error err = {0};
    const fed_status status =
        fedserver_object_cache_get(&f->object_cache, f->directory, request, now_ms, address, &err);
    assert_true(status == FED_OK || err.text[0] != '\0');
    return status;
}

/* Encrypt ("seal") a run into its file, and drop the run. */
static fed_address seal(fixture *f, uint64_t task, uint8_t first, size_t len, int64_t now_ms) {
    fed_address address;
    const fedserver_object_request request = request_of(task, first, len);
    assert_fed_ok(get(f, &request, now_ms, &address));
    fedserver_blob_free(request.run.blob);
    return address;
}

static fed_status find(const fixture *f, const fed_address *address, fedserver_blob **blob) {
    char name[FED_SEALED_NAME];
    fed_error err = {0};
    fed_sealed_name(address->key, name);
    return fedserver_object_cache_find(f->directory, name, blob, &err);
}

static bool is_there(const fixture *f, const fed_address *address) {
    fedserver_blob *blob = NULL;
    const bool there = find(f, address, &blob) == FED_OK;
    fedserver_blob_free(blob);
    return there;
}

static void assert_opens(const fixture *f, const fed_address *address, uint8_t first, size_t len) {
    fedserver_blob *blob = NULL;
    size_t found = 0;
    assert_fed_ok(find(f, address, &blob));
    const uint8_t *data = fedserver_blob_data(blob, &found);
    assert_int_equal(found, len);
    uint8_t *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, data, len);
    assert_fed_ok(fed_sealed_open(address->key, copy, len));
    for (size_t k = 0; k < len; k++) {
        assert_int_equal(copy[k], (uint8_t)(first + k));
    }
    free(copy);
    fedserver_blob_free(blob);
}

static void a_run_is_found_by_its_name_and_opens_with_its_key(void **state) {
    fixture *f = *state;
    const fed_address address = seal(f, 1, 7, 100000, 0);
    assert_int_equal(address.len, 100000);
    assert_opens(f, &address, 7, 100000);
}

static void what_is_sealed_again_has_the_same_address(void **state) {
    fixture *f = *state;
    const fed_address first = seal(f, 1, 7, 5000, 0), again = seal(f, 1, 7, 5000, 1);
    assert_memory_equal(&first, &again, sizeof first);
    fedserver_object_cache_free(&f->object_cache, f->directory);
    f->object_cache = (fedserver_object_cache){0};
    assert_false(is_there(f, &first));
    const fed_address later = seal(f, 1, 7, 5000, 2);
    assert_memory_equal(&first, &later, sizeof first);
    assert_opens(f, &later, 7, 5000);
}

static void a_crash_leaves_nothing_behind_for_long(void **state) {
    fixture *f = *state;
    const fed_address old = seal(f, 1, 1, 5000, 0);
    f->object_cache = (fedserver_object_cache){0}; /* as in a process that died */
    assert_true(is_there(f, &old));
    const fed_address fresh = seal(f, 1, 2, 5000, 0);
    assert_false(is_there(f, &old));
    assert_true(is_there(f, &fresh));
}

static void a_long_run_is_sealed_by_many_requests(void **state) {
    fixture *f = *state;
    const fedserver_object_request request = request_of(1, 3, LONG);
    fed_address address;
    unsigned requests = 1;
    while (get(f, &request, 1000 * requests, &address) == FED_EBUSY) {
        assert_true(requests++ < 10);
        const fed_address between = seal(f, 1, (uint8_t)requests, 5000, 1000 * requests);
        assert_true(is_there(f, &between));
    }
    assert_int_equal(requests, 7);
    assert_opens(f, &address, 3, LONG);
    fedserver_blob_free(request.run.blob);
}

/* Ask for ten runs of 1 MB, whose bytes depend on k. Returns how many runs were sealed. */
static unsigned seal_ten(fixture *f, uint8_t k, int64_t now_ms) {
    fed_address address;
    unsigned sealed = 0;
    for (uint8_t n = 0; n < 10; n++) {
        const fedserver_object_request request = request_of(1, (uint8_t)(10 * k + n), 1 << 20);
        sealed += get(f, &request, now_ms, &address) == FED_OK;
        fedserver_blob_free(request.run.blob);
    }
    return sealed;
}

static void what_is_sealed_in_a_moment_is_bounded(void **state) {
    fixture *f = *state;
    assert_int_equal(seal_ten(f, 0, 5000), FEDSERVER_OBJECT_CACHE_STEP / (2 << 20));
    assert_int_equal(seal_ten(f, 1, 5001), 0);
    assert_int_equal(seal_ten(f, 2, 5000 + (2 << 20) / FEDSERVER_OBJECT_CACHE_RATE), 1);
    assert_int_equal(seal_ten(f, 3, 999999), FEDSERVER_OBJECT_CACHE_STEP / (2 << 20));
    assert_int_equal(seal_ten(f, 4, 0), 0);
}

static void a_task_has_no_more_bytes_than_its_limit(void **state) {
    fixture *f = *state;
    fed_address address[5];
    const fed_address other = seal(f, 2, 50, 4000, 0);
    for (uint8_t k = 0; k < 5; k++) {
        fedserver_object_request request = request_of(1, k, 4000);
        request.limit = 12000;
        assert_fed_ok(get(f, &request, 10 + k, &address[k]));
        fedserver_blob_free(request.run.blob);
    }
    for (unsigned k = 0; k < 5; k++) {
        assert_int_equal(is_there(f, &address[k]), k >= 2);
    }
    assert_true(is_there(f, &other));
    fedserver_object_request large = request_of(1, 9, 12001);
    large.limit = 12000;
    assert_fed_status(get(f, &large, 0, &address[0]), FED_ERANGE);
    fedserver_blob_free(large.run.blob);
}

static void the_number_of_files_is_bounded(void **state) {
    fixture *f = *state;
    fed_address first = {.len = 0}, last = {.len = 0};
    for (int k = 0; k < FEDSERVER_OBJECT_CACHE + 50; k++) {
        last = seal(f, 1 + (uint64_t)k % 3, (uint8_t)k, 4097 + (size_t)k, k);
        first = k == 0 ? last : first;
    }
    assert_false(is_there(f, &first));
    assert_true(is_there(f, &last));
}

static void what_nobody_asks_for_is_deleted(void **state) {
    fixture *f = *state;
    const fed_address old = seal(f, 1, 1, 5000, 0), used = seal(f, 1, 2, 5000, 0);
    (void)seal(f, 1, 2, 5000, FEDSERVER_SNAPSHOT_MS - 1);
    (void)seal(f, 1, 3, 5000, FEDSERVER_SNAPSHOT_MS);
    assert_false(is_there(f, &old));
    assert_true(is_there(f, &used));
}

static void
the_bytes_of_a_task_are_limited_together_and_one_task_does_not_push_out_another(void **state) {
    fixture *f = *state;
    fed_address kept[3], last;
    const fed_address other = seal(f, 2, 9, 5000, 0);
    for (uint8_t k = 0; k < 3; k++) {
        kept[k] = seal(f, 1, k, 5000, k);
    }
    fedserver_object_request request = request_of(1, 7, 5000);
    request.limit = 15000;
    assert_fed_ok(get(f, &request, 5, &last));
    fedserver_blob_free(request.run.blob);
    assert_true(is_there(f, &last));
    assert_false(is_there(f, &kept[0])); /* the least recently asked for */
    assert_true(is_there(f, &kept[1]) && is_there(f, &kept[2]));
    assert_true(is_there(f, &other));
}

static void what_is_being_sealed_ends_with_its_task(void **state) {
    fixture *f = *state;
    fed_address address;
    const fedserver_object_request gone = request_of(1, 1, LONG), next = request_of(2, 2, LONG);
    assert_fed_status(get(f, &gone, 0, &address), FED_EBUSY);
    assert_non_null(f->object_cache.sealing.request.run.blob);
    fedserver_object_cache_drop(&f->object_cache, f->directory, 2);
    assert_non_null(f->object_cache.sealing.request.run.blob);
    fedserver_object_cache_drop(&f->object_cache, f->directory, 1);
    assert_null(f->object_cache.sealing.request.run.blob);
    int64_t now_ms = 60000;
    fed_status status = get(f, &next, now_ms, &address);
    for (int k = 0; k < 100 && status == FED_EBUSY; k++) {
        now_ms += 60000;
        status = get(f, &next, now_ms, &address);
    }
    assert_fed_ok(status);
    assert_true(is_there(f, &address));
    assert_int_equal(address.len, LONG);
    fedserver_blob_free(gone.run.blob);
    fedserver_blob_free(next.run.blob);
}

static void tasks_share_the_file_of_equal_bytes(void **state) {
    fixture *f = *state;
    const fed_address one = seal(f, 1, 1, 5000, 0), two = seal(f, 2, 1, 5000, 0),
                      alone = seal(f, 1, 2, 5000, 0);
    assert_memory_equal(&one, &two, sizeof one);
    fedserver_object_cache_drop(&f->object_cache, f->directory, 1);
    assert_true(is_there(f, &two));
    assert_false(is_there(f, &alone));
    fedserver_object_cache_drop(&f->object_cache, f->directory, 2);
    assert_false(is_there(f, &two));
}

static void only_names_find_files(void **state) {
    fixture *f = *state;
    fedserver_blob *blob = NULL;
    fed_error err = {0};
    (void)seal(f, 1, 1, 5000, 0);
    fed_test_put(f->directory, "secret", "secret", 6);
    static const char *const names[] = {
        "",
        "../secret",
        "short",
        "./../../../../../../../../../../../../../../../../../etc/passwd",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "00000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000000000000000000000000000000000000000000G"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        assert_fed_status(fedserver_object_cache_find(f->directory, names[k], &blob, &err),
                          FED_ENOTFOUND);
    }
}

static void a_disk_that_fails_is_left_alone_for_a_while(void **state) {
    fixture *f = *state;
    char folder[400];
    fed_address address;
    snprintf(folder, sizeof folder, "%s/%s", f->directory, FEDSERVER_OBJECT_CACHE_FOLDER);
    fed_test_put(f->directory, FEDSERVER_OBJECT_CACHE_FOLDER, "in the way",
                 10); /* a file has the name of the folder */
    const fedserver_object_request request = request_of(1, 1, 5000);
    const fed_status failed = get(f, &request, 1, &address);
    assert_true(failed != FED_OK && failed != FED_EBUSY);
    assert_fed_status(get(f, &request, 2, &address), FED_EBUSY);
    assert_int_equal(unlink(folder), 0);
    assert_fed_ok(get(f, &request, 1 + FEDSERVER_OBJECT_CACHE_REST_MS, &address));
    fedserver_blob_free(request.run.blob);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(a_run_is_found_by_its_name_and_opens_with_its_key),
        test(what_is_sealed_again_has_the_same_address),
        test(a_crash_leaves_nothing_behind_for_long),
        test(a_long_run_is_sealed_by_many_requests),
        test(what_is_sealed_in_a_moment_is_bounded),
        test(a_task_has_no_more_bytes_than_its_limit),
        test(the_number_of_files_is_bounded),
        test(what_nobody_asks_for_is_deleted),
        test(the_bytes_of_a_task_are_limited_together_and_one_task_does_not_push_out_another),
        test(what_is_being_sealed_ends_with_its_task),
        test(tasks_share_the_file_of_equal_bytes),
        test(only_names_find_files),
        test(a_disk_that_fails_is_left_alone_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
