/* 3lc on a GPU: launch the kernels of threelc.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_codec_vtable.h"
#include "codecs/gpu/gpu_texts.h"

/* EACH: values of a work-item in largest_sum and threelc_clear. TILE: bytes of a tile. DIGITS:
 * digits of a byte. */
enum { EACH = 16, TILE = 1024, DIGITS = 5 };

/* Sizes in bytes of the structs stretch and found of threelc.cl. */
enum { STRETCH = 16, FOUND = 16 };

static uint32_t positions_of(size_t n) {
    return (uint32_t)(n / DIGITS + (n % DIGITS != 0));
}

static uint32_t tiles_of(size_t n) {
    return (positions_of(n) + TILE - 1) / TILE;
}

/* The arrays of the work memory, in its order. begin and m: the largest |residual + x| and
 * the scale at encode, the struct found at decode. */
typedef struct work {
    uint8_t *begin, *m, *tiles, *bytes;
} work;

static work work_of(const fedcodec_gpu_job *job) {
    uint8_t *at = job->work;
    return (work){
        .begin = at,
        .m = at + sizeof(uint32_t),
        .tiles = at + FEDCODEC_GPU_ALIGN,
        .bytes =
            at + FEDCODEC_GPU_ALIGN + fedcodec_gpu_round_up((size_t)STRETCH * tiles_of(job->n)),
    };
}

static size_t threelc_work_size(const double *param, size_t n) {
    (void)param;
    return FEDCODEC_GPU_ALIGN + fedcodec_gpu_round_up((size_t)STRETCH * tiles_of(n)) +
           fedcodec_gpu_round_up(positions_of(n));
}

static fed_status find_m(const fedcodec_gpu_job *job, const work *to) {
    const double s = job->param[0];
    const uint32_t zre = job->param[1] != 0.0;
    const fed_gpu_arg largest[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                   FED_GPU_VALUE(job->n), FED_GPU_AT(to->begin)};
    const fed_gpu_arg begin[] = {FED_GPU_VALUE(job->n), FED_GPU_VALUE(s),  FED_GPU_VALUE(zre),
                                 FED_GPU_AT(to->begin), FED_GPU_AT(to->m), FED_GPU_AT(job->message),
                                 FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_fill(job->stream, to->begin, 0, sizeof(uint32_t)));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "largest_sum",
                           fedcodec_gpu_groups(job->n, EACH), largest, 4));
    return fed_gpu_launch(job->stream, job->module, "threelc_begin", 1, begin, 7);
}

static fed_status threelc_encode(const fedcodec_gpu_job *job) {
    const work to = work_of(job);
    const bool shorten = job->param[1] != 0.0;
    uint8_t *bytes = shorten ? to.bytes : job->message + sizeof(float);
    const uint32_t tiles = tiles_of(job->n);
    const fed_gpu_arg digits[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                  FED_GPU_VALUE(job->n),     FED_GPU_AT(to.m),
                                  FED_GPU_AT(bytes),         FED_GPU_AT(to.tiles)};
    const fed_gpu_arg offsets[] = {FED_GPU_VALUE(job->n), FED_GPU_AT(to.m), FED_GPU_AT(to.tiles),
                                   FED_GPU_AT(job->head)};
    const fed_gpu_arg runs[] = {FED_GPU_VALUE(job->n), FED_GPU_AT(to.m), FED_GPU_AT(bytes),
                                FED_GPU_AT(to.tiles), FED_GPU_AT(job->message)};
    FED_TRY(find_m(job, &to));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "threelc_digits", tiles, digits, 6));
    if (!shorten) {
        return FED_OK;
    }
    FED_TRY(fed_gpu_launch(job->stream, job->module, "threelc_offsets", 1, offsets, 4));
    return fed_gpu_launch(job->stream, job->module, "threelc_runs", tiles, runs, 5);
}

static fed_status threelc_read(const fedcodec_gpu_job *job) {
    const work to = work_of(job);
    const uint32_t tiles = job->n == 0 ? 1 : tiles_of(job->n);
    const fed_gpu_arg sizes[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n),    FED_GPU_AT(to.tiles),
                                 FED_GPU_AT(to.begin),     FED_GPU_AT(job->head)};
    const fed_gpu_arg places[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),
                                  FED_GPU_AT(to.tiles), FED_GPU_AT(to.begin),
                                  FED_GPU_AT(job->head)};
    const fed_gpu_arg clear[] = {FED_GPU_VALUE(job->n), FED_GPU_AT(job->y), FED_GPU_AT(job->head)};
    const fed_gpu_arg add[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),
                               FED_GPU_VALUE(job->w),    FED_GPU_AT(to.tiles),
                               FED_GPU_AT(job->y),       FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_fill(job->stream, to.begin, 0, FOUND));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "threelc_sizes", tiles, sizes, 6));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "threelc_places", 1, places, 5));
    if (job->set) {
        FED_TRY(fed_gpu_launch(job->stream, job->module, "threelc_clear",
                               fedcodec_gpu_groups(job->n, EACH), clear, 3));
    }
    return fed_gpu_launch(job->stream, job->module, "threelc_add", tiles, add, 6);
}

const fedcodec_gpu_vtable fedcodec_gpu_threelc = {
    .name = "3lc",
    .kernels = {fedcodec_gpu_codec_text, fedcodec_gpu_blocks_text, fedcodec_gpu_quads_text,
                fedcodec_gpu_threelc_text},
    .work_size = threelc_work_size,
    .encode = threelc_encode,
    .read = threelc_read,
};
