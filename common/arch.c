/* Model descriptions: parse the line of text, lay out the tensors, draw the initial weights. */
#include "fed/arch.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed/rng.h"

/* A sample's values in one layer, and the parameters of all: far above any model this trains, low
 * enough that products of a few of them fit 64 bits. */
static const uint64_t SHAPE_SIZE_MAX = UINT64_C(1) << 28;
static const uint64_t PARAMETERS_MAX = UINT64_C(1) << 31;

/* The random stream of tensor i is (i, this): apart from the streams of rounds and devices. */
enum { STREAM_INITIAL_WEIGHTS = 0x696e6974 };

static const struct {
    const char *name, *text;
} models[] = {
#define FED_MODEL(name, text) {name, text},
#include "common/models.def"
#undef FED_MODEL
};

enum { MODEL_COUNT = sizeof models / sizeof models[0] };

const char *fed_arch_name(size_t k) {
    return k < MODEL_COUNT ? models[k].name : NULL;
}

const char *fed_arch_text(size_t k) {
    return k < MODEL_COUNT ? models[k].text : NULL;
}

/* ---- Words ---- */

typedef struct word {
    const char *at;
    size_t len; /* 0 at the end of the text */
} word;

typedef struct parser {
    const char *text, *at;
    fed_arch *arch;
    fed_error *err;
} parser;

/* The next word: "|", or whatever stands up to a blank, a '|' or the end. */
static word peek_word(parser *p) {
    p->at += strspn(p->at, " ");
    size_t len = p->at[0] == '|' ? 1 : strcspn(p->at, " |");
    return (word){p->at, len};
}

static word next_word(parser *p) {
    word w = peek_word(p);
    p->at += w.len;
    return w;
}

static bool word_is(word w, const char *text) {
    return w.len == strlen(text) && memcmp(w.at, text, w.len) == 0;
}

/* Refuse a word: where it is, the word, and what would be right. */
static fed_status fail_word(const parser *p, word w, const char *wanted) {
    enum { SHOWN = 32 };
    size_t column = (size_t)(w.at - p->text) + 1;
    if (w.len == 0) {
        return fed_fail(p->err, FED_EFORMAT, "model: the text ends at column %zu: expected %s",
                        column, wanted);
    }
    return fed_fail(p->err, FED_EFORMAT, "model: column %zu, \"%.*s\": expected %s", column,
                    (int)(w.len < SHOWN ? w.len : SHOWN), w.at, wanted);
}

/* A decimal from 1 to 2^32 - 1 at *at, which moves past its digits. */
static bool take_number(const char **at, const char *end, uint32_t *number) {
    uint64_t value = 0;
    const char *digit = *at;
    for (; digit < end && *digit >= '0' && *digit <= '9' && value <= UINT32_MAX; digit++) {
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    *at = digit;
    *number = (uint32_t)value;
    return value > 0 && value <= UINT32_MAX;
}

/* Numbers with an 'x' between them, as in 1x28x28: how many, at most max; 0 if w is not that. */
static size_t word_numbers(word w, uint32_t *numbers, size_t max) {
    const char *at = w.at, *end = w.at + w.len;
    for (size_t count = 0; count < max; at++) {
        if (!take_number(&at, end, &numbers[count++])) {
            return 0;
        }
        if (at == end) {
            return count;
        }
        if (*at != 'x') {
            return 0;
        }
    }
    return 0;
}

/* ---- Layers ---- */

static uint64_t shape_size(fed_shape s) {
    /* Saturates: c * h is under 2^64, and times w it may not be. */
    uint64_t plane = (uint64_t)s.c * s.h;
    return plane > SHAPE_SIZE_MAX ? plane : plane * s.w;
}

/* Add "<kind><k>.weight" of these dims, the outputs first, and "<kind><k>.bias". */
static fed_status add_tensors(parser *p, word at, const char *kind, fed_layer *layer, uint32_t rank,
                              const uint32_t *dims) {
    uint64_t fan_in = 1; /* at most as large as the shape that comes in */
    for (uint32_t i = 1; i < rank; i++) {
        fan_in *= dims[i];
    }
    if ((fan_in + 1) * dims[0] > PARAMETERS_MAX - p->arch->layout.size) {
        return fail_word(p, at, "a smaller layer: a model has at most 2^31 parameters");
    }
    unsigned k = 1;
    for (size_t i = 0; i < p->arch->layer_count; i++) {
        k += p->arch->layers[i].kind == layer->kind;
    }
    layer->weight = p->arch->layout.count;
    layer->bias = layer->weight + 1;
    layer->has_bias = true;
    char name[FED_TENSOR_NAME];
    snprintf(name, sizeof name, "%s%u.weight", kind, k);
    fed_status status = fed_layout_add(&p->arch->layout, name, rank, dims);
    if (status == FED_OK) {
        snprintf(name, sizeof name, "%s%u.bias", kind, k);
        status = fed_layout_add(&p->arch->layout, name, 1, dims);
    }
    if (status != FED_OK) {
        return fed_fail(p->err, status, "model: tensor %s: %s", name, fed_status_text(status));
    }
    return FED_OK;
}

static fed_status parse_dense(parser *p, word kind, fed_layer *layer) {
    word out = next_word(p);
    if (word_numbers(out, &layer->out.c, 1) != 1) {
        return fail_word(p, out, "the number of outputs of dense, as in \"dense 500\"");
    }
    layer->out.h = layer->out.w = 1;
    uint32_t dims[] = {layer->out.c, (uint32_t)shape_size(layer->in)};
    return add_tensors(p, kind, "dense", layer, 2, dims);
}

static fed_status parse_conv(parser *p, word kind, fed_layer *layer) {
    word out = next_word(p);
    if (word_numbers(out, &layer->out.c, 1) != 1) {
        return fail_word(p, out, "the number of outputs of conv, as in \"conv 20 5x5\"");
    }
    word kernel = next_word(p);
    uint32_t size[2];
    if (word_numbers(kernel, size, 2) != 2) {
        return fail_word(p, kernel, "the kernel of conv, as in \"conv 20 5x5\"");
    }
    if (size[0] > layer->in.h || size[1] > layer->in.w) {
        return fail_word(p, kernel, "a kernel no larger than the image that comes in");
    }
    layer->kh = size[0];
    layer->kw = size[1];
    layer->stride = layer->groups = 1;
    layer->out.h = layer->in.h - layer->kh + 1;
    layer->out.w = layer->in.w - layer->kw + 1;
    uint32_t dims[] = {layer->out.c, layer->in.c, layer->kh, layer->kw};
    return add_tensors(p, kind, "conv", layer, 4, dims);
}

static fed_status parse_maxpool(parser *p, word kind, fed_layer *layer) {
    (void)kind;
    word window = next_word(p);
    uint32_t k;
    if (word_numbers(window, &k, 1) != 1) {
        return fail_word(p, window, "the window of maxpool, as in \"maxpool 2\"");
    }
    if (k > layer->in.h || k > layer->in.w) {
        return fail_word(p, window, "a window no larger than the image that comes in");
    }
    layer->kh = layer->kw = layer->stride = k;
    layer->out = (fed_shape){layer->in.c, layer->in.h / k, layer->in.w / k};
    return FED_OK;
}

static fed_status parse_relu(parser *p, word kind, fed_layer *layer) {
    (void)p;
    (void)kind;
    layer->out = layer->in;
    return FED_OK;
}

static const struct {
    const char *word;
    fed_layer_kind kind;
    fed_status (*parse)(parser *p, word kind, fed_layer *layer);
} kinds[] = {
    {"dense", FED_LAYER_DENSE, parse_dense},
    {"conv", FED_LAYER_CONV, parse_conv},
    {"maxpool", FED_LAYER_MAXPOOL, parse_maxpool},
    {"relu", FED_LAYER_RELU, parse_relu},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static fed_shape last_shape(const fed_arch *arch) {
    return arch->layer_count == 0 ? arch->input : arch->layers[arch->layer_count - 1].out;
}

static fed_status parse_layer(parser *p) {
    word w = next_word(p);
    if (p->arch->layer_count == FED_ARCH_LAYERS) {
        return fail_word(p, w, "the end: a model has at most 1,024 layers");
    }
    fed_layer layer = {.inputs = 1, .in = last_shape(p->arch)};
    layer.input[0] = (uint32_t)p->arch->layer_count;
    size_t k = 0;
    while (k < KIND_COUNT && !word_is(w, kinds[k].word)) {
        k++;
    }
    if (k == KIND_COUNT) {
        return fail_word(p, w, "a layer: conv, maxpool, relu or dense");
    }
    layer.kind = kinds[k].kind;
    FED_TRY(kinds[k].parse(p, w, &layer));
    if (shape_size(layer.out) > SHAPE_SIZE_MAX) {
        return fail_word(p, w, "a smaller layer: its output has more than 2^28 values a sample");
    }
    p->arch->layers[p->arch->layer_count++] = layer;
    return FED_OK;
}

static fed_status parse_input(parser *p) {
    word input = next_word(p);
    if (!word_is(input, "input")) {
        return fail_word(p, input, "\"input\" and the shape of a sample, as in \"input 1x28x28\"");
    }
    word shape = next_word(p);
    uint32_t dims[3] = {1, 1, 1};
    size_t count = word_numbers(shape, dims, 3);
    if (count != 1 && count != 3) {
        return fail_word(p, shape, "the shape of a sample, as in \"1x28x28\" or \"784\"");
    }
    p->arch->input =
        count == 3 ? (fed_shape){dims[0], dims[1], dims[2]} : (fed_shape){dims[0], 1, 1};
    if (shape_size(p->arch->input) > SHAPE_SIZE_MAX) {
        return fail_word(p, shape, "a shape of at most 2^28 values");
    }
    return FED_OK;
}

/* ---- The whole ---- */

static void write_layer(fed_writer *w, const fed_layer *layer) {
    switch (layer->kind) {
    case FED_LAYER_DENSE:
        fed_write_printf(w, " | dense %u", layer->out.c);
        break;
    case FED_LAYER_CONV:
        fed_write_printf(w, " | conv %u %ux%u", layer->out.c, layer->kh, layer->kw);
        break;
    case FED_LAYER_MAXPOOL:
        fed_write_printf(w, " | maxpool %u", layer->kh);
        break;
    case FED_LAYER_RELU:
        fed_write_printf(w, " | relu");
        break;
    default:
        break;
    }
}

static fed_status write_text(fed_arch *arch, fed_error *err) {
    fed_writer w;
    fed_writer_fixed(&w, arch->text, FED_ARCH_TEXT);
    fed_shape in = arch->input;
    if (in.h == 1 && in.w == 1) {
        fed_write_printf(&w, "input %u", in.c);
    } else {
        fed_write_printf(&w, "input %ux%ux%u", in.c, in.h, in.w);
    }
    for (size_t i = 0; i < arch->layer_count; i++) {
        write_layer(&w, &arch->layers[i]);
    }
    if (w.status != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "model: the description is longer than %d characters",
                        FED_ARCH_TEXT - 1);
    }
    return FED_OK;
}

static fed_status parse_text(parser *p) {
    FED_TRY(parse_input(p));
    word end = peek_word(p);
    while (end.len > 0) {
        if (!word_is(end, "|")) {
            return fail_word(p, end, "\"|\" between layers");
        }
        next_word(p);
        FED_TRY(parse_layer(p));
        end = peek_word(p);
    }
    fed_arch *arch = p->arch;
    if (arch->layer_count == 0 || arch->layers[arch->layer_count - 1].kind != FED_LAYER_DENSE) {
        return fail_word(p, end, "a dense layer as the last one: its outputs are the classes");
    }
    arch->classes = last_shape(arch).c;
    arch->positions = 1;
    arch->trained = arch->layout.size;
    return write_text(arch, p->err);
}

/* Only what can be shown on a terminal gets as far as an error message. */
static fed_status check_characters(const char *text, fed_error *err) {
    size_t good = 0;
    while (text[good] >= ' ' && text[good] <= '~') {
        good++;
    }
    if (text[good] == '\0') {
        return FED_OK;
    }
    return fed_fail(err, FED_EFORMAT,
                    "model: column %zu: only printable ASCII characters are allowed", good + 1);
}

static fed_status fail_name(const char *name, fed_error *err) {
    char list[160];
    fed_writer w;
    fed_writer_fixed(&w, list, sizeof list);
    for (size_t k = 0; k < MODEL_COUNT; k++) {
        fed_write_printf(&w, "%s%s", k > 0 ? ", " : "", models[k].name);
    }
    return fed_fail(
        err, FED_EFORMAT,
        "no model is called \"%.64s\"; there are: %s; or describe one, as in \"input 784 "
        "| dense 10\"",
        name, list);
}

/* The text of a name; or what was given, which then must be a text. */
static const char *look_up(const char *name_or_text) {
    for (size_t k = 0; k < MODEL_COUNT; k++) {
        if (strcmp(name_or_text, models[k].name) == 0) {
            return models[k].text;
        }
    }
    return name_or_text;
}

fed_status fed_arch_parse(const char *name_or_text, fed_arch *arch, fed_error *err) {
    FED_TRY(check_characters(name_or_text, err));
    const char *text = look_up(name_or_text);
    if (strchr(text, '|') == NULL && strstr(text, "input") == NULL) {
        return fail_name(text, err);
    }
    fed_arch parsed = {.text = calloc(1, FED_ARCH_TEXT),
                       .layers = calloc(FED_ARCH_LAYERS, sizeof *parsed.layers)};
    if (parsed.text == NULL || parsed.layers == NULL) {
        fed_arch_free(&parsed);
        return fed_fail(err, FED_ENOMEM, "no memory for a model's description");
    }
    parser p = {.text = text, .at = text, .arch = &parsed, .err = err};
    fed_status status = parse_text(&p);
    if (status != FED_OK) {
        fed_arch_free(&parsed);
        return status;
    }
    *arch = parsed;
    return FED_OK;
}

void fed_arch_free(fed_arch *arch) {
    fed_layout_free(&arch->layout);
    free(arch->layers);
    free(arch->text);
    *arch = (fed_arch){0};
}

/* Only operations that IEEE 754 rounds the same way everywhere: a division, a square root, a
 * multiplication, and 2u - 1, which is exact. */
static void draw_weights(const fed_tensor *tensor, uint64_t seed, uint32_t index, float *values) {
    size_t fan_in = tensor->size / tensor->dims[0];
    float scale = (float)sqrt(3.0 / (double)fan_in);
    fed_rng rng;
    fed_rng_init(&rng, seed, index, STREAM_INITIAL_WEIGHTS);
    for (size_t i = 0; i < tensor->size; i++) {
        values[i] = (2.0f * fed_rng_float(&rng) - 1.0f) * scale;
    }
}

void fed_arch_init_values(const fed_arch *arch, uint64_t seed, float *values) {
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *tensor = &arch->layout.tensors[i];
        if (tensor->rank > 1) {
            draw_weights(tensor, seed, (uint32_t)i, values + tensor->offset);
        } else {
            memset(values + tensor->offset, 0, tensor->size * sizeof *values);
        }
    }
}

const char *fed_layer_word(fed_layer_kind kind) {
    for (size_t k = 0; k < KIND_COUNT; k++) {
        if (kinds[k].kind == kind) {
            return kinds[k].word;
        }
    }
    return "";
}

void fed_arch_layer_name(const fed_arch *arch, size_t layer, char *name, size_t cap) {
    snprintf(name, cap, "%s, layer %zu", fed_layer_word(arch->layers[layer].kind), layer + 1);
}
