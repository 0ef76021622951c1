/* sbc, stc and dgc: check and decode messages. A work-item reads a chunk of 512 bits of positions.
 * Formats: docs/codec-formats.md#golomb */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A message does not say where in the positions each code begins. To decode a chunk, a work-item
 * must know how many low bits of a code are still to come at the chunk's first bit: 0 to 31. Each
 * work-item first assumes 0. Then it takes the number at the end of the chunk before, and reads
 * its chunk again. This repeats until no number changes.
 *
 * A position plus 1 is a sum over all bits up to its code's end: a one of a unary part adds 2^b,
 * its zero adds 1, low bits add their value. So a code may span any number of chunks.
 */
#define CHUNK_BITS  512U
#define CHUNK_BYTES 64U
#define NO_NUMBER   0xffffffffU

#define FED_OK       0U

typedef struct walk {
    GLOBAL const u8 *src; /* the chunk's first byte */
    u32 left;             /* bytes from src to the message's end */
    u32 end;              /* bits of the chunk */
    u32 pos;
    u32 low;              /* low bits of a code still to come */
    u32 codes;            /* codes that ended in the chunk */
    u64 moved;            /* sum of gap + 1 over the bits read */
} walk;

/* Return the next 32 bits, with zeros after the message. */
FUNC u32 peek(GLOBAL const u8 *src, u32 left, u32 pos) {
    u32 at = pos / 8, shift = pos % 8;
    if (at + 5 <= left) {
        u32 high = (u32)src[at] << 24 | (u32)src[at + 1] << 16 | (u32)src[at + 2] << 8 | src[at + 3];
        return high << shift | (u32)src[at + 4] >> (8 - shift);
    }
    u64 bits = 0;
    for (u32 j = 0; j < 5; j++) {
        bits = bits << 8 | (at + j < left ? src[at + j] : 0);
    }
    return (u32)(bits >> (8 - shift));
}

/* Read up to the end of the next code or of the chunk. Returns 1 if a code ended. */
FUNC u32 next_code(walk *c, u32 b) {
    u32 low = c->low;
    while (low == 0 && c->pos < c->end) {
        u32 limit = c->end - c->pos < 32 ? c->end - c->pos : 32;
        u32 bits = ~peek(c->src, c->left, c->pos);
        u32 ones = bits == 0 ? 32 : CLZ(bits);
        if (ones >= limit) {
            c->moved += (u64)limit << b;
            c->pos += limit;
        } else {
            c->moved += ((u64)ones << b) + 1;
            c->pos += ones + 1;
            low = b + 1; /* b + 1, since b may be 0; the 1 is subtracted below */
        }
    }
    if (low == 0) {
        return 0;
    }
    low -= c->low == 0;
    u32 more = c->end - c->pos < low ? c->end - c->pos : low;
    if (more > 0) {
        u64 value = peek(c->src, c->left, c->pos) >> (32 - more);
        c->moved += value << (low - more);
        c->pos += more;
    }
    c->low = low - more;
    c->codes += c->low == 0;
    return c->low == 0;
}

/* Start to read a chunk of the positions, by its number. A chunk after the positions is empty. */
FUNC walk walk_from(GLOBAL const u8 *src, GLOBAL const message *m, u32 len, u32 chunk, u32 low) {
    walk c;
    u64 first = m->at + (u64)chunk * CHUNK_BYTES;
    c.left = first < len ? len - (u32)first : 0;
    c.src = src + (c.left > 0 ? first : 0);
    c.end = c.left < CHUNK_BYTES ? 8 * c.left : CHUNK_BITS;
    c.pos = 0;
    c.low = low;
    c.codes = 0;
    c.moved = 0;
    return c;
}

FUNC void walk_all(walk *c, u32 b) {
    while (c->pos < c->end) {
        next_code(c, b);
    }
}

FUNC u32 low_after(GLOBAL const u8 *src, GLOBAL const message *m, u32 len, u32 chunk, u32 low) {
    walk c = walk_from(src, m, len, chunk, low);
    walk_all(&c, m->b);
    return c.low;
}

/* Read a varint. Returns NO_NUMBER if it is malformed or above 2^32 - 2. */
FUNC u32 read_varint(GLOBAL const u8 *src, u32 len, u32 *at) {
    u64 v = 0;
    for (u32 j = 0; j < 5; j++) {
        u32 byte = j < len ? src[j] : 0;
        if (j >= len || (j > 0 && byte == 0)) {
            return NO_NUMBER;
        }
        v |= (u64)(byte & 0x7f) << 7 * j;
        if (byte < 0x80) {
            *at = j + 1;
            return v < NO_NUMBER ? (u32)v : NO_NUMBER;
        }
    }
    return NO_NUMBER;
}

/* Prepare to read count positions below n, from byte `at` on. how: the byte that names their code.
 * Limit their bytes to what encode can write: each gap's code has a zero and b low bits, and all
 * codes together have at most n >> b ones. */
FUNC u32 open_positions(GLOBAL message *m, u32 count, u32 how, u32 at, u32 len, u32 n) {
    if (how >= 32) {
        return how <= 64 ? FED_EVERSION : FED_EFORMAT;
    }
    m->count = count;
    m->at = at;
    m->b = how;
    u64 most = ((u64)count * (how + 1) + (n >> how)) / 8 + 1;
    m->chunks = (len - at + CHUNK_BYTES - 1) / CHUNK_BYTES;
    return len - at > most ? FED_EFORMAT : FED_OK;
}

FUNC u32 open_message(GLOBAL const u8 *src, u32 len, u32 n, u32 kind, GLOBAL message *m) {
    u32 at = 0, count = read_varint(src, len, &at);
    m->count = 0;
    m->chunks = 0;
    if (count > n || (count == 0 && at != len)) {
        return FED_EFORMAT;
    }
    if (count == 0) {
        return FED_OK;
    }
    if (at == len) {
        return FED_EFORMAT;
    }
    u32 how = src[at];
    /* Check the byte `how` before the length: `how` may say that values are bfloat16 or int8, which
     * are shorter than float32. */
    if (how >= 32) {
        u32 narrow = kind == VALUES && IS_NARROW(how);
        return how <= 64 || narrow ? FED_EVERSION : FED_EFORMAT;
    }
    u64 values = (u64)at + 1, positions = values + values_size(kind, count);
    if (positions > len) {
        return FED_EFORMAT;
    }
    m->values = (u32)values + (kind == SIGNS ? 4 : 0);
    if (kind != VALUES) {
        u32 bits = load_u32(src + values), key = bits & 0x7fffffffU;
        m->mu = FLOAT_OF(bits);
        if (key == 0 || key >= INFINITE || (kind == SIGNS && bits != key)) {
            return FED_EFORMAT;
        }
    }
    return open_positions(m, count, how, (u32)positions, len, n);
}

/* Launched with one work-group. */
KERNEL sparse_open(GLOBAL const u8 *src, u32 cap, u32 n, u32 kind, GLOBAL message *m,
                   GLOBAL head *h) {
    if (LANE == 0) {
        u32 status = h->len > cap ? FED_EFORMAT : open_message(src, h->len, n, kind, m);
        if (status != FED_OK) {
            m->count = 0;
            m->chunks = 0;
            fail(h, status);
        }
    }
}

/* Each work-item checks 8 values, or the padding after the last sign. */
KERNEL sparse_check_values(GLOBAL const u8 *src, u32 kind, GLOBAL const message *m,
                           GLOBAL head *h) {
    u32 first = GROUP * TILE + 8 * LANE, count = m->count, bad = 0;
    for (u32 j = 0; kind == VALUES && j < 8 && first + j < count; j++) {
        u32 key = load_u32(src + m->values + 4 * (u64)(first + j)) & 0x7fffffffU;
        bad |= key == 0 || key >= INFINITE;
    }
    if (kind == SIGNS && first < count && count - first < 8) {
        u32 padding = 0xffU >> (count - first);
        bad = (src[m->values + first / 8] & padding) != padding;
    }
    if (bad != 0) {
        fail(h, FED_EFORMAT);
    }
}

/* Each work-group finds with how many low bits its 256 chunks begin, and stores this in lows. A
 * work-group assumes 0 for its first chunk. Where that is wrong, golomb_settle corrects lows. */
KERNEL golomb_guess(GLOBAL const u8 *src, GLOBAL const message *m, GLOBAL const head *h,
                    GLOBAL u8 *lows, GLOBAL u8 *ends) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u32 after[GROUP_SIZE];
    u32 chunk = GROUP * GROUP_SIZE + LANE, low = 0, changed = 1;
    if (GROUP * GROUP_SIZE >= m->chunks) {
        return;
    }
    u32 end = low_after(src, m, h->len, chunk, low);
    while (changed != 0) {
        after[LANE] = end;
        BARRIER();
        u32 before = LANE > 0 ? after[LANE - 1] : 0;
        u32 differs = before != low;
        BARRIER();
        if (differs != 0) {
            low = before;
            end = low_after(src, m, h->len, chunk, low);
        }
        changed = wg_max(room, differs);
    }
    if (chunk < m->chunks) {
        lows[chunk] = (u8)low;
    }
    if (LANE == GROUP_SIZE - 1) {
        ends[GROUP] = (u8)end;
    }
}

/* Correct lows for a group's chunks, up to the first chunk whose number is right already. low: the
 * number that the group begins with. Returns how many low bits are to come at the group's end. */
FUNC u32 settle_group(GLOBAL const u8 *src, GLOBAL const message *m, u32 len, u32 group, u32 low,
                      GLOBAL u8 *lows, u32 end) {
    u32 chunk = group * GROUP_SIZE;
    for (u32 j = 0; j < GROUP_SIZE && chunk < m->chunks; j++, chunk++) {
        if (lows[chunk] == low) {
            return end;
        }
        lows[chunk] = (u8)low;
        low = low_after(src, m, len, chunk, low);
    }
    return low;
}

/* Launched with one work-group: correct lows for the groups of golomb_guess. Rounds are repeated
 * until no group begins with another number than before. */
KERNEL golomb_settle(GLOBAL const u8 *src, GLOBAL const message *m, GLOBAL const head *h,
                     GLOBAL u8 *lows, GLOBAL u8 *ends) {
    LOCAL u32 room[GROUP_SIZE];
    u32 groups = (m->chunks + GROUP_SIZE - 1) / GROUP_SIZE, changed = groups > 1;
    while (changed != 0) {
        u32 differs = 0;
        for (u32 base = 0; base < groups; base += GROUP_SIZE) {
            u32 group = base + LANE;
            u32 low = group > 0 && group < groups ? ends[group - 1] : 0;
            BARRIER();
            if (group > 0 && group < groups && lows[group * GROUP_SIZE] != low) {
                differs = 1;
                ends[group] =
                    (u8)settle_group(src, m, h->len, group, low, lows, ends[group]);
            }
            BARRIER();
        }
        changed = wg_max(room, differs);
    }
}

typedef struct sums {
    u32 codes;
    u64 moved;
} sums;

FUNC sums wg_scan_sums(LOCALP u32 *room, LOCALP u64 *wide, sums mine, sums *total) {
    sums before;
    before.codes = wg_scan(room, mine.codes, &total->codes);
    wide[LANE] = mine.moved;
    BARRIER();
    for (u32 step = 1; step < GROUP_SIZE; step += step) {
        u64 more = LANE >= step ? wide[LANE - step] : 0;
        BARRIER();
        wide[LANE] += more;
        BARRIER();
    }
    before.moved = wide[LANE] - mine.moved;
    total->moved = wide[GROUP_SIZE - 1];
    BARRIER();
    return before;
}

FUNC sums chunk_sums(GLOBAL const u8 *src, GLOBAL const message *m, u32 len,
                     GLOBAL const u8 *lows) {
    u32 chunk = GROUP * GROUP_SIZE + LANE;
    walk c = walk_from(src, m, len, chunk, chunk < m->chunks ? lows[chunk] : 0);
    walk_all(&c, m->b);
    sums s;
    s.codes = c.codes;
    s.moved = c.moved;
    return s;
}

KERNEL golomb_count(GLOBAL const u8 *src, GLOBAL const message *m, GLOBAL const head *h,
                    GLOBAL const u8 *lows, GLOBAL u32 *codes, GLOBAL u64 *moved) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u64 wide[GROUP_SIZE];
    sums total;
    if (GROUP * GROUP_SIZE >= m->chunks) {
        return;
    }
    wg_scan_sums(room, wide, chunk_sums(src, m, h->len, lows), &total);
    if (LANE == 0) {
        codes[GROUP] = total.codes;
        moved[GROUP] = total.moved;
    }
}

/* Launched with one work-group: replace each group's sums by those of the groups before it. Fail
 * unless there are as many codes as the head states. */
KERNEL golomb_sum(GLOBAL const message *m, GLOBAL u32 *codes, GLOBAL u64 *moved, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u64 wide[GROUP_SIZE];
    u32 groups = (m->chunks + GROUP_SIZE - 1) / GROUP_SIZE;
    sums before, mine, total;
    before.codes = 0;
    before.moved = 0;
    for (u32 base = 0; base < groups; base += GROUP_SIZE) {
        u32 group = base + LANE;
        mine.codes = group < groups ? codes[group] : 0;
        mine.moved = group < groups ? moved[group] : 0;
        sums at = wg_scan_sums(room, wide, mine, &total);
        if (group < groups) {
            codes[group] = before.codes + at.codes;
            moved[group] = before.moved + at.moved;
        }
        before.codes += total.codes;
        before.moved += total.moved;
    }
    if (LANE == 0 && before.codes != m->count) {
        fail(h, FED_EFORMAT);
    }
}

/* The last code's position must be below n; after it come fewer than 8 bits, all ones. */
KERNEL golomb_check(GLOBAL const u8 *src, u32 n, GLOBAL const message *m, GLOBAL const u8 *lows,
                    GLOBAL const u32 *codes, GLOBAL const u64 *moved, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u64 wide[GROUP_SIZE];
    u32 chunk = GROUP * GROUP_SIZE + LANE, len = h->len;
    sums total;
    if (GROUP * GROUP_SIZE >= m->chunks) {
        return;
    }
    sums mine = chunk_sums(src, m, len, lows), at = wg_scan_sums(room, wide, mine, &total);
    u32 code = codes[GROUP] + at.codes, last = m->count - code;
    if (code < m->count && last <= mine.codes) {
        walk c = walk_from(src, m, len, chunk, lows[chunk]);
        for (u32 j = 0; j < last; j++) {
            next_code(&c, m->b);
        }
        u64 left = 8 * (u64)c.left - c.pos;
        u32 ones = 0xffU >> (8 - (u32)(left & 7));
        if (moved[GROUP] + at.moved + c.moved > n || left >= 8 ||
            (src[len - 1] & ones) != ones) {
            fail(h, FED_EFORMAT);
        }
    }
}

FUNC float value_of(GLOBAL const u8 *src, u32 kind, GLOBAL const message *m, u32 code) {
    if (kind == VALUES) {
        return FLOAT_OF(load_u32(src + m->values + 4 * (u64)code));
    }
    if (kind == SIGNS) {
        u32 sign = src[m->values + code / 8] << code % 8 & 0x80U;
        return FLOAT_OF(BITS_OF(m->mu) | sign << 24);
    }
    return m->mu;
}

KERNEL sparse_clear(u32 n, GLOBAL float *y, GLOBAL const head *h) {
    u32 first = GROUP * TILE + LANE;
    for (u32 j = 0; j < 8 && first + j * GROUP_SIZE < n && h->status == 0; j++) {
        y[first + j * GROUP_SIZE] = 0.0f;
    }
}

/* y += w * value. Positions differ, so no two work-items write the same element. */
KERNEL golomb_add(GLOBAL const u8 *src, u32 kind, GLOBAL const message *m, GLOBAL const u8 *lows,
                  GLOBAL const u32 *codes, GLOBAL const u64 *moved, float w, GLOBAL float *y,
                  GLOBAL const head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u64 wide[GROUP_SIZE];
    u32 chunk = GROUP * GROUP_SIZE + LANE, len = h->len;
    sums total;
    if (h->status != 0 || GROUP * GROUP_SIZE >= m->chunks) {
        return;
    }
    sums mine = chunk_sums(src, m, len, lows), at = wg_scan_sums(room, wide, mine, &total);
    walk c = walk_from(src, m, len, chunk, chunk < m->chunks ? lows[chunk] : 0);
    u64 position = moved[GROUP] + at.moved;
    u32 code = codes[GROUP] + at.codes;
    for (u32 j = 0; j < mine.codes; j++) {
        next_code(&c, m->b);
        y[position + c.moved - 1] += w * value_of(src, kind, m, code + j);
    }
}
