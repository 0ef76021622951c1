/* Text for language models: an array with the number of each word or character. */
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
 * A text as numbers, read-only once opened. At token i a model learns to predict token i + 1.
 *
 * The text is cut into units, which a split hands out whole. If the text has speeches, they are
 * the units: a line that ends in ':', after a blank line or at the start, begins one and names the
 * speaker. Otherwise units are lines. The group of a speech is its speaker; the text before the
 * first speech is group 0.
 */
typedef struct fedtrain_text {
    size_t count;
    uint32_t *token; /* uint32[count], each < the vocabulary's size */
    size_t units;
    size_t *unit;    /* size_t[units + 1]: unit u is token[unit[u]] to token[unit[u + 1] - 1] */
    uint32_t *group; /* uint32[units], each < groups; NULL where there are no speakers */
    uint32_t groups;
    const fedtrain_vocabulary *words; /* `own`, or a vocabulary that the caller owns */
    fedtrain_vocabulary *own;
} fedtrain_text;

/**
 * Open a part of a text in a directory:
 *
 *   ptb           ptb.train.txt, ptb.valid.txt, ptb.test.txt, as words
 *   shakespeare   shakespeare.txt, as characters: "train" is the speeches that begin in its first
 *                 nine tenths, "test" the others; the vocabulary is that of both
 *   words, chars  PART.txt, for a part of any name, as words or as characters
 *
 * Words are separated by blanks; a line ends with the word <eos>. Characters are bytes, and
 * include line ends, each as one '\n', as fed_text_clean leaves them. NAME:vocabulary=N keeps the N
 * most frequent words only. Each vocabulary has the word <unk> for all words that it lacks. It is
 * the text's own <unk>, as in ptb, or is added as the last word.
 *
 * words   NULL: make the vocabulary from this text. Otherwise the vocabulary to use, such as the
 *         training part's; it must outlive the text.
 * Errors  name the file: FED_EINVAL an unknown name or part, FED_ENOTFOUND, FED_EIO, FED_EFORMAT an
 *         empty text, a text in UTF-16 or a broken .gz, FED_ERANGE more than 1 GiB, FED_ENOMEM.
 * Owner   fedtrain_text_free
 */
fed_status fedtrain_text_open(const char *name, const char *directory, const char *part,
                              const fedtrain_vocabulary *words, fedtrain_text *text,
                              fed_error *err) FED_CHECKED;

/** The k-th name that fedtrain_text_open knows; NULL past the last. */
const char *fedtrain_text_name(size_t k);

/** Safe on a zeroed text. */
void fedtrain_text_free(fedtrain_text *text);

/** Join the tokens of n units, in the order given, to one client's text. *token: uint32[*count];
 * owner: the caller, free(). FED_ENOMEM. */
fed_status fedtrain_text_join(const fedtrain_text *text, const uint32_t *unit, size_t n,
                              uint32_t **token, size_t *count) FED_CHECKED;

FED_API_END

#endif
