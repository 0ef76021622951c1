/* Launch the kernels of sparse.cl and sparse_read.cl, which write positions and find them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_SPARSE_H
#define FEDCODEC_GPU_SPARSE_H

#include "codecs/gpu/gpu_select.h"

/** What goes before the positions: a kind of codecs/prim/sparse.h, or this one. Its messages have
 * signs, and the codec writes what stands before them. */
enum { FEDCODEC_GPU_SPARSE_BARE = 3 };

#define FEDCODEC_GPU_LACKS_POSITIONS                                                               \
    "GPUs write positions with pos=golomb and pos=rice only; "                                     \
    "the processor writes the others"

/** Work memory that fedcodec_gpu_take divides into arrays. If work is NULL, it only adds up their
 * sizes. */
typedef struct fedcodec_gpu_room {
    char *work;
    size_t used;
} fedcodec_gpu_room;

static inline void *fedcodec_gpu_take(fedcodec_gpu_room *r, size_t size) {
    void *at = r->work != NULL ? r->work + r->used : NULL;
    r->used += fedcodec_gpu_round_up(size);
    return at;
}

/** The arrays from which positions are written. All pointers are GPU addresses. */
typedef struct fedcodec_gpu_positions {
    uint32_t k, each; /* the most positions of a side; work-groups for so many */
    void *message;    /* the struct message of sparse.cl */
    uint32_t *index;  /* [sides][k]: the positions, in order */
    float *value;     /* [sides][k] */
    uint32_t *tiles, *bits, *words;
    size_t word_bytes;
} fedcodec_gpu_positions;

/** Take the arrays for up to k positions below n of each side, with Golomb's parameter b or a
 * better one. */
void fedcodec_gpu_take_positions(fedcodec_gpu_room *r, uint32_t sides, size_t k, size_t n,
                                 unsigned b, fedcodec_gpu_positions *w);

/** Find the parameter b for pos=rice. The struct message must be complete but for b. */
fed_status fedcodec_gpu_find_best_b(const fedcodec_gpu_job *job, uint32_t kind,
                                    const fedcodec_gpu_positions *w) FED_CHECKED;

/** Write the values, as kind says, and the positions, and set the message's length. */
fed_status fedcodec_gpu_put_positions(const fedcodec_gpu_job *job, uint32_t kind,
                                      const fedcodec_gpu_positions *w) FED_CHECKED;

/** The arrays with which positions are read. */
typedef struct fedcodec_gpu_reading {
    uint32_t chunks; /* the most work-groups that the chunks take, 256 chunks each */
    void *message;   /* the struct message of sparse.cl */
    uint8_t *lows, *ends;
    uint32_t *codes;
    uint64_t *moved;
} fedcodec_gpu_reading;

/** Take the arrays for up to n positions in a message of up to cap bytes. */
void fedcodec_gpu_take_reading(fedcodec_gpu_room *r, size_t n, size_t cap,
                               fedcodec_gpu_reading *read);

/** Find where each chunk's codes begin, and check that all positions are below n. */
fed_status fedcodec_gpu_check_positions(const fedcodec_gpu_job *job, uint32_t n,
                                        const fedcodec_gpu_reading *r) FED_CHECKED;

#endif
