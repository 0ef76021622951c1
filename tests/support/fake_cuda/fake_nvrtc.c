/* A fake libnvrtc. Its compiled program is the source text. OpenCL must be able to compile it. */
/* SPDX-License-Identifier: Apache-2.0 */
#define CL_TARGET_OPENCL_VERSION 200
#include "fake_cuda.h"

#include <CL/cl.h>
#include <stdio.h>

enum { INVALID_OPTION = 5, COMPILATION = 6, LOG = 2000 };

struct _nvrtcProgram {
    char *text; /* the source text, after a magic number in a "cubin" */
    char log[LOG];
};

cuda_result nvrtcVersion(int *major, int *minor) {
    *major = 12;
    *minor = 4;
    return CUDA_OK;
}

cuda_result nvrtcGetNumSupportedArchs(int *count) {
    *count = 2;
    return CUDA_OK;
}

cuda_result nvrtcGetSupportedArchs(int *archs) {
    archs[0] = fake_number("arch", 90) - 10;
    archs[1] = fake_number("arch", 90);
    return CUDA_OK;
}

cuda_result nvrtcCreateProgram(nvrtc_program *program, const char *source, const char *name,
                               int headers, const char *const *header,
                               const char *const *include_name) {
    FAKE_CALL(nvrtcCreateProgram);
    (void)name, (void)headers, (void)header, (void)include_name;
    nvrtc_program p = calloc(1, sizeof *p);
    const size_t size = strlen(FAKE_CUBIN_MAGIC) + strlen(source) + 1;
    char *text = malloc(size);
    if (p == NULL || text == NULL) {
        free(p);
        free(text);
        return NVRTC_NO_MEMORY;
    }
    (void)snprintf(text, size, "%s%s", FAKE_CUBIN_MAGIC, source);
    p->text = text;
    *program = p;
    return CUDA_OK;
}

cuda_result nvrtcDestroyProgram(nvrtc_program *program) {
    free((*program)->text);
    free(*program);
    *program = NULL;
    return CUDA_OK;
}

static cuda_result write_text(const char *folder, const char *text) {
    char path[4096];
    unsigned long long hash = 14695981039346656037ULL; /* FNV-1a */
    for (const char *c = text; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
    }
    (void)snprintf(path, sizeof path, "%s/%016llx.cu", folder, hash);
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        return COMPILATION;
    }
    return CUDA_OK;
}

static cuda_result try_build(nvrtc_program program, const char *text) {
    cl_platform_id platform;
    cl_device_id device;
    cuda_result result = COMPILATION;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        return COMPILATION;
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_program built = clCreateProgramWithSource(context, 1, &text, NULL, NULL);
    if (clBuildProgram(built, 1, &device, FAKE_BUILD_OPTIONS, NULL, NULL) == CL_SUCCESS) {
        result = CUDA_OK;
    }
    (void)clGetProgramBuildInfo(built, device, CL_PROGRAM_BUILD_LOG, LOG - 1, program->log, NULL);
    (void)clReleaseProgram(built);
    (void)clReleaseContext(context);
    return result;
}

cuda_result nvrtcCompileProgram(nvrtc_program program, int count, const char *const *option) {
    FAKE_CALL(nvrtcCompileProgram);
    char arch[40];
    const int newest = fake_number("arch", 90);
    (void)snprintf(arch, sizeof arch, "--gpu-architecture=%s_%d", newest == 90 ? "sm" : "compute",
                   newest);
    const char *text = program->text + strlen(FAKE_CUBIN_MAGIC);
    if (count != 3 || strcmp(option[0], arch) != 0 || strcmp(option[1], "--fmad=false") != 0) {
        (void)snprintf(program->log, LOG, "error: options");
        return INVALID_OPTION;
    }
    const char *folder = getenv("FED_FAKE_CUDA_TEXTS");
    const cuda_result result = try_build(program, text);
    return result == CUDA_OK && folder != NULL ? write_text(folder, text) : result;
}

static cuda_result take(nvrtc_program program, char *to) {
    memcpy(to, program->text, strlen(program->text) + 1);
    return CUDA_OK;
}

cuda_result nvrtcGetCUBINSize(nvrtc_program program, size_t *size) {
    *size = fake_number("arch", 90) == 90 ? strlen(program->text) + 1 : 0;
    return CUDA_OK;
}

cuda_result nvrtcGetCUBIN(nvrtc_program program, char *cubin) {
    return take(program, cubin);
}

cuda_result nvrtcGetPTXSize(nvrtc_program program, size_t *size) {
    *size = strlen(program->text) + 1;
    return CUDA_OK;
}

cuda_result nvrtcGetPTX(nvrtc_program program, char *ptx) {
    return take(program, ptx);
}

cuda_result nvrtcGetProgramLogSize(nvrtc_program program, size_t *size) {
    *size = strlen(program->log) + 1;
    return CUDA_OK;
}

cuda_result nvrtcGetProgramLog(nvrtc_program program, char *log) {
    memcpy(log, program->log, strlen(program->log) + 1);
    return CUDA_OK;
}
