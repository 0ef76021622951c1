/* sbc, stc and dgc: write the mean or the values of the chosen elements, and their positions in
 * Golomb's code. Formats: docs/codec-formats.md#positions */
/* SPDX-License-Identifier: Apache-2.0 */

/* Ways in which a message holds the chosen values; the numbers of the enum fedcodec_sparse. */
#define MEAN   0U
#define SIGNS  1U
#define VALUES 2U
#define BARE   3U /* signs alone: the codec writes what stands before them */

#define RICE 32U /* the parameter b of Golomb's code may be 0 to 31 */

typedef struct message {
    u32 count;
    u32 which;  /* encode: the side that is sent */
    float mu;   /* the mean; unused for VALUES */
    u32 values; /* offset of the signs or values */
    u32 at;     /* offset of the positions */
    u32 b;      /* the parameter of Golomb's code: how many low bits each code has */
    u32 chunks; /* decode: chunks of the positions' bytes */
    u32 reserved;
} message;

/*
 * The mean must have the same bits as the mean that the processor's encoder computes. Each
 * magnitude is a multiple of the ulp of the least magnitude. If the sum is at most 2^53 ulps, no
 * partial sum is rounded, so any order of additions gives the same bits. Otherwise one work-item
 * adds in the processor's order.
 */
#define MOST_ULPS ((u64)1 << 53)
#define TOO_MANY  ((u64)1 << 54)

FUNC u64 at_most(u64 sum) {
    return sum < TOO_MANY ? sum : TOO_MANY;
}

FUNC u64 in_ulps(u32 key, u32 exponent) {
    u32 mine = key >> 23, least = exponent > 0 ? exponent : 1;
    u64 mantissa = (key & 0x7fffffU) | (mine > 0 ? 0x800000U : 0);
    u32 shift = mine > least ? mine - least : 0;
    return shift > 30 ? TOO_MANY : at_most(mantissa << shift);
}

/* Return the ulp of the floats with this exponent field. */
FUNC double ulp_of(u32 exponent) {
    u32 e = exponent > 0 ? exponent : 1;
    return (double)FLOAT_OF(e > 23 ? (e - 23) << 23 : 1U << (e - 1));
}

/* Sum a number of each work-item. Each number is at most TOO_MANY; a larger sum becomes
 * TOO_MANY. */
FUNC u64 wg_sum64(LOCALP u64 *room, u64 value) {
    room[LANE] = value;
    BARRIER();
    for (u32 step = GROUP_SIZE / 2; step > 0; step /= 2) {
        u64 more = LANE < step ? room[LANE + step] : 0;
        BARRIER();
        room[LANE] = at_most(room[LANE] + more);
        BARRIER();
    }
    u64 sum = room[0];
    BARRIER();
    return sum;
}

/* Sum the magnitudes of each side's chosen values (select.cl explains sides). Each work-group sums
 * 2,048 values into one element of parts. Side 0 comes first. */
KERNEL sparse_sums(GLOBAL const side *chosen, GLOBAL const u32 *totals, GLOBAL const float *value,
                   u32 k, u32 each, GLOBAL u64 *parts) {
    LOCAL u64 room[GROUP_SIZE];
    u32 s = GROUP / each, first = (GROUP - s * each) * TILE + LANE;
    u32 count = chosen_count(chosen, totals, s), exponent = chosen[s].exponent;
    u64 sum = 0;
    for (u32 j = 0; j < 8; j++) {
        u32 q = first + j * GROUP_SIZE;
        if (q < count) {
            sum += in_ulps(BITS_OF(value[(u64)s * k + q]) & 0x7fffffffU, exponent);
        }
    }
    sum = wg_sum64(room, at_most(sum));
    if (LANE == 0) {
        parts[GROUP] = sum;
    }
}

/* Launched with one work-group for each side. */
KERNEL sparse_means(GLOBAL side *chosen, GLOBAL const u32 *totals, GLOBAL const float *value, u32 k,
                    u32 each, GLOBAL const u64 *parts) {
    LOCAL u64 room[GROUP_SIZE];
    LOCAL float next[GROUP_SIZE];
    u32 s = GROUP, count = chosen_count(chosen, totals, s);
    u64 ulps = 0;
    for (u32 j = LANE; j < each; j += GROUP_SIZE) {
        ulps = at_most(ulps + parts[s * each + j]);
    }
    ulps = wg_sum64(room, ulps);
    double sum = (double)ulps * ulp_of(chosen[s].exponent);
    u32 in_order = ulps > MOST_ULPS ? count : 0;
    for (u32 base = 0; base < in_order; base += GROUP_SIZE) {
        next[LANE] = base + LANE < count ? FABS(value[(u64)s * k + base + LANE]) : 0.0f;
        BARRIER();
        if (LANE == 0) {
            sum = base == 0 ? 0.0 : sum;
            for (u32 j = 0; j < GROUP_SIZE; j++) {
                sum += (double)next[j]; /* past the last value, next[j] is 0 */
            }
        }
        BARRIER();
    }
    if (LANE == 0) {
        chosen[s].mean = count > 0 ? sum / (double)count : 0.0;
    }
}

FUNC u64 values_size(u32 kind, u32 count) {
    return kind == BARE     ? 0
           : kind == VALUES ? 4 * (u64)count
           : kind == SIGNS  ? 4 + count / 8 + (count % 8 != 0)
                            : 4;
}

/* One work-group chooses the side that is sent, and writes the message up to its values. */
KERNEL sparse_begin(GLOBAL const side *chosen, GLOBAL const u32 *totals, u32 kind, u32 sides, u32 b,
                    GLOBAL u8 *dst, GLOBAL message *m) {
    if (LANE == 0) {
        u32 which = sides == 2 && !(chosen[0].mean >= chosen[sides - 1].mean);
        u32 count = chosen_count(chosen, totals, which), at = 0;
        double mean = kind == VALUES ? 0.0 : chosen[which].mean, most = 3.4028234663852886e38;
        float mu = (float)(mean < most ? mean : most);
        m->count = count;
        m->which = which;
        m->mu = which != 0 ? -mu : mu;
        m->b = b;
        for (u32 v = count; v >= 0x80; v >>= 7) {
            dst[at++] = (u8)(v | 0x80);
        }
        dst[at] = (u8)(count >> 7 * at);
        at++;
        if (count > 0) {
            dst[at++] = (u8)b;
        }
        if (count > 0 && kind != VALUES) {
            store_u32(dst + at, BITS_OF(m->mu));
        }
        m->values = at + (kind == SIGNS ? 4 : 0);
        m->at = at + (count > 0 ? (u32)values_size(kind, count) : 0);
    }
}

FUNC u32 gap_of(GLOBAL const u32 *index, u32 q) {
    return index[q] - (q > 0 ? index[q - 1] + 1 : 0);
}

/* For pos=rice: for each possible b, add to sums[b] how many ones the unary parts of a work-item's
 * 8 codes would have. */
KERNEL sparse_ones(GLOBAL const message *m, GLOBAL const u32 *index, u32 k, GLOBAL u32 *sums) {
    LOCAL u32 mine[RICE];
    u32 first = GROUP * TILE + 8 * LANE;
    index += (u64)m->which * k;
    if (LANE < RICE) {
        mine[LANE] = 0;
    }
    BARRIER();
    for (u32 j = 0; j < 8 && first + j < m->count; j++) {
        u32 ones = gap_of(index, first + j);
        for (u32 b = 0; ones != 0; b++, ones >>= 1) {
            ATOMIC_ADD(&mine[b], ones);
        }
    }
    BARRIER();
    if (LANE < RICE && mine[LANE] != 0) {
        ATOMIC_ADD(&sums[LANE], mine[LANE]);
    }
}

/* Launched with one work-group: choose the b that gives the fewest bits. If several do, choose the
 * least of them. */
KERNEL sparse_best(u32 kind, GLOBAL const u32 *sums, GLOBAL u8 *dst, GLOBAL message *m) {
    if (LANE == 0 && m->count > 0) {
        u64 least = m->count + (u64)sums[0];
        m->b = 0;
        for (u32 b = 1; b < RICE; b++) {
            u64 bits = m->count * (u64)(b + 1) + sums[b];
            m->b = bits < least ? b : m->b;
            least = bits < least ? bits : least;
        }
        dst[m->at - (u32)values_size(kind, m->count) - 1] = (u8)m->b;
    }
}

/* Return the number of ones in the unary part of code q. *low becomes its b low bits. */
FUNC u32 code_ones(GLOBAL const u32 *index, u32 q, u32 b, u32 *low) {
    u32 gap = gap_of(index, q);
    *low = gap & ((1U << b) - 1);
    return gap >> b;
}

FUNC u32 code_bits(GLOBAL const message *m, GLOBAL const u32 *index) {
    u32 first = GROUP * TILE + 8 * LANE, bits = 0, low;
    for (u32 j = 0; j < 8 && first + j < m->count; j++) {
        bits += code_ones(index, first + j, m->b, &low) + 1 + m->b;
    }
    return bits;
}

KERNEL sparse_lengths(GLOBAL const message *m, GLOBAL const u32 *index, u32 k, GLOBAL u32 *tiles) {
    LOCAL u32 room[GROUP_SIZE];
    u32 total;
    wg_scan(room, code_bits(m, index + (u64)m->which * k), &total);
    if (LANE == 0) {
        tiles[GROUP] = total;
    }
}

/* Clear the bits of a word that are set in v, whose high byte is the word's first in memory. */
FUNC void clear_word(GLOBAL u32 *word, u32 v) {
    if (v != 0) {
        ATOMIC_AND(word, ~(v >> 24 | (v >> 8 & 0xff00U) | (v << 8 & 0xff0000U) | v << 24));
    }
}

/* Write a code's last b + 1 bits, from bit pos on: clear the bits that are 0. All bits are 1
 * before. */
FUNC void clear_bits(GLOBAL u32 *words, u32 pos, u32 low, u32 b) {
    u64 zeros = (~(u64)low & (((u64)2 << b) - 1)) << (63 - pos % 32 - b);
    clear_word(words + pos / 32, (u32)(zeros >> 32));
    clear_word(words + pos / 32 + 1, (u32)zeros);
}

FUNC void put_value(u32 kind, GLOBAL const message *m, u32 q, float v, GLOBAL u8 *dst,
                    GLOBAL float *residual) {
    float sent = m->mu;
    if (kind == VALUES) {
        sent = v;
        store_u32(dst + m->values + 4 * (u64)q, BITS_OF(v));
    } else if (kind == SIGNS) {
        sent = FLOAT_OF(BITS_OF(m->mu) | (BITS_OF(v) & 0x80000000U));
    }
    *residual = v - sent;
}

/* Write the codes and values of 8 positions a work-item. words[] must be all ones at first. */
KERNEL sparse_put(GLOBAL const message *m, GLOBAL const u32 *index, GLOBAL const float *value, u32 k,
                  u32 kind, GLOBAL const u32 *tiles, GLOBAL u32 *words, GLOBAL u8 *dst,
                  GLOBAL float *residual) {
    LOCAL u32 room[GROUP_SIZE];
    GLOBAL const u32 *mine = index + (u64)m->which * k;
    u32 first = GROUP * TILE + 8 * LANE, b = m->b, total, low, signs = 0xff;
    u32 pos = tiles[GROUP] + wg_scan(room, code_bits(m, mine), &total);
    for (u32 j = 0; j < 8 && first + j < m->count; j++) {
        float v = value[(u64)m->which * k + first + j];
        pos += code_ones(mine, first + j, b, &low);
        clear_bits(words, pos, low, b);
        pos += b + 1;
        if (kind != BARE) {
            put_value(kind, m, first + j, v, dst, residual + mine[first + j]);
        }
        signs ^= v < 0.0f ? 0 : 0x80U >> j;
    }
    if ((kind == SIGNS || kind == BARE) && first < m->count) {
        dst[m->values + first / 8] = (u8)signs;
    }
}

KERNEL sparse_finish(GLOBAL const message *m, GLOBAL const u32 *words, GLOBAL const u32 *bits,
                     GLOBAL u8 *dst, GLOBAL head *h) {
    u32 word = GROUP * GROUP_SIZE + LANE, bytes = *bits / 8 + (*bits % 8 != 0);
    for (u32 j = 0; j < 4 && 4 * word + j < bytes; j++) {
        dst[m->at + 4 * word + j] = (u8)(words[word] >> 8 * j);
    }
    if (word == 0) {
        h->len = h->status == 0 ? m->at + bytes : 0;
    }
}
