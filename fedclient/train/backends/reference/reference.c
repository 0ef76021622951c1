/* The reference backend: each layer as its definition reads, in plain loops. The tests' oracle. */
#include <stdlib.h>
#include <string.h>

#include "fedclient/train/backend.h"

/* Sums are kept in double, so that what differs from another backend is the other's rounding. */

typedef struct reference {
    const fed_arch *arch;
    size_t max_batch, value_bytes;
    float **value; /* [layer_count + 1] what goes into layer l; at the end, the scores */
    float **grad;  /* dloss / dvalue. Both: float32[max_batch, c, h, w] */
} reference;

/* Index into a (c, h, w) array of shape s. */
static size_t at(fed_shape s, size_t c, size_t y, size_t x) {
    return (c * s.h + y) * s.w + x;
}

/* y[o] = bias[o] + sum_i W[o, i] x[i] */
static void dense_forward(const fed_layer *l, const float *weight, const float *bias,
                          const float *x, float *y) {
    size_t in = fedtrain_shape_size(l->in), out = fedtrain_shape_size(l->out);
    for (size_t o = 0; o < out; o++) {
        double sum = bias[o];
        for (size_t i = 0; i < in; i++) {
            sum += (double)weight[o * in + i] * x[i];
        }
        y[o] = (float)sum;
    }
}

static void dense_backward(const fed_layer *l, const float *weight, const float *x, const float *dy,
                           float *dx, float *dweight, float *dbias) {
    size_t in = fedtrain_shape_size(l->in), out = fedtrain_shape_size(l->out);
    for (size_t i = 0; i < in; i++) {
        double sum = 0;
        for (size_t o = 0; o < out; o++) {
            sum += (double)dy[o] * weight[o * in + i];
        }
        dx[i] = (float)sum;
    }
    for (size_t o = 0; o < out; o++) {
        dbias[o] += dy[o];
        for (size_t i = 0; i < in; i++) {
            dweight[o * in + i] += dy[o] * x[i];
        }
    }
}

/* Index into a conv weight (out, in, kh, kw). */
static size_t at_weight(const fed_layer *l, size_t o, size_t i, size_t ky, size_t kx) {
    return ((o * l->in.c + i) * l->kh + ky) * l->kw + kx;
}

/* y[o, r, c] = bias[o] + sum_{i, ky, kx} W[o, i, ky, kx] x[i, r + ky, c + kx] */
static void conv_forward(const fed_layer *l, const float *weight, const float *bias, const float *x,
                         float *y) {
    for (size_t o = 0; o < l->out.c; o++) {
        for (size_t r = 0; r < l->out.h; r++) {
            for (size_t c = 0; c < l->out.w; c++) {
                double sum = bias[o];
                for (size_t i = 0; i < l->in.c; i++) {
                    for (size_t ky = 0; ky < l->kh; ky++) {
                        for (size_t kx = 0; kx < l->kw; kx++) {
                            sum += (double)weight[at_weight(l, o, i, ky, kx)] *
                                   x[at(l->in, i, r + ky, c + kx)];
                        }
                    }
                }
                y[at(l->out, o, r, c)] = (float)sum;
            }
        }
    }
}

/* Each output reached back to its inputs and weights: hand its gradient to them. */
static void conv_backward(const fed_layer *l, const float *weight, const float *x, const float *dy,
                          float *dx, float *dweight, float *dbias) {
    memset(dx, 0, fedtrain_shape_size(l->in) * sizeof *dx);
    for (size_t o = 0; o < l->out.c; o++) {
        for (size_t r = 0; r < l->out.h; r++) {
            for (size_t c = 0; c < l->out.w; c++) {
                float d = dy[at(l->out, o, r, c)];
                dbias[o] += d;
                for (size_t i = 0; i < l->in.c; i++) {
                    for (size_t ky = 0; ky < l->kh; ky++) {
                        for (size_t kx = 0; kx < l->kw; kx++) {
                            size_t w = at_weight(l, o, i, ky, kx);
                            size_t v = at(l->in, i, r + ky, c + kx);
                            dx[v] += d * weight[w];
                            dweight[w] += d * x[v];
                        }
                    }
                }
            }
        }
    }
}

/* Index of the largest value in the window of output (c, r, q): the first one on a tie. */
static size_t pool_winner(const fed_layer *l, const float *x, size_t c, size_t r, size_t q) {
    size_t best = at(l->in, c, r * l->kh, q * l->kw);
    for (size_t ky = 0; ky < l->kh; ky++) {
        for (size_t kx = 0; kx < l->kw; kx++) {
            size_t v = at(l->in, c, r * l->kh + ky, q * l->kw + kx);
            if (x[v] > x[best]) {
                best = v;
            }
        }
    }
    return best;
}

static void maxpool_forward(const fed_layer *l, const float *x, float *y) {
    for (size_t c = 0; c < l->out.c; c++) {
        for (size_t r = 0; r < l->out.h; r++) {
            for (size_t q = 0; q < l->out.w; q++) {
                y[at(l->out, c, r, q)] = x[pool_winner(l, x, c, r, q)];
            }
        }
    }
}

static void maxpool_backward(const fed_layer *l, const float *x, const float *dy, float *dx) {
    memset(dx, 0, fedtrain_shape_size(l->in) * sizeof *dx);
    for (size_t c = 0; c < l->out.c; c++) {
        for (size_t r = 0; r < l->out.h; r++) {
            for (size_t q = 0; q < l->out.w; q++) {
                dx[pool_winner(l, x, c, r, q)] += dy[at(l->out, c, r, q)];
            }
        }
    }
}

static void relu_forward(const fed_layer *l, const float *x, float *y) {
    for (size_t i = 0; i < fedtrain_shape_size(l->in); i++) {
        y[i] = x[i] < 0 ? 0 : x[i];
    }
}

static void relu_backward(const fed_layer *l, const float *x, const float *dy, float *dx) {
    for (size_t i = 0; i < fedtrain_shape_size(l->in); i++) {
        dx[i] = x[i] > 0 ? dy[i] : 0;
    }
}

static size_t tensor_offset(const fed_arch *arch, size_t index) {
    return arch->layout.tensors[index].offset;
}

static void layer_forward(const fed_arch *arch, const fed_layer *l, const float *params,
                          const float *x, float *y) {
    switch (l->kind) {
    case FED_LAYER_DENSE:
        dense_forward(l, params + tensor_offset(arch, l->weight),
                      params + tensor_offset(arch, l->weight + 1), x, y);
        break;
    case FED_LAYER_CONV:
        conv_forward(l, params + tensor_offset(arch, l->weight),
                     params + tensor_offset(arch, l->weight + 1), x, y);
        break;
    case FED_LAYER_MAXPOOL:
        maxpool_forward(l, x, y);
        break;
    case FED_LAYER_RELU:
        relu_forward(l, x, y);
        break;
    default:
        break;
    }
}

static void layer_backward(const fed_arch *arch, const fed_layer *l, const float *params,
                           const float *x, const float *dy, float *dx, float *grad) {
    switch (l->kind) {
    case FED_LAYER_DENSE:
        dense_backward(l, params + tensor_offset(arch, l->weight), x, dy, dx,
                       grad + tensor_offset(arch, l->weight),
                       grad + tensor_offset(arch, l->weight + 1));
        break;
    case FED_LAYER_CONV:
        conv_backward(l, params + tensor_offset(arch, l->weight), x, dy, dx,
                      grad + tensor_offset(arch, l->weight),
                      grad + tensor_offset(arch, l->weight + 1));
        break;
    case FED_LAYER_MAXPOOL:
        maxpool_backward(l, x, dy, dx);
        break;
    case FED_LAYER_RELU:
        relu_backward(l, x, dy, dx);
        break;
    default:
        break;
    }
}

/* Values a sample that go into layer l; past the last, the scores. */
static size_t value_size(const fed_arch *arch, size_t l) {
    return l < arch->layer_count ? fedtrain_shape_size(arch->layers[l].in) : arch->classes;
}

static void reference_close(void *self) {
    reference *r = self;
    for (size_t l = 0; r->value != NULL && r->grad != NULL && l <= r->arch->layer_count; l++) {
        free(r->value[l]);
        free(r->grad[l]);
    }
    free(r->value);
    free(r->grad);
    free(r);
}

static fed_status reference_open(const fed_arch *arch, size_t max_batch, void **self) {
    reference *r = calloc(1, sizeof *r);
    FED_REQUIRE(r != NULL, FED_ENOMEM);
    r->arch = arch;
    r->max_batch = max_batch;
    r->value = calloc(arch->layer_count + 1, sizeof *r->value);
    r->grad = calloc(arch->layer_count + 1, sizeof *r->grad);
    if (r->value == NULL || r->grad == NULL) {
        reference_close(r);
        return FED_ENOMEM;
    }
    for (size_t l = 0; l <= arch->layer_count; l++) {
        size_t n = max_batch * value_size(arch, l);
        r->value[l] = calloc(n, sizeof(float));
        r->grad[l] = calloc(n, sizeof(float));
        if (r->value[l] == NULL || r->grad[l] == NULL) {
            reference_close(r);
            return FED_ENOMEM;
        }
        r->value_bytes += n * sizeof(float);
    }
    *self = r;
    return FED_OK;
}

static void reference_memory(const void *self, fedtrain_memory *memory) {
    const reference *r = self;
    memory->activations = memory->gradients = r->value_bytes;
    memory->workspace = sizeof *r + 2 * (r->arch->layer_count + 1) * sizeof *r->value;
}

static void reference_forward(void *self, const fedtrain_pass *pass, float *score) {
    reference *r = self;
    const fed_arch *arch = r->arch;
    size_t batch = pass->batch;
    memcpy(r->value[0], pass->x, batch * value_size(arch, 0) * sizeof *pass->x);
    for (size_t l = 0; l < arch->layer_count; l++) {
        for (size_t b = 0; b < batch; b++) {
            layer_forward(arch, &arch->layers[l], pass->params,
                          r->value[l] + b * value_size(arch, l),
                          r->value[l + 1] + b * value_size(arch, l + 1));
        }
    }
    memcpy(score, r->value[arch->layer_count], batch * arch->classes * sizeof *score);
}

static void reference_backward(void *self, const fedtrain_pass *pass, const float *score_grad,
                               float *grad) {
    reference *r = self;
    const fed_arch *arch = r->arch;
    size_t batch = pass->batch;
    memset(grad, 0, arch->trained * sizeof *grad);
    memcpy(r->grad[arch->layer_count], score_grad, batch * arch->classes * sizeof *score_grad);
    for (size_t l = arch->layer_count; l-- > 0;) {
        for (size_t b = 0; b < batch; b++) {
            size_t in = b * value_size(arch, l), out = b * value_size(arch, l + 1);
            layer_backward(arch, &arch->layers[l], pass->params, r->value[l] + in,
                           r->grad[l + 1] + out, r->grad[l] + in, grad);
        }
    }
}

static void reference_keep_statistics(const void *self, float *params) {
    (void)self;
    (void)params;
}

static void reference_forget(void *self) {
    (void)self;
}

static const float *reference_output(const void *self, size_t l, size_t *n) {
    const reference *r = self;
    *n = value_size(r->arch, l + 1);
    return r->value[l + 1];
}

const fedtrain_backend_vtable fedtrain_backend_reference = {
    .name = "reference",
    .open = reference_open,
    .close = reference_close,
    .memory = reference_memory,
    .forward = reference_forward,
    .backward = reference_backward,
    .keep_statistics = reference_keep_statistics,
    .forget = reference_forget,
    .output = reference_output,
};
