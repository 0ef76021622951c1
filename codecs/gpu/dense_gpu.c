/* Codecs that write the same number of bits for each value: launch the kernels of dense.cl, or for
 * trunc those of trunc.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_codec_vtable.h"
#include "codecs/gpu/gpu_texts.h"

/* EACH: values of a work-item. SCALES: bytes of the struct scales of quads.cl. */
enum { EACH = 16, SCALES = 8 };

static size_t work_size(const double *param, size_t n) {
    (void)param;
    (void)n;
    return FEDCODEC_GPU_ALIGN;
}

static fed_status encode(const fedcodec_gpu_job *job) {
    const float p = (float)job->param[0];
    const fed_gpu_arg begin[] = {FED_GPU_VALUE(job->n), FED_GPU_VALUE(p), FED_GPU_AT(job->work),
                                 FED_GPU_AT(job->message), FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                  FED_GPU_VALUE(job->n),     FED_GPU_AT(job->work),
                                  FED_GPU_AT(job->message),  FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "dense_begin", 1, begin, 5));
    return fed_gpu_launch(job->stream, job->module, "dense_encode",
                          fedcodec_gpu_groups(job->n, EACH), values, 6);
}

static fed_status read(const fedcodec_gpu_job *job) {
    const uint32_t set = job->set;
    const uint32_t groups = job->n == 0 ? 1 : fedcodec_gpu_groups(job->n, EACH);
    const fed_gpu_arg check[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n), FED_GPU_AT(job->work),
                                 FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {
        FED_GPU_AT(job->message), FED_GPU_VALUE(job->n), FED_GPU_VALUE(job->w), FED_GPU_VALUE(set),
        FED_GPU_AT(job->work),    FED_GPU_AT(job->y),    FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "dense_check", groups, check, 5));
    return fed_gpu_launch(job->stream, job->module, "dense_read", groups, values, 7);
}

/* int8 needs two more steps than the other codecs. Encode first finds the largest magnitude;
 * decode clears the flag that shows whether a value has the largest level. */

static fed_status int8_encode(const fedcodec_gpu_job *job) {
    uint8_t *most = (uint8_t *)job->work + sizeof(float); /* the address of scales.two */
    const fed_gpu_arg largest[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                   FED_GPU_VALUE(job->n), FED_GPU_AT(most)};
    FED_TRY(fed_gpu_fill(job->stream, job->work, 0, SCALES));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "largest_sum",
                           fedcodec_gpu_groups(job->n, EACH), largest, 4));
    return encode(job);
}

static fed_status int8_read(const fedcodec_gpu_job *job) {
    FED_TRY(fed_gpu_fill(job->stream, job->work, 0, SCALES));
    return read(job);
}

#define TEXT(name) fedcodec_gpu_##name##_text

const fedcodec_gpu_vtable fedcodec_gpu_identity = {
    .name = "float32",
    .kernels = {TEXT(codec), TEXT(quads), TEXT(identity), TEXT(dense)},
    .work_size = work_size,
    .encode = encode,
    .read = read,
};

const fedcodec_gpu_vtable fedcodec_gpu_float16 = {
    .name = "float16",
    .kernels = {TEXT(codec), TEXT(quads), TEXT(float16), TEXT(narrow), TEXT(dense)},
    .work_size = work_size,
    .encode = encode,
    .read = read,
};

const fedcodec_gpu_vtable fedcodec_gpu_bfloat16 = {
    .name = "bfloat16",
    .kernels = {TEXT(codec), TEXT(quads), TEXT(bfloat16), TEXT(narrow), TEXT(dense)},
    .work_size = work_size,
    .encode = encode,
    .read = read,
};

const fedcodec_gpu_vtable fedcodec_gpu_twobit = {
    .name = "twobit",
    .kernels = {TEXT(codec), TEXT(quads), TEXT(twobit), TEXT(dense)},
    .work_size = work_size,
    .encode = encode,
    .read = read,
};

const fedcodec_gpu_vtable fedcodec_gpu_int8 = {
    .name = "int8",
    .kernels = {TEXT(codec), TEXT(quads), TEXT(int8), TEXT(dense)},
    .work_size = work_size,
    .encode = int8_encode,
    .read = int8_read,
};

const fedcodec_gpu_vtable fedcodec_gpu_trunc = {
    .name = "trunc",
    .kernels = {TEXT(codec), TEXT(trunc)},
    .work_size = work_size,
    .encode = encode,
    .read = read,
};
