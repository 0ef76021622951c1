/* Blocks of memory, and of a sparse file where memory ends: the system may write the file's to the
 * disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_BLOCKS_H
#define FEDSIM_BLOCKS_H

#include <pthread.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * The file is mapped once, for all the room that it may ever take. It grows after its first page,
 * which is the owner's. A block stays where it is. The first `memory` bytes after that page are
 * plain memory until they are saved: a page of a file costs a fault each time that the system has
 * written it to the disk. Sizes are rounded up to one of eight between a power of two and the next,
 * so that a block that was given back fits the next request for about as much. The last block given
 * back is taken first, while it is still in a processor's cache.
 */

enum { SIM_BLOCKS_PAGE = 4096, SIM_BLOCKS_CLASSES = 8 * 40, SIM_BLOCK_KEY = 24 };

/** A block, named by its offset in the file; 0 is none. `next` is that of a free one of the same
 * size; of others it is the owner's, as holders and key are. */
typedef struct sim_block {
    uint64_t digest; /* of all that follows, when it was saved */
    uint64_t size;   /* with this head: one of the sizes that there are */
    uint64_t len;    /* bytes of data */
    uint64_t next;
    uint64_t holders; /* 0: it is free */
    char key[SIM_BLOCK_KEY];
    uint8_t data[]; /* aligned for vectors */
} sim_block;

typedef struct sim_blocks {
    int fd;
    uint8_t *base; /* of the mapping */
    size_t limit;  /* its length */
    size_t memory; /* from the second page up to here it is plain memory; at most a page: none is */
    pthread_mutex_t mutex;
    uint64_t end;                      /* of the blocks */
    uint64_t allocated;                /* the disk has the file up to here */
    uint64_t free[SIM_BLOCKS_CLASSES]; /* the first one of each size */
} sim_blocks;

/** Map an open file, with so many bytes of memory before it (rounded down to whole pages; 0: none).
 * There are no blocks yet. Owner: sim_blocks_close, which closes fd, too; so does a failure. */
fed_status sim_blocks_open(sim_blocks *blocks, int fd, size_t memory, fed_error *err) FED_CHECKED;
void sim_blocks_close(sim_blocks *blocks);

/** A block for len bytes, of arbitrary content, with one holder; NULL: no room on the disk. */
sim_block *sim_blocks_take(sim_blocks *blocks, size_t len);
void sim_blocks_give_back(sim_blocks *blocks, sim_block *block);

/** The block at an offset, the offset of a block, and the block of data. */
sim_block *sim_blocks_at(const sim_blocks *blocks, uint64_t offset);
uint64_t sim_blocks_offset(const sim_blocks *blocks, const sim_block *block);
sim_block *sim_block_of(void *data);

/** Write all blocks into the file with their digests, and sync the file. FED_EIO, FED_ENOSPC. */
fed_status sim_blocks_save(sim_blocks *blocks) FED_CHECKED;
/** Read a file's blocks, which end at `end`. FED_EFORMAT: the file is too short, or damaged. */
fed_status sim_blocks_load(sim_blocks *blocks, uint64_t end) FED_CHECKED;

#endif
