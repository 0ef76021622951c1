/* The fast backend's pooling. */
#include <string.h>

#include "fedclient/train/backends/fast/arrange.h"
#include "fedclient/train/backends/fast/fast_impl.h"

static void maxpool_plan(fast_net *f, fast_stage *s, fast_arena *a) {
    fast_pool *p = s->own;
    const fed_layer *l = s->layer;
    p->sizes = (fedtrain_pool){
        .channels = l->in.c, .in_w = l->in.w, .out_h = l->out.h, .out_w = l->out.w, .k = l->kh};
    p->winner = fedtrain_fast_take(a, FAST_ACTIVATIONS, f->max_batch * s->out->size);
}

static void maxpool_forward(const fast_net *f, fast_stage *s, const fedtrain_pass *pass) {
    const fast_pool *p = s->own;
    for (size_t b = 0; b < pass->batch; b++) {
        size_t out = b * s->out->size;
        f->kernels->maxpool(&p->sizes, s->in[0]->data + b * s->in[0]->size, s->out->data + out,
                            p->winner + out);
    }
}

static void maxpool_backward(const fast_net *f, fast_stage *s, const fast_flow *w) {
    (void)f;
    const fast_pool *p = s->own;
    const fast_value *in = s->in[0];
    size_t batch = w->pass->batch;
    if (!s->adds[0]) {
        memset(in->grad, 0, batch * in->size * sizeof *in->grad);
    }
    for (size_t b = 0; b < batch; b++) {
        size_t out = b * s->out->size;
        fedtrain_pool_scatter(&p->sizes, p->winner + out, s->out->grad + out,
                              in->grad + b * in->size);
    }
}

const fast_op fedtrain_op_maxpool = {
    .own_bytes = sizeof(fast_pool),
    .plan = maxpool_plan,
    .forward = maxpool_forward,
    .backward = maxpool_backward,
};
