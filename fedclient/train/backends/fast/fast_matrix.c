/* Products of many vectors with one weight in the fast backend: dense layers at each position, and
 * LSTMs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"

/* The number of the weight's rows that are processed at once. It is a multiple of the panel of
 * every vector unit, and small enough that rows and products stay in cache. */
enum { CHUNK = 192 };

static size_t chunk_of(const fast_matrix *m) {
    return m->out < CHUNK ? m->out : CHUNK;
}

static size_t packed(size_t k, size_t n) {
    return fedtrain_fast_round_up(k * fedtrain_fast_round_up(n, FEDTRAIN_PACKED), FEDTRAIN_PACKED);
}

size_t fedtrain_fast_matrix_scratch(const fast_net *f, const fast_matrix *m) {
    size_t chunk = chunk_of(m), forward = packed(m->in, chunk);
    size_t backward = packed(m->rows, m->in) + packed(chunk, m->in) + packed(m->rows, chunk);
    size_t pairs = packed(m->rows, m->in > m->out ? m->in : m->out);
    return (forward > backward ? forward : backward) + (fedtrain_fast_pairs(f) != NULL ? pairs : 0);
}

void fedtrain_fast_matrix_forward(const fast_net *f, const fast_matrix *m, const float *weight,
                                  const float *bias, const float *x, float *y, float *scratch) {
    fedtrain_gemm g = {.m = m->rows, .k = m->in, .a_row = m->in, .a_column = 1, .c_row = m->out};
    const float *a =
        fedtrain_fast_operand(f, x, m->rows * m->in, 1, scratch + packed(m->in, chunk_of(m)));
    for (size_t o = 0; o < m->out; o += g.n) {
        g.n = m->out - o < CHUNK ? m->out - o : CHUNK;
        g.start = bias != NULL ? bias + o : NULL;
        f->kernels->gemm_pack(weight + o * m->in, 1, m->in, m->in, g.n, scratch);
        f->kernels->gemm(&g, a, scratch, y + o);
    }
}

/* Sum the first n columns of dy, for the bias's gradient. */
static void bias_backward(const fast_matrix *m, const float *dy, size_t n, size_t offset,
                          const fast_flow *w) {
    float *bias = fedtrain_fast_grad_at(w, offset);
    memcpy(bias, dy, n * sizeof *bias);
    for (size_t i = 1; i < m->rows; i++) {
        for (size_t o = 0; o < n; o++) {
            bias[o] += dy[i * m->out + o];
        }
    }
    fedtrain_fast_grad_done(w, offset, bias, n);
}

/* dw[o, :] = sum_i dy[i, o] x[i, :] for n packed columns of dy. The columns of a panel lie side by
 * side, as the product reads them. */
static void weight_backward(const fast_net *f, const fast_matrix *m, size_t n, const float *columns,
                            const float *inputs, float *dw, bool adds) {
    fedtrain_gemm g = {.n = m->in, .k = m->rows, .a_row = 1, .c_row = m->in, .start_row = m->in};
    for (size_t o = 0; o < n; o += g.m) {
        g.m = n - o < f->kernels->panel ? n - o : f->kernels->panel;
        g.a_column = fedtrain_fast_round_up(g.m, f->kernels->lanes);
        g.start = adds ? dw + o * m->in : NULL;
        f->kernels->gemm(&g, columns + o * m->rows, inputs, dw + o * m->in);
    }
}

/* Begin with the last rows of the weight: the first rows are then in cache for the next forward
 * pass. */
void fedtrain_fast_matrix_backward(const fast_net *f, const fast_matrix *m,
                                   const fast_matrix_grad *g, const fast_flow *w, float *scratch) {
    const fedtrain_kernels *k = f->kernels;
    float *inputs = scratch, *weights = inputs + packed(m->rows, m->in);
    float *columns = weights + packed(chunk_of(m), m->in);
    float *pairs = columns + packed(m->rows, chunk_of(m));
    fedtrain_gemm by_input = {
        .m = m->rows, .n = m->in, .a_row = m->out, .a_column = 1, .c_row = m->in};
    by_input.start = g->adds ? g->dx : NULL;
    by_input.start_row = m->in;
    const float *dy =
        g->dx == NULL ? NULL : fedtrain_fast_operand(f, g->dy, m->rows * m->out, 1, pairs);
    k->gemm_pack(g->x, m->in, 1, m->rows, m->in, inputs);
    for (size_t end = m->out, n; end > 0; end -= n) {
        n = end < CHUNK ? end : CHUNK;
        size_t o = end - n, at = g->weight + o * m->in;
        if (g->dx != NULL) {
            by_input.k = n;
            k->gemm_pack(w->pass->params + at, m->in, 1, n, m->in, weights);
            k->gemm(&by_input, dy + o, weights, g->dx);
            by_input.start = g->dx;
        }
        if (g->has_bias) {
            bias_backward(m, g->dy + o, n, g->bias + o, w);
        }
        float *dw = fedtrain_fast_grad_at(w, at);
        k->gemm_pack(g->dy + o, m->out, 1, m->rows, n, columns);
        weight_backward(f, m, n, columns, inputs, dw, g->adds_weight);
        fedtrain_fast_grad_done(w, at, dw, n * m->in);
    }
}

/* ---- Dense at each position ---- */

typedef struct each {
    float *scratch;
} each;

static fast_matrix sizes(const fast_node *s, size_t batch) {
    const fed_layer *l = s->layer;
    return (fast_matrix){batch * fedtrain_fast_area(l->in), l->in.c, l->out.c};
}

static void each_plan(fast_net *f, fast_node *s, fast_arena *a) {
    each *own = s->own;
    fast_matrix m = sizes(s, f->max_batch);
    own->scratch = fedtrain_fast_take(a, FAST_SHARED, fedtrain_fast_matrix_scratch(f, &m));
}

static void each_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    const each *own = s->own;
    const fed_layer *l = s->layer;
    fast_matrix m = sizes(s, pass->batch);
    const float *weight = pass->params + fedtrain_fast_offset(f, l->weight);
    const float *bias = l->has_bias ? pass->params + fedtrain_fast_offset(f, l->bias) : NULL;
    fedtrain_fast_matrix_forward(f, &m, weight, bias, s->in[0]->data, s->out->data, own->scratch);
}

static void each_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    const each *own = s->own;
    const fed_layer *l = s->layer;
    fast_matrix m = sizes(s, w->pass->batch);
    const fast_matrix_grad g = {.x = s->in[0]->data,
                                .dy = s->out->grad,
                                .dx = s->in[0]->grad,
                                .adds = s->adds[0],
                                .weight = fedtrain_fast_offset(f, l->weight),
                                .adds_weight = s->adds_weight,
                                .has_bias = l->has_bias,
                                .bias = l->has_bias ? fedtrain_fast_offset(f, l->bias) : 0};
    fedtrain_fast_matrix_backward(f, &m, &g, w, own->scratch);
}

const fast_op fedtrain_op_each = {
    .own_bytes = sizeof(each),
    .is_exact = true,
    .plan = each_plan,
    .forward = each_forward,
    .backward = each_backward,
};
