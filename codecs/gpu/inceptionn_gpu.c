/* inceptionn on a GPU: launch the kernels of inceptionn.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_codec_vtable.h"
#include "codecs/gpu/gpu_texts.h"

/* EACH: values of a work-item. FOUND: bytes of the struct found. BIAS, MANTISSA: the exponent's
 * bias and the mantissa bits of float32. */
enum { EACH = 4, FOUND = 32, BIAS = 127, MANTISSA = 23 };

/* The work memory holds the struct found of inceptionn.cl, then a number for each tile. */
static uint8_t *tiles_of(const fedcodec_gpu_job *job) {
    return (uint8_t *)job->work + FEDCODEC_GPU_ALIGN;
}

static size_t inceptionn_work_size(const double *param, size_t n) {
    (void)param;
    return FEDCODEC_GPU_ALIGN +
           fedcodec_gpu_round_up(sizeof(uint32_t) * fedcodec_gpu_groups(n, EACH));
}

static fed_status encode(const fedcodec_gpu_job *job, uint32_t bursts) {
    const uint32_t e = (uint32_t)job->param[0];
    const uint32_t low = (BIAS - e) << MANTISSA, middle = (BIAS - e / 2) << MANTISSA;
    const uint32_t groups = fedcodec_gpu_groups(job->n, EACH);
    uint8_t *tiles = tiles_of(job);
    const fed_gpu_arg sizes[] = {FED_GPU_AT(job->x),    FED_GPU_VALUE(job->n), FED_GPU_VALUE(low),
                                 FED_GPU_VALUE(middle), FED_GPU_VALUE(bursts), FED_GPU_AT(tiles),
                                 FED_GPU_AT(job->head)};
    const fed_gpu_arg places[] = {FED_GPU_VALUE(job->n), FED_GPU_VALUE(bursts), FED_GPU_AT(tiles),
                                  FED_GPU_AT(job->head)};
    const fed_gpu_arg put[] = {FED_GPU_AT(job->x),       FED_GPU_VALUE(job->n), FED_GPU_VALUE(low),
                               FED_GPU_VALUE(middle),    FED_GPU_VALUE(bursts), FED_GPU_AT(tiles),
                               FED_GPU_AT(job->message), FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "inceptionn_sizes", groups, sizes, 7));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "inceptionn_places", 1, places, 4));
    return fed_gpu_launch(job->stream, job->module, "inceptionn_put", groups, put, 8);
}

static fed_status inceptionn_encode(const fedcodec_gpu_job *job) {
    return encode(job, 0);
}

static fed_status inceptionn_bursts(const fedcodec_gpu_job *job) {
    return encode(job, 1);
}

static fed_status inceptionn_read(const fedcodec_gpu_job *job) {
    const uint32_t set = job->set;
    const uint32_t groups = job->n == 0 ? 1 : fedcodec_gpu_groups(job->n, EACH);
    uint8_t *tiles = tiles_of(job), *found = job->work;
    const fed_gpu_arg tags[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                FED_GPU_VALUE(job->n),    FED_GPU_AT(tiles),
                                FED_GPU_AT(found),        FED_GPU_AT(job->head)};
    const fed_gpu_arg begins[] = {FED_GPU_VALUE(job->n), FED_GPU_AT(tiles), FED_GPU_AT(found),
                                  FED_GPU_AT(job->head)};
    const fed_gpu_arg look[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n), FED_GPU_AT(tiles),
                                FED_GPU_AT(found), FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),
                                  FED_GPU_VALUE(job->w),    FED_GPU_VALUE(set),
                                  FED_GPU_AT(tiles),        FED_GPU_AT(found),
                                  FED_GPU_AT(job->y),       FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_fill(job->stream, found, 0, FOUND));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "inceptionn_tags", groups, tags, 6));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "inceptionn_begins", 1, begins, 4));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "inceptionn_look", groups, look, 5));
    return fed_gpu_launch(job->stream, job->module, "inceptionn_read", groups, values, 8);
}

const fedcodec_gpu_vtable fedcodec_gpu_inceptionn = {
    .name = "inceptionn",
    .kernels = {fedcodec_gpu_codec_text, fedcodec_gpu_blocks_text, fedcodec_gpu_quads_text,
                fedcodec_gpu_inceptionn_text},
    .work_size = inceptionn_work_size,
    .encode = inceptionn_encode,
    .bursts = inceptionn_bursts,
    .read = inceptionn_read,
};
