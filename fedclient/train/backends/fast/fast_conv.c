/* The fast backend's convolutions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/fast/fast_conv.h"

#include <string.h>

/* The input's gradient is a convolution too: with stride 1, of the output's gradient with the
 * flipped filters. With a larger stride, the inputs are divided into phases, by the remainders of
 * their row and column by the stride. Each phase uses other taps of the filters, and is a
 * convolution of its own. */
typedef struct phase {
    fedtrain_conv sizes;
    size_t ky, kx; /* the first row and column of the filters that this phase uses */
    size_t dy, dx; /* where the first patch begins in dy, and the first input in dx */
    size_t packed; /* where the phase's weights begin in packed_backward */
} phase;

typedef struct padded {
    size_t top, left, h, w; /* zeros above and on the left; height and width with zeros */
} padded;

typedef struct conv {
    fedtrain_filters filters; /* the filters of one group */
    size_t groups;
    fedtrain_conv sizes; /* the sizes of one group */
    padded x_padded, dy_padded;
    uint32_t *begin, *phase_begin;
    uint32_t *order;
    phase *phases; /* [phases_down * phases_right] */
    size_t phases_down, phases_right;
    float *packed, *packed_grad; /* float32[groups, kh, kw, in, out_pad] */
    float *packed_backward;
    float *start;     /* float32[groups, out_pad]: the bias, or zeros */
    float *bias_grad; /* in start's memory: the backward pass needs no bias */
    float *zeros;     /* float32[in_pad] */
    float *x, *dy;    /* one sample with its padding; NULL: not needed */

    /* Copies of packed, x and dy for kernels that multiply bfloat16: each 32-bit word holds a pair
     * of bfloat16 values (kernels.h). x_pairs, dy_pairs: of one sample. NULL: other kernels. */
    float *packed_pairs, *x_pairs, *dy_pairs;

    /* Of a convolution by Winograd's transform: transformed weights, and their gradient; NULL:
     * another convolution. pad: float32[FEDTRAIN_WINOGRAD_SIDE, channels], zeros. */
    float *u, *du, *tiles, *pad;
    fast_conv_pooled pooled;
} conv;

/* Tiles read a run repeatedly, so it should stay in the first-level cache. */
enum { LONGEST_RUN = 256 };

/* Set the runs of a patch. A run is a whole row of the kernel if there is only one group and the
 * row is short. Otherwise it is the channels of one tap, or a part of them. */
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

static size_t most_runs(size_t taps, size_t channels) {
    return taps * (channels / (LONGEST_RUN / 2) + 1);
}

/* Set where each run begins. line, step: floats from a tap to the one below, and to its right. */
static void fill_begin(const fedtrain_conv *c, size_t rows, size_t columns, size_t line,
                       size_t step, uint32_t *begin) {
    const size_t taps = c->runs > rows ? columns : 1, side = rows > 0 ? c->runs / rows : 1;
    const size_t parts = side / taps;
    for (size_t r = 0; r < c->runs; r++) {
        size_t in_row = r % side;
        begin[r] = (uint32_t)(r / side * line + in_row / parts * step + in_row % parts * c->run);
    }
}

static void set_sizes(const fed_layer *l, conv *own) {
    const fedtrain_filters *f = &own->filters;
    fedtrain_conv *c = &own->sizes;
    own->x_padded = (padded){l->pad, l->pad, l->in.h + 2 * l->pad, l->in.w + 2 * l->pad};
    c->rows = l->out.h;
    c->columns = l->out.w;
    c->x_row = l->stride * own->x_padded.w * l->in.c;
    c->x_step = (size_t)l->stride * l->in.c;
    c->y_row = (size_t)l->out.w * l->out.c;
    c->y_step = l->out.c;
    c->out = f->out;
    c->out_pad = f->out_pad;
    set_runs(c, own->groups, f->kh, f->kw, f->in);
}

/* One side of a phase: the inputs with this remainder, and their taps and outputs. Input u,
 * counted with the padding, contributes to output (u - remainder) / stride - j by tap remainder +
 * j * stride. */
typedef struct side {
    size_t taps;
    size_t count;
    size_t first;    /* the first input, not counting the padding */
    ptrdiff_t patch; /* first output that reads input `first`; below 0: padding */
} side;

static side side_of(size_t remainder, size_t in, size_t k, size_t stride, size_t pad) {
    size_t taps = remainder < k ? (k - remainder + stride - 1) / stride : 0;
    size_t skipped = pad > remainder ? (pad - remainder + stride - 1) / stride : 0;
    size_t u = skipped * stride + remainder, end = pad + in;
    return (side){.taps = taps,
                  .count = u < end ? (end - u + stride - 1) / stride : 0,
                  .first = u - pad,
                  .patch = (ptrdiff_t)skipped - (ptrdiff_t)taps + 1};
}

/* Find which outputs, and zeros around them, the patches of all phases read. *before: the number
 * of zeros before the first output. *whole: the number of outputs and zeros. */
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

static void fill_phases(const fed_layer *l, size_t lanes, conv *own) {
    const fedtrain_filters *f = &own->filters;
    size_t packed = 0, runs = 0, line = own->dy_padded.w * l->out.c;
    for (size_t i = 0; i < own->phases_down * own->phases_right; i++) {
        phase *b = &own->phases[i];
        fedtrain_conv *c = &b->sizes;
        b->ky = i / own->phases_right;
        b->kx = i % own->phases_right;
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
        uint32_t *begin = own->phase_begin + runs;
        fill_begin(c, v.taps, h.taps, line, l->out.c, begin);
        c->begin = begin;
        if (c->runs > 0 && c->rows > 0 && c->columns > 0) {
            size_t top = (size_t)((ptrdiff_t)own->dy_padded.top + v.patch);
            b->dy = top * line + (size_t)((ptrdiff_t)own->dy_padded.left + h.patch) * l->out.c;
        }
        b->dx = (v.first * l->in.w + h.first) * l->in.c;
        b->packed = packed;
        packed += own->groups * c->runs * c->run * c->out_pad;
        runs += c->runs;
    }
}

static size_t padded_size(const padded *r, fed_shape shape) {
    return r->h * r->w * shape.c;
}

static void plan_phases(const fed_layer *l, size_t lanes, conv *own, fast_arena *a) {
    const fedtrain_filters *f = &own->filters;
    const size_t taps = f->kh * f->kw;
    const size_t in_pad = fedtrain_fast_round_up(f->in, lanes);
    padded *dy = &own->dy_padded;
    own->phases_down = fedtrain_fast_smaller(l->stride, (size_t)l->in.h + l->pad);
    own->phases_right = fedtrain_fast_smaller(l->stride, (size_t)l->in.w + l->pad);
    const size_t phases = own->phases_down * own->phases_right;
    reach(l->in.h, l->out.h, f->kh, l->stride, l->pad, &dy->top, &dy->h);
    reach(l->in.w, l->out.w, f->kw, l->stride, l->pad, &dy->left, &dy->w);
    bool pads = dy->h != l->out.h || dy->w != l->out.w;
    own->phases =
        fedtrain_fast_take(a, FAST_WORKSPACE, phases * sizeof *own->phases / sizeof(float));
    own->phase_begin = fedtrain_fast_take(a, FAST_WORKSPACE, most_runs(taps, f->out));
    own->packed_backward =
        fedtrain_fast_take(a, FAST_WORKSPACE, own->groups * taps * f->out * in_pad);
    own->zeros = fedtrain_fast_take(a, FAST_WORKSPACE, in_pad);
    own->dy = pads ? fedtrain_fast_take(a, FAST_SHARED, padded_size(dy, l->out)) : NULL;
}

static void plan_pairs(const fast_net *f, const fast_node *s, size_t packed, conv *own,
                       fast_arena *a) {
    if (fedtrain_fast_pairs(f) == NULL) {
        return;
    }
    const size_t dy = padded_size(&own->dy_padded, s->layer->out), out = s->out->size;
    own->packed_pairs = fedtrain_fast_take(a, FAST_SHARED, packed);
    own->x_pairs = fedtrain_fast_take(a, FAST_SHARED, padded_size(&own->x_padded, s->layer->in));
    own->dy_pairs = fedtrain_fast_take(a, FAST_SHARED, dy > out ? dy : out);
}

/* Return whether the kernels of winograd.c can do this convolution. */
static bool fits_winograd(const fast_net *f, const fast_node *s) {
    const fed_layer *l = s->layer;
    return !FED_SMALL && fedtrain_fast_pairs(f) == NULL && s->merged == NULL && l->groups == 1 &&
           l->kh == 3 && l->kw == 3 && l->stride == 1 && l->pad == 1 && l->in.h % 2 == 0 &&
           l->in.w % 2 == 0 && l->in.c % FEDTRAIN_WINOGRAD == 0 &&
           l->out.c % FEDTRAIN_WINOGRAD == 0;
}

/* F(4x4) has fewest products, but rounds more. With 16 channels, its error would be over twice that
 * of direct sums. */
static fedtrain_winograd winograd_of(const fed_layer *l, const conv *own, size_t batch) {
    const bool deep = l->in.c >= 2 * FEDTRAIN_WINOGRAD && l->out.c >= 2 * FEDTRAIN_WINOGRAD;
    const size_t width = l->in.w % 4 == 0 ? 4 : 2;
    const size_t height = width == 4 && deep && l->in.h % 4 == 0 ? 4 : 2;
    return (fedtrain_winograd){.batch = batch,
                               .rows = l->in.h / height,
                               .columns = l->in.w / width,
                               .height = height,
                               .width = width,
                               .in = l->in.c,
                               .out = l->out.c,
                               .zeros = own->pad};
}

/* The backward pass transforms dy as the forward pass does x. */
static void plan_winograd(const fast_node *s, conv *own, fast_arena *a) {
    const fedtrain_winograd w = winograd_of(s->layer, own, 0);
    own->u = fedtrain_fast_take(a, FAST_SHARED, fedtrain_winograd_elements(&w) * w.in * w.out);
    own->du = own->u; /* dx is complete before the weights' gradient begins */
    own->tiles = fedtrain_fast_take(a, FAST_SHARED, fedtrain_winograd_scratch(&w));
    own->pad = fedtrain_fast_take(a, FAST_WORKSPACE,
                                  FEDTRAIN_WINOGRAD_SIDE * (w.in > w.out ? w.in : w.out));
}

static void conv_plan(fast_net *f, fast_node *s, fast_arena *a) {
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
    const size_t packed = own->groups * l->kh * l->kw * own->filters.in * c->out_pad;
    own->sizes.begin = own->begin =
        fedtrain_fast_take(a, FAST_WORKSPACE, most_runs((size_t)l->kh * l->kw, own->filters.in));
    own->start = fedtrain_fast_take(a, FAST_WORKSPACE, own->groups * c->out_pad);
    own->bias_grad = own->start;
    const bool winograd = fits_winograd(f, s);
    own->x = l->pad == 0 || winograd
                 ? NULL
                 : fedtrain_fast_take(a, FAST_SHARED, padded_size(&own->x_padded, l->in));
    if (s->merged != NULL) {
        fedtrain_conv_pooled_plan(f, s, packed, &own->pooled, a);
        own->packed = own->pooled.packed;
        plan_pairs(f, s, packed, own, a);
        return;
    }
    own->packed = fedtrain_fast_take(a, FAST_WORKSPACE, packed);
    own->packed_grad = fedtrain_fast_take(a, FAST_WORKSPACE, packed);
    if (s->in[0]->trained) {
        plan_phases(l, lanes, own, a);
    }
    if (winograd) {
        plan_winograd(s, own, a);
    }
    plan_pairs(f, s, packed, own, a);
}

static void conv_start(const fast_net *f, fast_node *s) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    fedtrain_filters_order(&own->filters, own->order);
    fill_begin(&own->sizes, l->kh, l->kw, own->x_padded.w * l->in.c, l->in.c, own->begin);
    if (s->merged != NULL) {
        fedtrain_conv_pooled_start(f, l, &own->pooled);
    } else if (s->in[0]->trained) {
        fill_phases(l, f->kernels->lanes, own);
    }
}

/* Set the zeros around the picture. pad_picture() writes the picture itself for each sample. */
static void clear_padding(const padded *r, fed_shape shape, float *to) {
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

static const float *pad_picture(const padded *r, const float *x, fed_shape shape, float *to) {
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
        fedtrain_filters_pack(f->kernels, k, weight + g * k->out * depth,
                              own->packed + g * depth * pad);
        if (l->has_bias) {
            memcpy(own->start + g * pad, params + fedtrain_fast_offset(f, l->bias) + g * k->out,
                   k->out * sizeof *own->start);
        }
    }
}

/* If rows follow each other without a gap, as with a kernel of 1 x 1 and a stride of 1, treat all
 * rows as one. */
static fedtrain_conv as_one_row(fedtrain_conv c) {
    if (c.x_row == c.columns * c.x_step && c.y_row == c.columns * c.y_step) {
        c.columns *= c.rows;
        c.rows = 1;
    }
    return c;
}

/* Make the pairs of packed weights run by run, because a pair never spans two runs. pairs may be
 * packed itself. */
static void pair_weights(const fast_net *f, const fedtrain_conv *c, size_t groups,
                         const float *packed, float *pairs) {
    const size_t run = c->run * c->out_pad, runs = groups * c->runs;
    for (size_t r = 0; fedtrain_fast_pairs(f) != NULL && r < runs; r++) {
        fedtrain_fast_pairs(f)(packed + r * run, run, c->out_pad, pairs + r * run);
    }
}

/* Return the operand of the weights' gradient for a sample's dy: dy itself, or its pairs. Pairs are
 * made row by row, because a pair never spans two rows. */
static const float *grad_operand(const fast_net *f, const fedtrain_conv *c, const float *dy,
                                 float *pairs) {
    if (fedtrain_fast_pairs(f) == NULL) {
        return dy;
    }
    for (size_t r = 0; r < c->rows; r++) {
        fedtrain_fast_pairs(f)(dy + r * c->y_row, c->y_row, c->y_step, pairs + r * c->y_row);
    }
    return pairs;
}

static void winograd_forward(const fast_net *f, const fast_node *s, size_t batch) {
    const conv *own = s->own;
    const fedtrain_winograd w = winograd_of(s->layer, own, batch);
    f->kernels->winograd_weights(&w, own->packed, own->u);
    f->kernels->winograd(&w, own->u, own->start, s->in[0]->data, s->out->data, own->tiles);
}

static void conv_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    const fedtrain_conv c = as_one_row(own->sizes);
    load_weights(f, l, pass->params, own);
    if (!FED_SMALL && own->u != NULL) {
        winograd_forward(f, s, pass->batch);
        return;
    }
    pair_weights(f, &c, own->groups, own->packed, own->packed_pairs);
    clear_padding(&own->x_padded, l->in, own->x);
    for (size_t b = 0; b < pass->batch; b++) {
        const float *picture =
            pad_picture(&own->x_padded, s->in[0]->data + b * s->in[0]->size, l->in, own->x);
        const float *x =
            fedtrain_fast_operand(f, picture, padded_size(&own->x_padded, l->in), 1, own->x_pairs);
        float *pooled = s->out->data + b * s->out->size;
        float *y = s->merged != NULL ? own->pooled.output : pooled;
        for (size_t g = 0; g < own->groups; g++) {
            const float *packed = fedtrain_fast_pairs(f) != NULL ? own->packed_pairs : own->packed;
            f->kernels->conv(&c, packed + g * c.runs * c.run * c.out_pad,
                             own->start + g * c.out_pad, x + g * own->filters.in, y + g * c.out);
        }
        if (s->merged != NULL) {
            const fast_pool *p = s->merged->own;
            f->kernels->maxpool(&p->sizes, y, pooled, p->winner + b * s->out->size);
        }
    }
}

static void pack_phases(const fast_net *f, const fed_layer *l, conv *own) {
    const fedtrain_filters *k = &own->filters;
    const size_t group = k->kh * k->kw * k->in * k->out_pad;
    for (size_t i = 0; i < own->phases_down * own->phases_right; i++) {
        const phase *b = &own->phases[i];
        size_t size = b->sizes.runs * b->sizes.run * b->sizes.out_pad;
        float *packed = own->packed_backward + b->packed;
        for (size_t g = 0; g < own->groups; g++) {
            fedtrain_filters_pack_backward(f->kernels, k, own->packed + g * group, l->stride, b->ky,
                                           b->kx, b->sizes.out_pad, packed + g * size);
        }
        pair_weights(f, &b->sizes, own->groups, packed, packed);
    }
}

static void input_backward(const fast_net *f, const conv *own, const float *dy, bool add,
                           float *dx) {
    for (size_t i = 0; i < own->phases_down * own->phases_right; i++) {
        const phase *b = &own->phases[i];
        const fedtrain_conv c = as_one_row(b->sizes);
        if (c.columns == 0) {
            continue;
        }
        for (size_t g = 0; g < own->groups; g++) {
            f->kernels->conv(&c, own->packed_backward + b->packed + g * c.runs * c.run * c.out_pad,
                             add ? NULL : own->zeros, dy + b->dy + g * own->filters.out,
                             dx + b->dx + g * c.out);
        }
    }
}

static void tiled_backward(const fast_net *f, fast_node *s, float *bias, const fast_flow *w) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    const fedtrain_filters *k = &own->filters;
    const fedtrain_conv *c = &own->sizes;
    const fast_value *in = s->in[0];
    const size_t depth = c->runs * c->run, weight = fedtrain_fast_offset(f, l->weight);
    memset(own->packed_grad, 0, own->groups * depth * c->out_pad * sizeof *own->packed_grad);
    clear_padding(&own->x_padded, l->in, own->x);
    if (in->grad != NULL) {
        pack_phases(f, l, own);
        clear_padding(&own->dy_padded, l->out, own->dy);
    }
    for (size_t b = 0; b < w->pass->batch; b++) {
        const float *picture = pad_picture(&own->x_padded, in->data + b * in->size, l->in, own->x);
        const float *dy = s->out->grad + b * s->out->size;
        const float *x = fedtrain_fast_operand(f, picture, padded_size(&own->x_padded, l->in),
                                               c->x_step, own->x_pairs);
        const float *grads = grad_operand(f, c, dy, own->dy_pairs);
        for (size_t g = 0; g < own->groups; g++) {
            f->kernels->conv_weight_grad(c, x + g * k->in, grads + g * k->out,
                                         own->packed_grad + g * depth * c->out_pad);
        }
        if (l->has_bias) {
            f->kernels->sum_rows(dy, fedtrain_fast_area(l->out), l->out.c, bias);
        }
        if (in->grad != NULL) {
            const float *dy_picture = pad_picture(&own->dy_padded, dy, l->out, own->dy);
            const size_t size = padded_size(&own->dy_padded, l->out);
            input_backward(f, own, fedtrain_fast_operand(f, dy_picture, size, 1, own->dy_pairs),
                           s->adds[0], in->grad + b * in->size);
        }
    }
    float *grad = fedtrain_fast_grad_at(w, weight);
    for (size_t g = 0; g < own->groups; g++) {
        fedtrain_filters_unpack(f->kernels, k, own->packed_grad + g * depth * c->out_pad,
                                grad + g * k->out * depth);
    }
    fedtrain_fast_grad_done(w, weight, grad, l->out.c * depth);
}

/* The input's gradient is the convolution of dy with the flipped filters. */
static void winograd_backward(const fast_net *f, fast_node *s, float *bias, const fast_flow *w) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    const fast_value *in = s->in[0], *out = s->out;
    const fedtrain_winograd sizes = winograd_of(l, own, w->pass->batch);
    const size_t size = sizes.in * sizes.out, weight = fedtrain_fast_offset(f, l->weight);
    if (in->grad != NULL) {
        fedtrain_winograd back = sizes;
        back.in = sizes.out;
        back.out = sizes.in;
        pack_phases(f, l, own);
        f->kernels->winograd_weights(&back, own->packed_backward, own->u);
        f->kernels->winograd(&back, own->u, s->adds[0] ? NULL : own->zeros, out->grad, in->grad,
                             own->tiles);
    }
    if (l->has_bias) {
        f->kernels->sum_rows(out->grad, sizes.batch * fedtrain_fast_area(l->out), l->out.c, bias);
    }
    memset(own->du, 0, fedtrain_winograd_elements(&sizes) * size * sizeof *own->du);
    f->kernels->winograd_weight_grad(&sizes, in->data, out->grad, own->du, own->tiles);
    f->kernels->winograd_weights_grad(&sizes, own->du, own->packed_grad);
    float *grad = fedtrain_fast_grad_at(w, weight);
    fedtrain_filters_unpack(f->kernels, &own->filters, own->packed_grad, grad);
    fedtrain_fast_grad_done(w, weight, grad, 9 * size);
}

static void conv_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    conv *own = s->own;
    const fed_layer *l = s->layer;
    float *bias = own->bias_grad;
    memset(bias, 0, own->groups * own->sizes.out_pad * sizeof *bias);
    if (s->merged != NULL) {
        fedtrain_conv_pooled_backward(f, s, &own->pooled, bias, w);
    } else if (!FED_SMALL && own->u != NULL) {
        winograd_backward(f, s, bias, w);
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
    .merges = fedtrain_conv_merges_pool,
    .plan = conv_plan,
    .start = conv_start,
    .forward = conv_forward,
    .backward = conv_backward,
};
