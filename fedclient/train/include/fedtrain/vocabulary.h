/* The vocabulary of a text: each word has a number. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_VOCABULARY_H
#define FEDTRAIN_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/** Words by their number. The most frequent word is 0; equally frequent words are in the order of
 * their bytes. */
typedef struct fedtrain_vocabulary fedtrain_vocabulary;

size_t fedtrain_vocabulary_size(const fedtrain_vocabulary *words);

/** A word's bytes, *len of them, without a 0 at the end. id must be less than the vocabulary's
 * size. */
const char *fedtrain_vocabulary_word(const fedtrain_vocabulary *words, uint32_t id, size_t *len);

/** The number of a word, or of <unk> if the vocabulary lacks the word. */
uint32_t fedtrain_vocabulary_find(const fedtrain_vocabulary *words, const char *word, size_t len);

FED_API_END

#endif
