/* Choose the k values of largest magnitude, of all values or of each sign. The choice is exact:
 * among equal magnitudes the earlier positions win. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A value's key is its magnitude's 31 bits; zeros are never chosen. Three histograms find the k-th
 * greatest key, by the key's 11, 10 and 10 bits. With one side, all values compete. With two
 * sides, the positive values (side 0) and the negative values (side 1) are ranked separately.
 *
 * A sample of the values gives a key that is almost surely below the k-th greatest one. While x is
 * added, values above the sample's key are listed as candidates, up to ROOM of each tile. The
 * later kernels look only at the candidates. If a tile has more than ROOM, or all tiles together
 * have fewer than k, a flag makes the same kernels look at all values. So the sample changes the
 * time, never the choice.
 */
#define TILE       2048U  /* neighbouring values that a work-group handles */
#define SLAB       16384U /* values in a work-group's histogram; a counter has 16 bits */
#define ROOM       256U   /* most candidates of a tile: one for each work-item */
#define FIRST_BINS 2048U
#define NEXT_BINS  1024U
#define WORDS      64U
#define INFINITE   0x7f800000U

/* The levels of a choice, each with its histogram. The first three count the key's upper 11 bits:
 * of the sample, of the candidates, of all values. The next two count the lower bits. */
#define SAMPLE     0U
#define CANDIDATES 1U
#define ALL_VALUES 2U

typedef struct side {
    u32 low;      /* the least key that may be chosen; in the end the k-th greatest */
    u32 ties;     /* how many of the values with this key are chosen */
    u32 all;      /* true if fewer than k values compete: all are chosen */
    u32 exponent; /* exponent bits of the least chosen value */
    u32 reserved[2];
    double mean;
} side;

/* chosen[0] and chosen[1]: the results of the sides. From chosen[GUESS] on: the sample's
 * estimates. */
#define GUESS 2

FUNC u32 side_of(u32 bits, u32 sides) {
    return sides == 2 ? bits >> 31 : 0;
}

/* For each level: the lowest bit of a key that selects its bin, the number of bins of a side, and
 * where the bins begin. */
FUNC u32 level_shift(u32 level) {
    return level <= ALL_VALUES ? 20 : level == ALL_VALUES + 1 ? 10 : 0;
}
FUNC u32 level_bins(u32 level) {
    return level <= ALL_VALUES ? FIRST_BINS : NEXT_BINS;
}
FUNC u32 level_start(u32 level) {
    u32 first = level < ALL_VALUES + 1 ? level : ALL_VALUES + 1;
    return 2 * (first * FIRST_BINS + (level - first) * NEXT_BINS);
}

FUNC void clear_bins(LOCALP u32 *mine, u32 count) {
    for (u32 b = LANE; b < count; b += GROUP_SIZE) {
        mine[b] = 0;
    }
}

/* Count a key in a work-group's own histogram: side 0 in the low 16 bits of a bin, side 1 in the
 * high ones. */
FUNC void count_key(LOCALP u32 *mine, u32 bin, u32 s) {
    ATOMIC_ADD(&mine[bin], 1U << 16 * s);
}

FUNC void flush_bins(LOCALP const u32 *mine, u32 level, GLOBAL u32 *bins) {
    u32 count = level_bins(level);
    bins += level_start(level);
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

/* Make a histogram of the sample: one value from each of GROUPS * TILE ranges, at a pseudo-random
 * offset in the range. With a fixed stride the sample could take all values from one column of a
 * matrix. */
KERNEL select_sample(GLOBAL const float *residual, GLOBAL const float *x, u32 n, u32 sides,
                     GLOBAL u32 *bins) {
    LOCAL u32 mine[FIRST_BINS];
    u64 size = (u64)GROUPS * TILE;
    clear_bins(mine, FIRST_BINS);
    BARRIER();
    for (u32 j = LANE; j < TILE; j += GROUP_SIZE) {
        u32 draw = GROUP * TILE + j;
        u64 first = draw * (u64)n / size, next = (draw + 1) * (u64)n / size;
        u64 at = first + ((u64)(draw * 2654435769U >> 8) * (next - first) >> 24);
        u32 bits = BITS_OF(x != 0 ? residual[at] + x[at] : residual[at]);
        if ((bits & 0x7fffffffU) != 0) {
            count_key(mine, bits >> 20 & (FIRST_BINS - 1), side_of(bits, sides));
        }
    }
    BARRIER();
    flush_bins(mine, SAMPLE, bins);
}

/* residual += x; make the histogram of all values. */
KERNEL select_absorb(GLOBAL float *residual, GLOBAL const float *x, u32 n, u32 sides,
                     GLOBAL u32 *bins, GLOBAL head *h) {
    LOCAL u32 mine[FIRST_BINS];
    u32 end = slab_end(n), bad = 0;
    clear_bins(mine, FIRST_BINS);
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
            count_key(mine, key >> 20, side_of(bits, sides));
        }
    }
    if (bad != 0) {
        fail(h, FED_ENONFINITE);
    }
    BARRIER();
    flush_bins(mine, ALL_VALUES, bins);
}

/* Return the index in the tile of a work-item's value j, 0 to 7. The eight values are two quads. */
FUNC u32 place_in_tile(u32 j) {
    return 4 * LANE + (j & 3) + (j & 4) * GROUP_SIZE;
}

FUNC f32x4 add_quad(GLOBAL float *residual, GLOBAL const float *x, u32 at) {
    f32x4 a = LOAD4(residual + at), b = LOAD4(x + at);
    return F32X4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* Add x to a work-item's 8 values in the tile at index first, and return the sums in v; 0 past the
 * end. */
FUNC void add_row(GLOBAL float *residual, GLOBAL const float *x, u32 n, u32 first, float v[8]) {
    if (first + TILE <= n && x != 0) {
        u32 at = first + place_in_tile(0), next = first + place_in_tile(4);
        f32x4 a = add_quad(residual, x, at), b = add_quad(residual, x, next);
        STORE4(residual + at, a);
        STORE4(residual + next, b);
        v[0] = a.x;
        v[1] = a.y;
        v[2] = a.z;
        v[3] = a.w;
        v[4] = b.x;
        v[5] = b.y;
        v[6] = b.z;
        v[7] = b.w;
        return;
    }
    for (u32 j = 0; j < 8; j++) {
        u32 i = first + place_in_tile(j);
        v[j] = i < n ? residual[i] : 0.0f;
        if (i < n && x != 0) {
            v[j] += x[i];
            residual[i] = v[j];
        }
    }
}

/* residual += x. List the candidates of each tile, in any order, and make their histogram. */
KERNEL select_list_candidates(GLOBAL float *residual, GLOBAL const float *x, u32 n, u32 sides,
                              GLOBAL const side *chosen, GLOBAL u32 *bins, GLOBAL u32 *found,
                              GLOBAL u32 *index, GLOBAL u32 *flag, GLOBAL head *h) {
    LOCAL u32 mine[FIRST_BINS];
    LOCAL u32 here[SLAB / TILE];
    u32 low0 = chosen[GUESS].low | 1, low1 = chosen[GUESS + sides - 1].low | 1, bad = 0;
    float v[8];
    clear_bins(mine, FIRST_BINS);
    if (LANE < SLAB / TILE) {
        here[LANE] = 0;
    }
    BARRIER();
    for (u32 t = 0; t < SLAB / TILE; t++) {
        u32 tile = GROUP * (SLAB / TILE) + t, hits = 0;
        add_row(residual, x, n, tile * TILE, v);
        for (u32 j = 0; j < 8; j++) {
            u32 bits = BITS_OF(v[j]), key = bits & 0x7fffffffU;
            hits |= (u32)(key >= (bits >> 31 != 0 ? low1 : low0)) << j;
            bad |= key >= INFINITE;
        }
        for (u32 j = 0; j < 8 && hits != 0; j++) {
            if ((hits >> j & 1) != 0) {
                u32 bits = BITS_OF(v[j]), slot = ATOMIC_ADD(&here[t], 1);
                count_key(mine, bits >> 20 & (FIRST_BINS - 1), side_of(bits, sides));
                if (slot < ROOM) {
                    index[tile * (u64)ROOM + slot] = tile * TILE + place_in_tile(j);
                }
            }
        }
    }
    if (bad != 0) {
        fail(h, FED_ENONFINITE);
    }
    BARRIER();
    flush_bins(mine, CANDIDATES, bins);
    if (LANE < SLAB / TILE && GROUP * SLAB + LANE * TILE < n) {
        found[GROUP * (SLAB / TILE) + LANE] = here[LANE];
        if (here[LANE] > ROOM) {
            ATOMIC_OR(flag, 1);
        }
    }
}

/* Make the histogram of a level from ALL_VALUES on. Levels after ALL_VALUES count only keys in the
 * bin that the level before chose. The keys of candidates are counted, or the keys of all values if
 * the flag is set. */
KERNEL select_bins(GLOBAL const float *residual, u32 n, u32 sides, u32 level,
                   GLOBAL const side *chosen, GLOBAL const u32 *found, GLOBAL const u32 *index,
                   GLOBAL const u32 *flag, GLOBAL u32 *bins) {
    LOCAL u32 mine[FIRST_BINS];
    u32 listed = *flag == 0, count = level_bins(level), shift = level_shift(level);
    u32 above = level == ALL_VALUES ? 31 : level_shift(level - 1);
    u32 low0 = level == ALL_VALUES ? 0 : chosen[0].low >> above;
    u32 low1 = level == ALL_VALUES ? 0 : chosen[sides - 1].low >> above;
    if (level == ALL_VALUES && listed != 0) {
        return;
    }
    clear_bins(mine, count);
    BARRIER();
    u32 end = slab_end(n), first = GROUP * SLAB;
    for (u32 at = LANE; at < end; at += listed != 0 ? TILE : GROUP_SIZE) {
        u32 tile = (first + at) / TILE, is = 1, i = first + at;
        if (listed != 0) {
            is = LANE < found[tile];
            i = is != 0 ? index[tile * (u64)ROOM + LANE] : 0;
        }
        u32 bits = is != 0 ? BITS_OF(residual[i]) : 0, key = bits & 0x7fffffffU;
        u32 s = side_of(bits, sides);
        if (key != 0 && key >> above == (s == 0 ? low0 : low1)) {
            count_key(mine, key >> shift & (count - 1), s);
        }
    }
    BARRIER();
    flush_bins(mine, level, bins);
}

FUNC u32 is_first(u32 level) {
    return level <= ALL_VALUES;
}

/* Launched with one work-group for each side: find the bin that holds the k-th greatest key. */
KERNEL select_pick(u32 k, u32 level, GLOBAL const u32 *bins, GLOBAL side *chosen,
                   GLOBAL u32 *flag) {
    LOCAL u32 room[GROUP_SIZE];
    GLOBAL side *s = chosen + (level == SAMPLE ? GUESS : 0) + GROUP;
    u32 count = level_bins(level), each = count / GROUP_SIZE, total, sum = 0, least = 0;
    GLOBAL const u32 *mine = bins + level_start(level) + GROUP * count;
    u32 rank = is_first(level) ? k : s->ties, all = is_first(level) ? 0 : s->all;
    if (level == ALL_VALUES ? *flag == 0 : all != 0) {
        return;
    }
    /* Bins are searched from the top: work-item 0 has the highest bins. */
    u32 top = count - 1 - LANE * each;
    for (u32 j = 0; j < each; j++) {
        u32 more = mine[top - j];
        sum += more;
        least = more != 0 ? count - (top - j) : least;
    }
    u32 above = wg_scan(room, sum, &total);
    least = wg_max(room, least);
    if (is_first(level) && LANE == 0) {
        s->low = total < rank ? 1 : 0;
        s->ties = 0xffffffffU;
        s->all = total < rank;
        s->exponent = (count - least) >> 3;
        if (level == CANDIDATES && total < rank && chosen[GUESS + GROUP].low > 1) {
            ATOMIC_OR(flag, 1);
        }
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

FUNC void mark(LOCALP u32 *more, LOCALP u32 *equal, u32 bits, u32 at, u32 sides, u32 which,
               u32 low) {
    u32 key = bits & 0x7fffffffU;
    if (key != 0 && key >= low && side_of(bits, sides) == which) {
        ATOMIC_OR(key > low ? &more[at / 32] : &equal[at / 32], 1U << at % 32);
    }
}

/* Make two bitmaps of a tile's values of one side: those with a key above the k-th greatest key,
 * and those with the k-th greatest key itself. */
FUNC void mark_tile(LOCALP u32 *more, LOCALP u32 *equal, GLOBAL const float *residual, u32 n,
                    u32 sides, u32 which, u32 low, GLOBAL const u32 *found,
                    GLOBAL const u32 *index, u32 listed) {
    if (LANE < WORDS) {
        more[LANE] = 0;
        equal[LANE] = 0;
    }
    BARRIER();
    u32 first = GROUP * TILE, left = n - first < TILE ? n - first : TILE;
    u32 end = listed != 0 ? found[GROUP] : left;
    for (u32 j = LANE; j < end; j += GROUP_SIZE) {
        u32 at = listed != 0 ? index[GROUP * (u64)ROOM + j] - first : j;
        mark(more, equal, BITS_OF(residual[first + at]), at, sides, which, low);
    }
    BARRIER();
}

/* Count the ones of a work-item's word in two bitmaps. The count for the bitmap more is in the low
 * half of the result, that for the bitmap equal in the high half. */
FUNC u32 marked(LOCALP const u32 *more, LOCALP const u32 *equal) {
    return LANE < WORDS ? POPCOUNT(more[LANE]) | POPCOUNT(equal[LANE]) << 16 : 0;
}

/* Count one value for its side. The low half of counts[side] counts keys above the k-th greatest
 * key, the high half counts keys equal to it. */
FUNC void count_value(LOCALP u32 *counts, float v, u32 sides, u32 low0, u32 low1) {
    u32 bits = BITS_OF(v), key = bits & 0x7fffffffU, s = side_of(bits, sides);
    u32 low = s == 0 ? low0 : low1;
    if (key != 0 && key >= low) {
        ATOMIC_ADD(&counts[s], key > low ? 1U : 1U << 16);
    }
}

/* Fill the rows of the array tiles for each side s. Row 2s counts the tile's values above the k-th
 * greatest key, row 2s + 1 the values with this key. */
KERNEL select_count(GLOBAL const float *residual, u32 n, u32 sides, GLOBAL const side *chosen,
                    GLOBAL const u32 *found, GLOBAL const u32 *index, GLOBAL const u32 *flag,
                    GLOBAL u32 *tiles) {
    LOCAL u32 counts[2];
    u32 low0 = chosen[0].low, low1 = chosen[sides - 1].low, first = GROUP * TILE;
    u32 listed = *flag == 0, left = n - first < TILE ? n - first : TILE;
    u32 end = listed != 0 ? found[GROUP] : left;
    if (LANE < 2) {
        counts[LANE] = 0;
    }
    BARRIER();
    for (u32 at = LANE; at < end; at += GROUP_SIZE) {
        u32 i = listed != 0 ? index[GROUP * (u64)ROOM + at] : first + at;
        count_value(counts, residual[i], sides, low0, low1);
    }
    BARRIER();
    for (u32 s = 0; s < sides && LANE == 0; s++) {
        tiles[2 * s * GROUPS + GROUP] = counts[s] & 0xffffU;
        tiles[(2 * s + 1) * GROUPS + GROUP] = counts[s] >> 16;
    }
}

/* Launched with one work-group for each row: replace each number by the sum of those before it.
 * totals[row] becomes the sum of the row. */
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

FUNC u32 chosen_count(GLOBAL const side *chosen, GLOBAL const u32 *totals, u32 s) {
    u32 ties = chosen[s].ties, equal = totals[2 * s + 1];
    return totals[2 * s] + (equal < ties ? equal : ties);
}

FUNC u32 first_ones(u32 word, u32 count) {
    u32 kept = 0;
    for (; count > 0 && word != 0; count--) {
        kept |= word & (0U - word);
        word &= word - 1;
    }
    return kept;
}

/* Turn the bitmap `more` into a bitmap of all chosen values. from[word] becomes the index, among
 * all chosen values, of the first one in that word. */
FUNC void choose_tile(LOCALP u32 *room, LOCALP u32 *more, LOCALP const u32 *equal, LOCALP u32 *from,
                      GLOBAL const u32 *tiles, u32 s, u32 ties) {
    u32 total, before = wg_scan(room, marked(more, equal), &total);
    if (LANE < WORDS) {
        u32 ones = tiles[2 * s * GROUPS + GROUP] + (before & 0xffffU);
        u32 same = tiles[(2 * s + 1) * GROUPS + GROUP] + (before >> 16);
        from[LANE] = ones + (same < ties ? same : ties);
        more[LANE] |= first_ones(equal[LANE], same < ties ? ties - same : 0);
    }
    BARRIER();
}

/* List the chosen values and their positions in order; side s begins at s * k. */
KERNEL select_list(GLOBAL const float *residual, u32 n, u32 sides, GLOBAL const side *chosen,
                   GLOBAL const u32 *found, GLOBAL const u32 *index, GLOBAL const u32 *flag,
                   GLOBAL const u32 *tiles, u32 k, GLOBAL u32 *place, GLOBAL float *value) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u32 more[WORDS];
    LOCAL u32 equal[WORDS];
    LOCAL u32 from[WORDS];
    u32 listed = *flag == 0, word = LANE / 4, first = 8 * (LANE % 4);
    for (u32 s = 0; s < sides; s++) {
        mark_tile(more, equal, residual, n, sides, s, chosen[s].low, found, index, listed);
        choose_tile(room, more, equal, from, tiles, s, chosen[s].ties);
        u64 to = (u64)s * k + from[word] + POPCOUNT(more[word] & ((1U << first) - 1));
        for (u32 ones = more[word] >> first & 0xff, j = 0; ones != 0; ones >>= 1, j++) {
            if ((ones & 1) != 0) {
                u32 i = GROUP * TILE + 8 * LANE + j;
                place[to] = i;
                value[to] = residual[i];
                to++;
            }
        }
        BARRIER();
    }
}
