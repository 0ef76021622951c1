/* Convolutions behind a max-pool: gradients by weighted sums over what is not 0. */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"

#define MAX_TERMS (FED_SMALL ? 4 : 8)

/* One row of a sparse matrix, and where `terms` vectors lie behind each of its offsets. */
typedef struct gather {
    const float *base;
    const uint32_t *offset;
    const float *value;
    size_t count;
    size_t behind[MAX_TERMS];
} gather;

/* sum[t] = sum_j value[j] * base[offset[j] + behind[t] ..] */
KERNEL_INLINE void gather_terms(const gather *g, vec *sum, const size_t terms) {
    vec total[MAX_TERMS] = {0};
    for (size_t j = 0; j < g->count; j++) {
        const float *from = g->base + g->offset[j];
        float value = g->value[j];
        KERNEL_UNROLL
        for (size_t t = 0; t < terms; t++) {
            total[t] += value * vec_load(from + g->behind[t]);
        }
    }
    KERNEL_UNROLL
    for (size_t t = 0; t < terms; t++) {
        sum[t] = total[t];
    }
}

static void gather_sum(const gather *g, vec *sum, size_t terms) {
    switch (terms) {
    case 1:
        gather_terms(g, sum, 1);
        break;
    case 2:
        gather_terms(g, sum, 2);
        break;
    case 3:
        gather_terms(g, sum, 3);
        break;
#if MAX_TERMS > 4
    case 4:
        gather_terms(g, sum, 4);
        break;
    case 5:
        gather_terms(g, sum, 5);
        break;
    case 6:
        gather_terms(g, sum, 6);
        break;
    case 7:
        gather_terms(g, sum, 7);
        break;
#endif
    default:
        gather_terms(g, sum, MAX_TERMS);
        break;
    }
}

static gather gather_row(const fedtrain_sparse *s, size_t row, const float *base) {
    return (gather){.base = base,
                    .offset = s->offset + row * s->width,
                    .value = s->value + row * s->width,
                    .count = s->count[row]};
}

/* How many segments to sum at once: shares of equal size, none over MAX_TERMS. */
static size_t segments_at_once(const fedtrain_sparse_conv *c) {
    size_t shares = (c->segments + MAX_TERMS - 1) / MAX_TERMS;
    return (c->segments + shares - 1) / shares;
}

/* The patch under each output position gets the weights of the channels, times their gradients. */
void KERNEL(sparse_input_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_position,
                               const float *rows, float *dx) {
    size_t step = segments_at_once(c);
    for (size_t s = 0; s < c->segments; s += step) {
        size_t terms = kernel_smaller(step, c->segments - s);
        for (size_t position = 0; position < c->positions; position++) {
            gather g = gather_row(by_position, position, rows);
            if (g.count == 0) {
                continue;
            }
            for (size_t t = 0; t < terms; t++) {
                g.behind[t] = (s + t) * LANES;
            }
            vec sum[MAX_TERMS];
            gather_sum(&g, sum, terms);
            for (size_t t = 0; t < terms; t++) {
                float *to = dx + c->patch[position] + c->segment[s + t];
                vec_store(to, vec_load(to) + sum[t]);
            }
        }
    }
}

/* The weights of each channel get the patches that it saw, times their gradients. */
void KERNEL(sparse_weight_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_channel,
                                const float *x, float *drows) {
    size_t step = segments_at_once(c);
    for (size_t o = 0; o < c->out; o++) {
        for (size_t s = 0; s < c->segments; s += step) {
            size_t terms = kernel_smaller(step, c->segments - s);
            gather g = gather_row(by_channel, o, x);
            for (size_t t = 0; t < terms; t++) {
                g.behind[t] = c->segment[s + t];
            }
            vec sum[MAX_TERMS];
            gather_sum(&g, sum, terms);
            for (size_t t = 0; t < terms; t++) {
                float *to = drows + (o * c->segments + s + t) * LANES;
                vec_store(to, vec_load(to) + sum[t]);
            }
        }
    }
}
