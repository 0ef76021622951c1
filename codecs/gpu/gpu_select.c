/* Choose the values of largest magnitude on a GPU: launch the kernels of select.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_select.h"

#include <math.h>

/* The constants of select.cl. There, SLAB counts the values of a work-group, not of a work-item. */
enum {
    SIDES = 4 * 32, /* bytes of four structs of the type side of select.cl */
    FIRST_BINS = 2048,
    NEXT_BINS = 1024,
    BINS = 2 * (3 * FIRST_BINS + 2 * NEXT_BINS), /* counters of both sides and all levels */
    SAMPLE = 0,
    CANDIDATES,
    ALL_VALUES,
    LEVELS = ALL_VALUES + 3,
    ROOM = 256, /* most candidates of a tile */
    SLAB = 64   /* values of a work-item in the counting kernels */
};

/* A sample saves time if there are at least LEAST values and at most 1 / FEW of them are chosen. */
enum { LEAST = 1 << 16, FEW = 16, SAMPLE_GROUPS = 8, SAMPLES = SAMPLE_GROUPS * 2048 };

static bool is_sampled(uint32_t sides, size_t k, size_t n) {
    return n >= LEAST && sides * k <= n / FEW;
}

static uint32_t groups_of(size_t n) {
    return n == 0 ? 1 : fedcodec_gpu_groups(n, FEDCODEC_GPU_EACH);
}

size_t fedcodec_gpu_choice_size(uint32_t sides, size_t k, size_t n) {
    const size_t each = 2 * (size_t)sides + (is_sampled(sides, k, n) ? 1 + ROOM : 0);
    return SIDES + FEDCODEC_GPU_ALIGN +
           fedcodec_gpu_round_up(sizeof(uint32_t) * (BINS + each * groups_of(n)));
}

fedcodec_gpu_choice fedcodec_gpu_choice_in(void *work, uint32_t sides, size_t k, size_t n) {
    const uint32_t groups = groups_of(n);
    fedcodec_gpu_choice c = {.k = (uint32_t)k,
                             .sides = sides,
                             .groups = groups,
                             .sampled = is_sampled(sides, k, n),
                             .chosen = work};
    c.totals = (uint32_t *)(void *)((char *)work + SIDES);
    c.flag = c.totals + 4;
    c.bins = c.totals + FEDCODEC_GPU_ALIGN / sizeof *c.totals;
    c.tiles = c.bins + BINS;
    if (c.sampled) {
        c.found = c.tiles + 2 * (size_t)sides * groups;
        c.index = c.found + groups;
    }
    return c;
}

fed_status fedcodec_gpu_scan(const fedcodec_gpu_job *job, uint32_t rows, uint32_t *at,
                             uint32_t length, uint32_t *totals) {
    const fed_gpu_arg args[] = {FED_GPU_AT(at), FED_GPU_VALUE(length), FED_GPU_AT(totals)};
    return fed_gpu_launch(job->stream, job->module, "scan_rows", rows, args, 3);
}

static fed_status pick(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c, uint32_t k,
                       uint32_t level) {
    const fed_gpu_arg args[] = {FED_GPU_VALUE(k), FED_GPU_VALUE(level), FED_GPU_AT(c->bins),
                                FED_GPU_AT(c->chosen), FED_GPU_AT(c->flag)};
    return fed_gpu_launch(job->stream, job->module, "select_pick", c->sides, args, 5);
}

static fed_status bins(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c, uint32_t level) {
    const fed_gpu_arg args[] = {
        FED_GPU_AT(job->residual), FED_GPU_VALUE(job->n), FED_GPU_VALUE(c->sides),
        FED_GPU_VALUE(level),      FED_GPU_AT(c->chosen), FED_GPU_AT(c->found),
        FED_GPU_AT(c->index),      FED_GPU_AT(c->flag),   FED_GPU_AT(c->bins)};
    const uint32_t groups = fedcodec_gpu_groups(job->n, SLAB);
    return fed_gpu_launch(job->stream, job->module, "select_bins", groups, args, 9);
}

static fed_status absorb_by_sample(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c) {
    const fed_gpu_arg sample[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                  FED_GPU_VALUE(job->n), FED_GPU_VALUE(c->sides),
                                  FED_GPU_AT(c->bins)};
    const fed_gpu_arg list[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                FED_GPU_VALUE(job->n),     FED_GPU_VALUE(c->sides),
                                FED_GPU_AT(c->chosen),     FED_GPU_AT(c->bins),
                                FED_GPU_AT(c->found),      FED_GPU_AT(c->index),
                                FED_GPU_AT(c->flag),       FED_GPU_AT(job->head)};
    const uint32_t groups = fedcodec_gpu_groups(job->n, SLAB);
    /* Choose a rank in the sample. The key of this rank almost surely lies below the k-th greatest
     * key of all values, so that enough values exceed it. */
    const double expected = (double)c->k * SAMPLES / (double)job->n;
    const uint32_t rank = (uint32_t)(expected + 4.0 * sqrt(expected) + 4.0);
    FED_TRY(fed_gpu_launch(job->stream, job->module, "select_sample", SAMPLE_GROUPS, sample, 5));
    FED_TRY(pick(job, c, rank, SAMPLE));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "select_list_candidates", groups, list, 10));
    FED_TRY(pick(job, c, c->k, CANDIDATES));
    return bins(job, c, ALL_VALUES);
}

static fed_status absorb_all(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c) {
    const uint32_t groups = fedcodec_gpu_groups(job->n, SLAB);
    const fed_gpu_arg absorb[] = {FED_GPU_AT(job->residual), FED_GPU_AT(job->x),
                                  FED_GPU_VALUE(job->n),     FED_GPU_VALUE(c->sides),
                                  FED_GPU_AT(c->bins),       FED_GPU_AT(job->head)};
    return fed_gpu_launch(job->stream, job->module, "select_absorb", groups, absorb, 6);
}

fed_status fedcodec_gpu_choose(const fedcodec_gpu_job *job, const fedcodec_gpu_choice *c) {
    const fed_gpu_arg count[] = {FED_GPU_AT(job->residual), FED_GPU_VALUE(job->n),
                                 FED_GPU_VALUE(c->sides),   FED_GPU_AT(c->chosen),
                                 FED_GPU_AT(c->found),      FED_GPU_AT(c->index),
                                 FED_GPU_AT(c->flag),       FED_GPU_AT(c->tiles)};
    FED_TRY(fed_gpu_fill(job->stream, c->bins, 0, BINS * sizeof *c->bins));
    FED_TRY(fed_gpu_fill(job->stream, c->flag, !c->sampled, sizeof *c->flag));
    FED_TRY(c->sampled ? absorb_by_sample(job, c) : absorb_all(job, c));
    FED_TRY(pick(job, c, c->k, ALL_VALUES));
    for (uint32_t level = ALL_VALUES + 1; level < LEVELS; level++) {
        FED_TRY(bins(job, c, level));
        FED_TRY(pick(job, c, c->k, level));
    }
    FED_TRY(fed_gpu_launch(job->stream, job->module, "select_count", c->groups, count, 8));
    return fedcodec_gpu_scan(job, 2 * c->sides, c->tiles, c->groups, c->totals);
}
