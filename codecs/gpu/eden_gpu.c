/* eden on a GPU: launch the kernels of digest.cl and eden.cl, for p < 1 those of eden_few.cl and
 * sparse.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_digest.h"
#include "codecs/gpu/gpu_sparse.h"
#include "codecs/gpu/gpu_texts.h"
#include "codecs/prim/eden_message.h"
#include "codecs/prim/positions.h"

/* EACH: values of a work-item. TILE: values of a work-group. SUM, ABOUT: bytes of the structs
 * eden_sum and eden_few of eden_few.cl. */
enum { EACH = 4, TILE = 1024, SUM = 16, ABOUT = 32 };

static const char *eden_lacks(const double *param) {
    return param[EDEN_PARAM_P] < 1.0 && param[EDEN_PARAM_POS] > FEDCODEC_POS_RICE
               ? FEDCODEC_GPU_LACKS_POSITIONS
               : NULL;
}

/* A message to write with p < 1. All pointers are GPU addresses. */
typedef struct few_writing {
    uint32_t flags, shift, most, b, buckets;
    void *sums, *about;
    uint32_t *numbers, *before, *total, *index;
    float *value;
    fedcodec_gpu_positions to;
} few_writing;

/* Set the arrays' places in the work memory, after the digest. Returns the bytes that they take. */
static size_t lay_out_writing(const double *param, size_t n, void *work, few_writing *w) {
    const eden_layout l = eden_layout_of(eden_flags_of(param), eden_shift_of(param), n);
    const unsigned most = eden_most_of(param[EDEN_PARAM_P], l.shift);
    const size_t places = l.buckets * most;
    fedcodec_gpu_room r = {work, fedcodec_gpu_digest_size(n)};
    w->flags = eden_flags_of(param);
    w->shift = l.shift;
    w->most = most;
    w->b = fedcodec_golomb_b(eden_share_of(most, &l));
    w->buckets = (uint32_t)l.buckets;
    w->about = fedcodec_gpu_take(&r, ABOUT);
    w->total = fedcodec_gpu_take(&r, sizeof *w->total);
    w->sums = fedcodec_gpu_take(&r, l.buckets * SUM);
    w->numbers = fedcodec_gpu_take(&r, l.buckets * sizeof *w->numbers);
    w->before = fedcodec_gpu_take(&r, l.buckets * sizeof *w->before);
    w->index = fedcodec_gpu_take(&r, places * sizeof *w->index);
    w->value = fedcodec_gpu_take(&r, places * sizeof *w->value);
    fedcodec_gpu_take_positions(&r, 1, eden_sent_of_all(most, &l), eden_width_of_all(&l), w->b,
                                &w->to);
    return r.used;
}

/* A message to read, if p < 1. rows: the most buckets. */
typedef struct few_reading {
    fedcodec_gpu_reading from;
    void *about;
    uint32_t rows, *before, *total, *there, *negative;
    size_t plane; /* bytes of there and of negative */
} few_reading;

static size_t lay_out_reading(size_t n, size_t cap, void *work, few_reading *read) {
    const size_t tiles = fedcodec_gpu_groups(n, EACH);
    fedcodec_gpu_room r = {work, 0};
    read->rows = (uint32_t)(n >> EDEN_SHIFT_MIN) + 1;
    read->plane = tiles * TILE / 8;
    fedcodec_gpu_take_reading(&r, n + TILE, cap, &read->from);
    read->about = fedcodec_gpu_take(&r, ABOUT);
    read->total = fedcodec_gpu_take(&r, sizeof *read->total);
    read->before = fedcodec_gpu_take(&r, read->rows * sizeof *read->before);
    read->there = fedcodec_gpu_take(&r, read->plane);
    read->negative = fedcodec_gpu_take(&r, read->plane);
    return r.used;
}

static size_t eden_work_size(const double *param, size_t n) {
    few_writing w = {0};
    few_reading r = {0};
    if (param[EDEN_PARAM_P] == 1.0) {
        return fedcodec_gpu_digest_size(n);
    }
    const size_t writing = lay_out_writing(param, n, NULL, &w);
    const size_t reading = lay_out_reading(n, SIZE_MAX, NULL, &r);
    return writing > reading ? writing : reading;
}

static fed_status choose(const fedcodec_gpu_job *job, uint32_t seed, const few_writing *w) {
    const fed_gpu_arg args[] = {
        FED_GPU_AT(job->x),      FED_GPU_VALUE(job->n),  FED_GPU_VALUE(w->flags),
        FED_GPU_VALUE(w->shift), FED_GPU_VALUE(seed),    FED_GPU_VALUE(w->most),
        FED_GPU_AT(job->work),   FED_GPU_AT(w->index),   FED_GPU_AT(w->value),
        FED_GPU_AT(w->sums),     FED_GPU_AT(w->numbers), FED_GPU_AT(w->about),
        FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_fill(job->stream, w->about, 0, ABOUT));
    return fed_gpu_launch(job->stream, job->module, "eden_few_choose",
                          fedcodec_gpu_groups(job->n, EACH), args, 13);
}

static fed_status mark(const fedcodec_gpu_job *job, const few_writing *w) {
    const fed_gpu_arg all[] = {FED_GPU_VALUE(job->n),   FED_GPU_VALUE(w->flags),
                               FED_GPU_VALUE(w->shift), FED_GPU_VALUE(w->most),
                               FED_GPU_AT(w->sums),     FED_GPU_AT(w->about),
                               FED_GPU_AT(job->message)};
    const fed_gpu_arg each[] = {FED_GPU_VALUE(job->n),   FED_GPU_VALUE(w->flags),
                                FED_GPU_VALUE(w->shift), FED_GPU_AT(w->sums),
                                FED_GPU_AT(w->numbers),  FED_GPU_AT(w->about),
                                FED_GPU_AT(w->before),   FED_GPU_AT(job->message)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_few_scale_all", 1, all, 7));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_few_mark",
                           fedcodec_gpu_groups(w->buckets, 1), each, 8));
    return fedcodec_gpu_scan(job, 1, w->before, w->buckets, w->total);
}

static fed_status encode_few(const fedcodec_gpu_job *job, uint32_t seed) {
    few_writing w = {0};
    (void)lay_out_writing(job->param, job->n, job->work, &w);
    const fed_gpu_arg begin[] = {FED_GPU_VALUE(job->n),    FED_GPU_VALUE(w.flags),
                                 FED_GPU_VALUE(w.shift),   FED_GPU_VALUE(w.most),
                                 FED_GPU_VALUE(w.b),       FED_GPU_AT(w.total),
                                 FED_GPU_AT(job->message), FED_GPU_AT(w.to.message)};
    const fed_gpu_arg gather[] = {FED_GPU_VALUE(job->n),    FED_GPU_VALUE(w.flags),
                                  FED_GPU_VALUE(w.shift),   FED_GPU_VALUE(w.most),
                                  FED_GPU_AT(job->message), FED_GPU_AT(w.before),
                                  FED_GPU_AT(w.index),      FED_GPU_AT(w.value),
                                  FED_GPU_AT(w.to.index),   FED_GPU_AT(w.to.value)};
    const uint32_t kind = FEDCODEC_GPU_SPARSE_BARE;
    FED_TRY(choose(job, seed, &w));
    FED_TRY(mark(job, &w));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_few_begin", 1, begin, 8));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_few_gather",
                           fedcodec_gpu_groups((size_t)w.buckets * w.most, 1), gather, 10));
    if (job->param[EDEN_PARAM_POS] == FEDCODEC_POS_RICE) {
        FED_TRY(fedcodec_gpu_find_best_b(job, kind, &w.to));
    }
    return fedcodec_gpu_put_positions(job, kind, &w.to);
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
    if (job->param[EDEN_PARAM_P] < 1.0) {
        return encode_few(job, seed);
    }
    return fed_gpu_launch(job->stream, job->module, "eden_encode",
                          fedcodec_gpu_groups(job->n, EACH), values, 8);
}

static fed_status check_few(const fedcodec_gpu_job *job, const few_reading *r) {
    const fed_gpu_arg marks[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n),    FED_GPU_VALUE(r->rows),
                                 FED_GPU_AT(r->about),     FED_GPU_AT(r->before),
                                 FED_GPU_AT(job->head)};
    const fed_gpu_arg open[] = {FED_GPU_AT(job->message),    FED_GPU_VALUE(job->n),
                                FED_GPU_AT(r->total),        FED_GPU_AT(r->about),
                                FED_GPU_AT(r->from.message), FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_fill(job->stream, r->about, 0, ABOUT));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_few_check",
                           fedcodec_gpu_groups(r->rows, 1), marks, 7));
    FED_TRY(fedcodec_gpu_scan(job, 1, r->before, r->rows, r->total));
    return fed_gpu_launch(job->stream, job->module, "eden_few_open", 1, open, 6);
}

/* Positions are below the widths of all buckets, which the message tells; no such width is above
 * the one here. */
static fed_status read_few(const fedcodec_gpu_job *job) {
    few_reading r = {0};
    (void)lay_out_reading(job->n, job->cap, job->work, &r);
    const uint32_t set = job->set, below = fedcodec_gpu_groups(job->n, EACH) * TILE;
    const fed_gpu_arg place[] = {
        FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),    FED_GPU_AT(r.from.message),
        FED_GPU_AT(r.from.lows),  FED_GPU_AT(r.from.codes), FED_GPU_AT(r.from.moved),
        FED_GPU_AT(r.before),     FED_GPU_AT(r.about),      FED_GPU_AT(r.there),
        FED_GPU_AT(r.negative),   FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {
        FED_GPU_AT(job->message), FED_GPU_VALUE(job->n), FED_GPU_AT(r.there),
        FED_GPU_AT(r.negative),   FED_GPU_AT(r.about),   FED_GPU_VALUE(job->w),
        FED_GPU_VALUE(set),       FED_GPU_AT(job->y),    FED_GPU_AT(job->head)};
    FED_TRY(check_few(job, &r));
    FED_TRY(fedcodec_gpu_check_positions(job, below, &r.from));
    FED_TRY(fed_gpu_fill(job->stream, r.there, 0, r.plane));
    FED_TRY(fed_gpu_fill(job->stream, r.negative, 0, r.plane));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_few_place", r.from.chunks, place, 11));
    return fed_gpu_launch(job->stream, job->module, "eden_few_read",
                          fedcodec_gpu_groups(job->n, EACH), values, 9);
}

static fed_status eden_read(const fedcodec_gpu_job *job) {
    const uint32_t set = job->set, few = job->param[EDEN_PARAM_P] < 1.0;
    const uint32_t groups = job->n == 0 ? 1 : fedcodec_gpu_groups(job->n, EACH);
    const fed_gpu_arg check[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                 FED_GPU_VALUE(job->n), FED_GPU_VALUE(few), FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->n),
                                  FED_GPU_VALUE(job->w),    FED_GPU_VALUE(set),
                                  FED_GPU_AT(job->y),       FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_check", groups, check, 5));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "eden_read", groups, values, 6));
    return few ? read_few(job) : FED_OK;
}

const fedcodec_gpu_vtable fedcodec_gpu_eden = {
    .name = "eden",
    .kernels = {fedcodec_gpu_codec_text, fedcodec_gpu_quads_text, fedcodec_gpu_digest_text,
                fedcodec_gpu_random_text, fedcodec_gpu_select_text, fedcodec_gpu_sparse_text,
                fedcodec_gpu_sparse_read_text, fedcodec_gpu_eden_text, fedcodec_gpu_eden_few_text},
    .lacks = eden_lacks,
    .work_size = eden_work_size,
    .encode = eden_encode,
    .read = eden_read,
};
