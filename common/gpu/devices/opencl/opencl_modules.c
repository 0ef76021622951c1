/* Compile and look up the kernels of OpenCL devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gpu/devices/opencl/opencl_gpu.h"
#include "common/gpu/module_cache.h"

enum { KERNELS = 64, NAME = 48, VERSION = 256, SAID = 4000 };

static const char options[] = "-cl-std=CL1.2";

struct fed_gpu_module {
    cl_program program;
    fed_gpu_module *next;
    size_t kernels;
    struct {
        char name[NAME];
        cl_kernel kernel;
    } kernel[KERNELS];
};

/* ---- Programs ---- */

static fed_status say_build(const opencl_gpu *g, cl_program program, fed_error *err) {
    char said[SAID] = "";
    if (program != NULL) {
        (void)g->cl.clGetProgramBuildInfo(program, g->device, CL_PROGRAM_BUILD_LOG, SAID - 1, said,
                                          NULL);
    }
    return fed_fail(err, FED_EIO, "%s (%.60s): a kernel does not compile: %.300s",
                    g->base.info.name, g->base.info.card, said);
}

/* Build a program. If that fails, release it and return NULL. */
static cl_program built(const opencl_gpu *g, cl_program program, cl_int code) {
    if (code == CL_SUCCESS &&
        g->cl.clBuildProgram(program, 1, &g->device, options, NULL, NULL) == CL_SUCCESS) {
        return program;
    }
    if (code == CL_SUCCESS) {
        (void)g->cl.clReleaseProgram(program);
    }
    return NULL;
}

static cl_program from_cache(const opencl_gpu *g, const char *const *parts) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    cl_int code = 0, loaded = 0;
    if (fed_gpu_cache_read(g->base.cache, parts, &bytes, &len) != FED_OK) {
        return NULL;
    }
    const unsigned char *binary = bytes;
    cl_program program =
        g->cl.clCreateProgramWithBinary(g->context, 1, &g->device, &len, &binary, &loaded, &code);
    program = built(g, program, code);
    free(bytes);
    return program;
}

static void into_cache(const opencl_gpu *g, const char *const *parts, cl_program program) {
    size_t len = 0;
    if (g->base.cache == NULL || g->cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES,
                                                        sizeof len, &len, NULL) != CL_SUCCESS) {
        return;
    }
    unsigned char *bytes = len > 0 ? malloc(len) : NULL;
    if (bytes != NULL &&
        g->cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(unsigned char *), &bytes,
                               NULL) == CL_SUCCESS) {
        fed_gpu_cache_write(g->base.cache, parts, bytes, len);
    }
    free(bytes);
}

static fed_status from_source(const opencl_gpu *g, const char *source, cl_program *program,
                              fed_error *err) {
    const char *text[2] = {fed_gpu_dialect, source};
    cl_int code = 0;
    *program = g->cl.clCreateProgramWithSource(g->context, 2, text, NULL, &code);
    if (code == CL_SUCCESS) {
        code = g->cl.clBuildProgram(*program, 1, &g->device, options, NULL, NULL);
    } else {
        *program = NULL;
    }
    if (code == CL_SUCCESS) {
        return FED_OK;
    }
    fed_status status = say_build(g, *program, err);
    if (*program != NULL) {
        (void)g->cl.clReleaseProgram(*program);
    }
    return status;
}

static fed_status make_program(const opencl_gpu *g, const char *source, cl_program *program,
                               fed_error *err) {
    char name[VERSION] = "", version[VERSION] = "", driver[VERSION] = "", platform[VERSION] = "";
    cl_platform_id on = NULL;
    (void)g->cl.clGetDeviceInfo(g->device, CL_DEVICE_NAME, sizeof name, name, NULL);
    (void)g->cl.clGetDeviceInfo(g->device, CL_DEVICE_VERSION, sizeof version, version, NULL);
    (void)g->cl.clGetDeviceInfo(g->device, CL_DRIVER_VERSION, sizeof driver, driver, NULL);
    (void)g->cl.clGetDeviceInfo(g->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &on, NULL);
    (void)g->cl.clGetPlatformInfo(on, CL_PLATFORM_VERSION, sizeof platform, platform, NULL);
    const char *const parts[] = {"opencl", name,   version,         driver, platform,
                                 options,  source, fed_gpu_dialect, NULL};
    *program = from_cache(g, parts);
    if (*program == NULL) {
        FED_TRY(from_source(g, source, program, err));
        into_cache(g, parts, *program);
    }
    return FED_OK;
}

fed_status fed_opencl_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                            fed_error *err) {
    opencl_gpu *g = (opencl_gpu *)gpu;
    fed_gpu_module *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for kernels");
    }
    fed_status status = make_program(g, source, &m->program, err);
    if (status != FED_OK) {
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

void fed_opencl_free_modules(opencl_gpu *g) {
    while (g->modules != NULL) {
        fed_gpu_module *m = g->modules;
        g->modules = m->next;
        for (size_t k = 0; k < m->kernels; k++) {
            (void)g->cl.clReleaseKernel(m->kernel[k].kernel);
        }
        (void)g->cl.clReleaseProgram(m->program);
        free(m);
    }
}

/* ---- Kernels ---- */

fed_status fed_opencl_kernel(opencl_gpu *g, fed_gpu_module *m, const char *name,
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
    if (code == CL_INVALID_KERNEL_NAME) {
        return fed_gpu_fail(&g->base, FED_EINVAL, "the module has no kernel %s", name);
    }
    FED_TRY(fed_opencl_checked(g, code, "clCreateKernel"));
    (void)snprintf(m->kernel[m->kernels].name, NAME, "%s", name);
    m->kernel[m->kernels++].kernel = *kernel;
    return FED_OK;
}
