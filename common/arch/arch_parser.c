/* Parse a model's description: from a name or a text to layers and tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/arch/arch_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed/file.h"

static const struct {
    const char *name, *text;
} models[] = {
#define FED_MODEL(name, text) {name, text},
#include "common/arch/models.def"
#undef FED_MODEL
};

enum { MODEL_COUNT = sizeof models / sizeof models[0] };

const char *fed_arch_name(size_t k) {
    return k < MODEL_COUNT ? models[k].name : NULL;
}

const char *fed_arch_text(size_t k) {
    return k < MODEL_COUNT ? models[k].text : NULL;
}

/* The most words of a vocabulary. A net gets a word's number as a float, which is exact up to this
 * limit. */
static const uint32_t WORDS_MAX = UINT32_C(1) << 24;

static fed_status parse_tokens(arch_parser *p) {
    fed_arch *arch = p->arch;
    arch->input = (fed_shape){1, 1, 1};
    FED_TRY(
        arch_number(p, 1, "how many tokens, as in \"input tokens 35 of 10000\"", &arch->input.h));
    fed_word of = arch_word_next(p);
    if (!fed_word_is(of, "of")) {
        return arch_fail(p, of, "\"of\" and how many words there are");
    }
    fed_word words = arch_word_peek(p);
    FED_TRY(arch_number(p, 1, "how many words there are, as in \"input tokens 35 of 10000\"",
                        &arch->words));
    return p->arch->words <= WORDS_MAX ? FED_OK : arch_fail(p, words, "at most 2^24 words");
}

static fed_status parse_shape(arch_parser *p) {
    fed_word w = arch_word_next(p);
    uint32_t dims[3];
    size_t count = arch_numbers(w, "x", dims, 3);
    bool zero = false;
    for (size_t i = 0; i < count; i++) {
        zero = zero || dims[i] == 0;
    }
    if (zero || (count != 1 && count != 3)) {
        return arch_fail(p, w, "the shape of a sample, as in \"1x28x28\" or \"784\"");
    }
    p->arch->input =
        count == 3 ? (fed_shape){dims[0], dims[1], dims[2]} : (fed_shape){dims[0], 1, 1};
    return FED_OK;
}

static fed_status parse_input(arch_parser *p) {
    fed_word input = arch_word_next(p);
    if (!fed_word_is(input, "input")) {
        return arch_fail(p, input, "\"input\" and the shape of a sample, as in \"input 1x28x28\"");
    }
    fed_word shape = arch_word_peek(p);
    FED_TRY(arch_word_skip(p, "tokens") ? parse_tokens(p) : parse_shape(p));
    if (!arch_shape_fits(p->arch->input)) {
        return arch_fail(p, shape, "a shape of at most 2^28 values");
    }
    if (arch_word_skip(p, "init")) {
        fed_word init = arch_word_next(p);
        if (!fed_word_is(init, "he")) {
            return arch_fail(p, init, "\"he\" after init");
        }
        p->arch->init = FED_INIT_HE;
    }
    fed_word bar = arch_word_next(p);
    return fed_word_is(bar, "|") ? FED_OK : arch_fail(p, bar, "\"|\" and the first layer");
}

static fed_status check_all_is_used(const arch_parser *p) {
    for (size_t i = 0; i < p->arch->layer_count; i++) {
        if (!p->origins[i].used && i + 1 != p->value) {
            return arch_fail(p, p->origins[i].at, "a later layer that reads this layer's output");
        }
    }
    for (size_t i = 0; i < p->block_count; i++) {
        if (!p->blocks[i].used) {
            return arch_fail(p, p->blocks[i].name, "a use of this block after its definition");
        }
    }
    return FED_OK;
}

static fed_status take_output(arch_parser *p) {
    fed_arch *arch = p->arch;
    fed_word end = arch_word_peek(p);
    if (p->value == 0 || arch->layout.size == 0) {
        return arch_fail(p, end, "a layer with weights");
    }
    fed_shape out = arch_value_shape(arch, p->value);
    if (out.w != 1) {
        char wanted[120];
        snprintf(wanted, sizeof wanted,
                 "a last layer that gives scores, as in \"dense 10\", not %ux%ux%u values", out.c,
                 out.h, out.w);
        return arch_fail(p, end, wanted);
    }
    arch->classes = out.c;
    arch->positions = out.h;
    return FED_OK;
}

static fed_status parse_words(arch_parser *p) {
    bool opaque;
    FED_TRY(arch_opaque_parse(p, &opaque));
    if (opaque) {
        return FED_OK;
    }
    if (fed_word_is(arch_word_peek(p), "layout")) {
        return arch_fail(p, arch_word_peek(p), "a model's text: this only names one, for a task");
    }
    FED_TRY(arch_lets_parse(p));
    FED_TRY(parse_input(p));
    FED_TRY(arch_layers_walk(p, p->scope));
    FED_TRY(take_output(p));
    FED_TRY(check_all_is_used(p));
    size_t trained = p->arch->layout.count;
    p->arch->trained = p->arch->layout.size;
    FED_TRY(arch_statistics_add(p));
    p->arch->layout.statistics = p->arch->layout.count - trained;
    return FED_OK;
}

/* The parser's state is on the heap: it is too large for a small device's stack. */
typedef struct parsing {
    arch_parser parser;
    arch_scope whole;
} parsing;

static fed_status parse_text(const char *text, fed_arch *arch, fed_error *err) {
    parsing *now = calloc(1, sizeof *now);
    if (now == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a model's description");
    }
    arch_parser *p = &now->parser;
    p->text = text;
    p->arch = arch;
    p->err = err;
    p->scope = &now->whole;
    p->scope->block = ARCH_BLOCKS;
    fed_status status = arch_words_split(p);
    if (status == FED_OK) {
        status = parse_words(p);
    }
    free(p->words);
    free(p->names);
    free(p->origins);
    free(now);
    return status;
}

static fed_status fail_name(const char *name, fed_error *err) {
    char list[240];
    fed_writer w;
    fed_writer_fixed(&w, list, sizeof list);
    for (size_t k = 0; k < MODEL_COUNT; k++) {
        fed_write_printf(&w, "%s%s", k > 0 ? ", " : "", models[k].name);
    }
    return fed_fail(err, FED_EFORMAT,
                    "no model is called \"%.64s\"; there are: %s; or describe one, as in "
                    "\"input 784 | dense 10\" or \"vector 61706\"",
                    name, list);
}

/* Return the text of a model of models.def by its name. Return any other input unchanged. */
static const char *look_up(const char *name_or_text) {
    for (size_t k = 0; k < MODEL_COUNT; k++) {
        if (strcmp(name_or_text, models[k].name) == 0) {
            return models[k].text;
        }
    }
    return name_or_text;
}

/* Is `text` a single word with which no model's text begins? An error then quotes it as an unknown
 * name of a model. */
static bool is_one_word(const char *text) {
    static const char *const first[] = {"input", "vector", "tensors"};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        if (strcmp(text, first[i]) == 0) {
            return false;
        }
    }
    size_t len = 0;
    while (text[len] > ' ' && text[len] <= '~' && text[len] != '|') {
        len++;
    }
    return text[len] == '\0';
}

fed_status fed_arch_parse(const char *name_or_text, fed_arch *arch, fed_error *err) {
    const char *text = look_up(name_or_text);
    if (is_one_word(text)) {
        return fail_name(text, err);
    }
    fed_arch parsed = {.text = NULL};
    fed_status status = parse_text(text, &parsed, err);
    if (status != FED_OK) {
        fed_arch_free(&parsed);
        return status;
    }
    *arch = parsed;
    return FED_OK;
}

fed_status fed_arch_load(const char *model, fed_arch *arch, fed_error *err) {
    if (model[0] != '@') {
        return fed_arch_parse(model, arch, err);
    }
    enum { FILE_LIMIT = 2 * FED_ARCH_LONG }; /* with comments */
    char *text;
    size_t len;
    FED_TRY(fed_file_read_text(model + 1, FILE_LIMIT, &text, &len, err));
    fed_error why = {0};
    fed_status status = fed_arch_parse(text, arch, &why);
    if (status != FED_OK) {
        status = fed_fail(err, status, "%s: %s", model + 1, why.text);
    }
    free(text);
    return status;
}

void fed_arch_free(fed_arch *arch) {
    fed_layout_free(&arch->layout);
    free(arch->layers);
    free(arch->text);
    *arch = (fed_arch){0};
}

/* Return a tensor whose name, up to the last '.', is the layer's name. Returns NULL for a layer
 * without tensors. */
static const fed_tensor *own_tensor(const fed_arch *arch, const fed_layer *layer) {
    switch (layer->kind) {
    case FED_LAYER_DENSE:
        if (layer->tied && !layer->has_bias) {
            return NULL;
        }
        return &arch->layout.tensors[layer->tied ? layer->bias : layer->weight];
    case FED_LAYER_CONV:
    case FED_LAYER_BATCHNORM:
    case FED_LAYER_EMBEDDING:
    case FED_LAYER_LSTM:
        return &arch->layout.tensors[layer->weight];
    default:
        return NULL;
    }
}

void fed_arch_layer_name(const fed_arch *arch, size_t layer, char *name, size_t cap) {
    const fed_tensor *tensor = own_tensor(arch, &arch->layers[layer]);
    if (tensor == NULL) {
        snprintf(name, cap, "%s, layer %zu", fed_layer_word(arch->layers[layer].kind), layer + 1);
        return;
    }
    int len = (int)(strrchr(tensor->name, '.') - tensor->name);
    snprintf(name, cap, "%.*s", len, tensor->name);
}
