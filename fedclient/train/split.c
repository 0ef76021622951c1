/* Splits samples among clients: by chance, in equal shares or unequal ones, a few classes each, by
 * Dirichlet's rule, or by group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/split.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/params.h"
#include "fedclient/train/items.h"

/* The number of the stream of random numbers that only splits use. */
static const uint32_t SPLIT_STREAM = 0x73706c74; /* "splt" */

static const double ALPHA_MIN = 1e-3, ALPHA_MAX = 1e3;

/* Read the value after a key, as in "classes:k=2"; NaN if it is no number. Returns false if the
 * spec has another key. */
static bool parse_value(const char *spec, const char *key, double *value) {
    const size_t len = strlen(key);
    if (strncmp(spec, key, len) != 0) {
        return false;
    }
    if (!fed_text_number(spec + len, value)) {
        *value = (double)NAN;
    }
    return true;
}

fed_status fedtrain_split_parse(const char *spec, fedtrain_split *split, fed_error *err) {
    double value;
    if (strcmp(spec, "iid") == 0) {
        *split = FEDTRAIN_SPLIT_IID;
    } else if (strcmp(spec, "two-class") == 0) {
        *split = FEDTRAIN_SPLIT_TWO_CLASS;
    } else if (strcmp(spec, "group") == 0) {
        *split = (fedtrain_split){.kind = FEDTRAIN_BY_GROUP};
    } else if (parse_value(spec, "classes:k=", &value)) {
        if (!(value >= 1 && value <= FEDTRAIN_CLASSES) || value != (double)(uint32_t)value) {
            return fed_fail(err, FED_EINVAL, "\"%.80s\": k is a whole number from 1 to %d", spec,
                            FEDTRAIN_CLASSES);
        }
        *split = (fedtrain_split){.kind = FEDTRAIN_BY_CLASSES, .k = (uint32_t)value};
    } else if (parse_value(spec, "dirichlet:alpha=", &value) ||
               parse_value(spec, "quantity:alpha=", &value)) {
        if (!(value >= ALPHA_MIN && value <= ALPHA_MAX)) {
            return fed_fail(err, FED_EINVAL, "\"%.80s\": alpha is a number from %g to %g", spec,
                            ALPHA_MIN, ALPHA_MAX);
        }
        *split = (fedtrain_split){
            .kind = spec[0] == 'd' ? FEDTRAIN_BY_DIRICHLET : FEDTRAIN_BY_QUANTITY, .alpha = value};
    } else {
        return fed_fail(err, FED_EINVAL,
                        "unknown split \"%.80s\": write iid, classes:k=2 (or two-class), "
                        "dirichlet:alpha=0.5, quantity:alpha=0.5 or group",
                        spec);
    }
    return FED_OK;
}

static void number_items(uint32_t *index, size_t n) {
    for (size_t i = 0; i < n; i++) {
        index[i] = (uint32_t)i;
    }
}

static fed_status fill_identity(uint32_t **index, size_t n) {
    uint32_t *filled = malloc((n > 0 ? n : 1) * sizeof *filled);
    FED_REQUIRE(filled != NULL, FED_ENOMEM);
    number_items(filled, n);
    *index = filled;
    return FED_OK;
}

static fed_status split_by_chance(const fedtrain_items *items, fed_rng *rng,
                                  const fedtrain_partition *partition) {
    uint32_t *deck, *hand = partition->index;
    FED_TRY(fill_identity(&deck, items->count));
    fed_rng_shuffle(rng, deck, items->count);
    fedtrain_share_evenly(partition, items->count);
    for (uint32_t k = 0; k < partition->clients; k++) {
        for (size_t i = k; i < items->count; i += partition->clients) {
            *hand++ = deck[i];
        }
    }
    free(deck);
    return FED_OK;
}

static fed_status split_by_quantity(const fedtrain_items *items, double alpha, fed_rng *rng,
                                    const fedtrain_partition *partition) {
    number_items(partition->index, items->count);
    fed_rng_shuffle(rng, partition->index, items->count);
    return fedtrain_share_unequally(partition, items->count, alpha, rng);
}

/* Return the first sample of piece p, if n samples are cut into pieces whose sizes differ by at
 * most one. */
static size_t piece_start(size_t n, size_t pieces, size_t p) {
    return n / pieces * p + (size_t)((uint64_t)(n % pieces) * p / pieces);
}

/* The samples, sorted by label, are cut into pieces. Give k of these pieces to each client. */
static void deal_pieces(const uint32_t *sorted, size_t count, const uint32_t *piece, uint32_t k,
                        const fedtrain_partition *partition) {
    size_t pieces = (size_t)k * partition->clients, at = 0;
    for (size_t i = 0; i < pieces; i++) {
        size_t from = piece_start(count, pieces, piece[i]);
        size_t n = piece_start(count, pieces, (size_t)piece[i] + 1) - from;
        memcpy(partition->index + at, sorted + from, n * sizeof *sorted);
        if (i % k == 0) {
            partition->start[i / k] = at;
        }
        at += n;
    }
    partition->start[partition->clients] = at;
}

static fed_status split_by_classes(const fedtrain_items *items, uint32_t k, fed_rng *rng,
                                   const fedtrain_partition *partition) {
    uint32_t *sorted = malloc(items->count * sizeof *sorted), *piece = NULL;
    size_t start[FEDTRAIN_CLASSES + 1], pieces = (size_t)k * partition->clients;
    fed_status status = sorted != NULL ? fill_identity(&piece, pieces) : FED_ENOMEM;
    if (status == FED_OK) {
        fedtrain_sort_by_label(items, sorted, start);
        fed_rng_shuffle(rng, piece, pieces);
        deal_pieces(sorted, items->count, piece, k, partition);
    }
    free(sorted);
    free(piece);
    return status;
}

static fed_status split_by_group(const fedtrain_items *items, fed_rng *rng,
                                 const fedtrain_partition *partition) {
    uint32_t clients = partition->clients, *deck;
    FED_TRY(fill_identity(&deck, items->groups));
    uint32_t *owner = malloc(items->groups * sizeof *owner);
    size_t *next = calloc(clients, sizeof *next);
    fed_status status = FED_ENOMEM;
    if (owner == NULL || next == NULL) {
        goto done;
    }
    fed_rng_shuffle(rng, deck, items->groups);
    for (uint32_t i = 0; i < items->groups; i++) {
        owner[deck[i]] = i % clients;
    }
    for (size_t i = 0; i < items->count; i++) {
        next[owner[items->group[i]]]++;
    }
    partition->start[0] = 0;
    for (uint32_t k = 0; k < clients; k++) {
        partition->start[k + 1] = partition->start[k] + next[k];
        next[k] = partition->start[k];
    }
    for (size_t i = 0; i < items->count; i++) {
        partition->index[next[owner[items->group[i]]]++] = (uint32_t)i;
    }
    status = FED_OK;
done:
    free(deck);
    free(owner);
    free(next);
    return status;
}

static fed_status check_split(const fedtrain_items *items, fedtrain_split split, uint32_t clients,
                              fed_error *err) {
    bool by_label = split.kind == FEDTRAIN_BY_CLASSES || split.kind == FEDTRAIN_BY_DIRICHLET;
    bool by_group = split.kind == FEDTRAIN_BY_GROUP;
    if (clients == 0) {
        return fed_fail(err, FED_EINVAL,
                        "there are no clients to split the data among: give at least 1");
    }
    if ((by_label && items->label == NULL) || (by_group && items->group == NULL)) {
        return fed_fail(err, FED_EINVAL,
                        by_label
                            ? "the data has no classes to split it by: use another split, such "
                              "as iid"
                            : "this data names no groups, as the speakers of a play are: use "
                              "another split");
    }
    if (split.kind == FEDTRAIN_BY_CLASSES && (split.k == 0 || split.k > items->classes)) {
        return fed_fail(err, FED_EINVAL,
                        "split classes:k=%" PRIu32 ": k must be 1 to the data's %" PRIu32
                        " classes",
                        split.k, items->classes);
    }
    size_t dealt = by_group ? items->groups : items->count;
    size_t each = split.kind == FEDTRAIN_BY_CLASSES ? split.k : 1;
    if (clients > dealt / each) {
        return fed_fail(err, FED_EINVAL,
                        "%" PRIu32 " clients can't share %zu %s: each needs %zu at least", clients,
                        dealt, by_group ? "groups" : "samples", each);
    }
    return FED_OK;
}

static fed_status fill_partition(const fedtrain_items *items, fedtrain_split split, fed_rng *rng,
                                 const fedtrain_partition *partition) {
    switch (split.kind) {
    case FEDTRAIN_BY_CLASSES:
        return split_by_classes(items, split.k, rng, partition);
    case FEDTRAIN_BY_DIRICHLET:
        return fedtrain_split_dirichlet(items, split.alpha, rng, partition);
    case FEDTRAIN_BY_GROUP:
        return split_by_group(items, rng, partition);
    case FEDTRAIN_BY_QUANTITY:
        return split_by_quantity(items, split.alpha, rng, partition);
    case FEDTRAIN_BY_CHANCE:
        break;
    }
    return split_by_chance(items, rng, partition);
}

static fed_status make_partition(const fedtrain_items *items, fedtrain_split split,
                                 uint32_t clients, uint64_t seed, fedtrain_partition *partition,
                                 fed_error *err) {
    FED_TRY(check_split(items, split, clients, err));
    fedtrain_partition made = {.clients = clients,
                               .index = malloc(items->count * sizeof *made.index),
                               .start = malloc(((size_t)clients + 1) * sizeof *made.start)};
    fed_rng rng;
    fed_rng_init(&rng, seed, SPLIT_STREAM, (uint32_t)split.kind);
    fed_status status = FED_ENOMEM;
    if (made.index != NULL && made.start != NULL) {
        status = fill_partition(items, split, &rng, &made);
    }
    if (status != FED_OK) {
        fedtrain_partition_free(&made);
        return fed_fail(err, status, "out of memory for a split of %zu samples", items->count);
    }
    *partition = made;
    return FED_OK;
}

fed_status fedtrain_dataset_split(const fedtrain_dataset *set, fedtrain_split split,
                                  uint32_t clients, uint64_t seed, fedtrain_partition *partition,
                                  fed_error *err) {
    const fedtrain_items items = {
        .count = set->count, .label = set->label, .classes = set->classes};
    return make_partition(&items, split, clients, seed, partition, err);
}

static int compare_index(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

fed_status fedtrain_text_split(const fedtrain_text *text, fedtrain_split split, uint32_t clients,
                               uint64_t seed, fedtrain_partition *partition, fed_error *err) {
    const fedtrain_items items = {
        .count = text->units, .group = text->group, .groups = text->groups};
    FED_TRY(make_partition(&items, split, clients, seed, partition, err));
    for (uint32_t k = 0; k < clients; k++) {
        fedtrain_shard shard = fedtrain_partition_shard(partition, k);
        qsort(shard.index, shard.count, sizeof *shard.index, compare_index);
    }
    return FED_OK;
}

fed_status fedtrain_shard_take(const fedtrain_dataset *set, fedtrain_split split, uint32_t clients,
                               uint32_t k, uint64_t seed, fedtrain_shard *shard, fed_error *err) {
    if (k >= clients) {
        return fed_fail(err, FED_EINVAL,
                        "there is no client %" PRIu32 " among %" PRIu32
                        ": clients are numbered from 0",
                        k, clients);
    }
    fedtrain_partition all;
    FED_TRY(fedtrain_dataset_split(set, split, clients, seed, &all, err));
    fedtrain_shard view = fedtrain_partition_shard(&all, k);
    fedtrain_shard own = {.index = malloc(view.count * sizeof *own.index), .count = view.count};
    if (own.index != NULL) {
        memcpy(own.index, view.index, view.count * sizeof *own.index);
    }
    fedtrain_partition_free(&all);
    if (own.index == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a shard of %zu samples", own.count);
    }
    *shard = own;
    return FED_OK;
}
