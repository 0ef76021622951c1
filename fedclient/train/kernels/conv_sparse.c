/* Convolutions that a max-pool follows: gradients by weighted sums over the values other than 0. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"

/* The most sums that are computed at once. AVX2's 16 registers hold 13 sums and their operands.
 * Weights' gradients need more registers for addresses, so they have fewer sums. */
#define MAX_TERMS (FED_SMALL ? 3 : 13)
enum { MAX_WEIGHT_TERMS = FED_SMALL ? MAX_TERMS : 9 };

/* A sparse matrix. Entry j of row i has k = i * row + j * step. Its value, value[k], is a factor of
 * the vectors at offset[k], or with a lookup table at lookup[offset[k]]. */
typedef struct entries {
    const float *value;
    const uint32_t *offset, *lookup; /* lookup may be NULL */
    const uint32_t *counts;          /* entries of each row; NULL: `count` for all */
    size_t row, step, count;
} entries;

/* For each row of a sparse matrix, several sums of vectors. Sum t adds up the vectors at base +
 * offset + from[t], and is added to the row's target at to[t]. */
typedef struct gather {
    const float *base;
    float *target;
    const uint32_t *row_target; /* where each row's target begins; NULL: row_step apart */
    size_t row_step, rows;
    size_t from[MAX_TERMS], to[MAX_TERMS];
} gather;

/* For each row i: target[to[t] ..] += sum_j value[i, j] * base[offset[i, j] + from[t] ..].
 * from_run, to_run: the vectors at from[] or at to[] lie side by side. */
KERNEL_INLINE void gather_rows(const gather *g, const entries *e, const bool from_run,
                               const bool to_run, const size_t terms) {
    const float *base[MAX_TERMS];
    KERNEL_UNROLL
    for (size_t t = 0; t < terms; t++) {
        base[t] = kernel_apart(g->base + g->from[from_run ? 0 : t]) + (from_run ? t * LANES : 0);
    }
    for (size_t i = 0; i < g->rows; i++) {
        const uint32_t *offset = e->offset + i * e->row, *lookup = e->lookup;
        const float *value = e->value + i * e->row;
        const size_t count = e->counts != NULL ? e->counts[i] : e->count, step = e->step;
        vec total[MAX_TERMS] = {0};
        for (size_t j = 0; j < count; j++, value += step, offset += step) {
            const vec factor = *value - (vec){0};
            const size_t at = lookup != NULL ? lookup[*offset] : *offset;
            KERNEL_UNROLL
            for (size_t t = 0; t < terms; t++) {
                total[t] += factor * vec_load(base[t] + at);
            }
        }
        float *target = g->target + (g->row_target != NULL ? g->row_target[i] : i * g->row_step);
        KERNEL_UNROLL
        for (size_t t = 0; t < terms; t++) {
            float *to = target + (to_run ? g->to[0] + t * LANES : g->to[t]);
            vec_store(to, vec_load(to) + total[t]);
        }
    }
}

#define TERMS(n)                                                                                   \
    case n:                                                                                        \
        gather_rows(g, e, from_run, to_run, n);                                                    \
        break

KERNEL_INLINE void gather_terms(const gather *g, const entries *e, size_t terms,
                                const bool from_run, const bool to_run) {
    switch (terms) {
        TERMS(1);
        TERMS(2);
        TERMS(3);
#if MAX_TERMS > 3
        TERMS(4);
        TERMS(5);
        TERMS(6);
        TERMS(7);
        TERMS(8);
        TERMS(9);
        TERMS(10);
        TERMS(11);
        TERMS(12);
        TERMS(13);
#endif
    default:
        break;
    }
}

static void gather_anywhere(const gather *g, const entries *e, size_t terms) {
    gather_terms(g, e, terms, false, false);
}

/* Return how many of n segments to sum at once: at most `most`, in shares of about equal size. */
static size_t at_once(size_t n, size_t most) {
    size_t shares = (n + most - 1) / most;
    return (n + shares - 1) / shares;
}

/* Find the places of `terms` segments from s on, in an output's weights and in the picture. */
static void share(const fedtrain_sparse_conv *c, size_t s, size_t terms, size_t *in_rows,
                  size_t *in_picture) {
    for (size_t t = 0; t < terms; t++) {
        in_rows[t] = (s + t) * LANES;
        in_picture[t] = c->segment[s + t];
    }
}

/* Add to the patch under each output position the weights of each channel, times that channel's
 * gradient. */
void KERNEL(sparse_input_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_position,
                               const float *rows, float *dx) {
    const size_t step = at_once(c->segments, MAX_TERMS);
    const entries e = {.value = by_position->value,
                       .offset = by_position->offset,
                       .counts = by_position->count,
                       .row = by_position->width,
                       .step = 1};
    gather g = {.base = rows, .target = dx, .row_target = c->patch, .rows = c->positions};
    for (size_t s = 0; s < c->segments; s += step) {
        const size_t terms = kernel_smaller(step, c->segments - s);
        share(c, s, terms, g.from, g.to);
        if (FED_SMALL) {
            gather_anywhere(&g, &e, terms);
        } else {
            gather_terms(&g, &e, terms, true, false);
        }
    }
}

/* Add to the weights' gradient of each channel the patches that its max-pool chose, times their
 * gradients. */
void KERNEL(sparse_weight_grad)(const fedtrain_sparse_conv *c, const int32_t *winner,
                                const float *dy, size_t windows, const float *x, float *drows) {
    const size_t row = c->segments / c->kh;
    /* If `runs` is true, the segments of a share are all in one row. */
    const bool runs = !FED_SMALL && row > MAX_WEIGHT_TERMS / 2;
    const size_t step = at_once(runs ? row : c->segments, MAX_WEIGHT_TERMS);
    const entries e = {.value = dy,
                       .offset = (const uint32_t *)winner,
                       .lookup = c->patch,
                       .row = 1,
                       .step = c->out,
                       .count = windows};
    gather g = {.base = x, .target = drows, .row_step = c->segments * LANES, .rows = c->out};
    for (size_t s = 0, terms; s < c->segments; s += terms) {
        terms = kernel_smaller(step, (runs ? row - s % row : c->segments - s));
        share(c, s, terms, g.to, g.from);
        if (runs) {
            gather_terms(&g, &e, terms, true, true);
        } else {
            gather_anywhere(&g, &e, terms);
        }
    }
}

void KERNEL(im2col)(const fedtrain_im2col *l, const float *x, float *unrolled) {
    /* a copy, which stays in registers since stores to `unrolled` can't change it */
    const fedtrain_im2col s = *l;
    for (size_t i = 0; i < s.rows; i++) {
        for (size_t j = 0; j < s.columns; j++, unrolled += s.vectors * LANES) {
            const float *from = x + i * s.x_row + j * s.x_step;
            for (size_t v = 1; v < s.vectors; v++) {
                vec_store(unrolled + v * LANES, vec_load(from + v * LANES));
            }
            vec first = vec_load(from);
            for (size_t r = 1; r < s.together; r++) {
                const vec below = vec_load(from + r * (s.x_row - s.row));
                first = vec_select(lanes_from(r * s.row), below, first);
            }
            vec_store(unrolled, first);
        }
    }
}
