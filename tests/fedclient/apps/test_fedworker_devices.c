/* `fedworker devices`: it lists the devices of this machine, and reports what is missing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/gpu.h"
#include "fed_cases.h"
#include "fed_program.h"

static fed_program worker;

static int make_dir(void **state) {
    (void)state;
    fed_program_open(&worker, "fedworker");
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    fed_program_close(&worker);
    return 0;
}

FED_TEST(each_device_is_listed) {
    fed_gpu_info info;
    size_t count = 0;
    assert_runs(&worker, "devices", 0, "");
    for (; fed_gpu_list(count, &info) == FED_OK; count++) {
        assert_says(&worker, info.name);
        assert_says(&worker, info.card);
        assert_says(&worker, info.lacks);
    }
    assert_true((strstr(worker.out, "no GPU is on this machine") != NULL) == (count == 0));
}

FED_TEST(each_kind_without_a_device_says_what_is_missing) {
    const char *kind = NULL;
    fed_error missing = {0};
    size_t k = 0;
    assert_runs(&worker, "devices", 0, "");
    for (; fed_gpu_kind(k, &kind, &missing) == FED_OK; k++) {
        if (missing.text[0] != '\0') {
            assert_ptr_equal(strstr(missing.text, kind), missing.text);
            assert_says(&worker, missing.text);
        }
    }
    assert_int_equal(k, 2); /* opencl and cuda, even in a build without OpenCL */
}

/* OpenCL looks for drivers in the folder that OCL_ICD_VENDORS names. This folder has none. */
FED_TEST(a_machine_without_drivers) {
    assert_int_equal(setenv("OCL_ICD_VENDORS", worker.directory, 1), 0);
    assert_runs(&worker, "devices", 0, "");
    assert_int_equal(unsetenv("OCL_ICD_VENDORS"), 0);
    if (strstr(worker.out, "finds no device") == NULL) {
        skip(); /* the build has no OpenCL, or the OpenCL loader ignores the variable */
    }
    assert_says(&worker, "pocl-opencl-icd");
}

FED_TEST(further_words_are_refused) {
    assert_runs(&worker, "devices all", 2, "\"all\" is not expected here");
}

int main(void) {
    return fed_cases_run(make_dir, remove_dir);
}
