/* The backward pass and the update step of a dense layer in every kernel set, compared with simple
 * loops. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedclient/train/kernels.h"

/* Sizes around those of the tiles (4 and 8 rows and samples) and of 1 to 3 vectors of 4, 8 and 16
 * values, and more rows than are done at once. */
static const size_t inputs[] = {1, 3, 4, 7, 8, 15, 16, 17, 32, 35, 48, 67, 100};
static const size_t outputs[] = {1, 4, 7, 8, 45, 70};
static const size_t batches[] = {1, 2, 3, 4, 5, 8, 11, 18};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ABOVE: number of further outputs, after those in `rows`; no gradient is computed for them. */
enum { IN = 100, OUT = 72, BATCH = 18, ABOVE = 2 };

typedef struct layer {
    float w[OUT * IN], dw[OUT * IN], stepped[OUT * IN];
    float x[BATCH * IN], dx[BATCH * IN], stepped_dx[BATCH * IN], dy[BATCH * OUT];
} layer;

static void fill(float *value, size_t n, uint32_t stream) {
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, stream);
    for (size_t i = 0; i < n; i++) {
        value[i] = 2 * fed_rng_float(&rng) - 1;
    }
}

static layer *make(void) {
    layer *l = calloc(1, sizeof *l);
    assert_non_null(l);
    fill(l->w, OUT * IN, 1);
    fill(l->x, BATCH * IN, 2);
    fill(l->dy, BATCH * OUT, 3);
    return l;
}

typedef void layer_check(const fedtrain_kernels *kernels, layer *l, const fedtrain_dense *d);

static void of_any_size(layer_check *check) {
    layer *l = make();
    const fedtrain_kernels *kernels;
    for (size_t isa = 0; (kernels = fedtrain_kernels_get(isa)) != NULL; isa++) {
        for (size_t i = 0; i < COUNT(inputs) * COUNT(outputs) * COUNT(batches); i++) {
            const fedtrain_dense d = {
                .in = inputs[i % COUNT(inputs)],
                .rows = outputs[i / COUNT(inputs) % COUNT(outputs)],
                .out = outputs[i / COUNT(inputs) % COUNT(outputs)] + ABOVE,
                .batch = batches[i / COUNT(inputs) / COUNT(outputs)],
            };
            check(kernels, l, &d);
        }
    }
    free(l);
}

static void assert_near(const fedtrain_kernels *kernels, const fedtrain_dense *d, const char *what,
                        float value, double wanted) {
    if (!(fabs((double)value - wanted) < 1e-5)) {
        fail_msg("%s, %zu inputs, %zu outputs, %zu samples: %s is %g, not %g", kernels->isa, d->in,
                 d->rows, d->batch, what, (double)value, wanted);
    }
}

static void check_gradients(const fedtrain_kernels *kernels, layer *l, const fedtrain_dense *d) {
    fill(l->dx, BATCH * IN, 4);
    memcpy(l->stepped_dx, l->dx, sizeof l->dx);
    kernels->dense_grad(d, l->w, l->x, l->dy, l->dx, l->dw, 0);
    for (size_t i = 0; i < d->in; i++) {
        for (size_t r = 0; r < d->rows; r++) {
            double sum = 0;
            for (size_t b = 0; b < d->batch; b++) {
                sum += (double)l->dy[b * d->out + r] * l->x[b * d->in + i];
            }
            assert_near(kernels, d, "a weight's gradient", l->dw[r * d->in + i], sum);
        }
        for (size_t b = 0; b < d->batch; b++) {
            double sum = l->stepped_dx[b * d->in + i];
            for (size_t r = 0; r < d->rows; r++) {
                sum += (double)l->dy[b * d->out + r] * l->w[r * d->in + i];
            }
            assert_near(kernels, d, "an input's gradient", l->dx[b * d->in + i], sum);
        }
    }
}

FED_TEST(test_gradients_of_any_size_are_right) {
    of_any_size(check_gradients);
}

/* Update the weights in place, with and without the inputs' gradient. Memory after the weights must
 * stay unchanged. */
static void check_step(const fedtrain_kernels *kernels, layer *l, const fedtrain_dense *d) {
    const fedtrain_step step = {.share = 1, .rate = 0.037F};
    float wanted[OUT * IN];
    size_t n = d->rows * d->in;
    if (d->in < kernels->lanes) {
        return;
    }
    fill(l->dx, BATCH * IN, 4);
    for (int with = 0; with < 2; with++) {
        memcpy(wanted, l->w, sizeof wanted);
        memcpy(l->stepped, l->w, sizeof l->w);
        memcpy(l->stepped_dx, l->dx, sizeof l->dx);
        kernels->dense_grad(d, wanted, l->x, l->dy, with ? l->dx : NULL, l->dw, 0);
        kernels->sgd(wanted, NULL, l->dw, n, &step);
        kernels->dense_grad(d, l->stepped, l->x, l->dy, with ? l->stepped_dx : NULL, l->stepped,
                            step.rate);
        assert_memory_equal(l->stepped, wanted, sizeof wanted);
        assert_memory_equal(l->stepped_dx, l->dx, sizeof l->dx);
    }
}

FED_TEST(test_a_step_is_the_gradient_and_sgd_to_the_bit) {
    of_any_size(check_step);
}
