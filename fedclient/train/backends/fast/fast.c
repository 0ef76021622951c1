/* The fast backend: which kernel runs when, on which memory. */
#include "fedclient/train/backends/fast/fast.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/train/backends/fast/arrange.h"

/*
 * Pictures are channels-last between the layers; a dense layer behind one reorders its input, since
 * the model's weights read (c, h, w). ReLU works in place. A max-pool right behind a convolution
 * leaves its backward pass to it: only the windows' winners have a gradient, and the convolution
 * takes just these.
 */

/* One layer, and what it keeps. */
typedef struct stage {
    const fed_layer *layer;
    float *x;        /* its input of the last forward pass: another stage's out, or flat */
    float *flat;     /* dense behind a picture: the input in the model's order; else NULL */
    float *out;      /* its output; NULL for ReLU */
    int32_t *winner; /* max-pool */
    fedtrain_pool pool;
    fedtrain_conv conv;
    uint32_t *segment, *patch;                /* what conv points to */
    float *columns, *bias, *rows, *grad_rows; /* conv */
} stage;

typedef struct fast {
    const fed_arch *arch;
    const fedtrain_kernels *kernels;
    size_t first;   /* the first layer with weights: gradients end there */
    stage *stages;  /* [layer_count] */
    float *input;   /* the batch, channels-last */
    float *grad[2]; /* of values between layers: one is read while the other is written */
    fedtrain_conv_grad conv_grad; /* of one sample; all convolutions share its memory */
    float *memory;
    size_t memory_bytes;
} fast;

/* ---- Memory: one block, dealt out in order; the first deal only counts ---- */

typedef struct arena {
    float *base; /* NULL: count only */
    size_t used; /* floats */
} arena;

enum { ARENA_ALIGN = 16 }; /* floats: a cache line */

/* Memory for n values of 4 bytes, and the slack behind them. */
static void *take(arena *a, size_t n) {
    float *at = a->base != NULL ? a->base + a->used : NULL;
    a->used += (n + FEDTRAIN_SLACK + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return at;
}

static size_t round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t area(fed_shape s) {
    return (size_t)s.h * s.w;
}

static void plan_conv(fast *f, stage *s, arena *a) {
    const fed_layer *l = s->layer;
    size_t lanes = f->kernels->lanes;
    fedtrain_conv *c = &s->conv;
    *c = (fedtrain_conv){.in = l->in.c,
                         .in_h = l->in.h,
                         .in_w = l->in.w,
                         .out = l->out.c,
                         .out_h = l->out.h,
                         .out_w = l->out.w,
                         .kh = l->kh,
                         .kw = l->kw};
    c->row = c->kw * c->in;
    c->row_pad = round_up(c->row, lanes);
    c->out_pad = round_up(c->out, lanes);
    c->segments = c->kh * c->row_pad / lanes;
    s->columns = take(a, c->kh * c->row * c->out_pad);
    s->bias = take(a, c->out_pad);
    s->rows = take(a, c->out * c->kh * c->row_pad);
    s->grad_rows = take(a, c->out * c->kh * c->row_pad);
    c->segment = s->segment = take(a, c->segments);
    c->patch = s->patch = take(a, area(l->out));
}

static void plan_stage(fast *f, stage *s, size_t max_batch, arena *a) {
    const fed_layer *l = s->layer;
    size_t out = max_batch * fedtrain_shape_size(l->out);
    switch (l->kind) {
    case FED_LAYER_DENSE:
        if (l->in.c > 1 && area(l->in) > 1) {
            s->flat = take(a, max_batch * fedtrain_shape_size(l->in));
        }
        s->out = take(a, out);
        break;
    case FED_LAYER_CONV:
        plan_conv(f, s, a);
        s->out = take(a, out);
        break;
    case FED_LAYER_MAXPOOL:
        s->pool = (fedtrain_pool){
            .channels = l->in.c, .in_w = l->in.w, .out_h = l->out.h, .out_w = l->out.w, .k = l->kh};
        s->out = take(a, out);
        s->winner = take(a, out);
        break;
    default:
        break;
    }
}

static void plan_sparse(fedtrain_sparse *sparse, size_t rows, size_t values, arena *a) {
    sparse->count = take(a, rows);
    sparse->offset = take(a, values);
    sparse->value = take(a, values);
}

static void plan(fast *f, size_t max_batch, arena *a) {
    size_t widest = fedtrain_shape_size(f->arch->input), values = 0, channels = 0, positions = 0;
    f->input = take(a, max_batch * widest);
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        stage *s = &f->stages[l];
        s->layer = &f->arch->layers[l];
        plan_stage(f, s, max_batch, a);
        widest = larger(widest, fedtrain_shape_size(s->layer->out));
        if (s->layer->kind == FED_LAYER_CONV) {
            values = larger(values, fedtrain_shape_size(s->layer->out));
            channels = larger(channels, s->layer->out.c);
            positions = larger(positions, area(s->layer->out));
        }
    }
    f->grad[0] = take(a, max_batch * widest);
    f->grad[1] = take(a, max_batch * widest);
    plan_sparse(&f->conv_grad.by_channel, channels, values, a);
    plan_sparse(&f->conv_grad.by_position, positions, values, a);
}

/* Where a convolution's segments and patches lie in its picture. */
static void fill_offsets(const stage *s, size_t lanes) {
    const fedtrain_conv *c = &s->conv;
    size_t vectors = c->row_pad / lanes;
    for (size_t i = 0; i < c->segments; i++) {
        s->segment[i] = (uint32_t)(i / vectors * c->in_w * c->in + i % vectors * lanes);
    }
    for (size_t i = 0; i < c->out_h * c->out_w; i++) {
        s->patch[i] = (uint32_t)((i / c->out_w * c->in_w + i % c->out_w) * c->in);
    }
}

/* Offsets are 32 bits wide: pictures always fit, a convolution's weights of 16 GB would not. */
static bool offsets_fit(const fast *f) {
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        const fedtrain_conv *c = &f->stages[l].conv;
        if (c->out * c->kh * c->row_pad > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static size_t first_with_weights(const fed_arch *arch) {
    size_t l = 0;
    while (arch->layers[l].kind != FED_LAYER_DENSE && arch->layers[l].kind != FED_LAYER_CONV) {
        l++; /* ends: the last layer is dense */
    }
    return l;
}

static void fast_close(void *self) {
    fast *f = self;
    free(f->stages);
    free(f->memory);
    free(f);
}

fed_status fedtrain_fast_open(const fed_arch *arch, size_t max_batch,
                              const fedtrain_kernels *kernels, void **self) {
    fast *f = calloc(1, sizeof *f);
    FED_REQUIRE(f != NULL, FED_ENOMEM);
    f->arch = arch;
    f->kernels = kernels;
    f->stages = calloc(arch->layer_count, sizeof *f->stages);
    if (f->stages == NULL) {
        fast_close(f);
        return FED_ENOMEM;
    }
    f->first = first_with_weights(arch);
    arena a = {0};
    plan(f, max_batch, &a);
    f->memory_bytes = a.used * sizeof(float);
    f->memory = offsets_fit(f) ? aligned_alloc(ARENA_ALIGN * sizeof(float), f->memory_bytes) : NULL;
    if (f->memory == NULL) {
        fast_close(f);
        return FED_ENOMEM;
    }
    memset(f->memory, 0, f->memory_bytes);
    a = (arena){.base = f->memory};
    plan(f, max_batch, &a);
    for (size_t l = 0; l < arch->layer_count; l++) {
        if (arch->layers[l].kind == FED_LAYER_CONV) {
            fill_offsets(&f->stages[l], kernels->lanes);
        }
    }
    *self = f;
    return FED_OK;
}

static fed_status fast_open(const fed_arch *arch, size_t max_batch, void **self) {
    return fedtrain_fast_open(arch, max_batch, fedtrain_kernels_best(), self);
}

static void fast_memory(const void *self, fedtrain_memory *memory) {
    const fast *f = self;
    memory->workspace = sizeof *f + f->arch->layer_count * sizeof *f->stages + f->memory_bytes;
}

/* ---- Forward ---- */

static size_t tensor_offset(const fast *f, size_t index) {
    return f->arch->layout.tensors[index].offset;
}

static fedtrain_dense dense_sizes(const fed_layer *l, size_t batch) {
    size_t out = fedtrain_shape_size(l->out);
    return (fedtrain_dense){fedtrain_shape_size(l->in), out, batch, out};
}

static float *forward_dense(const fast *f, stage *s, const float *params, float *x, size_t batch) {
    const fed_layer *l = s->layer;
    size_t size = fedtrain_shape_size(l->in);
    s->x = x;
    if (s->flat != NULL) {
        for (size_t b = 0; b < batch; b++) {
            fedtrain_to_channels_first(x + b * size, l->in.c, area(l->in), s->flat + b * size);
        }
        s->x = s->flat;
    }
    fedtrain_dense d = dense_sizes(l, batch);
    f->kernels->dense(&d, params + tensor_offset(f, l->weight),
                      params + tensor_offset(f, l->weight + 1), s->x, s->out);
    return s->out;
}

static float *forward_conv(const fast *f, stage *s, const float *params, float *x, size_t batch) {
    const fed_layer *l = s->layer;
    fedtrain_conv_columns(&s->conv, params + tensor_offset(f, l->weight), s->columns);
    memcpy(s->bias, params + tensor_offset(f, l->weight + 1), l->out.c * sizeof *s->bias);
    s->x = x;
    for (size_t b = 0; b < batch; b++) {
        f->kernels->conv(&s->conv, s->columns, s->bias, x + b * fedtrain_shape_size(l->in),
                         s->out + b * fedtrain_shape_size(l->out));
    }
    return s->out;
}

static float *forward_maxpool(const fast *f, stage *s, float *x, size_t batch) {
    size_t in = fedtrain_shape_size(s->layer->in), out = fedtrain_shape_size(s->layer->out);
    for (size_t b = 0; b < batch; b++) {
        f->kernels->maxpool(&s->pool, x + b * in, s->out + b * out, s->winner + b * out);
    }
    return s->out;
}

static float *forward_stage(const fast *f, stage *s, const float *params, float *x, size_t batch) {
    switch (s->layer->kind) {
    case FED_LAYER_DENSE:
        return forward_dense(f, s, params, x, batch);
    case FED_LAYER_CONV:
        return forward_conv(f, s, params, x, batch);
    case FED_LAYER_MAXPOOL:
        return forward_maxpool(f, s, x, batch);
    case FED_LAYER_RELU:
        f->kernels->relu(x, batch * fedtrain_shape_size(s->layer->in));
        s->x = x;
        return x;
    default: /* fedtrain_fast_open refused the net */
        return x;
    }
}

static void fast_forward(void *self, const fedtrain_pass *pass, float *score) {
    fast *f = self;
    size_t batch = pass->batch;
    fed_shape in = f->arch->input;
    size_t size = fedtrain_shape_size(in);
    for (size_t b = 0; b < batch; b++) {
        fedtrain_to_channels_last(pass->x + b * size, in.c, area(in), f->input + b * size);
    }
    float *value = f->input;
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        value = forward_stage(f, &f->stages[l], pass->params, value, batch);
    }
    memcpy(score, value, batch * f->arch->classes * sizeof *score);
}

/* ---- Backward ---- */

/* The gradient on its way back. */
typedef struct flow {
    const float *params;
    size_t batch;
    float *dy, *dx;                /* of the values at hand, and memory for those before them */
    float *grad;                   /* of the parameters; with an update, only room for it */
    const fedtrain_update *update; /* NULL: no update */
    float *updated;                /* params, with an update */
} flow;

static void swap(flow *w) {
    float *dy = w->dy;
    w->dy = w->dx;
    w->dx = dy;
}

/* Where the gradient of the parameters from offset on goes. */
static float *grad_at(const flow *w, size_t offset) {
    return w->update != NULL ? w->grad : w->grad + offset;
}

/* The gradient of n parameters from offset on is done: put it to use while it is in cache. */
static void grad_done(const flow *w, size_t offset, const float *grad, size_t n) {
    if (w->update != NULL) {
        fedtrain_update_apply(w->update, w->updated, offset, grad, n);
    }
}

static void backward_dense_bias(const fedtrain_dense *d, size_t offset, const flow *w) {
    float *bias = grad_at(w, offset);
    memcpy(bias, w->dy, d->out * sizeof *bias);
    for (size_t b = 1; b < d->batch; b++) {
        for (size_t o = 0; o < d->out; o++) {
            bias[o] += w->dy[b * d->out + o];
        }
    }
    grad_done(w, offset, bias, d->out);
}

/* A few rows of weights at a time: all that is to be done with them, before the next ones come. The
 * last rows first: the forward pass left those in cache, and the next one begins with the first. */
static void backward_dense(const fast *f, const stage *s, bool wants_dx, flow *w) {
    enum { ROWS = 8 };
    const fed_layer *l = s->layer;
    fedtrain_dense d = dense_sizes(l, w->batch);
    size_t offset = tensor_offset(f, l->weight);
    backward_dense_bias(&d, tensor_offset(f, l->weight + 1), w);
    if (wants_dx) {
        memset(w->dx, 0, w->batch * d.in * sizeof *w->dx);
    }
    for (size_t end = d.out; end > 0; end -= d.rows) {
        d.rows = end < ROWS ? end : ROWS;
        size_t o = end - d.rows, at = offset + o * d.in;
        if (wants_dx) {
            f->kernels->dense_input_grad(&d, w->params + at, w->dy + o, w->dx);
        }
        f->kernels->dense_weight_grad(&d, s->x, w->dy + o, grad_at(w, at));
        grad_done(w, at, grad_at(w, at), d.rows * d.in);
    }
    swap(w);
    if (wants_dx && s->flat != NULL) {
        for (size_t b = 0; b < w->batch; b++) {
            fedtrain_to_channels_last(w->dy + b * d.in, l->in.c, area(l->in), w->dx + b * d.in);
        }
        swap(w);
    }
}

static void add_bias_grad(const fedtrain_sparse *by_channel, size_t channels, float *bias) {
    for (size_t o = 0; o < channels; o++) {
        const float *value = by_channel->value + o * by_channel->width;
        for (size_t j = 0; j < by_channel->count[o]; j++) {
            bias[o] += value[j];
        }
    }
}

/* One sample. pool: the max-pool right behind, whose output's gradient dy then is; else NULL. */
static void backward_conv_sample(const fast *f, const stage *s, const stage *pool, size_t b,
                                 fedtrain_conv_grad *sparse, const flow *w) {
    size_t in = fedtrain_shape_size(s->layer->in);
    if (pool != NULL) {
        size_t out = fedtrain_shape_size(pool->layer->out);
        fedtrain_conv_grad_pooled(&s->conv, &pool->pool, pool->winner + b * out, w->dy + b * out,
                                  sparse);
    } else {
        fedtrain_conv_grad_dense(&s->conv, w->dy + b * fedtrain_shape_size(s->layer->out), sparse);
    }
    add_bias_grad(&sparse->by_channel, s->conv.out, s->bias);
    f->kernels->conv_weight_grad(&s->conv, &sparse->by_channel, s->x + b * in, s->grad_rows);
    if (sparse->by_position.count != NULL) {
        f->kernels->conv_input_grad(&s->conv, &sparse->by_position, s->rows, w->dx + b * in);
    }
}

static void backward_conv(const fast *f, const stage *s, const stage *pool, bool wants_dx,
                          flow *w) {
    const fed_layer *l = s->layer;
    const fedtrain_conv *c = &s->conv;
    size_t weight = tensor_offset(f, l->weight), bias = tensor_offset(f, l->weight + 1);
    fedtrain_conv_grad sparse = f->conv_grad;
    if (!wants_dx) {
        sparse.by_position.count = NULL;
    } else {
        fedtrain_conv_rows(c, w->params + weight, s->rows);
        memset(w->dx, 0, w->batch * fedtrain_shape_size(l->in) * sizeof *w->dx);
    }
    memset(s->bias, 0, c->out * sizeof *s->bias);
    memset(s->grad_rows, 0, c->out * c->kh * c->row_pad * sizeof *s->grad_rows);
    for (size_t b = 0; b < w->batch; b++) {
        backward_conv_sample(f, s, pool, b, &sparse, w);
    }
    memcpy(grad_at(w, bias), s->bias, c->out * sizeof *s->bias);
    grad_done(w, bias, grad_at(w, bias), c->out);
    fedtrain_conv_weight(c, s->grad_rows, grad_at(w, weight));
    grad_done(w, weight, grad_at(w, weight), c->out * c->kh * c->row);
    swap(w);
}

static void backward_maxpool(const stage *s, flow *w) {
    size_t in = fedtrain_shape_size(s->layer->in), out = fedtrain_shape_size(s->layer->out);
    memset(w->dx, 0, w->batch * in * sizeof *w->dx);
    for (size_t b = 0; b < w->batch; b++) {
        fedtrain_pool_scatter(&s->pool, s->winner + b * out, w->dy + b * out, w->dx + b * in);
    }
    swap(w);
}

static void backward_stages(const fast *f, const float *score_grad, flow *w) {
    const stage *pool = NULL;
    w->dy = f->grad[0];
    w->dx = f->grad[1];
    memcpy(w->dy, score_grad, w->batch * f->arch->classes * sizeof *score_grad);
    for (size_t l = f->arch->layer_count; l-- > f->first;) {
        const stage *s = &f->stages[l];
        bool wants_dx = l > f->first;
        switch (s->layer->kind) {
        case FED_LAYER_DENSE:
            backward_dense(f, s, wants_dx, w);
            break;
        case FED_LAYER_CONV:
            backward_conv(f, s, pool, wants_dx, w);
            pool = NULL;
            break;
        case FED_LAYER_MAXPOOL:
            if (s[-1].layer->kind == FED_LAYER_CONV) {
                pool = s;
            } else {
                backward_maxpool(s, w);
            }
            break;
        case FED_LAYER_RELU:
            f->kernels->relu_grad(s->x, w->dy, w->batch * fedtrain_shape_size(s->layer->in));
            break;
        default:
            break;
        }
    }
}

static void fast_backward(void *self, const fedtrain_pass *pass, const float *score_grad,
                          float *grad) {
    flow w = {.params = pass->params, .batch = pass->batch, .grad = grad};
    backward_stages(self, score_grad, &w);
}

static void fast_train(void *self, const fedtrain_pass *pass, float *params,
                       const float *score_grad, const fedtrain_update *update, float *scratch) {
    flow w = {.params = params,
              .batch = pass->batch,
              .grad = scratch,
              .update = update,
              .updated = params};
    backward_stages(self, score_grad, &w);
}

static void fast_keep_statistics(const void *self, float *params) {
    (void)self;
    (void)params;
}

static void fast_forget(void *self) {
    (void)self;
}

static const float *fast_output(const void *self, size_t l, size_t *n) {
    const fast *f = self;
    const stage *s = &f->stages[l];
    *n = fedtrain_shape_size(s->layer->out);
    return s->out != NULL ? s->out : s->x;
}

const fedtrain_backend_vtable fedtrain_backend_fast = {
    .name = "fast",
    .open = fast_open,
    .close = fast_close,
    .memory = fast_memory,
    .forward = fast_forward,
    .backward = fast_backward,
    .train = fast_train,
    .keep_statistics = fast_keep_statistics,
    .forget = fast_forget,
    .output = fast_output,
};
