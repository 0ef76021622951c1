/* The items that a split deals to clients: samples of a data set, or units of a text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_ITEMS_H
#define FEDTRAIN_ITEMS_H

#include "fed/rng.h"
#include "fed/status.h"
#include "fedtrain/partition.h"

typedef struct fedtrain_items {
    size_t count;
    const uint8_t *label; /* uint8[count], each < classes; NULL: none */
    uint32_t classes;
    const uint32_t *group; /* uint32[count], each < groups; NULL: none */
    uint32_t groups;
} fedtrain_items;

/** Fill in partition->start for shards of equal size. If count is no multiple of the clients, the
 * first clients' shards have one item more. */
void fedtrain_share_evenly(const fedtrain_partition *partition, size_t count);

/** Fill in partition->start with shares of a symmetric Dirichlet distribution, at least one item
 * each. FED_ENOMEM. */
fed_status fedtrain_share_unequally(const fedtrain_partition *partition, size_t count, double alpha,
                                    fed_rng *rng) FED_CHECKED;

/** Fill order[count] with all items, sorted by label; items of one label keep their order. Fill
 * start[classes + 1] with the place in order where each class begins. */
void fedtrain_sort_by_label(const fedtrain_items *items, uint32_t *order, size_t *start);

/** Fill in the partition by drawing each client's mix of classes from a Dirichlet distribution
 * (fedtrain/split.h). FED_ENOMEM. */
fed_status fedtrain_split_dirichlet(const fedtrain_items *items, double alpha, fed_rng *rng,
                                    const fedtrain_partition *partition) FED_CHECKED;

#endif
