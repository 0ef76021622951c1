/* Philox4x32-10: a counter and a key give four 32-bit numbers in ten rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/rng.h"

#include <stdbool.h>

enum { ROUNDS = 10, LANES = 32 };

/* The Philox paper's constants: two multipliers, and what each round adds to the key. */
static const uint32_t M0 = 0xD2511F53, M1 = 0xCD9E8D57;
static const uint32_t STEP0 = 0x9E3779B9, STEP1 = 0xBB67AE85;

static void philox(const uint32_t key[2], const uint32_t counter[4], uint32_t block[4]) {
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)M0 * x0;
        uint64_t p1 = (uint64_t)M1 * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x1 = (uint32_t)p1;
        x3 = (uint32_t)p0;
        k0 += STEP0;
        k1 += STEP1;
    }
    block[0] = x0;
    block[1] = x1;
    block[2] = x2;
    block[3] = x3;
}

void fed_rng_init(fed_rng *rng, uint64_t seed, uint32_t a, uint32_t b) {
    /* The low half of the counter counts blocks, and its high half names the stream. */
    *rng = (fed_rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, 0, a, b},
        .used = 4,
    };
}

uint32_t fed_rng_u32(fed_rng *rng) {
    if (rng->used == 4) {
        philox(rng->key, rng->counter, rng->block);
        rng->counter[0]++;
        rng->counter[1] += rng->counter[0] == 0;
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

uint64_t fed_rng_u64(fed_rng *rng) {
    uint64_t low = fed_rng_u32(rng);
    return low | (uint64_t)fed_rng_u32(rng) << 32;
}

/* Compute the next LANES blocks in a form that the compiler can vectorise. None of their counters
 * may carry into the next word. */
static void philox_lanes(const fed_rng *rng, uint32_t *dst) {
    uint32_t k0 = rng->key[0], k1 = rng->key[1];
    uint32_t x0[LANES], x1[LANES], x2[LANES], x3[LANES];
    for (uint32_t i = 0; i < LANES; i++) {
        x0[i] = rng->counter[0] + i;
        x1[i] = rng->counter[1];
        x2[i] = rng->counter[2];
        x3[i] = rng->counter[3];
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < LANES; i++) {
            uint64_t p0 = (uint64_t)M0 * x0[i];
            uint64_t p1 = (uint64_t)M1 * x2[i];
            x0[i] = (uint32_t)(p1 >> 32) ^ x1[i] ^ k0;
            x2[i] = (uint32_t)(p0 >> 32) ^ x3[i] ^ k1;
            x1[i] = (uint32_t)p1;
            x3[i] = (uint32_t)p0;
        }
        k0 += STEP0;
        k1 += STEP1;
    }
    for (size_t i = 0; i < LANES; i++) {
        dst[4 * i] = x0[i];
        dst[4 * i + 1] = x1[i];
        dst[4 * i + 2] = x2[i];
        dst[4 * i + 3] = x3[i];
    }
}

void fed_rng_fill(fed_rng *rng, uint32_t *dst, size_t n) {
    size_t i = 0;
    while (i < n) {
        bool whole = rng->used == 4 && n - i >= 4 * LANES;
        if (whole && rng->counter[0] <= UINT32_MAX - LANES) {
            philox_lanes(rng, dst + i);
            rng->counter[0] += LANES;
            i += 4 * LANES;
        } else {
            dst[i++] = fed_rng_u32(rng);
        }
    }
}

/* The method of Lemire, "Fast random integer generation in an interval" (2019): the result is the
 * high half of a product. The few low halves that would favour some results are drawn again. */
uint32_t fed_rng_below(fed_rng *rng, uint32_t n) {
    uint64_t product = (uint64_t)fed_rng_u32(rng) * n;
    if ((uint32_t)product < n) {
        uint32_t unfair = (0u - n) % n; /* 2^32 mod n */
        while ((uint32_t)product < unfair) {
            product = (uint64_t)fed_rng_u32(rng) * n;
        }
    }
    return (uint32_t)(product >> 32);
}

float fed_rng_float(fed_rng *rng) {
    return (float)(fed_rng_u32(rng) >> 8) * 0x1p-24f;
}

void fed_rng_shuffle(fed_rng *rng, uint32_t *index, size_t n) {
    for (size_t left = n; left > 1; left--) {
        size_t k = fed_rng_below(rng, (uint32_t)left);
        uint32_t swap = index[left - 1];
        index[left - 1] = index[k];
        index[k] = swap;
    }
}
