/* Memory blocks for messages of link mpi, with a free list for each size. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/mpi/mpi_room.h"

#include <stdlib.h>

enum { SMALLEST = 12 }; /* 4 KiB */

feddc_mpi_block *feddc_mpi_room_take(feddc_mpi_room *room, size_t len) {
    uint32_t size_class = SMALLEST;
    while (len > (size_t)1 << size_class) {
        size_class++;
    }
    feddc_mpi_block *block = room->free[size_class];
    if (block != NULL) {
        room->free[size_class] = block->next;
    } else {
        block = aligned_alloc(FEDDC_MPI_ALIGN, sizeof *block + ((size_t)1 << size_class));
        if (block == NULL) {
            return NULL;
        }
        block->all = room->all;
        block->size_class = size_class;
        room->all = block;
    }
    block->next = NULL;
    block->len = len;
    block->complete = false;
    return block;
}

void feddc_mpi_room_give(feddc_mpi_room *room, feddc_mpi_block *block) {
    block->next = room->free[block->size_class];
    room->free[block->size_class] = block;
}

void feddc_mpi_room_close(feddc_mpi_room *room) {
    while (room->all != NULL) {
        feddc_mpi_block *block = room->all;
        room->all = block->all;
        free(block);
    }
}
