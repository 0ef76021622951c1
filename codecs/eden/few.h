/* eden with p < 1: of each rotated bucket only the values of largest magnitude are sent, as signs
 * and positions. Format: docs/codec-formats.md#eden */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_EDEN_FEW_H
#define FEDCODEC_EDEN_FEW_H

#include "codecs/eden/layout.h"
#include "codecs/prim/positions.h"

/** Return the most bytes, and the bytes of work memory, that fedcodec_eden_few_encode needs. */
size_t fedcodec_eden_few_bound(const double *param, const eden_layout *l);
size_t fedcodec_eden_few_work(const double *param, const eden_layout *l);

/** Write all that follows the first EDEN_LEAD bytes to dst. FED_ENONFINITE: a value is NaN or
 * infinite. */
fed_status fedcodec_eden_few_encode(const fedcodec_job *job, const eden_layout *l, uint32_t draw,
                                    uint8_t *dst, size_t *len) FED_CHECKED;

/** A reader of the buckets of such a message. */
typedef struct fedcodec_eden_few {
    unsigned most;        /* values sent of a whole bucket: an odd number below its size */
    unsigned base;        /* what to add to the byte of a bucket's scale; unused with one scale */
    float one;            /* the scale of all buckets, if there is one */
    const uint8_t *marks; /* a byte a bucket, or with one scale a bit */
    const uint8_t *signs;
    size_t sent, sign; /* how many values are sent; the next sign */
    size_t have, at;   /* positions in the reader's block, and the next of them */
    fedcodec_positions positions;
} fedcodec_eden_few;

/** Begin to read src[len], which follows the first EDEN_LEAD bytes. FED_EFORMAT: the encoder could
 * not have written it, as far as the bytes before the positions tell. */
fed_status fedcodec_eden_few_open(fedcodec_eden_few *r, const eden_layout *l, const uint8_t *src,
                                  size_t len) FED_CHECKED;

/** Set v to bucket k before it is rotated back: 1 or -1 for a value sent, else 0. v has room for a
 * multiple of EDEN_WHOLE_LANES. Buckets are read in order. Returns the bucket's scale, 0 for a
 * bucket that is not sent; less than 0 if the message is malformed. */
float fedcodec_eden_few_read(fedcodec_eden_few *r, const eden_layout *l, size_t k, int16_t *v,
                             size_t wide);

/** As fedcodec_eden_few_read, without the values. */
float fedcodec_eden_few_skip(fedcodec_eden_few *r, const eden_layout *l, size_t k, size_t wide);

/** Return how many values are sent of a bucket of this width, if any are. */
size_t fedcodec_eden_few_sent(const fedcodec_eden_few *r, const eden_layout *l, size_t wide);

/** Return which fraction of the squared length of normally distributed values arrives, with the
 * scale that has the least error. */
double fedcodec_eden_few_kept(const double *param, const eden_layout *l);

/** Does such a message say that it sends as many values of a bucket as these parameters do? */
bool fedcodec_eden_few_fits(const double *param, const eden_layout *l, const uint8_t *src);

/** Call this function after the last bucket. FED_OK: the whole message was well-formed. */
fed_status fedcodec_eden_few_end(const fedcodec_eden_few *r) FED_CHECKED;

#endif
