/* Launch select.cl's kernels, which find the k values of largest magnitude. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_SELECT_H
#define FEDCODEC_GPU_SELECT_H

#include "codecs/gpu/gpu_codec_vtable.h"

/** Values of a work-item in kernels where a work-group handles a tile of 2,048 neighbouring
 * values. */
enum { FEDCODEC_GPU_EACH = 8 };

#define FEDCODEC_GPU_LACKS_FORMS                                                                   \
    "GPUs send values with values=float32 only; the processor sends the others"

/** The arrays with which a choice of values works. All pointers are GPU addresses. */
typedef struct fedcodec_gpu_choice {
    uint32_t k, sides; /* sides 1: k by magnitude; 2: k of each sign */
    uint32_t groups;   /* the number of tiles, each handled by one work-group */
    bool sampled;      /* a sample is taken first, to list candidates */
    void *chosen;      /* four structs of the type side of select.cl */
    uint32_t *bins, *totals, *flag, *tiles;
    uint32_t *found, *index; /* how many candidates each tile has; their positions */
} fedcodec_gpu_choice;

/** Return the bytes of work memory that a choice takes, a multiple of FEDCODEC_GPU_ALIGN. */
size_t fedcodec_gpu_choice_size(uint32_t sides, size_t k, size_t n);
fedcodec_gpu_choice fedcodec_gpu_choice_in(void *work, uint32_t sides, size_t k, size_t n);

/** Add x to the residual and find the k-th greatest key. Then c->tiles tells each work-group how
 * many values above that key, and how many equal to it, lie in the tiles before its own. c->totals
 * has the numbers for all tiles. */
fed_status fedcodec_gpu_choose(const fedcodec_gpu_job *job,
                               const fedcodec_gpu_choice *c) FED_CHECKED;

/** Replace each number of a row by the sum of those before it. totals[r]: the sum of row r. */
fed_status fedcodec_gpu_scan(const fedcodec_gpu_job *job, uint32_t rows, uint32_t *at,
                             uint32_t length, uint32_t *totals) FED_CHECKED;

#endif
