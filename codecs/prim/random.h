/* Random numbers for codecs that round at random. A draw may begin anywhere in a stream. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_RANDOM_H
#define FEDCODEC_PRIM_RANDOM_H

#include <string.h>

#include "codecs/unit.h"
#include "fed/hash.h"
#include "fed/rng.h"

enum {
    FEDCODEC_RANDOM_BLOCK = 4, /* numbers that one Philox block has */
    FEDCODEC_RANDOM_MORE = 40  /* numbers that a draw may write beyond those asked for */
};

#ifdef FEDCODEC_AVX2
#include <immintrin.h>

/* Philox mostly multiplies 32-bit numbers in 64-bit lanes, for which compilers find no vector
 * code. FEDCODEC_RANDOM_ORDER: which block each lane computes. Even lanes have the first blocks,
 * since the last step interleaves two vectors. */
#ifdef FEDCODEC_AVX512
typedef uint64_t fedcodec_random_wide __attribute__((vector_size(64)));
#define FEDCODEC_RANDOM_ORDER                                                                      \
    { 0, 4, 1, 5, 2, 6, 3, 7 }
#define FEDCODEC_RANDOM_DO(operation, a, b)                                                        \
    (fedcodec_random_wide) _mm512_##operation((__m512i)(a), (__m512i)(b))
#else
typedef uint64_t fedcodec_random_wide __attribute__((vector_size(32)));
#define FEDCODEC_RANDOM_ORDER                                                                      \
    { 0, 2, 1, 3 }
#define FEDCODEC_RANDOM_DO(operation, a, b)                                                        \
    (fedcodec_random_wide) _mm256_##operation((__m256i)(a), (__m256i)(b))
#endif

enum { FEDCODEC_RANDOM_LANES = sizeof(fedcodec_random_wide) / sizeof(uint64_t) };

/* Make FEDCODEC_RANDOM_LANES blocks of the stream, from block counter on, with the results of
 * common/base/rng.c. Only the low half of a 64-bit lane is meaningful, until the last step joins
 * the halves. */
static inline void fedcodec_random_blocks(const fed_rng *rng, uint32_t counter, uint32_t *dst) {
    const fedcodec_random_wide zero = {0}, order = FEDCODEC_RANDOM_ORDER, low = zero + UINT32_MAX;
    const fedcodec_random_wide m0 = zero + 0xD2511F53, m1 = zero + 0xCD9E8D57;
    uint32_t k0 = rng->key[0], k1 = rng->key[1];
    fedcodec_random_wide x0 = order + counter, x1 = zero;
    fedcodec_random_wide x2 = zero + rng->counter[2], x3 = zero + rng->counter[3];
    for (int round = 0; round < 10; round++) {
        fedcodec_random_wide p0 = FEDCODEC_RANDOM_DO(mul_epu32, x0, m0),
                             p1 = FEDCODEC_RANDOM_DO(mul_epu32, x2, m1);
        x0 = p1 >> 32 ^ x1 ^ k0;
        x2 = p0 >> 32 ^ x3 ^ k1;
        x1 = p1;
        x3 = p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    fedcodec_random_wide half0 = (x0 & low) | x1 << 32, half1 = (x2 & low) | x3 << 32;
    const fedcodec_random_wide even = FEDCODEC_RANDOM_DO(unpacklo_epi64, half0, half1);
    const fedcodec_random_wide odd = FEDCODEC_RANDOM_DO(unpackhi_epi64, half0, half1);
    memcpy(dst, &even, sizeof even);
    memcpy(dst + sizeof even / sizeof *dst, &odd, sizeof odd);
}
#endif

/** Draw the numbers first .. first + n - 1 of a stream, into random[n + FEDCODEC_RANDOM_MORE].
 * Nothing may have been drawn from rng before, and first + n is below 2^32. Returns where in
 * random[] the numbers begin. */
static inline const uint32_t *fedcodec_random_draw(const fed_rng *rng, size_t first, size_t n,
                                                   uint32_t *random) {
    uint32_t counter = (uint32_t)(first / FEDCODEC_RANDOM_BLOCK);
    size_t skip = first % FEDCODEC_RANDOM_BLOCK;
#ifdef FEDCODEC_AVX2
    for (size_t i = 0; i < skip + n; i += FEDCODEC_RANDOM_BLOCK * FEDCODEC_RANDOM_LANES) {
        fedcodec_random_blocks(rng, counter + (uint32_t)(i / FEDCODEC_RANDOM_BLOCK), random + i);
    }
#else
    fed_rng from = *rng;
    from.counter[0] = counter;
    fed_rng_fill(&from, random, skip + n);
#endif
    return random + skip;
}

/** Start the random stream for a seed and these values. Different values, as in each tensor and
 * round, almost surely get different streams. The same values get the same stream again. */
static inline void fedcodec_random_start(fed_rng *rng, double seed, const float *x, size_t n) {
    const uint64_t digest = fed_digest(x, n);
    fed_rng_init(rng, (uint64_t)seed, (uint32_t)digest, (uint32_t)(digest >> 32));
}

#endif
