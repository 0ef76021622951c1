/* Split a model's text into words, describe positions in it for errors, and read numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/arch_parser.h"
#include "fed/bytes.h"

static const char BLANKS[] = " \t\r\n";
static const char SIGNS[] = "|;=:(),"; /* each of these is a word by itself */

/* Return the next word, empty at the end of the text, and move *at to its first character. */
static fed_word find_word(const char **at) {
    *at += strspn(*at, BLANKS);
    while (**at == '#') {
        *at += strcspn(*at, "\n");
        *at += strspn(*at, BLANKS);
    }
    bool sign = **at != '\0' && strchr(SIGNS, **at) != NULL;
    return (fed_word){*at, sign ? 1 : strcspn(*at, " \t\r\n#|;=:(),")};
}

/* Only characters that a terminal can show are allowed, since errors quote them. */
static fed_status check_characters(const arch_parser *p, fed_word w) {
    for (size_t i = 0; i < w.len; i++) {
        if (w.text[i] < ' ' || w.text[i] > '~') {
            return arch_fail(p, (fed_word){w.text + i, 0}, "only printable ASCII characters");
        }
    }
    return FED_OK;
}

/* Append a word to the canonical text, with a blank before it except inside "basic(16,1)" or before
 * ':' and ';'. */
static void write_word(fed_writer *text, fed_word w) {
    bool first = text->len == 0;
    char before = first ? '\0' : (char)text->data[text->len - 1];
    bool close = first || strchr("(,", before) != NULL || strchr(":;(),", w.text[0]) != NULL;
    fed_write_printf(text, "%s%.*s", close ? "" : " ", (int)w.len, w.text);
}

static fed_status no_memory(const arch_parser *p) {
    return fed_fail(p->err, FED_ENOMEM, "out of memory for a model's description");
}

/* Write the text without comments into *text, and count its words. */
static fed_status write_words(arch_parser *p, fed_writer *text) {
    const char *at = p->text;
    for (fed_word w = find_word(&at); w.len > 0; w = find_word(&at)) {
        FED_TRY(check_characters(p, w));
        write_word(text, w);
        if (text->status != FED_OK) {
            return no_memory(p);
        }
        if (text->len >= FED_ARCH_LONG) {
            return arch_fail(p, w, "the end: a model's text has at most 12,582,911 characters");
        }
        at += w.len;
        p->word_count++;
    }
    return FED_OK;
}

static fed_status keep_text(arch_parser *p, const fed_writer *text) {
    p->arch->text = malloc(text->len + 1);
    p->words = calloc(p->word_count + 1, sizeof *p->words);
    if (p->arch->text == NULL || p->words == NULL) {
        return no_memory(p);
    }
    if (text->len > 0) {
        memcpy(p->arch->text, text->data, text->len);
    }
    p->arch->text[text->len] = '\0';
    return FED_OK;
}

fed_status arch_words_split(arch_parser *p) {
    fed_writer text;
    fed_writer_growing(&text);
    fed_status status = write_words(p, &text);
    if (status == FED_OK) {
        status = keep_text(p, &text);
    }
    fed_writer_free(&text);
    FED_TRY(status);
    const char *at = p->text;
    for (size_t i = 0; i <= p->word_count; i++) {
        p->words[i] = find_word(&at);
        at += p->words[i].len;
    }
    return FED_OK;
}

fed_word arch_word_peek(const arch_parser *p) {
    return p->words[p->next];
}

fed_word arch_word_next(arch_parser *p) {
    fed_word w = p->words[p->next];
    p->next += w.len > 0;
    return w;
}

bool arch_word_skip(arch_parser *p, const char *text) {
    bool is_it = fed_word_is(p->words[p->next], text);
    p->next += is_it;
    return is_it;
}

bool arch_word_ends_layer(fed_word w) {
    return w.len == 0 || fed_word_is(w, "|") || fed_word_is(w, ";");
}

fed_word arch_word_meaning(const arch_parser *p, fed_word w) {
    if (p->scope == NULL || p->scope->block == ARCH_BLOCKS) {
        return w;
    }
    const arch_block *block = &p->blocks[p->scope->block];
    for (size_t i = 0; i < block->param_count; i++) {
        if (block->params[i].len == w.len && memcmp(block->params[i].text, w.text, w.len) == 0) {
            return p->scope->args[i];
        }
    }
    return w;
}

static void describe_place(const char *text, const char *at, char *place, size_t cap) {
    size_t line = 1;
    const char *start = text;
    for (const char *c = text; c < at; c++) {
        if (*c == '\n') {
            line++;
            start = c + 1;
        }
    }
    size_t column = (size_t)(at - start) + 1;
    if (strchr(text, '\n') == NULL) {
        snprintf(place, cap, "column %zu", column);
    } else {
        snprintf(place, cap, "line %zu, column %zu", line, column);
    }
}

fed_status arch_fail(const arch_parser *p, fed_word w, const char *wanted) {
    enum { SHOWN = 32 };
    char place[64], inside[ARCH_NAME + 8] = "";
    describe_place(p->text, w.text, place, sizeof place);
    if (p->scope != NULL && p->scope->prefix[0] != '\0') {
        int len = (int)strlen(p->scope->prefix) - 1;
        snprintf(inside, sizeof inside, " (in %.*s)", len, p->scope->prefix);
    }
    if (*w.text == '\0') {
        return fed_fail(p->err, FED_EFORMAT, "model: the text ends at %s: expected %s%s", place,
                        wanted, inside);
    }
    if (w.len == 0) {
        return fed_fail(p->err, FED_EFORMAT, "model: %s: expected %s%s", place, wanted, inside);
    }
    return fed_fail(p->err, FED_EFORMAT, "model: %s, \"%.*s\": expected %s%s", place,
                    (int)(w.len < SHOWN ? w.len : SHOWN), w.text, wanted, inside);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool arch_word_is_number(fed_word w) {
    return w.len > 0 && (is_digit(w.text[0]) || w.text[0] == '.');
}

/* Read a decimal number below 2^32 and move *at past it. Returns false if there is none. */
static bool take_number(const char **at, const char *end, uint32_t *number) {
    uint64_t value = 0;
    const char *digit = *at;
    for (; digit < end && is_digit(*digit) && value <= UINT32_MAX; digit++) {
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    bool any = digit > *at;
    *at = digit;
    *number = (uint32_t)value;
    return any && value <= UINT32_MAX;
}

size_t arch_numbers(fed_word w, const char *between, uint32_t *numbers, size_t max) {
    const char *at = w.text, *end = w.text + w.len;
    size_t gap = strlen(between);
    for (size_t count = 0; count < max; at += gap) {
        if (!take_number(&at, end, &numbers[count++])) {
            return 0;
        }
        if (at == end) {
            return count;
        }
        if ((size_t)(end - at) < gap || memcmp(at, between, gap) != 0) {
            return 0;
        }
    }
    return 0;
}

fed_status arch_number(arch_parser *p, uint32_t low, const char *wanted, uint32_t *number) {
    fed_word w = arch_word_meaning(p, arch_word_next(p));
    if (arch_numbers(w, "x", number, 1) != 1 || *number < low) {
        return arch_fail(p, w, wanted);
    }
    return FED_OK;
}

fed_status arch_decimal(arch_parser *p, const char *wanted, float *number) {
    fed_word w = arch_word_meaning(p, arch_word_next(p));
    double value;
    if (!fed_word_number(w, &value) || value < 0.0) {
        return arch_fail(p, w, wanted);
    }
    *number = (float)value;
    return FED_OK;
}

static fed_status parse_option(arch_parser *p, arch_option *o) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a number after %s, %u or more", o->word, o->low);
    if (o->given != NULL) {
        *o->given = true;
    }
    o->seen = true;
    return o->number != NULL    ? arch_number(p, o->low, wanted, o->number)
           : o->decimal != NULL ? arch_decimal(p, wanted, o->decimal)
           : o->value != NULL   ? arch_value_parse(p, o->value)
                                : FED_OK;
}

fed_status arch_options_parse(arch_parser *p, arch_option *options, size_t count) {
    for (fed_word w = arch_word_peek(p); !arch_word_ends_layer(w); w = arch_word_peek(p)) {
        fed_names known = {"\"|\""};
        size_t found = count;
        for (size_t i = 0; i < count; i++) {
            if (!options[i].seen) {
                fed_names_add(&known, options[i].word);
                found = fed_word_is(w, options[i].word) ? i : found;
            }
        }
        if (found == count) {
            return arch_fail(p, w, known.text);
        }
        p->next++;
        FED_TRY(parse_option(p, &options[found]));
    }
    return FED_OK;
}
