/* Dividing a data set among clients, between opening the data and training. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_SPLIT_H
#define FEDTRAIN_SPLIT_H

#include "fed/api.h"
#include "fedtrain/dataset.h"
#include "fedtrain/partition.h"
#include "fedtrain/text.h"

FED_API_BEGIN

/*
 * A split is written as a spec string:
 *
 *   iid                   samples are shuffled and dealt out: shards differ by one sample at most.
 *   classes:k=2           k classes a client: the samples sorted by label are cut into k * clients
 *                         equal pieces, and each client gets k random ones (McMahan et al. 2017,
 *                         section 3). A piece may straddle a border, so a few clients see more than
 *                         k classes. "two-class" is another name for k = 2. k is 1 to the number of
 *                         classes; shards differ by k samples at most.
 *   dirichlet:alpha=0.5   each client draws a mix of classes from a symmetric Dirichlet
 *                         distribution, with alpha for each class (Hsu et al. 2019; their alpha is
 *                         ours times the number of classes), and shards are equal as in iid. One
 *                         client after the other draws a class from its mix, and takes a random
 *                         sample of it; classes without samples left are no longer drawn. Small
 *                         alpha: few classes a client; large alpha: iid. 0.001 to 1000.
 *   quantity:alpha=0.5    shards of unequal sizes: samples are shuffled, and the clients' shares of
 *                         them are drawn from a symmetric Dirichlet distribution with this alpha
 *                         (Li et al. 2022, "quantity skew"). Each client has one sample at least.
 *                         Small alpha: few clients have most samples. 0.001 to 1000.
 *   group                 whole groups, such as the speakers of a play, are shuffled and dealt
 *                         out. The numbers of groups differ by one at most, the sizes of shards
 *                         very much. With as many clients as groups, each client has one speaker.
 *
 * Shards are disjoint and cover every sample. The same data, split, clients and seed give the same
 * shards on every machine: random numbers are integers of fed_rng, and no function of libm is used
 * that could round differently elsewhere.
 */

typedef struct fedtrain_split {
    enum {
        FEDTRAIN_BY_CHANCE = 0,
        FEDTRAIN_BY_CLASSES = 1,
        FEDTRAIN_BY_DIRICHLET = 2,
        FEDTRAIN_BY_GROUP = 3,
        FEDTRAIN_BY_QUANTITY = 4
    } kind;
    uint32_t k;   /* BY_CLASSES */
    double alpha; /* BY_DIRICHLET, BY_QUANTITY */
} fedtrain_split;

#define FEDTRAIN_SPLIT_IID       ((fedtrain_split){.kind = FEDTRAIN_BY_CHANCE})
#define FEDTRAIN_SPLIT_TWO_CLASS ((fedtrain_split){.kind = FEDTRAIN_BY_CLASSES, .k = 2})

/** Parse a spec. FED_EINVAL: *err says what is wrong, and what may be written. */
fed_status fedtrain_split_parse(const char *spec, fedtrain_split *split,
                                fed_error *err) FED_CHECKED;

/**
 * Split a dataset among clients. Errors: FED_EINVAL no clients; more clients than samples, pieces
 * or groups; k is 0 or over the number of classes; the data lacks the classes or groups that the
 * split needs. FED_ENOMEM. Owner: fedtrain_partition_free.
 */
fed_status fedtrain_dataset_split(const fedtrain_dataset *set, fedtrain_split split,
                                  uint32_t clients, uint64_t seed, fedtrain_partition *partition,
                                  fed_error *err) FED_CHECKED;

/** Split a text's units. Text has no classes, so the split must be iid, quantity or group. The
 * units of each shard are in the text's order. */
fed_status fedtrain_text_split(const fedtrain_text *text, fedtrain_split split, uint32_t clients,
                               uint64_t seed, fedtrain_partition *partition,
                               fed_error *err) FED_CHECKED;

/** Make client k's shard alone, as a device needs it. Errors as for fedtrain_dataset_split;
 * FED_EINVAL also if k >= clients. Owner: fedtrain_shard_free. */
fed_status fedtrain_shard_take(const fedtrain_dataset *set, fedtrain_split split, uint32_t clients,
                               uint32_t k, uint64_t seed, fedtrain_shard *shard,
                               fed_error *err) FED_CHECKED;

FED_API_END

#endif
