/* The fast backend's layers for sequences: embedding and LSTM. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"

typedef struct embedding {
    uint32_t *seen; /* uint32[words]: 1 while the word's row of the gradient is in use */
} embedding;

static void embedding_plan(fast_net *f, fast_node *s, fast_arena *a) {
    embedding *own = s->own;
    own->seen = fedtrain_fast_take(a, FAST_WORKSPACE, f->arch->words);
}

static void embedding_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    const float *weight = pass->params + fedtrain_fast_offset(f, s->layer->weight);
    const float *word = s->in[0]->data;
    size_t size = s->layer->out.c;
    for (size_t i = 0; i < pass->batch * s->in[0]->size; i++) {
        memcpy(s->out->data + i * size, weight + (size_t)word[i] * size, size * sizeof *weight);
    }
}

static void add_rows(const fast_node *s, size_t n, float *grad) {
    const float *word = s->in[0]->data, *dy = s->out->grad;
    size_t size = s->layer->out.c;
    for (size_t i = 0; i < n; i++) {
        float *row = grad + (size_t)word[i] * size;
        for (size_t c = 0; c < size; c++) {
            row[c] += dy[i * size + c];
        }
    }
}

/* Update only the rows of the batch's words, for an update that does not change parameters whose
 * gradient is 0. */
static void update_rows(const fast_node *s, size_t n, size_t offset, const fast_flow *w) {
    const embedding *own = s->own;
    const float *word = s->in[0]->data;
    size_t size = s->layer->out.c;
    float *grad = fedtrain_fast_grad_at(w, offset);
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)word[i];
        if (own->seen[row] == 0) {
            memset(grad + row * size, 0, size * sizeof *grad);
            own->seen[row] = 1;
        }
    }
    add_rows(s, n, grad);
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)word[i];
        if (own->seen[row] != 0) {
            fedtrain_fast_grad_done(w, offset + row * size, grad + row * size, size);
            own->seen[row] = 0;
        }
    }
}

static void embedding_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    size_t n = w->pass->batch * s->in[0]->size, all = f->arch->words * (size_t)s->layer->out.c;
    size_t offset = fedtrain_fast_offset(f, s->layer->weight);
    if (w->update != NULL && fedtrain_update_skips_zeros(w->update)) {
        update_rows(s, n, offset, w);
        return;
    }
    float *grad = fedtrain_fast_grad_at(w, offset);
    if (!s->adds_weight) {
        memset(grad, 0, all * sizeof *grad);
    }
    add_rows(s, n, grad);
    fedtrain_fast_grad_done(w, offset, grad, all);
}

const fast_op fedtrain_op_embedding = {
    .own_bytes = sizeof(embedding),
    .plan = embedding_plan,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

/* The inputs' part of the gates is one product for all steps. The recurrent part is one product for
 * each step, with a weight that is packed once in a pass. */
typedef struct lstm {
    size_t in, size, steps;
    float *gates;  /* float32[batch, T, 4 size]: i, f, g, o; in backward their gradients */
    float *cell;   /* float32[batch, T + 1, size]: before the first step, and after each */
    float *before; /* float32[batch, T, size]: the outputs before each step */
    float *last;   /* float32[batch, size]: the last pass's last output */
    float *bias;
    float *dh, *dc; /* float32[batch, size]: gradients of a step's output and cell */
    float *weight;  /* weight_hh, packed for the recurrent product */
    float *scratch;
} lstm;

enum { GATES = 4 };

/* Return the sizes of the product of the inputs of all steps with weight_ih. */
static fast_matrix input_sizes(const lstm *n, size_t batch) {
    return (fast_matrix){batch * n->steps, n->in, GATES * n->size};
}

/* Return the sizes of the product of the outputs before all steps with weight_hh. */
static fast_matrix recurrent_sizes(const lstm *n, size_t batch) {
    return (fast_matrix){batch * n->steps, n->size, GATES * n->size};
}

static void lstm_plan(fast_net *f, fast_node *s, fast_arena *a) {
    lstm *n = s->own;
    n->in = s->layer->in.c;
    n->size = s->layer->out.c;
    n->steps = s->layer->out.h;
    size_t batch = f->max_batch, state = batch * n->size, gates = GATES * n->size;
    n->gates = fedtrain_fast_take(a, FAST_ACTIVATIONS, state * n->steps * GATES);
    n->cell = fedtrain_fast_take(a, FAST_ACTIVATIONS, state * (n->steps + 1));
    n->before = fedtrain_fast_take(a, FAST_ACTIVATIONS, state * n->steps);
    n->last = fedtrain_fast_take(a, FAST_WORKSPACE, state);
    n->bias = fedtrain_fast_take(a, FAST_SHARED, gates);
    n->dh = fedtrain_fast_take(a, FAST_SHARED, state);
    n->dc = fedtrain_fast_take(a, FAST_SHARED, state);
    size_t across = gates * fedtrain_fast_round_up(n->size, FEDTRAIN_PACKED);
    size_t along = n->size * fedtrain_fast_round_up(gates, FEDTRAIN_PACKED);
    n->weight = fedtrain_fast_take(a, FAST_SHARED, across > along ? across : along);
    fast_matrix in = input_sizes(n, batch), recurrent = recurrent_sizes(n, batch);
    size_t one = fedtrain_fast_matrix_scratch(f, &in);
    size_t other = fedtrain_fast_matrix_scratch(f, &recurrent);
    n->scratch = fedtrain_fast_take(a, FAST_SHARED, one > other ? one : other);
}

static void begin_states(const lstm *n, size_t batch) {
    size_t size = n->size, bytes = size * sizeof(float);
    for (size_t b = 0; b < batch; b++) {
        float *cell = n->cell + b * (n->steps + 1) * size;
        memcpy(cell, cell + n->steps * size, bytes);
        memcpy(n->before + b * n->steps * size, n->last + b * size, bytes);
    }
}

static void input_forward(const fast_net *f, const lstm *n, const fast_node *s,
                          const fedtrain_pass *pass) {
    const float *weight = pass->params + fedtrain_fast_offset(f, s->layer->weight);
    const float *bias_ih = pass->params + fedtrain_fast_offset(f, s->layer->weight + 2);
    const float *bias_hh = pass->params + fedtrain_fast_offset(f, s->layer->weight + 3);
    for (size_t k = 0; k < GATES * n->size; k++) {
        n->bias[k] = bias_ih[k] + bias_hh[k];
    }
    fast_matrix m = input_sizes(n, pass->batch);
    fedtrain_fast_matrix_forward(f, &m, weight, n->bias, s->in[0]->data, n->gates, n->scratch);
}

static void step_gemm(const fast_net *f, const lstm *n, fedtrain_gemm g, const float *x, float *y) {
    if (fedtrain_fast_pairs(f) != NULL) {
        for (size_t i = 0; i < g.m; i++) {
            fedtrain_fast_pairs(f)(x + i * g.a_row, g.k, 1, n->scratch + i * g.k);
        }
        x = n->scratch;
        g.a_row = g.k;
    }
    f->kernels->gemm(&g, x, n->weight, y);
}

/* Compute step t for all samples. One sample has 4 T size floats in gates, and T size in before. */
static void step_forward(const fast_net *f, const lstm *n, float *y, size_t batch, size_t t) {
    size_t size = n->size, row = n->steps * size;
    float *gates = n->gates + t * GATES * size;
    const fedtrain_gemm g = {.m = batch,
                             .n = GATES * size,
                             .k = size,
                             .a_row = row,
                             .a_column = 1,
                             .c_row = GATES * row,
                             .start = gates,
                             .start_row = GATES * row};
    step_gemm(f, n, g, n->before + t * size, gates);
    for (size_t b = 0; b < batch; b++) {
        float *cell = n->cell + b * (row + size) + t * size, *h = y + b * row + t * size;
        f->kernels->lstm(size, gates + b * GATES * row, cell, cell + size, h);
        float *next = t + 1 < n->steps ? n->before + b * row + (t + 1) * size : n->last + b * size;
        memcpy(next, h, size * sizeof *h);
    }
}

static void lstm_forward(const fast_net *f, fast_node *s, const fedtrain_pass *pass) {
    const lstm *n = s->own;
    const float *weight = pass->params + fedtrain_fast_offset(f, s->layer->weight + 1);
    begin_states(n, pass->batch);
    input_forward(f, n, s, pass);
    f->kernels->gemm_pack(weight, 1, n->size, n->size, GATES * n->size, n->weight);
    for (size_t t = 0; t < n->steps; t++) {
        step_forward(f, n, s->out->data, pass->batch, t);
    }
}

/* On entry, dh has the gradient from the next step. The gradient dy of this step's output is added
 * to dh. */
static void step_backward(const fast_net *f, const lstm *n, const float *dy, size_t batch,
                          size_t t) {
    size_t size = n->size, row = n->steps * size;
    float *gates = n->gates + t * GATES * size;
    for (size_t b = 0; b < batch; b++) {
        const float *cell = n->cell + b * (row + size) + t * size;
        float *dh = n->dh + b * size;
        for (size_t j = 0; j < size; j++) {
            dh[j] += dy[b * row + t * size + j];
        }
        f->kernels->lstm_grad(size, gates + b * GATES * row, cell, cell + size, dh,
                              n->dc + b * size);
    }
    const fedtrain_gemm g = {.m = batch,
                             .n = size,
                             .k = GATES * size,
                             .a_row = GATES * row,
                             .a_column = 1,
                             .c_row = size};
    step_gemm(f, n, g, gates, n->dh);
}

static void weight_backward(const fast_net *f, const fast_node *s, size_t which,
                            const fast_flow *w) {
    const lstm *n = s->own;
    bool is_input = which == 0;
    size_t batch = w->pass->batch;
    fast_matrix m = is_input ? input_sizes(n, batch) : recurrent_sizes(n, batch);
    const fast_matrix_grad g = {.x = is_input ? s->in[0]->data : n->before,
                                .dy = n->gates,
                                .dx = is_input ? s->in[0]->grad : NULL,
                                .adds = s->adds[0],
                                .weight = fedtrain_fast_offset(f, s->layer->weight + which),
                                .has_bias = true,
                                .bias = fedtrain_fast_offset(f, s->layer->weight + 2 + which)};
    fedtrain_fast_matrix_backward(f, &m, &g, w, n->scratch);
}

/* The state that the batch began with counts as a constant: it gets no gradient. */
static void lstm_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    const lstm *n = s->own;
    size_t batch = w->pass->batch, state = batch * n->size;
    const float *weight = w->pass->params + fedtrain_fast_offset(f, s->layer->weight + 1);
    memset(n->dh, 0, state * sizeof *n->dh);
    memset(n->dc, 0, state * sizeof *n->dc);
    f->kernels->gemm_pack(weight, n->size, 1, GATES * n->size, n->size, n->weight);
    for (size_t t = n->steps; t-- > 0;) {
        step_backward(f, n, s->out->grad, batch, t);
    }
    weight_backward(f, s, 0, w);
    weight_backward(f, s, 1, w);
}

static void lstm_forget(const fast_net *f, fast_node *s) {
    const lstm *n = s->own;
    size_t size = n->size;
    memset(n->last, 0, f->max_batch * size * sizeof *n->last);
    memset(n->cell, 0, f->max_batch * (n->steps + 1) * size * sizeof *n->cell);
}

const fast_op fedtrain_op_lstm = {
    .own_bytes = sizeof(lstm),
    .plan = lstm_plan,
    .forward = lstm_forward,
    .backward = lstm_backward,
    .forget = lstm_forget,
};
