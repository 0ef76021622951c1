/* The vocabulary of a text: an open-addressing hash table, and all words' bytes in one array. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedclient/train/data/vocabulary_table.h"

enum { CAP_FIRST = 1024, BYTES_FIRST = 4096 };

static const char UNKNOWN[] = "<unk>";
static const uint32_t NONE = UINT32_MAX;

fed_status fedtrain_vocabulary_new(fedtrain_vocabulary **words) {
    fedtrain_vocabulary *made = calloc(1, sizeof *made);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    fed_writer_growing(&made->bytes);
    made->unknown = NONE;
    /* Allocate some bytes now, so that the empty word has an address, too. */
    if (fed_writer_reserve(&made->bytes, BYTES_FIRST) == NULL) {
        fedtrain_vocabulary_free(made);
        return FED_ENOMEM;
    }
    *words = made;
    return FED_OK;
}

void fedtrain_vocabulary_free(fedtrain_vocabulary *words) {
    if (words != NULL) {
        fed_writer_free(&words->bytes);
        free(words->end);
        free(words->count);
        free(words->slot);
        free(words);
    }
}

size_t fedtrain_vocabulary_size(const fedtrain_vocabulary *words) {
    return words->size;
}

const char *fedtrain_vocabulary_word(const fedtrain_vocabulary *words, uint32_t id, size_t *len) {
    size_t start = id == 0 ? 0 : words->end[id - 1];
    *len = words->end[id] - start;
    return (const char *)words->bytes.data + start;
}

/* Return the slot that holds the word, or the free slot where the word belongs. The table is never
 * full. */
static uint32_t *find_slot(const fedtrain_vocabulary *words, const char *word, size_t len) {
    uint32_t mask = 2 * words->cap - 1;
    uint32_t at = (uint32_t)fed_digest_bytes(word, len) & mask;
    while (words->slot[at] != 0) {
        size_t other_len;
        const char *other = fedtrain_vocabulary_word(words, words->slot[at] - 1, &other_len);
        if (other_len == len && memcmp(other, word, len) == 0) {
            break;
        }
        at = (at + 1) & mask;
    }
    return &words->slot[at];
}

uint32_t fedtrain_vocabulary_find(const fedtrain_vocabulary *words, const char *word, size_t len) {
    uint32_t found = words->cap > 0 ? *find_slot(words, word, len) : 0;
    return found != 0 ? found - 1 : words->unknown;
}

static fed_status grow(fedtrain_vocabulary *words) {
    FED_REQUIRE(words->cap < UINT32_MAX / 8, FED_ERANGE);
    uint32_t cap = words->cap > 0 ? 2 * words->cap : CAP_FIRST;
    uint32_t *end = realloc(words->end, cap * sizeof *end);
    words->end = end != NULL ? end : words->end;
    uint32_t *count = realloc(words->count, cap * sizeof *count);
    words->count = count != NULL ? count : words->count;
    uint32_t *slot = calloc(2 * (size_t)cap, sizeof *slot);
    if (end == NULL || count == NULL || slot == NULL) {
        free(slot);
        return FED_ENOMEM;
    }
    free(words->slot);
    words->slot = slot;
    words->cap = cap;
    for (uint32_t id = 0; id < words->size; id++) {
        size_t len;
        const char *word = fedtrain_vocabulary_word(words, id, &len);
        *find_slot(words, word, len) = id + 1;
    }
    return FED_OK;
}

fed_status fedtrain_vocabulary_count(fedtrain_vocabulary *words, const char *word, size_t len,
                                     uint32_t *id) {
    if (words->size == words->cap) {
        FED_TRY(grow(words));
    }
    uint32_t *slot = find_slot(words, word, len);
    if (*slot == 0) {
        FED_REQUIRE(words->bytes.len + len < UINT32_MAX, FED_ERANGE);
        fed_write_bytes(&words->bytes, word, len);
        FED_TRY(words->bytes.status);
        words->end[words->size] = (uint32_t)words->bytes.len;
        words->count[words->size] = 0;
        *slot = ++words->size;
        if (len == strlen(UNKNOWN) && memcmp(word, UNKNOWN, len) == 0) {
            words->unknown = *slot - 1;
        }
    }
    *id = *slot - 1;
    words->count[*id]++;
    return FED_OK;
}

typedef struct entry {
    const char *word;
    size_t len;
    uint32_t count;
} entry;

static int compare_entries(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    int by_bytes = memcmp(x->word, y->word, x->len < y->len ? x->len : y->len);
    return by_bytes != 0 ? by_bytes : (x->len > y->len) - (x->len < y->len);
}

/* Number the words of the first n entries, `most` at the most. If <unk> is not among them, it
 * becomes the last word. */
static fed_status number(const entry *entries, size_t n, size_t most, fedtrain_vocabulary *words) {
    uint32_t id;
    for (size_t i = 0; i < n && words->size + (words->unknown == NONE) < most; i++) {
        FED_TRY(fedtrain_vocabulary_count(words, entries[i].word, entries[i].len, &id));
        words->count[id] = entries[i].count;
    }
    if (words->unknown == NONE) {
        FED_TRY(fedtrain_vocabulary_count(words, UNKNOWN, strlen(UNKNOWN), &id));
        words->count[id] = 0;
    }
    return FED_OK;
}

fed_status fedtrain_vocabulary_sort(const fedtrain_vocabulary *counted, size_t most,
                                    fedtrain_vocabulary **words) {
    entry *entries = malloc((counted->size + (size_t)1) * sizeof *entries);
    FED_REQUIRE(entries != NULL, FED_ENOMEM);
    for (uint32_t id = 0; id < counted->size; id++) {
        entries[id].word = fedtrain_vocabulary_word(counted, id, &entries[id].len);
        entries[id].count = counted->count[id];
    }
    qsort(entries, counted->size, sizeof *entries, compare_entries);
    fedtrain_vocabulary *sorted = NULL;
    fed_status status = fedtrain_vocabulary_new(&sorted);
    if (status == FED_OK) {
        status = number(entries, counted->size, most, sorted);
    }
    free(entries);
    if (status != FED_OK) {
        fedtrain_vocabulary_free(sorted);
        return status;
    }
    *words = sorted;
    return FED_OK;
}
