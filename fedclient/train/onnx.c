/* Turns a model into an ONNX graph: chooses operators, and the forms of the values between. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/onnx.h"

#include <stdio.h>
#include <stdlib.h>

#include "fedclient/train/onnx_graph.h"

/* The order of a value's dimensions. ONNX's operators differ in the order that they need. */
typedef enum form {
    ROW,      /* (batch, c) */
    PICTURE,  /* (batch, c, h, w) */
    SEQUENCE, /* (batch, h * w, c) */
    TOKENS    /* (batch, t), whole numbers */
} form;

typedef struct value {
    onnx_name name;
    form form;
    fed_shape shape;
} value;

typedef struct writer {
    const fed_arch *arch;
    const float *params;
    onnx_graph graph;
    value *values; /* [layer_count + 1] */

    const fed_layer *layer;
    char name[FED_TENSOR_NAME];
    unsigned nodes;
} writer;

/* Some programs demand unique names, so a node's name has its layer, operator and a number. */
static onnx_node begin_node(writer *w, const char *op) {
    char name[ONNX_NAME + 16];
    snprintf(name, sizeof name, "%s/%s_%u", w->name, op, ++w->nodes);
    return onnx_node_new(&w->graph, op, name);
}

static onnx_name node_1(writer *w, const char *op, const char *input) {
    onnx_name output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, op);
    onnx_node_input(&node, input);
    onnx_node_add(&node, output.text);
    return output;
}

static onnx_name node_2(writer *w, const char *op, const char *a, const char *b) {
    onnx_name output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, op);
    onnx_node_input(&node, a);
    onnx_node_input(&node, b);
    onnx_node_add(&node, output.text);
    return output;
}

static onnx_name transpose(writer *w, const char *input, const int64_t *order, size_t n) {
    onnx_name output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "Transpose");
    onnx_node_input(&node, input);
    onnx_node_ints(&node, "perm", order, n);
    onnx_node_add(&node, output.text);
    return output;
}

/* Add a Reshape. dims: 0 keeps the batch's size, -1 stands for all other values. */
static onnx_name reshape(writer *w, const char *input, const int64_t *dims, size_t n) {
    onnx_name shape = onnx_constant(&w->graph, dims, n), output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "Reshape");
    onnx_node_input(&node, input);
    onnx_node_input(&node, shape.text);
    onnx_node_add(&node, output.text);
    return output;
}

static onnx_name swap_last(writer *w, const char *input) {
    return transpose(w, input, (int64_t[]){0, 2, 1}, 3);
}

static onnx_name in_form(writer *w, const value *v, form wanted) {
    int64_t c = v->shape.c;
    if (v->form == wanted) {
        return v->name;
    }
    onnx_name name =
        v->form == SEQUENCE ? swap_last(w, v->name.text) : v->name; /* h and w now come last */
    switch (wanted) {
    case ROW:
        return reshape(w, name.text, (int64_t[]){0, -1}, 2);
    case PICTURE:
        return reshape(w, name.text, (int64_t[]){0, c, v->shape.h, v->shape.w}, 4);
    case SEQUENCE:
        name = reshape(w, name.text, (int64_t[]){0, c, -1}, 3);
        return swap_last(w, name.text);
    case TOKENS:
        break;
    }
    return name;
}

static onnx_name input_in(writer *w, form wanted) {
    return in_form(w, &w->values[w->layer->input[0]], wanted);
}

static void give(writer *w, onnx_name name, form is) {
    w->values[w->layer - w->arch->layers + 1] =
        (value){.name = name, .form = is, .shape = w->layer->out};
}

static const char *weight(writer *w, size_t index) {
    const fed_tensor *tensor = &w->arch->layout.tensors[index];
    onnx_weight made = {.rank = tensor->rank,
                        .parts = 1,
                        .part = {w->params + tensor->offset},
                        .part_size = tensor->size};
    snprintf(made.name, sizeof made.name, "%s", tensor->name);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        made.dims[i] = tensor->dims[i];
    }
    onnx_weight_add(&w->graph, &made);
    return tensor->name;
}

/* ONNX has the gates in the order i, o, f, c; this library in i, f, g, o, where g is ONNX's c. */
static const size_t gates[] = {0, 3, 1, 2};

enum { GATES = 4 };

/* Add a weight with the gates of tensor `index` in ONNX's order. If tensors is 2, the gates of the
 * next tensor follow. ONNX's weight has one more dimension in front, the direction. */
static onnx_name gate_weight(writer *w, size_t index, size_t tensors) {
    const fed_tensor *tensor = &w->arch->layout.tensors[index];
    onnx_weight made = {.rank = tensor->rank + 1,
                        .dims = {1, tensors * tensor->dims[0], tensor->dims[1]},
                        .parts = tensors * GATES,
                        .part_size = tensor->size / GATES};
    for (size_t k = 0; k < tensors; k++) {
        for (size_t i = 0; i < GATES; i++) {
            made.part[k * GATES + i] = w->params + tensor[k].offset + gates[i] * made.part_size;
        }
    }
    onnx_name name;
    snprintf(name.text, sizeof name.text, "%s.onnx", tensor->name);
    snprintf(made.name, sizeof made.name, "%s", name.text);
    onnx_weight_add(&w->graph, &made);
    return name;
}

static void write_window(const fed_layer *l, int64_t pads, onnx_node *node) {
    onnx_node_ints(node, "kernel_shape", (int64_t[]){l->kh, l->kw}, 2);
    onnx_node_ints(node, "strides", (int64_t[]){l->stride, l->stride}, 2);
    onnx_node_ints(node, "pads", (int64_t[]){pads, pads, pads, pads}, 4);
}

static void write_conv(writer *w) {
    const fed_layer *l = w->layer;
    onnx_name input = input_in(w, PICTURE), output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "Conv");
    onnx_node_input(&node, input.text);
    onnx_node_input(&node, weight(w, l->weight));
    if (l->has_bias) {
        onnx_node_input(&node, weight(w, l->bias));
    }
    write_window(l, l->pad, &node);
    onnx_node_int(&node, "group", l->groups);
    onnx_node_add(&node, output.text);
    give(w, output, PICTURE);
}

static void write_maxpool(writer *w) {
    onnx_name input = input_in(w, PICTURE), output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "MaxPool");
    onnx_node_input(&node, input.text);
    write_window(w->layer, w->layer->pad, &node);
    onnx_node_add(&node, output.text);
    give(w, output, PICTURE);
}

/* Pad a picture with zeros: `front` and `back` channels, and `around` pixels on each side of every
 * channel. */
static onnx_name pad(writer *w, onnx_name input, int64_t front, int64_t back, int64_t around) {
    onnx_name pads =
        onnx_constant(&w->graph, (int64_t[]){0, front, around, around, 0, back, around, around}, 8);
    return node_2(w, "Pad", input.text, pads.text);
}

/* A separate node pads, because not every program supports an AveragePool that counts its
 * padding. */
static void write_avgpool(writer *w) {
    const fed_layer *l = w->layer;
    onnx_name input = input_in(w, PICTURE);
    if (l->pad == 0 && l->kh == l->in.h && l->kw == l->in.w) {
        give(w, node_1(w, "GlobalAveragePool", input.text), PICTURE);
        return;
    }
    input = l->pad > 0 ? pad(w, input, 0, 0, l->pad) : input;
    onnx_name output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "AveragePool");
    onnx_node_input(&node, input.text);
    write_window(l, 0, &node);
    onnx_node_add(&node, output.text);
    give(w, output, PICTURE);
}

static void write_dense(writer *w) {
    const fed_layer *l = w->layer;
    onnx_name input = input_in(w, ROW), output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "Gemm");
    onnx_node_input(&node, input.text);
    onnx_node_input(&node, weight(w, l->weight));
    if (l->has_bias) {
        onnx_node_input(&node, weight(w, l->bias));
    }
    onnx_node_int(&node, "transB", 1);
    onnx_node_add(&node, output.text);
    give(w, output, ROW);
}

static void write_dense_each(writer *w) {
    const fed_layer *l = w->layer;
    onnx_name input = input_in(w, SEQUENCE);
    onnx_name matrix = transpose(w, weight(w, l->weight), (int64_t[]){1, 0}, 2);
    onnx_name output = node_2(w, "MatMul", input.text, matrix.text);
    if (l->has_bias) {
        output = node_2(w, "Add", output.text, weight(w, l->bias));
    }
    give(w, output, SEQUENCE);
}

static void write_batchnorm(writer *w) {
    const fed_layer *l = w->layer;
    form is = w->values[l->input[0]].form == ROW ? ROW : PICTURE;
    onnx_name input = input_in(w, is), output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "BatchNormalization");
    onnx_node_input(&node, input.text);
    const size_t tensors[] = {l->weight, l->bias, l->state, l->state + 1};
    for (size_t i = 0; i < 4; i++) {
        onnx_node_input(&node, weight(w, tensors[i]));
    }
    onnx_node_float(&node, "epsilon", 1e-5F);
    onnx_node_add(&node, output.text);
    give(w, output, is);
}

static void write_lrn(writer *w) {
    const fed_layer *l = w->layer;
    onnx_name input = input_in(w, PICTURE), output = onnx_name_new(&w->graph);
    onnx_node node = begin_node(w, "LRN");
    onnx_node_input(&node, input.text);
    onnx_node_int(&node, "size", l->span);
    onnx_node_float(&node, "alpha", l->alpha);
    onnx_node_float(&node, "beta", l->beta);
    onnx_node_float(&node, "bias", l->k);
    onnx_node_add(&node, output.text);
    give(w, output, PICTURE);
}

static void write_embedding(writer *w) {
    onnx_name input = input_in(w, TOKENS);
    give(w, node_2(w, "Gather", weight(w, w->layer->weight), input.text), SEQUENCE);
}

/* ONNX's LSTM takes (t, batch, c), and gives (t, directions, batch, c). */
static void write_lstm(writer *w) {
    const fed_layer *l = w->layer;
    onnx_name input = input_in(w, SEQUENCE), output = onnx_name_new(&w->graph);
    onnx_name by_time = transpose(w, input.text, (int64_t[]){1, 0, 2}, 3);
    onnx_name from_input = gate_weight(w, l->weight, 1);
    onnx_name from_state = gate_weight(w, l->weight + 1, 1);
    onnx_name bias = gate_weight(w, l->weight + 2, 2);
    onnx_node node = begin_node(w, "LSTM");
    onnx_node_input(&node, by_time.text);
    onnx_node_input(&node, from_input.text);
    onnx_node_input(&node, from_state.text);
    onnx_node_input(&node, bias.text);
    onnx_node_int(&node, "hidden_size", l->out.c);
    onnx_node_add(&node, output.text);
    onnx_name direction = onnx_constant(&w->graph, (int64_t[]){1}, 1);
    onnx_name states = node_2(w, "Squeeze", output.text, direction.text);
    give(w, transpose(w, states.text, (int64_t[]){1, 0, 2}, 3), SEQUENCE);
}

static void write_widen(writer *w) {
    const fed_layer *l = w->layer;
    int64_t added = l->out.c - l->in.c, front = added / 2;
    give(w, pad(w, input_in(w, PICTURE), front, added - front, 0), PICTURE);
}

static void write_add(writer *w) {
    const fed_layer *l = w->layer;
    const value *first = &w->values[l->input[0]];
    onnx_name other = in_form(w, &w->values[l->input[1]], first->form);
    give(w, node_2(w, "Add", first->name.text, other.text), first->form);
}

static void write_concat(writer *w) {
    const fed_layer *l = w->layer;
    form is = w->values[l->input[0]].form;
    onnx_name input[FED_LAYER_INPUTS], output = onnx_name_new(&w->graph);
    for (uint32_t i = 0; i < l->inputs; i++) {
        input[i] = in_form(w, &w->values[l->input[i]], is);
    }
    onnx_node node = begin_node(w, "Concat");
    for (uint32_t i = 0; i < l->inputs; i++) {
        onnx_node_input(&node, input[i].text);
    }
    onnx_node_int(&node, "axis", is == SEQUENCE ? 2 : 1);
    onnx_node_add(&node, output.text);
    give(w, output, is);
}

static void write_function(writer *w, const char *op) {
    const value *input = &w->values[w->layer->input[0]];
    give(w, node_1(w, op, input->name.text), input->form);
}

static void write_layer(writer *w) {
    const value *input = &w->values[w->layer->input[0]];
    switch (w->layer->kind) {
    case FED_LAYER_DENSE:
        if (w->layer->each) {
            write_dense_each(w);
        } else {
            write_dense(w);
        }
        break;
    case FED_LAYER_CONV:
        write_conv(w);
        break;
    case FED_LAYER_MAXPOOL:
        write_maxpool(w);
        break;
    case FED_LAYER_AVGPOOL:
        write_avgpool(w);
        break;
    case FED_LAYER_RELU:
        write_function(w, "Relu");
        break;
    case FED_LAYER_TANH:
        write_function(w, "Tanh");
        break;
    case FED_LAYER_SIGMOID:
        write_function(w, "Sigmoid");
        break;
    case FED_LAYER_DROPOUT:
        give(w, input->name, input->form); /* inference drops nothing */
        break;
    case FED_LAYER_BATCHNORM:
        write_batchnorm(w);
        break;
    case FED_LAYER_LRN:
        write_lrn(w);
        break;
    case FED_LAYER_EMBEDDING:
        write_embedding(w);
        break;
    case FED_LAYER_LSTM:
        write_lstm(w);
        break;
    case FED_LAYER_WIDEN:
        write_widen(w);
        break;
    case FED_LAYER_ADD:
        write_add(w);
        break;
    case FED_LAYER_CONCAT:
        write_concat(w);
        break;
    }
}

static void write_input(writer *w) {
    const fed_arch *arch = w->arch;
    fed_shape s = arch->input;
    value *v = &w->values[0];
    *v = (value){.name = {"input"}, .form = PICTURE, .shape = s};
    if (arch->words > 0) {
        *v = (value){.name = {"tokens"}, .form = TOKENS, .shape = s};
        onnx_input(&w->graph, "tokens", ONNX_INT64, (uint32_t[]){s.c * s.h * s.w}, 1);
    } else if (s.h == 1 && s.w == 1) {
        v->form = ROW;
        onnx_input(&w->graph, "input", ONNX_FLOAT, &s.c, 1);
    } else {
        onnx_input(&w->graph, "input", ONNX_FLOAT, (uint32_t[]){s.c, s.h, s.w}, 3);
    }
}

static void write_output(writer *w) {
    const fed_arch *arch = w->arch;
    const value *last = &w->values[arch->layer_count];
    bool many = arch->positions > 1;
    onnx_name name = in_form(w, last, many ? SEQUENCE : ROW);
    onnx_node node = begin_node(w, "Identity");
    onnx_node_input(&node, name.text);
    onnx_node_add(&node, "scores");
    const uint32_t dims[] = {arch->positions, arch->classes};
    onnx_output(&w->graph, "scores", ONNX_FLOAT, many ? dims : dims + 1, many ? 2 : 1);
}

static fed_status check_finite(const fed_arch *arch, const float *params, fed_error *err) {
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *tensor = &arch->layout.tensors[i];
        if (fed_first_nonfinite(params + tensor->offset, tensor->size) < tensor->size) {
            return fed_fail(
                err, FED_ENONFINITE,
                "tensor \"%s\" holds NaN or infinity: an ONNX file needs finite numbers",
                tensor->name);
        }
    }
    return FED_OK;
}

fed_status fedtrain_onnx_save(const char *path, const fed_arch *arch, const float *params,
                              const char *const *metadata, fed_error *err) {
    FED_TRY(fed_arch_require_layers(arch, err));
    FED_TRY(check_finite(arch, params, err));
    writer w = {.arch = arch, .params = params};
    w.values = calloc(arch->layer_count + 1, sizeof *w.values);
    if (w.values == NULL) {
        return fed_fail(err, FED_ENOMEM, "%s: out of memory", path);
    }
    onnx_graph_init(&w.graph);
    write_input(&w);
    for (size_t l = 0; l < arch->layer_count; l++) {
        w.layer = &arch->layers[l];
        fed_arch_layer_name(arch, l, w.name, sizeof w.name);
        write_layer(&w);
    }
    snprintf(w.name, sizeof w.name, "scores");
    write_output(&w);
    fed_status status = onnx_graph_save(&w.graph, path, metadata, err);
    onnx_graph_free(&w.graph);
    free(w.values);
    return status;
}
