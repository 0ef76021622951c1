/* `fedworker train --server`: the errors for a wrong command line. tests/e2e/test_clusters.c
 * tests whole rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed_digits.h"
#include "fed_program.h"

static fed_program worker;

#define DEVICE "train --server https://127.0.0.1:1 --ca ca.pem --state state --data . "

FED_TEST(wrong_words_are_named) {
    assert_runs(&worker, "train --server https://127.0.0.1:1", 2, "--ca");
    assert_runs(&worker, DEVICE "--link pigeon", 2, "pigeon");
    assert_runs(&worker, DEVICE "--workers 0", 2, "workers");
    assert_runs(&worker, DEVICE "--sync sometimes", 2, "sometimes");
    assert_runs(&worker, DEVICE "--codec 3lcc", 2, "3lcc");
    assert_runs(&worker, DEVICE "--collective square", 2, "square");
    assert_runs(&worker, DEVICE "--model lr", 2, "model");
    assert_runs(&worker, DEVICE "--device gpu --backend fast", 2, "give only one of them");
    assert_runs(&worker, DEVICE "--evaluate", 2, "fedclientd --evaluate");
}

FED_TEST(min_is_for_processes) {
    assert_runs(&worker, DEVICE "--workers 3 --min 2", 2, "threads");
    assert_runs(&worker, DEVICE "--workers 3 --min 4 --link tcp", 2, "--min");
}

FED_TEST(what_a_device_lacks_is_said) {
    assert_runs(&worker, DEVICE "--workers 2", 1, "ca.pem");
    fed_test_put(worker.directory, "ca.pem", "no certificate", 14);
    assert_runs(&worker, DEVICE "--workers 2 --link tcp", 1, "ca.pem");
}

static int setup(void **state) {
    (void)state;
    fed_program_open(&worker, "fedworker");
    fed_digits_write(worker.directory, 100, 20);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fed_program_close(&worker);
    return 0;
}

int main(void) {
    return fed_cases_run(setup, teardown);
}
