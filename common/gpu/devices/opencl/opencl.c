/* OpenCL devices: libOpenCL.so.1 is loaded when the program runs. Memory is shared virtual. */
/* SPDX-License-Identifier: Apache-2.0 */
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gpu/device_vtable.h"

/* The functions that are used, by their names in the library. */
#define CALLS(X)                                                                                   \
    X(clGetPlatformIDs)                                                                            \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clCreateContext)                                                                             \
    X(clReleaseContext)                                                                            \
    X(clCreateCommandQueueWithProperties)                                                          \
    X(clRetainCommandQueue)                                                                        \
    X(clReleaseCommandQueue)                                                                       \
    X(clCreateProgramWithSource)                                                                   \
    X(clBuildProgram)                                                                              \
    X(clGetProgramBuildInfo)                                                                       \
    X(clReleaseProgram)                                                                            \
    X(clCreateKernel)                                                                              \
    X(clReleaseKernel)                                                                             \
    X(clSetKernelArg)                                                                              \
    X(clSetKernelArgSVMPointer)                                                                    \
    X(clEnqueueNDRangeKernel)                                                                      \
    X(clEnqueueMarkerWithWaitList)                                                                 \
    X(clEnqueueBarrierWithWaitList)                                                                \
    X(clReleaseEvent)                                                                              \
    X(clSVMAlloc)                                                                                  \
    X(clSVMFree)                                                                                   \
    X(clEnqueueSVMMemcpy)                                                                          \
    X(clEnqueueSVMMemFill)                                                                         \
    X(clFlush)                                                                                     \
    X(clFinish)

typedef struct opencl_calls {
    void *library;
#define X(name) __typeof__(name) *name;
    CALLS(X)
#undef X
} opencl_calls;

enum { ALIGN = 128, DEVICES = 16, KERNELS = 64, NAME = 48 };

struct fed_gpu_module {
    cl_program program;
    fed_gpu_module *next;
    size_t kernels;
    struct {
        char name[NAME];
        cl_kernel kernel;
    } kernel[KERNELS];
};

typedef struct opencl_gpu {
    fed_gpu base;
    opencl_calls cl;
    cl_device_id device;
    cl_context context;
    pthread_mutex_t lock; /* of the modules: arguments of a kernel are set, then it is launched */
    fed_gpu_module *modules;
} opencl_gpu;

typedef struct opencl_stream {
    fed_gpu_stream base;
    cl_command_queue queue;
} opencl_stream;

static opencl_gpu *of(fed_gpu_stream *stream) {
    return (opencl_gpu *)stream->gpu;
}

/* ---- Library and devices ---- */

static fed_status load(opencl_calls *cl, fed_error *err) {
    cl->library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cl->library == NULL) {
        return fed_fail(err, FED_ENOTFOUND,
                        "opencl: libOpenCL.so.1 is not installed: on Debian it is in "
                        "ocl-icd-libopencl1, a device for processors in pocl-opencl-icd");
    }
#define X(name) *(void **)&cl->name = dlsym(cl->library, #name);
    CALLS(X)
#undef X
    if (cl->clEnqueueSVMMemcpy == NULL || cl->clCreateCommandQueueWithProperties == NULL) {
        dlclose(cl->library);
        return fed_fail(err, FED_ENOTFOUND, "opencl: libOpenCL.so.1 is older than OpenCL 2.0");
    }
    return FED_OK;
}

/* All devices of all platforms, in the library's order. */
static size_t all_devices(const opencl_calls *cl, cl_device_id device[DEVICES]) {
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

static void say_lacks(const opencl_calls *cl, cl_device_id device, fed_gpu_info *info) {
    cl_device_fp_config single = 0, binary64 = 0;
    cl_device_svm_capabilities shared = 0;
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof binary64, &binary64, NULL);
    (void)cl->clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof shared, &shared, NULL);
    const char *lacks = "";
    if ((single & CL_FP_DENORM) == 0) {
        lacks = "it has no float32 denormals, so its values would not be exact";
    } else if ((binary64 & CL_FP_DENORM) == 0) {
        lacks = "it has no binary64, so its sums would not be exact";
    } else if ((shared & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) == 0) {
        lacks = "it has no shared virtual memory";
    }
    (void)snprintf(info->lacks, sizeof info->lacks, "%s", lacks);
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
    info->memory = memory;
    info->units = units;
    say_lacks(cl, device, info);
}

static fed_status find(const opencl_calls *cl, uint32_t ordinal, cl_device_id *device,
                       fed_gpu_info *info, fed_error *err) {
    cl_device_id all[DEVICES];
    const size_t count = all_devices(cl, all);
    if (ordinal >= count) {
        return fed_fail(err, FED_ENOTFOUND, "opencl:%u: this machine has %zu OpenCL devices",
                        ordinal, count);
    }
    *device = all[ordinal];
    describe(cl, *device, ordinal, info);
    return FED_OK;
}

static fed_status opencl_look(uint32_t ordinal, fed_gpu_info *info, fed_error *err) {
    opencl_calls cl;
    cl_device_id device;
    FED_TRY(load(&cl, err));
    fed_status status = find(&cl, ordinal, &device, info, err);
    dlclose(cl.library);
    return status;
}

static void opencl_close(fed_gpu *gpu) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    while (g->modules != NULL) {
        fed_gpu_module *m = g->modules;
        g->modules = m->next;
        for (size_t k = 0; k < m->kernels; k++) {
            (void)g->cl.clReleaseKernel(m->kernel[k].kernel);
        }
        (void)g->cl.clReleaseProgram(m->program);
        free(m);
    }
    if (g->context != NULL) {
        (void)g->cl.clReleaseContext(g->context);
    }
    dlclose(g->cl.library);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static fed_status open_device(opencl_gpu *g, uint32_t ordinal, fed_error *err) {
    cl_int code = 0;
    FED_TRY(find(&g->cl, ordinal, &g->device, &g->base.info, err));
    if (g->base.info.lacks[0] != '\0') {
        return fed_fail(err, FED_ESTATE, "%s (%.60s) can't be used: %s", g->base.info.name,
                        g->base.info.card, g->base.info.lacks);
    }
    g->context = g->cl.clCreateContext(NULL, 1, &g->device, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        return fed_fail(err, FED_EIO, "%s (%.60s): clCreateContext failed with %d",
                        g->base.info.name, g->base.info.card, code);
    }
    return FED_OK;
}

extern const fed_gpu_device fed_gpu_device_opencl;

static fed_status opencl_open(uint32_t ordinal, fed_gpu **gpu, fed_error *err) {
    opencl_gpu *g = calloc(1, sizeof *g);
    FED_REQUIRE(g != NULL, FED_ENOMEM);
    g->base.device = &fed_gpu_device_opencl;
    fed_status status = load(&g->cl, err);
    if (status != FED_OK) {
        free(g);
        return status;
    }
    (void)pthread_mutex_init(&g->lock, NULL);
    status = open_device(g, ordinal, err);
    if (status != FED_OK) {
        opencl_close(&g->base);
        return status;
    }
    *gpu = &g->base;
    return FED_OK;
}

static fed_status checked(opencl_gpu *g, cl_int code, const char *call) {
    if (code == CL_SUCCESS) {
        return FED_OK;
    }
    const bool memory = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                        code == CL_OUT_OF_RESOURCES;
    return fed_gpu_fail(&g->base, memory ? FED_ENOMEM : FED_EIO, "%s failed with %d%s", call, code,
                        memory ? ": its memory is full; use smaller batches" : "");
}

/* ---- Memory ---- */

static fed_status opencl_alloc(fed_gpu *gpu, size_t size, void **at) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    *at = g->cl.clSVMAlloc(g->context, CL_MEM_READ_WRITE, size, ALIGN);
    return *at != NULL ? FED_OK
                       : fed_gpu_fail(gpu, FED_ENOMEM, "no %zu bytes of its memory are free", size);
}

static void opencl_free(fed_gpu *gpu, void *at) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    g->cl.clSVMFree(g->context, at);
}

static fed_status opencl_alloc_host(fed_gpu *gpu, size_t size, void **at) {
    (void)gpu;
    *at = aligned_alloc(ALIGN, (size + ALIGN - 1) / ALIGN * ALIGN);
    return *at != NULL ? FED_OK : FED_ENOMEM;
}

static void opencl_free_host(fed_gpu *gpu, void *at) {
    (void)gpu;
    free(at);
}

/* ---- Kernels ---- */

static fed_status say_build(const opencl_gpu *g, cl_program program, fed_error *err) {
    char said[4000] = "";
    (void)g->cl.clGetProgramBuildInfo(program, g->device, CL_PROGRAM_BUILD_LOG, sizeof said - 1,
                                      said, NULL);
    return fed_fail(err, FED_EIO, "%s (%.60s): a kernel does not compile: %.300s",
                    g->base.info.name, g->base.info.card, said);
}

static fed_status opencl_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                               fed_error *err) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    const char *text[2] = {fed_gpu_dialect, source};
    cl_int code = 0;
    fed_gpu_module *m = calloc(1, sizeof *m);
    FED_REQUIRE(m != NULL, FED_ENOMEM);
    m->program = g->cl.clCreateProgramWithSource(g->context, 2, text, NULL, &code);
    if (code == CL_SUCCESS) {
        code = g->cl.clBuildProgram(m->program, 1, &g->device, "-cl-std=CL1.2", NULL, NULL);
    }
    if (code != CL_SUCCESS) {
        fed_status status = say_build(g, m->program, err);
        (void)g->cl.clReleaseProgram(m->program);
        free(m);
        return status;
    }
    (void)pthread_mutex_lock(&g->lock);
    m->next = g->modules;
    g->modules = m;
    (void)pthread_mutex_unlock(&g->lock);
    *module = m;
    return FED_OK;
}

/* With the lock. */
static fed_status find_kernel(opencl_gpu *g, fed_gpu_module *m, const char *name,
                              cl_kernel *kernel) {
    for (size_t k = 0; k < m->kernels; k++) {
        if (strcmp(m->kernel[k].name, name) == 0) {
            *kernel = m->kernel[k].kernel;
            return FED_OK;
        }
    }
    cl_int code = 0;
    if (m->kernels == KERNELS || strlen(name) >= NAME) {
        return fed_gpu_fail(&g->base, FED_EINVAL, "too many kernels, or too long a name: %s", name);
    }
    *kernel = g->cl.clCreateKernel(m->program, name, &code);
    FED_TRY(checked(g, code, "clCreateKernel"));
    (void)snprintf(m->kernel[m->kernels].name, NAME, "%s", name);
    m->kernel[m->kernels++].kernel = *kernel;
    return FED_OK;
}

/* With the lock. */
static fed_status launch(opencl_gpu *g, cl_command_queue queue, cl_kernel kernel, uint32_t groups,
                         const fed_gpu_arg *args, size_t count) {
    const size_t local = FED_GPU_GROUP, global = local * groups;
    for (size_t k = 0; k < count; k++) {
        cl_int code = args[k].size > 0
                          ? g->cl.clSetKernelArg(kernel, (cl_uint)k, args[k].size, args[k].at)
                          : g->cl.clSetKernelArgSVMPointer(kernel, (cl_uint)k, args[k].at);
        FED_TRY(checked(g, code, "clSetKernelArg"));
    }
    return checked(
        g, g->cl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL),
        "clEnqueueNDRangeKernel");
}

static fed_status opencl_launch(fed_gpu_stream *stream, const fed_gpu_module *module,
                                const char *name, uint32_t groups, const fed_gpu_arg *args,
                                size_t count) {
    opencl_gpu *g = of(stream);
    cl_kernel kernel = NULL;
    (void)pthread_mutex_lock(&g->lock);
    fed_status status = find_kernel(g, (fed_gpu_module *)module, name, &kernel);
    if (status == FED_OK) {
        status = launch(g, ((opencl_stream *)stream)->queue, kernel, groups, args, count);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return status;
}

/* ---- Streams ---- */

static fed_status opencl_stream_new(fed_gpu *gpu, void *native, fed_gpu_stream **stream) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    cl_int code = 0;
    opencl_stream *s = calloc(1, sizeof *s);
    FED_REQUIRE(s != NULL, FED_ENOMEM);
    s->base.gpu = gpu;
    s->queue = native;
    if (native != NULL) {
        code = g->cl.clRetainCommandQueue(native);
    } else {
        s->queue = g->cl.clCreateCommandQueueWithProperties(g->context, g->device, NULL, &code);
    }
    if (code != CL_SUCCESS) {
        free(s);
        return checked(g, code, "clCreateCommandQueue");
    }
    *stream = &s->base;
    return FED_OK;
}

static void opencl_stream_free(fed_gpu_stream *stream) {
    opencl_gpu *g = of(stream);
    opencl_stream *s = (opencl_stream *)stream;
    (void)g->cl.clFinish(s->queue);
    (void)g->cl.clReleaseCommandQueue(s->queue);
    free(s);
}

static fed_status opencl_copy(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                              fed_gpu_way way) {
    opencl_gpu *g = of(stream);
    (void)way;
    return checked(g,
                   g->cl.clEnqueueSVMMemcpy(((opencl_stream *)stream)->queue, CL_FALSE, to, from,
                                            size, 0, NULL, NULL),
                   "clEnqueueSVMMemcpy");
}

static fed_status opencl_fill(fed_gpu_stream *stream, void *to, uint8_t value, size_t size) {
    opencl_gpu *g = of(stream);
    return checked(g,
                   g->cl.clEnqueueSVMMemFill(((opencl_stream *)stream)->queue, to, &value, 1, size,
                                             0, NULL, NULL),
                   "clEnqueueSVMMemFill");
}

static fed_status opencl_after(fed_gpu_stream *stream, fed_gpu_stream *other) {
    opencl_gpu *g = of(stream);
    cl_event event = NULL;
    cl_command_queue first = ((opencl_stream *)other)->queue;
    FED_TRY(checked(g, g->cl.clEnqueueMarkerWithWaitList(first, 0, NULL, &event),
                    "clEnqueueMarkerWithWaitList"));
    cl_int code =
        g->cl.clEnqueueBarrierWithWaitList(((opencl_stream *)stream)->queue, 1, &event, NULL);
    (void)g->cl.clReleaseEvent(event);
    (void)g->cl.clFlush(first);
    return checked(g, code, "clEnqueueBarrierWithWaitList");
}

static fed_status opencl_sync(fed_gpu_stream *stream) {
    opencl_gpu *g = of(stream);
    return checked(g, g->cl.clFinish(((opencl_stream *)stream)->queue), "clFinish");
}

const fed_gpu_device fed_gpu_device_opencl = {
    .name = "opencl",
    .look = opencl_look,
    .open = opencl_open,
    .close = opencl_close,
    .alloc = opencl_alloc,
    .free = opencl_free,
    .alloc_host = opencl_alloc_host,
    .free_host = opencl_free_host,
    .build = opencl_build,
    .stream_new = opencl_stream_new,
    .stream_free = opencl_stream_free,
    .copy = opencl_copy,
    .fill = opencl_fill,
    .launch = opencl_launch,
    .after = opencl_after,
    .sync = opencl_sync,
};
