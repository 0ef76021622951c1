/* The reference backend, for tests: each layer in plain loops that follow its definition. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/reference/reference.h"

#include <stdlib.h>
#include <string.h>

#include "fedclient/train/loss.h"
#include "fedtrain/net.h"

static const fedtrain_reference_kind *const kinds[] = {
    [FED_LAYER_DENSE] = &fedtrain_reference_dense,
    [FED_LAYER_CONV] = &fedtrain_reference_conv,
    [FED_LAYER_MAXPOOL] = &fedtrain_reference_maxpool,
    [FED_LAYER_AVGPOOL] = &fedtrain_reference_avgpool,
    [FED_LAYER_RELU] = &fedtrain_reference_relu,
    [FED_LAYER_TANH] = &fedtrain_reference_tanh,
    [FED_LAYER_SIGMOID] = &fedtrain_reference_sigmoid,
    [FED_LAYER_DROPOUT] = &fedtrain_reference_dropout,
    [FED_LAYER_BATCHNORM] = &fedtrain_reference_batchnorm,
    [FED_LAYER_LRN] = &fedtrain_reference_lrn,
    [FED_LAYER_EMBEDDING] = &fedtrain_reference_embedding,
    [FED_LAYER_LSTM] = &fedtrain_reference_lstm,
    [FED_LAYER_WIDEN] = &fedtrain_reference_widen,
    [FED_LAYER_ADD] = &fedtrain_reference_add,
    [FED_LAYER_CONCAT] = &fedtrain_reference_concat,
};

typedef struct reference {
    const fed_arch *arch;
    size_t max_batch;
    size_t batch;        /* batch size of the last forward pass */
    float **value;       /* [layer_count + 1]: the input, and the output of each layer */
    double **value_grad; /* [layer_count + 1] */
    void **kept;         /* [layer_count]: what each layer keeps between calls */
    double *grad;        /* float64[trained] */
} reference;

static size_t value_size(const fed_arch *arch, size_t value) {
    return fedtrain_shape_size(fedtrain_reference_shape(arch, value));
}

static size_t kept_bytes(const reference *r, size_t l) {
    const fed_layer *layer = &r->arch->layers[l];
    const fedtrain_reference_kind *kind = kinds[layer->kind];
    return kind->kept_bytes != NULL ? kind->kept_bytes(layer, r->max_batch) : 0;
}

static void reference_close(void *self) {
    reference *r = self;
    for (size_t v = 0; v <= r->arch->layer_count; v++) {
        free(r->value != NULL ? r->value[v] : NULL);
        free(r->value_grad != NULL ? r->value_grad[v] : NULL);
        free(r->kept != NULL ? r->kept[v] : NULL);
    }
    free(r->value);
    free(r->value_grad);
    free(r->kept);
    free(r->grad);
    free(r);
}

static fed_status open_values(reference *r) {
    size_t values = r->arch->layer_count + 1;
    r->value = calloc(values, sizeof *r->value);
    r->value_grad = calloc(values, sizeof *r->value_grad);
    r->kept = calloc(values, sizeof *r->kept);
    r->grad = calloc(r->arch->trained, sizeof *r->grad);
    FED_REQUIRE(r->value != NULL && r->value_grad != NULL && r->kept != NULL && r->grad != NULL,
                FED_ENOMEM);
    for (size_t v = 0; v < values; v++) {
        size_t n = r->max_batch * value_size(r->arch, v);
        r->value[v] = calloc(n, sizeof(float));
        r->value_grad[v] = calloc(n, sizeof(double));
        FED_REQUIRE(r->value[v] != NULL && r->value_grad[v] != NULL, FED_ENOMEM);
    }
    for (size_t l = 0; l < r->arch->layer_count; l++) {
        size_t bytes = kept_bytes(r, l);
        if (bytes > 0) {
            r->kept[l] = calloc(1, bytes);
            FED_REQUIRE(r->kept[l] != NULL, FED_ENOMEM);
        }
    }
    return FED_OK;
}

static fed_status reference_open(const fed_arch *arch, size_t max_batch, const char *device,
                                 void **self, fed_error *err) {
    (void)device;
    (void)err;
    reference *r = calloc(1, sizeof *r);
    FED_REQUIRE(r != NULL, FED_ENOMEM);
    r->arch = arch;
    r->max_batch = max_batch;
    fed_status status = open_values(r);
    if (status != FED_OK) {
        reference_close(r);
        return status;
    }
    *self = r;
    return FED_OK;
}

static void reference_memory(const void *self, fedtrain_memory *memory) {
    const reference *r = self;
    size_t values = r->arch->layer_count + 1;
    for (size_t v = 0; v < values; v++) {
        size_t n = r->max_batch * value_size(r->arch, v);
        memory->activations += n * sizeof(float);
        memory->gradients += n * sizeof(double);
    }
    for (size_t l = 0; l < r->arch->layer_count; l++) {
        memory->activations += kept_bytes(r, l);
    }
    memory->workspace += sizeof *r + r->arch->trained * sizeof *r->grad +
                         values * (sizeof *r->value + sizeof *r->value_grad + sizeof *r->kept);
}

static fedtrain_reference_op op_of(const reference *r, const fedtrain_pass *pass, size_t l) {
    const fed_layer *layer = &r->arch->layers[l];
    fedtrain_reference_op op = {.arch = r->arch,
                                .layer = layer,
                                .pass = pass,
                                .y = r->value[l + 1],
                                .kept = r->kept[l],
                                .dy = r->value_grad[l + 1],
                                .grad = r->grad};
    for (size_t i = 0; i < layer->inputs; i++) {
        op.x[i] = r->value[layer->input[i]];
        op.dx[i] = r->value_grad[layer->input[i]];
    }
    return op;
}

/* Return the index of score (b, position, j) in the last value, which has the classes as its
 * channels. */
static size_t score_at(const fed_arch *arch, size_t b, size_t position, size_t j) {
    return (b * arch->classes + j) * arch->positions + position;
}

static fed_status reference_forward(void *self, const fedtrain_pass *pass, float *score) {
    reference *r = self;
    const fed_arch *arch = r->arch;
    r->batch = pass->batch;
    memcpy(r->value[0], pass->x, pass->batch * value_size(arch, 0) * sizeof *pass->x);
    for (size_t l = 0; l < arch->layer_count; l++) {
        fedtrain_reference_op op = op_of(r, pass, l);
        FED_TRY(fedtrain_pass_need(pass, arch, l));
        kinds[op.layer->kind]->forward(&op);
    }
    for (size_t b = 0; b < pass->batch; b++) {
        for (size_t position = 0; position < arch->positions; position++) {
            for (size_t j = 0; j < arch->classes; j++) {
                *score++ = r->value[arch->layer_count][score_at(arch, b, position, j)];
            }
        }
    }
    return FED_OK;
}

static fed_status reference_loss(void *self, const float *score, const fedtrain_labels *labels,
                                 size_t n, float *score_grad, double *sum) {
    const reference *r = self;
    fedtrain_loss(r->arch, score, labels, n, score_grad, sum);
    return FED_OK;
}

static void begin_backward(reference *r, const float *score_grad, size_t batch) {
    const fed_arch *arch = r->arch;
    memset(r->grad, 0, arch->trained * sizeof *r->grad);
    for (size_t v = 0; v <= arch->layer_count; v++) {
        memset(r->value_grad[v], 0, batch * value_size(arch, v) * sizeof(double));
    }
    for (size_t b = 0; b < batch; b++) {
        for (size_t position = 0; position < arch->positions; position++) {
            for (size_t j = 0; j < arch->classes; j++) {
                r->value_grad[arch->layer_count][score_at(arch, b, position, j)] = *score_grad++;
            }
        }
    }
}

static fed_status reference_backward(void *self, const fedtrain_pass *pass, const float *score_grad,
                                     const fedtrain_gradient *to) {
    reference *r = self;
    begin_backward(r, score_grad, pass->batch);
    for (size_t l = r->arch->layer_count; l-- > 0;) {
        fedtrain_reference_op op = op_of(r, pass, l);
        kinds[op.layer->kind]->backward(&op);
        size_t at = 0;
        const size_t n = fedtrain_own_parameters(r->arch, l, &at);
        for (size_t i = at; i < at + n; i++) {
            to->at[i] = (float)r->grad[i];
        }
        if (n > 0 && to->sink.done != NULL) {
            to->sink.done(to->sink.user, at, to->at + at, n);
        }
    }
    return FED_OK;
}

static fed_status reference_keep_statistics(void *self, float *params) {
    const reference *r = self;
    for (size_t l = 0; l < r->arch->layer_count; l++) {
        const fed_layer *layer = &r->arch->layers[l];
        if (kinds[layer->kind]->keep_statistics != NULL) {
            kinds[layer->kind]->keep_statistics(r->arch, layer, r->kept[l], params);
        }
    }
    return FED_OK;
}

/* Clear the state of LSTMs. Other layers keep data of their last pass only. */
static void reference_forget(void *self) {
    reference *r = self;
    for (size_t l = 0; l < r->arch->layer_count; l++) {
        if (r->arch->layers[l].kind == FED_LAYER_LSTM) {
            memset(r->kept[l], 0, kept_bytes(r, l));
        }
    }
}

static const float *reference_output(const void *self, size_t l, size_t *n) {
    const reference *r = self;
    *n = r->batch * value_size(r->arch, l + 1);
    return r->value[l + 1];
}

extern const fedtrain_backend_vtable fedtrain_backend_reference;

const fedtrain_backend_vtable fedtrain_backend_reference = {
    .name = "reference",
    .open = reference_open,
    .close = reference_close,
    .memory = reference_memory,
    .forward = reference_forward,
    .loss = reference_loss,
    .backward = reference_backward,
    .keep_statistics = reference_keep_statistics,
    .forget = reference_forget,
    .output = reference_output,
};
