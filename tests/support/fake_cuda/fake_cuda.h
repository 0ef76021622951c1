/* Shared by the fake libcuda, libnvrtc and libnccl. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TESTS_FAKE_CUDA_H
#define FED_TESTS_FAKE_CUDA_H

#include <stdlib.h>
#include <string.h>

#include "common/gpu/devices/cuda/driver.h"

/*
 * The fakes run on an OpenCL device with shared virtual memory. FED_FAKE_CUDA="KEY=NUMBER,..."
 * configures them:
 *
 * devices  number of devices; default: 1
 * version  version of CUDA; default: 12040
 * arch     newest architecture of NVRTC; default: 90
 * NAME     the result with which the function NAME fails
 *
 * NVRTC writes each source text that compiles to a file in the folder FED_FAKE_CUDA_TEXTS.
 */
#define X(member, symbol, args) cuda_result symbol args;
FED_CUDA_CALLS(X)
FED_NVRTC_CALLS(X)
#undef X

cuda_result cuLaunchHostFunc(cuda_stream stream, void (*function)(void *user), void *user);

/** A symbol that only the fake library has. */
extern const int fed_fake_cuda;

#define FAKE_BUILD_OPTIONS "-cl-std=CL1.2 -cl-kernel-arg-info"
#define FAKE_CUBIN_MAGIC   "FAKECUBIN\n"

/** Return the number of a key in FED_FAKE_CUDA, or `otherwise`. */
static inline int fake_number(const char *key, int otherwise) {
    const char *at = getenv("FED_FAKE_CUDA");
    const size_t len = strlen(key);
    while (at != NULL && *at != '\0') {
        if (strncmp(at, key, len) == 0 && at[len] == '=') {
            return (int)strtol(at + len + 1, NULL, 10);
        }
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    return otherwise;
}

/* Return the failure that FED_FAKE_CUDA plans for this function, if any. */
#define FAKE_CALL(name)                                                                            \
    do {                                                                                           \
        const int planned_ = fake_number(#name, 0);                                                \
        if (planned_ != 0) {                                                                       \
            return (cuda_result)planned_;                                                          \
        }                                                                                          \
    } while (0)

#endif
