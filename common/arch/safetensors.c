/* Write and read the JSON header of a safetensors file. The reader is strict and knows only the
 * JSON that such headers need. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/arch/safetensors.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fed/utf8.h"

static void write_string(fed_writer *w, const char *text) {
    fed_write_u8(w, '"');
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < ' ') {
            fed_write_printf(w, "\\u%04x", byte);
            continue;
        }
        if (byte == '"' || byte == '\\') {
            fed_write_u8(w, '\\');
        }
        fed_write_u8(w, byte);
    }
    fed_write_u8(w, '"');
}

static void write_metadata(fed_writer *w, const char *const *metadata) {
    fed_write_printf(w, "\"__metadata__\":{");
    for (size_t i = 0; metadata[i] != NULL; i += 2) {
        fed_write_printf(w, "%s", i > 0 ? "," : "");
        write_string(w, metadata[i]);
        fed_write_u8(w, ':');
        write_string(w, metadata[i + 1]);
    }
    fed_write_u8(w, '}');
}

static void write_tensor(fed_writer *w, const fed_tensor *tensor) {
    write_string(w, tensor->name);
    fed_write_printf(w, ":{\"dtype\":\"F32\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        fed_write_printf(w, "%s%u", i > 0 ? "," : "", tensor->dims[i]);
    }
    size_t begin = tensor->offset * sizeof(float);
    size_t end = begin + tensor->size * sizeof(float);
    fed_write_printf(w, "],\"data_offsets\":[%zu,%zu]}", begin, end);
}

void fed_safetensors_header_write(fed_writer *w, const fed_layout *layout,
                                  const char *const *metadata) {
    size_t start = w->len;
    const char *comma = "";
    fed_write_u8(w, '{');
    if (metadata != NULL) {
        write_metadata(w, metadata);
        comma = ",";
    }
    for (size_t i = 0; i < layout->count; i++) {
        fed_write_printf(w, "%s", comma);
        write_tensor(w, &layout->tensors[i]);
        comma = ",";
    }
    fed_write_u8(w, '}');
    while (w->status == FED_OK && (w->len - start) % 8 != 0) {
        fed_write_u8(w, ' ');
    }
}

/* The types of elements. The types that can be read as floats come first. */
static const struct {
    const char *name;
    size_t bytes;
} types[] = {[FED_SAFETENSORS_F32] = {"F32", 4},
             [FED_SAFETENSORS_F16] = {"F16", 2},
             [FED_SAFETENSORS_BF16] = {"BF16", 2},
             [FED_SAFETENSORS_OTHER] = {"I64", 8},
             {"F64", 8},
             {"I32", 4},
             {"I16", 2},
             {"I8", 1},
             {"U64", 8},
             {"U32", 4},
             {"U16", 2},
             {"U8", 1},
             {"BOOL", 1}};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

typedef struct entry {
    char name[FED_TENSOR_NAME];
    size_t type; /* index in types */
    uint32_t rank;
    uint32_t dims[FED_TENSOR_RANK];
    uint64_t begin, end;
} entry;

typedef struct parser {
    const char *name;
    const uint8_t *text;
    size_t len, pos;
    entry *entries; /* [count], room for cap */
    size_t count, cap;
    fed_writer *notes;
    fed_error *err;
} parser;

static fed_status refuse(const parser *p, const char *what) {
    return fed_fail(p->err, FED_EFORMAT, "%s: byte %zu of the header: %s", p->name, p->pos, what);
}

/* Return the next byte after white space, without consuming it. 0: the end, because a NUL is valid
 * nowhere. */
static uint8_t peek(parser *p) {
    while (p->pos < p->len && p->text[p->pos] != 0 && strchr(" \t\r\n", p->text[p->pos]) != NULL) {
        p->pos++;
    }
    return p->pos < p->len ? p->text[p->pos] : 0;
}

static bool accept(parser *p, char byte) {
    if (peek(p) != (uint8_t)byte) {
        return false;
    }
    p->pos++;
    return true;
}

static fed_status expect(parser *p, char byte, const char *what) {
    return accept(p, byte) ? FED_OK : refuse(p, what);
}

static fed_status parse_hex4(parser *p, uint32_t *unit) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, p->pos++) {
        static const char digits[] = "0123456789abcdef";
        uint8_t byte = p->pos < p->len ? p->text[p->pos] : 0;
        if (byte >= 'A' && byte <= 'F') {
            byte = (uint8_t)(byte - 'A' + 'a');
        }
        const char *digit = byte != 0 ? strchr(digits, byte) : NULL;
        if (digit == NULL) {
            return refuse(p, "expected four hex digits after \\u");
        }
        value = value << 4 | (uint32_t)(digit - digits);
    }
    *unit = value;
    return FED_OK;
}

static fed_status parse_escape(parser *p, uint32_t *unit) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint8_t byte = p->pos < p->len ? p->text[p->pos] : 0;
    const char *name = byte != 0 ? strchr(names, byte) : NULL;
    if (name == NULL && byte != 'u') {
        return refuse(p, "unknown escape in a string");
    }
    p->pos++;
    if (name == NULL) {
        return parse_hex4(p, unit);
    }
    *unit = (uint32_t)values[name - names];
    return FED_OK;
}

static fed_status parse_character(parser *p, uint32_t *unit, bool *closed) {
    if (p->pos == p->len || p->text[p->pos] < ' ') {
        return refuse(p, "unterminated string");
    }
    *unit = p->text[p->pos++];
    *closed = *unit == '"';
    return *unit == '\\' ? parse_escape(p, unit) : FED_OK;
}

/* Read a name or key into dst[cap], with a NUL. Errors quote it, so it must be printable ASCII. */
static fed_status parse_name(parser *p, char *dst, size_t cap) {
    FED_TRY(expect(p, '"', "expected a string"));
    for (size_t len = 0;;) {
        uint32_t unit = 0;
        bool closed = false;
        FED_TRY(parse_character(p, &unit, &closed));
        if (closed) {
            dst[len] = '\0';
            return FED_OK;
        }
        if (unit < ' ' || unit > '~') {
            return refuse(p, "names must be printable ASCII");
        }
        if (len == cap - 1) {
            return refuse(p, "unknown or too long a name");
        }
        dst[len++] = (char)unit;
    }
}

/* Read a string of the metadata and append it with a NUL to the notes. *plain becomes false if some
 * character is not printable ASCII: errors can't quote such a string. */
static fed_status parse_note(parser *p, bool *plain) {
    FED_TRY(expect(p, '"', "expected a string"));
    for (;;) {
        uint32_t unit = 0;
        bool closed = false;
        FED_TRY(parse_character(p, &unit, &closed));
        if (closed) {
            fed_write_u8(p->notes, 0);
            return FED_OK;
        }
        *plain = *plain && unit >= ' ' && unit <= '~';
        fed_write_u8(p->notes, (uint8_t)unit);
    }
}

/* Read a whole number of 0 or more, without sign, fraction, exponent or leading zero. */
static fed_status parse_number(parser *p, uint64_t *number) {
    peek(p);
    size_t start = p->pos;
    uint64_t value = 0;
    for (; p->pos < p->len && p->text[p->pos] >= '0' && p->text[p->pos] <= '9'; p->pos++) {
        uint64_t digit = (uint64_t)(p->text[p->pos] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return refuse(p, "number too large");
        }
        value = value * 10 + digit;
    }
    if (p->pos == start || (p->text[start] == '0' && p->pos - start > 1)) {
        return refuse(p, "expected a whole number");
    }
    *number = value;
    return FED_OK;
}

static fed_status parse_numbers(parser *p, uint64_t *numbers, size_t max, size_t *count) {
    FED_TRY(expect(p, '[', "expected '['"));
    *count = 0;
    if (accept(p, ']')) {
        return FED_OK;
    }
    do {
        if (*count == max) {
            return refuse(p, "too many numbers");
        }
        FED_TRY(parse_number(p, &numbers[*count]));
        ++*count;
    } while (accept(p, ','));
    return expect(p, ']', "expected ',' or ']'");
}

static fed_status parse_dtype(parser *p, entry *e) {
    char dtype[16];
    FED_TRY(parse_name(p, dtype, sizeof dtype));
    e->type = 0;
    while (e->type < TYPE_COUNT && strcmp(dtype, types[e->type].name) != 0) {
        e->type++;
    }
    return e->type < TYPE_COUNT ? FED_OK : refuse(p, "unknown dtype: write F32");
}

static fed_status parse_shape(parser *p, entry *e) {
    uint64_t dims[FED_TENSOR_RANK] = {0};
    size_t rank = 0;
    FED_TRY(parse_numbers(p, dims, FED_TENSOR_RANK, &rank));
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] > UINT32_MAX) {
            return refuse(p, "dimension too large");
        }
        e->dims[i] = (uint32_t)dims[i];
    }
    e->rank = (uint32_t)rank;
    return FED_OK;
}

static fed_status parse_offsets(parser *p, entry *e) {
    uint64_t offsets[2] = {0};
    size_t count = 0;
    FED_TRY(parse_numbers(p, offsets, 2, &count));
    if (count != 2 || offsets[0] > offsets[1]) {
        return refuse(p, "expected data_offsets as [begin, end]");
    }
    e->begin = offsets[0];
    e->end = offsets[1];
    return FED_OK;
}

static const struct {
    const char *key;
    fed_status (*parse)(parser *p, entry *e);
} fields[] = {{"dtype", parse_dtype}, {"shape", parse_shape}, {"data_offsets", parse_offsets}};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static fed_status parse_entry(parser *p, entry *e) {
    bool seen[FIELD_COUNT] = {false};
    FED_TRY(expect(p, '{', "expected '{'"));
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        char key[16];
        FED_TRY(i > 0 ? expect(p, ',', "expected dtype, shape and data_offsets") : FED_OK);
        FED_TRY(parse_name(p, key, sizeof key));
        size_t k = 0;
        while (k < FIELD_COUNT && strcmp(key, fields[k].key) != 0) {
            k++;
        }
        if (k == FIELD_COUNT || seen[k]) {
            return refuse(p, "unknown or repeated key in a tensor");
        }
        seen[k] = true;
        FED_TRY(expect(p, ':', "expected ':'"));
        FED_TRY(fields[k].parse(p, e));
    }
    return expect(p, '}', "expected '}' after dtype, shape and data_offsets");
}

/* Read "__metadata__", an object of strings. A pair with characters other than printable ASCII is
 * checked and dropped. */
static fed_status parse_metadata(parser *p) {
    FED_TRY(expect(p, '{', "expected '{'"));
    if (accept(p, '}')) {
        return FED_OK;
    }
    do {
        size_t start = p->notes->len;
        bool plain = true;
        FED_TRY(parse_note(p, &plain));
        FED_TRY(expect(p, ':', "expected ':'"));
        FED_TRY(parse_note(p, &plain));
        p->notes->len = plain ? p->notes->len : start;
    } while (accept(p, ','));
    return expect(p, '}', "expected ',' or '}'");
}

static fed_status add_entry(parser *p, const entry *e) {
    if (p->count == p->cap) {
        const size_t cap = p->cap > 0 ? 2 * p->cap : 64;
        entry *entries = realloc(p->entries, cap * sizeof *entries);
        if (entries == NULL) {
            return fed_fail(p->err, FED_ENOMEM, "%s: out of memory", p->name);
        }
        p->entries = entries;
        p->cap = cap;
    }
    p->entries[p->count++] = *e;
    return FED_OK;
}

static fed_status parse_members(parser *p) {
    bool metadata_seen = false;
    do {
        entry e = {0};
        FED_TRY(parse_name(p, e.name, sizeof e.name));
        FED_TRY(expect(p, ':', "expected ':'"));
        if (strcmp(e.name, "__metadata__") == 0) {
            if (metadata_seen) {
                return refuse(p, "__metadata__ twice");
            }
            metadata_seen = true;
            FED_TRY(parse_metadata(p));
            continue;
        }
        if (p->count == FED_SAFETENSORS_TENSORS) {
            return refuse(p, "too many tensors: 262,144 are allowed");
        }
        FED_TRY(parse_entry(p, &e));
        FED_TRY(add_entry(p, &e));
    } while (accept(p, ','));
    return FED_OK;
}

static fed_status parse_header(parser *p) {
    const size_t valid = fed_utf8_valid_len(p->text, p->len);
    if (valid < p->len) {
        p->pos = valid;
        return refuse(p, "not UTF-8: save the file with names and metadata in UTF-8");
    }
    /* A safetensors header must begin with '{', without white space before it. */
    if (p->len == 0 || p->text[0] != '{') {
        return refuse(p, "expected '{'");
    }
    p->pos = 1;
    if (!accept(p, '}')) {
        FED_TRY(parse_members(p));
        FED_TRY(expect(p, '}', "expected ',' or '}'"));
    }
    peek(p);
    return p->pos == p->len ? FED_OK : refuse(p, "more text after the header");
}

static int by_begin(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Add entry i to the layout. Its data must begin at *at, the end of the previous entry's data. */
static fed_status lay_out_one(parser *p, size_t i, uint64_t *at, fed_safetensors *header) {
    const entry *e = &p->entries[i];
    fed_status status = arch_names_add(&header->names, &header->layout, e->name, e->rank, e->dims);
    if (status == FED_ENOMEM) {
        return fed_fail(p->err, status, "%s: out of memory", p->name);
    }
    if (status != FED_OK) {
        return fed_fail(p->err, FED_EFORMAT,
                        "%s: tensor \"%s\" has no name, a name that is taken, or a shape that is "
                        "empty or too large",
                        p->name, e->name);
    }
    uint64_t bytes = (uint64_t)header->layout.tensors[i].size * types[e->type].bytes;
    if (e->begin != *at || e->end - e->begin != bytes) {
        return fed_fail(p->err, FED_EFORMAT,
                        "%s: the data of tensor \"%s\" must be bytes %" PRIu64 " to %" PRIu64
                        ", not %" PRIu64 " to %" PRIu64,
                        p->name, e->name, *at, *at + bytes, e->begin, e->end);
    }
    header->places[i] = (fed_safetensors_place){.type = e->type < FED_SAFETENSORS_OTHER
                                                            ? (fed_safetensors_type)e->type
                                                            : FED_SAFETENSORS_OTHER,
                                                .word = types[e->type].name,
                                                .begin = e->begin};
    *at = e->end;
    return FED_OK;
}

static fed_status lay_out(parser *p, uint64_t data_bytes, fed_safetensors *header) {
    uint64_t at = 0;
    header->places = malloc((p->count + 1) * sizeof *header->places);
    const fed_status opened = arch_names_open(&header->names, p->count);
    if (header->places == NULL || header->notes.status != FED_OK || opened != FED_OK) {
        return fed_fail(p->err, FED_ENOMEM, "%s: out of memory", p->name);
    }
    for (size_t i = 0; i < p->count; i++) {
        FED_TRY(lay_out_one(p, i, &at, header));
    }
    if (at != data_bytes) {
        return fed_fail(p->err, FED_EFORMAT,
                        "%s: the tensors take %" PRIu64 " bytes, but %" PRIu64 " follow the header",
                        p->name, at, data_bytes);
    }
    return FED_OK;
}

fed_status fed_safetensors_parse(const char *name, const uint8_t *text, size_t len,
                                 uint64_t data_bytes, fed_safetensors *header, fed_error *err) {
    fed_safetensors parsed = {0};
    fed_layout_init(&parsed.layout);
    fed_writer_growing(&parsed.notes);
    parser p = {.name = name, .text = text, .len = len, .notes = &parsed.notes, .err = err};
    fed_status status = parse_header(&p);
    if (status == FED_OK) {
        if (p.count > 0) {
            qsort(p.entries, p.count, sizeof *p.entries, by_begin);
        }
        status = lay_out(&p, data_bytes, &parsed);
    }
    free(p.entries);
    if (status != FED_OK) {
        fed_safetensors_free(&parsed);
        return status;
    }
    *header = parsed;
    return FED_OK;
}

void fed_safetensors_free(fed_safetensors *header) {
    fed_layout_free(&header->layout);
    arch_names_free(&header->names);
    free(header->places);
    fed_writer_free(&header->notes);
    *header = (fed_safetensors){0};
}

const char *fed_safetensors_note(const fed_safetensors *header, const char *key) {
    const char *at = (const char *)header->notes.data;
    for (size_t left = header->notes.len; left > 0;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, key) == 0) {
            return value;
        }
        const char *next = value + strlen(value) + 1;
        left -= (size_t)(next - at);
        at = next;
    }
    return NULL;
}
