/* The fast backend's convolutions, with the max-pool right behind one if there is one. */
#include <string.h>

#include "fedclient/train/backends/fast/arrange.h"
#include "fedclient/train/backends/fast/fast_impl.h"

/*
 * A merged max-pool takes each sample's output as soon as it is there, and only the windows'
 * winners have a gradient: backward takes just these.
 */
typedef struct conv {
    fedtrain_conv sizes;
    uint32_t *segment, *patch;                /* what sizes points to */
    float *columns, *bias, *rows, *grad_rows; /* the weights, and their gradient */
    fedtrain_conv_grad sparse;                /* of one sample's output */
    float *out;                               /* one sample's output, before a merged pool */
} conv;

static bool conv_merges(const fast_stage *s, const fast_stage *behind) {
    (void)s;
    return behind->layer->kind == FED_LAYER_MAXPOOL;
}

static void plan_sparse(fedtrain_sparse *sparse, size_t rows, size_t width, fast_arena *a) {
    sparse->width = width;
    sparse->count = fedtrain_fast_take(a, FAST_SHARED, rows);
    sparse->offset = fedtrain_fast_take(a, FAST_SHARED, rows * width);
    sparse->value = fedtrain_fast_take(a, FAST_SHARED, rows * width);
}

static void conv_plan(fast_net *f, fast_stage *s, fast_arena *a) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    const size_t lanes = f->kernels->lanes, positions = fedtrain_fast_area(l->out);
    fedtrain_conv *c = &own->sizes;
    *c = (fedtrain_conv){.in = l->in.c,
                         .in_h = l->in.h,
                         .in_w = l->in.w,
                         .out = l->out.c,
                         .out_h = l->out.h,
                         .out_w = l->out.w,
                         .kh = l->kh,
                         .kw = l->kw};
    c->row = c->kw * c->in;
    c->row_pad = fedtrain_fast_round_up(c->row, lanes);
    c->out_pad = fedtrain_fast_round_up(c->out, lanes);
    c->segments = c->kh * c->row_pad / lanes;
    own->columns = fedtrain_fast_take(a, FAST_WORKSPACE, c->kh * c->row * c->out_pad);
    own->bias = fedtrain_fast_take(a, FAST_WORKSPACE, c->out_pad);
    own->rows = fedtrain_fast_take(a, FAST_WORKSPACE, c->out * c->kh * c->row_pad);
    own->grad_rows = fedtrain_fast_take(a, FAST_WORKSPACE, c->out * c->kh * c->row_pad);
    c->segment = own->segment = fedtrain_fast_take(a, FAST_WORKSPACE, c->segments);
    c->patch = own->patch = fedtrain_fast_take(a, FAST_WORKSPACE, positions);
    plan_sparse(&own->sparse.by_channel, c->out, positions, a);
    plan_sparse(&own->sparse.by_position, positions, c->out, a);
    own->out = s->merged != NULL ? fedtrain_fast_take(a, FAST_SHARED, positions * c->out) : NULL;
}

/* Where segments and patches lie in the picture. */
static void conv_start(const fast_net *f, fast_stage *s) {
    conv *own = s->own;
    const fedtrain_conv *c = &own->sizes;
    size_t lanes = f->kernels->lanes, vectors = c->row_pad / lanes;
    for (size_t i = 0; i < c->segments; i++) {
        own->segment[i] = (uint32_t)(i / vectors * c->in_w * c->in + i % vectors * lanes);
    }
    for (size_t i = 0; i < c->out_h * c->out_w; i++) {
        own->patch[i] = (uint32_t)((i / c->out_w * c->in_w + i % c->out_w) * c->in);
    }
}

static void conv_forward(const fast_net *f, fast_stage *s, const fedtrain_pass *pass) {
    const conv *own = s->own;
    const fedtrain_conv *c = &own->sizes;
    fedtrain_conv_columns(c, pass->params + fedtrain_fast_offset(f, s->layer->weight),
                          own->columns);
    memcpy(own->bias, pass->params + fedtrain_fast_offset(f, s->layer->bias),
           c->out * sizeof *own->bias);
    for (size_t b = 0; b < pass->batch; b++) {
        const float *x = s->in[0]->data + b * s->in[0]->size;
        float *y = s->out->data + b * s->out->size;
        f->kernels->conv(c, own->columns, own->bias, x, own->out != NULL ? own->out : y);
        if (s->merged != NULL) {
            const fast_pool *p = s->merged->own;
            f->kernels->maxpool(&p->sizes, own->out, y, p->winner + b * s->out->size);
        }
    }
}

/* What is not 0 of one sample's output gradient, into own->sparse. */
static void list_grad(const fast_stage *s, size_t b, fedtrain_conv_grad *sparse) {
    const conv *own = s->own;
    const float *dy = s->out->grad + b * s->out->size;
    if (s->merged == NULL) {
        fedtrain_conv_grad_dense(&own->sizes, dy, sparse);
        return;
    }
    const fast_pool *p = s->merged->own;
    fedtrain_conv_grad_pooled(&own->sizes, &p->sizes, p->winner + b * s->out->size, dy, sparse);
}

static void add_bias_grad(const fedtrain_sparse *by_channel, size_t channels, float *bias) {
    for (size_t o = 0; o < channels; o++) {
        const float *value = by_channel->value + o * by_channel->width;
        for (size_t j = 0; j < by_channel->count[o]; j++) {
            bias[o] += value[j];
        }
    }
}

static void conv_backward(const fast_net *f, fast_stage *s, const fast_flow *w) {
    const conv *own = s->own;
    const fedtrain_conv *c = &own->sizes;
    const fast_value *in = s->in[0];
    size_t weight = fedtrain_fast_offset(f, s->layer->weight);
    size_t bias = fedtrain_fast_offset(f, s->layer->bias), batch = w->pass->batch;
    fedtrain_conv_grad sparse = own->sparse;
    if (in->grad == NULL) {
        sparse.by_position.count = NULL;
    } else {
        fedtrain_conv_rows(c, w->pass->params + weight, own->rows);
    }
    if (in->grad != NULL && !s->adds[0]) {
        memset(in->grad, 0, batch * in->size * sizeof *in->grad);
    }
    memset(own->bias, 0, c->out * sizeof *own->bias);
    memset(own->grad_rows, 0, c->out * c->kh * c->row_pad * sizeof *own->grad_rows);
    for (size_t b = 0; b < batch; b++) {
        list_grad(s, b, &sparse);
        add_bias_grad(&sparse.by_channel, c->out, own->bias);
        f->kernels->conv_weight_grad(c, &sparse.by_channel, in->data + b * in->size,
                                     own->grad_rows);
        if (in->grad != NULL) {
            f->kernels->conv_input_grad(c, &sparse.by_position, own->rows, in->grad + b * in->size);
        }
    }
    memcpy(fedtrain_fast_grad_at(w, bias), own->bias, c->out * sizeof *own->bias);
    fedtrain_fast_grad_done(w, bias, fedtrain_fast_grad_at(w, bias), c->out);
    float *grad = fedtrain_fast_grad_at(w, weight);
    fedtrain_conv_weight(c, own->grad_rows, grad);
    fedtrain_fast_grad_done(w, weight, grad, c->out * c->kh * c->row);
}

const fast_op fedtrain_op_conv = {
    .own_bytes = sizeof(conv),
    .merges = conv_merges,
    .plan = conv_plan,
    .start = conv_start,
    .forward = conv_forward,
    .backward = conv_backward,
};
