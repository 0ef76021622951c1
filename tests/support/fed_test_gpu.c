/* Opens the GPU of a test program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test_gpu.h"

#include <stdio.h>
#include <stdlib.h>

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
    fprintf(stderr, "on %s\n", fed_gpu_info_of(gpu)->card);
    return gpu;
}
