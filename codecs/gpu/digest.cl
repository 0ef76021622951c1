/* The digest of an array of floats: XXH3-64 without a seed, as fed_digest of fed/hash.h computes
 * it. The launches are in gpu_digest.c. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A block of 1,024 bytes has 16 stripes of 8 words of 64 bits. Each of the 8 columns has a sum over
 * the block's stripes, and a state. A block's sum is added to the state, which is then scrambled.
 * So all blocks can be summed at once, but the states are chains as long as the array has blocks.
 */
#define DIGEST_COLUMNS 8U
#define DIGEST_STRIPES 16U
#define DIGEST_BLOCK   256U /* floats of a block */
#define DIGEST_SHORT   60U  /* up to so many floats are hashed without blocks */
#define DIGEST_LOW     0xffffffffUL

#define DIGEST_PRIME1 0x9e3779b185ebca87UL
#define DIGEST_PRIME2 0xc2b2ae3d27d4eb4fUL
#define DIGEST_PRIME3 0x165667b19e3779f9UL
#define DIGEST_PRIME4 0x85ebca77c2b2ae63UL
#define DIGEST_PRIME5 0x27d4eb2f165667c5UL
#define DIGEST_SMALL1 0x9e3779b1UL
#define DIGEST_SMALL2 0x85ebca77UL
#define DIGEST_SMALL3 0xc2b2ae3dUL
#define DIGEST_MIX    0x9fb21c651e98df25UL
#define DIGEST_LAST   0x165667919e3779f9UL

/* The 192 bytes of XXH3's default secret, the least significant byte of a word first. */
TABLE u64 digest_secret[24] = {
    0xbe4ba423396cfeb8UL, 0x1cad21f72c81017cUL, 0xdb979083e96dd4deUL,
    0x1f67b3b7a4a44072UL, 0x78e5c0cc4ee679cbUL, 0x2172ffcc7dd05a82UL,
    0x8e2443f7744608b8UL, 0x4c263a81e69035e0UL, 0xcb00c391bb52283cUL,
    0xa32e531b8b65d088UL, 0x4ef90da297486471UL, 0xd8acdea946ef1938UL,
    0x3f349ce33f76faa8UL, 0x1d4f0bc7c7bbdcf9UL, 0x3159b4cd4be0518aUL,
    0x647378d9c97e9fc8UL, 0xc3ebd33483acc5eaUL, 0xeb6313faffa081c5UL,
    0x49daf0b751dd0d17UL, 0x9e68d429265516d3UL, 0xfca1477d58be162bUL,
    0xce31d07ad1b8f88fUL, 0x280416958f3acb45UL, 0x7e404bbbcafbd7afUL,
};

TABLE u64 digest_start[DIGEST_COLUMNS] = {
    DIGEST_SMALL3, DIGEST_PRIME1, DIGEST_PRIME2, DIGEST_PRIME3,
    DIGEST_PRIME4, DIGEST_SMALL2, DIGEST_PRIME5, DIGEST_SMALL1,
};

/* Return the 8 bytes of the secret from an offset on. */
FUNC u64 secret_at(u32 offset) {
    const u32 word = offset / 8, shift = 8 * (offset % 8);
    return shift == 0 ? digest_secret[word]
                      : digest_secret[word] >> shift | digest_secret[word + 1] << (64 - shift);
}

/* Return the 64 bits of floats k and k + 1. */
FUNC u64 pair_at(GLOBAL const float *x, u32 k) {
    return (u64)BITS_OF(x[k + 1]) << 32 | BITS_OF(x[k]);
}

FUNC u64 product_of_halves(u64 v) {
    return (v & DIGEST_LOW) * (v >> 32);
}

/* Return the exclusive or of both halves of a product of 128 bits. */
FUNC u64 folded_product(u64 a, u64 b) {
    const u64 low = (a & DIGEST_LOW) * (b & DIGEST_LOW), left = (a >> 32) * (b & DIGEST_LOW);
    const u64 right = (a & DIGEST_LOW) * (b >> 32), high = (a >> 32) * (b >> 32);
    const u64 middle = (low >> 32) + (left & DIGEST_LOW) + right;
    return (high + (left >> 32) + (middle >> 32)) ^ (middle << 32 | (low & DIGEST_LOW));
}

FUNC u64 digest_mix(u64 h, u32 first, u64 factor, u32 second) {
    h = (h ^ h >> first) * factor;
    return h ^ h >> second;
}

FUNC u64 digest_four(GLOBAL const float *x, u32 k, u32 secret) {
    return folded_product(pair_at(x, k) ^ secret_at(secret),
                          pair_at(x, k + 2) ^ secret_at(secret + 8));
}

FUNC u64 rotated(u64 v, u32 left) {
    return v << left | v >> (64 - left);
}

FUNC u64 digest_of_two(GLOBAL const float *x, u32 n) {
    const u64 bits = BITS_OF(x[n - 1]) + ((u64)BITS_OF(x[0]) << 32);
    u64 h = bits ^ secret_at(8) ^ secret_at(16);
    h = (h ^ rotated(h, 49) ^ rotated(h, 24)) * DIGEST_MIX;
    h = (h ^ ((h >> 35) + 4 * n)) * DIGEST_MIX;
    return h ^ h >> 28;
}

FUNC u64 digest_of_four(GLOBAL const float *x, u32 n) {
    const u64 low = pair_at(x, 0) ^ secret_at(24) ^ secret_at(32);
    const u64 high = pair_at(x, n - 2) ^ secret_at(40) ^ secret_at(48);
    u64 swapped = (low & 0x00ff00ff00ff00ffUL) << 8 | (low >> 8 & 0x00ff00ff00ff00ffUL);
    swapped = (swapped & 0x0000ffff0000ffffUL) << 16 | (swapped >> 16 & 0x0000ffff0000ffffUL);
    swapped = swapped << 32 | swapped >> 32;
    return digest_mix(4 * n + swapped + high + folded_product(low, high), 37, DIGEST_LAST, 32);
}

/* Four floats from the start and four from the end take turns. */
FUNC u64 digest_of_32(GLOBAL const float *x, u32 n) {
    u64 h = 4 * n * DIGEST_PRIME1;
    for (u32 k = 0; k <= (n - 1) / 8; k++) {
        h += digest_four(x, 4 * k, 32 * k);
        h += digest_four(x, n - 4 * (k + 1), 32 * k + 16);
    }
    return digest_mix(h, 37, DIGEST_LAST, 32);
}

FUNC u64 digest_of_60(GLOBAL const float *x, u32 n) {
    u64 h = 4 * n * DIGEST_PRIME1;
    for (u32 k = 0; k < 8; k++) {
        h += digest_four(x, 4 * k, 16 * k);
    }
    h = digest_mix(h, 37, DIGEST_LAST, 32);
    for (u32 k = 8; k < n / 4; k++) {
        h += digest_four(x, 4 * k, 16 * (k - 8) + 3);
    }
    h += digest_four(x, n - 4, 136 - 17);
    return digest_mix(h, 37, DIGEST_LAST, 32);
}

FUNC u64 digest_of_few(GLOBAL const float *x, u32 n) {
    if (n == 0) {
        const u64 h = digest_mix(secret_at(56) ^ secret_at(64), 33, DIGEST_PRIME2, 29);
        return h * DIGEST_PRIME3 ^ h * DIGEST_PRIME3 >> 32;
    }
    return n <= 2    ? digest_of_two(x, n)
           : n <= 4  ? digest_of_four(x, n)
           : n <= 32 ? digest_of_32(x, n)
                     : digest_of_60(x, n);
}

/* Sum the words of each column of a block. A work-item has one column of one block. */
KERNEL digest_blocks(GLOBAL const float *x, u32 blocks, GLOBAL u64 *sums) {
    LOCAL u64 words[GROUP_SIZE];
    LOCAL u64 secret[24];
    const u32 at = GROUP * GROUP_SIZE + LANE, block = at / DIGEST_COLUMNS;
    const u32 column = at % DIGEST_COLUMNS;
    u64 sum = 0, plain = 0;
    if (LANE < 24) {
        secret[LANE] = digest_secret[LANE];
    }
    BARRIER();
    if (block < blocks) {
        GLOBAL const u64 *from =
            (GLOBAL const u64 *)(x + (u64)block * DIGEST_BLOCK) + column;
        for (u32 k = 0; k < DIGEST_STRIPES; k++) {
            const u64 word = from[k * DIGEST_COLUMNS];
            plain += word;
            sum += product_of_halves(word ^ secret[k + column]);
        }
    }
    words[LANE] = plain;
    BARRIER();
    if (block < blocks) {
        sums[at] = sum + words[LANE ^ 1];
    }
}

/* Return what a stripe from float k on adds to a column. */
FUNC u64 digest_stripe(GLOBAL const float *x, u32 k, u32 column, u32 secret) {
    return pair_at(x, k + 2 * (column ^ 1)) +
           product_of_halves(pair_at(x, k + 2 * column) ^ secret_at(secret + 8 * column));
}

/* Return what the stripes after the last block add to a column. The last stripe may overlap the one
 * before it. */
FUNC u64 digest_rest(GLOBAL const float *x, u32 n, u32 blocks, u32 column) {
    const u32 first = blocks * DIGEST_BLOCK, stripes = (n - first - 1) / 16;
    u64 sum = 0;
    for (u32 k = 0; k < stripes; k++) {
        sum += digest_stripe(x, first + 16 * k, column, 8 * k);
    }
    return sum + digest_stripe(x, n - 16, column, 192 - 64 - 7);
}

/* Launched with one work-group, after digest_blocks has summed all blocks but the last one. */
KERNEL digest_end(GLOBAL const float *x, u32 n, u32 blocks, GLOBAL const u64 *sums,
                  GLOBAL u64 *digest) {
    LOCAL u64 next[GROUP_SIZE];
    LOCAL u64 states[DIGEST_COLUMNS];
    const u32 column = LANE % DIGEST_COLUMNS, all = blocks * DIGEST_COLUMNS;
    u64 state = digest_start[column];
    for (u32 base = 0; base < all; base += GROUP_SIZE) {
        next[LANE] = base + LANE < all ? sums[base + LANE] : 0;
        BARRIER();
        const u32 left = all - base < GROUP_SIZE ? all - base : GROUP_SIZE;
        for (u32 k = LANE; LANE < DIGEST_COLUMNS && k < left; k += DIGEST_COLUMNS) {
            state += next[k];
            state = (state ^ state >> 47 ^ digest_secret[16 + column]) * DIGEST_SMALL1;
        }
        BARRIER();
    }
    if (LANE < DIGEST_COLUMNS && n > DIGEST_SHORT) {
        states[LANE] = state + digest_rest(x, n, blocks, LANE);
    }
    BARRIER();
    if (LANE == 0 && n <= DIGEST_SHORT) {
        *digest = digest_of_few(x, n);
    } else if (LANE == 0) {
        u64 h = 4 * (u64)n * DIGEST_PRIME1;
        for (u32 k = 0; k < DIGEST_COLUMNS; k += 2) {
            h += folded_product(states[k] ^ secret_at(11 + 8 * k),
                                states[k + 1] ^ secret_at(19 + 8 * k));
        }
        *digest = digest_mix(h, 37, DIGEST_LAST, 32);
    }
}
