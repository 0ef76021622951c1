/* fedworker devices: the program lists what is here, and says what is missing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/gpu.h"
#include "fed_test.h"

static char dir[256], out[8192];

static int make_dir(void **state) {
    (void)state;
    fed_test_tmpdir(dir, sizeof dir);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    fed_test_rmdir(dir);
    return 0;
}

static void each_device_is_listed(void **state) {
    (void)state;
    fed_gpu_info info;
    size_t count = 0;
    assert_int_equal(fed_test_run(dir, "fedworker", "devices", out, sizeof out), 0);
    for (; fed_gpu_list(count, &info) == FED_OK; count++) {
        assert_non_null(strstr(out, info.name));
        assert_non_null(strstr(out, info.card));
        assert_non_null(strstr(out, info.lacks));
    }
    assert_true((strstr(out, "no GPU is on this machine") != NULL) == (count == 0));
}

static void each_kind_without_a_device_says_what_is_missing(void **state) {
    (void)state;
    const char *kind = NULL;
    fed_error missing = {0};
    size_t k = 0;
    assert_int_equal(fed_test_run(dir, "fedworker", "devices", out, sizeof out), 0);
    for (; fed_gpu_kind(k, &kind, &missing) == FED_OK; k++) {
        if (missing.text[0] != '\0') {
            assert_ptr_equal(strstr(missing.text, kind), missing.text); /* begins with the kind */
            assert_non_null(strstr(out, missing.text));
        }
    }
    assert_int_equal(k, 2); /* opencl and cuda, also in a build without OpenCL */
}

/* OpenCL finds its drivers in the folder that OCL_ICD_VENDORS names: here there are none. */
static void a_machine_without_drivers(void **state) {
    (void)state;
    assert_int_equal(setenv("OCL_ICD_VENDORS", dir, 1), 0);
    assert_int_equal(fed_test_run(dir, "fedworker", "devices", out, sizeof out), 0);
    assert_int_equal(unsetenv("OCL_ICD_VENDORS"), 0);
    if (strstr(out, "finds no device") == NULL) {
        skip(); /* built without OpenCL, or another loader */
    }
    assert_non_null(strstr(out, "pocl-opencl-icd"));
}

static void further_words_are_refused(void **state) {
    (void)state;
    assert_int_equal(fed_test_run(dir, "fedworker", "devices all", out, sizeof out), 2);
    assert_non_null(strstr(out, "\"all\" is one word too many"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_device_is_listed),
        cmocka_unit_test(each_kind_without_a_device_says_what_is_missing),
        cmocka_unit_test(a_machine_without_drivers),
        cmocka_unit_test(further_words_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
