/* The fast backend's convolutions with a max-pool merged into them: backward. */
#include "fedclient/train/backends/fast/fast_conv.h"

#include <string.h>

/* As the sums over what is not 0 are written: whole pictures, windows side by side, and weights
 * whose offsets fit 32 bits. */
bool fedtrain_conv_merges_pool(const fed_layer *conv, const fed_layer *pool) {
    bool simple = conv->stride == 1 && conv->pad == 0 && conv->groups == 1;
    bool apart = pool->kind == FED_LAYER_MAXPOOL && pool->kh == pool->kw &&
                 pool->stride == pool->kh && pool->pad == 0 && pool->stride > 1;
    uint64_t rows = (uint64_t)conv->out.c * conv->kh, row = (uint64_t)conv->kw * conv->in.c;
    return simple && apart && rows * (row + FEDTRAIN_SLACK) <= UINT32_MAX;
}

void fedtrain_conv_pooled_plan(const fast_net *f, const fast_stage *s, size_t columns,
                               fast_conv_pooled *p, fast_arena *a) {
    const fed_layer *l = s->layer;
    fedtrain_sparse_conv *c = &p->sizes;
    c->out = l->out.c;
    c->kh = l->kh;
    c->row = l->kw * l->in.c;
    c->row_pad = fedtrain_fast_round_up(c->row, f->kernels->lanes);
    c->positions = fedtrain_fast_area(l->out);
    c->segments = c->kh * c->row_pad / f->kernels->lanes;
    const size_t rows = c->out * c->kh * c->row_pad;
    p->rows = fedtrain_fast_take(a, FAST_WORKSPACE, rows);
    p->grad_rows = fedtrain_fast_take(a, FAST_WORKSPACE, rows > columns ? rows : columns);
    p->place = fedtrain_fast_take(a, FAST_WORKSPACE, (size_t)l->kh * l->kw);
    c->segment = p->segment = fedtrain_fast_take(a, FAST_WORKSPACE, c->segments);
    c->patch = p->patch = fedtrain_fast_take(a, FAST_WORKSPACE, c->positions);
    if (s->in[0]->trained) {
        p->grad.width = c->out;
        p->grad.count = fedtrain_fast_take(a, FAST_SHARED, c->positions);
        p->grad.offset = fedtrain_fast_take(a, FAST_SHARED, c->positions * c->out);
        p->grad.value = fedtrain_fast_take(a, FAST_SHARED, c->positions * c->out);
    }
    p->out = fedtrain_fast_take(a, FAST_SHARED, c->positions * c->out);
}

/* Where segments and patches lie in the picture. */
void fedtrain_conv_pooled_start(const fast_net *f, const fed_layer *l, fast_conv_pooled *p) {
    const fedtrain_sparse_conv *c = &p->sizes;
    size_t lanes = f->kernels->lanes, vectors = c->row_pad / lanes, row = (size_t)l->in.w * l->in.c;
    for (size_t i = 0; i < c->segments; i++) {
        p->segment[i] = (uint32_t)(i / vectors * row + i % vectors * lanes);
    }
    for (size_t i = 0; i < (size_t)l->kh * l->kw; i++) {
        p->place[i] = (uint32_t)(i / l->kw * c->row_pad + i % l->kw * l->in.c);
    }
    for (size_t i = 0; i < c->positions; i++) {
        p->patch[i] = (uint32_t)(i / l->out.w * row + i % l->out.w * l->in.c);
    }
}

/* The weights of each output (in, kh, kw) as rows (kh, row_pad). */
static void load_rows(const fast_net *f, const fed_layer *l, const fast_conv_pooled *p,
                      const float *weight) {
    const size_t area = (size_t)l->kh * l->kw, in = l->in.c;
    for (size_t o = 0; o < l->out.c; o++) {
        f->kernels->transpose(weight + o * in * area, (fedtrain_rows){.step = area}, in, area,
                              p->rows + o * l->kh * p->sizes.row_pad, (fedtrain_rows){1, p->place});
    }
}

/* And their gradient back, each put to use at once: many would push others' weights out of cache.
 */
static void store_rows(const fast_net *f, const fed_layer *l, const fast_conv_pooled *p,
                       const fast_flow *w) {
    const size_t area = (size_t)l->kh * l->kw, in = l->in.c;
    for (size_t o = 0; o < l->out.c; o++) {
        const size_t offset = fedtrain_fast_offset(f, l->weight) + o * in * area;
        float *grad = fedtrain_fast_grad_at(w, offset);
        f->kernels->transpose(p->grad_rows + o * l->kh * p->sizes.row_pad,
                              (fedtrain_rows){1, p->place}, area, in, grad,
                              (fedtrain_rows){.step = area});
        fedtrain_fast_grad_done(w, offset, grad, in * area);
    }
}

void fedtrain_conv_pooled_backward(const fast_net *f, const fast_stage *s, fast_conv_pooled *p,
                                   float *bias, const fast_flow *w) {
    const fed_layer *l = s->layer;
    const fedtrain_sparse_conv *c = &p->sizes;
    const fast_value *in = s->in[0];
    const fast_pool *pool = s->merged->own;
    const size_t batch = w->pass->batch;
    const size_t windows = fedtrain_fast_area(s->out->shape);
    if (in->grad != NULL) {
        load_rows(f, l, p, w->pass->params + fedtrain_fast_offset(f, l->weight));
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
        f->kernels->sparse_weight_grad(c, winner, dy, windows, in->data + b * in->size,
                                       p->grad_rows);
        if (in->grad != NULL) {
            fedtrain_list_by_position(c, winner, dy, windows, &p->grad);
            f->kernels->sparse_input_grad(c, &p->grad, p->rows, in->grad + b * in->size);
        }
    }
    store_rows(f, l, p, w);
}
