/* The choice of few values on a GPU: three histograms, then a count for each tile. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_select.h"

enum {
    SIDE = 32,                    /* bytes of `side` */
    BINS = 2 * (2048 + 2 * 1024), /* of both sides, all levels */
    LEVELS = 3,
    SLAB = 64 /* values of a work-item that counts */
};

static uint32_t groups_of(size_t n) {
    return n == 0 ? 1 : fedcodec_gpu_groups(n, FEDCODEC_GPU_EACH);
}

size_t fedcodec_gpu_choice_size(uint32_t sides, size_t n) {
    const size_t numbers = BINS + 2 * (size_t)sides * groups_of(n);
    return FEDCODEC_GPU_ALIGN + fedcodec_gpu_round_up(sizeof(uint32_t) * numbers);
}

fedcodec_gpu_choice fedcodec_gpu_choice_in(void *work, uint32_t sides, size_t k, size_t n) {
    const uint32_t groups = groups_of(n);
    char *at = work;
    fedcodec_gpu_choice c = {.k = (uint32_t)k, .sides = sides, .groups = groups, .chosen = at};
    c.totals = (uint32_t *)(void *)(at + 2 * SIDE);
    c.bins = (uint32_t *)(void *)(at + FEDCODEC_GPU_ALIGN);
    c.tiles = c.bins + BINS;
    return c;
}

fed_status fedcodec_gpu_scan(const fedcodec_gpu_job *job, uint32_t rows, uint32_t *at,
                             uint32_t length, uint32_t *totals) {
    const fed_gpu_arg args[] = {FED_GPU_AT(at), FED_GPU_VALUE(length), FED_GPU_AT(totals)};
    return fed_gpu_launch(job->stream, job->module, "scan_rows", rows, args, 3);
}

static fed_status pick(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c, uint32_t level) {
    const fed_gpu_arg args[] = {FED_GPU_VALUE(c->k), FED_GPU_VALUE(level), FED_GPU_AT(c->bins),
                                FED_GPU_AT(c->chosen)};
    return fed_gpu_launch(job->stream, job->module, "select_pick", c->sides, args, 4);
}

static fed_status find(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c) {
    const uint32_t groups = fedcodec_gpu_groups(job->n, SLAB);
    const fed_gpu_arg absorb[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                  FED_GPU_VALUE(job->n),     FED_GPU_VALUE(c->sides),
                                  FED_GPU_AT(c->bins),       FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_fill(job->stream, c->bins, 0, BINS * sizeof *c->bins));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "select_absorb", groups, absorb, 6));
    FED_TRY(pick(job, c, 1));
    for (uint32_t level = 2; level <= LEVELS; level++) {
        const fed_gpu_arg bins[] = {FED_GPU_AT(job->residual), FED_GPU_VALUE(job->n),
                                    FED_GPU_VALUE(c->sides),   FED_GPU_VALUE(level),
                                    FED_GPU_AT(c->chosen),     FED_GPU_AT(c->bins)};
        FED_TRY(fed_gpu_launch(job->stream, job->module, "select_bins", groups, bins, 6));
        FED_TRY(pick(job, c, level));
    }
    return FED_OK;
}

fed_status fedcodec_gpu_choose(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c) {
    const fed_gpu_arg count[] = {FED_GPU_AT(job->residual), FED_GPU_VALUE(job->n),
                                 FED_GPU_VALUE(c->sides), FED_GPU_AT(c->chosen),
                                 FED_GPU_AT(c->tiles)};
    FED_TRY(find(job, c));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "select_count", c->groups, count, 5));
    return fedcodec_gpu_scan(job, 2 * c->sides, c->tiles, c->groups, c->totals);
}
