/* The fast backend: runs a net's nodes forward and backward over planned memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/fast/fast.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/small.h"
#include "fedclient/train/backends/fast/arrange.h"
#include "fedclient/train/backends/fast/fast_impl.h"
#include "fedclient/train/loss.h"

static const fast_op *const ops[] = {
    [FED_LAYER_DENSE] = &fedtrain_op_dense,
    [FED_LAYER_CONV] = &fedtrain_op_conv,
    [FED_LAYER_MAXPOOL] = &fedtrain_op_maxpool,
    [FED_LAYER_AVGPOOL] = FED_UNLESS_SMALL(&fedtrain_op_avgpool),
    [FED_LAYER_RELU] = &fedtrain_op_relu,
    [FED_LAYER_TANH] = FED_UNLESS_SMALL(&fedtrain_op_tanh),
    [FED_LAYER_SIGMOID] = FED_UNLESS_SMALL(&fedtrain_op_sigmoid),
    [FED_LAYER_DROPOUT] = FED_UNLESS_SMALL(&fedtrain_op_dropout),
    [FED_LAYER_BATCHNORM] = FED_UNLESS_SMALL(&fedtrain_op_batchnorm),
    [FED_LAYER_LRN] = FED_UNLESS_SMALL(&fedtrain_op_lrn),
    [FED_LAYER_EMBEDDING] = FED_UNLESS_SMALL(&fedtrain_op_embedding),
    [FED_LAYER_LSTM] = FED_UNLESS_SMALL(&fedtrain_op_lstm),
    [FED_LAYER_WIDEN] = FED_UNLESS_SMALL(&fedtrain_op_widen),
    [FED_LAYER_ADD] = FED_UNLESS_SMALL(&fedtrain_op_add),
    [FED_LAYER_CONCAT] = FED_UNLESS_SMALL(&fedtrain_op_concat),
};

static const fast_op *op_of(const fed_layer *l) {
    return l->each ? FED_UNLESS_SMALL(&fedtrain_op_each) : ops[l->kind];
}

static void fast_close(void *self) {
    fast_net *f = self;
    free(f->values);
    free(f->nodes);
    free(f->own);
    free(f->memory);
    free(f);
}

static fed_status make_nodes(fast_net *f) {
    size_t count = f->arch->layer_count, own = 0;
    assert(count > 0); /* the parser of models has checked it */
    f->values = calloc(count + 1, sizeof *f->values);
    f->nodes = calloc(count, sizeof *f->nodes);
    FED_REQUIRE(f->values != NULL && f->nodes != NULL, FED_ENOMEM);
    for (size_t l = 0; l < count; l++) {
        f->nodes[l].layer = &f->arch->layers[l];
        f->nodes[l].op = op_of(&f->arch->layers[l]);
        own += fedtrain_fast_round_up(f->nodes[l].op->own_bytes, sizeof(max_align_t));
    }
    f->own = calloc(own + 1, 1);
    FED_REQUIRE(f->own != NULL, FED_ENOMEM);
    char *at = f->own;
    for (size_t l = 0; l < count; l++) {
        f->nodes[l].own = at;
        at += fedtrain_fast_round_up(f->nodes[l].op->own_bytes, sizeof(max_align_t));
    }
    f->bytes.workspace = sizeof *f + (count + 1) * sizeof *f->values + count * sizeof *f->nodes;
    f->bytes.workspace += own + 1;
    return FED_OK;
}

static fed_status make(fast_net *f) {
    FED_TRY(make_nodes(f));
    FED_TRY(fedtrain_fast_plan(f));
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        fast_node *s = &f->nodes[l];
        if (s->op->start != NULL) {
            s->op->start(f, s);
        }
    }
    return FED_OK;
}

fed_status fedtrain_fast_open(const fed_arch *arch, size_t max_batch,
                              const fedtrain_kernels *kernels, void **self) {
    fast_net *f = calloc(1, sizeof *f);
    FED_REQUIRE(f != NULL, FED_ENOMEM);
    f->arch = arch;
    f->kernels = kernels;
    f->max_batch = max_batch;
    fed_status status = make(f);
    if (status != FED_OK) {
        fast_close(f);
        return status;
    }
    *self = f;
    return FED_OK;
}

static fed_status fast_open(const fed_arch *arch, size_t max_batch, const char *device, void **self,
                            fed_error *err) {
    (void)device;
    (void)err;
    return fedtrain_fast_open(arch, max_batch, fedtrain_kernels_best(), self);
}

static void fast_memory(const void *self, fedtrain_memory *memory) {
    const fast_net *f = self;
    memory->activations = f->bytes.activations;
    memory->gradients = f->bytes.gradients;
    memory->workspace = f->bytes.workspace;
}

static fed_status fast_forward(void *self, const fedtrain_pass *pass, float *score) {
    fast_net *f = self;
    const fast_value *in = &f->values[0];
    fast_value *out = &f->values[f->arch->layer_count];
    f->batch = pass->batch;
    out->data = f->borrows_scores ? score : out->data;
    for (size_t b = 0; b < pass->batch; b++) {
        fedtrain_transpose(f->kernels, pass->x + b * in->size, in->shape.c,
                           fedtrain_fast_area(in->shape), in->data + b * in->size);
    }
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        fast_node *s = &f->nodes[l];
        FED_TRY(fedtrain_pass_need(pass, f->arch, l)); /* nothing to do for a merged node */
        if (!s->is_merged) {
            s->op->forward(f, s, pass);
        }
    }
    if (!f->borrows_scores) {
        memcpy(score, out->data, pass->batch * out->size * sizeof *score);
    }
    return FED_OK;
}

static fed_status fast_loss(void *self, const float *score, const fedtrain_labels *labels, size_t n,
                            float *score_grad, double *sum) {
    const fast_net *f = self;
    const size_t classes = f->arch->classes;
    if (!FED_SMALL && f->arch->loss == FED_LOSS_SQUARED) {
        fedtrain_squared_error(score, labels->target, n * classes, score_grad, sum);
        return FED_OK;
    }
    for (size_t i = 0; i < n; i++) {
        *sum += f->kernels->cross_entropy(score + i * classes, classes, labels->label[i],
                                          1.0F / (float)n,
                                          score_grad != NULL ? score_grad + i * classes : NULL);
    }
    return FED_OK;
}

static void begin_backward(fast_net *f, const float *score_grad, size_t batch) {
    fast_value *out = &f->values[f->arch->layer_count];
    if (f->borrows_scores) {
        /* the last node's op is_exact: its backward only reads the gradient */
        out->grad = (float *)score_grad;
    } else {
        memcpy(out->grad, score_grad, batch * out->size * sizeof *score_grad);
    }
}

static void node_backward(const fast_net *f, fast_node *s, const fast_flow *w) {
    if (s->is_merged || !s->out->trained) {
        return;
    }
    if (s->begins_grad) {
        memset(s->out->grad, 0, w->pass->batch * s->out->size * sizeof *s->out->grad);
    }
    s->op->backward(f, s, w);
}

/* The gradient of a weight that several layers share is complete only when all of them have added
 * to it. So the whole gradient of a net with such weights is kept in memory, and given to the sink
 * layer by layer. */
static fed_status fast_backward(void *self, const fedtrain_pass *pass, const float *score_grad,
                                const fedtrain_gradient *to) {
    fast_net *f = self;
    const fast_flow w = {
        .pass = pass, .grad = to->at, .sink = to->sink, .update = f->has_tied ? NULL : to->update};
    begin_backward(f, score_grad, pass->batch);
    for (size_t l = f->arch->layer_count; l-- > 0;) {
        node_backward(f, &f->nodes[l], &w);
        if (!FED_SMALL && w.update == NULL && w.sink.done != NULL) {
            size_t at = 0;
            const size_t n = fedtrain_own_parameters(f->arch, l, &at);
            if (n > 0) {
                w.sink.done(w.sink.user, at, w.grad + at, n);
            }
        }
    }
    return FED_OK;
}

static fed_status fast_keep_statistics(void *self, float *params) {
    const fast_net *f = self;
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        const fast_node *s = &f->nodes[l];
        if (s->op->keep_statistics != NULL) {
            s->op->keep_statistics(f, s, params);
        }
    }
    return FED_OK;
}

static void fast_forget(void *self) {
    fast_net *f = self;
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        fast_node *s = &f->nodes[l];
        if (s->op->forget != NULL) {
            s->op->forget(f, s);
        }
    }
}

/* Of merged layers, only the last one's output exists. */
static const float *fast_output(const void *self, size_t l, size_t *n) {
    const fast_net *f = self;
    const fast_value *v = f->nodes[l].out;
    *n = f->batch * v->size;
    return v->data;
}

#define FAST_VTABLE(its_name, its_open)                                                            \
    {                                                                                              \
        .name = (its_name), .open = (its_open), .close = fast_close, .memory = fast_memory,        \
        .forward = fast_forward, .loss = fast_loss, .backward = fast_backward,                     \
        .keep_statistics = fast_keep_statistics, .forget = fast_forget, .output = fast_output,     \
    }

extern const fedtrain_backend_vtable fedtrain_backend_fast, fedtrain_backend_bfloat16;

const fedtrain_backend_vtable fedtrain_backend_fast = FAST_VTABLE("fast", fast_open);

#if !FED_SMALL

static fed_status bfloat16_open(const fed_arch *arch, size_t max_batch, const char *device,
                                void **self, fed_error *err) {
    (void)device;
    (void)err;
    return fedtrain_fast_open(arch, max_batch, fedtrain_kernels_bfloat16(0), self);
}

const fedtrain_backend_vtable fedtrain_backend_bfloat16 = FAST_VTABLE("bfloat16", bfloat16_open);

#endif
