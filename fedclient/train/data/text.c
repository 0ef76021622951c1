/* Reads a text: cuts it into units and tokens, and replaces tokens by their numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/params.h"
#include "fedclient/train/data/input.h"
#include "fedclient/train/data/vocabulary_table.h"

static const size_t LIMIT_BYTES = (size_t)1 << 30;

static const char LINE_END[] = "<eos>";

typedef struct scan {
    const char *at, *stop;
    bool characters; /* true: characters; false: words */
    bool in_line;    /* a word was read since the last line end */
} scan;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static bool next_token(scan *s, const char **word, size_t *len) {
    while (!s->characters && s->at < s->stop && is_blank(*s->at)) {
        s->at++;
    }
    bool at_end = s->at == s->stop;
    if (at_end && !s->in_line) {
        return false;
    }
    *word = s->at;
    *len = 1;
    if (s->characters) {
        s->at++;
    } else if (at_end || *s->at == '\n') {
        s->at += !at_end;
        s->in_line = false;
        *word = LINE_END;
        *len = strlen(LINE_END);
    } else {
        while (s->at < s->stop && *s->at != '\n' && !is_blank(*s->at)) {
            s->at++;
        }
        s->in_line = true;
        *len = (size_t)(s->at - *word);
    }
    return true;
}

static scan scan_of(const fedtrain_input *file, const fedtrain_text_kind *kind, size_t from,
                    size_t to) {
    const char *data = (const char *)file->bytes.data;
    return (scan){.at = data + from, .stop = data + to, .characters = kind->characters};
}

static fed_status make_vocabulary(const fedtrain_input *file, const fedtrain_text_kind *kind,
                                  fedtrain_vocabulary **words) {
    fedtrain_vocabulary *counted;
    FED_TRY(fedtrain_vocabulary_new(&counted));
    fed_status status = FED_OK;
    scan s = scan_of(file, kind, 0, file->bytes.len);
    const char *word;
    size_t len;
    uint32_t id;
    while (status == FED_OK && next_token(&s, &word, &len)) {
        status = fedtrain_vocabulary_count(counted, word, len, &id);
    }
    if (status == FED_OK) {
        status = fedtrain_vocabulary_sort(counted, kind->vocabulary, words);
    }
    fedtrain_vocabulary_free(counted);
    return status;
}

static size_t line_end(const fedtrain_bytes *text, size_t at) {
    const uint8_t *end = memchr(text->data + at, '\n', text->len - at);
    return end != NULL ? (size_t)(end - text->data) + 1 : text->len;
}

static bool follows_blank_line(const fedtrain_bytes *text, size_t at) {
    if (at == 0) {
        return true;
    }
    size_t i = at - 1;
    while (i > 0 && is_blank((char)text->data[i - 1])) {
        i--;
    }
    return i == 0 || text->data[i - 1] == '\n';
}

/* Return the length of the speaker's name in a line such as "First Citizen:", or 0 if the line
 * names no speaker. */
static size_t name_length(const fedtrain_bytes *text, size_t at) {
    size_t end = line_end(text, at);
    while (end > at && (text->data[end - 1] == '\n' || is_blank((char)text->data[end - 1]))) {
        end--;
    }
    bool names = end > at + 1 && text->data[end - 1] == ':' && follows_blank_line(text, at);
    return names ? end - 1 - at : 0;
}

static bool has_speakers(const fedtrain_bytes *text) {
    for (size_t at = 0; at < text->len; at = line_end(text, at)) {
        if (name_length(text, at) > 0) {
            return true;
        }
    }
    return false;
}

static size_t unit_end(const fedtrain_bytes *text, bool speeches, size_t at) {
    size_t end = line_end(text, at);
    while (speeches && end < text->len && name_length(text, end) == 0) {
        end = line_end(text, end);
    }
    return end;
}

typedef struct builder {
    const fedtrain_input *file;
    const fedtrain_text_kind *kind;
    const fedtrain_vocabulary *words;
    fedtrain_vocabulary *speakers;    /* NULL: units are lines */
    fed_writer tokens, units, groups; /* uint32[], size_t[], uint32[] */
} builder;

static fed_status add_unit(builder *b, size_t from, size_t to) {
    size_t start = b->tokens.len / sizeof(uint32_t), len;
    const char *word;
    fed_write_bytes(&b->units, &start, sizeof start);
    if (b->speakers != NULL) {
        uint32_t group;
        const char *name = (const char *)b->file->bytes.data + from;
        FED_TRY(fedtrain_vocabulary_count(b->speakers, name, name_length(&b->file->bytes, from),
                                          &group));
        fed_write_bytes(&b->groups, &group, sizeof group);
    }
    scan s = scan_of(b->file, b->kind, from, to);
    while (next_token(&s, &word, &len)) {
        uint32_t id = fedtrain_vocabulary_find(b->words, word, len);
        fed_write_bytes(&b->tokens, &id, sizeof id);
    }
    return b->tokens.status;
}

static size_t tenths(size_t n, unsigned k) {
    return n / 10 * k + n % 10 * k / 10;
}

static fed_status add_units(builder *b) {
    const fedtrain_bytes *bytes = &b->file->bytes;
    size_t from = tenths(bytes->len, b->kind->from), stop = tenths(bytes->len, b->kind->end);
    for (size_t at = 0, end; at < bytes->len; at = end) {
        end = unit_end(bytes, b->speakers != NULL, at);
        if (at >= from && at < stop) {
            FED_TRY(add_unit(b, at, end));
        }
    }
    size_t tokens = b->tokens.len / sizeof(uint32_t);
    fed_write_bytes(&b->units, &tokens, sizeof tokens);
    FED_TRY(b->groups.status);
    return b->units.status;
}

static void finish(builder *b, fedtrain_text *text) {
    text->count = b->tokens.len / sizeof *text->token;
    text->units = b->units.len / sizeof *text->unit - 1;
    text->groups = b->speakers != NULL ? b->speakers->size : 0;
    text->token = (uint32_t *)(void *)b->tokens.data;
    text->unit = (size_t *)(void *)b->units.data;
    text->group = (uint32_t *)(void *)b->groups.data;
    fed_writer_growing(&b->tokens);
    fed_writer_growing(&b->units);
    fed_writer_growing(&b->groups);
}

static fed_status build(builder *b, fedtrain_text *text) {
    if (has_speakers(&b->file->bytes)) {
        FED_TRY(fedtrain_vocabulary_new(&b->speakers));
    }
    FED_TRY(add_units(b));
    FED_REQUIRE(b->tokens.len > 0, FED_EFORMAT);
    finish(b, text);
    return FED_OK;
}

fed_status fedtrain_text_parse(const fedtrain_input *file, const fedtrain_text_kind *kind,
                               const fedtrain_vocabulary *words, fedtrain_text *text,
                               fed_error *err) {
    fedtrain_vocabulary *own = NULL;
    fed_status status = words == NULL ? make_vocabulary(file, kind, &own) : FED_OK;
    builder b = {.file = file, .kind = kind, .words = words != NULL ? words : own};
    fed_writer_growing(&b.tokens);
    fed_writer_growing(&b.units);
    fed_writer_growing(&b.groups);
    fedtrain_text read = {.words = b.words, .own = own};
    if (status == FED_OK) {
        status = build(&b, &read);
    }
    fedtrain_vocabulary_free(b.speakers);
    fed_writer_free(&b.tokens);
    fed_writer_free(&b.units);
    fed_writer_free(&b.groups);
    if (status != FED_OK) {
        fedtrain_text_free(&read);
        return fed_fail(err, status, "%s: %s", file->path,
                        status == FED_EFORMAT  ? "there is no text in it, or in this part of it"
                        : status == FED_ERANGE ? "it has too many different words"
                                               : "out of memory for a text of this length");
    }
    *text = read;
    return FED_OK;
}

void fedtrain_text_free(fedtrain_text *text) {
    free(text->token);
    free(text->unit);
    free(text->group);
    fedtrain_vocabulary_free(text->own);
    *text = (fedtrain_text){0};
}

fed_status fedtrain_text_join(const fedtrain_text *text, const uint32_t *unit, size_t n,
                              uint32_t **token, size_t *count) {
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        total += text->unit[unit[i] + 1] - text->unit[unit[i]];
    }
    uint32_t *joined = malloc((total > 0 ? total : 1) * sizeof *joined);
    FED_REQUIRE(joined != NULL, FED_ENOMEM);
    *count = total;
    *token = joined;
    for (size_t i = 0; i < n; i++) {
        size_t start = text->unit[unit[i]], len = text->unit[unit[i] + 1] - start;
        memcpy(joined, text->token + start, len * sizeof *joined);
        joined += len;
    }
    return FED_OK;
}

typedef struct corpus {
    const char *name;
    bool characters;
    const char *file; /* the file's name, or its beginning before PART.txt */
    bool has_parts;   /* the file has both parts; "train" is its first nine tenths */
} corpus;

static const corpus corpora[] = {{"ptb", false, "ptb.", false},
                                 {"shakespeare", true, "shakespeare.txt", true},
                                 {"words", false, "", false},
                                 {"chars", true, "", false}};

enum { CORPORA = sizeof corpora / sizeof corpora[0] };

const char *fedtrain_text_name(size_t k) {
    return k < CORPORA ? corpora[k].name : NULL;
}

/* Find a name's corpus and option: "words:vocabulary=1000" is the corpus "words" and 1000. */
static fed_status find_corpus(const char *name, const corpus **found, size_t *vocabulary,
                              fed_error *err) {
    static const char key[] = ":vocabulary=";
    size_t len = strcspn(name, ":");
    const char *option = name + len;
    for (size_t i = 0; i < CORPORA; i++) {
        if (strlen(corpora[i].name) == len && strncmp(corpora[i].name, name, len) == 0) {
            *found = &corpora[i];
        }
    }
    if (*found == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "unknown text \"%.100s\": write ptb, shakespeare, words or chars", name);
    }
    if (*option == '\0') {
        return FED_OK;
    }
    double most;
    if (strncmp(option, key, strlen(key)) != 0 || !fed_text_number(option + strlen(key), &most) ||
        !(most >= 2 && most <= 1e9)) {
        return fed_fail(err, FED_EINVAL,
                        "\"%.100s\": a text's option is :vocabulary=N, with N from 2 to 1e9", name);
    }
    *vocabulary = (size_t)most;
    return FED_OK;
}

static fed_status find_part(const corpus *from, const char *part, fedtrain_text_kind *kind,
                            char *file, size_t cap, fed_error *err) {
    bool test = strcmp(part, "test") == 0;
    if (from->has_parts) {
        if (!test && strcmp(part, "train") != 0) {
            return fed_fail(err, FED_EINVAL, "text %s has no part \"%.40s\": write train or test",
                            from->name, part);
        }
        kind->from = test ? 9 : 0;
        kind->end = test ? 10 : 9;
    }
    int n = snprintf(file, cap, "%s%s%s", from->file, from->has_parts ? "" : part,
                     from->has_parts ? "" : ".txt");
    if (n < 0 || (size_t)n >= cap || strchr(file, '/') != NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "\"%.40s\" can't be a part of a text: write a file's name without / and .txt", part);
    }
    return FED_OK;
}

fed_status fedtrain_text_open(const char *name, const char *directory, const char *part,
                              const fedtrain_vocabulary *words, fedtrain_text *text,
                              fed_error *err) {
    const corpus *from = NULL;
    fedtrain_text_kind kind = {.vocabulary = UINT32_MAX, .from = 0, .end = 10};
    char file[128];
    FED_TRY(find_corpus(name, &from, &kind.vocabulary, err));
    kind.characters = from->characters;
    FED_TRY(find_part(from, part, &kind, file, sizeof file, err));
    fedtrain_input input = {.path = ""};
    FED_TRY(fedtrain_input_open_text(directory, file, LIMIT_BYTES, &input, err));
    fed_status status = fedtrain_text_parse(&input, &kind, words, text, err);
    fedtrain_bytes_release(&input.bytes);
    return status;
}
