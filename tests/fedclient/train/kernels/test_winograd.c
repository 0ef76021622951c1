/* Winograd convolutions and their gradients in every kernel set, compared with sums of doubles. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fed/rng.h"
#include "fed_cases.h"
#include "fedclient/train/kernels.h"

typedef struct shape {
    size_t batch, rows, columns, in, out; /* rows and columns of tiles */
} shape;

typedef struct outputs {
    size_t height, width; /* of a tile */
} outputs;

static const outputs kinds[] = {{2, 2}, {2, 4}, {4, 4}};

/* Narrow and wide pictures; a part of a block of tiles, a whole one, and several. */
static const shape shapes[] = {{1, 1, 1, 16, 16},  {3, 1, 1, 16, 32},  {2, 3, 1, 32, 16},
                               {2, 1, 3, 16, 48},  {1, 4, 8, 16, 16},  {3, 3, 5, 48, 64},
                               {2, 7, 7, 16, 112}, {1, 2, 2, 160, 80}, {5, 4, 4, 64, 64}};

enum { SHAPES = sizeof shapes / sizeof shapes[0], KINDS = sizeof kinds / sizeof kinds[0] };
enum { TAPS = 9, UNTOUCHED = 7 };

typedef struct work {
    shape s;
    fedtrain_winograd sizes;
    size_t height, width; /* of a picture */
    float *x, *y, *dy, *weight, *u, *start, *zeros, *scratch;
} work;

static float *take(size_t n, fed_rng *rng) {
    float *values = calloc(n + FEDTRAIN_SLACK, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; rng != NULL && i < n; i++) {
        values[i] = 2 * fed_rng_float(rng) - 1;
    }
    return values;
}

static work make(shape s, outputs tile) {
    fed_rng rng;
    fed_rng_init(&rng, 9, (uint32_t)s.in, (uint32_t)s.out);
    work w = {.s = s, .height = tile.height * s.rows, .width = tile.width * s.columns};
    const size_t places = s.batch * w.height * w.width;
    w.x = take(places * s.in, &rng);
    w.dy = take(places * s.out, &rng);
    w.y = take(places * s.out, NULL);
    w.weight = take(TAPS * s.in * s.out, &rng);
    w.start = take(s.out, &rng);
    w.zeros = take(FEDTRAIN_WINOGRAD_SIDE * s.in, NULL);
    w.sizes = (fedtrain_winograd){.batch = s.batch,
                                  .rows = s.rows,
                                  .columns = s.columns,
                                  .height = tile.height,
                                  .width = tile.width,
                                  .in = s.in,
                                  .out = s.out,
                                  .zeros = w.zeros};
    w.u = take(fedtrain_winograd_elements(&w.sizes) * s.in * s.out, NULL);
    w.scratch = take(fedtrain_winograd_scratch(&w.sizes), NULL);
    return w;
}

static void release(work *w) {
    free(w->x);
    free(w->dy);
    free(w->y);
    free(w->weight);
    free(w->start);
    free(w->u);
    free(w->zeros);
    free(w->scratch);
}

/* The input under a tap of the filter at a position; 0 outside the picture. */
static double input(const work *w, size_t b, size_t row, size_t column, size_t tap, size_t i) {
    const size_t y = row + tap / 3, x = column + tap % 3; /* counted with the padding */
    return y == 0 || x == 0 || y > w->height || x > w->width
               ? 0
               : (double)w->x[((b * w->height + y - 1) * w->width + x - 1) * w->s.in + i];
}

static double output(const work *w, size_t place, size_t o) {
    const size_t column = place % w->width, row = place / w->width % w->height;
    double sum = 0;
    for (size_t tap = 0; tap < TAPS; tap++) {
        for (size_t i = 0; i < w->s.in; i++) {
            sum += input(w, place / w->width / w->height, row, column, tap, i) *
                   (double)w->weight[(tap * w->s.in + i) * w->s.out + o];
        }
    }
    return sum;
}

static double weight_grad(const work *w, size_t tap, size_t i, size_t o) {
    const size_t places = w->s.batch * w->height * w->width;
    double sum = 0;
    for (size_t place = 0; place < places; place++) {
        const size_t column = place % w->width, row = place / w->width % w->height;
        sum += input(w, place / w->width / w->height, row, column, tap, i) *
               (double)w->dy[place * w->s.out + o];
    }
    return sum;
}

/* Rounding grows with the root of the number of terms, each of which is 1 at most, and with the
 * tile. */
static void assert_close(const work *w, float got, double want, size_t terms) {
    const double side = (double)(w->sizes.height * w->sizes.width) / 4;
    const double bound = 1e-6 * side * (1 + sqrt((double)terms));
    if (!(fabs((double)got - want) <= bound)) {
        fail_msg("%g instead of %g, more than %g apart", (double)got, want, bound);
    }
}

static void check_forward(const fedtrain_kernels *k, work *w, bool add) {
    const size_t places = w->s.batch * w->height * w->width;
    for (size_t i = 0; i < places * w->s.out; i++) {
        w->y[i] = UNTOUCHED;
    }
    k->winograd_weights(&w->sizes, w->weight, w->u);
    k->winograd(&w->sizes, w->u, add ? NULL : w->start, w->x, w->y, w->scratch);
    for (size_t place = 0; place < places; place++) {
        for (size_t o = 0; o < w->s.out; o += 5) {
            const double start = add ? UNTOUCHED : (double)w->start[o];
            assert_close(w, w->y[place * w->s.out + o], start + output(w, place, o),
                         TAPS * w->s.in);
        }
    }
}

static float *weights_gradient(const fedtrain_kernels *k, work *w) {
    const size_t size = w->s.in * w->s.out;
    float *grad = take(TAPS * size, NULL);
    memset(w->u, 0, fedtrain_winograd_elements(&w->sizes) * size * sizeof *w->u);
    k->winograd_weight_grad(&w->sizes, w->x, w->dy, w->u, w->scratch);
    k->winograd_weights_grad(&w->sizes, w->u, grad);
    return grad;
}

static void check_weight_grad(const fedtrain_kernels *k, work *w) {
    float *grad = weights_gradient(k, w);
    for (size_t tap = 0; tap < TAPS; tap++) {
        for (size_t i = 0; i < w->s.in; i += 3) {
            for (size_t o = 0; o < w->s.out; o += 5) {
                assert_close(w, grad[(tap * w->s.in + i) * w->s.out + o], weight_grad(w, tap, i, o),
                             w->s.batch * w->height * w->width);
            }
        }
    }
    free(grad);
}

FED_TEST(the_sums_are_those_of_doubles) {
    for (size_t k = 0; fedtrain_kernels_get(k) != NULL; k++) {
        for (size_t i = 0; i < SHAPES * KINDS; i++) {
            work w = make(shapes[i / KINDS], kinds[i % KINDS]);
            check_forward(fedtrain_kernels_get(k), &w, false);
            check_forward(fedtrain_kernels_get(k), &w, true);
            release(&w);
        }
    }
}

FED_TEST(the_gradients_of_the_weights_are_those_of_doubles) {
    for (size_t k = 0; fedtrain_kernels_get(k) != NULL; k++) {
        for (size_t i = 0; i < SHAPES * KINDS; i++) {
            work w = make(shapes[i / KINDS], kinds[i % KINDS]);
            check_weight_grad(fedtrain_kernels_get(k), &w);
            release(&w);
        }
    }
}

/* What the kernels conv and conv_weight_grad compute, from a copy of the picture with zeros around
 * it. */
static void direct(const fedtrain_kernels *k, const work *w, float *padded, float *y, float *grad) {
    const size_t in = w->s.in, line = (w->width + 2) * in;
    uint32_t begin[TAPS];
    for (size_t tap = 0; tap < TAPS; tap++) {
        begin[tap] = (uint32_t)(tap / 3 * line + tap % 3 * in);
    }
    const fedtrain_conv c = {.rows = w->height,
                             .columns = w->width,
                             .x_row = line,
                             .x_step = in,
                             .y_row = w->width * w->s.out,
                             .y_step = w->s.out,
                             .runs = TAPS,
                             .run = in,
                             .begin = begin,
                             .out = w->s.out,
                             .out_pad = w->s.out};
    for (size_t b = 0; b < w->s.batch; b++) {
        for (size_t r = 0; r < w->height; r++) {
            memcpy(padded + (r + 1) * line + in, w->x + (b * w->height + r) * w->width * in,
                   w->width * in * sizeof *padded);
        }
        k->conv(&c, w->weight, w->start, padded, y + b * w->height * c.y_row);
        k->conv_weight_grad(&c, padded, w->dy + b * w->height * c.y_row, grad);
    }
}

/* The sum of squared errors of the outputs. */
static double errors(const work *w, const float *y) {
    double sum = 0;
    for (size_t i = 0; i < w->s.batch * w->height * w->width * w->s.out; i++) {
        const double apart =
            (double)y[i] - (double)w->start[i % w->s.out] - output(w, i / w->s.out, i % w->s.out);
        sum += apart * apart;
    }
    return sum;
}

/* The sum of squared errors of some of the weights' gradients. */
static double grad_errors(const work *w, const float *grad) {
    double sum = 0;
    for (size_t tap = 0; tap < TAPS; tap++) {
        for (size_t i = tap; i < w->s.in; i += 7) {
            for (size_t o = tap; o < w->s.out; o += 5) {
                const double want = weight_grad(w, tap, i, o);
                const double apart = (double)grad[(tap * w->s.in + i) * w->s.out + o] - want;
                sum += apart * apart;
            }
        }
    }
    return sum;
}

static void assert_twice(const work *w, const char *what, double ours, double theirs) {
    if (!(ours <= 2 * 2 * theirs)) {
        fail_msg("%s, %zux%zu, %zu inputs: %g times the error of direct sums", what,
                 w->sizes.height, w->sizes.width, w->s.in, sqrt(ours / theirs));
    }
}

static void check_error(shape s, outputs tile, bool positive) {
    work w = make(s, tile);
    float *padded = take((w.height + 2) * (w.width + 2) * s.in, NULL);
    float *y = take(s.batch * w.height * w.width * s.out, NULL);
    for (size_t i = 0; positive && i < s.batch * w.height * w.width * s.in; i++) {
        w.x[i] = w.x[i] > 0 ? w.x[i] : 0;
    }
    for (size_t k = 0; fedtrain_kernels_get(k) != NULL; k++) {
        float *grad = weights_gradient(fedtrain_kernels_get(k), &w);
        float *direct_grad = take(TAPS * s.in * s.out, NULL);
        direct(fedtrain_kernels_get(k), &w, padded, y, direct_grad);
        check_forward(fedtrain_kernels_get(k), &w, false);
        assert_twice(&w, "outputs", errors(&w, w.y), errors(&w, y));
        assert_twice(&w, "gradients", grad_errors(&w, grad), grad_errors(&w, direct_grad));
        free(grad);
        free(direct_grad);
    }
    free(padded);
    free(y);
    release(&w);
}

/* The fewest channels that fast_conv.c transforms so, and more. With fewer than 32 tiles gradients
 * have few terms: there both errors are small, and F(4x4) has up to 3.2 times the direct one. */
FED_TEST(the_error_is_at_most_twice_that_of_the_direct_sums) {
    for (size_t positive = 0; positive < 2; positive++) {
        check_error((shape){2, 4, 4, 16, 16}, (outputs){2, 2}, positive > 0);
        check_error((shape){2, 4, 4, 64, 64}, (outputs){2, 2}, positive > 0);
        check_error((shape){2, 8, 4, 16, 16}, (outputs){2, 4}, positive > 0);
        check_error((shape){4, 4, 2, 64, 64}, (outputs){2, 4}, positive > 0);
        check_error((shape){2, 4, 4, 32, 32}, (outputs){4, 4}, positive > 0);
        check_error((shape){8, 2, 2, 64, 64}, (outputs){4, 4}, positive > 0);
        check_error((shape){8, 2, 2, 160, 32}, (outputs){4, 4}, positive > 0);
    }
}
