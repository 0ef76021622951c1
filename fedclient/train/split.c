/* Splits a dataset among clients: evenly shuffled, or two classes a client. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"
#include "fedtrain/dataset.h"

/* Streams of the seed that nothing else uses. */
static const uint32_t SPLIT_STREAM = 0x73706c74; /* "splt" */

fed_status fedtrain_split_parse(const char *name, fedtrain_split *split, fed_error *err) {
    if (strcmp(name, "iid") == 0) {
        *split = FEDTRAIN_SPLIT_IID;
    } else if (strcmp(name, "two-class") == 0) {
        *split = FEDTRAIN_SPLIT_TWO_CLASS;
    } else {
        return fed_fail(err, FED_EINVAL, "unknown split \"%s\": write iid or two-class", name);
    }
    return FED_OK;
}

static void fill_identity(uint32_t *index, size_t n) {
    for (size_t i = 0; i < n; i++) {
        index[i] = (uint32_t)i;
    }
}

/* A shuffled deck, dealt one card at a time: client k gets cards k, k + clients, ... */
static fed_status take_iid(const fedtrain_dataset *set, uint32_t clients, uint32_t k, fed_rng *rng,
                           fedtrain_shard *shard) {
    uint32_t *deck = malloc(set->count * sizeof *deck);
    size_t count = (set->count - k + clients - 1) / clients;
    uint32_t *hand = malloc(count * sizeof *hand);
    if (deck == NULL || hand == NULL) {
        free(deck);
        free(hand);
        return FED_ENOMEM;
    }
    fill_identity(deck, set->count);
    fed_rng_shuffle(rng, deck, set->count);
    for (size_t i = 0; i < count; i++) {
        hand[i] = deck[k + i * clients];
    }
    free(deck);
    *shard = (fedtrain_shard){.index = hand, .count = count};
    return FED_OK;
}

/* Where piece p of `pieces` begins among n samples: pieces differ by one sample at most. */
static size_t piece_start(size_t n, size_t pieces, size_t p) {
    return n / pieces * p + n % pieces * p / pieces;
}

/* Append samples first .. last - 1 of the order by label (ties in file order). */
static void append_by_label(const fedtrain_dataset *set, size_t first, size_t last,
                            fedtrain_shard *shard) {
    size_t start[257] = {0}; /* of each label in that order */
    for (size_t i = 0; i < set->count; i++) {
        start[set->label[i] + 1]++;
    }
    for (size_t l = 0; l < 256; l++) {
        start[l + 1] += start[l];
    }
    for (size_t i = 0; i < set->count; i++) {
        size_t place = start[set->label[i]]++;
        if (place >= first && place < last) {
            shard->index[shard->count + place - first] = (uint32_t)i;
        }
    }
    shard->count += last - first;
}

static fed_status take_two_class(const fedtrain_dataset *set, uint32_t clients, uint32_t k,
                                 fed_rng *rng, fedtrain_shard *shard) {
    size_t pieces = 2 * (size_t)clients;
    fedtrain_shard taken = {.index = malloc(2 * (set->count / pieces + 1) * sizeof *taken.index)};
    uint32_t *order = malloc(pieces * sizeof *order);
    if (taken.index == NULL || order == NULL) {
        free(taken.index);
        free(order);
        return FED_ENOMEM;
    }
    fill_identity(order, pieces);
    fed_rng_shuffle(rng, order, pieces);
    for (size_t i = 2 * (size_t)k; i < 2 * (size_t)k + 2; i++) {
        append_by_label(set, piece_start(set->count, pieces, order[i]),
                        piece_start(set->count, pieces, (size_t)order[i] + 1), &taken);
    }
    free(order);
    *shard = taken;
    return FED_OK;
}

fed_status fedtrain_shard_take(const fedtrain_dataset *set, fedtrain_split split, uint32_t clients,
                               uint32_t k, uint64_t seed, fedtrain_shard *shard, fed_error *err) {
    if (clients == 0 || k >= clients) {
        return fed_fail(err, FED_EINVAL, "no client %" PRIu32 " among %" PRIu32 ": count from 0", k,
                        clients);
    }
    if (clients > set->count / 2) {
        return fed_fail(err, FED_EINVAL,
                        "%" PRIu32 " clients can't share %zu samples: each needs two at least",
                        clients, set->count);
    }
    fed_rng rng;
    fed_rng_init(&rng, seed, SPLIT_STREAM, (uint32_t)split);
    fed_status status = split == FEDTRAIN_SPLIT_TWO_CLASS
                            ? take_two_class(set, clients, k, &rng, shard)
                            : take_iid(set, clients, k, &rng, shard);
    if (status != FED_OK) {
        return fed_fail(err, status, "no memory for a split of %zu samples", set->count);
    }
    return FED_OK;
}

void fedtrain_shard_free(fedtrain_shard *shard) {
    free(shard->index);
    *shard = (fedtrain_shard){0};
}
