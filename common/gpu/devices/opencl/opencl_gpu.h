/* Internal to the OpenCL device: what its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GPU_OPENCL_GPU_H
#define FED_GPU_OPENCL_GPU_H

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>

#include "common/gpu/device_vtable.h"

/* The OpenCL functions that are used, by their names in the library. A library may lack the
 * functions of OpenCL 2.0, but no function of OpenCL 1.2. */
#define FED_OPENCL_CALLS(X)                                                                        \
    X(clGetPlatformIDs)                                                                            \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clGetPlatformInfo)                                                                           \
    X(clCreateContext)                                                                             \
    X(clRetainContext)                                                                             \
    X(clReleaseContext)                                                                            \
    X(clCreateCommandQueue)                                                                        \
    X(clGetCommandQueueInfo)                                                                       \
    X(clRetainCommandQueue)                                                                        \
    X(clReleaseCommandQueue)                                                                       \
    X(clCreateProgramWithSource)                                                                   \
    X(clCreateProgramWithBinary)                                                                   \
    X(clBuildProgram)                                                                              \
    X(clGetProgramInfo)                                                                            \
    X(clGetProgramBuildInfo)                                                                       \
    X(clReleaseProgram)                                                                            \
    X(clCreateKernel)                                                                              \
    X(clReleaseKernel)                                                                             \
    X(clSetKernelArg)                                                                              \
    X(clEnqueueNDRangeKernel)                                                                      \
    X(clEnqueueMarkerWithWaitList)                                                                 \
    X(clEnqueueBarrierWithWaitList)                                                                \
    X(clGetEventInfo)                                                                              \
    X(clReleaseEvent)                                                                              \
    X(clCreateBuffer)                                                                              \
    X(clCreateSubBuffer)                                                                           \
    X(clGetMemObjectInfo)                                                                          \
    X(clRetainMemObject)                                                                           \
    X(clReleaseMemObject)                                                                          \
    X(clEnqueueReadBuffer)                                                                         \
    X(clEnqueueWriteBuffer)                                                                        \
    X(clEnqueueCopyBuffer)                                                                         \
    X(clEnqueueFillBuffer)                                                                         \
    X(clFlush)                                                                                     \
    X(clFinish)
#define FED_OPENCL_CALLS_OF_2(X)                                                                   \
    X(clSetKernelArgSVMPointer)                                                                    \
    X(clSVMAlloc)                                                                                  \
    X(clSVMFree)                                                                                   \
    X(clEnqueueSVMMemcpy)                                                                          \
    X(clEnqueueSVMMemFill)

typedef struct opencl_calls {
    void *library;
#define X(name) __typeof__(name) *(name);
    FED_OPENCL_CALLS(X)
    FED_OPENCL_CALLS_OF_2(X)
#undef X
} opencl_calls;

enum { OPENCL_ALIGN = 128 };

typedef struct opencl_block opencl_block;

typedef struct opencl_gpu {
    fed_gpu base;
    opencl_calls cl;
    cl_device_id device;
    cl_context context;
    bool shared;          /* allocates shared virtual memory; false: blocks (opencl_memory.c) */
    bool native;          /* uses the program's context, where all memory is blocks */
    pthread_mutex_t lock; /* protects what follows, and a kernel's arguments until its launch */
    fed_gpu_module *modules;
    opencl_block *blocks;
} opencl_gpu;

/* Return FED_OK, or an error with a sentence that names the call. */
fed_status fed_opencl_checked(opencl_gpu *g, cl_int code, const char *call) FED_CHECKED;

/* In opencl_library.c. */
fed_status fed_opencl_look(uint32_t ordinal, fed_gpu_info *info, fed_error *err) FED_CHECKED;
fed_status fed_opencl_open(uint32_t ordinal, fed_gpu **gpu, fed_error *err) FED_CHECKED;
fed_status fed_opencl_open_native(void *queue, fed_gpu **gpu, fed_error *err) FED_CHECKED;
void fed_opencl_close(fed_gpu *gpu);

/* In opencl_memory.c. */
fed_status fed_opencl_alloc(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
void fed_opencl_free(fed_gpu *gpu, void *at);
fed_status fed_opencl_alloc_host(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
void fed_opencl_free_host(fed_gpu *gpu, void *at);
fed_status fed_opencl_adopt(fed_gpu *gpu, void *native, void **at) FED_CHECKED;
void fed_opencl_free_blocks(opencl_gpu *g);
/* Set argument k of a kernel to an address. The caller holds the lock. */
fed_status fed_opencl_set_address(opencl_gpu *g, cl_kernel kernel, cl_uint k,
                                  const void *at) FED_CHECKED;
fed_status fed_opencl_copy(opencl_gpu *g, cl_command_queue queue, void *to, const void *from,
                           size_t size, fed_gpu_way way) FED_CHECKED;
fed_status fed_opencl_fill(opencl_gpu *g, cl_command_queue queue, void *to, uint8_t value,
                           size_t size) FED_CHECKED;

/* In opencl_modules.c. */
fed_status fed_opencl_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                            fed_error *err) FED_CHECKED;
void fed_opencl_free_modules(opencl_gpu *g);
/* Find a kernel of a module by its name. The caller holds the lock. */
fed_status fed_opencl_kernel(opencl_gpu *g, fed_gpu_module *m, const char *name,
                             cl_kernel *kernel) FED_CHECKED;

/* In opencl_streams.c. */
fed_status fed_opencl_stream_new(fed_gpu *gpu, void *native, fed_gpu_stream **stream) FED_CHECKED;
void fed_opencl_stream_free(fed_gpu_stream *stream);
fed_status fed_opencl_stream_copy(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                                  fed_gpu_way way) FED_CHECKED;
fed_status fed_opencl_stream_fill(fed_gpu_stream *stream, void *to, uint8_t value,
                                  size_t size) FED_CHECKED;
fed_status fed_opencl_launch(fed_gpu_stream *stream, const fed_gpu_module *module, const char *name,
                             uint32_t groups, const fed_gpu_arg *args, size_t count) FED_CHECKED;
fed_status fed_opencl_after(fed_gpu_stream *stream, fed_gpu_stream *other) FED_CHECKED;
fed_status fed_opencl_sync(fed_gpu_stream *stream) FED_CHECKED;
fed_status fed_opencl_done(fed_gpu_stream *stream, bool *done) FED_CHECKED;
fed_status fed_opencl_call(fed_gpu_stream *stream, fed_status (*call)(void *user, void *native),
                           void *user) FED_CHECKED;
fed_status fed_opencl_keep(fed_gpu_stream *stream) FED_CHECKED;
fed_status fed_opencl_kept(fed_gpu_stream *stream, fed_gpu_graph **graph) FED_CHECKED;
fed_status fed_opencl_replay(fed_gpu_stream *stream, fed_gpu_graph *graph) FED_CHECKED;
void fed_opencl_graph_free(fed_gpu_graph *graph);

#endif
