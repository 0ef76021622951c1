/* The temporary directory of a run: what killed runs have left is removed, and nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/clients/coordinator.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed_cases.h"

typedef struct place {
    char before[400]; /* TMPDIR */
    char base[256], path[400], inner[512];
} place;

/* The directory of a run, with a coordinator in it. */
static void make(place *p, const char *name) {
    snprintf(p->path, sizeof p->path, "%s/%s", p->base, name);
    snprintf(p->inner, sizeof p->inner, "%s/coordinator", p->path);
    assert_int_equal(mkdir(p->path, 0700), 0);
    assert_int_equal(mkdir(p->inner, 0700), 0);
    fed_test_put(p->inner, "server.db", "x", 1);
}

static bool is_there(const place *p) {
    return access(p->inner, F_OK) == 0;
}

/* Begin and end a run, whose directory lies among the temporary files. */
static void play(void) {
    const sim_options o = {.transport = SIM_HTTPS};
    sim_coordinator c = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_coordinator_place(&c, &o, &err));
    assert_true(c.temporary);
    assert_int_equal(mkdir(c.directory, 0700), 0);
    sim_coordinator_clean(&c);
    assert_int_not_equal(access(c.directory, F_OK), 0);
}

static int setup(void **state) {
    place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    const char *before = getenv("TMPDIR");
    snprintf(p->before, sizeof p->before, "%s", before != NULL ? before : "/tmp");
    fed_test_tmpdir(p->base, sizeof p->base);
    assert_int_equal(setenv("TMPDIR", p->base, 1), 0);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    place *p = *state;
    assert_int_equal(setenv("TMPDIR", p->before, 1), 0);
    fed_test_rmdir(p->base);
    free(p);
    return 0;
}

FED_TEST_WITH(what_a_killed_run_has_left_is_removed, place *p) {
    make(p, "fedsim-run-a1B2c3");
    play();
    assert_false(is_there(p));
    assert_int_not_equal(access(p->path, F_OK), 0);
}

FED_TEST_WITH(a_run_that_lives_keeps_its_directory, place *p) {
    const sim_options o = {.transport = SIM_HTTPS};
    sim_coordinator c = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_coordinator_place(&c, &o, &err));
    snprintf(p->inner, sizeof p->inner, "%s", c.directory);
    assert_int_equal(mkdir(p->inner, 0700), 0);
    play();
    assert_true(is_there(p));
    sim_coordinator_clean(&c);
    assert_false(is_there(p));
}

FED_TEST_WITH(an_empty_directory_is_removed_too, place *p) {
    snprintf(p->inner, sizeof p->inner, "%s/fedsim-run-empty0", p->base);
    assert_int_equal(mkdir(p->inner, 0700), 0);
    play();
    assert_false(is_there(p));
}

FED_TEST_WITH(another_name_is_left_alone, place *p) {
    static const char *const names[] = {"fedsim-run-1", "fedsim-a1B2c3", "fedsim-run-a1B2c3d"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        make(p, names[k]);
        play();
        assert_true(is_there(p));
    }
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
