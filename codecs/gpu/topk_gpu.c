/* topk on a GPU: launch the kernels of select.cl and topk.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_select.h"
#include "codecs/gpu/gpu_texts.h"
#include "codecs/prim/forms.h"
#include "codecs/prim/select.h"

static size_t topk_work_size(const double *param, size_t n) {
    return fedcodec_gpu_choice_size(1, fedcodec_select_most(param[0], n), n);
}

static const char *topk_lacks(const double *param) {
    return param[1] > FEDCODEC_FORM_FLOAT32 ? FEDCODEC_GPU_LACKS_FORMS : NULL;
}

static fed_status topk_encode(const fedcodec_gpu_job *job) {
    const size_t k = fedcodec_select_most(job->param[0], job->n);
    const fedcodec_gpu_choice c = fedcodec_gpu_choice_in(job->work, 1, k, job->n);
    const fed_gpu_arg put[] = {FED_GPU_AT(job->residual), FED_GPU_VALUE(job->n),
                               FED_GPU_AT(c.chosen),      FED_GPU_AT(c.found),
                               FED_GPU_AT(c.index),       FED_GPU_AT(c.flag),
                               FED_GPU_AT(c.tiles),       FED_GPU_AT(c.totals),
                               FED_GPU_AT(job->message),  FED_GPU_AT(job->head)};
    if (job->n == 0) {
        return FED_OK;
    }
    FED_TRY(fedcodec_gpu_choose(job, &c));
    return fed_gpu_launch(job->stream, job->module, "topk_put", c.groups, put, 10);
}

static fed_status topk_read(const fedcodec_gpu_job *job) {
    const fedcodec_gpu_choice c = fedcodec_gpu_choice_in(job->work, 1, 0, job->n);
    const uint32_t set = job->set;
    const fed_gpu_arg count[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n), FED_GPU_AT(c.tiles), FED_GPU_AT(job->head)};
    const fed_gpu_arg check[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n),    FED_GPU_AT(c.tiles),
                                 FED_GPU_AT(c.totals),     FED_GPU_AT(job->head)};
    const fed_gpu_arg read[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),
                                FED_GPU_AT(c.tiles),      FED_GPU_VALUE(job->w),
                                FED_GPU_VALUE(set),       FED_GPU_AT(job->y),
                                FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "topk_count", c.groups, count, 5));
    FED_TRY(fedcodec_gpu_scan(job, 1, c.tiles, c.groups, c.totals));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "topk_check", c.groups, check, 6));
    return fed_gpu_launch(job->stream, job->module, "topk_read", c.groups, read, 7);
}

const fedcodec_gpu_vtable fedcodec_gpu_topk = {
    .name = "topk",
    .kernels = {fedcodec_gpu_codec_text, fedcodec_gpu_select_text, fedcodec_gpu_topk_text},
    .lacks = topk_lacks,
    .work_size = topk_work_size,
    .encode = topk_encode,
    .read = topk_read,
};
