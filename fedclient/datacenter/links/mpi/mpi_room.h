/* Memory blocks for messages of link mpi. Sizes are powers of two, and blocks are used again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MPI_ROOM_H
#define FEDDC_MPI_ROOM_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FEDDC_MPI_ALIGN = 64, FEDDC_MPI_CLASSES = 32 };

/** A block for one message. The message's frame lies directly before its payload. */
typedef struct feddc_mpi_block {
    struct feddc_mpi_block *next; /* next in a list of free blocks or of a peer's messages */
    struct feddc_mpi_block *all;
    uint32_t size_class, peer;
    size_t len;
    bool complete;
    /* the message's frame lies in the last bytes of this array */
    alignas(FEDDC_MPI_ALIGN) uint8_t frame[FEDDC_MPI_ALIGN];
    uint8_t payload[];
} feddc_mpi_block;

typedef struct feddc_mpi_room {
    feddc_mpi_block *free[FEDDC_MPI_CLASSES];
    feddc_mpi_block *all;
} feddc_mpi_room;

/** A block for len bytes of payload, len <= INT32_MAX. NULL: out of memory. */
feddc_mpi_block *feddc_mpi_room_take(feddc_mpi_room *room, size_t len);
void feddc_mpi_room_give(feddc_mpi_room *room, feddc_mpi_block *block);

/** Free all blocks, also those not given back. */
void feddc_mpi_room_close(feddc_mpi_room *room);

#endif
