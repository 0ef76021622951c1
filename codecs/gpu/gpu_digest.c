/* Compute the digest of an array on a GPU: launch the kernels of digest.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_digest.h"

/* The constants of digest.cl. */
enum { COLUMNS = 8, BLOCK = 256, SHORT = 60 };

static uint32_t blocks_of(size_t n) {
    return n <= SHORT ? 0 : (uint32_t)((n - 1) / BLOCK);
}

size_t fedcodec_gpu_digest_size(size_t n) {
    return FEDCODEC_GPU_ALIGN +
           fedcodec_gpu_round_up((size_t)blocks_of(n) * COLUMNS * sizeof(uint64_t));
}

fed_status fedcodec_gpu_digest(const fedcodec_gpu_job *job) {
    const uint32_t blocks = blocks_of(job->n);
    uint8_t *sums = (uint8_t *)job->work + FEDCODEC_GPU_ALIGN;
    const fed_gpu_arg each[] = {FED_GPU_AT(job->x), FED_GPU_VALUE(blocks), FED_GPU_AT(sums)};
    const fed_gpu_arg end[] = {FED_GPU_AT(job->x), FED_GPU_VALUE(job->n), FED_GPU_VALUE(blocks),
                               FED_GPU_AT(sums), FED_GPU_AT(job->work)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "digest_blocks",
                           fedcodec_gpu_groups((size_t)blocks * COLUMNS, 1), each, 3));
    return fed_gpu_launch(job->stream, job->module, "digest_end", 1, end, 5);
}
