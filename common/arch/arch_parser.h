/* Internal to common/arch: the parser of a model's text, which the files arch_*.c share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_ARCH_PARSER_H
#define COMMON_ARCH_PARSER_H

#include "fed/arch.h"
#include "fed/params.h"

enum {
    ARCH_NAME = 64,   /* bytes of a name in a model of layers, with its NUL */
    ARCH_BLOCKS = 32, /* limits nesting, too: a block uses only earlier blocks */
    ARCH_PARAMS = 8,
    ARCH_KINDS = FED_LAYER_CONCAT + 1,
    /* The most layers, branches and uses of blocks, counted with their repetitions. This limit
     * bounds the parser's work. */
    ARCH_STEPS = 4096
};

/** A block that "let" defines. */
typedef struct arch_block {
    fed_word name;
    size_t param_count;
    fed_word params[ARCH_PARAMS];
    size_t body; /* index of the body's first word; the body ends at a ';' */
    bool used;
} arch_block;

typedef struct arch_scope {
    size_t block; /* index of the block; ARCH_BLOCKS: the whole net */
    fed_word args[ARCH_PARAMS];
    char prefix[ARCH_NAME];                    /* of the names inside, such as "layer1.0." */
    uint32_t in;                               /* the value that "in" names */
    uint32_t counts[ARCH_KINDS + ARCH_BLOCKS]; /* layers of a kind, uses of a block so far */
} arch_scope;

/** A full name, with its prefix, and the value that it names. */
typedef struct arch_name {
    uint64_t digest; /* digest of the name, compared first */
    uint32_t value;
    char text[ARCH_NAME];
} arch_name;

/** The position of a layer in the text, for errors, and whether a later layer reads it. */
typedef struct arch_origin {
    fed_word at;
    bool used;
} arch_origin;

typedef struct arch_parser {
    const char *text;  /* the text as given, with its comments */
    fed_word *words;   /* the words of text; the last one is empty, at the text's end */
    size_t word_count; /* without the empty one */
    size_t next;
    arch_block blocks[ARCH_BLOCKS];
    size_t block_count;
    arch_scope *scope;
    size_t steps;

    uint32_t value;       /* the output of the layer before */
    fed_word kind;        /* the word of the layer's kind, such as "conv" */
    char name[ARCH_NAME]; /* the layer's name: "layer1.0.conv1" */

    arch_name *names;
    size_t name_count, name_cap;
    arch_origin *origins; /* one for each layer */
    size_t layer_cap;     /* capacity of arch->layers and of origins */
    fed_arch *arch;
    fed_error *err;
} arch_parser;

/* ---- Words (arch_text.c) ---- */

/** Split p->text into p->words, and write arch->text without comments. */
fed_status arch_words_split(arch_parser *p) FED_CHECKED;

fed_word arch_word_peek(const arch_parser *p);
fed_word arch_word_next(arch_parser *p);
/** If the next word equals text, move past it and return true. */
bool arch_word_skip(arch_parser *p, const char *text);
/** Does the word end a layer: a '|', a ';' or the end of the text? */
bool arch_word_ends_layer(fed_word w);

/** If w is the name of a parameter of the block in use, return the parameter's argument, else w. */
fed_word arch_word_meaning(const arch_parser *p, fed_word w);
/** Does the word begin like a number? Names of blocks and parameters do not. */
bool arch_word_is_number(fed_word w);

/** Fail with an error that has the word, its position, and what was expected there. */
fed_status arch_fail(const arch_parser *p, fed_word w, const char *wanted);

/** Read the next word as a whole number of at least low. Otherwise fail as arch_fail does. */
fed_status arch_number(arch_parser *p, uint32_t low, const char *wanted,
                       uint32_t *number) FED_CHECKED;
/** Read the next word as a decimal fraction of at least 0. Otherwise fail as arch_fail does. */
fed_status arch_decimal(arch_parser *p, const char *wanted, float *number) FED_CHECKED;
/** Read up to max numbers with `between` between them, such as "x" in 1x28x28. Returns their
 * number, 0 for other text. */
size_t arch_numbers(fed_word w, const char *between, uint32_t *numbers, size_t max);

/** An option after a layer's first words: "stride 2", "nobias". */
typedef struct arch_option {
    const char *word;
    /* Exactly one of the pointers number, decimal, value and given is set: it says where to put
     * what follows the word. */
    uint32_t *number, low; /* a whole number of at least low follows */
    float *decimal;
    uint32_t *value; /* the name of a value follows */
    bool *given;     /* nothing follows; set to true */
    bool seen;       /* must be false at first; true once the option was parsed */
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

/** Return the kind with this word, or 0. */
fed_layer_kind arch_kind_find(fed_word w);
/** Parse the words after a kind's word, p->kind, and add the layer. */
fed_status arch_layer_parse(arch_parser *p, fed_layer_kind kind) FED_CHECKED;
/** Add the running statistics after all other tensors: first SCAFFOLD's, then the layers'. */
fed_status arch_statistics_add(arch_parser *p) FED_CHECKED;

/* ---- Models without layers (arch_opaque.c) ---- */

/** Parse a whole text that begins with "vector" or "tensors"; *is_it tells whether it does. */
fed_status arch_opaque_parse(arch_parser *p, bool *is_it) FED_CHECKED;

/* ---- Sizes ---- */

/* The most parameters of all layers. The product of two such numbers fits into 64 bits. */
#define ARCH_PARAMETERS_MAX (UINT64_C(1) << 31)

bool arch_shape_fits(fed_shape s); /* has the shape at most 2^28 values? */
fed_shape arch_value_shape(const fed_arch *arch, uint32_t value);

#endif
