/* Name a model's text that is too long for a task, and check that bytes are what a name names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/layout_reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT_NAME = 63, /* the longest name of a tensor that devices of release 0.2.0 know */
    REFERENCE = 160  /* bytes of the longest reference, with its NUL */
};

static const char WORD[] = "layout ";

bool fed_layout_is_reference(const char *model) {
    return strncmp(model, WORD, sizeof WORD - 1) == 0;
}

static void write_reference(const fed_layout_reference *reference, char model[REFERENCE]) {
    char hex[FED_SHA256_HEX];
    fed_hex(reference->sha256, sizeof reference->sha256, hex);
    snprintf(model, REFERENCE, "%s%" PRIu32 " tensors %" PRIu64 " values sha256 %s", WORD,
             reference->tensors, reference->values, hex);
}

static uint64_t read_number(const char **at) {
    char *end;
    const uint64_t number = strtoull(*at, &end, 10);
    *at = end;
    return number;
}

/* Move *at past `word`. False: the text goes on with something else. */
static bool pass(const char **at, const char *word) {
    const size_t len = strlen(word);
    const bool is_it = strncmp(*at, word, len) == 0;
    *at += is_it ? len : 0;
    return is_it;
}

/* The numbers are read as they come. Writing the reference again tells whether they were written in
 * the one way that is allowed. */
fed_status fed_layout_reference_read(const char *model, fed_layout_reference *reference,
                                     fed_error *err) {
    char again[REFERENCE];
    fed_layout_reference r = {0};
    const char *at = model;
    bool right = pass(&at, WORD);
    const uint64_t tensors = right ? read_number(&at) : 0;
    right = right && pass(&at, " tensors ");
    r.values = right ? read_number(&at) : 0;
    right = right && pass(&at, " values sha256 ") &&
            fed_unhex(at, r.sha256, sizeof r.sha256) == FED_OK && tensors >= 1 &&
            tensors <= FED_ARCH_TENSORS && r.values >= 1 && r.values <= UINT64_C(1) << 31;
    if (right) {
        r.tensors = (uint32_t)tensors;
        write_reference(&r, again);
        right = strcmp(again, model) == 0;
    }
    if (!right) {
        return fed_fail(err, FED_EFORMAT,
                        "model: \"%.40s...\" names no layout; that is \"layout T tensors V values "
                        "sha256 D\", with at most 65,536 tensors, 2^31 values and a digest of 64 "
                        "hex digits",
                        model);
    }
    *reference = r;
    return FED_OK;
}

static bool has_long_name(const fed_layout *layout) {
    for (size_t i = 0; i < layout->count; i++) {
        if (strlen(layout->tensors[i].name) > SHORT_NAME) {
            return true;
        }
    }
    return false;
}

void fed_layout_name(const fed_arch *arch, char model[FED_ARCH_TEXT]) {
    const size_t len = strlen(arch->text);
    if (len < FED_ARCH_TEXT && !has_long_name(&arch->layout)) {
        memcpy(model, arch->text, len + 1);
        return;
    }
    fed_layout_reference reference = {.tensors = (uint32_t)arch->layout.count,
                                      .values = arch->layout.size};
    fed_sha256(arch->text, len, reference.sha256);
    write_reference(&reference, model);
}

/* Parse a layout's bytes, which have the right digest, into *arch. */
static fed_status parse_layout(const fed_layout_reference *reference, const void *layout,
                               size_t len, fed_arch *arch, fed_error *err) {
    char *text = malloc(len + 1);
    if (text == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a model's layout");
    }
    memcpy(text, layout, len);
    text[len] = '\0';
    fed_status status = fed_arch_parse(text, arch, err);
    if (status == FED_OK &&
        (arch->layout.count != reference->tensors || arch->layout.size != reference->values ||
         strlen(arch->text) != len || memcmp(arch->text, text, len) != 0)) {
        status =
            fed_fail(err, FED_EFORMAT,
                     "model: the layout has %zu tensors of %zu values, and the task says "
                     "%" PRIu32 " of %" PRIu64 ", or its text is not written as it should be",
                     arch->layout.count, arch->layout.size, reference->tensors, reference->values);
        fed_arch_free(arch);
    }
    free(text);
    return status;
}

fed_status fed_layout_resolve(const char *model, const void *layout, size_t len, fed_arch *arch,
                              fed_error *err) {
    fed_layout_reference reference;
    uint8_t digest[FED_SHA256_SIZE];
    if (!fed_layout_is_reference(model)) {
        return fed_arch_parse(model, arch, err);
    }
    FED_TRY(fed_layout_reference_read(model, &reference, err));
    if (layout == NULL || len >= FED_ARCH_LONG) {
        return fed_fail(err, FED_EFORMAT,
                        "model: its layout is missing, or longer than a layout can be");
    }
    fed_sha256(layout, len, digest);
    if (memcmp(digest, reference.sha256, sizeof digest) != 0) {
        return fed_fail(err, FED_EFORMAT,
                        "model: the %zu bytes of its layout do not have the digest that the task "
                        "names",
                        len);
    }
    return parse_layout(&reference, layout, len, arch, err);
}
