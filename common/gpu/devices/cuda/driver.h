/* The functions of the CUDA driver and of NVRTC that are used, declared without CUDA's headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GPU_CUDA_DRIVER_H
#define FED_GPU_CUDA_DRIVER_H

#include <pthread.h>

#include "common/gpu/device_vtable.h"

/*
 * Types are those of cuda.h and nvrtc.h, under names of this project: a CUdeviceptr is 64 bits,
 * results and other enums are unsigned. tests/common/gpu/devices/cuda/declared.c compares them
 * with CUDA's headers, where these are installed.
 */
typedef unsigned cuda_result; /* CUresult and nvrtcResult */
typedef int cuda_device;
typedef unsigned long long cuda_address; /* CUdeviceptr */
typedef struct CUctx_st *cuda_context;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUgraph_st *cuda_graph;
typedef struct CUgraphExec_st *cuda_graph_exec;
typedef struct _nvrtcProgram *nvrtc_program;

enum {
    CUDA_OK = 0,
    CUDA_NO_MEMORY = 2,
    CUDA_STUB = 34,
    CUDA_NO_DEVICE = 100,
    CUDA_NO_BINARY = 209,
    CUDA_UNSUPPORTED_PTX = 222,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_MISMATCH = 803, /* driver's library and kernel module differ */
    CUDA_UNITS = 16,     /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    CUDA_MAJOR = 75,     /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
    CUDA_MINOR = 76,
    CUDA_PORTABLE = 1,         /* CU_MEMHOSTALLOC_PORTABLE */
    CUDA_NON_BLOCKING = 1,     /* CU_STREAM_NON_BLOCKING */
    CUDA_DISABLE_TIMING = 2,   /* CU_EVENT_DISABLE_TIMING */
    CUDA_CAPTURE_RELAXED = 2,  /* CU_STREAM_CAPTURE_MODE_RELAXED */
    CUDA_LEAST_DRIVER = 11040, /* 11.4 is the first with cuGraphInstantiateWithFlags */
    NVRTC_NO_MEMORY = 1
};

/* X(member, symbol in libcuda.so.1, arguments) */
#define FED_CUDA_CALLS(X)                                                                          \
    X(init, cuInit, (unsigned flags))                                                              \
    X(driver_version, cuDriverGetVersion, (int *version))                                          \
    X(error_name, cuGetErrorName, (cuda_result result, const char **name))                         \
    X(error_text, cuGetErrorString, (cuda_result result, const char **text))                       \
    X(device_count, cuDeviceGetCount, (int *count))                                                \
    X(device_get, cuDeviceGet, (cuda_device * device, int ordinal))                                \
    X(device_name, cuDeviceGetName, (char *name, int size, cuda_device device))                    \
    X(device_attribute, cuDeviceGetAttribute,                                                      \
      (int *value, unsigned attribute, cuda_device device))                                        \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, cuda_device device))                    \
    X(context_retain, cuDevicePrimaryCtxRetain, (cuda_context * context, cuda_device device))      \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (cuda_device device))                         \
    X(context_get, cuCtxGetCurrent, (cuda_context * context))                                      \
    X(context_device, cuCtxGetDevice, (cuda_device * device))                                      \
    X(context_push, cuCtxPushCurrent_v2, (cuda_context context))                                   \
    X(context_pop, cuCtxPopCurrent_v2, (cuda_context * context))                                   \
    X(alloc, cuMemAlloc_v2, (cuda_address * at, size_t size))                                      \
    X(free, cuMemFree_v2, (cuda_address at))                                                       \
    X(alloc_host, cuMemHostAlloc, (void **at, size_t size, unsigned flags))                        \
    X(free_host, cuMemFreeHost, (void *at))                                                        \
    X(copy_up, cuMemcpyHtoDAsync_v2,                                                               \
      (cuda_address to, const void *from, size_t size, cuda_stream stream))                        \
    X(copy_down, cuMemcpyDtoHAsync_v2,                                                             \
      (void *to, cuda_address from, size_t size, cuda_stream stream))                              \
    X(copy_across, cuMemcpyDtoDAsync_v2,                                                           \
      (cuda_address to, cuda_address from, size_t size, cuda_stream stream))                       \
    X(fill, cuMemsetD8Async,                                                                       \
      (cuda_address to, unsigned char value, size_t size, cuda_stream stream))                     \
    X(module_load, cuModuleLoadData, (cuda_module * module, const void *image))                    \
    X(module_unload, cuModuleUnload, (cuda_module module))                                         \
    X(module_function, cuModuleGetFunction,                                                        \
      (cuda_function * function, cuda_module module, const char *name))                            \
    X(launch, cuLaunchKernel,                                                                      \
      (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                  \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_memory,               \
       cuda_stream stream, void **args, void **extra))                                             \
    X(stream_create, cuStreamCreate, (cuda_stream * stream, unsigned flags))                       \
    X(stream_destroy, cuStreamDestroy_v2, (cuda_stream stream))                                    \
    X(stream_sync, cuStreamSynchronize, (cuda_stream stream))                                      \
    X(stream_query, cuStreamQuery, (cuda_stream stream))                                           \
    X(stream_wait, cuStreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned flags))      \
    X(stream_context, cuStreamGetCtx, (cuda_stream stream, cuda_context * context))                \
    X(event_create, cuEventCreate, (cuda_event * event, unsigned flags))                           \
    X(event_record, cuEventRecord, (cuda_event event, cuda_stream stream))                         \
    X(event_destroy, cuEventDestroy_v2, (cuda_event event))                                        \
    X(capture_begin, cuStreamBeginCapture_v2, (cuda_stream stream, unsigned mode))                 \
    X(capture_end, cuStreamEndCapture, (cuda_stream stream, cuda_graph * graph))                   \
    X(graph_destroy, cuGraphDestroy, (cuda_graph graph))                                           \
    X(graph_make, cuGraphInstantiateWithFlags,                                                     \
      (cuda_graph_exec * exec, cuda_graph graph, unsigned long long flags))                        \
    X(graph_launch, cuGraphLaunch, (cuda_graph_exec exec, cuda_stream stream))                     \
    X(graph_exec_destroy, cuGraphExecDestroy, (cuda_graph_exec exec))

/* X(member, symbol in libnvrtc, arguments) */
#define FED_NVRTC_CALLS(X)                                                                         \
    X(version, nvrtcVersion, (int *major, int *minor))                                             \
    X(arch_count, nvrtcGetNumSupportedArchs, (int *count))                                         \
    X(archs, nvrtcGetSupportedArchs, (int *archs))                                                 \
    X(create, nvrtcCreateProgram,                                                                  \
      (nvrtc_program * program, const char *source, const char *name, int headers,                 \
       const char *const *header, const char *const *include_name))                                \
    X(destroy, nvrtcDestroyProgram, (nvrtc_program * program))                                     \
    X(compile, nvrtcCompileProgram, (nvrtc_program program, int count, const char *const *option)) \
    X(cubin_size, nvrtcGetCUBINSize, (nvrtc_program program, size_t * size))                       \
    X(cubin, nvrtcGetCUBIN, (nvrtc_program program, char *cubin))                                  \
    X(ptx_size, nvrtcGetPTXSize, (nvrtc_program program, size_t * size))                           \
    X(ptx, nvrtcGetPTX, (nvrtc_program program, char *ptx))                                        \
    X(log_size, nvrtcGetProgramLogSize, (nvrtc_program program, size_t * size))                    \
    X(log, nvrtcGetProgramLog, (nvrtc_program program, char *log))

#define X(member, symbol, args) cuda_result(*member) args; /* NOLINT(bugprone-macro-parentheses) */
typedef struct cuda_calls {
    void *library;
    int version; /* CUDA version of the driver: 12040 is 12.4 */
    FED_CUDA_CALLS(X)
} cuda_calls;

typedef struct nvrtc_calls {
    void *library; /* NULL: not loaded */
    int major, minor;
    FED_NVRTC_CALLS(X)
} nvrtc_calls;
#undef X

/** Load libcuda.so.1 and initialise it. FED_ENOTFOUND: the library is missing, or finds no device.
 * FED_ESTATE: it can't be used. *err says what to do. */
fed_status fed_cuda_load(cuda_calls *cuda, fed_error *err) FED_CHECKED;
void fed_cuda_unload(cuda_calls *cuda);

/** Load libnvrtc, trying the driver's own version first. FED_ENOTFOUND: it is missing; *err names
 * the package. */
fed_status fed_nvrtc_load(nvrtc_calls *nvrtc, int driver_version, fed_error *err) FED_CHECKED;
void fed_nvrtc_unload(nvrtc_calls *nvrtc);

typedef struct cuda_gpu {
    fed_gpu base;
    cuda_calls cuda;
    cuda_device device;
    cuda_context context; /* the primary one, which CUDA's runtime uses; or the program's */
    bool retained;        /* context is the primary one, and must be released */
    int capability;       /* compute capability: 90 is sm_90 */
    pthread_mutex_t lock; /* protects the members below */
    nvrtc_calls nvrtc;    /* loaded by the first build */
    fed_gpu_module *modules;
} cuda_gpu;

/** Make the GPU's context current in this thread. If the result is true, the caller must call
 * fed_cuda_leave. */
bool fed_cuda_enter(cuda_gpu *g);
void fed_cuda_leave(cuda_gpu *g, bool entered);

/** Turn a driver's result into FED_OK, or FED_ENOMEM or FED_EIO with a sentence on the call. */
fed_status fed_cuda_checked(cuda_gpu *g, cuda_result result, const char *call) FED_CHECKED;

/** In cuda_modules.c. */
fed_status fed_cuda_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                          fed_error *err) FED_CHECKED;
void fed_cuda_free_modules(cuda_gpu *g);
fed_status fed_cuda_function(cuda_gpu *g, const fed_gpu_module *module, const char *name,
                             cuda_function *function) FED_CHECKED;

#endif
