/* Turn the error codes of OpenCL calls into a status and a sentence. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/devices/opencl/opencl_gpu.h"

fed_status fed_opencl_checked(opencl_gpu *g, cl_int code, const char *call) {
    if (code == CL_SUCCESS) {
        return FED_OK;
    }
    const bool memory = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                        code == CL_OUT_OF_RESOURCES;
    return fed_gpu_fail(&g->base, memory ? FED_ENOMEM : FED_EIO, "%s failed with %d%s", call, code,
                        memory ? ": its memory is full; use smaller batches" : "");
}
