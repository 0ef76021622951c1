/* The k values of largest magnitude, of all or of each sign: exactly, equal ones by position. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A value's key is its magnitude's 31 bits; zeros do not compete. The k-th greatest key is found
 * in three steps, by histograms of the key's 11, 10 and 10 bits. One side: all values compete.
 * Two sides: side 0 has the positive values, side 1 the negative ones.
 */
#define TILE       2048U  /* values of a group that keeps their order: 8 a work-item */
#define SLAB       16384U /* values of a group that counts: a bin's count has 16 bits */
#define FIRST_BINS 2048U
#define NEXT_BINS  1024U
#define INFINITE   0x7f800000U

/* The choice of one side. */
typedef struct side {
    u32 low;      /* the least key that may be chosen; at last the k-th greatest key */
    u32 ties;     /* how many of the values with this key are chosen */
    u32 all;      /* fewer than k values compete: all of them are chosen */
    u32 exponent; /* of the least value chosen */
    u32 reserved[2];
    double mean; /* of the magnitudes */
} side;

FUNC u32 side_of(u32 bits, u32 sides) {
    return sides == 2 ? bits >> 31 : 0;
}

/* Level 1, 2 or 3: which bits of a key its bin is, where the bins of both sides begin. */
FUNC u32 level_shift(u32 level) {
    return level == 1 ? 20 : level == 2 ? 10 : 0;
}
FUNC u32 level_bins(u32 level) {
    return level == 1 ? FIRST_BINS : NEXT_BINS;
}
FUNC u32 level_start(u32 level) {
    return level == 1 ? 0 : level == 2 ? 2 * FIRST_BINS : 2 * FIRST_BINS + 2 * NEXT_BINS;
}

/* Add a group's bins, side 0 in the low 16 bits, to those of all groups. */
FUNC void flush_bins(LOCALP const u32 *mine, u32 count, GLOBAL u32 *bins) {
    for (u32 b = LANE; b < count; b += GROUP_SIZE) {
        u32 both = mine[b];
        if ((both & 0xffffU) != 0) {
            ATOMIC_ADD(&bins[b], both & 0xffffU);
        }
        if (both >> 16 != 0) {
            ATOMIC_ADD(&bins[count + b], both >> 16);
        }
    }
}

FUNC u32 slab_end(u32 n) {
    u32 left = n - GROUP * SLAB;
    return left < SLAB ? left : SLAB;
}

/* residual += x, and the bins of level 1. */
KERNEL select_absorb(GLOBAL float *residual, GLOBAL const float *x, u32 n, u32 sides,
                     GLOBAL u32 *bins, GLOBAL head *h) {
    LOCAL u32 mine[FIRST_BINS];
    u32 end = slab_end(n), bad = 0;
    for (u32 b = LANE; b < FIRST_BINS; b += GROUP_SIZE) {
        mine[b] = 0;
    }
    BARRIER();
    for (u32 at = LANE; at < end; at += GROUP_SIZE) {
        u32 i = GROUP * SLAB + at;
        float v = residual[i];
        if (x != 0) {
            v += x[i];
            residual[i] = v;
        }
        u32 bits = BITS_OF(v), key = bits & 0x7fffffffU;
        bad |= key >= INFINITE;
        if (key != 0) {
            ATOMIC_ADD(&mine[key >> 20], 1U << 16 * side_of(bits, sides));
        }
    }
    if (bad != 0) {
        fail(h, FED_ENONFINITE);
    }
    BARRIER();
    flush_bins(mine, FIRST_BINS, bins);
}

/* The bins of level 2 or 3, of the keys in the bin that the level before chose. */
KERNEL select_bins(GLOBAL const float *residual, u32 n, u32 sides, u32 level,
                   GLOBAL const side *chosen, GLOBAL u32 *bins) {
    LOCAL u32 mine[NEXT_BINS];
    u32 end = slab_end(n), above = level_shift(level - 1), shift = level_shift(level);
    for (u32 b = LANE; b < NEXT_BINS; b += GROUP_SIZE) {
        mine[b] = 0;
    }
    BARRIER();
    u32 low0 = chosen[0].low >> above, low1 = chosen[sides - 1].low >> above;
    for (u32 at = LANE; at < end; at += GROUP_SIZE) {
        u32 bits = BITS_OF(residual[GROUP * SLAB + at]), key = bits & 0x7fffffffU;
        u32 s = side_of(bits, sides);
        if (key != 0 && key >> above == (s == 0 ? low0 : low1)) {
            ATOMIC_ADD(&mine[key >> shift & (NEXT_BINS - 1)], 1U << 16 * s);
        }
    }
    BARRIER();
    flush_bins(mine, NEXT_BINS, bins + level_start(level));
}

/* A group for each side: the bin that holds the k-th greatest key. */
KERNEL select_pick(u32 k, u32 level, GLOBAL const u32 *bins, GLOBAL side *chosen) {
    LOCAL u32 room[GROUP_SIZE];
    GLOBAL side *s = chosen + GROUP;
    u32 count = level_bins(level), each = count / GROUP_SIZE, total, sum = 0, least = 0;
    GLOBAL const u32 *mine = bins + level_start(level) + GROUP * count;
    u32 rank = level == 1 ? k : s->ties, all = level == 1 ? 0 : s->all;
    BARRIER();
    if (all != 0) {
        return;
    }
    /* Work-item 0 has the highest bins. */
    u32 top = count - 1 - LANE * each;
    for (u32 j = 0; j < each; j++) {
        u32 more = mine[top - j];
        sum += more;
        least = more != 0 ? count - (top - j) : least;
    }
    u32 above = wg_scan(room, sum, &total);
    least = wg_max(room, least);
    if (level == 1 && LANE == 0) {
        s->low = total < rank ? 1 : 0;
        s->ties = 0xffffffffU;
        s->all = total < rank;
        s->exponent = (count - least) >> 3;
    }
    BARRIER();
    if (above < rank && rank <= above + sum) {
        u32 j = 0;
        for (; above + mine[top - j] < rank; j++) {
            above += mine[top - j];
        }
        s->low |= (top - j) << level_shift(level);
        s->ties = rank - above;
        s->exponent = s->low >> 23;
    }
}

/* Of a work-item's 8 values: how many have a key above the k-th in the low half, and how many have
 * just this key in the high half. */
FUNC u32 count_chosen(GLOBAL const float *residual, u32 n, u32 sides, u32 which, u32 low) {
    u32 first = GROUP * TILE + 8 * LANE, packed = 0;
    for (u32 j = 0; j < 8; j++) {
        u32 bits = first + j < n ? BITS_OF(residual[first + j]) : 0, key = bits & 0x7fffffffU;
        u32 mine = key != 0 && side_of(bits, sides) == which;
        packed += mine * ((key > low) | (u32)(key == low) << 16);
    }
    return packed;
}

/* Row 2s of the tiles: values of side s above its k-th key; row 2s + 1: values with that key. */
KERNEL select_count(GLOBAL const float *residual, u32 n, u32 sides, GLOBAL const side *chosen,
                    GLOBAL u32 *tiles) {
    LOCAL u32 room[GROUP_SIZE];
    for (u32 s = 0; s < sides; s++) {
        u32 packed = count_chosen(residual, n, sides, s, chosen[s].low), total;
        wg_scan(room, packed, &total);
        if (LANE == 0) {
            tiles[2 * s * GROUPS + GROUP] = total & 0xffffU;
            tiles[(2 * s + 1) * GROUPS + GROUP] = total >> 16;
        }
    }
}

/* A group for each row: sums of what is before; the sum of all goes into totals. */
KERNEL scan_rows(GLOBAL u32 *rows, u32 length, GLOBAL u32 *totals) {
    LOCAL u32 room[GROUP_SIZE];
    GLOBAL u32 *row = rows + (u64)GROUP * length;
    u32 before = 0, total;
    for (u32 base = 0; base < length; base += 4 * GROUP_SIZE) {
        u32 first = base + 4 * LANE;
        u32 a = first < length ? row[first] : 0, b = first + 1 < length ? row[first + 1] : 0;
        u32 c = first + 2 < length ? row[first + 2] : 0, d = first + 3 < length ? row[first + 3] : 0;
        u32 sum = before + wg_scan(room, a + b + c + d, &total);
        if (first < length) {
            row[first] = sum;
        }
        if (first + 1 < length) {
            row[first + 1] = sum + a;
        }
        if (first + 2 < length) {
            row[first + 2] = sum + a + b;
        }
        if (first + 3 < length) {
            row[first + 3] = sum + a + b + c;
        }
        before += total;
    }
    if (LANE == 0) {
        totals[GROUP] = before;
    }
}

/* How many values of a side are chosen. */
FUNC u32 chosen_count(GLOBAL const side *chosen, GLOBAL const u32 *totals, u32 s) {
    u32 ties = chosen[s].ties, equal = totals[2 * s + 1];
    return totals[2 * s] + (equal < ties ? equal : ties);
}

/* Before a work-item's values in their order: those above the k-th key, and those equal to it. */
typedef struct place {
    u32 above, equal;
} place;

FUNC place place_of(LOCALP u32 *room, u32 packed, GLOBAL const u32 *tiles, u32 s) {
    u32 total, before = wg_scan(room, packed, &total);
    place p;
    p.above = tiles[2 * s * GROUPS + GROUP] + (before & 0xffffU);
    p.equal = tiles[(2 * s + 1) * GROUPS + GROUP] + (before >> 16);
    return p;
}

/* Is a value of this side chosen? Then *slot is its number among those that are. */
FUNC u32 choose(place *p, u32 key, u32 low, u32 ties, u32 *slot) {
    u32 tie = key == low && p->equal < ties;
    *slot = p->above + (p->equal < ties ? p->equal : ties);
    p->equal += key == low;
    p->above += key > low;
    return key > low || tie;
}

/* Positions and values of those chosen, in their order; side s has its lists at s * k. */
KERNEL select_list(GLOBAL const float *residual, u32 n, u32 sides, GLOBAL const side *chosen,
                   GLOBAL const u32 *tiles, u32 k, GLOBAL u32 *index, GLOBAL float *value) {
    LOCAL u32 room[GROUP_SIZE];
    u32 first = GROUP * TILE + 8 * LANE;
    for (u32 s = 0; s < sides; s++) {
        u32 low = chosen[s].low, ties = chosen[s].ties, slot;
        place p = place_of(room, count_chosen(residual, n, sides, s, low), tiles, s);
        for (u32 j = 0; j < 8 && first + j < n; j++) {
            float v = residual[first + j];
            u32 key = BITS_OF(v) & 0x7fffffffU;
            u32 mine = key != 0 && side_of(BITS_OF(v), sides) == s;
            if (mine != 0 && choose(&p, key, low, ties, &slot) != 0) {
                index[(u64)s * k + slot] = first + j;
                value[(u64)s * k + slot] = v;
            }
        }
    }
}
