/* Numbers for words: the vocabulary of a text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_VOCABULARY_H
#define FEDTRAIN_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/** Words by their number: the most frequent is 0; words as frequent as each other are in the order
 * of their bytes. */
typedef struct fedtrain_vocabulary fedtrain_vocabulary;

size_t fedtrain_vocabulary_size(const fedtrain_vocabulary *words);

/** A word's bytes, *len of them, not terminated. id < size. */
const char *fedtrain_vocabulary_word(const fedtrain_vocabulary *words, uint32_t id, size_t *len);

/** The number of a word; <unk>'s if it is not there. */
uint32_t fedtrain_vocabulary_find(const fedtrain_vocabulary *words, const char *word, size_t len);

FED_API_END

#endif
