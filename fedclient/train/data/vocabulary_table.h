/* The table behind a vocabulary: it grows while a text is read, and is sorted afterwards. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_VOCABULARY_TABLE_H
#define FEDTRAIN_VOCABULARY_TABLE_H

#include "fed/bytes.h"

struct fedtrain_vocabulary {
    fed_writer bytes; /* the words, one after another */
    uint32_t *end;    /* uint32[cap]: where in bytes each word ends */
    uint32_t *count;  /* uint32[cap]: how often each word was seen */
    uint32_t size, cap;
    uint32_t *slot; /* uint32[2 * cap]: hash table of id + 1; 0: free */
    uint32_t unknown;
};

/** Owner: fedtrain_vocabulary_free. */
fed_status fedtrain_vocabulary_new(struct fedtrain_vocabulary **words) FED_CHECKED;
void fedtrain_vocabulary_free(struct fedtrain_vocabulary *words);

/** Count a word once more. A new word gets the next number. FED_ENOMEM; FED_ERANGE too many
 * words. */
fed_status fedtrain_vocabulary_count(struct fedtrain_vocabulary *words, const char *word,
                                     size_t len, uint32_t *id) FED_CHECKED;

/** Make a vocabulary of at most `most` words, the most frequent ones, in the order of their counts.
 * <unk> is always among them. most >= 1. */
fed_status fedtrain_vocabulary_sort(const struct fedtrain_vocabulary *counted, size_t most,
                                    struct fedtrain_vocabulary **words) FED_CHECKED;

#endif
