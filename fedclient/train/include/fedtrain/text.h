/* Text for language models: the text as numbers of words or characters. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_TEXT_H
#define FEDTRAIN_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fedtrain/vocabulary.h"

FED_API_BEGIN

/**
 * A text as numbers, read-only once opened. What a model learns at token i is token i + 1.
 *
 * It is cut into units, the least that a client can hold. Units are speeches, if the text has any:
 * a line that ends in ':' after a blank line, or at the start, names the speaker. Else units are
 * lines. The group of a speech is its speaker; the text before the first speech is group 0.
 */
typedef struct fedtrain_text {
    size_t count;
    uint32_t *token; /* uint32[count], each < the vocabulary's size */
    size_t units;
    size_t *unit;    /* size_t[units + 1]: unit u is token[unit[u]] to token[unit[u + 1] - 1] */
    uint32_t *group; /* uint32[units], each < groups; NULL where there are no speakers */
    uint32_t groups;
    const fedtrain_vocabulary *words; /* `own`, or the caller's */
    fedtrain_vocabulary *own;
} fedtrain_text;

/**
 * Open a part of a text in a directory:
 *
 *   ptb           ptb.train.txt, ptb.valid.txt, ptb.test.txt, as words
 *   shakespeare   shakespeare.txt, as characters: "train" is the speeches that begin in its first
 *                 nine tenths, "test" the others; the vocabulary is that of both
 *   words, chars  PART.txt, whatever the part is called
 *
 * Words are separated by blanks; a line ends with the word <eos>. Characters are bytes, line ends
 * among them. NAME:vocabulary=N keeps the N most frequent words only. Each vocabulary has the word
 * <unk>, which stands for all others: the text's own, as in ptb, or else the last word.
 *
 * words   NULL: make the vocabulary from this text. Else the one to use, such as the training
 *         part's; it must outlive the text.
 * Errors  name the file: FED_EINVAL an unknown name or part, FED_ENOTFOUND, FED_EIO, FED_EFORMAT an
 *         empty text or a broken .gz, FED_ERANGE more than 1 GiB, FED_ENOMEM.
 * Owner   fedtrain_text_free
 */
fed_status fedtrain_text_open(const char *name, const char *directory, const char *part,
                              const fedtrain_vocabulary *words, fedtrain_text *text,
                              fed_error *err) FED_CHECKED;

/** The k-th name that fedtrain_text_open knows; NULL past the last. */
const char *fedtrain_text_name(size_t k);

/** Safe on a zeroed text. */
void fedtrain_text_free(fedtrain_text *text);

/** One client's text: some units, in the order given, joined. *token: uint32[*count]; owner: the
 * caller, free(). FED_ENOMEM. */
fed_status fedtrain_text_join(const fedtrain_text *text, const uint32_t *unit, size_t n,
                              uint32_t **token, size_t *count) FED_CHECKED;

FED_API_END

#endif
