/* Taking a model's text apart: what arch.c, arch_text.c, arch_blocks.c and arch_layers.c share. */
#ifndef COMMON_ARCH_PARSER_H
#define COMMON_ARCH_PARSER_H

#include "fed/arch.h"
#include "fed/params.h"

enum {
    ARCH_BLOCKS = 32, /* and so deep, at most, do they lie in each other: each uses earlier ones */
    ARCH_PARAMS = 8,
    ARCH_KINDS = FED_LAYER_CONCAT + 1,
    /* Layers, branches and uses of blocks, all repetitions counted: the bound of all work. */
    ARCH_STEPS = 4096
};

/** What "let" defines. */
typedef struct arch_block {
    fed_word name;
    size_t param_count;
    fed_word params[ARCH_PARAMS];
    size_t body; /* its first word; it ends at a ';' */
    bool used;
} arch_block;

/** A block in use, or the whole net. */
typedef struct arch_scope {
    size_t block; /* which it is; ARCH_BLOCKS: the whole net */
    fed_word args[ARCH_PARAMS];
    char prefix[FED_TENSOR_NAME];              /* of the names inside: "layer1.0." */
    uint32_t in;                               /* the value that "in" means */
    uint32_t counts[ARCH_KINDS + ARCH_BLOCKS]; /* of each kind and each block so far, for names */
} arch_scope;

/** A name with all that stands before it, and what it names. */
typedef struct arch_name {
    uint64_t digest; /* of the name: names are looked up by reading through these */
    uint32_t value;
    char text[FED_TENSOR_NAME];
} arch_name;

/** Where a layer was written, for errors; and whether a later one reads it. */
typedef struct arch_origin {
    fed_word at;
    bool used;
} arch_origin;

typedef struct arch_parser {
    const char *text; /* as it came, comments and all */
    fed_word *words;  /* into it; the last is empty, at its end */
    size_t next;      /* the word to be read */
    arch_block blocks[ARCH_BLOCKS];
    size_t block_count;
    arch_scope *scope; /* the innermost */
    size_t steps;

    uint32_t value; /* the value before the layer that is being read */
    fed_word kind;  /* that layer's word, and its name: "layer1.0.conv1" */
    char name[FED_TENSOR_NAME];

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
/** Move past the next word if it is this one. */
bool arch_word_skip(arch_parser *p, const char *text);
/** Nothing more belongs to this layer: a '|', a ';' or the end of the text. */
bool arch_word_ends_layer(fed_word w);

/** What a word stands for: itself, or where it is a parameter's name what that was given. */
fed_word arch_word_meaning(const arch_parser *p, fed_word w);
/** It begins as a number does, and no name of a block or parameter does. */
bool arch_word_is_number(fed_word w);

/** Refuse a word: where it is, the word, and what would be right. */
fed_status arch_fail(const arch_parser *p, fed_word w, const char *wanted);

/** The next word as a number; refused as arch_fail does where it isn't one from low on. */
fed_status arch_number(arch_parser *p, uint32_t low, const char *wanted,
                       uint32_t *number) FED_CHECKED;
/** The same for a decimal fraction, 0 or more. */
fed_status arch_decimal(arch_parser *p, const char *wanted, float *number) FED_CHECKED;
/** Numbers with "x" between them, as in 1x28x28: how many, at most max; 0: w is not that. */
size_t arch_numbers(fed_word w, const char *between, uint32_t *numbers, size_t max);

/** A word that may stand behind a layer's first ones: "stride 2", "nobias". */
typedef struct arch_option {
    const char *word;
    uint32_t *number, low; /* a number from low on follows it */
    float *decimal;        /* or a decimal */
    uint32_t *value;       /* or the name of a value */
    bool *given;           /* else NULL */
    bool seen;             /* false at first */
} arch_option;

/** Read them up to the end of the layer: in any order, each at most once. */
fed_status arch_options_parse(arch_parser *p, arch_option *options, size_t count) FED_CHECKED;

/* ---- Blocks and names (arch_blocks.c) ---- */

/** "let NAME(PARAMS) = ...;" as often as it comes. */
fed_status arch_lets_parse(arch_parser *p) FED_CHECKED;
/** Layers and uses of blocks, separated by '|', to the end of the scope. */
fed_status arch_layers_walk(arch_parser *p, arch_scope *scope) FED_CHECKED;
/** The next word must be the name of a value in this scope. */
fed_status arch_value_parse(arch_parser *p, uint32_t *value) FED_CHECKED;

/* ---- Layers (arch_layers.c) ---- */

/** Words for the kinds; 0: none of them. */
fed_layer_kind arch_kind_find(fed_word w);
/** Parse what stands behind a kind's word, p->kind, and add the layer. */
fed_status arch_layer_parse(arch_parser *p, fed_layer_kind kind) FED_CHECKED;
/** The running statistics, behind all other tensors; those of "scaffold" first. */
fed_status arch_statistics_add(arch_parser *p) FED_CHECKED;

uint64_t arch_shape_size(fed_shape s);
bool arch_shape_fits(fed_shape s); /* at most 2^28 values */
fed_shape arch_value_shape(const fed_arch *arch, uint32_t value);

#endif
