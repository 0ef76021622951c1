/* Parse the blocks of a model's text, their repetition, branches, and the names of layers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/arch_parser.h"
#include "fed/hash.h"
#include "fed/small.h"

static bool is_name(fed_word w) {
    static const char SIGNS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    for (size_t i = 0; i < w.len; i++) {
        bool between = i > 0 && i + 1 < w.len && w.text[i - 1] != '.';
        if (strchr(SIGNS, w.text[i]) == NULL || (w.text[i] == '.' && !between)) {
            return false;
        }
    }
    return w.len > 0;
}

/* A name's digest speeds up look-ups. A small build does without it: its nets have few names. */
static uint64_t digest_of(const char *name) {
    return FED_SMALL ? 0 : fed_digest_bytes(name, strlen(name));
}

static const arch_name *find_name(const arch_parser *p, const char *name) {
    uint64_t digest = digest_of(name);
    for (size_t i = 0; i < p->name_count; i++) {
        if (p->names[i].digest == digest && strcmp(p->names[i].text, name) == 0) {
            return &p->names[i];
        }
    }
    return NULL;
}

static fed_status add_name(arch_parser *p, fed_word at, const char *name) {
    if (find_name(p, name) != NULL) {
        return arch_fail(p, at, "another name: an earlier layer has this name");
    }
    if (p->name_count == p->name_cap) {
        size_t cap = p->name_cap > 0 ? 2 * p->name_cap : 32;
        arch_name *names = realloc(p->names, cap * sizeof *names);
        if (names == NULL) {
            return fed_fail(p->err, FED_ENOMEM, "out of memory for a model's names");
        }
        p->names = names;
        p->name_cap = cap;
    }
    arch_name *added = &p->names[p->name_count++];
    *added = (arch_name){.digest = digest_of(name), .value = p->value};
    memcpy(added->text, name, strlen(name));
    return FED_OK;
}

static fed_status join_name(const arch_parser *p, fed_word at, const char *prefix, fed_word w,
                            const char *suffix, char name[ARCH_NAME]) {
    int len = snprintf(name, ARCH_NAME, "%s%.*s%s", prefix, (int)w.len, w.text, suffix);
    if (len < 0 || len >= ARCH_NAME) {
        return arch_fail(p, at, "a shorter name: with its block's prefix at most 63 characters");
    }
    return FED_OK;
}

fed_status arch_value_parse(arch_parser *p, uint32_t *value) {
    fed_word w = arch_word_next(p);
    if (fed_word_is(w, "in")) {
        *value = p->scope->in;
        return FED_OK;
    }
    const arch_name *found = NULL;
    if (is_name(w)) {
        char name[ARCH_NAME];
        FED_TRY(join_name(p, w, p->scope->prefix, w, "", name));
        found = find_name(p, name);
    }
    if (found == NULL) {
        return arch_fail(p, w, "the name of a layer before this one, or \"in\"");
    }
    *value = found->value;
    return FED_OK;
}

/* Set p->name to the label of a layer or block. If label is empty, use the kind and its number in
 * this scope. */
static fed_status name_it(arch_parser *p, fed_word label, fed_word kind, size_t counter) {
    uint32_t count = ++p->scope->counts[counter];
    if (label.len > 0) {
        return join_name(p, label, p->scope->prefix, label, "", p->name);
    }
    char number[12];
    snprintf(number, sizeof number, "%u", count);
    return join_name(p, kind, p->scope->prefix, kind, number, p->name);
}

static bool same_word(fed_word a, fed_word b) {
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

static size_t find_block(const arch_parser *p, fed_word w) {
    size_t end = p->scope->block < p->block_count ? p->scope->block : p->block_count;
    for (size_t i = 0; i < end; i++) {
        if (same_word(p->blocks[i].name, w)) {
            return i;
        }
    }
    return ARCH_BLOCKS;
}

/* Read a name that "let" may define: no keyword, no kind of layer and no earlier block. */
static fed_status new_word(arch_parser *p, const char *wanted, fed_word *w) {
    static const char *const taken[] = {"input", "let", "in", "from", "mse", "scaffold"};
    *w = arch_word_next(p);
    bool good = is_name(*w) && !arch_word_is_number(*w) && arch_kind_find(*w) == 0 &&
                find_block(p, *w) == ARCH_BLOCKS;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        good = good && !fed_word_is(*w, taken[i]);
    }
    return good ? FED_OK : arch_fail(p, *w, wanted);
}

static fed_status parse_params(arch_parser *p, arch_block *block) {
    if (!arch_word_skip(p, "(")) {
        return FED_OK;
    }
    do {
        if (block->param_count == ARCH_PARAMS) {
            return arch_fail(p, arch_word_peek(p), "\")\": a block has at most 8 parameters");
        }
        fed_word *param = &block->params[block->param_count];
        FED_TRY(new_word(p, "the name of a parameter, which nothing else has", param));
        for (size_t i = 0; i < block->param_count; i++) {
            if (same_word(block->params[i], *param)) {
                return arch_fail(p, *param, "another name: an earlier parameter has this name");
            }
        }
        block->param_count++;
    } while (arch_word_skip(p, ","));
    fed_word end = arch_word_next(p);
    return fed_word_is(end, ")") ? FED_OK : arch_fail(p, end, "\",\" or \")\"");
}

static fed_status parse_let(arch_parser *p) {
    if (p->block_count == ARCH_BLOCKS) {
        return arch_fail(p, arch_word_peek(p), "\"input\": a model has at most 32 blocks");
    }
    arch_block block = {.used = false};
    FED_TRY(new_word(p, "the name of a block, which nothing else has", &block.name));
    FED_TRY(parse_params(p, &block));
    fed_word w = arch_word_next(p);
    if (!fed_word_is(w, "=")) {
        return arch_fail(p, w, "\"=\" and layers, as in \"let pair(c) = conv c 3 | relu;\"");
    }
    block.body = p->next;
    do {
        w = arch_word_next(p);
    } while (w.len > 0 && !fed_word_is(w, ";"));
    if (w.len == 0) {
        return arch_fail(p, w, "\";\" after the block");
    }
    p->blocks[p->block_count++] = block;
    return FED_OK;
}

fed_status arch_lets_parse(arch_parser *p) {
    while (arch_word_skip(p, "let")) {
        FED_TRY(FED_SMALL ? arch_fail(p, arch_word_peek(p),
                                      "no block: this program was built small (see fed/small.h)")
                          : parse_let(p));
    }
    return FED_OK;
}

static fed_status fail_args(const arch_parser *p, const arch_block *block) {
    char wanted[96];
    int len = block->name.len < 32 ? (int)block->name.len : 32;
    snprintf(wanted, sizeof wanted, "%zu number%s in brackets for the block %.*s",
             block->param_count, block->param_count == 1 ? "" : "s", len, block->name.text);
    return arch_fail(p, arch_word_peek(p), wanted);
}

static fed_status parse_args(arch_parser *p, const arch_block *block, fed_word *args) {
    const char *sign = "(";
    for (size_t i = 0; i < block->param_count; i++, sign = ",") {
        if (!arch_word_skip(p, sign)) {
            return fail_args(p, block);
        }
        fed_word w = arch_word_next(p);
        args[i] = arch_word_meaning(p, w);
        if (!arch_word_is_number(args[i])) {
            return arch_fail(p, w, "a number");
        }
    }
    return block->param_count == 0 || arch_word_skip(p, ")") ? FED_OK : fail_args(p, block);
}

/* The numbers of a block's copies: "3" gives copies 0, 1 and 2, and "1..2" gives copies 1 and 2. */
typedef struct repetition {
    bool given;
    uint32_t first, last;
} repetition;

static fed_status parse_repetition(arch_parser *p, repetition *r) {
    fed_word w = arch_word_meaning(p, arch_word_peek(p));
    *r = (repetition){.given = arch_word_is_number(w)};
    if (!r->given) {
        return FED_OK;
    }
    uint32_t numbers[2];
    size_t count = arch_numbers(w, "..", numbers, 2);
    if (count == 0 || (count == 1 ? numbers[0] == 0 : numbers[0] > numbers[1])) {
        return arch_fail(p, w,
                         "how often a block is repeated, as in \"3 basic\" or \"1..2 basic\"");
    }
    r->first = count == 1 ? 0 : numbers[0];
    r->last = count == 1 ? numbers[0] - 1 : numbers[1];
    p->next++;
    return FED_OK;
}

static fed_status count_step(arch_parser *p, fed_word at) {
    if (p->steps++ == ARCH_STEPS) {
        return arch_fail(p, at,
                         FED_SMALL
                             ? "the end: a text has at most 4,096 layers"
                             : "the end: with all repetitions a text has at most 4,096 layers, "
                               "branches and uses of blocks");
    }
    return FED_OK;
}

/* Parse a block's layers again, for one use of the block. name: the name of this use. */
static fed_status repeat_block(arch_parser *p, const arch_scope *block, fed_word at,
                               const char *name) {
    FED_TRY(count_step(p, at));
    arch_scope inner = *block, *outer = p->scope;
    inner.in = p->value;
    FED_TRY(join_name(p, at, name, (fed_word){".", 1}, "", inner.prefix));
    size_t back = p->next;
    p->next = p->blocks[inner.block].body;
    fed_status status = arch_layers_walk(p, &inner);
    p->next = back;
    p->scope = outer;
    FED_TRY(status);
    return add_name(p, at, name);
}

static fed_status use_block(arch_parser *p, fed_word label) {
    repetition r;
    FED_TRY(parse_repetition(p, &r));
    fed_word w = arch_word_next(p), at = label.len > 0 ? label : w;
    arch_scope scope = {.block = find_block(p, w)};
    if (scope.block == ARCH_BLOCKS) {
        return arch_fail(p, w,
                         r.given ? "the name of a block that is defined before this"
                                 : "a layer (conv, dense, relu, ...) or a block's name");
    }
    p->blocks[scope.block].used = true;
    FED_TRY(parse_args(p, &p->blocks[scope.block], scope.args));
    FED_TRY(name_it(p, label, w, ARCH_KINDS + scope.block));
    char name[ARCH_NAME], copy[ARCH_NAME], number[16];
    memcpy(name, p->name, sizeof name);
    for (uint64_t i = r.first; r.given && i <= r.last; i++) {
        snprintf(number, sizeof number, ".%u", (unsigned)i);
        FED_TRY(join_name(p, at, name, (fed_word){"", 0}, number, copy));
        FED_TRY(repeat_block(p, &scope, at, copy));
    }
    return r.given ? add_name(p, at, name) : repeat_block(p, &scope, at, name);
}

static fed_status parse_label(arch_parser *p, fed_word *label) {
    *label = (fed_word){NULL, 0};
    if (arch_word_peek(p).len > 0 && fed_word_is(p->words[p->next + 1], ":")) {
        *label = arch_word_next(p);
        p->next++;
        if (!is_name(*label) || fed_word_is(*label, "in")) {
            return arch_fail(
                p, *label, "a name of letters, digits, '_' and dots between them, but not \"in\"");
        }
    }
    return FED_OK;
}

static fed_status parse_item(arch_parser *p) {
    fed_word label;
    FED_TRY(count_step(p, arch_word_peek(p)));
    FED_TRY(parse_label(p, &label));
    if (label.len == 0 && arch_word_skip(p, "from")) {
        return arch_value_parse(p, &p->value);
    }
    fed_layer_kind kind = arch_kind_find(arch_word_peek(p));
    if (kind == 0) {
        return FED_SMALL ? arch_fail(p, arch_word_peek(p), "dense, conv, maxpool or relu")
                         : use_block(p, label);
    }
    p->kind = arch_word_next(p);
    FED_TRY(name_it(p, label, p->kind, kind));
    FED_TRY(arch_layer_parse(p, kind));
    return add_name(p, label.len > 0 ? label : p->kind, p->name);
}

static bool skip_end(arch_parser *p) {
    bool whole = p->scope->block == ARCH_BLOCKS;
    bool scaffold = !FED_SMALL && whole && arch_word_skip(p, "scaffold");
    bool more = !scaffold || arch_word_skip(p, "|");
    bool mse = whole && more && arch_word_skip(p, "mse");
    p->arch->scaffold = scaffold;
    p->arch->loss = mse ? FED_LOSS_SQUARED : FED_LOSS_CROSS_ENTROPY;
    return scaffold || mse;
}

fed_status arch_layers_walk(arch_parser *p, arch_scope *scope) {
    p->scope = scope;
    do {
        FED_TRY(parse_item(p));
    } while (arch_word_skip(p, "|") && !skip_end(p));
    fed_word end = arch_word_peek(p);
    bool good = scope->block == ARCH_BLOCKS ? end.len == 0 : fed_word_is(end, ";");
    const char *wanted = p->arch->loss == FED_LOSS_SQUARED ? "the end after \"mse\""
                         : !FED_SMALL && p->arch->scaffold
                             ? "\"mse\", or the end after \"scaffold\""
                             : "\"|\" between layers";
    return good ? FED_OK : arch_fail(p, end, wanted);
}
