/* An example: an OpenCL program with its own context, queue and buffers compresses an array on the
 * GPU.
 * cc opencl_program.c $(pkg-config --cflags --libs libfedcodecsgpu) -lOpenCL */
/* SPDX-License-Identifier: Apache-2.0 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#include "fedcodec/gpu_codecs.h"

enum { N = 1 << 20 };

/* x, residual and message belong to the calling program. *result becomes the message's length and
 * the codec's status. */
static fed_status compress(cl_command_queue queue, cl_mem x, cl_mem residual, cl_mem message,
                           size_t cap, const fedcodec *codec, fedcodec_gpu_head *result,
                           fed_error *err) {
    fed_gpu *gpu;
    fed_gpu_stream *stream;
    fedcodec_gpu *coder;
    void *at[3], *work, *head;
    FED_TRY(fed_gpu_open_native("opencl", queue, NULL, &gpu, err));
    FED_TRY(fed_gpu_stream_new(gpu, queue, &stream));
    FED_TRY(fed_gpu_adopt(gpu, x, &at[0]));
    FED_TRY(fed_gpu_adopt(gpu, residual, &at[1]));
    FED_TRY(fed_gpu_adopt(gpu, message, &at[2]));
    FED_TRY(fedcodec_gpu_new(gpu, codec, &coder, err));
    FED_TRY(fed_gpu_alloc(gpu, fedcodec_gpu_work_size(coder, N), &work));
    FED_TRY(fed_gpu_alloc(gpu, sizeof *result, &head));
    FED_TRY(fedcodec_gpu_encode(coder, stream, at[1], at[0], N, work, at[2], cap, head));
    FED_TRY(fed_gpu_copy(stream, result, head, sizeof *result, FED_GPU_DOWN));
    FED_TRY(fed_gpu_sync(stream));
    fedcodec_gpu_free(coder);
    fed_gpu_free(gpu, work);
    fed_gpu_free(gpu, head);
    fed_gpu_stream_free(stream); /* leaves the program's queue open */
    fed_gpu_close(gpu);          /* leaves the program's buffers allocated */
    return FED_OK;
}

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    fedcodec codec;
    fedcodec_gpu_head head = {0};
    fed_error err = {.text = ""};
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        return puts("no OpenCL device found; the example needs one"), 77;
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    float *gradient = calloc(N, sizeof *gradient);
    for (int i = 0; i < N; i++) {
        gradient[i] = (float)((i * 7919L) % 2003 - 1001) * 1e-6F;
    }
    const cl_mem_flags filled = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    cl_mem x = clCreateBuffer(context, filled, N * sizeof(float), gradient, NULL);
    cl_mem residual = clCreateBuffer(context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, NULL);
    const float zero = 0;
    clEnqueueFillBuffer(queue, residual, &zero, sizeof zero, 0, N * sizeof zero, 0, NULL, NULL);
    if (fedcodec_parse("3lc:s=1.75", &codec, &err) != FED_OK) {
        return fprintf(stderr, "%s\n", err.text), EXIT_FAILURE;
    }
    const size_t cap = fedcodec_bound(&codec, N);
    cl_mem message = clCreateBuffer(context, CL_MEM_READ_WRITE, cap, NULL, NULL);
    const fed_status status = compress(queue, x, residual, message, cap, &codec, &head, &err);
    if (status != FED_OK || head.status != FED_OK) {
        return fprintf(stderr, "%s %s\n", fed_status_text(status), err.text), EXIT_FAILURE;
    }
    uint8_t *bytes = malloc(cap);
    clEnqueueReadBuffer(queue, message, CL_TRUE, 0, head.len, bytes, 0, NULL, NULL);
    float *decoded = malloc(N * sizeof *decoded);
    if (fedcodec_decode(codec.vtable, bytes, head.len, decoded, N) != FED_OK) {
        return EXIT_FAILURE; /* the processor must decode what the GPU encoded */
    }
    printf("%u bytes instead of %zu\n", head.len, N * sizeof(float));
    return EXIT_SUCCESS;
}
