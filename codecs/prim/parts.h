/* Divide a large tensor into parts, which a pool's threads encode in parallel. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_PARTS_H
#define FEDCODEC_PRIM_PARTS_H

#include "fed/pool.h"

/* The fewest values that are worth a part of their own, and the most parts of a tensor. */
enum { FEDCODEC_PART_MIN = 1 << 14, FEDCODEC_PARTS_MAX = 64 };

/** Return the number of parts for n values: 1 without a pool. An encoder's result must not depend
 * on this number. */
static inline size_t fedcodec_parts(const fed_pool *pool, size_t n) {
    size_t most = pool == NULL ? 1 : pool->width;
    size_t worth = n / FEDCODEC_PART_MIN;
    most = most < FEDCODEC_PARTS_MAX ? most : FEDCODEC_PARTS_MAX;
    return worth < 1 ? 1 : worth < most ? worth : most;
}

/** Return where part k begins and part k - 1 ends: a multiple of unit. The last part ends at n. */
static inline size_t fedcodec_part_start(size_t n, size_t parts, size_t k, size_t unit) {
    return k == parts ? n : n / parts * k / unit * unit;
}

static inline void fedcodec_run_parts(const fed_pool *pool, size_t parts,
                                      void (*part)(void *job, size_t k), void *job) {
    if (parts == 1) {
        part(job, 0);
    } else {
        pool->run(pool, parts, part, job);
    }
}

#endif
