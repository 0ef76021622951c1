/* Parse the layers of a model's text: the words of each kind, its output shape and its tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/arch_parser.h"
#include "fed/small.h"

/* The most values that a layer gives for one sample. */
static const uint64_t SHAPE_SIZE_MAX = UINT64_C(1) << 28;

static const char TOO_LARGE[] = "a smaller layer: it gives more than 2^28 values a sample";

static uint64_t shape_size(fed_shape s) {
    /* c * h is below 2^64. The product with w might not be, so a plane that is too large already
     * is returned without it. */
    uint64_t plane = (uint64_t)s.c * s.h;
    return plane > SHAPE_SIZE_MAX ? plane : plane * s.w;
}

bool arch_shape_fits(fed_shape s) {
    return shape_size(s) <= SHAPE_SIZE_MAX;
}

fed_shape arch_value_shape(const fed_arch *arch, uint32_t value) {
    return value == 0 ? arch->input : arch->layers[value - 1].out;
}

FED_PRINTF(3, 4)
static fed_status fail_because(const arch_parser *p, fed_word w, const char *format, ...) {
    char wanted[200];
    va_list args;
    va_start(args, format);
    vsnprintf(wanted, sizeof wanted, format, args);
    va_end(args);
    return arch_fail(p, w, wanted);
}

static fed_status fail_small(const arch_parser *p) {
    return arch_fail(p, p->kind,
                     "another layer: this program was built small, without it (see fed/small.h)");
}

static fed_status add_tensor(arch_parser *p, const char *layer, const char *suffix, uint32_t rank,
                             const uint32_t *dims, size_t *index) {
    char name[2 * ARCH_NAME];
    if (snprintf(name, sizeof name, "%s.%s", layer, suffix) >= ARCH_NAME) {
        return fail_because(p, p->kind, "a shorter name: %s has more than %d characters", name,
                            ARCH_NAME - 1);
    }
    uint64_t size = 1;
    for (uint32_t i = 0; i < rank && size <= ARCH_PARAMETERS_MAX; i++) {
        size *= dims[i];
    }
    if (size > ARCH_PARAMETERS_MAX - p->arch->layout.size) {
        return arch_fail(p, p->kind, "a smaller layer: a model has at most 2^31 parameters");
    }
    *index = p->arch->layout.count;
    fed_status status = fed_layout_append(&p->arch->layout, name, rank, dims);
    return status == FED_OK
               ? FED_OK
               : fed_fail(p->err, status, "model: tensor %s: %s", name, fed_status_text(status));
}

static fed_status add_weight(arch_parser *p, fed_layer *layer, uint32_t rank,
                             const uint32_t *dims) {
    return add_tensor(p, p->name, "weight", rank, dims, &layer->weight);
}

static fed_status add_bias(arch_parser *p, fed_layer *layer) {
    return layer->has_bias ? add_tensor(p, p->name, "bias", 1, &layer->out.c, &layer->bias)
                           : FED_OK;
}

/* Add SCAFFOLD's control variate c: as many running statistics as there are parameters. */
static fed_status add_controls(arch_parser *p) {
    fed_layout *layout = &p->arch->layout;
    size_t index;
    for (size_t k = 0, trained = layout->count; k < trained; k++) {
        fed_tensor t = layout->tensors[k]; /* a copy: adding a tensor may move the list */
        FED_TRY(add_tensor(p, "scaffold", t.name, t.rank, t.dims, &index));
    }
    return FED_OK;
}

fed_status arch_statistics_add(arch_parser *p) {
    if (!FED_SMALL && p->arch->scaffold) {
        FED_TRY(add_controls(p));
    }
    for (size_t i = 0; i < p->arch->layer_count; i++) {
        fed_layer *layer = &p->arch->layers[i];
        if (layer->kind != FED_LAYER_BATCHNORM) {
            continue;
        }
        size_t variance;
        char name[ARCH_NAME];
        fed_arch_layer_name(p->arch, i, name, sizeof name);
        p->kind = p->origins[i].at;
        FED_TRY(add_tensor(p, name, "running_mean", 1, &layer->out.c, &layer->state));
        FED_TRY(add_tensor(p, name, "running_var", 1, &layer->out.c, &variance));
    }
    return FED_OK;
}

void fed_arch_code_variates(fed_arch *arch) {
    fed_layout *layout = &arch->layout;
    if (!FED_SMALL && arch->scaffold) {
        layout->controls = layout->count - layout->statistics;
        layout->statistics -= layout->controls;
    }
}

static fed_status parse_plain(arch_parser *p, fed_layer *layer) {
    (void)p;
    layer->out = layer->in;
    return FED_OK;
}

static fed_status parse_dropout(arch_parser *p, fed_layer *layer) {
    fed_word share = arch_word_peek(p);
    FED_TRY(arch_decimal(p, "the fraction of dropout, as in \"dropout 0.5\"", &layer->p));
    layer->out = layer->in;
    return layer->p < 1.0f ? FED_OK : arch_fail(p, share, "a fraction below 1");
}

static fed_status parse_batchnorm(arch_parser *p, fed_layer *layer) {
    layer->out = layer->in;
    layer->has_bias = true;
    FED_TRY(add_weight(p, layer, 1, &layer->out.c));
    return add_bias(p, layer);
}

static fed_status parse_lrn(arch_parser *p, fed_layer *layer) {
    layer->out = layer->in;
    layer->alpha = 1e-4f;
    layer->beta = 0.75f;
    layer->k = 1.0f;
    fed_word span = arch_word_peek(p);
    FED_TRY(arch_number(p, 1, "the channels of lrn, as in \"lrn 5\"", &layer->span));
    if (layer->span % 2 == 0) {
        return arch_fail(p, span, "an odd number of channels, with one in their middle");
    }
    arch_option options[] = {{"alpha", .decimal = &layer->alpha},
                             {"beta", .decimal = &layer->beta},
                             {"k", .decimal = &layer->k}};
    FED_TRY(arch_options_parse(p, options, 3));
    return layer->k > 0.0f ? FED_OK : arch_fail(p, p->kind, "a k above 0");
}

static fed_status parse_widen(arch_parser *p, fed_layer *layer) {
    layer->out = layer->in;
    fed_word out = arch_word_peek(p);
    FED_TRY(
        arch_number(p, 1, "the number of channels after widen, as in \"widen 32\"", &layer->out.c));
    if (layer->out.c < layer->in.c) {
        return fail_because(p, out, "at least %u, the number of input channels", layer->in.c);
    }
    return FED_OK;
}

static fed_status parse_window(arch_parser *p, fed_layer *layer, const char *wanted) {
    fed_word w = arch_word_meaning(p, arch_word_next(p));
    uint32_t size[2];
    size_t count = arch_numbers(w, "x", size, 2);
    if (count == 0 || size[0] == 0 || size[count - 1] == 0 ||
        !arch_shape_fits((fed_shape){1, size[0], size[count - 1]})) {
        return arch_fail(p, w, wanted);
    }
    layer->kh = size[0];
    layer->kw = size[count - 1];
    return FED_OK;
}

static fed_status place_window(const arch_parser *p, fed_word window, fed_layer *layer) {
    uint32_t smaller = layer->kh < layer->kw ? layer->kh : layer->kw;
    if (layer->pad > smaller / 2) {
        return fail_because(p, window, "a pad of at most half the window, not %u", layer->pad);
    }
    uint64_t h = layer->in.h + 2 * (uint64_t)layer->pad, w = layer->in.w + 2 * (uint64_t)layer->pad;
    if (layer->kh > h || layer->kw > w) {
        return fail_because(p, window, "a window no larger than its input, %ux%u with a pad of %u",
                            layer->in.h, layer->in.w, layer->pad);
    }
    layer->out.h = (uint32_t)((h - layer->kh) / layer->stride) + 1;
    layer->out.w = (uint32_t)((w - layer->kw) / layer->stride) + 1;
    return FED_OK;
}

static fed_status parse_conv(arch_parser *p, fed_layer *layer) {
    FED_TRY(
        arch_number(p, 1, "the number of outputs of conv, as in \"conv 20 5x5\"", &layer->out.c));
    fed_word window = arch_word_peek(p);
    FED_TRY(parse_window(p, layer, "the kernel of conv, as in \"conv 20 5x5\""));
    bool nobias = false;
    layer->stride = layer->groups = 1;
    arch_option options[] = {{"stride", .number = &layer->stride, .low = 1},
                             {"pad", .number = &layer->pad},
                             {"groups", .number = &layer->groups, .low = 1},
                             {"nobias", .given = &nobias}};
    FED_TRY(arch_options_parse(p, options, 4));
    FED_TRY(place_window(p, window, layer));
    if (layer->in.c % layer->groups != 0 || layer->out.c % layer->groups != 0) {
        return fail_because(p, p->kind, "groups that divide its channels, %u in and %u out",
                            layer->in.c, layer->out.c);
    }
    layer->has_bias = !nobias;
    uint32_t dims[] = {layer->out.c, layer->in.c / layer->groups, layer->kh, layer->kw};
    FED_TRY(add_weight(p, layer, 4, dims));
    return add_bias(p, layer);
}

static fed_status parse_pool(arch_parser *p, fed_layer *layer) {
    layer->out.c = layer->in.c;
    fed_word window = arch_word_peek(p);
    if (layer->kind == FED_LAYER_AVGPOOL && arch_word_ends_layer(window)) {
        layer->kh = layer->in.h;
        layer->kw = layer->in.w;
        layer->stride = 1;
        return place_window(p, window, layer);
    }
    FED_TRY(parse_window(p, layer, "the window of a pool, as in \"maxpool 2\""));
    arch_option options[] = {{"stride", .number = &layer->stride, .low = 1},
                             {"pad", .number = &layer->pad}};
    FED_TRY(arch_options_parse(p, options, 2));
    if (layer->stride == 0 && layer->kh != layer->kw) {
        return arch_fail(p, window, "\"stride\" after a window that isn't square");
    }
    layer->stride = layer->stride == 0 ? layer->kh : layer->stride;
    return place_window(p, window, layer);
}

/* Make a dense layer use the weights of an embedding. A word's vector in the embedding is the row
 * of weights that gives the word's score. */
static fed_status tie(const arch_parser *p, fed_layer *layer, uint32_t value) {
    const fed_layer *embedding = value > 0 ? &p->arch->layers[value - 1] : NULL;
    if (embedding == NULL || embedding->kind != FED_LAYER_EMBEDDING) {
        return arch_fail(p, p->kind, "the name of an embedding after \"tied\"");
    }
    if (layer->out.c != p->arch->words || layer->in.c != embedding->out.c) {
        return fail_because(
            p, p->kind,
            "%u outputs of %u values each, as the embedding has; not %u outputs of %u values",
            p->arch->words, embedding->out.c, layer->out.c, layer->in.c);
    }
    layer->tied = true;
    layer->weight = embedding->weight;
    return FED_OK;
}

static fed_status parse_dense(arch_parser *p, fed_layer *layer) {
    FED_TRY(
        arch_number(p, 1, "the number of outputs of dense, as in \"dense 500\"", &layer->out.c));
    bool nobias = false, tied = false;
    uint32_t embedding = 0;
    arch_option options[] = {{"each", .given = &layer->each},
                             {"tied", .value = &embedding, .given = &tied},
                             {"nobias", .given = &nobias}};
    FED_TRY(arch_options_parse(p, options, 3));
    if (FED_SMALL && layer->each) {
        return fail_small(p);
    }
    layer->has_bias = !nobias;
    layer->out.h = layer->each ? layer->in.h : 1;
    layer->out.w = layer->each ? layer->in.w : 1;
    uint32_t fan_in = layer->each ? layer->in.c : (uint32_t)shape_size(layer->in);
    if (!tied) {
        FED_TRY(add_weight(p, layer, 2, (uint32_t[]){layer->out.c, fan_in}));
    } else if (layer->each) {
        FED_TRY(tie(p, layer, embedding));
    } else {
        return arch_fail(
            p, p->kind,
            "\"each\" together with \"tied\": an embedding gives one vector for each position");
    }
    return add_bias(p, layer);
}

static fed_status parse_embedding(arch_parser *p, fed_layer *layer) {
    if (p->arch->words == 0 || layer->input[0] != 0) {
        return arch_fail(p, p->kind,
                         "an embedding directly after \"input tokens ...\", and only there");
    }
    layer->out = layer->in;
    FED_TRY(
        arch_number(p, 1, "the size of a word's vector, as in \"embedding 200\"", &layer->out.c));
    return add_weight(p, layer, 2, (uint32_t[]){p->arch->words, layer->out.c});
}

static fed_status add_layer(arch_parser *p, const fed_layer *layer);

/* Parse one layer of an lstm. index is the digit in PyTorch's names, as in weight_ih_l0. */
static fed_status parse_cell(arch_parser *p, uint32_t size, uint32_t index, fed_layer *cell) {
    cell->input[0] = p->value;
    cell->in = cell->out = arch_value_shape(p->arch, p->value);
    cell->out.c = size;
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    uint32_t dims[4][2] = {{4 * size, cell->in.c}, {4 * size, size}, {4 * size}, {4 * size}};
    for (size_t i = 0; i < 4; i++) {
        char suffix[32];
        size_t at = 0;
        snprintf(suffix, sizeof suffix, "%s_l%u", names[i], index);
        FED_TRY(add_tensor(p, p->name, suffix, i < 2 ? 2 : 1, dims[i], &at));
        cell->weight = i == 0 ? at : cell->weight;
    }
    return FED_OK;
}

static fed_status parse_lstm(arch_parser *p, fed_layer *layer) {
    if (layer->in.w != 1) {
        return arch_fail(p, p->kind, "a sequence, SIZExTx1, before an lstm");
    }
    fed_word word = arch_word_peek(p);
    uint32_t size, layers = 1;
    fed_layer dropout = {.kind = FED_LAYER_DROPOUT, .inputs = 1};
    FED_TRY(arch_number(p, 1, "the size of lstm, as in \"lstm 200\"", &size));
    arch_option options[] = {{"layers", .number = &layers, .low = 1},
                             {"dropout", .decimal = &dropout.p}};
    FED_TRY(arch_options_parse(p, options, 2));
    dropout.in = dropout.out = (fed_shape){size, layer->in.h, 1};
    if (!arch_shape_fits(dropout.out)) {
        return arch_fail(p, word, TOO_LARGE);
    }
    if (dropout.p >= 1.0f) {
        return arch_fail(p, p->kind, "a fraction of dropout below 1");
    }
    for (uint32_t i = 0; i < layers; i++) {
        FED_TRY(parse_cell(p, size, i, layer));
        if (i + 1 == layers) {
            break;
        }
        FED_TRY(add_layer(p, layer));
        if (dropout.p > 0.0f) {
            dropout.input[0] = p->value;
            FED_TRY(add_layer(p, &dropout));
        }
    }
    return FED_OK;
}

static fed_status parse_input(arch_parser *p, fed_layer *layer, fed_word *w) {
    *w = arch_word_peek(p);
    return arch_value_parse(p, &layer->input[layer->inputs++]);
}

static fed_status parse_add(arch_parser *p, fed_layer *layer) {
    fed_word w;
    FED_TRY(parse_input(p, layer, &w));
    fed_shape a = layer->in, b = arch_value_shape(p->arch, layer->input[1]);
    if (a.c != b.c || a.h != b.h || a.w != b.w) {
        return fail_because(p, w, "a value of the shape before it, %ux%ux%u, not %ux%ux%u", a.c,
                            a.h, a.w, b.c, b.h, b.w);
    }
    layer->out = a;
    return FED_OK;
}

/* Parse concat. The channels of the value before the layer come last, after the named values. */
static fed_status parse_concat(arch_parser *p, fed_layer *layer) {
    layer->out = layer->in;
    layer->inputs = 0;
    do {
        fed_word w;
        FED_TRY(parse_input(p, layer, &w));
        fed_shape other = arch_value_shape(p->arch, layer->input[layer->inputs - 1]);
        if (other.h != layer->in.h || other.w != layer->in.w) {
            return fail_because(p, w, "a value of %ux%u positions, not %ux%u", layer->out.h,
                                layer->out.w, other.h, other.w);
        }
        layer->out.c += other.c;
    } while (layer->inputs < FED_LAYER_INPUTS - 1 && !arch_word_ends_layer(arch_word_peek(p)));
    layer->input[layer->inputs++] = p->value;
    layer->in = arch_value_shape(p->arch, layer->input[0]);
    return FED_OK;
}

static const struct {
    const char *word;
    fed_status (*parse)(arch_parser *p, fed_layer *layer);
} kinds[] = {
    [FED_LAYER_DENSE] = {"dense", parse_dense},
    [FED_LAYER_CONV] = {"conv", parse_conv},
    [FED_LAYER_MAXPOOL] = {"maxpool", parse_pool},
    [FED_LAYER_AVGPOOL] = {"avgpool", FED_UNLESS_SMALL(parse_pool)},
    [FED_LAYER_RELU] = {"relu", parse_plain},
    [FED_LAYER_TANH] = {"tanh", FED_UNLESS_SMALL(parse_plain)},
    [FED_LAYER_SIGMOID] = {"sigmoid", FED_UNLESS_SMALL(parse_plain)},
    [FED_LAYER_DROPOUT] = {"dropout", FED_UNLESS_SMALL(parse_dropout)},
    [FED_LAYER_BATCHNORM] = {"bn", FED_UNLESS_SMALL(parse_batchnorm)},
    [FED_LAYER_LRN] = {"lrn", FED_UNLESS_SMALL(parse_lrn)},
    [FED_LAYER_EMBEDDING] = {"embedding", FED_UNLESS_SMALL(parse_embedding)},
    [FED_LAYER_LSTM] = {"lstm", FED_UNLESS_SMALL(parse_lstm)},
    [FED_LAYER_WIDEN] = {"widen", FED_UNLESS_SMALL(parse_widen)},
    [FED_LAYER_ADD] = {"add", FED_UNLESS_SMALL(parse_add)},
    [FED_LAYER_CONCAT] = {"concat", FED_UNLESS_SMALL(parse_concat)},
};

const char *fed_layer_word(fed_layer_kind kind) {
    return kind >= FED_LAYER_DENSE && kind <= FED_LAYER_CONCAT ? kinds[kind].word : "?";
}

fed_layer_kind arch_kind_find(fed_word w) {
    size_t k = ARCH_KINDS - 1;
    while (k > 0 && !fed_word_is(w, kinds[k].word)) {
        k--;
    }
    return (fed_layer_kind)k;
}

static fed_status grow_layers(arch_parser *p) {
    size_t cap = p->layer_cap > 0 ? 2 * p->layer_cap : 16;
    fed_layer *layers = realloc(p->arch->layers, cap * sizeof *layers);
    if (layers != NULL) {
        p->arch->layers = layers;
    }
    arch_origin *origins = realloc(p->origins, cap * sizeof *origins);
    if (origins != NULL) {
        p->origins = origins;
    }
    if (layers == NULL || origins == NULL) {
        return fed_fail(p->err, FED_ENOMEM, "out of memory for a model's layers");
    }
    p->layer_cap = cap;
    return FED_OK;
}

static fed_status add_layer(arch_parser *p, const fed_layer *layer) {
    fed_arch *arch = p->arch;
    if (arch->layer_count == FED_ARCH_LAYERS) {
        return arch_fail(p, p->kind, "no further layer: a model has at most 1,024 layers");
    }
    if (!arch_shape_fits(layer->out)) {
        return arch_fail(p, p->kind, TOO_LARGE);
    }
    for (uint32_t i = 0; i < layer->inputs; i++) {
        if (layer->input[i] > 0) {
            p->origins[layer->input[i] - 1].used = true;
        } else if (arch->words > 0 && layer->kind != FED_LAYER_EMBEDDING) {
            return arch_fail(p, p->kind, "an embedding: only it reads the input's tokens");
        }
    }
    if (arch->layer_count == p->layer_cap) {
        FED_TRY(grow_layers(p));
    }
    p->origins[arch->layer_count] = (arch_origin){.at = p->kind};
    arch->layers[arch->layer_count] = *layer;
    p->value = (uint32_t)++arch->layer_count;
    return FED_OK;
}

fed_status arch_layer_parse(arch_parser *p, fed_layer_kind kind) {
    fed_layer layer = {
        .kind = kind, .inputs = 1, .input = {p->value}, .in = arch_value_shape(p->arch, p->value)};
    if (kinds[kind].parse == NULL) {
        return fail_small(p);
    }
    FED_TRY(kinds[kind].parse(p, &layer));
    fed_word end = arch_word_peek(p);
    if (!arch_word_ends_layer(end)) {
        return arch_fail(p, end, "\"|\" between layers");
    }
    return add_layer(p, &layer);
}
