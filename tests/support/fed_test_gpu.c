/* Opens the GPU of a test program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test_gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "fed_test.h"

fed_gpu *fed_test_gpu(int *status) {
    const char *name = getenv("FED_TEST_DEVICE");
    fed_gpu *gpu = NULL;
    fed_error err = {0};
    *status = EXIT_SUCCESS;
    if (fed_gpu_open(name != NULL ? name : "gpu", NULL, &gpu, &err) != FED_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        *status = name != NULL ? EXIT_FAILURE : FED_TEST_SKIPPED;
        return NULL;
    }
    fprintf(stderr, "the tests run on the GPU %s\n", fed_gpu_info_of(gpu)->card);
    return gpu;
}

const char *fed_test_gpu_name(char name[FED_GPU_NAME]) {
    int status;
    fed_gpu *gpu = fed_test_gpu(&status);
    if (gpu == NULL) {
        assert_int_equal(status, FED_TEST_SKIPPED);
        skip();
    }
    snprintf(name, FED_GPU_NAME, "%s", fed_gpu_info_of(gpu)->name);
    fed_gpu_close(gpu);
    return name;
}
