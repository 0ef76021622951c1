/* Codecs that write as many bits for each value: parts of a tensor go to known places of the
 * message, side by side. */
#ifndef FEDCODEC_PRIM_DENSE_H
#define FEDCODEC_PRIM_DENSE_H

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/parts.h"
#include "fedcodec/codec.h"

/** Values done at once: they fill whole bytes, and what is kept of them on the way stays in the
 * nearest cache. */
enum { FEDCODEC_DENSE_BLOCK = 256 };

/** Encode a block of part k: residual, x, n (up to FEDCODEC_DENSE_BLOCK) and dst are its own. */
typedef void (*fedcodec_dense_fn)(const fedcodec_job *block, size_t k, void *with);

typedef struct fedcodec_dense {
    const fedcodec_job *job; /* dst: of the first value */
    size_t parts;
    unsigned bits; /* of a value, in the message */
    fedcodec_dense_fn encode;
    void *with; /* what else encode is given */
} fedcodec_dense;

static inline void fedcodec_dense_part(void *dense, size_t k) {
    enum { BLOCK = FEDCODEC_DENSE_BLOCK };
    const fedcodec_dense *d = dense;
    const fedcodec_job *job = d->job;
    size_t end = fedcodec_part_start(job->n, d->parts, k + 1, BLOCK);
    for (size_t i = fedcodec_part_start(job->n, d->parts, k, BLOCK); i < end; i += BLOCK) {
        fedcodec_job block = *job;
        if (job->residual != NULL) {
            block.residual += i;
            fedcodec_fetch_block(block.residual, BLOCK);
        }
        if (job->x != NULL) {
            block.x += i;
            fedcodec_fetch_block(block.x, BLOCK);
        }
        block.n = end - i < BLOCK ? end - i : BLOCK;
        block.dst += i / 8 * d->bits;
        d->encode(&block, k, d->with);
    }
}

/** Encode the values of a job behind `head` bytes. */
static inline void fedcodec_dense_encode(const fedcodec_job *job, size_t head, unsigned bits,
                                         fedcodec_dense_fn encode, void *with) {
    fedcodec_job values = *job;
    values.dst += head;
    fedcodec_dense dense = {&values, fedcodec_parts(job->pool, job->n), bits, encode, with};
    fedcodec_run_parts(job->pool, dense.parts, fedcodec_dense_part, &dense);
}

#endif
