/* twobit on a GPU: one kernel each way, beside the check. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_codec_vtable.h"
#include "codecs/gpu/gpu_texts.h"

enum { EACH = 4 }; /* values of a work-item */

static fed_status twobit_encode(const fedcodec_gpu_job *job) {
    const float t = (float)job->param[0];
    const fed_gpu_arg values[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                  FED_GPU_VALUE(job->n),     FED_GPU_VALUE(t),
                                  FED_GPU_AT(job->message),  FED_GPU_AT(job->head)};
    const fed_gpu_arg finish[] = {FED_GPU_VALUE(job->n), FED_GPU_VALUE(t), FED_GPU_AT(job->message),
                                  FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "twobit_encode",
                           fedcodec_gpu_groups(job->n, EACH), values, 6));
    return fed_gpu_launch(job->stream, job->module, "twobit_finish", 1, finish, 4);
}

static fed_status twobit_read(const fedcodec_gpu_job *job) {
    const uint32_t set = job->set;
    const uint32_t groups = job->n == 0 ? 1 : fedcodec_gpu_groups(job->n, EACH);
    const fed_gpu_arg check[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n), FED_GPU_AT(job->head)};
    const fed_gpu_arg read[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),
                                FED_GPU_VALUE(job->w),    FED_GPU_VALUE(set),
                                FED_GPU_AT(job->y),       FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "twobit_check", groups, check, 4));
    return fed_gpu_launch(job->stream, job->module, "twobit_read", groups, read, 6);
}

const fedcodec_gpu_vtable fedcodec_gpu_twobit = {
    .name = "twobit",
    .kernels = {fedcodec_gpu_codec_text, fedcodec_gpu_twobit_text},
    .encode = twobit_encode,
    .read = twobit_read,
};
