/* OpenCL devices: libOpenCL.so.1 is loaded when the program runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/device_vtable.h"
#include "common/gpu/devices/opencl/opencl_gpu.h"

const fed_gpu_device fed_gpu_device_opencl = {
    .name = "opencl",
    .look = fed_opencl_look,
    .open = fed_opencl_open,
    .open_native = fed_opencl_open_native,
    .close = fed_opencl_close,
    .alloc = fed_opencl_alloc,
    .free = fed_opencl_free,
    .alloc_host = fed_opencl_alloc_host,
    .free_host = fed_opencl_free_host,
    .adopt = fed_opencl_adopt,
    .build = fed_opencl_build,
    .stream_new = fed_opencl_stream_new,
    .stream_free = fed_opencl_stream_free,
    .copy = fed_opencl_stream_copy,
    .fill = fed_opencl_stream_fill,
    .launch = fed_opencl_launch,
    .after = fed_opencl_after,
    .sync = fed_opencl_sync,
    .done = fed_opencl_done,
    .call = fed_opencl_call,
    .keep = fed_opencl_keep,
    .kept = fed_opencl_kept,
    .replay = fed_opencl_replay,
    .graph_free = fed_opencl_graph_free,
};
