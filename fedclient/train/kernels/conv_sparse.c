/* Convolutions behind a max-pool: gradients by weighted sums over what is not 0. */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"

#define MAX_TERMS (FED_SMALL ? 4 : 8)

/* One row of a sparse matrix, where `terms` vectors lie behind each of its offsets, and where their
 * sums are added. */
typedef struct gather {
    const float *base;
    const uint32_t *offset;
    const float *value;
    size_t count;
    float *target;
    size_t from[MAX_TERMS], to[MAX_TERMS];
} gather;

/* target[to[t] ..] += sum_j value[j] * base[offset[j] + from[t] ..] */
KERNEL_INLINE void gather_terms(const gather *g, const size_t terms) {
    vec total[MAX_TERMS] = {0};
    for (size_t j = 0; j < g->count; j++) {
        const float *from = g->base + g->offset[j];
        float value = g->value[j];
        KERNEL_UNROLL
        for (size_t t = 0; t < terms; t++) {
            total[t] += value * vec_load(from + g->from[t]);
        }
    }
    KERNEL_UNROLL
    for (size_t t = 0; t < terms; t++) {
        float *to = g->target + g->to[t];
        vec_store(to, vec_load(to) + total[t]);
    }
}

static void gather_row(gather *g, const fedtrain_sparse *s, size_t row, size_t terms) {
    g->offset = s->offset + row * s->width;
    g->value = s->value + row * s->width;
    g->count = s->count[row];
    switch (terms) {
    case 1:
        gather_terms(g, 1);
        break;
    case 2:
        gather_terms(g, 2);
        break;
    case 3:
        gather_terms(g, 3);
        break;
#if MAX_TERMS > 4
    case 4:
        gather_terms(g, 4);
        break;
    case 5:
        gather_terms(g, 5);
        break;
    case 6:
        gather_terms(g, 6);
        break;
    case 7:
        gather_terms(g, 7);
        break;
#endif
    default:
        gather_terms(g, MAX_TERMS);
        break;
    }
}

/* How many segments to sum at once: shares of equal size, none over MAX_TERMS. */
static size_t segments_at_once(const fedtrain_sparse_conv *c) {
    size_t shares = (c->segments + MAX_TERMS - 1) / MAX_TERMS;
    return (c->segments + shares - 1) / shares;
}

/* Segments s and on, `terms` of them: where each lies in the rows of an output's weights, and where
 * it meets the picture. */
static void share(const fedtrain_sparse_conv *c, size_t s, size_t terms, size_t *in_rows,
                  size_t *in_picture) {
    for (size_t t = 0; t < terms; t++) {
        in_rows[t] = (s + t) * LANES;
        in_picture[t] = c->segment[s + t];
    }
}

/* The patch under each output position gets the weights of the channels, times their gradients. */
void KERNEL(sparse_input_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_position,
                               const float *rows, float *dx) {
    size_t step = segments_at_once(c);
    gather g = {.base = rows};
    for (size_t s = 0; s < c->segments; s += step) {
        size_t terms = kernel_smaller(step, c->segments - s);
        share(c, s, terms, g.from, g.to);
        for (size_t position = 0; position < c->positions; position++) {
            g.target = dx + c->patch[position];
            gather_row(&g, by_position, position, terms);
        }
    }
}

/* The weights of each channel get the patches that it saw, times their gradients. */
void KERNEL(sparse_weight_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_channel,
                                const float *x, float *drows) {
    size_t step = segments_at_once(c);
    gather g = {.base = x};
    for (size_t s = 0; s < c->segments; s += step) {
        size_t terms = kernel_smaller(step, c->segments - s);
        share(c, s, terms, g.to, g.from);
        for (size_t o = 0; o < c->out; o++) {
            g.target = drows + o * c->segments * LANES;
            gather_row(&g, by_channel, o, terms);
        }
    }
}
