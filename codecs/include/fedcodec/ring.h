/* The codec `ring`: updates of a private task as whole numbers that add up modulo 2^w. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_RING_H
#define FEDCODEC_RING_H

#include "fed/api.h"
#include "fed/privacy.h"
#include "fedcodec/codec.h"

FED_API_BEGIN

/*
 * All devices of a round send the same positions in the same steps, so that a reader of the sum
 * needs no single update. The shape (fed/privacy.h) and the draw of the round decide everything
 * else, so a message is its fields alone: shape.bytes bytes, no head, no frames. That is why `ring`
 * is no codec of envelopes: fedcodec_parse reads its spec, and fedcodec_encode refuses it with
 * FED_EINVAL (docs/decisions/0038-private-rounds.md). Format: docs/codec-formats.md#ring
 *
 * Nothing here allocates or keeps a pointer. Blocks of at most 1,024 values lie on the stack: up to
 * 12 KiB.
 */

/** Is this the codec `ring`? param[0] is b, param[1] p. */
bool fedcodec_is_ring(const fedcodec_vtable *codec);

/** A round's shape with its draw (fed_privacy_draw). */
typedef struct fedcodec_ring {
    fed_privacy_fields shape;
    uint8_t draw[FED_SHA256_SIZE];
} fedcodec_ring;

/** Fill dst[len] with random bytes that nobody can foretell, as fed_random does. */
typedef fed_status (*fedcodec_ring_random)(void *user, void *dst, size_t len);

/**
 * Clip x to the length `clip`, rotate, round at random without bias, and write all fields. The
 * count, if there is one, is 1 if x was at most `clip` long, else -1.
 *
 * x     float32[shape.n], only read      clip  the one that the shape was made with
 * dst   shape.bytes bytes; arbitrary after an error
 * *kept the factor by which clipping scales x: 1 if it is short enough. May be NULL
 *
 * Errors: those of random; FED_ENONFINITE a value that is sent is not finite; FED_EINVAL the
 * random bytes made too long a vector of levels a hundred times, as random numbers do not.
 */
fed_status fedcodec_ring_encode(const fedcodec_ring *ring, float clip, const float *x,
                                fedcodec_ring_random random, void *user, uint8_t *dst,
                                double *kept) FED_CHECKED;

/** Check fields that are not masked: FED_EFORMAT a level or a count that no device may send, or
 * levels longer than shape.reach; *why says which. src is not trusted. */
fed_status fedcodec_ring_check(const fedcodec_ring *ring, const uint8_t *src, size_t len,
                               fed_error *why) FED_CHECKED;

/** y[shape.all] += the fields, modulo 2^32. src has shape.bytes bytes: any bytes are fields. */
void fedcodec_ring_add(const fedcodec_ring *ring, const uint8_t *src, uint32_t *y);

/** The same for a subtraction: it takes masks off. */
void fedcodec_ring_subtract(const fedcodec_ring *ring, const uint8_t *src, uint32_t *y);

/** Reduce y[shape.all] modulo 2^w to signed sums, from -2^(w-1) to 2^(w-1) - 1, in place, as two's
 * complement. Returns the 2-norm of those of values, in levels. */
double fedcodec_ring_sums(const fedcodec_ring *ring, uint32_t *y);

/** change[shape.n] = the sums of fedcodec_ring_sums, rotated back, times g / divisor; 0 at
 * positions that were not sent. The sum is exact, so every machine gets the same bits. */
void fedcodec_ring_change(const fedcodec_ring *ring, const uint32_t *sums, double divisor,
                          float *change);

/** Set the values that the round sends to 0: the rest is owed. */
void fedcodec_ring_settle(const fedcodec_ring *ring, float *values);

FED_API_END

#endif
