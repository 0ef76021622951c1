/* The kind "opencl" in a build without CL/cl.h: it has no devices, and its errors say how to get
 * them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/device_vtable.h"

extern const fed_gpu_device fed_gpu_device_no_opencl;

static fed_status refuse(fed_error *err) {
    return fed_fail(err, FED_ENOTFOUND,
                    "opencl: this program was built without it; install CL/cl.h (on Debian: "
                    "opencl-c-headers), and build again");
}

static fed_status no_look(uint32_t ordinal, fed_gpu_info *info, fed_error *err) {
    (void)ordinal;
    (void)info;
    return refuse(err);
}

static fed_status no_open(uint32_t ordinal, fed_gpu **gpu, fed_error *err) {
    (void)ordinal;
    (void)gpu;
    return refuse(err);
}

static fed_status no_open_native(void *queue, fed_gpu **gpu, fed_error *err) {
    (void)queue;
    (void)gpu;
    return refuse(err);
}

const fed_gpu_device fed_gpu_device_no_opencl = {
    .name = "opencl", .look = no_look, .open = no_open, .open_native = no_open_native};
