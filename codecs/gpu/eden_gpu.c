/* eden on a GPU: launch the kernels of digest.cl and eden.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_digest.h"
#include "codecs/gpu/gpu_texts.h"
#include "codecs/prim/eden_message.h"

enum { EACH = 4 }; /* values of a work-item */

static const char *eden_lacks(const double *param) {
    return param[EDEN_PARAM_P] < 1.0 ? "GPUs send all values, p=1; the processor sends fewer"
                                     : NULL;
}

static size_t eden_work_size(const double *param, size_t n) {
    (void)param;
    return fedcodec_gpu_digest_size(n);
}

static fed_status eden_encode(const fedcodec_gpu_job *job) {
    const uint32_t flags = eden_flags_of(job->param), shift = eden_shift_of(job->param);
    const uint32_t seed = (uint32_t)job->param[EDEN_PARAM_SEED];
    const fed_gpu_arg begin[] = {
        FED_GPU_VALUE(job->n), FED_GPU_VALUE(flags),     FED_GPU_VALUE(shift), FED_GPU_VALUE(seed),
        FED_GPU_AT(job->work), FED_GPU_AT(job->message), FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {FED_GPU_AT(job->x),       FED_GPU_VALUE(job->n),
                                  FED_GPU_VALUE(flags),     FED_GPU_VALUE(shift),
                                  FED_GPU_VALUE(seed),      FED_GPU_AT(job->work),
                                  FED_GPU_AT(job->message), FED_GPU_AT(job->head)};
    FED_TRY(fedcodec_gpu_digest(job));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_begin", 1, begin, 7));
    return fed_gpu_launch(job->stream, job->module, "eden_encode",
                          fedcodec_gpu_groups(job->n, EACH), values, 8);
}

static fed_status eden_read(const fedcodec_gpu_job *job) {
    const uint32_t set = job->set;
    const uint32_t groups = job->n == 0 ? 1 : fedcodec_gpu_groups(job->n, EACH);
    const fed_gpu_arg check[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n), FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),
                                  FED_GPU_VALUE(job->w),    FED_GPU_VALUE(set),
                                  FED_GPU_AT(job->y),       FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_check", groups, check, 4));
    return fed_gpu_launch(job->stream, job->module, "eden_read", groups, values, 6);
}

const fedcodec_gpu_vtable fedcodec_gpu_eden = {
    .name = "eden",
    .kernels = {fedcodec_gpu_codec_text, fedcodec_gpu_quads_text, fedcodec_gpu_digest_text,
                fedcodec_gpu_random_text, fedcodec_gpu_eden_text},
    .lacks = eden_lacks,
    .work_size = eden_work_size,
    .encode = eden_encode,
    .read = eden_read,
};
