/* The parser of a model's text: what the files arch_*.c share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_ARCH_PARSER_H
#define COMMON_ARCH_PARSER_H

#include "fed/arch.h"
#include "fed/params.h"

enum {
    ARCH_BLOCKS = 32, /* also bounds the nesting of blocks: a block uses only earlier ones */
    ARCH_PARAMS = 8,
    ARCH_KINDS = FED_LAYER_CONCAT + 1,
    /* Most layers, branches and uses of blocks, repetitions counted. It bounds the parser's
     * work. */
    ARCH_STEPS = 4096
};

/** A block that "let" defines. */
typedef struct arch_block {
    fed_word name;
    size_t param_count;
    fed_word params[ARCH_PARAMS];
    size_t body; /* index of the block's first word; the block ends at a ';' */
    bool used;
} arch_block;

/** A block in use, or the whole net. */
typedef struct arch_scope {
    size_t block; /* index of the block; ARCH_BLOCKS: the whole net */
    fed_word args[ARCH_PARAMS];
    char prefix[FED_TENSOR_NAME];              /* of the names inside: "layer1.0." */
    uint32_t in;                               /* the value that "in" names */
    uint32_t counts[ARCH_KINDS + ARCH_BLOCKS]; /* of each kind and each block so far, for names */
} arch_scope;

/** A full name, with its prefix, and the value that it names. */
typedef struct arch_name {
    uint64_t digest; /* of the name; a look-up compares digests first */
    uint32_t value;
    char text[FED_TENSOR_NAME];
} arch_name;

/** The position of a layer in the text, for errors, and whether a later layer reads it. */
typedef struct arch_origin {
    fed_word at;
    bool used;
} arch_origin;

typedef struct arch_parser {
    const char *text; /* as given, with its comments */
    fed_word *words;  /* of text; the last word is empty, at the text's end */
    size_t next;      /* index of the next word to read */
    arch_block blocks[ARCH_BLOCKS];
    size_t block_count;
    arch_scope *scope; /* the innermost scope */
    size_t steps;

    uint32_t value;             /* the value before the layer that is being parsed */
    fed_word kind;              /* the layer's word: "conv" */
    char name[FED_TENSOR_NAME]; /* the layer's name: "layer1.0.conv1" */

    arch_name *names;
    size_t name_count, name_cap;
    arch_origin *origins; /* one for each layer */
    size_t layer_cap;     /* of arch->layers and of origins */
    fed_arch *arch;
    fed_error *err;
} arch_parser;

/* ---- Words (arch_text.c) ---- */

/** Split p->text into p->words, and write arch->text. */
fed_status arch_words_split(arch_parser *p) FED_CHECKED;

fed_word arch_word_peek(const arch_parser *p);
fed_word arch_word_next(arch_parser *p);
/** Move past the next word if it equals text. */
bool arch_word_skip(arch_parser *p, const char *text);
/** Does the word end a layer: a '|', a ';' or the end of the text? */
bool arch_word_ends_layer(fed_word w);

/** The argument of a block's parameter if w is the parameter's name, else w. */
fed_word arch_word_meaning(const arch_parser *p, fed_word w);
/** Does the word begin like a number? Names of blocks and parameters do not. */
bool arch_word_is_number(fed_word w);

/** Refuse a word: the error has its position, the word, and what would be right. */
fed_status arch_fail(const arch_parser *p, fed_word w, const char *wanted);

/** The next word as a whole number of at least low; else arch_fail. */
fed_status arch_number(arch_parser *p, uint32_t low, const char *wanted,
                       uint32_t *number) FED_CHECKED;
/** The next word as a decimal fraction of at least 0; else arch_fail. */
fed_status arch_decimal(arch_parser *p, const char *wanted, float *number) FED_CHECKED;
/** Read numbers with "x" between them, as in 1x28x28. Returns how many, at most max; 0: w is other
 * text. */
size_t arch_numbers(fed_word w, const char *between, uint32_t *numbers, size_t max);

/** An option after a layer's first words: "stride 2", "nobias". */
typedef struct arch_option {
    const char *word;
    /* Exactly one of the pointers is set: where to put what follows the word. */
    uint32_t *number, low; /* a number of at least low */
    float *decimal;        /* a decimal */
    uint32_t *value;       /* the name of a value */
    bool *given;           /* nothing follows; set to true */
    bool seen;             /* false at first */
} arch_option;

/** Parse options up to the end of the layer, in any order, each at most once. */
fed_status arch_options_parse(arch_parser *p, arch_option *options, size_t count) FED_CHECKED;

/* ---- Blocks and names (arch_blocks.c) ---- */

/** Parse all "let NAME(PARAMS) = ...;". */
fed_status arch_lets_parse(arch_parser *p) FED_CHECKED;
/** Parse layers and uses of blocks, separated by '|', up to the end of the scope. */
fed_status arch_layers_walk(arch_parser *p, arch_scope *scope) FED_CHECKED;
/** Parse the name of a value in this scope. */
fed_status arch_value_parse(arch_parser *p, uint32_t *value) FED_CHECKED;

/* ---- Layers (arch_layers.c) ---- */

/** The kind of a layer's word; 0: no such kind. */
fed_layer_kind arch_kind_find(fed_word w);
/** Parse the words after a kind's word, p->kind, and add the layer. */
fed_status arch_layer_parse(arch_parser *p, fed_layer_kind kind) FED_CHECKED;
/** Add the running statistics after all other tensors; those of "scaffold" first. */
fed_status arch_statistics_add(arch_parser *p) FED_CHECKED;

/* ---- Models without layers (arch_opaque.c) ---- */

/** Parse a whole text that begins with "vector" or "tensors"; *is_it: does it? */
fed_status arch_opaque_parse(arch_parser *p, bool *is_it) FED_CHECKED;

/* ---- Sizes ---- */

/* Most parameters of all layers. Any model that this trains is far smaller, and products of a few
 * such numbers fit 64 bits. */
#define ARCH_PARAMETERS_MAX (UINT64_C(1) << 31)

bool arch_shape_fits(fed_shape s); /* at most 2^28 values */
fed_shape arch_value_shape(const fed_arch *arch, uint32_t value);

#endif
