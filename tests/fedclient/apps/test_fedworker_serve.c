/* fedworker train --server: what is wrong on the command line is said. (Whole rounds:
 * tests/e2e/test_clusters.c.) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fed_digits.h"

static char directory[200], out[4096];

#define DEVICE "train --server https://127.0.0.1:1 --ca ca.pem --state state --data . "

static void assert_ends(const char *args, int status, const char *words) {
    const int ended = fed_test_run(directory, "fedworker", args, out, sizeof out);
    if (ended != status || strstr(out, words) == NULL) {
        fail_msg("fedworker %s ended with %d, not %d: %s", args, ended, status, out);
    }
}

static void wrong_words_are_named(void **state) {
    (void)state;
    assert_ends("train --server https://127.0.0.1:1", 2, "--ca");
    assert_ends(DEVICE "--link pigeon", 2, "pigeon");
    assert_ends(DEVICE "--workers 0", 2, "workers");
    assert_ends(DEVICE "--sync sometimes", 2, "sometimes");
    assert_ends(DEVICE "--codec 3lcc", 2, "3lcc");
    assert_ends(DEVICE "--collective square", 2, "square");
    assert_ends(DEVICE "--model lr", 2, "model");
    assert_ends(DEVICE "--device gpu --backend fast", 2, "give one of them");
    assert_ends(DEVICE "--evaluate", 2, "fedclientd --evaluate");
}

static void min_is_for_processes(void **state) {
    (void)state;
    assert_ends(DEVICE "--workers 3 --min 2", 2, "threads");
    assert_ends(DEVICE "--workers 3 --min 4 --link tcp", 2, "--min");
}

static void what_a_device_lacks_is_said(void **state) {
    (void)state;
    assert_ends(DEVICE "--workers 2", 1, "ca.pem");
    fed_test_put(directory, "ca.pem", "no certificate", 14);
    assert_ends(DEVICE "--workers 2 --link tcp", 1, "ca.pem");
}

static int setup(void **state) {
    (void)state;
    fed_test_tmpdir(directory, sizeof directory);
    fed_digits_write(directory, 100, 20);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fed_test_rmdir(directory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(min_is_for_processes),
        cmocka_unit_test(what_a_device_lacks_is_said),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
