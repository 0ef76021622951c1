/* eden: a work-group rotates the buckets of a tile of 1,024 values. Format:
 * docs/codec-formats.md#eden */
/* SPDX-License-Identifier: Apache-2.0 */

#define EDEN_TILE      1024U
#define EDEN_TILE_BITS 10U
#define EDEN_BUCKETS   16U /* the most buckets of a tile */
#define EDEN_WORDS     32U /* random numbers for the signs of a tile */
#define EDEN_PARTS     16U /* partial sums of a bucket */
#define EDEN_LEAD      6U
#define EDEN_BITS      7U
#define EDEN_TWICE     8U
#define EDEN_FEW       16U
#define EDEN_ONE_SCALE 32U
#define EDEN_LEVELS    8U
#define EDEN_LEAST     0x00800000U /* bits of the least scale that is not 0 */

/* The magnitudes of codes of 1 to 4 bits. */
TABLE u32 eden_levels[4 * EDEN_LEVELS] = {
    1,   0,   0,   0,   0,   0,    0,    0,    464, 1546, 0,   0,   0,    0,    0,    0,
    251, 774, 1376, 2204, 0, 0,    0,    0,    131, 397,  673, 965, 1286, 1657, 2119, 2798,
};

typedef struct eden {
    u32 bits;
    u32 shift;
    u32 rotations;
    u32 whole;   /* buckets that are full */
    u32 rest;    /* the width of the bucket after them; 0 if there is none */
    u32 buckets; /* all of them */
} eden;

FUNC u32 eden_width_for(u32 count) {
    return count <= 8 ? 8 : 1U << (32 - CLZ(count - 1));
}

FUNC eden eden_of(u32 flags, u32 shift, u32 n) {
    const u32 more = n & ((1U << shift) - 1);
    eden e;
    e.bits = flags & EDEN_BITS;
    e.shift = shift;
    e.rotations = (flags & EDEN_TWICE) != 0 ? 2 : 1;
    e.whole = n >> shift;
    e.rest = more > 0 ? eden_width_for(more) : 0;
    e.buckets = e.whole + (more > 0 ? 1 : 0);
    return e;
}

/* Return the width of a bucket; 0 after the last one. */
FUNC u32 eden_width(eden e, u32 bucket) {
    return bucket < e.whole ? 1U << e.shift : bucket == e.whole ? e.rest : 0;
}

FUNC u32 eden_tile_buckets(eden e) {
    return EDEN_TILE >> e.shift;
}

/* Return the first bucket of the work-group's tile. */
FUNC u32 eden_first(eden e) {
    return GROUP * eden_tile_buckets(e);
}

FUNC float eden_scale_max(eden e, u32 wide) {
    return FLOAT_OF((127 + 115 - (31 - CLZ(wide)) * e.rotations) << 23);
}

/* Return the offset of a tile's codes. */
FUNC u32 eden_codes_at(eden e, u32 tile) {
    return EDEN_LEAD + 4 * e.buckets + tile * (EDEN_TILE / 8) * e.bits;
}

FUNC u64 eden_len(eden e) {
    return EDEN_LEAD + 4 * (u64)e.buckets +
           (((u64)e.whole << e.shift) + e.rest) / 8 * e.bits;
}

/* Load the values of a tile, each bucket's scaled by a power of two so that the largest one is 1 to
 * 2. A bucket of zeros and denormals becomes zeros. largest: bits of each bucket's largest
 * magnitude. */
FUNC void eden_load(GLOBAL const float *x, u32 n, eden e, LOCALP float *v, LOCALP u32 *largest) {
    const u32 at = GROUP * GROUP_SIZE + LANE, place = 4 * LANE, bucket = place >> e.shift;
    const f32x4 q = quad_load(x, at, quad_count(at, n));
    v[place] = q.x;
    v[place + 1] = q.y;
    v[place + 2] = q.z;
    v[place + 3] = q.w;
    if (LANE < EDEN_BUCKETS) {
        largest[LANE] = 0;
    }
    BARRIER();
    u32 most = 0;
    for (u32 k = 0; k < 4; k++) {
        most = larger(most, magnitude_of(v[place + k]));
    }
    ATOMIC_MAX(&largest[bucket], most);
    BARRIER();
    const u32 exponent = largest[bucket] >> 23;
    const float up = FLOAT_OF((255 - exponent) << 23);
    for (u32 k = 0; k < 4; k++) {
        v[place + k] = exponent > 0 ? v[place + k] * up : 0.0f;
    }
    BARRIER();
}

/* Sum the values, or their squares, of each bucket in the processor's order. Values after a
 * bucket's width must be 0. */
FUNC void eden_sums(LOCALP const float *v, eden e, u32 squares, LOCALP double *part,
                    LOCALP double *sum) {
    const u32 bucket = LANE / EDEN_PARTS, end = (bucket + 1) << e.shift;
    double mine = 0.0;
    for (u32 i = (bucket << e.shift) + LANE % EDEN_PARTS; i < end && end <= EDEN_TILE;
         i += EDEN_PARTS) {
        mine += squares != 0 ? (double)v[i] * (double)v[i] : (double)v[i];
    }
    part[LANE] = mine;
    BARRIER();
    if (LANE < eden_tile_buckets(e)) {
        double all = 0.0;
        for (u32 k = 0; k < EDEN_PARTS; k++) {
            all += part[EDEN_PARTS * LANE + k];
        }
        sum[LANE] = all;
    }
    BARRIER();
}

/* Draw the signs of a tile: EDEN_WORDS numbers for each rotation. Only work-items below EDEN_WORDS
 * need the draw. */
FUNC void eden_draw_signs(eden e, u32 draw, LOCALP u32 *signs) {
    const u32 blocks = EDEN_WORDS / 4;
    if (LANE < blocks * e.rotations) {
        const u32x4 four = random_block(draw, LANE / blocks, GROUP * blocks + LANE % blocks);
        signs[4 * LANE] = four.x;
        signs[4 * LANE + 1] = four.y;
        signs[4 * LANE + 2] = four.z;
        signs[4 * LANE + 3] = four.w;
    }
    BARRIER();
}

FUNC void eden_negate(LOCALP float *v, LOCALP const u32 *signs, u32 rotation) {
    const u32 word = signs[EDEN_WORDS * rotation + LANE / 8] >> (4 * LANE % 32);
    for (u32 k = 0; k < 4; k++) {
        v[4 * LANE + k] = FLOAT_OF(BITS_OF(v[4 * LANE + k]) ^ word >> k << 31);
    }
    BARRIER();
}

/* Multiply each bucket by its Hadamard matrix: two steps at once, on values that are `step`
 * apart. */
FUNC void eden_rotate(LOCALP float *v, eden e) {
#pragma unroll
    for (u32 step = EDEN_TILE / 4; step > 0; step /= 4) {
        const u32 at = LANE / step * 4 * step + LANE % step;
        const u32 wide = eden_width(e, eden_first(e) + (at >> e.shift));
        const u32 next = eden_width(e, eden_first(e) + ((at + 2 * step) >> e.shift));
        float a = v[at], b = v[at + step], c = v[at + 2 * step], d = v[at + 3 * step], sum;
        if (2 * step < wide) {
            sum = a + c;
            c = a - c;
            a = sum;
            sum = b + d;
            d = b - d;
            b = sum;
        }
        if (step < wide) {
            sum = a + b;
            b = a - b;
            a = sum;
        }
        if (step < next) {
            sum = c + d;
            d = c - d;
            c = sum;
        }
        v[at] = a;
        v[at + step] = b;
        v[at + 2 * step] = c;
        v[at + 3 * step] = d;
        BARRIER();
    }
}

FUNC void eden_turn(LOCALP float *v, eden e, LOCALP const u32 *signs) {
    for (u32 k = 0; k < e.rotations; k++) {
        eden_negate(v, signs, k);
        eden_rotate(v, e);
    }
}

FUNC void eden_turn_back(LOCALP float *v, eden e, LOCALP const u32 *signs) {
    for (u32 k = e.rotations; k-- > 0;) {
        eden_rotate(v, e);
        eden_negate(v, signs, k);
    }
}

/* Launched with one work-group: write the lead of a message, and its length if all values are
 * sent. */
KERNEL eden_begin(u32 n, u32 flags, u32 shift, u32 seed, GLOBAL const u64 *digest, GLOBAL u8 *dst,
                  GLOBAL head *h) {
    const eden e = eden_of(flags, shift, n);
    if (LANE == 0) {
        dst[0] = (u8)flags;
        dst[1] = (u8)shift;
        store_u32(dst + 2, (u32)*digest ^ seed);
        h->len = (u32)eden_len(e);
    }
}

/* Set each bucket's limits: a value above limit k has at least level k + 1. */
FUNC void eden_find_limits(eden e, LOCALP const double *squares, LOCALP float *limits) {
    const u32 bucket = LANE / EDEN_LEVELS, k = LANE % EDEN_LEVELS;
    if (bucket < eden_tile_buckets(e) && k + 1 < 1U << (e.bits - 1)) {
        const u32 level = EDEN_LEVELS * (e.bits - 1) + k;
        const u32 wide = eden_width(e, eden_first(e) + bucket);
        const double all = e.rotations == 2 ? squares[bucket] * (double)wide : squares[bucket];
        limits[LANE] =
            (float)((double)(eden_levels[level] + eden_levels[level + 1]) / 2048.0 * ROOT64(all));
    }
    BARRIER();
}

/* Load the magnitudes of the codes into levels[EDEN_LEVELS]. */
FUNC void eden_load_levels(eden e, LOCALP float *levels) {
    if (LANE < EDEN_LEVELS) {
        levels[LANE] = (float)eden_levels[EDEN_LEVELS * (e.bits - 1) + LANE];
    }
    BARRIER();
}

/* Choose the codes of a work-item's four values, and multiply their magnitudes by the levels.
 * Returns the codes, the first one in the highest bits. */
FUNC u32 eden_choose(LOCALP float *v, eden e, LOCALP const float *limits,
                     LOCALP const float *levels) {
    const u32 bucket = 4 * LANE >> e.shift, negative = 1U << (e.bits - 1);
    u32 codes = 0;
    for (u32 k = 0; k < 4; k++) {
        const float x = v[4 * LANE + k], size = FABS(x);
        u32 number = 0;
        for (u32 j = 0; j + 1 < negative; j++) {
            number += size > limits[EDEN_LEVELS * bucket + j];
        }
        v[4 * LANE + k] = size * levels[number];
        codes = codes << e.bits | number | (x < 0.0f ? negative : 0);
    }
    return codes;
}

/* Return a bucket's scale. largest: bits of its largest magnitude. */
FUNC float eden_scale_of(eden e, u32 wide, u32 largest, double squares, double products) {
    const u32 exponent = largest >> 23;
    if (exponent == 0 || wide == 0) {
        return 0.0f;
    }
    const double up = (double)FLOAT_OF((255 - exponent) << 23);
    const double scale = squares / products / up, most = (double)eden_scale_max(e, wide);
    return scale < (double)FLOAT_OF(EDEN_LEAST) ? 0.0f : (float)(scale < most ? scale : most);
}

/* Write the codes of a tile; those of eight values are e.bits bytes. Zeros where a bucket's scale
 * is 0. */
FUNC void eden_put_codes(eden e, LOCALP const u32 *codes, LOCALP const float *fitted,
                         GLOBAL u8 *dst) {
    const u32 place = 8 * LANE, bucket = place >> e.shift;
    if (place < EDEN_TILE && (place & ((1U << e.shift) - 1)) <
                                 eden_width(e, eden_first(e) + bucket)) {
        const u32 both = codes[2 * LANE] << 4 * e.bits | codes[2 * LANE + 1];
        dst += eden_codes_at(e, GROUP) + LANE * e.bits;
        for (u32 k = 0; k < e.bits; k++) {
            dst[k] = fitted[bucket] > 0.0f ? (u8)(both >> 8 * (e.bits - 1 - k)) : (u8)0;
        }
    }
}

KERNEL eden_encode(GLOBAL const float *x, u32 n, u32 flags, u32 shift, u32 seed,
                   GLOBAL const u64 *digest, GLOBAL u8 *dst, GLOBAL head *h) {
    LOCAL float v[EDEN_TILE];
    LOCAL double part[GROUP_SIZE];
    LOCAL double squares[EDEN_BUCKETS];
    LOCAL double products[EDEN_BUCKETS];
    LOCAL float limits[EDEN_BUCKETS * EDEN_LEVELS];
    LOCAL float fitted[EDEN_BUCKETS];
    LOCAL float levels[EDEN_LEVELS];
    LOCAL u32 codes[GROUP_SIZE];
    LOCAL u32 signs[2 * EDEN_WORDS];
    LOCAL u32 largest[EDEN_BUCKETS];
    const eden e = eden_of(flags, shift, n);
    eden_load(x, n, e, v, largest);
    eden_draw_signs(e, LANE < EDEN_WORDS ? (u32)*digest ^ seed : 0, signs);
    eden_load_levels(e, levels);
    eden_sums(v, e, 1, part, squares);
    eden_turn(v, e, signs);
    eden_find_limits(e, squares, limits);
    codes[LANE] = eden_choose(v, e, limits, levels);
    BARRIER();
    eden_sums(v, e, 0, part, products);
    if (LANE < eden_tile_buckets(e)) {
        const u32 bucket = eden_first(e) + LANE;
        fitted[LANE] = eden_scale_of(e, eden_width(e, bucket), largest[LANE], squares[LANE],
                                     products[LANE]);
        if (bucket < e.buckets) {
            store_u32(dst + EDEN_LEAD + 4 * bucket, BITS_OF(fitted[LANE]));
        }
        if (largest[LANE] >= 0x7f800000U) {
            fail(h, FED_ENONFINITE);
            h->len = 0;
        }
    }
    BARRIER();
    eden_put_codes(e, codes, fitted, dst);
}

FUNC int eden_lead_bad(GLOBAL const u8 *src, u32 len) {
    if (len < EDEN_LEAD) {
        return 1;
    }
    const u32 flags = src[0], bits = flags & EDEN_BITS, few = flags & EDEN_FEW;
    return flags >= 2 * EDEN_ONE_SCALE || bits < 1 || bits > (few != 0 ? 1 : 4) ||
           (few == 0 && (flags & EDEN_ONE_SCALE) != 0) || src[1] < 6 || src[1] > EDEN_TILE_BITS;
}

/* Is a scale out of range, or 0 with codes that are not? A work-item has the codes of eight
 * values. */
FUNC int eden_codes_bad(GLOBAL const u8 *src, eden e) {
    const u32 place = 8 * LANE, bucket = eden_first(e) + (place >> e.shift);
    const u32 wide = eden_width(e, bucket);
    if (place >= EDEN_TILE || (place & ((1U << e.shift) - 1)) >= wide) {
        return 0;
    }
    const u32 bits = load_u32(src + EDEN_LEAD + 4 * bucket);
    GLOBAL const u8 *codes = src + eden_codes_at(e, GROUP) + LANE * e.bits;
    u32 any = 0;
    for (u32 k = 0; bits == 0 && k < e.bits; k++) {
        any |= codes[k];
    }
    return bits == 0 ? any != 0 : bits < EDEN_LEAST || bits > BITS_OF(eden_scale_max(e, wide));
}

/* few: other kernels read messages of a few values; else only the processor does. */
KERNEL eden_check(GLOBAL const u8 *src, u32 cap, u32 n, u32 few, GLOBAL head *h) {
    const u32 len = h->len;
    if (len > cap || eden_lead_bad(src, len)) {
        fail(h, FED_EFORMAT);
        return;
    }
    if ((src[0] & EDEN_FEW) != 0) {
        if (few == 0) {
            fail(h, FED_EVERSION);
        }
        return;
    }
    const eden e = eden_of(src[0], src[1], n);
    if (len != eden_len(e) || eden_codes_bad(src, e)) {
        fail(h, FED_EFORMAT);
    }
}

/* Set a work-item's four values to the levels, with their signs, that the codes name. */
FUNC void eden_take_codes(GLOBAL const u8 *src, eden e, LOCALP const float *levels,
                          LOCALP float *v) {
    const u32 place = 4 * LANE, wide = eden_width(e, eden_first(e) + (place >> e.shift));
    const u32 is = (place & ((1U << e.shift) - 1)) < wide, negative = 1U << (e.bits - 1);
    u32 codes = 0;
    src += eden_codes_at(e, GROUP) + LANE / 2 * e.bits;
    for (u32 k = 0; is != 0 && k < e.bits; k++) {
        codes = codes << 8 | src[k];
    }
    for (u32 k = 0; k < 4; k++) {
        const u32 code = codes >> (7 - LANE % 2 * 4 - k) * e.bits & (2 * negative - 1);
        const float size = levels[code & (negative - 1)];
        v[place + k] = is == 0 ? 0.0f : code >= negative ? -size : size;
    }
    BARRIER();
}

/* Multiply the values of a tile by their buckets' scales and write them to y, or add w times them. A
 * zero becomes +0. PoCL 3.1 compiles quad_store wrongly here, after a barrier. */
FUNC void eden_give(LOCALP const float *v, eden e, LOCALP const float *fitted, u32 n, float w,
                    u32 set, GLOBAL float *y) {
    for (u32 k = LANE; k < EDEN_TILE && GROUP * EDEN_TILE + k < n; k += GROUP_SIZE) {
        const float sent = v[k] * fitted[k >> e.shift] + 0.0f;
        const u32 i = GROUP * EDEN_TILE + k;
        y[i] = set != 0 ? sent : y[i] + w * sent;
    }
}

KERNEL eden_read(GLOBAL const u8 *src, u32 n, float w, u32 set, GLOBAL float *y,
                 GLOBAL const head *h) {
    LOCAL float v[EDEN_TILE];
    LOCAL float fitted[EDEN_BUCKETS];
    LOCAL float levels[EDEN_LEVELS];
    LOCAL u32 signs[2 * EDEN_WORDS];
    if (h->status != 0 || (src[0] & EDEN_FEW) != 0) {
        return;
    }
    const eden e = eden_of(src[0], src[1], n);
    const u32 bucket = eden_first(e) + LANE;
    if (LANE < eden_tile_buckets(e)) {
        fitted[LANE] =
            bucket < e.buckets ? FLOAT_OF(load_u32(src + EDEN_LEAD + 4 * bucket)) : 0.0f;
    }
    eden_load_levels(e, levels);
    eden_take_codes(src, e, levels, v);
    eden_draw_signs(e, LANE < EDEN_WORDS ? load_u32(src + 2) : 0, signs);
    eden_turn_back(v, e, signs);
    eden_give(v, e, fitted, n, w, set, y);
}
