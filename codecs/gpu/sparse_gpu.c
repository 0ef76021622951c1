/* sbc, stc and dgc on a GPU: launch the kernels of select.cl, sparse.cl and sparse_read.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_sparse.h"
#include "codecs/gpu/gpu_texts.h"
#include "codecs/prim/golomb.h"
#include "codecs/prim/select.h"
#include "codecs/prim/sparse.h"

enum { CHUNK = 64, HEAD = 32 }; /* bytes: a chunk of positions; the struct message */

static size_t most_of(size_t a, size_t b) {
    return a > b ? a : b;
}

typedef struct writing {
    fedcodec_gpu_choice choice;
    fedcodec_gpu_positions to;
    uint32_t k, b;
    uint64_t *parts;
} writing;

static uint32_t sides_of(fedcodec_sparse kind) {
    return kind == FEDCODEC_SPARSE_MEAN ? 2 : 1;
}

void fedcodec_gpu_take_positions(fedcodec_gpu_room *r, uint32_t sides, size_t k, size_t n,
                                 unsigned b, fedcodec_gpu_positions *w) {
    w->k = (uint32_t)k;
    w->each = fedcodec_gpu_groups(k, FEDCODEC_GPU_EACH);
    w->word_bytes = fedcodec_gpu_round_up(fedcodec_golomb_bound(n, k, b) + sizeof(uint64_t));
    w->message = fedcodec_gpu_take(r, HEAD);
    w->index = fedcodec_gpu_take(r, sides * k * sizeof *w->index);
    w->value = fedcodec_gpu_take(r, sides * k * sizeof *w->value);
    w->tiles = fedcodec_gpu_take(r, w->each * sizeof *w->tiles);
    w->bits = fedcodec_gpu_take(r, sizeof *w->bits);
    w->words = fedcodec_gpu_take(r, w->word_bytes);
}

static size_t lay_out_writing(fedcodec_sparse kind, const double *param, size_t n, void *work,
                              writing *w) {
    const uint32_t sides = sides_of(kind);
    const size_t k = fedcodec_select_most(param[0], n);
    fedcodec_gpu_room r = {work, fedcodec_gpu_choice_size(sides, k, n)};
    w->k = (uint32_t)k;
    w->b = fedcodec_golomb_b(param[0]);
    fedcodec_gpu_take_positions(&r, sides, k, n, w->b, &w->to);
    w->parts = fedcodec_gpu_take(&r, (size_t)sides * w->to.each * sizeof *w->parts);
    if (work != NULL) {
        w->choice = fedcodec_gpu_choice_in(work, sides, k, n);
    }
    return r.used;
}

static fed_status list_values(const fedcodec_gpu_job *job, const writing *w) {
    const fedcodec_gpu_choice *c = &w->choice;
    const fed_gpu_arg list[] = {
        FED_GPU_AT(job->residual), FED_GPU_VALUE(job->n),  FED_GPU_VALUE(c->sides),
        FED_GPU_AT(c->chosen),     FED_GPU_AT(c->found),   FED_GPU_AT(c->index),
        FED_GPU_AT(c->flag),       FED_GPU_AT(c->tiles),   FED_GPU_VALUE(w->k),
        FED_GPU_AT(w->to.index),   FED_GPU_AT(w->to.value)};
    FED_TRY(fedcodec_gpu_choose(job, c));
    return fed_gpu_launch(job->stream, job->module, "select_list", c->groups, list, 11);
}

static fed_status find_means(const fedcodec_gpu_job *job, const writing *w) {
    const fedcodec_gpu_choice *c = &w->choice;
    const fed_gpu_arg args[] = {FED_GPU_AT(c->chosen),     FED_GPU_AT(c->totals),
                                FED_GPU_AT(w->to.value),   FED_GPU_VALUE(w->k),
                                FED_GPU_VALUE(w->to.each), FED_GPU_AT(w->parts)};
    FED_TRY(
        fed_gpu_launch(job->stream, job->module, "sparse_sums", c->sides * w->to.each, args, 6));
    return fed_gpu_launch(job->stream, job->module, "sparse_means", c->sides, args, 6);
}

fed_status fedcodec_gpu_put_positions(const fedcodec_gpu_job *job, uint32_t kind,
                                      const fedcodec_gpu_positions *w) {
    const fed_gpu_arg lengths[] = {FED_GPU_AT(w->message), FED_GPU_AT(w->index),
                                   FED_GPU_VALUE(w->k), FED_GPU_AT(w->tiles)};
    const fed_gpu_arg put[] = {
        FED_GPU_AT(w->message), FED_GPU_AT(w->index),     FED_GPU_AT(w->value),
        FED_GPU_VALUE(w->k),    FED_GPU_VALUE(kind),      FED_GPU_AT(w->tiles),
        FED_GPU_AT(w->words),   FED_GPU_AT(job->message), FED_GPU_AT(job->residual)};
    const fed_gpu_arg finish[] = {FED_GPU_AT(w->message), FED_GPU_AT(w->words), FED_GPU_AT(w->bits),
                                  FED_GPU_AT(job->message), FED_GPU_AT(job->head)};
    const uint32_t finishers = fedcodec_gpu_groups(w->word_bytes, sizeof *w->words);
    FED_TRY(fed_gpu_fill(job->stream, w->words, 0xff, w->word_bytes));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "sparse_lengths", w->each, lengths, 4));
    FED_TRY(fedcodec_gpu_scan(job, 1, w->tiles, w->each, w->bits));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "sparse_put", w->each, put, 9));
    return fed_gpu_launch(job->stream, job->module, "sparse_finish", finishers, finish, 5);
}

/* The sums use memory that the codes' bits use later. */
fed_status fedcodec_gpu_find_best_b(const fedcodec_gpu_job *job, uint32_t kind,
                                    const fedcodec_gpu_positions *w) {
    uint32_t *sums = w->words;
    const fed_gpu_arg ones[] = {FED_GPU_AT(w->message), FED_GPU_AT(w->index), FED_GPU_VALUE(w->k),
                                FED_GPU_AT(sums)};
    const fed_gpu_arg best[] = {FED_GPU_VALUE(kind), FED_GPU_AT(sums), FED_GPU_AT(job->message),
                                FED_GPU_AT(w->message)};
    FED_TRY(fed_gpu_fill(job->stream, sums, 0, FEDCODEC_GPU_ALIGN));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "sparse_ones", w->each, ones, 4));
    return fed_gpu_launch(job->stream, job->module, "sparse_best", 1, best, 4);
}

static fed_status encode(fedcodec_sparse as, const fedcodec_gpu_job *job) {
    const uint32_t kind = as, sides = sides_of(as);
    writing w = {0};
    (void)lay_out_writing(as, job->param, job->n, job->work, &w);
    const fed_gpu_arg begin[] = {FED_GPU_AT(w.choice.chosen), FED_GPU_AT(w.choice.totals),
                                 FED_GPU_VALUE(kind),         FED_GPU_VALUE(sides),
                                 FED_GPU_VALUE(w.b),          FED_GPU_AT(job->message),
                                 FED_GPU_AT(w.to.message)};
    FED_TRY(list_values(job, &w));
    if (as != FEDCODEC_SPARSE_VALUES) {
        FED_TRY(find_means(job, &w));
    }
    FED_TRY(fed_gpu_launch(job->stream, job->module, "sparse_begin", 1, begin, 7));
    if (job->param[1] == FEDCODEC_POS_RICE) {
        FED_TRY(fedcodec_gpu_find_best_b(job, kind, &w.to));
    }
    return fedcodec_gpu_put_positions(job, kind, &w.to);
}

/* n codes have at most 32 bits each without their unary ones, and at most n unary ones together. */
void fedcodec_gpu_take_reading(fedcodec_gpu_room *r, size_t n, size_t cap,
                               fedcodec_gpu_reading *read) {
    const size_t most = 4 * n + n / 8 + CHUNK, bytes = cap < most ? cap : most;
    read->chunks = fedcodec_gpu_groups(bytes, CHUNK);
    read->message = fedcodec_gpu_take(r, HEAD);
    read->lows = fedcodec_gpu_take(r, (size_t)read->chunks * FED_GPU_GROUP);
    read->ends = fedcodec_gpu_take(r, read->chunks);
    read->codes = fedcodec_gpu_take(r, read->chunks * sizeof *read->codes);
    read->moved = fedcodec_gpu_take(r, read->chunks * sizeof *read->moved);
}

static fed_status check_head(const fedcodec_gpu_job *job, uint32_t kind,
                             const fedcodec_gpu_reading *r) {
    const fed_gpu_arg open[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(job->cap),
                                FED_GPU_VALUE(job->n),    FED_GPU_VALUE(kind),
                                FED_GPU_AT(r->message),   FED_GPU_AT(job->head)};
    const fed_gpu_arg values[] = {FED_GPU_AT(job->message), FED_GPU_VALUE(kind),
                                  FED_GPU_AT(r->message), FED_GPU_AT(job->head)};
    /* A message of cap bytes has at most cap float32 values, or 8 * cap signs. */
    const size_t held = kind == FEDCODEC_SPARSE_SIGNS ? 8 * job->cap : job->cap;
    const size_t most = job->n < held ? job->n : held;
    const uint32_t groups =
        kind == FEDCODEC_SPARSE_MEAN ? 0 : fedcodec_gpu_groups(most, FEDCODEC_GPU_EACH);
    FED_TRY(fed_gpu_launch(job->stream, job->module, "sparse_open", 1, open, 6));
    return fed_gpu_launch(job->stream, job->module, "sparse_check_values", groups, values, 4);
}

fed_status fedcodec_gpu_check_positions(const fedcodec_gpu_job *job, uint32_t n,
                                        const fedcodec_gpu_reading *r) {
    const fed_gpu_arg starts[] = {FED_GPU_AT(job->message), FED_GPU_AT(r->message),
                                  FED_GPU_AT(job->head), FED_GPU_AT(r->lows), FED_GPU_AT(r->ends)};
    const fed_gpu_arg count[] = {FED_GPU_AT(job->message), FED_GPU_AT(r->message),
                                 FED_GPU_AT(job->head),    FED_GPU_AT(r->lows),
                                 FED_GPU_AT(r->codes),     FED_GPU_AT(r->moved)};
    const fed_gpu_arg sum[] = {FED_GPU_AT(r->message), FED_GPU_AT(r->codes), FED_GPU_AT(r->moved),
                               FED_GPU_AT(job->head)};
    const fed_gpu_arg last[] = {
        FED_GPU_AT(job->message), FED_GPU_VALUE(n),     FED_GPU_AT(r->message), FED_GPU_AT(r->lows),
        FED_GPU_AT(r->codes),     FED_GPU_AT(r->moved), FED_GPU_AT(job->head)};
    FED_TRY(fed_gpu_launch(job->stream, job->module, "golomb_guess", r->chunks, starts, 5));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "golomb_settle", 1, starts, 5));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "golomb_count", r->chunks, count, 6));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "golomb_sum", 1, sum, 4));
    return fed_gpu_launch(job->stream, job->module, "golomb_check", r->chunks, last, 7);
}

static fed_status read_message(fedcodec_sparse as, const fedcodec_gpu_job *job) {
    const uint32_t kind = as;
    fedcodec_gpu_reading r;
    fedcodec_gpu_room room = {job->work, 0};
    fedcodec_gpu_take_reading(&room, job->n, job->cap, &r);
    const fed_gpu_arg clear[] = {FED_GPU_VALUE(job->n), FED_GPU_AT(job->y), FED_GPU_AT(job->head)};
    const fed_gpu_arg add[] = {
        FED_GPU_AT(job->message), FED_GPU_VALUE(kind), FED_GPU_AT(r.message),
        FED_GPU_AT(r.lows),       FED_GPU_AT(r.codes), FED_GPU_AT(r.moved),
        FED_GPU_VALUE(job->w),    FED_GPU_AT(job->y),  FED_GPU_AT(job->head)};
    const uint32_t cleared = job->set ? fedcodec_gpu_groups(job->n, FEDCODEC_GPU_EACH) : 0;
    FED_TRY(check_head(job, kind, &r));
    FED_TRY(fedcodec_gpu_check_positions(job, job->n, &r));
    FED_TRY(fed_gpu_launch(job->stream, job->module, "sparse_clear", cleared, clear, 3));
    return fed_gpu_launch(job->stream, job->module, "golomb_add", r.chunks, add, 9);
}

static size_t work_size(fedcodec_sparse kind, const double *param, size_t n) {
    writing w;
    fedcodec_gpu_reading r;
    fedcodec_gpu_room room = {NULL, 0};
    fedcodec_gpu_take_reading(&room, n, SIZE_MAX, &r);
    return most_of(lay_out_writing(kind, param, n, NULL, &w), room.used);
}

static const char *lacks(fedcodec_sparse kind, const double *param) {
    if (kind == FEDCODEC_SPARSE_VALUES && param[2] > FEDCODEC_FORM_FLOAT32) {
        return FEDCODEC_GPU_LACKS_FORMS;
    }
    return param[1] <= FEDCODEC_POS_RICE ? NULL : FEDCODEC_GPU_LACKS_POSITIONS;
}

// clang-format off
#define SPARSE_ON_GPU(codec, kind)                                                                 \
    static const char *codec##_lacks(const double *param) {                                        \
        return lacks(kind, param);                                                                 \
    }                                                                                              \
    static size_t codec##_work_size(const double *param, size_t n) {                               \
        return work_size(kind, param, n);                                                          \
    }                                                                                              \
    static fed_status codec##_encode(const fedcodec_gpu_job *job) {                                \
        return encode(kind, job);                                                                  \
    }                                                                                              \
    static fed_status codec##_read(const fedcodec_gpu_job *job) {                                  \
        return read_message(kind, job);                                                            \
    }                                                                                              \
    const fedcodec_gpu_vtable fedcodec_gpu_##codec = {                                             \
        .name = #codec,                                                                            \
        .kernels = {fedcodec_gpu_codec_text, fedcodec_gpu_select_text, fedcodec_gpu_sparse_text,   \
                    fedcodec_gpu_sparse_read_text},                                                \
        .lacks = codec##_lacks,                                                                    \
        .work_size = codec##_work_size,                                                            \
        .encode = codec##_encode,                                                                  \
        .read = codec##_read,                                                                      \
    }
// clang-format on

SPARSE_ON_GPU(sbc, FEDCODEC_SPARSE_MEAN);
SPARSE_ON_GPU(stc, FEDCODEC_SPARSE_SIGNS);
SPARSE_ON_GPU(dgc, FEDCODEC_SPARSE_VALUES);
