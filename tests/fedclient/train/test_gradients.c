/* The gradient of every layer on every engine, compared with finite differences. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>

#include "fed/rng.h"

enum { BATCH = 3 };

static bool has_lstm(const fed_arch *arch) {
    for (size_t l = 0; l < arch->layer_count; l++) {
        if (arch->layers[l].kind == FED_LAYER_LSTM) {
            return true;
        }
    }
    return false;
}

typedef struct check {
    const net_case *net;
    const net_engine *engine;
    float *score;
    float *params;
    float *grad;
} check;

/* Return the sum of score_grad * score, whose gradient by the scores is score_grad. An LSTM first
 * sees a batch with the net's own weights, so that each call finds the same memory. */
static double loss_of(const check *c, const float *params) {
    const net_engine *e = c->engine;
    fedtrain_pass pass = net_case_pass(c->net, BATCH);
    if (has_lstm(&c->net->arch)) {
        e->backend->forget(e->work);
        net_engine_forward(e, &pass, c->score);
    }
    pass.params = params;
    net_engine_forward(e, &pass, c->score);
    double loss = 0;
    for (size_t i = 0; i < net_case_scores(c->net, BATCH); i++) {
        loss += (double)c->net->score_grad[i] * c->score[i];
    }
    return loss;
}

static void check_begin(check *c, const net_case *net, const net_engine *e) {
    const fed_arch *arch = &net->arch;
    *c = (check){.net = net, .engine = e};
    c->score = net_case_floats(net_case_scores(net, BATCH));
    c->params = net_case_floats(arch->layout.size);
    c->grad = net_case_floats(arch->trained);
    memcpy(c->params, net->params, arch->layout.size * sizeof *c->params);
    loss_of(c, net->params);
    const fedtrain_pass pass = net_case_pass(net, BATCH);
    net_engine_backward(e, &pass, net->score_grad, c->grad);
}

static void check_end(check *c) {
    free(c->score);
    free(c->params);
    free(c->grad);
}

/* Move the parameters first to first + n - 1 along a random direction d of length 1. Compare
 * (loss(w + h d) - loss(w - h d)) / 2h with the gradient's component along d. */
static void measure(check *c, size_t first, size_t n, double step, double *differences,
                    double *along) {
    const float *from = c->net->params + first;
    float *moved = c->params + first;
    fed_rng rng;
    fed_rng_init(&rng, 11, (uint32_t)first, (uint32_t)n);
    *along = 0;
    for (size_t i = 0; i < n; i++) {
        double d = step / sqrt((double)n);
        moved[i] = from[i] + (float)(fed_rng_below(&rng, 2) == 0 ? d : -d);
        *along += ((double)moved[i] - from[i]) / step * c->grad[first + i];
    }
    double up = loss_of(c, c->params);
    for (size_t i = 0; i < n; i++) {
        moved[i] = from[i] - (moved[i] - from[i]);
    }
    *differences = (up - loss_of(c, c->params)) / (2 * step);
    memcpy(moved, from, n * sizeof *moved);
}

/* A step that disagrees may have crossed the kink of a ReLU or a max-pool: try a shorter one. */
static void check_direction(check *c, size_t first, size_t n) {
    static const double steps[] = {4e-3, 1e-3, 2.5e-4};
    double norm = 0, differences = 0, along = 0;
    for (size_t i = 0; i < n; i++) {
        norm += (double)c->grad[first + i] * c->grad[first + i];
    }
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
        measure(c, first, n, steps[k], &differences, &along);
        if (fabs(differences - along) <= 2e-3 + 1e-2 * sqrt(norm / (double)n)) {
            return;
        }
    }
    fail_msg("%s (%s), parameters %zu to %zu: finite differences %g, gradient %g", c->net->text,
             c->engine->name, first, first + n - 1, differences, along);
}

static void check_net(const net_case *net, const net_engine *e) {
    enum { FEW = 100 };
    const fed_arch *arch = &net->arch;
    check c;
    check_begin(&c, net, e);
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *t = &arch->layout.tensors[i];
        if (t->offset < arch->trained) {
            check_direction(&c, t->offset, t->size);
        }
    }
    for (size_t i = 0; arch->trained <= FEW && i < arch->trained; i++) {
        check_direction(&c, i, 1);
    }
    check_end(&c);
}

FED_TEST(test_gradients_agree_with_finite_differences) {
    net_case_each(check_net);
}
