/* A partition of samples among clients: reads one client's shard, and frees the partition. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/partition.h"

#include <stdlib.h>

fedtrain_shard fedtrain_partition_shard(const fedtrain_partition *partition, uint32_t k) {
    size_t start = partition->start[k];
    return (fedtrain_shard){.index = partition->index + start,
                            .count = partition->start[k + 1] - start};
}

void fedtrain_partition_free(fedtrain_partition *partition) {
    free(partition->index);
    free(partition->start);
    *partition = (fedtrain_partition){0};
}

void fedtrain_shard_free(fedtrain_shard *shard) {
    free(shard->index);
    *shard = (fedtrain_shard){0};
}
