/* Codecs that write the same number of bits for each value. Each part of a tensor then has a known
 * offset in the message, so parts can be encoded in parallel. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_DENSE_H
#define FEDCODEC_PRIM_DENSE_H

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/parts.h"
#include "fedcodec/codec_vtable.h"

/** Values of a block. They fill whole bytes, and are few enough for the first-level cache. */
enum { FEDCODEC_DENSE_BLOCK = 512 };

/** Encode one block, which belongs to part k. block->residual, x, n (up to FEDCODEC_DENSE_BLOCK)
 * and dst are those of the block. */
typedef void (*fedcodec_dense_fn)(const fedcodec_job *block, size_t k, void *with);

/** Prefetch the values of a later block. */
static inline void fedcodec_dense_fetch(const fedcodec_job *block) {
    if (block->residual != NULL) {
        fedcodec_fetch_block(block->residual, FEDCODEC_DENSE_BLOCK);
    }
    if (block->x != NULL) {
        fedcodec_fetch_block(block->x, FEDCODEC_DENSE_BLOCK);
    }
}

typedef struct fedcodec_dense {
    const fedcodec_job *job; /* job->dst: where the tensor's first value goes */
    size_t parts;
    unsigned bits; /* bits of one value in the message */
    fedcodec_dense_fn encode;
    void *with;
    int32_t largest[FEDCODEC_PARTS_MAX]; /* bits of the largest magnitude left in each part */
} fedcodec_dense;

static inline void fedcodec_dense_part(void *dense, size_t k) {
    enum { BLOCK = FEDCODEC_DENSE_BLOCK };
    fedcodec_dense *d = dense;
    const fedcodec_job *job = d->job;
    int32_t largest = 0;
    size_t end = fedcodec_part_start(job->n, d->parts, k + 1, BLOCK);
    for (size_t i = fedcodec_part_start(job->n, d->parts, k, BLOCK); i < end; i += BLOCK) {
        fedcodec_job block = *job;
        block.residual = job->residual != NULL ? job->residual + i : NULL;
        block.x = job->x != NULL ? job->x + i : NULL;
        block.n = end - i < BLOCK ? end - i : BLOCK;
        block.dst += i / 8 * d->bits;
        d->encode(&block, k, d->with);
        if (!job->scanned) {
            const float *left = job->residual != NULL ? block.residual : block.x;
            largest = fedcodec_larger(largest, fedcodec_largest(left, block.n));
        }
    }
    d->largest[k] = largest;
}

/** Encode the values of a job; their bytes begin at offset head of the message. Returns
 * FED_ENONFINITE if a value is not finite, unless job->scanned rules that out. Such a value stays
 * in the residual, since only finite numbers are subtracted. Without a residual, x is examined. */
static inline fed_status fedcodec_dense_encode(const fedcodec_job *job, size_t head, unsigned bits,
                                               fedcodec_dense_fn encode, void *with) {
    fedcodec_job values = *job;
    values.dst += head;
    fedcodec_dense dense = {&values, fedcodec_parts(job->pool, job->n), bits, encode, with, {0}};
    fedcodec_run_parts(job->pool, dense.parts, fedcodec_dense_part, &dense);
    for (size_t k = 0; k < dense.parts; k++) {
        FED_REQUIRE(dense.largest[k] < FEDCODEC_INFINITY, FED_ENONFINITE);
    }
    return FED_OK;
}

/** Do what fedcodec_dense_encode does, for a codec whose scan is fedcodec_scan_added. Where x is
 * given, that scan has not read the residual, so the values are examined here. */
static inline fed_status fedcodec_dense_encode_added(const fedcodec_job *job, size_t head,
                                                     unsigned bits, fedcodec_dense_fn encode,
                                                     void *with) {
    fedcodec_job examined = *job;
    examined.scanned = job->scanned && job->x == NULL;
    return fedcodec_dense_encode(&examined, head, bits, encode, with);
}

#endif
