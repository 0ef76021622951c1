/* Tests that a device's log in the chaos test can be read after the device was killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <stdlib.h>
#include <unistd.h>

#include "chaos_log.h"
#include "fed/file.h"

/* Two records: the kind, the number of bytes, the bytes. */
static const uint8_t records[] = {1, 3, 0, 0, 0, 7, 8, 9, 2, 0, 0, 0, 0};
enum { FIRST = 8, BOTH = sizeof records };

/* A new record must directly follow the last whole one. */
static void a_torn_record_is_cut_off(void **state) {
    char directory[256], path[300];
    (void)state;
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/device0.log", directory);
    for (size_t len = 0; len <= BOTH; len++) {
        fed_error err = {0};
        uint8_t *read = NULL;
        size_t size = 0;
        const size_t whole = len == BOTH ? BOTH : len >= FIRST ? FIRST : 0;
        assert_fed_ok_err(fed_file_replace(path, records, len, 0600, &err));
        const int log = chaos_log_open(path);
        assert_true(log >= 0);
        assert_int_equal(write(log, records, FIRST), FIRST);
        assert_int_equal(close(log), 0);
        assert_fed_ok_err(fed_file_read(path, 100, &read, &size, &err));
        assert_int_equal(size, whole + FIRST);
        assert_memory_equal(read, records, whole);
        assert_memory_equal(read + whole, records, FIRST);
        free(read);
    }
    fed_test_rmdir(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_torn_record_is_cut_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
