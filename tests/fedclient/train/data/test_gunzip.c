/* Unpacking of gzip files, and errors, each with the position of the damage. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <zlib.h>

#include "fedclient/train/data/input.h"

enum { LEN = 600000, MOST = 1 << 20 };

static uint8_t plain[LEN], packed[MOST];
static size_t packed_len;
static char directory[512];

/* Append the bytes plain[from .. to) as a separate gzip member. */
static void pack(size_t from, size_t to) {
    z_stream z = {.next_in = plain + from, .avail_in = (uInt)(to - from)};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_out = packed + packed_len;
    z.avail_out = (uInt)(MOST - packed_len);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    packed_len += z.total_out;
    assert_int_equal(deflateEnd(&z), Z_OK);
}

static int setup(void **state) {
    (void)state;
    for (size_t i = 0; i < LEN; i++) {
        plain[i] = (uint8_t)(i * i >> 7);
    }
    packed_len = 0;
    fed_test_tmpdir(directory, sizeof directory);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fed_test_rmdir(directory);
    return 0;
}

static void check_unpacked(void) {
    fedtrain_bytes bytes = {0};
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_gunzip("f.gz", packed, packed_len, LEN, &bytes, &err));
    assert_int_equal(bytes.len, LEN);
    assert_memory_equal(bytes.data, plain, LEN);
    fedtrain_bytes_release(&bytes);
    assert_null(bytes.data);
}

static void assert_refused(size_t len, size_t limit, fed_status wanted, const char *words) {
    fedtrain_bytes bytes = {0};
    fed_error err = {0};
    assert_fed_status(fedtrain_gunzip("f.gz", packed, len, limit, &bytes, &err), wanted);
    assert_fed_says(err, "f.gz");
    assert_fed_says(err, words);
    assert_null(bytes.data);
}

FED_TEST(test_a_file_is_unpacked) {
    pack(0, LEN);
    check_unpacked();
}

FED_TEST(test_members_are_joined) {
    pack(0, 1000);
    pack(1000, 1000);
    pack(1000, LEN);
    check_unpacked();
}

FED_TEST(test_truncated_files_are_refused) {
    pack(0, LEN);
    for (size_t len = 2; len < packed_len; len += 1 + len / 16) {
        char words[64];
        snprintf(words, sizeof words, "ends too early, at byte offset %zu", len);
        assert_refused(len, LEN, FED_EFORMAT, words);
    }
    assert_refused(packed_len - 1, LEN, FED_EFORMAT, "ends too early");
}

FED_TEST(test_damaged_files_are_refused) {
    pack(0, LEN);
    packed[packed_len - 6] ^= 1;
    assert_refused(packed_len, LEN, FED_EFORMAT, "damaged gzip data (incorrect data check)");
    packed[packed_len - 6] ^= 1;
    memset(packed + packed_len / 2, 0xff, 64);
    assert_refused(packed_len, LEN, FED_EFORMAT, "byte offset");
}

FED_TEST(test_what_follows_the_last_member_is_refused) {
    pack(0, LEN);
    memcpy(packed + packed_len, "more", 4);
    assert_refused(packed_len + 4, LEN, FED_EFORMAT, "damaged gzip data");
}

FED_TEST(test_more_than_the_limit_is_refused) {
    pack(0, LEN);
    assert_refused(packed_len, LEN - 1, FED_ERANGE, "more than the limit of 599999 bytes");
    assert_refused(packed_len, 10, FED_ERANGE, "more than the limit of 10 bytes");
}

FED_TEST(test_a_packed_file_is_found_and_unpacked_whatever_its_name) {
    fedtrain_input in = {.path = ""};
    fed_error err = {0};
    pack(0, LEN);
    fed_test_put(directory, "a.gz", packed, packed_len);
    fed_test_put(directory, "b", packed, packed_len);
    fed_test_put(directory, "c", plain, LEN);
    const char *names[] = {"a", "a.gz", "b", "c"};
    for (size_t i = 0; i < 4; i++) {
        assert_fed_ok_err(fedtrain_input_open(directory, names[i], LEN, &in, &err));
        assert_int_equal(in.bytes.len, LEN);
        assert_memory_equal(in.bytes.data, plain, LEN);
        assert_int_equal(in.bytes.owner, i < 3 ? FEDTRAIN_HEAP : FEDTRAIN_MAPPED);
        fedtrain_bytes_release(&in.bytes);
    }
    assert_fed_status(fedtrain_input_open(directory, "d", LEN, &in, &err), FED_ENOTFOUND);
    assert_fed_status(fedtrain_input_open(directory, "c", LEN - 1, &in, &err), FED_ERANGE);
    assert_null(in.bytes.data);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
