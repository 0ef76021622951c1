/* A partition of samples among clients, which is the result of a split. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_PARTITION_H
#define FEDTRAIN_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/** The samples that one client holds. */
typedef struct fedtrain_shard {
    uint32_t *index; /* uint32[count]: samples of the data set, or a text's units */
    size_t count;
} fedtrain_shard;

/** The shards of all clients: client k holds index[start[k]] to index[start[k + 1] - 1]. */
typedef struct fedtrain_partition {
    uint32_t clients;
    uint32_t *index; /* uint32[number of samples] */
    size_t *start;   /* size_t[clients + 1] */
} fedtrain_partition;

/** Client k's shard: a pointer into the partition, valid as long as the partition is. */
fedtrain_shard fedtrain_partition_shard(const fedtrain_partition *partition, uint32_t k);
void fedtrain_partition_free(fedtrain_partition *partition);

/** Free a shard that has an index array of its own, as of fedtrain_shard_take. */
void fedtrain_shard_free(fedtrain_shard *shard);

FED_API_END

#endif
