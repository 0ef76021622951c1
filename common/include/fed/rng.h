/* A counter-based random number generator: the same numbers on every machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_RNG_H
#define FED_RNG_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/*
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11). A seed and
 * two numbers that the caller chooses, such as a round and a client, name a stream. Streams are
 * independent, and no state has to be saved. For keys and tokens use fed_random (fed/crypto.h).
 */
typedef struct fed_rng {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t block[4];
    unsigned used; /* numbers of block already used, 0 to 4 */
} fed_rng;

/** Start the stream (a, b) of a seed. */
void fed_rng_init(fed_rng *rng, uint64_t seed, uint32_t a, uint32_t b);

uint32_t fed_rng_u32(fed_rng *rng);
uint64_t fed_rng_u64(fed_rng *rng);

/** Fill dst[n] with the results of n calls of fed_rng_u32, but faster. */
void fed_rng_fill(fed_rng *rng, uint32_t *dst, size_t n);

/** Draw a number uniform in [0, n), without bias. n > 0. */
uint32_t fed_rng_below(fed_rng *rng, uint32_t n);

/** Draw a uniform number: one of 2^24 equally spaced ones in [0, 1), the same on every machine. */
float fed_rng_float(fed_rng *rng);

/** Shuffle index[n] in place (Fisher-Yates). */
void fed_rng_shuffle(fed_rng *rng, uint32_t *index, size_t n);

FED_API_END

#endif
