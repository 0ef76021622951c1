/* Blocks of memory, and of a sparse file where memory ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "deploy/sim/stores/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The head of each block, in the file. */
typedef struct block_head {
    uint64_t size; /* with this head: one of the sizes that there are */
    uint64_t next; /* offset of the next free one of that size */
    uint64_t unused[6];
} block_head;

_Static_assert(sizeof(block_head) == 64, "blocks are aligned for vectors");

/** The smallest size of a block that is at least so large; *class becomes its number. */
static uint64_t round_up(uint64_t size, unsigned *class) {
    uint64_t unit = SIM_BLOCKS_PAGE;
    unsigned doubled = 0;
    for (; 8 * unit < size; doubled++) {
        unit *= 2;
    }
    uint64_t count = (size + unit - 1) / unit;
    *class = 8 * doubled + (unsigned)count - 1;
    return count * unit;
}

static block_head *head_at(const sim_blocks *blocks, uint64_t offset) {
    return (block_head *)(void *)(blocks->base + offset);
}

/** Map memory over the file's first bytes. Where the system has none, they stay the file's. Large
 * pages, as clients' state is written from one end to the other. */
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
    /* Addresses cost nothing, but a process may be allowed only so many. */
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

/** The disk must have the file's part of it now: writing to a mapping can't fail but by a signal.
 */
static bool allocate(const sim_blocks *blocks, uint64_t offset, uint64_t end) {
    int failed = 0;
    offset = offset > blocks->memory ? offset : blocks->memory;
    if (offset < end) {
        do {
            failed = posix_fallocate(blocks->fd, (off_t)offset, (off_t)(end - offset));
        } while (failed == EINTR);
    }
    return failed == 0;
}

/** A new block after the last one. */
static uint64_t grow(sim_blocks *blocks, uint64_t size) {
    const uint64_t offset = blocks->end;
    if (size > blocks->limit - offset || !allocate(blocks, offset, offset + size)) {
        return 0;
    }
    blocks->end += size;
    head_at(blocks, offset)->size = size;
    return offset;
}

void *sim_blocks_take(sim_blocks *blocks, size_t len, bool *fresh) {
    unsigned class = 0;
    if (len > blocks->limit / 2) {
        return NULL;
    }
    const uint64_t size = round_up(len + sizeof(block_head), &class);
    pthread_mutex_lock(&blocks->mutex);
    uint64_t offset = blocks->free[class];
    if (fresh != NULL) {
        *fresh = offset == 0;
    }
    if (offset != 0) {
        blocks->free[class] = head_at(blocks, offset)->next;
    } else {
        offset = grow(blocks, size);
    }
    pthread_mutex_unlock(&blocks->mutex);
    return offset != 0 ? head_at(blocks, offset) + 1 : NULL;
}

void sim_blocks_give_back(sim_blocks *blocks, void *block) {
    if (block == NULL) {
        return;
    }
    block_head *head = (block_head *)block - 1;
    unsigned class = 0;
    (void)round_up(head->size, &class);
    pthread_mutex_lock(&blocks->mutex);
    head->next = blocks->free[class];
    blocks->free[class] = (uint64_t)((uint8_t *)head - blocks->base);
    pthread_mutex_unlock(&blocks->mutex);
}

uint64_t sim_blocks_offset(const sim_blocks *blocks, const void *block) {
    return (uint64_t)((const uint8_t *)block - blocks->base);
}

void *sim_blocks_at(const sim_blocks *blocks, uint64_t offset, size_t len) {
    unsigned class = 0;
    const uint64_t begin = offset - sizeof(block_head);
    if (offset < SIM_BLOCKS_PAGE + sizeof(block_head) || begin % SIM_BLOCKS_PAGE != 0 ||
        begin >= blocks->end) {
        return NULL;
    }
    const block_head *head = head_at(blocks, begin);
    bool sound = head->size <= blocks->end - begin && head->size >= sizeof *head &&
                 round_up(head->size, &class) == head->size && len <= head->size - sizeof *head;
    return sound ? blocks->base + offset : NULL;
}

/** Where the blocks in memory end. */
static uint64_t memory_end(const sim_blocks *blocks) {
    return blocks->end < blocks->memory ? blocks->end : blocks->memory;
}

fed_status sim_blocks_write(const sim_blocks *blocks, const void *data, size_t len, uint64_t at) {
    for (size_t done = 0; done < len;) {
        ssize_t n =
            pwrite(blocks->fd, (const uint8_t *)data + done, len - done, (off_t)(at + done));
        FED_REQUIRE(n > 0, n < 0 && errno == ENOSPC ? FED_ENOSPC : FED_EIO);
        done += (size_t)n;
    }
    return FED_OK;
}

fed_status sim_blocks_read(const sim_blocks *blocks, void *data, size_t len, uint64_t at) {
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(blocks->fd, (uint8_t *)data + done, len - done, (off_t)(at + done));
        FED_REQUIRE(n > 0, n < 0 ? FED_EIO : FED_EFORMAT);
        done += (size_t)n;
    }
    return FED_OK;
}

fed_status sim_blocks_save(const sim_blocks *blocks) {
    const uint64_t end = memory_end(blocks);
    FED_TRY(sim_blocks_write(blocks, blocks->base + SIM_BLOCKS_PAGE,
                             end > SIM_BLOCKS_PAGE ? (size_t)(end - SIM_BLOCKS_PAGE) : 0,
                             SIM_BLOCKS_PAGE));
    const bool done =
        (blocks->end <= blocks->memory ||
         msync(blocks->base + blocks->memory, blocks->end - blocks->memory, MS_SYNC) == 0) &&
        fsync(blocks->fd) == 0;
    return done ? FED_OK : FED_EIO;
}

fed_status sim_blocks_load(sim_blocks *blocks, uint64_t end) {
    blocks->end = end;
    end = memory_end(blocks);
    return sim_blocks_read(blocks, blocks->base + SIM_BLOCKS_PAGE,
                           end > SIM_BLOCKS_PAGE ? (size_t)(end - SIM_BLOCKS_PAGE) : 0,
                           SIM_BLOCKS_PAGE);
}

void sim_blocks_write_free(const sim_blocks *blocks, fed_writer *w) {
    for (size_t class = 0; class < SIM_BLOCKS_CLASSES; class ++) {
        uint64_t at = blocks->free[class];
        for (; at != 0; at = head_at(blocks, at)->next) {
            fed_write_u64(w, at);
        }
    }
    fed_write_u64(w, 0);
}

fed_status sim_blocks_read_free(sim_blocks *blocks, fed_reader *r) {
    for (uint64_t at = fed_read_u64(r); at != 0; at = fed_read_u64(r)) {
        void *block = sim_blocks_at(blocks, at + sizeof(block_head), 0);
        FED_REQUIRE(block != NULL, FED_EFORMAT);
        sim_blocks_give_back(blocks, block);
    }
    return r->status;
}
