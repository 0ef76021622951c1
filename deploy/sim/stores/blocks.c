/* An allocator of blocks: first in memory, and once that is used up, in a sparse file. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* for MAP_ANONYMOUS and madvise */
#include "deploy/sim/stores/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fed/hash.h"

_Static_assert(sizeof(sim_block) == 64, "blocks are aligned for vectors");

/** Round a size up to the next size that blocks have; *class becomes that size's number. */
static uint64_t round_up(uint64_t size, unsigned *class) {
    uint64_t unit = sizeof(sim_block);
    unsigned doubled = 0;
    for (; 8 * unit < size; doubled++) {
        unit *= 2;
    }
    uint64_t count = (size + unit - 1) / unit;
    *class = 8 * doubled + (unsigned)count - 1;
    return count * unit;
}

sim_block *sim_blocks_at(const sim_blocks *blocks, uint64_t offset) {
    return (sim_block *)(void *)(blocks->base + offset);
}

uint64_t sim_blocks_offset(const sim_blocks *blocks, const sim_block *block) {
    return (uint64_t)((const uint8_t *)block - blocks->base);
}

sim_block *sim_block_of(void *data) {
    return (sim_block *)data - 1;
}

/** Map plain memory over the first bytes after the file's first page, with large pages if possible.
 * If the system refuses, they stay mapped to the file. */
static void overlay(sim_blocks *blocks, size_t memory) {
    memory -= memory % SIM_BLOCKS_PAGE;
    memory = memory < blocks->limit ? memory : blocks->limit;
    if (memory <= SIM_BLOCKS_PAGE) {
        return;
    }
    void *front =
        mmap(blocks->base + SIM_BLOCKS_PAGE, memory - SIM_BLOCKS_PAGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (front != MAP_FAILED) {
        (void)madvise(front, memory - SIM_BLOCKS_PAGE, MADV_HUGEPAGE);
        blocks->memory = memory;
    }
}

fed_status sim_blocks_open(sim_blocks *blocks, int fd, size_t memory, fed_error *err) {
    *blocks = (sim_blocks){.fd = fd, .end = SIM_BLOCKS_PAGE};
    void *base = MAP_FAILED;
    /* Reserve as many addresses as possible, as they cost nothing. A process may have a limit. */
    for (blocks->limit = (size_t)1 << (sizeof(size_t) == 8 ? 40 : 30);
         base == MAP_FAILED && blocks->limit > 1 << 20;) {
        base = mmap(NULL, blocks->limit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        blocks->limit /= base == MAP_FAILED ? 2 : 1;
    }
    if (base == MAP_FAILED) {
        int why = errno;
        close(fd);
        return fed_fail(err, FED_ENOMEM, "can't map the clients' stores: %s", strerror(why));
    }
    blocks->base = base;
    overlay(blocks, memory);
    pthread_mutex_init(&blocks->mutex, NULL);
    return FED_OK;
}

void sim_blocks_close(sim_blocks *blocks) {
    if (blocks->base != NULL) {
        (void)munmap(blocks->base, blocks->limit);
        close(blocks->fd);
        pthread_mutex_destroy(&blocks->mutex);
    }
    *blocks = (sim_blocks){0};
}

/** Allocate the file's bytes up to `end` on the disk. Otherwise a full disk would kill the process
 * with a signal at a write to the mapping. Rounds up to the next MiB, as each call is slow. */
static bool allocate(sim_blocks *blocks, uint64_t end) {
    enum { STEP = 1 << 20 };
    int failed = 0;
    uint64_t begin = blocks->memory > blocks->allocated ? blocks->memory : blocks->allocated;
    if (end > begin) {
        end += STEP - end % STEP;
        do {
            failed = posix_fallocate(blocks->fd, (off_t)begin, (off_t)(end - begin));
        } while (failed == EINTR);
        blocks->allocated = failed == 0 ? end : blocks->allocated;
    }
    return failed == 0;
}

static uint64_t grow(sim_blocks *blocks, uint64_t size) {
    const uint64_t offset = blocks->end;
    if (size > blocks->limit - offset || !allocate(blocks, offset + size)) {
        return 0;
    }
    blocks->end += size;
    sim_blocks_at(blocks, offset)->size = size;
    return offset;
}

sim_block *sim_blocks_take(sim_blocks *blocks, size_t len) {
    unsigned class = 0;
    if (len > blocks->limit / 2) {
        return NULL;
    }
    const uint64_t size = round_up(len + sizeof(sim_block), &class);
    pthread_mutex_lock(&blocks->mutex);
    uint64_t offset = blocks->free[class];
    if (offset != 0) {
        blocks->free[class] = sim_blocks_at(blocks, offset)->next;
    } else {
        offset = grow(blocks, size);
    }
    pthread_mutex_unlock(&blocks->mutex);
    if (offset == 0) {
        return NULL;
    }
    sim_block *block = sim_blocks_at(blocks, offset);
    block->len = len;
    block->holders = 1;
    return block;
}

void sim_blocks_give_back(sim_blocks *blocks, sim_block *block) {
    unsigned class = 0;
    (void)round_up(block->size, &class);
    block->len = 0;
    block->holders = 0;
    pthread_mutex_lock(&blocks->mutex);
    block->next = blocks->free[class];
    blocks->free[class] = sim_blocks_offset(blocks, block);
    pthread_mutex_unlock(&blocks->mutex);
}

static uint64_t memory_end(const sim_blocks *blocks) {
    return blocks->end < blocks->memory ? blocks->end : blocks->memory;
}

static uint64_t digest_of(const sim_block *block) {
    const size_t own = sizeof block->digest;
    return fed_digest_bytes((const uint8_t *)block + own, sizeof *block - own + block->len);
}

fed_status sim_blocks_save(sim_blocks *blocks) {
    for (uint64_t at = SIM_BLOCKS_PAGE; at < blocks->end;) {
        sim_block *block = sim_blocks_at(blocks, at);
        block->digest = digest_of(block);
        at += block->size;
    }
    const uint64_t end = memory_end(blocks);
    for (uint64_t at = SIM_BLOCKS_PAGE; at < end;) {
        ssize_t n = pwrite(blocks->fd, blocks->base + at, (size_t)(end - at), (off_t)at);
        FED_REQUIRE(n > 0, n < 0 && errno == ENOSPC ? FED_ENOSPC : FED_EIO);
        at += (uint64_t)n;
    }
    const bool done =
        ftruncate(blocks->fd, (off_t)blocks->end) == 0 &&
        (blocks->end <= blocks->memory ||
         msync(blocks->base + blocks->memory, blocks->end - blocks->memory, MS_SYNC) == 0) &&
        fsync(blocks->fd) == 0;
    blocks->allocated = blocks->end;
    return done ? FED_OK : FED_EIO;
}

fed_status sim_blocks_load(sim_blocks *blocks, uint64_t end) {
    blocks->end = blocks->allocated = end;
    for (uint64_t at = SIM_BLOCKS_PAGE; at < memory_end(blocks);) {
        ssize_t n =
            pread(blocks->fd, blocks->base + at, (size_t)(memory_end(blocks) - at), (off_t)at);
        FED_REQUIRE(n > 0, n < 0 ? FED_EIO : FED_EFORMAT);
        at += (uint64_t)n;
    }
    for (uint64_t at = SIM_BLOCKS_PAGE; at < end;) {
        sim_block *block = sim_blocks_at(blocks, at);
        FED_REQUIRE(sizeof *block <= end - at && sizeof *block <= block->size &&
                        block->size <= end - at && block->len <= block->size - sizeof *block &&
                        block->digest == digest_of(block),
                    FED_EFORMAT);
        if (block->holders == 0) {
            sim_blocks_give_back(blocks, block);
        }
        at += block->size;
    }
    return FED_OK;
}
