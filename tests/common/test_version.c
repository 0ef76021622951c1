/* One version: the macros, the library and each program name the same release and commit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/version.h"

FED_TEST(the_macros_spell_one_release) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", FED_VERSION_MAJOR, FED_VERSION_MINOR,
             FED_VERSION_PATCH);
    assert_string_equal(text, FED_VERSION);
    assert_string_equal(fed_version(), FED_VERSION);
    assert_true(FED_VERSION_NUMBER >= FED_VERSION_AT(0, 2, 0));
    assert_true(FED_VERSION_AT(1, 0, 0) > FED_VERSION_AT(0, 999, 999));
    assert_true(FED_VERSION_AT(0, 3, 0) > FED_VERSION_AT(0, 2, 999));
}

FED_TEST(every_program_prints_release_and_commit) {
    static const char *const programs[] = {"fedserver", "fedclientd", "fedsim", "fedtrain",
                                           "fedcodec"};
    char dir[256], out[512], wanted[512];
    fed_test_tmpdir(dir, sizeof dir);
    for (size_t k = 0; k < sizeof programs / sizeof programs[0]; k++) {
        assert_int_equal(fed_test_run(dir, programs[k], "--version", out, sizeof out), 0);
        snprintf(wanted, sizeof wanted, "%s %s (%s)", programs[k], FED_VERSION, fed_build_id());
        if (strncmp(out, wanted, strlen(wanted)) != 0) {
            fail_msg("%s --version says \"%s\", not \"%s\"", programs[k], out, wanted);
        }
    }
    fed_test_rmdir(dir);
}
