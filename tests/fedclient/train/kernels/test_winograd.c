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

/* Narrow and wide pictures; a part of a block of tiles, a whole one, and several. */
static const shape shapes[] = {{1, 1, 1, 16, 16},  {3, 1, 1, 16, 32},  {2, 3, 1, 32, 16},
                               {2, 1, 3, 16, 48},  {1, 4, 8, 16, 16},  {3, 3, 5, 48, 64},
                               {2, 7, 7, 16, 112}, {1, 2, 2, 160, 80}, {5, 4, 4, 64, 64}};

enum { SHAPES = sizeof shapes / sizeof shapes[0], TAPS = 9, UNTOUCHED = 7 };

typedef struct work {
    shape s;
    size_t height, width;
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

static work make(shape s) {
    fed_rng rng;
    fed_rng_init(&rng, 9, (uint32_t)s.in, (uint32_t)s.out);
    work w = {.s = s, .height = 2 * s.rows, .width = 2 * s.columns};
    const size_t places = s.batch * w.height * w.width;
    w.x = take(places * s.in, &rng);
    w.dy = take(places * s.out, &rng);
    w.y = take(places * s.out, NULL);
    w.weight = take(TAPS * s.in * s.out, &rng);
    w.start = take(s.out, &rng);
    w.u = take(FEDTRAIN_ELEMENTS * s.in * s.out, NULL);
    w.zeros = take(4 * s.in, NULL);
    w.scratch = take(fedtrain_winograd_scratch(s.in, s.out), NULL);
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

/* Rounding grows with the root of the number of terms, each of which is 1 at most. */
static void assert_close(float got, double want, size_t terms) {
    const double bound = 1e-6 * (1 + sqrt((double)terms));
    if (!(fabs((double)got - want) <= bound)) {
        fail_msg("%g instead of %g, more than %g apart", (double)got, want, bound);
    }
}

static fedtrain_winograd sizes_of(const work *w) {
    return (fedtrain_winograd){w->s.batch, w->s.rows, w->s.columns, w->s.in, w->s.out, w->zeros};
}

static void check_forward(const fedtrain_kernels *k, work *w, bool add) {
    const fedtrain_winograd sizes = sizes_of(w);
    const size_t places = w->s.batch * w->height * w->width;
    for (size_t i = 0; i < places * w->s.out; i++) {
        w->y[i] = UNTOUCHED;
    }
    k->winograd_weights(w->s.in * w->s.out, w->weight, w->u);
    k->winograd(&sizes, w->u, add ? NULL : w->start, w->x, w->y, w->scratch);
    for (size_t place = 0; place < places; place++) {
        for (size_t o = 0; o < w->s.out; o += 5) {
            const double start = add ? UNTOUCHED : (double)w->start[o];
            assert_close(w->y[place * w->s.out + o], start + output(w, place, o), TAPS * w->s.in);
        }
    }
}

static void check_weight_grad(const fedtrain_kernels *k, work *w) {
    const fedtrain_winograd sizes = sizes_of(w);
    const size_t size = w->s.in * w->s.out;
    float *grad = take(TAPS * size, NULL);
    memset(w->u, 0, FEDTRAIN_ELEMENTS * size * sizeof *w->u);
    k->winograd_weight_grad(&sizes, w->x, w->dy, w->u, w->scratch);
    k->winograd_weights_grad(size, w->u, grad);
    for (size_t tap = 0; tap < TAPS; tap++) {
        for (size_t i = 0; i < w->s.in; i += 3) {
            for (size_t o = 0; o < w->s.out; o += 5) {
                assert_close(grad[(tap * w->s.in + i) * w->s.out + o], weight_grad(w, tap, i, o),
                             w->s.batch * w->height * w->width);
            }
        }
    }
    free(grad);
}

FED_TEST(the_sums_are_those_of_doubles) {
    for (size_t k = 0; fedtrain_kernels_get(k) != NULL; k++) {
        for (size_t i = 0; i < SHAPES; i++) {
            work w = make(shapes[i]);
            check_forward(fedtrain_kernels_get(k), &w, false);
            check_forward(fedtrain_kernels_get(k), &w, true);
            release(&w);
        }
    }
}

FED_TEST(the_gradients_of_the_weights_are_those_of_doubles) {
    for (size_t k = 0; fedtrain_kernels_get(k) != NULL; k++) {
        for (size_t i = 0; i < SHAPES; i++) {
            work w = make(shapes[i]);
            check_weight_grad(fedtrain_kernels_get(k), &w);
            release(&w);
        }
    }
}

/* The sums of all taps by the kernel `conv`, from a copy of the picture with zeros around it. */
static void direct(const fedtrain_kernels *k, const work *w, float *padded, float *y) {
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
    }
}

FED_TEST(the_error_is_at_most_twice_that_of_the_direct_sums) {
    work w = make((shape){2, 4, 4, 64, 64});
    const size_t places = w.s.batch * w.height * w.width;
    float *padded = take((w.height + 2) * (w.width + 2) * w.s.in, NULL);
    float *y = take(places * w.s.out, NULL);
    for (size_t k = 0; fedtrain_kernels_get(k) != NULL; k++) {
        double ours = 0, theirs = 0;
        direct(fedtrain_kernels_get(k), &w, padded, y);
        check_forward(fedtrain_kernels_get(k), &w, false);
        for (size_t i = 0; i < places * w.s.out; i++) {
            const double want = (double)w.start[i % w.s.out] + output(&w, i / w.s.out, i % w.s.out);
            ours += ((double)w.y[i] - want) * ((double)w.y[i] - want);
            theirs += ((double)y[i] - want) * ((double)y[i] - want);
        }
        assert_true(ours <= 2 * 2 * theirs);
    }
    free(padded);
    free(y);
    release(&w);
}
