/* The fast backend's convolutions. */
#include "fedclient/train/backends/fast/fast_conv.h"

#include <string.h>

/*
 * The way back is a convolution too: with stride 1, of the output's gradient by the filters turned
 * round. With a stride, inputs whose places leave different remainders meet different parts of the
 * filters, so there is one such way for each remainder (a `back`).
 */
typedef struct back {
    fedtrain_conv sizes;
    size_t ky, kx;  /* the first row and column of the filters that meet these inputs */
    size_t dy, dx;  /* the first patch in the output's gradient, the first input in its own */
    size_t columns; /* offset in back_columns */
} back;

/* A picture with zeros around it. */
typedef struct frame {
    size_t top, left, h, w; /* h, w: of it all */
} frame;

typedef struct conv {
    fedtrain_filters filters; /* of one group */
    size_t groups;
    fedtrain_conv sizes;                 /* of one group */
    frame x_frame, dy_frame;             /* what the ways there and back read */
    uint32_t *begin, *back_begin;        /* what sizes point to */
    uint32_t *order;                     /* what filters point to */
    back *back;                          /* [ways_down * ways_right] */
    size_t ways_down, ways_right;        /* remainders that inputs leave */
    float *columns, *grad_columns;       /* [groups] */
    float *back_columns, *start, *zeros; /* start: the bias, or zeros; each [groups] */
    float *x, *dy;                       /* one sample framed; NULL: it needs no frame */
    fast_conv_pooled pooled;             /* with a merged max-pool */
} conv;

static bool conv_merges(const fast_stage *s, const fast_stage *behind) {
    return fedtrain_conv_merges_pool(s->layer, behind->layer);
}

/* ---- Sizes ---- */

/* Longer runs would push what tiles read again out of the first cache. */
enum { LONGEST_RUN = 256 };

/* How a group's patches lie side by side: whole rows of the kernel, if there is but one group and
 * they are short; else the channels of one place, or a part of them. */
static void set_runs(fedtrain_conv *c, size_t groups, size_t rows, size_t columns,
                     size_t channels) {
    size_t parts = 1;
    if (groups == 1 && columns * channels <= LONGEST_RUN) {
        c->runs = columns > 0 ? rows : 0;
        c->run = columns * channels;
        return;
    }
    while (channels / parts > LONGEST_RUN && channels / parts % 2 == 0) {
        parts *= 2;
    }
    c->runs = rows * columns * parts;
    c->run = channels / parts;
}

/* Room for the runs of a kernel. */
static size_t most_runs(size_t taps, size_t channels) {
    return taps * (channels / (LONGEST_RUN / 2) + 1);
}

/* line, step: from a place of the kernel to that below it, and right of it. */
static void fill_begin(const fedtrain_conv *c, size_t rows, size_t columns, size_t line,
                       size_t step, uint32_t *begin) {
    const size_t places = c->runs > rows ? columns : 1, side = rows > 0 ? c->runs / rows : 1;
    const size_t parts = side / places;
    for (size_t r = 0; r < c->runs; r++) {
        size_t in_row = r % side;
        begin[r] = (uint32_t)(r / side * line + in_row / parts * step + in_row % parts * c->run);
    }
}

static void set_sizes(const fed_layer *l, conv *own) {
    const fedtrain_filters *f = &own->filters;
    fedtrain_conv *c = &own->sizes;
    own->x_frame = (frame){l->pad, l->pad, l->in.h + 2 * l->pad, l->in.w + 2 * l->pad};
    c->rows = l->out.h;
    c->columns = l->out.w;
    c->x_row = l->stride * own->x_frame.w * l->in.c;
    c->x_step = (size_t)l->stride * l->in.c;
    c->y_row = (size_t)l->out.w * l->out.c;
    c->y_step = l->out.c;
    c->out = f->out;
    c->out_pad = f->out_pad;
    set_runs(c, own->groups, f->kh, f->kw, f->in);
}

/* Along one side: the inputs with this remainder, and what they meet. Input u, counted with the pad
 * in front, meets output (u - remainder) / stride - j through the kernel's place
 * remainder + j * stride. */
typedef struct side {
    size_t taps;     /* places of the kernel */
    size_t count;    /* inputs */
    size_t first;    /* the first input, without the pad */
    ptrdiff_t patch; /* the first output that it meets; below 0: in the frame */
} side;

static side side_of(size_t remainder, size_t in, size_t k, size_t stride, size_t pad) {
    size_t taps = remainder < k ? (k - remainder + stride - 1) / stride : 0;
    size_t place = pad > remainder ? (pad - remainder + stride - 1) / stride : 0;
    size_t u = place * stride + remainder, end = pad + in;
    return (side){.taps = taps,
                  .count = u < end ? (end - u + stride - 1) / stride : 0,
                  .first = u - pad,
                  .patch = (ptrdiff_t)place - (ptrdiff_t)taps + 1};
}

/* How far the patches of all remainders reach out of `out` outputs. */
static void reach(size_t in, size_t out, size_t k, size_t stride, size_t pad, size_t *before,
                  size_t *whole) {
    ptrdiff_t low = 0, high = (ptrdiff_t)out;
    for (size_t r = 0; r < fedtrain_fast_smaller(stride, in + pad); r++) {
        side s = side_of(r, in, k, stride, pad);
        ptrdiff_t end = s.patch + (ptrdiff_t)(s.count + s.taps) - 1;
        if (s.count > 0 && s.taps > 0) {
            low = s.patch < low ? s.patch : low;
            high = end > high ? end : high;
        }
    }
    *before = (size_t)-low;
    *whole = (size_t)(high - low);
}

static void fill_back(const fed_layer *l, size_t lanes, conv *own) {
    const fedtrain_filters *f = &own->filters;
    size_t columns = 0, runs = 0, line = own->dy_frame.w * l->out.c;
    for (size_t i = 0; i < own->ways_down * own->ways_right; i++) {
        back *b = &own->back[i];
        fedtrain_conv *c = &b->sizes;
        b->ky = i / own->ways_right;
        b->kx = i % own->ways_right;
        const side v = side_of(b->ky, l->in.h, f->kh, l->stride, l->pad);
        const side h = side_of(b->kx, l->in.w, f->kw, l->stride, l->pad);
        *c = (fedtrain_conv){.rows = v.count,
                             .columns = h.count,
                             .x_row = line,
                             .x_step = l->out.c,
                             .y_row = (size_t)l->stride * l->in.w * l->in.c,
                             .y_step = (size_t)l->stride * l->in.c,
                             .out = f->in,
                             .out_pad = fedtrain_fast_round_up(f->in, lanes)};
        set_runs(c, own->groups, v.taps, h.taps, f->out);
        uint32_t *begin = own->back_begin + runs;
        fill_begin(c, v.taps, h.taps, line, l->out.c, begin);
        c->begin = begin;
        if (c->runs > 0 && c->rows > 0 && c->columns > 0) {
            size_t top = (size_t)((ptrdiff_t)own->dy_frame.top + v.patch);
            b->dy = top * line + (size_t)((ptrdiff_t)own->dy_frame.left + h.patch) * l->out.c;
        }
        b->dx = (v.first * l->in.w + h.first) * l->in.c;
        b->columns = columns;
        columns += own->groups * c->runs * c->run * c->out_pad;
        runs += c->runs;
    }
}

/* ---- Memory ---- */

static void plan_back(const fed_layer *l, size_t lanes, conv *own, fast_arena *a) {
    const fedtrain_filters *f = &own->filters;
    const size_t taps = f->kh * f->kw;
    const size_t in_pad = fedtrain_fast_round_up(f->in, lanes);
    frame *dy = &own->dy_frame;
    own->ways_down = fedtrain_fast_smaller(l->stride, (size_t)l->in.h + l->pad);
    own->ways_right = fedtrain_fast_smaller(l->stride, (size_t)l->in.w + l->pad);
    const size_t ways = own->ways_down * own->ways_right;
    reach(l->in.h, l->out.h, f->kh, l->stride, l->pad, &dy->top, &dy->h);
    reach(l->in.w, l->out.w, f->kw, l->stride, l->pad, &dy->left, &dy->w);
    bool framed = dy->h != l->out.h || dy->w != l->out.w;
    own->back = fedtrain_fast_take(a, FAST_WORKSPACE, ways * sizeof *own->back / sizeof(float));
    own->back_begin = fedtrain_fast_take(a, FAST_WORKSPACE, most_runs(taps, f->out));
    own->back_columns = fedtrain_fast_take(a, FAST_WORKSPACE, own->groups * taps * f->out * in_pad);
    own->zeros = fedtrain_fast_take(a, FAST_WORKSPACE, in_pad);
    own->dy = framed ? fedtrain_fast_take(a, FAST_SHARED, dy->h * dy->w * l->out.c) : NULL;
}

static void conv_plan(fast_net *f, fast_stage *s, fast_arena *a) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    const size_t lanes = f->kernels->lanes;
    own->groups = l->groups;
    own->filters = (fedtrain_filters){
        .out = l->out.c / l->groups, .in = l->in.c / l->groups, .kh = l->kh, .kw = l->kw};
    own->filters.out_pad = fedtrain_fast_round_up(own->filters.out, lanes);
    own->filters.order = own->order =
        fedtrain_fast_take(a, FAST_WORKSPACE, own->filters.in * l->kh * l->kw);
    set_sizes(l, own);
    const fedtrain_conv *c = &own->sizes;
    const size_t columns = own->groups * l->kh * l->kw * own->filters.in * c->out_pad;
    own->sizes.begin = own->begin =
        fedtrain_fast_take(a, FAST_WORKSPACE, most_runs((size_t)l->kh * l->kw, own->filters.in));
    own->start = fedtrain_fast_take(a, FAST_WORKSPACE, own->groups * c->out_pad);
    own->x = l->pad == 0
                 ? NULL
                 : fedtrain_fast_take(a, FAST_SHARED, own->x_frame.h * own->x_frame.w * l->in.c);
    if (s->merged != NULL) {
        fedtrain_conv_pooled_plan(f, s, columns, &own->pooled, a);
        own->columns = own->pooled.grad_rows;
        return;
    }
    own->columns = fedtrain_fast_take(a, FAST_WORKSPACE, columns);
    own->grad_columns = fedtrain_fast_take(a, FAST_WORKSPACE, columns);
    if (s->in[0]->trained) {
        plan_back(l, lanes, own, a);
    }
}

static void conv_start(const fast_net *f, fast_stage *s) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    fedtrain_filters_order(&own->filters, own->order);
    fill_begin(&own->sizes, l->kh, l->kw, own->x_frame.w * l->in.c, l->in.c, own->begin);
    if (s->merged != NULL) {
        fedtrain_conv_pooled_start(f, l, &own->pooled);
    } else if (s->in[0]->trained) {
        fill_back(l, f->kernels->lanes, own);
    }
}

/* ---- Running ---- */

/* Zeros around what framed() then fills in for each sample. */
static void clear_around(const frame *r, fed_shape shape, float *to) {
    if (to == NULL) {
        return;
    }
    float *at = to;
    for (size_t i = 0; i < shape.h; i++) {
        float *row = to + ((r->top + i) * r->w + r->left) * shape.c;
        memset(at, 0, (size_t)(row - at) * sizeof *at);
        at = row + (size_t)shape.w * shape.c;
    }
    memset(at, 0, (size_t)(to + r->h * r->w * shape.c - at) * sizeof *at);
}

/* A picture in its frame; or as it is, if it needs none. */
static const float *framed(const frame *r, const float *x, fed_shape shape, float *to) {
    size_t row = (size_t)shape.w * shape.c;
    for (size_t i = 0; to != NULL && i < shape.h; i++) {
        memcpy(to + ((i + r->top) * r->w + r->left) * shape.c, x + i * row, row * sizeof *x);
    }
    return to != NULL ? to : x;
}

static void load_weights(const fast_net *f, const fed_layer *l, const float *params, conv *own) {
    const fedtrain_filters *k = &own->filters;
    const float *weight = params + fedtrain_fast_offset(f, l->weight);
    size_t depth = k->kh * k->kw * k->in;
    for (size_t g = 0; g < own->groups; g++) {
        size_t pad = own->sizes.out_pad;
        fedtrain_filters_columns(f->kernels, k, weight + g * k->out * depth,
                                 own->columns + g * depth * pad);
        if (l->has_bias) {
            memcpy(own->start + g * pad, params + fedtrain_fast_offset(f, l->bias) + g * k->out,
                   k->out * sizeof *own->start);
        }
    }
}

/* Without a kernel to speak of, all rows are one. */
static fedtrain_conv as_one_row(fedtrain_conv c) {
    if (c.x_row == c.columns * c.x_step && c.y_row == c.columns * c.y_step) {
        c.columns *= c.rows;
        c.rows = 1;
    }
    return c;
}

static void conv_forward(const fast_net *f, fast_stage *s, const fedtrain_pass *pass) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    const fedtrain_conv c = as_one_row(own->sizes);
    load_weights(f, l, pass->params, own);
    clear_around(&own->x_frame, l->in, own->x);
    for (size_t b = 0; b < pass->batch; b++) {
        const float *x = framed(&own->x_frame, s->in[0]->data + b * s->in[0]->size, l->in, own->x);
        float *pooled = s->out->data + b * s->out->size;
        float *y = s->merged != NULL ? own->pooled.sample : pooled;
        for (size_t g = 0; g < own->groups; g++) {
            f->kernels->conv(&c, own->columns + g * c.runs * c.run * c.out_pad,
                             own->start + g * c.out_pad, x + g * own->filters.in, y + g * c.out);
        }
        if (s->merged != NULL) {
            const fast_pool *p = s->merged->own;
            f->kernels->maxpool(&p->sizes, y, pooled, p->winner + b * s->out->size);
        }
    }
}

/* From the columns, which the way there has left. */
static void load_back(const fast_net *f, const fed_layer *l, conv *own) {
    const fedtrain_filters *k = &own->filters;
    const size_t group = k->kh * k->kw * k->in * k->out_pad;
    for (size_t i = 0; i < own->ways_down * own->ways_right; i++) {
        const back *b = &own->back[i];
        size_t size = b->sizes.runs * b->sizes.run * b->sizes.out_pad;
        for (size_t g = 0; g < own->groups; g++) {
            fedtrain_filters_back(f->kernels, k, own->columns + g * group, l->stride, b->ky, b->kx,
                                  b->sizes.out_pad, own->back_columns + b->columns + g * size);
        }
    }
}

/* One sample's input gradient, from its output's in a frame. */
static void input_backward(const fast_net *f, const conv *own, const float *dy, bool add,
                           float *dx) {
    for (size_t i = 0; i < own->ways_down * own->ways_right; i++) {
        const back *b = &own->back[i];
        const fedtrain_conv c = as_one_row(b->sizes);
        if (c.columns == 0) {
            continue;
        }
        for (size_t g = 0; g < own->groups; g++) {
            f->kernels->conv(&c, own->back_columns + b->columns + g * c.runs * c.run * c.out_pad,
                             add ? NULL : own->zeros, dy + b->dy + g * own->filters.out,
                             dx + b->dx + g * c.out);
        }
    }
}

static void tiled_backward(const fast_net *f, fast_stage *s, float *bias, const fast_flow *w) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    const fedtrain_filters *k = &own->filters;
    const fedtrain_conv *c = &own->sizes;
    const fast_value *in = s->in[0];
    const size_t depth = c->runs * c->run, weight = fedtrain_fast_offset(f, l->weight);
    memset(own->grad_columns, 0, own->groups * depth * c->out_pad * sizeof *own->grad_columns);
    clear_around(&own->x_frame, l->in, own->x);
    if (in->grad != NULL) {
        load_back(f, l, own);
        clear_around(&own->dy_frame, l->out, own->dy);
    }
    for (size_t b = 0; b < w->pass->batch; b++) {
        const float *x = framed(&own->x_frame, in->data + b * in->size, l->in, own->x);
        const float *dy = s->out->grad + b * s->out->size;
        for (size_t g = 0; g < own->groups; g++) {
            f->kernels->conv_weight_grad(c, x + g * k->in, dy + g * k->out,
                                         own->grad_columns + g * depth * c->out_pad);
        }
        if (l->has_bias) {
            f->kernels->sum_rows(dy, fedtrain_fast_area(l->out), l->out.c, bias);
        }
        if (in->grad != NULL) {
            input_backward(f, own, framed(&own->dy_frame, dy, l->out, own->dy), s->adds[0],
                           in->grad + b * in->size);
        }
    }
    float *grad = fedtrain_fast_grad_at(w, weight);
    for (size_t g = 0; g < own->groups; g++) {
        fedtrain_filters_weight(f->kernels, k, own->grad_columns + g * depth * c->out_pad,
                                grad + g * k->out * depth);
    }
    fedtrain_fast_grad_done(w, weight, grad, l->out.c * depth);
}

static void conv_backward(const fast_net *f, fast_stage *s, const fast_flow *w) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    float *bias = own->start; /* no longer needed */
    memset(bias, 0, own->groups * own->sizes.out_pad * sizeof *bias);
    if (s->merged != NULL) {
        fedtrain_conv_pooled_backward(f, s, &own->pooled, bias, w);
    } else {
        tiled_backward(f, s, bias, w);
    }
    if (l->has_bias) {
        size_t offset = fedtrain_fast_offset(f, l->bias);
        float *grad = fedtrain_fast_grad_at(w, offset);
        memcpy(grad, bias, l->out.c * sizeof *grad);
        fedtrain_fast_grad_done(w, offset, grad, l->out.c);
    }
}

const fast_op fedtrain_op_conv = {
    .own_bytes = sizeof(conv),
    .merges = conv_merges,
    .plan = conv_plan,
    .start = conv_start,
    .forward = conv_forward,
    .backward = conv_backward,
};
