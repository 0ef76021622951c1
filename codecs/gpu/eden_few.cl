/* eden with p < 1: choose and write the values of largest magnitude of each bucket, and read them.
 * The kernels of sparse.cl write the signs and positions, those of sparse_read.cl find the
 * positions. Format: docs/codec-formats.md#eden */
/* SPDX-License-Identifier: Apache-2.0 */

/* A scale's byte has the bits of a float from EDEN_DROPPED on. EDEN_BELOW: the number before that
 * of the least scale. */
#define EDEN_DROPPED   20U
#define EDEN_BYTE_MOST 255U
#define EDEN_BELOW     7U
#define EDEN_ROUNDING  2U /* the stream of random numbers that round scales */

typedef struct eden_sum {
    double squares, products;
} eden_sum;

/* What is known of all buckets together. largest must be 0 at the first launch. */
typedef struct eden_few {
    u32 largest; /* encode: the largest number of a scale; decode: the largest byte of one */
    u32 base;    /* what to add to a scale's byte */
    float one;   /* the scale of the tensor */
    u32 most;    /* decode: values sent of a whole bucket; 0 for a message of another kind */
} eden_few;

FUNC u32 eden_one_scale(u32 flags) {
    return (flags & EDEN_ONE_SCALE) != 0;
}

/* Return how many values of a bucket are sent, if any are. */
FUNC u32 eden_sent(eden e, u32 most, u32 bucket) {
    return 1 + 2 * (most * eden_width(e, bucket) >> (e.shift + 1));
}

/* Return the values sent of this number of buckets. Is the last of the tensor's buckets one of
 * them? */
FUNC u32 eden_sent_of(eden e, u32 most, u32 buckets, u32 last) {
    return last != 0 ? (buckets - 1) * most + eden_sent(e, most, e.buckets - 1) : buckets * most;
}

FUNC u32 eden_marks_at(u32 flags) {
    return EDEN_LEAD + 2 + (eden_one_scale(flags) ? 4 : 2);
}

FUNC u32 eden_marks_end(eden e, u32 flags) {
    const u32 bits = e.buckets / 8 + (e.buckets % 8 != 0);
    return eden_marks_at(flags) + (eden_one_scale(flags) ? bits : e.buckets);
}

FUNC u32 eden_mark(GLOBAL const u8 *src, u32 flags, u32 bucket) {
    src += eden_marks_at(flags);
    return eden_one_scale(flags) ? src[bucket / 8] >> (7 - bucket % 8) & 1 : src[bucket];
}

/* In each bucket, find the bits of the k-th greatest magnitude, 4 bits at a time. low: these bits;
 * ties: how many values of this magnitude are sent. ties is k at first. */
FUNC void eden_find_low(LOCALP const float *v, eden e, LOCALP u32 *counts, LOCALP u32 *low,
                        LOCALP u32 *ties) {
    const u32 place = 4 * LANE, bucket = place >> e.shift;
    const u32 is = (place & ((1U << e.shift) - 1)) < eden_width(e, eden_first(e) + bucket);
    for (u32 shift = 28, level = 0; level < 8; level++, shift -= 4) {
        counts[LANE] = 0;
        BARRIER();
        for (u32 k = 0; k < 4; k++) {
            const u32 key = magnitude_of(v[place + k]);
            if (is != 0 && (level == 0 || key >> shift >> 4 == low[bucket])) {
                ATOMIC_ADD(&counts[16 * bucket + (key >> shift & 15)], 1U);
            }
        }
        BARRIER();
        if (LANE < EDEN_BUCKETS) {
            u32 digit = 15;
            for (; digit > 0 && counts[16 * LANE + digit] < ties[LANE]; digit--) {
                ties[LANE] -= counts[16 * LANE + digit];
            }
            low[LANE] = level == 0 ? digit : low[LANE] << 4 | digit;
        }
        BARRIER();
    }
}

/* List the places and values that are sent of each bucket, in order, from place bucket * most on.
 * picked: their magnitudes, from place 0 of the bucket on. */
FUNC void eden_list(LOCALP const float *v, eden e, u32 most, LOCALP const u32 *low,
                    LOCALP const u32 *ties, LOCALP u32 *room, LOCALP u32 *before,
                    LOCALP float *picked, GLOBAL u32 *index, GLOBAL float *value) {
    const u32 place = 4 * LANE, bucket = place >> e.shift, first = bucket << e.shift;
    const u32 is = place - first < eden_width(e, eden_first(e) + bucket);
    const u64 to = (u64)(eden_first(e) + bucket) * most;
    u32 mine = 0, total;
    for (u32 k = 0; is != 0 && k < 4; k++) {
        const u32 key = magnitude_of(v[place + k]);
        mine += key > low[bucket] ? 1U : key == low[bucket] ? 1U << 16 : 0;
    }
    u32 seen = wg_scan(room, mine, &total);
    if (place == first) {
        before[bucket] = seen;
    }
    BARRIER();
    seen -= before[bucket];
    u32 above = seen & 0xffffU, equal = seen >> 16;
    for (u32 k = 0; is != 0 && k < 4; k++) {
        const u32 key = magnitude_of(v[place + k]), tie = key == low[bucket];
        const u32 slot = above + (equal < ties[bucket] ? equal : ties[bucket]);
        if (key > low[bucket] || (tie != 0 && equal < ties[bucket])) {
            picked[first + slot] = FABS(v[place + k]);
            index[to + slot] = GROUP * EDEN_TILE + place + k;
            value[to + slot] = v[place + k];
        }
        above += key > low[bucket];
        equal += tie;
    }
    BARRIER();
}

FUNC float eden_few_scale(eden_sum s, float most) {
    const double scale = s.squares > 0.0 ? s.squares / s.products : 0.0;
    return scale < (double)FLOAT_OF(EDEN_LEAST) ? 0.0f
                                                : (float)(scale < (double)most ? scale : most);
}

/* Return the number of a bucket's scale, rounded up or down at random. */
FUNC u32 eden_rounded(eden e, u32 bucket, eden_sum s, u32 draw) {
    const float most = eden_scale_max(e, eden_width(e, bucket)), scale = eden_few_scale(s, most);
    const u32x4 four = random_block(draw, EDEN_ROUNDING, bucket / 4);
    const u32 which = bucket % 4;
    const u32 random = which == 0 ? four.x : which == 1 ? four.y : which == 2 ? four.z : four.w;
    const u32 number = (BITS_OF(scale) + (random & ((1U << EDEN_DROPPED) - 1))) >> EDEN_DROPPED;
    const u32 limit = BITS_OF(most) >> EDEN_DROPPED;
    return scale == 0.0f ? 0 : number < limit ? number : limit;
}

/* Return what a bucket adds to the tensor's scale; 0 for a bucket of zeros. */
FUNC eden_sum eden_sum_of(u32 largest, double squares, LOCALP const float *picked, u32 sent) {
    const double up = (double)FLOAT_OF((255 - (largest >> 23)) << 23);
    eden_sum s;
    s.squares = 0.0;
    s.products = 0.0;
    if (largest >> 23 > 0) {
        for (u32 k = 0; k < sent; k++) {
            s.products += (double)picked[k];
        }
        s.squares = squares / up / up;
        s.products /= up;
    }
    return s;
}

/* Rotate the buckets of a tile and list the values to send. sums, numbers: of each bucket, the
 * sums for its scale and the scale's number. */
KERNEL eden_few_choose(GLOBAL const float *x, u32 n, u32 flags, u32 shift, u32 seed, u32 most,
                       GLOBAL const u64 *digest, GLOBAL u32 *index, GLOBAL float *value,
                       GLOBAL eden_sum *sums, GLOBAL u32 *numbers, GLOBAL eden_few *f,
                       GLOBAL head *h) {
    LOCAL float v[EDEN_TILE];
    LOCAL float picked[EDEN_TILE];
    LOCAL double part[GROUP_SIZE];
    LOCAL double squares[EDEN_BUCKETS];
    LOCAL u32 counts[GROUP_SIZE];
    LOCAL u32 signs[2 * EDEN_WORDS];
    LOCAL u32 largest[EDEN_BUCKETS];
    LOCAL u32 low[EDEN_BUCKETS];
    LOCAL u32 ties[EDEN_BUCKETS];
    LOCAL u32 before[EDEN_BUCKETS];
    const eden e = eden_of(flags, shift, n);
    const u32 draw = LANE < EDEN_WORDS ? (u32)*digest ^ seed : 0, bucket = eden_first(e) + LANE;
    eden_load(x, n, e, v, largest);
    eden_draw_signs(e, draw, signs);
    eden_sums(v, e, 1, part, squares);
    eden_turn(v, e, signs);
    if (LANE < EDEN_BUCKETS) {
        ties[LANE] = eden_sent(e, most, bucket);
    }
    BARRIER();
    eden_find_low(v, e, counts, low, ties);
    eden_list(v, e, most, low, ties, counts, before, picked, index, value);
    if (LANE < eden_tile_buckets(e) && bucket < e.buckets) {
        const eden_sum s = eden_sum_of(largest[LANE], squares[LANE], picked + (LANE << shift),
                                       eden_sent(e, most, bucket));
        const u32 number = eden_rounded(e, bucket, s, draw);
        sums[bucket] = s;
        numbers[bucket] = number;
        ATOMIC_MAX(&f->largest, number);
        if (largest[LANE] >= 0x7f800000U) {
            fail(h, FED_ENONFINITE);
        }
    }
}

/* Launched with one work-group: write how many values are sent of a bucket, and the tensor's scale
 * or what is added to the bytes of the scales. Sums are added in the order of the buckets. */
KERNEL eden_few_scale_all(u32 n, u32 flags, u32 shift, u32 most, GLOBAL const eden_sum *sums,
                          GLOBAL eden_few *f, GLOBAL u8 *dst) {
    LOCAL double next[2 * GROUP_SIZE];
    LOCAL double all[2];
    const eden e = eden_of(flags, shift, n);
    const u32 added = eden_one_scale(flags) ? e.buckets : 0;
    double sum = 0.0;
    for (u32 base = 0; base < added; base += GROUP_SIZE) {
        const u32 left = added - base < GROUP_SIZE ? added - base : GROUP_SIZE;
        if (LANE < left) {
            next[LANE] = sums[base + LANE].squares;
            next[GROUP_SIZE + LANE] = sums[base + LANE].products;
        }
        BARRIER();
        for (u32 k = 0; LANE < 2 && k < left; k++) {
            sum += next[GROUP_SIZE * LANE + k];
        }
        BARRIER();
    }
    if (LANE < 2) {
        all[LANE] = sum;
    }
    BARRIER();
    if (LANE == 0) {
        eden_sum s;
        s.squares = all[0];
        s.products = all[1];
        const u32 largest = f->largest;
        const u32 base = largest > EDEN_BELOW + EDEN_BYTE_MOST ? largest - EDEN_BYTE_MOST
                                                               : EDEN_BELOW;
        f->base = base;
        f->one = eden_few_scale(s, eden_scale_max(e, 1U << shift));
        dst[EDEN_LEAD] = (u8)most;
        dst[EDEN_LEAD + 1] = (u8)(most >> 8);
        if (eden_one_scale(flags)) {
            store_u32(dst + EDEN_LEAD + 2, BITS_OF(f->one));
        } else {
            dst[EDEN_LEAD + 2] = (u8)(largest > 0 ? base : 0);
            dst[EDEN_LEAD + 3] = (u8)(largest > 0 ? base >> 8 : 0);
        }
    }
}

FUNC u32 eden_mark_for(u32 flags, GLOBAL const eden_sum *sums, GLOBAL const u32 *numbers,
                       GLOBAL const eden_few *f, u32 bucket) {
    if (eden_one_scale(flags)) {
        return f->one > 0.0f && sums[bucket].squares > 0.0;
    }
    return numbers[bucket] > f->base ? numbers[bucket] - f->base : 0;
}

/* Write the mark of each bucket. is_sent: 1 for a bucket that is sent, else 0. */
KERNEL eden_few_mark(u32 n, u32 flags, u32 shift, GLOBAL const eden_sum *sums,
                     GLOBAL const u32 *numbers, GLOBAL const eden_few *f, GLOBAL u32 *is_sent,
                     GLOBAL u8 *dst) {
    const eden e = eden_of(flags, shift, n);
    const u32 bucket = GROUP * GROUP_SIZE + LANE;
    if (bucket < e.buckets) {
        const u32 mark = eden_mark_for(flags, sums, numbers, f, bucket);
        is_sent[bucket] = mark > 0;
        dst += eden_marks_at(flags);
        if (!eden_one_scale(flags)) {
            dst[bucket] = (u8)mark;
        } else if (bucket % 8 == 0) {
            u32 byte = 0;
            for (u32 k = 0; k < 8 && bucket + k < e.buckets; k++) {
                byte |= eden_mark_for(flags, sums, numbers, f, bucket + k) << (7 - k);
            }
            dst[bucket / 8] = (u8)byte;
        }
    }
}

/* Move the places and values of the buckets that are sent together. before: how many buckets before
 * this one are sent. */
KERNEL eden_few_gather(u32 n, u32 flags, u32 shift, u32 most, GLOBAL const u8 *dst,
                       GLOBAL const u32 *before, GLOBAL const u32 *index,
                       GLOBAL const float *value, GLOBAL u32 *sent_index,
                       GLOBAL float *sent_value) {
    const eden e = eden_of(flags, shift, n);
    const u32 at = GROUP * GROUP_SIZE + LANE, bucket = at / most, slot = at % most;
    if (bucket < e.buckets && slot < eden_sent(e, most, bucket) &&
        eden_mark(dst, flags, bucket) != 0) {
        const u64 to = (u64)before[bucket] * most + slot;
        sent_index[to] = index[at];
        sent_value[to] = value[at];
    }
}

/* Launched with one work-group: write the byte of the positions' code. */
KERNEL eden_few_begin(u32 n, u32 flags, u32 shift, u32 most, u32 b, GLOBAL const u32 *sent_buckets,
                      GLOBAL u8 *dst, GLOBAL message *m) {
    const eden e = eden_of(flags, shift, n);
    if (LANE == 0) {
        const u32 last = e.buckets > 0 && eden_mark(dst, flags, e.buckets - 1) != 0;
        const u32 count = eden_sent_of(e, most, *sent_buckets, last);
        m->count = count;
        m->which = 0;
        m->b = b;
        m->values = eden_marks_end(e, flags);
        m->at = m->values + (count > 0 ? count / 8 + (count % 8 != 0) + 1 : 0);
        if (count > 0) {
            dst[m->at - 1] = (u8)b;
        }
    }
}

/* Check the marks of a message, a work-item each bucket. is_sent has room for `rows` buckets. */
KERNEL eden_few_check(GLOBAL const u8 *src, u32 cap, u32 n, u32 rows, GLOBAL eden_few *f,
                      GLOBAL u32 *is_sent, GLOBAL head *h) {
    const u32 len = h->len, bucket = GROUP * GROUP_SIZE + LANE;
    u32 mark = 0;
    if (len <= cap && !eden_lead_bad(src, len) && (src[0] & EDEN_FEW) != 0) {
        const u32 flags = src[0];
        const eden e = eden_of(flags, src[1], n);
        if (len < eden_marks_end(e, flags)) {
            fail(h, FED_EFORMAT);
        } else if (bucket < e.buckets) {
            const float most = eden_scale_max(e, eden_width(e, bucket));
            const u32 base = src[EDEN_LEAD + 2] | (u32)src[EDEN_LEAD + 3] << 8;
            mark = eden_mark(src, flags, bucket);
            if (!eden_one_scale(flags) && mark > 0 &&
                base + mark > BITS_OF(most) >> EDEN_DROPPED) {
                fail(h, FED_EFORMAT);
            }
            ATOMIC_MAX(&f->largest, mark);
        }
    }
    if (bucket < rows) {
        is_sent[bucket] = mark > 0;
    }
}

/* Is the scale of the tensor, or what is added to the bytes of the scales, other than the encoder
 * could have written? */
FUNC int eden_scale_bad(GLOBAL const u8 *src, eden e, u32 flags, u32 count, u32 largest) {
    if (eden_one_scale(flags)) {
        const u32 bits = load_u32(src + EDEN_LEAD + 2), end = eden_marks_end(e, flags);
        const u32 padding = e.buckets % 8 != 0 ? src[end - 1] & 0xffU >> e.buckets % 8 : 0;
        return padding != 0 ||
               (count == 0 ? bits != 0
                           : bits < EDEN_LEAST ||
                                 bits > BITS_OF(eden_scale_max(e, 1U << e.shift)));
    }
    const u32 base = src[EDEN_LEAD + 2] | (u32)src[EDEN_LEAD + 3] << 8;
    return count == 0 ? base != 0
                      : base < EDEN_BELOW || (base > EDEN_BELOW && largest != EDEN_BYTE_MOST);
}

/* Return the width of all buckets together: positions are below it. */
FUNC u32 eden_width_of_all(eden e) {
    return (e.whole << e.shift) + e.rest;
}

/* Find the signs and positions. */
FUNC u32 eden_few_find(GLOBAL const u8 *src, u32 len, u32 n, u32 sent_buckets, u32 most,
                       GLOBAL eden_few *f, GLOBAL message *m) {
    const u32 flags = src[0];
    const eden e = eden_of(flags, src[1], n);
    const u32 end = eden_marks_end(e, flags);
    const u32 last = e.buckets > 0 && eden_mark(src, flags, e.buckets - 1) != 0;
    const u32 count = eden_sent_of(e, most, sent_buckets, last);
    const u32 signs = count / 8 + (count % 8 != 0), padding = 0xffU >> count % 8;
    if (eden_scale_bad(src, e, flags, count, f->largest)) {
        return FED_EFORMAT;
    }
    f->base = src[EDEN_LEAD + 2] | (u32)src[EDEN_LEAD + 3] << 8;
    f->one = FLOAT_OF(load_u32(src + EDEN_LEAD + 2));
    f->most = most;
    if (count == 0) {
        return len == end ? FED_OK : FED_EFORMAT;
    }
    if (len - end <= signs || (count % 8 != 0 && (src[end + count / 8] & padding) != padding)) {
        return FED_EFORMAT;
    }
    m->values = end;
    return open_positions(m, count, src[end + signs], end + signs + 1, len, eden_width_of_all(e));
}

/* Launched with one work-group, after is_sent was summed. */
KERNEL eden_few_open(GLOBAL const u8 *src, u32 n, GLOBAL const u32 *sent_buckets,
                     GLOBAL eden_few *f, GLOBAL message *m, GLOBAL head *h) {
    if (LANE == 0) {
        m->count = 0;
        m->chunks = 0;
        f->most = 0;
        if (h->status == 0 && (src[0] & EDEN_FEW) != 0) {
            const u32 most = src[EDEN_LEAD] | (u32)src[EDEN_LEAD + 1] << 8;
            const u32 bad = most % 2 == 0 || most >= 1U << src[1];
            const u32 status =
                bad ? FED_EFORMAT : eden_few_find(src, h->len, n, *sent_buckets, most, f, m);
            if (status != FED_OK) {
                fail(h, status);
            }
        }
    }
}

/* Set the bits of the values that are sent, in one plane, and their signs, in another one. Fail
 * unless each bucket has as many positions as it must. */
KERNEL eden_few_place(GLOBAL const u8 *src, u32 n, GLOBAL const message *m, GLOBAL const u8 *lows,
                      GLOBAL const u32 *codes, GLOBAL const u64 *moved, GLOBAL const u32 *before,
                      GLOBAL const eden_few *f, GLOBAL u32 *there, GLOBAL u32 *negative,
                      GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u64 wide[GROUP_SIZE];
    const u32 chunk = GROUP * GROUP_SIZE + LANE, len = h->len;
    u32 bad = 0;
    sums total;
    if (GROUP * GROUP_SIZE >= m->chunks) {
        return;
    }
    const eden e = eden_of(src[0], src[1], n);
    const u32 most = f->most, valid = f->most > 0;
    const sums mine = chunk_sums(src, m, len, lows), at = wg_scan_sums(room, wide, mine, &total);
    walk c = walk_from(src, m, len, chunk, chunk < m->chunks ? lows[chunk] : 0);
    const u64 first = moved[GROUP] + at.moved, end = eden_width_of_all(e);
    for (u32 j = 0; valid != 0 && j < mine.codes; j++) {
        next_code(&c, m->b);
        const u64 position = first + c.moved - 1;
        const u32 code = codes[GROUP] + at.codes + j, place = (u32)position;
        const u32 bucket = place >> e.shift;
        if (position >= end || code >= m->count || eden_mark(src, src[0], bucket) == 0 ||
            code - before[bucket] * most >= eden_sent(e, most, bucket)) {
            bad = 1;
        } else {
            ATOMIC_OR(&there[place / 32], 1U << place % 32);
            if ((src[m->values + code / 8] << code % 8 & 0x80U) != 0) {
                ATOMIC_OR(&negative[place / 32], 1U << place % 32);
            }
        }
    }
    if (bad != 0) {
        fail(h, FED_EFORMAT);
    }
}

/* Return the scale of a bucket; 0 if it is not sent. */
FUNC float eden_marked_scale(GLOBAL const u8 *src, GLOBAL const eden_few *f, u32 bucket) {
    const u32 flags = src[0], mark = eden_mark(src, flags, bucket);
    return mark == 0               ? 0.0f
           : eden_one_scale(flags) ? f->one
                                   : FLOAT_OF((f->base + mark) << EDEN_DROPPED);
}

KERNEL eden_few_read(GLOBAL const u8 *src, u32 n, GLOBAL const u32 *there,
                     GLOBAL const u32 *negative, GLOBAL const eden_few *f, float w, u32 set,
                     GLOBAL float *y, GLOBAL const head *h) {
    LOCAL float v[EDEN_TILE];
    LOCAL float fitted[EDEN_BUCKETS];
    LOCAL u32 signs[2 * EDEN_WORDS];
    if (h->status != 0 || f->most == 0) {
        return;
    }
    const eden e = eden_of(src[0], src[1], n);
    const u32 bucket = eden_first(e) + LANE;
    const u32 word = GROUP * EDEN_WORDS + LANE / 8, bit = 4 * LANE % 32;
    const u32 is = there[word] >> bit, minus = negative[word] >> bit;
    if (LANE < eden_tile_buckets(e)) {
        fitted[LANE] = bucket < e.buckets ? eden_marked_scale(src, f, bucket) : 0.0f;
    }
    for (u32 k = 0; k < 4; k++) {
        v[4 * LANE + k] = (is >> k & 1) == 0 ? 0.0f : (minus >> k & 1) != 0 ? -1.0f : 1.0f;
    }
    BARRIER();
    eden_draw_signs(e, LANE < EDEN_WORDS ? load_u32(src + 2) : 0, signs);
    eden_turn_back(v, e, signs);
    eden_give(v, e, fitted, n, w, set, y);
}
