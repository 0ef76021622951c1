/* The GPU that tests run on; without one they are skipped. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_GPU_H
#define FED_TEST_GPU_H

#include "fed/gpu.h"

enum { FED_TEST_SKIPPED = 77 };

/** What FED_TEST_DEVICE names, else the first that can be used. NULL: the test program ends with
 * *status, and it was said why. */
fed_gpu *fed_test_gpu(int *status);

/** Its name, for a program's --device; it is closed again. Without one the test that calls this is
 * skipped, or fails where FED_TEST_DEVICE names one. */
const char *fed_test_gpu_name(char name[FED_GPU_NAME]);

#endif
