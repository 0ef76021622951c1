/* Load the OpenCL library, find its devices, and open and close a device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gpu/devices/opencl/opencl_gpu.h"

enum { DEVICES = 16, EXTENSIONS = 8192 };

/* Find the library: the program's own, if it is linked to OpenCL or runs under oclgrind, else
 * libOpenCL.so.1. RTLD_NODELETE keeps it loaded: drivers start slowly, and some crash when
 * unloaded. */
static void *find_library(void) {
    void *own = dlopen(NULL, RTLD_NOW);
    if (own != NULL && dlsym(own, "clGetPlatformIDs") != NULL) {
        return own;
    }
    if (own != NULL) {
        dlclose(own);
    }
    return dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static fed_status load(opencl_calls *cl, fed_error *err) {
    const char *missing = NULL;
    cl->library = find_library();
    if (cl->library == NULL) {
        return fed_fail(err, FED_ENOTFOUND,
                        "opencl: libOpenCL.so.1 is not installed; on Debian it is in "
                        "ocl-icd-libopencl1, and pocl-opencl-icd makes a device of the processor");
    }
#define X(name) *(void **)&cl->name = dlsym(cl->library, #name);
    FED_OPENCL_CALLS_OF_2(X)
#undef X
#define X(name)                                                                                    \
    *(void **)&cl->name = dlsym(cl->library, #name);                                               \
    missing = cl->name == NULL ? #name : missing;
    FED_OPENCL_CALLS(X)
#undef X
    if (missing != NULL) {
        dlclose(cl->library);
        return fed_fail(err, FED_ENOTFOUND,
                        "opencl: libOpenCL.so.1 has no %s: it is older than OpenCL 1.2; install "
                        "ocl-icd-libopencl1",
                        missing);
    }
    return FED_OK;
}

static size_t find_devices(const opencl_calls *cl, cl_device_id device[DEVICES]) {
    cl_platform_id platform[DEVICES];
    cl_uint platforms = 0;
    size_t count = 0;
    if (cl->clGetPlatformIDs(DEVICES, platform, &platforms) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint p = 0; p < platforms && p < DEVICES && count < DEVICES; p++) {
        cl_uint more = 0;
        if (cl->clGetDeviceIDs(platform[p], CL_DEVICE_TYPE_ALL, (cl_uint)(DEVICES - count),
                               device + count, &more) == CL_SUCCESS) {
            count += more < DEVICES - count ? more : DEVICES - count;
        }
    }
    return count;
}

/* Call find_devices in one thread at a time: the first such call starts OpenCL's loader and
 * drivers, and some drivers can't be started by two threads at once. */
static size_t all_devices(const opencl_calls *cl, cl_device_id device[DEVICES]) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&one_at_a_time);
    const size_t count = find_devices(cl, device);
    (void)pthread_mutex_unlock(&one_at_a_time);
    return count;
}

/* Return which feature the device lacks that kernels need (docs/gpu.md), or "" if it lacks none. */
static const char *find_lack(const opencl_calls *cl, cl_device_id device) {
    cl_device_fp_config single = 0, binary64 = 0;
    cl_bool available = CL_FALSE, compiler = CL_FALSE, little = CL_FALSE;
    size_t group = 0;
    char extensions[EXTENSIONS] = "";
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof binary64, &binary64, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler,
                              NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_ENDIAN_LITTLE, sizeof little, &little, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions,
                              NULL);
    if (!available) {
        return "the driver says that it is not available";
    }
    if (!compiler) {
        return "its driver has no compiler";
    }
    if (!little) {
        return "it is big-endian, and messages are little-endian";
    }
    if ((single & CL_FP_DENORM) == 0) {
        return "it has no float32 denormals, so its values would not be exact";
    }
    if ((binary64 & CL_FP_DENORM) == 0) {
        return "it has no binary64, so its sums would not be exact";
    }
    if (group < FED_GPU_GROUP) {
        return "its work-groups have fewer than 256 work-items";
    }
    if (strstr(extensions, "cl_khr_int64_base_atomics") == NULL) {
        return "it has no 64-bit atomics, so its sums would not be exact";
    }
    return "";
}

static void describe(const opencl_calls *cl, cl_device_id device, uint32_t ordinal,
                     fed_gpu_info *info) {
    char name[60] = "", driver[30] = "";
    cl_ulong memory = 0;
    cl_uint units = 0;
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof driver, driver, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    (void)snprintf(info->name, sizeof info->name, "opencl:%u", ordinal);
    (void)snprintf(info->card, sizeof info->card, "%s, driver %s", name, driver);
    (void)snprintf(info->lacks, sizeof info->lacks, "%s", find_lack(cl, device));
    info->memory = memory;
    info->units = units;
}

static fed_status find(const opencl_calls *cl, uint32_t ordinal, cl_device_id *device,
                       fed_gpu_info *info, fed_error *err) {
    cl_device_id all[DEVICES];
    const size_t count = all_devices(cl, all);
    if (count == 0) {
        return fed_fail(err, FED_ENOTFOUND,
                        "opencl: libOpenCL.so.1 finds no device; install the card's driver, or "
                        "pocl-opencl-icd, which makes one of the processor");
    }
    if (ordinal >= count) {
        return fed_fail(err, FED_ENOTFOUND,
                        "opencl:%u is not here: the last OpenCL device is opencl:%zu", ordinal,
                        count - 1);
    }
    *device = all[ordinal];
    describe(cl, *device, ordinal, info);
    return FED_OK;
}

fed_status fed_opencl_look(uint32_t ordinal, fed_gpu_info *info, fed_error *err) {
    opencl_calls cl;
    cl_device_id device;
    FED_TRY(load(&cl, err));
    fed_status status = find(&cl, ordinal, &device, info, err);
    dlclose(cl.library);
    return status;
}

void fed_opencl_close(fed_gpu *gpu) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    fed_opencl_free_modules(g);
    fed_opencl_free_blocks(g);
    if (g->context != NULL) {
        (void)g->cl.clReleaseContext(g->context);
    }
    dlclose(g->cl.library);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static fed_status check_device(opencl_gpu *g, fed_error *err) {
    const fed_gpu_info *info = &g->base.info;
    cl_device_svm_capabilities svm = 0;
    (void)g->cl.clGetDeviceInfo(g->device, CL_DEVICE_SVM_CAPABILITIES, sizeof svm, &svm, NULL);
    g->shared = (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0 && g->cl.clSVMAlloc != NULL &&
                g->cl.clSVMFree != NULL && g->cl.clSetKernelArgSVMPointer != NULL &&
                g->cl.clEnqueueSVMMemcpy != NULL && g->cl.clEnqueueSVMMemFill != NULL;
    return info->lacks[0] == '\0' ? FED_OK
                                  : fed_fail(err, FED_ESTATE, "%s (%.60s) can't be used: %s",
                                             info->name, info->card, info->lacks);
}

static fed_status open_device(opencl_gpu *g, const void *ordinal, fed_error *err) {
    cl_int code = 0;
    FED_TRY(find(&g->cl, *(const uint32_t *)ordinal, &g->device, &g->base.info, err));
    FED_TRY(check_device(g, err));
    g->context = g->cl.clCreateContext(NULL, 1, &g->device, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        g->context = NULL;
        return fed_fail(err, FED_EIO, "%s (%.60s): clCreateContext failed with %d",
                        g->base.info.name, g->base.info.card, code);
    }
    return FED_OK;
}

static fed_status join_queue(opencl_gpu *g, const void *by, fed_error *err) {
    cl_command_queue queue = (cl_command_queue)by;
    cl_context context = NULL;
    cl_device_id all[DEVICES];
    if (g->cl.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL) !=
            CL_SUCCESS ||
        g->cl.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &g->device,
                                    NULL) != CL_SUCCESS ||
        g->cl.clRetainContext(context) != CL_SUCCESS) {
        return fed_fail(err, FED_EINVAL, "opencl: the given queue is no cl_command_queue");
    }
    g->context = context;
    const uint32_t count = (uint32_t)all_devices(&g->cl, all);
    uint32_t ordinal = 0;
    while (ordinal < count && all[ordinal] != g->device) {
        ordinal++;
    }
    describe(&g->cl, g->device, ordinal, &g->base.info);
    g->native = true;
    return check_device(g, err);
}

static fed_status open_by(fed_status (*enter)(opencl_gpu *g, const void *by, fed_error *err),
                          const void *by, fed_gpu **gpu, fed_error *err) {
    opencl_gpu *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return fed_fail(err, FED_ENOMEM, "opencl: out of memory for a device");
    }
    fed_status status = load(&g->cl, err);
    if (status != FED_OK) {
        free(g);
        return status;
    }
    (void)pthread_mutex_init(&g->lock, NULL);
    status = enter(g, by, err);
    if (status != FED_OK) {
        fed_opencl_close(&g->base);
        return status;
    }
    *gpu = &g->base;
    return FED_OK;
}

fed_status fed_opencl_open(uint32_t ordinal, fed_gpu **gpu, fed_error *err) {
    return open_by(open_device, &ordinal, gpu, err);
}

fed_status fed_opencl_open_native(void *queue, fed_gpu **gpu, fed_error *err) {
    return open_by(join_queue, queue, gpu, err);
}
