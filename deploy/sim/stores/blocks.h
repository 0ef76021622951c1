/* Blocks of memory, and of a sparse file where memory ends: the system may write the file's to the
 * disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_BLOCKS_H
#define FEDSIM_BLOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/error.h"

/*
 * The file is mapped once, for all the room that it may ever take. It grows after its first page,
 * which is the owner's. A block stays where it is. The first `memory` bytes after that page are
 * plain memory until they are saved: a page of a file costs a fault each time that the system has
 * written it to the disk. Sizes are rounded up to one of eight between a power of two and the next,
 * so that a block that was given back fits the next request for about as much. The last block given
 * back is taken first, while it is still in a processor's cache.
 */

enum { SIM_BLOCKS_PAGE = 4096, SIM_BLOCKS_CLASSES = 8 * 40 };

typedef struct sim_blocks {
    int fd;
    uint8_t *base; /* of the mapping */
    size_t limit;  /* its length */
    size_t memory; /* from the second page up to here it is plain memory; at most a page: none is */
    pthread_mutex_t mutex;
    uint64_t end;                      /* of the blocks; a multiple of a page */
    uint64_t free[SIM_BLOCKS_CLASSES]; /* offsets of the first one of each size; 0: none */
} sim_blocks;

/** Map an open file, with so many bytes of memory before it (rounded down to whole pages; 0: none).
 * There are no blocks yet. Owner: sim_blocks_close, which closes fd, too; so does a failure. */
fed_status sim_blocks_open(sim_blocks *blocks, int fd, size_t memory, fed_error *err) FED_CHECKED;
void sim_blocks_close(sim_blocks *blocks);

/** A block of at least len bytes, aligned for vectors, with arbitrary content; NULL: no room on the
 * disk. *fresh (may be NULL) becomes true where the block was never used, so that it is all 0. */
void *sim_blocks_take(sim_blocks *blocks, size_t len, bool *fresh);
void sim_blocks_give_back(sim_blocks *blocks, void *block);

/** Where a block lies in the file. And the block at an offset, if at least len bytes of one lie
 * there; else NULL. */
uint64_t sim_blocks_offset(const sim_blocks *blocks, const void *block);
void *sim_blocks_at(const sim_blocks *blocks, uint64_t offset, size_t len);

/** Write len bytes to the file, or read them, from offset `at` on; not through the mapping.
 * FED_EIO; FED_ENOSPC; FED_EFORMAT the file ends before. */
fed_status sim_blocks_write(const sim_blocks *blocks, const void *data, size_t len,
                            uint64_t at) FED_CHECKED;
fed_status sim_blocks_read(const sim_blocks *blocks, void *data, size_t len,
                           uint64_t at) FED_CHECKED;

/** Write what is in memory into the file, and sync the file. FED_EIO, FED_ENOSPC. And back: read a
 * file's blocks, which end at `end`. FED_EFORMAT the file is too short. */
fed_status sim_blocks_save(const sim_blocks *blocks) FED_CHECKED;
fed_status sim_blocks_load(sim_blocks *blocks, uint64_t end) FED_CHECKED;

/** Write the list of free blocks; and read it. FED_EFORMAT: one of them can't be there. */
void sim_blocks_write_free(const sim_blocks *blocks, fed_writer *w);
fed_status sim_blocks_read_free(sim_blocks *blocks, fed_reader *r) FED_CHECKED;

#endif
