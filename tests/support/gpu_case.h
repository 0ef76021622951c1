/* The GPU of a test: FED_TEST_DEVICE, or the first usable one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_GPU_CASE_H
#define FED_TEST_GPU_CASE_H

#include "fed/gpu.h"
#include "fed_test.h"

enum { GPU_SKIPPED = 77 };

/** Open the GPU. false: the reason was printed, and main must return *exit_status. */
static inline bool gpu_case_open(const char *cache, fed_gpu **gpu, int *exit_status) {
    const char *name = getenv("FED_TEST_DEVICE");
    fed_error err = {0};
    if (fed_gpu_open(name != NULL ? name : "gpu", cache, gpu, &err) == FED_OK) {
        fprintf(stderr, "the test runs on the GPU %s\n", fed_gpu_info_of(*gpu)->card);
        return true;
    }
    fprintf(stderr, "skipped: %s\n", err.text);
    *exit_status = name != NULL ? EXIT_FAILURE : GPU_SKIPPED;
    return false;
}

/** Return the error text of the last failed call. */
static inline const char *gpu_case_said(const fed_gpu *gpu, fed_error *err) {
    assert_int_equal(fed_gpu_explain(gpu, FED_EIO, err), FED_EIO);
    return err->text;
}

#endif
