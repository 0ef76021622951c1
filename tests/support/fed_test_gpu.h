/* The GPU of a test. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_GPU_H
#define FED_TEST_GPU_H

#include "fed/gpu.h"

enum { FED_TEST_SKIPPED = 77 };

/** Open the GPU that FED_TEST_DEVICE names, or the first usable one. NULL: the reason was printed,
 * and the program must end with *status. */
fed_gpu *fed_test_gpu(int *status);

/** Write the GPU's name to `name`, for a program's --device. Ends the test if none is usable. */
const char *fed_test_gpu_name(char name[FED_GPU_NAME]);

#endif
