/* Blocks of memory, and of a sparse file where memory ends: what is not in use there may go to
 * disk. */
#ifndef FEDSIM_BLOCKS_H
#define FEDSIM_BLOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/error.h"

/*
 * The file is mapped once, for all the room that it may ever take, and grows behind its first page,
 * which is the owner's. A block stays where it is. The first so many bytes behind that page are not
 * the file's until they are saved: pages of a file cost a fault each time that the system has
 * written them down. Sizes are rounded up to one of eight between a
 * power of two and the next, so that a block that was given back fits the next one who asks for
 * about as much; the last one given back goes out first, while a processor still has it.
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

/** Map an open file, with so many bytes of memory (rounded down to whole pages; 0: it is all the
 * file's). There are no blocks yet. Owner: sim_blocks_close, which closes fd as well, as a failure
 * does. */
fed_status sim_blocks_open(sim_blocks *blocks, int fd, size_t memory, fed_error *err) FED_CHECKED;
void sim_blocks_close(sim_blocks *blocks);

/** A block of len bytes at least, aligned for vectors, content arbitrary; NULL: no room on the
 * disk. *fresh (may be NULL): it was never used, so it is all 0. */
void *sim_blocks_take(sim_blocks *blocks, size_t len, bool *fresh);
void sim_blocks_give_back(sim_blocks *blocks, void *block);

/** Where a block lies in the file; and the block that lies there, once it is known that len bytes
 * of one do: else NULL. */
uint64_t sim_blocks_offset(const sim_blocks *blocks, const void *block);
void *sim_blocks_at(const sim_blocks *blocks, uint64_t offset, size_t len);

/** All of len bytes into the file from `at` on, or out of it, past the mapping. FED_EIO;
 * FED_ENOSPC; FED_EFORMAT the file ends before. */
fed_status sim_blocks_write(const sim_blocks *blocks, const void *data, size_t len,
                            uint64_t at) FED_CHECKED;
fed_status sim_blocks_read(const sim_blocks *blocks, void *data, size_t len,
                           uint64_t at) FED_CHECKED;

/** Write what is in memory into the file, and have the system write it all to the disk; and back:
 * take up a file's blocks, which end there. FED_EIO, FED_ENOSPC; FED_EFORMAT a file too short. */
fed_status sim_blocks_save(const sim_blocks *blocks) FED_CHECKED;
fed_status sim_blocks_load(sim_blocks *blocks, uint64_t end) FED_CHECKED;

/** The list of free blocks, and back: FED_EFORMAT where one of them can't be. */
void sim_blocks_write_free(const sim_blocks *blocks, fed_writer *w);
fed_status sim_blocks_read_free(sim_blocks *blocks, fed_reader *r) FED_CHECKED;

#endif
