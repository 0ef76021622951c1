/* The example of an all-reduce: all workers fit the same line, with threads and with MPI. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "feddc/link.h"
#include "mpi_job.h"

static char said[8192];

static void check_said(void) {
    for (unsigned r = 0; r < 4; r++) {
        char line[64];
        snprintf(line, sizeof line, "rank %u: y = 3.000 x + 1.000\n", r);
        if (strstr(said, line) == NULL) {
            fail_msg("\"%s\" is missing in the example's output: %s", line, said);
        }
    }
}

FED_TEST(four_threads_find_the_line) {
    assert_int_equal(fed_test_run(".", "allreduce", "threads", said, sizeof said), 0);
    check_said();
}

FED_TEST(four_ranks_find_the_line) {
    if (feddc_link_named("mpi") == NULL || !mpi_job_possible()) {
        skip();
    }
    assert_int_equal(mpi_job_run(FED_BIN_DIR "/allreduce", "mpi", 4, said, sizeof said), 0);
    check_said();
}

FED_TEST(a_wrong_link_is_a_usage) {
    assert_int_equal(fed_test_run(".", "allreduce", "pigeon", said, sizeof said), 2);
    assert_non_null(strstr(said, "usage"));
}
