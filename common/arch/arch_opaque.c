/* Parse a model without layers: a text that only names tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/arch/arch_names.h"
#include "common/arch/arch_parser.h"
#include "fed/small.h"

/* Is the word a tensor's name? PyTorch's names look like "layer1.0.conv1.weight"; other programs
 * also use '-'. */
static bool is_name(fed_word w) {
    static const char OTHERS[] = "_.-";
    for (size_t i = 0; i < w.len; i++) {
        char c = w.text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && strchr(OTHERS, c) == NULL) {
            return false;
        }
    }
    return w.len > 0;
}

static fed_status add_shaped(arch_parser *p, arch_names *names, fed_word name, fed_word shape) {
    char text[FED_TENSOR_NAME];
    uint32_t dims[FED_TENSOR_RANK];
    size_t rank = arch_numbers(shape, "x", dims, FED_TENSOR_RANK);
    uint64_t size = rank > 0, room = ARCH_PARAMETERS_MAX - p->arch->layout.size;
    for (size_t i = 0; i < rank && size > 0 && size <= room; i++) {
        size *= dims[i];
    }
    if (size == 0) {
        return arch_fail(p, shape, "a tensor's shape, 1 to 8 numbers above 0, as in 20x1x5x5");
    }
    if (size > room) {
        return arch_fail(p, shape, "a smaller tensor: a model has at most 2^31 values");
    }
    memcpy(text, name.text, name.len);
    text[name.len] = '\0';
    fed_status status = arch_names_add(names, &p->arch->layout, text, (uint32_t)rank, dims);
    return status == FED_EINVAL ? arch_fail(p, name, "another name: two tensors have this one")
           : status == FED_OK
               ? FED_OK
               : fed_fail(p->err, status, "model: tensor %s: %s", text, fed_status_text(status));
}

static fed_status parse_tensor(arch_parser *p, arch_names *names) {
    bool statistic = arch_word_skip(p, "statistics");
    fed_word name = arch_word_next(p);
    if (!is_name(name)) {
        return arch_fail(p, name,
                         "a tensor's name of letters, digits, '_', '-' and '.', then its shape, as "
                         "in \"conv1.weight 20x1x5x5\"");
    }
    if (name.len >= FED_TENSOR_NAME) {
        return arch_fail(p, name, "a name of at most 127 characters");
    }
    if (!statistic && p->arch->layout.statistics > 0) {
        return arch_fail(p, name, "\"statistics\": running statistics come after all parameters");
    }
    if (p->arch->layout.count == FED_ARCH_TENSORS) {
        return arch_fail(p, name, "the end: a model has at most 65,536 tensors");
    }
    FED_TRY(add_shaped(p, names, name, arch_word_next(p)));
    p->arch->layout.statistics += statistic;
    p->arch->trained = statistic ? p->arch->trained : p->arch->layout.size;
    return FED_OK;
}

static fed_status parse_list(arch_parser *p) {
    arch_names names;
    /* a name and a shape are two words */
    if (arch_names_open(&names, p->word_count / 2 + 1) != FED_OK) {
        return fed_fail(p->err, FED_ENOMEM, "out of memory for a model's names");
    }
    fed_status status = FED_OK;
    do {
        status = parse_tensor(p, &names);
    } while (status == FED_OK && arch_word_skip(p, "|"));
    arch_names_free(&names);
    return status;
}

static fed_status parse_tensors(arch_parser *p) {
    FED_TRY(parse_list(p));
    fed_word end = arch_word_peek(p);
    if (end.len > 0) {
        return arch_fail(p, end, "\"|\" and another tensor, or the end");
    }
    return p->arch->trained > 0 ? FED_OK
                                : arch_fail(p, end, "a tensor that is no running statistic");
}

static fed_status parse_vector(arch_parser *p) {
    static const char NAME[] = "values";
    arch_names names;
    if (arch_names_open(&names, 1) != FED_OK) {
        return fed_fail(p->err, FED_ENOMEM, "out of memory for a model's names");
    }
    const fed_status status =
        add_shaped(p, &names, (fed_word){NAME, sizeof NAME - 1}, arch_word_next(p));
    arch_names_free(&names);
    FED_TRY(status);
    fed_word end = arch_word_peek(p);
    if (p->arch->layout.tensors[0].rank > 1 || end.len > 0) {
        return arch_fail(p, end, "one number, as in \"vector 61706\"; \"tensors\" has shapes");
    }
    p->arch->trained = p->arch->layout.size;
    return FED_OK;
}

fed_status arch_opaque_parse(arch_parser *p, bool *is_it) {
    *is_it = true;
    if (!FED_SMALL && arch_word_skip(p, "vector")) {
        return parse_vector(p);
    }
    if (!FED_SMALL && arch_word_skip(p, "tensors")) {
        return parse_tensors(p);
    }
    *is_it = false;
    return FED_OK;
}

fed_status fed_arch_require_layers(const fed_arch *arch, fed_error *err) {
    return !fed_arch_is_opaque(arch)
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "the model is a list of tensors without layers (%.24s...): only a "
                          "program that knows its layers can train or run it",
                          arch->text);
}
