/* The items that a split deals to clients: shards of equal size, and a sort by label. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/items.h"

#include <string.h>

#include "fedtrain/dataset.h"

void fedtrain_share_evenly(const fedtrain_partition *partition, size_t count) {
    partition->start[0] = 0;
    for (uint32_t k = 0; k < partition->clients; k++) {
        partition->start[k + 1] =
            partition->start[k] + count / partition->clients + (k < count % partition->clients);
    }
}

void fedtrain_sort_by_label(const fedtrain_items *items, uint32_t *order, size_t *start) {
    memset(start, 0, (items->classes + 1) * sizeof *start);
    for (size_t i = 0; i < items->count; i++) {
        start[items->label[i] + 1]++;
    }
    for (size_t c = 0; c < items->classes; c++) {
        start[c + 1] += start[c];
    }
    size_t next[FEDTRAIN_CLASSES];
    memcpy(next, start, items->classes * sizeof *next);
    for (size_t i = 0; i < items->count; i++) {
        order[next[items->label[i]]++] = (uint32_t)i;
    }
}
