/* The backward pass of the fast backend's convolutions with a max-pool merged into them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/fast/fast_conv.h"

#include <string.h>

#include "fed/small.h"

/* The sparse sums support only convolutions without padding, stride or groups, pools whose windows
 * touch but do not overlap, and weights whose offsets fit 32 bits. */
bool fedtrain_conv_merges_pool(const fed_layer *conv, const fed_layer *pool) {
    bool simple = conv->stride == 1 && conv->pad == 0 && conv->groups == 1;
    bool apart = pool->kind == FED_LAYER_MAXPOOL && pool->kh == pool->kw &&
                 pool->stride == pool->kh && pool->pad == 0 && pool->stride > 1;
    uint64_t rows = (uint64_t)conv->out.c * conv->kh, row = (uint64_t)conv->kw * conv->in.c;
    return simple && apart && rows * (row + FEDTRAIN_SLACK) <= UINT32_MAX;
}

static void view_plan(const fast_net *f, const fed_layer *l, fast_view *v, fast_arena *a) {
    fedtrain_sparse_conv *c = &v->sizes;
    const size_t row = (size_t)l->kw * l->in.c, lanes = f->kernels->lanes;
    c->out = l->out.c;
    c->kh = (l->kh + v->together - 1) / v->together;
    c->row_pad = fedtrain_fast_round_up(row, lanes);
    c->positions = fedtrain_fast_area(l->out);
    c->segments = c->kh * c->row_pad / lanes;
    c->segment = v->segment = fedtrain_fast_take(a, FAST_WORKSPACE, c->segments);
    c->patch = v->patch = fedtrain_fast_take(a, FAST_WORKSPACE, c->positions);
    v->tap = fedtrain_fast_take(a, FAST_WORKSPACE, (size_t)l->kh * l->kw);
}

/* Return the first of the kernel's rows that share this vector. The last vector may repeat rows of
 * the one before. */
static size_t first_row(const fast_view *v, const fed_layer *l, size_t vector) {
    return fedtrain_fast_smaller(vector * v->together, l->kh - v->together);
}

static void view_start(const fed_layer *l, size_t lanes, fast_view *v) {
    const fedtrain_sparse_conv *c = &v->sizes;
    const size_t vectors = c->row_pad / lanes;
    for (size_t i = 0; i < c->segments; i++) {
        size_t row = first_row(v, l, i / vectors);
        v->segment[i] = (uint32_t)(row * v->line + i % vectors * lanes);
    }
    for (size_t i = 0; i < c->positions; i++) {
        v->patch[i] = (uint32_t)(i / l->out.w * v->line + i % l->out.w * v->step);
    }
    for (size_t i = 0; i < (size_t)l->kh * l->kw; i++) {
        size_t row = i / l->kw, vector = row / v->together;
        size_t in_vector = (row - first_row(v, l, vector)) * l->kw + i % l->kw;
        v->tap[i] = (uint32_t)(vector * c->row_pad + in_vector * l->in.c);
    }
}

/* The most floats that a picture may have after im2col: about what the first-level cache holds. */
enum { IM2COL_MOST = 12 * 1024 };

/* The sums of the weights' gradient read a picture many times. If a vector is as long as a cache
 * line, im2col pays: each load then touches one line, not two. Returns the floats of im2col's
 * result; 0: not used. */
static size_t plan_im2col(const fast_net *f, const fed_layer *l, fast_conv_pooled *p,
                          fast_arena *a) {
    const size_t lanes = f->kernels->lanes, row = (size_t)l->kw * l->in.c;
    const size_t pad = fedtrain_fast_round_up(row, lanes);
    const size_t together = row < lanes ? fedtrain_fast_smaller(lanes / row, l->kh) : 1;
    const size_t rows = (size_t)l->out.h + l->kh - together, size = rows * l->out.w * pad;
    if (FED_SMALL || lanes < FAST_LINE || size > IM2COL_MOST) {
        return 0;
    }
    p->unrolled = (fast_view){.line = l->out.w * pad, .step = pad, .together = together};
    view_plan(f, l, &p->unrolled, a);
    p->im2col = (fedtrain_im2col){.rows = rows,
                                  .columns = l->out.w,
                                  .x_row = (size_t)l->in.w * l->in.c,
                                  .x_step = l->in.c,
                                  .row = row,
                                  .together = together,
                                  .vectors = pad / lanes};
    return size;
}

void fedtrain_conv_pooled_plan(const fast_net *f, const fast_node *s, size_t packed,
                               fast_conv_pooled *p, fast_arena *a) {
    const fed_layer *l = s->layer;
    p->plain = (fast_view){.line = (size_t)l->in.w * l->in.c, .step = l->in.c, .together = 1};
    view_plan(f, l, &p->plain, a);
    const fedtrain_sparse_conv *c = &p->plain.sizes;
    const size_t rows = c->out * c->kh * c->row_pad, out = c->positions * c->out;
    p->rows = fedtrain_fast_take(a, FAST_WORKSPACE, rows);
    p->packed = fedtrain_fast_take(a, FAST_WORKSPACE, rows > packed ? rows : packed);
    p->grad_rows = p->packed;
    if (s->in[0]->trained) {
        p->grad.width = c->out;
        p->grad.count = fedtrain_fast_take(a, FAST_SHARED, c->positions);
        p->grad.offset = fedtrain_fast_take(a, FAST_SHARED, out);
        p->grad.value = fedtrain_fast_take(a, FAST_SHARED, out);
    }
    const size_t unrolled = plan_im2col(f, l, p, a);
    p->output = fedtrain_fast_take(a, FAST_SHARED, unrolled > out ? unrolled : out);
    p->unrolled_x = p->output;
}

static bool uses_im2col(const fast_conv_pooled *p) {
    return !FED_SMALL && p->im2col.rows > 0;
}

void fedtrain_conv_pooled_start(const fast_net *f, const fed_layer *l, fast_conv_pooled *p) {
    view_start(l, f->kernels->lanes, &p->plain);
    if (uses_im2col(p)) {
        view_start(l, f->kernels->lanes, &p->unrolled);
    }
}

/* Fill in p->rows, (out, kh, row_pad), from the packed weights that the forward pass has left. */
static void load_rows(const fast_net *f, const fed_layer *l, const fast_conv_pooled *p) {
    const fedtrain_sparse_conv *c = &p->plain.sizes;
    const size_t row = (size_t)l->kw * l->in.c,
                 pad = fedtrain_fast_round_up(c->out, f->kernels->lanes);
    for (size_t y = 0; y < c->kh; y++) {
        f->kernels->transpose(p->packed + y * row * pad, (fedtrain_rows){.step = pad}, row, c->out,
                              p->rows + y * c->row_pad,
                              (fedtrain_rows){.step = c->kh * c->row_pad});
    }
}

/* Store the gradient of p->rows in the model's order, one output at a time. */
static void store_rows(const fast_net *f, const fed_layer *l, const fast_conv_pooled *p,
                       const fast_view *v, const fast_flow *w) {
    const size_t area = (size_t)l->kh * l->kw, in = l->in.c;
    for (size_t o = 0; o < l->out.c; o++) {
        const size_t offset = fedtrain_fast_offset(f, l->weight) + o * in * area;
        float *grad = fedtrain_fast_grad_at(w, offset);
        f->kernels->transpose(p->grad_rows + o * v->sizes.kh * v->sizes.row_pad,
                              (fedtrain_rows){1, v->tap}, area, in, grad,
                              (fedtrain_rows){.step = area});
        fedtrain_fast_grad_done(w, offset, grad, in * area);
    }
}

void fedtrain_conv_pooled_backward(const fast_net *f, const fast_node *s, fast_conv_pooled *p,
                                   float *bias, const fast_flow *w) {
    const fed_layer *l = s->layer;
    const fedtrain_sparse_conv *c = &p->plain.sizes;
    const bool unrolled = uses_im2col(p);
    const fast_view *v = unrolled ? &p->unrolled : &p->plain;
    const fast_value *in = s->in[0];
    const fast_pool *pool = s->merged->own;
    const size_t batch = w->pass->batch;
    const size_t windows = fedtrain_fast_area(s->out->shape);
    if (in->grad != NULL) {
        load_rows(f, l, p);
    }
    if (in->grad != NULL && !s->adds[0]) {
        memset(in->grad, 0, batch * in->size * sizeof *in->grad);
    }
    memset(p->grad_rows, 0, c->out * c->kh * c->row_pad * sizeof *p->grad_rows);
    for (size_t b = 0; b < batch; b++) {
        const float *dy = s->out->grad + b * s->out->size;
        const int32_t *winner = pool->winner + b * s->out->size;
        if (l->has_bias) {
            f->kernels->sum_rows(dy, windows, c->out, bias);
        }
        const float *x = in->data + b * in->size;
        if (unrolled) {
            f->kernels->im2col(&p->im2col, x, p->unrolled_x);
        }
        f->kernels->sparse_weight_grad(&v->sizes, winner, dy, windows, unrolled ? p->unrolled_x : x,
                                       p->grad_rows);
        if (in->grad != NULL) {
            fedtrain_list_by_position(c, winner, dy, windows, &p->grad);
            f->kernels->sparse_input_grad(c, &p->grad, p->rows, in->grad + b * in->size);
        }
    }
    store_rows(f, l, p, v, w);
}
