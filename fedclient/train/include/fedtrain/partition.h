/* A partition of samples among clients, which is the result of a split. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_PARTITION_H
#define FEDTRAIN_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/** Which samples one client holds. */
typedef struct fedtrain_shard {
    uint32_t *index; /* uint32[count], into the dataset, or a text's units */
    size_t count;
} fedtrain_shard;

/** Everybody's shards: client k holds index[start[k]] to index[start[k + 1] - 1]. */
typedef struct fedtrain_partition {
    uint32_t clients;
    uint32_t *index; /* uint32[number of samples] */
    size_t *start;   /* size_t[clients + 1] */
} fedtrain_partition;

/** Client k's part, a view that lives as long as the partition. */
fedtrain_shard fedtrain_partition_shard(const fedtrain_partition *partition, uint32_t k);
void fedtrain_partition_free(fedtrain_partition *partition);

/** Of a shard that is the caller's own. */
void fedtrain_shard_free(fedtrain_shard *shard);

FED_API_END

#endif
