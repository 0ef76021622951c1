/* An allocator of blocks: first in memory, and once that is used up, in a sparse file, whose pages
 * the system can write to the disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_BLOCKS_H
#define FEDSIM_BLOCKS_H

#include <pthread.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * The file is mapped once, for all the room that it may ever take, so a block never moves. The
 * first page belongs to the caller; blocks follow it. The bytes after the first page, up to offset
 * `memory`, are plain memory: only sim_blocks_save writes them into the file. Plain memory is
 * faster, because the system does not write its pages to the disk.
 *
 * A block's size is rounded up to one of at most four sizes for each power of two. So a block that
 * was given back fits later requests of about its size. The last block given back is taken first,
 * as it may still be in a processor's cache.
 */

enum { SIM_BLOCKS_PAGE = 4096, SIM_BLOCKS_CLASSES = 8 * 40, SIM_BLOCK_KEY = 24 };

/** A block, named by its offset in the file; offset 0 is no block. In a free block, `next` is the
 * next free block of the same size. In a block in use, the caller sets next and key as it likes,
 * and holders to any number but 0. */
typedef struct sim_block {
    uint64_t digest; /* digest of the members below, set by sim_blocks_save */
    uint64_t size;   /* rounded size of the block, with these members */
    uint64_t len;    /* bytes of data */
    uint64_t next;
    uint64_t holders; /* 0: the block is free */
    char key[SIM_BLOCK_KEY];
    uint8_t data[]; /* aligned for vectors */
} sim_block;

typedef struct sim_blocks {
    int fd;
    uint8_t *base; /* the mapping's address */
    size_t limit;  /* the mapping's length */
    size_t memory; /* from the second page up to this offset, the mapping is plain memory */
    pthread_mutex_t mutex;
    uint64_t end;                      /* the offset after the last block */
    uint64_t allocated;                /* the disk has room for the file up to this offset */
    uint64_t free[SIM_BLOCKS_CLASSES]; /* the first free block of each size */
} sim_blocks;

/** Map an open file, with up to `memory` bytes of plain memory, rounded down to whole pages.
 * sim_blocks_close closes fd, too. After an error fd is closed. */
fed_status sim_blocks_open(sim_blocks *blocks, int fd, size_t memory, fed_error *err) FED_CHECKED;
void sim_blocks_close(sim_blocks *blocks);

/** Take a block for len bytes, of arbitrary content, with one holder. NULL: no room. */
sim_block *sim_blocks_take(sim_blocks *blocks, size_t len);
void sim_blocks_give_back(sim_blocks *blocks, sim_block *block);

/** Return the block at an offset; the offset of a block; the block whose member data is `data`. */
sim_block *sim_blocks_at(const sim_blocks *blocks, uint64_t offset);
uint64_t sim_blocks_offset(const sim_blocks *blocks, const sim_block *block);
sim_block *sim_block_of(void *data);

/** Write all blocks into the file with their digests, and sync the file. FED_EIO, FED_ENOSPC. */
fed_status sim_blocks_save(sim_blocks *blocks) FED_CHECKED;
/** Read a file's blocks, which end at `end`. FED_EFORMAT: the file is too short, or damaged. */
fed_status sim_blocks_load(sim_blocks *blocks, uint64_t end) FED_CHECKED;

#endif
