/* The example of an exchange: all workers find the line, by threads and by MPI. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "feddc/link.h"
#include "mpi_job.h"

static char said[8192];

static void check_said(void) {
    for (unsigned r = 0; r < 4; r++) {
        char line[64];
        snprintf(line, sizeof line, "rank %u: y = 3.000 x + 1.000\n", r);
        if (strstr(said, line) == NULL) {
            fail_msg("wanted \"%s\" in: %s", line, said);
        }
    }
}

static void four_threads_find_the_line(void) {
    assert_int_equal(fed_test_run(".", "allreduce", "threads", said, sizeof said), 0);
    check_said();
}

static void four_ranks_find_the_line(void) {
    if (feddc_link_named("mpi") == NULL || !mpi_job_possible()) {
        skip();
    }
    assert_int_equal(mpi_job_run(FED_BIN_DIR "/allreduce", "mpi", 4, said, sizeof said), 0);
    check_said();
}

static void a_wrong_link_is_a_usage(void) {
    assert_int_equal(fed_test_run(".", "allreduce", "pigeon", said, sizeof said), 2);
    assert_non_null(strstr(said, "usage"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(four_threads_find_the_line),
        fed_unit_test(four_ranks_find_the_line),
        fed_unit_test(a_wrong_link_is_a_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
