/* An example: a CUDA program with its own stream and memory compresses an array on the GPU.
 * nvcc cuda_program.cu $(pkg-config --cflags --libs libfedcodecsgpu) */
/* SPDX-License-Identifier: Apache-2.0 */
#include <cstdio>
#include <cuda_runtime.h>

#include "fedcodec/gpu_codecs.h"

enum { N = 1 << 20 };

__global__ void make_gradient(float *x) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = (float)((i * 7919ULL) % 2003) * 1e-6f - 1e-3f;
}

/* x, residual, message and the stream belong to the calling program. */
static fed_status compress(cudaStream_t queue, float *x, float *residual, uint8_t *message,
                           size_t cap, const fedcodec *codec, fedcodec_gpu_head *result,
                           fed_error *err) {
    fed_gpu *gpu;
    fed_gpu_stream *stream;
    fedcodec_gpu *coder;
    void *work, *head;
    FED_TRY(fed_gpu_open_native("cuda", queue, nullptr, &gpu, err));
    FED_TRY(fed_gpu_stream_new(gpu, queue, &stream));
    FED_TRY(fedcodec_gpu_new(gpu, codec, &coder, err));
    FED_TRY(fed_gpu_alloc(gpu, fedcodec_gpu_work_size(coder, N), &work));
    FED_TRY(fed_gpu_alloc(gpu, sizeof *result, &head));
    FED_TRY(fedcodec_gpu_encode(coder, stream, residual, x, N, work, message, cap,
                                (fedcodec_gpu_head *)head));
    FED_TRY(fed_gpu_copy(stream, result, head, sizeof *result, FED_GPU_DOWN));
    FED_TRY(fed_gpu_sync(stream));
    fedcodec_gpu_free(coder);
    fed_gpu_free(gpu, work);
    fed_gpu_free(gpu, head);
    fed_gpu_stream_free(stream); /* leaves the program's CUDA stream open */
    fed_gpu_close(gpu);
    return FED_OK;
}

int main() {
    float *x = nullptr, *residual = nullptr;
    uint8_t *message = nullptr;
    cudaStream_t queue = nullptr;
    fedcodec codec;
    fedcodec_gpu_head head = {};
    fed_error err = {};
    if (fedcodec_parse("3lc:s=1.75", &codec, &err) != FED_OK) {
        return std::fprintf(stderr, "%s\n", err.text), 1;
    }
    const size_t cap = fedcodec_bound(&codec, N);
    if (cudaStreamCreate(&queue) != cudaSuccess || cudaMalloc(&x, N * sizeof *x) != cudaSuccess ||
        cudaMalloc(&residual, N * sizeof *x) != cudaSuccess ||
        cudaMalloc(&message, cap) != cudaSuccess) {
        return std::puts("no CUDA device found; the example needs one"), 77;
    }
    cudaMemsetAsync(residual, 0, N * sizeof *x, queue);
    make_gradient<<<N / 256, 256, 0, queue>>>(x);
    const fed_status status = compress(queue, x, residual, message, cap, &codec, &head, &err);
    if (status != FED_OK || head.status != FED_OK) {
        return std::fprintf(stderr, "%s %s\n", fed_status_text(status), err.text), 1;
    }
    std::printf("%u bytes instead of %zu\n", head.len, N * sizeof *x);
    return 0;
}
