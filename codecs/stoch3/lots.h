/* The lots of stoch3: any stretch of a stream of random numbers, drawn side by side. */
#ifndef FEDCODEC_STOCH3_LOTS_H
#define FEDCODEC_STOCH3_LOTS_H

#include <string.h>

#include "codecs/unit.h"
#include "fed/rng.h"

enum {
    LOTS_BLOCK = 4, /* that Philox makes at once */
    LOTS_MORE = 40  /* room that lots_draw needs behind those that are asked for */
};

#ifdef FEDCODEC_AVX2
#include <immintrin.h>

/* Compilers find no 32-bit product in 64-bit lanes, of which Philox mostly consists. Joined vectors
 * interleave: their even lanes come first, so these count the blocks first. */
#ifdef FEDCODEC_AVX512
typedef uint64_t lots_wide __attribute__((vector_size(64)));
#define LOTS_ORDER                                                                                 \
    { 0, 4, 1, 5, 2, 6, 3, 7 }
#define LOTS_DO(operation, a, b) (lots_wide) _mm512_##operation((__m512i)(a), (__m512i)(b))
#else
typedef uint64_t lots_wide __attribute__((vector_size(32)));
#define LOTS_ORDER                                                                                 \
    { 0, 2, 1, 3 }
#define LOTS_DO(operation, a, b) (lots_wide) _mm256_##operation((__m256i)(a), (__m256i)(b))
#endif

enum { LOTS_LANES = sizeof(lots_wide) / sizeof(uint64_t) };

/* Blocks `counter` to counter + LOTS_LANES - 1, as common/rng.c does one. Only the low half of a
 * lane counts, until they are joined. */
static inline void lots_blocks(const fed_rng *rng, uint32_t counter, uint32_t *dst) {
    const lots_wide zero = {0}, order = LOTS_ORDER, low = zero + UINT32_MAX;
    const lots_wide m0 = zero + 0xD2511F53, m1 = zero + 0xCD9E8D57;
    uint32_t k0 = rng->key[0], k1 = rng->key[1];
    lots_wide x0 = order + counter, x1 = zero;
    lots_wide x2 = zero + rng->counter[2], x3 = zero + rng->counter[3];
    for (int round = 0; round < 10; round++) {
        lots_wide p0 = LOTS_DO(mul_epu32, x0, m0), p1 = LOTS_DO(mul_epu32, x2, m1);
        x0 = p1 >> 32 ^ x1 ^ k0;
        x2 = p0 >> 32 ^ x3 ^ k1;
        x1 = p1;
        x3 = p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    lots_wide half0 = (x0 & low) | x1 << 32, half1 = (x2 & low) | x3 << 32;
    lots_wide blocks[2] = {LOTS_DO(unpacklo_epi64, half0, half1),
                           LOTS_DO(unpackhi_epi64, half0, half1)};
    memcpy(dst, blocks, sizeof blocks);
}
#endif

/* Numbers first .. first + n - 1 of a stream that nothing was drawn from, below 2^32, to lot[n +
 * LOTS_MORE]. Returns where they begin there. */
static inline const uint32_t *lots_draw(const fed_rng *rng, size_t first, size_t n, uint32_t *lot) {
    uint32_t counter = (uint32_t)(first / LOTS_BLOCK);
    size_t skip = first % LOTS_BLOCK;
#ifdef FEDCODEC_AVX2
    for (size_t i = 0; i < skip + n; i += LOTS_BLOCK * LOTS_LANES) {
        lots_blocks(rng, counter + (uint32_t)(i / LOTS_BLOCK), lot + i);
    }
#else
    fed_rng from = *rng;
    from.counter[0] = counter;
    fed_rng_fill(&from, lot, skip + n);
#endif
    return lot + skip;
}

#endif
