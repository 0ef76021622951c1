/* Codecs that write as many bits for each value: parts of a tensor go to known places of the
 * message, side by side. */
#ifndef FEDCODEC_PRIM_DENSE_H
#define FEDCODEC_PRIM_DENSE_H

#include "codecs/prim/parts.h"
#include "fedcodec/codec.h"

/** Parts begin at multiples of it: at whole bytes, and at whole blocks of what a codec does at
 * once. */
enum { FEDCODEC_DENSE_BLOCK = 256 };

/** Encode a piece: its residual, x, n and dst are those of part k. */
typedef void (*fedcodec_dense_fn)(const fedcodec_job *piece, size_t k, void *with);

typedef struct fedcodec_dense {
    const fedcodec_job *job; /* dst: of the first value */
    size_t parts;
    unsigned bits; /* of a value, in the message */
    fedcodec_dense_fn encode;
    void *with; /* what else encode is given */
} fedcodec_dense;

static inline void fedcodec_dense_part(void *dense, size_t k) {
    const fedcodec_dense *d = dense;
    fedcodec_job piece = *d->job;
    size_t first = fedcodec_part_start(piece.n, d->parts, k, FEDCODEC_DENSE_BLOCK);
    piece.n = fedcodec_part_start(piece.n, d->parts, k + 1, FEDCODEC_DENSE_BLOCK) - first;
    piece.residual = piece.residual != NULL ? piece.residual + first : NULL;
    piece.x = piece.x != NULL ? piece.x + first : NULL;
    piece.dst += first / 8 * d->bits;
    d->encode(&piece, k, d->with);
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
