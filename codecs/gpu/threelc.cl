/* 3lc: five digits a byte, runs of zero bytes shortened. Format: docs/codec-formats.md#3lc
 *
 * The kernels of encode find the largest |residual + x|, compute the scale m, write digits as
 * bytes and describe each tile of bytes. Then they compute where each tile's output begins, and
 * write it.
 *
 * The kernels of decode check the message and count the positions that each tile stands for. A
 * position is the index of a byte before runs are shortened. Then they compute at which position
 * each tile begins, and add the values that are not 0. */
/* SPDX-License-Identifier: Apache-2.0 */

#define HEAD         4U
#define TILE         1024U
#define ZERO         121U
#define RUN_MAX      14U
#define FLT_MAX_BITS 0x7f7fffffU

/* Return how many bytes the digits of n values take before runs are shortened. The index of such a
 * byte is called its position. Value i is at position i mod positions_of(n). */
FUNC u32 positions_of(u32 n) {
    return n / 5 + (n % 5 != 0);
}

FUNC u32 run_bytes(u32 run) {
    return run / RUN_MAX + (run % RUN_MAX != 0);
}

/* A description of consecutive bytes. A zero is a byte of five zero digits, ZERO. If all bytes are
 * zeros, lead is their number and the other members are 0. */
typedef struct stretch {
    u32 lead;  /* zeros before the first other byte */
    u32 trail; /* zeros after the last other byte */
    u32 out;   /* output bytes from the first to the last other byte */
    u32 others; /* not 0 if some byte is no zero */
} stretch;

FUNC stretch join(stretch a, stretch b) {
    stretch s = a;
    if (b.others == 0 && a.others == 0) {
        s.lead = a.lead + b.lead;
    } else if (b.others == 0) {
        s.trail = a.trail + b.lead;
    } else if (a.others == 0) {
        s = b;
        s.lead = a.lead + b.lead;
    } else {
        s.out = a.out + run_bytes(a.trail + b.lead) + b.out;
        s.trail = b.trail;
    }
    return s;
}

/* Launched with one work-group: compute the scale m. most: the bits of the largest
 * |residual + x|. zre 0: runs are not shortened. */
KERNEL threelc_begin(u32 n, double s, u32 zre, GLOBAL const u32 *most, GLOBAL float *m,
                     GLOBAL u8 *dst, GLOBAL head *h) {
    if (LANE == 0) {
        const float max = FLOAT_OF(*most);
        const double scaled = s * (double)max;
        float sent =
            scaled < (double)FLOAT_OF(FLT_MAX_BITS) ? (float)scaled : FLOAT_OF(FLT_MAX_BITS);
        sent = 0.5f * sent < max ? sent : max;
        if (!is_finite(max)) {
            fail(h, FED_ENONFINITE);
            sent = 0.0f;
        } else {
            h->len = HEAD + (sent > 0.0f && zre == 0 ? positions_of(n) : 0);
        }
        *m = sent;
        store_u32(dst, BITS_OF(sent));
    }
}

/* Return the byte of a position, and keep in the residual what its digits leave out. All values
 * are loaded before the first is stored. whole: no value of the byte is padding. */
FUNC u32 push_digits(GLOBAL float *residual, GLOBAL const float *x, u32 n, u32 packed, u32 position,
                     float m, int whole) {
    const float half_m = 0.5f * m;
    float v[5];
    u32 made = 0;
#pragma unroll
    for (u32 d = 0; d < 5; d++) {
        const u64 i = (u64)d * packed + position;
        v[d] = 0.0f;
        if (whole || i < n) {
            v[d] = x != 0 ? residual[i] + x[i] : residual[i];
        }
    }
#pragma unroll
    for (u32 d = 0; d < 5; d++) {
        const u64 i = (u64)d * packed + position;
        const i32 digit = (i32)(v[d] > half_m) - (i32)(v[d] < -half_m);
        made = 3 * made + (u32)(digit + 1);
        if (whole || i < n) {
            residual[i] = v[d] - (float)digit * m;
        }
    }
    return made;
}

/* Return the end of the last byte that is not ZERO among a work-item's four bytes of the tile, or
 * 0 if there is none. count: bytes of the tile. */
FUNC u32 last_other(LOCALP const u8 *byte, u32 count) {
    u32 last = 0;
    for (u32 k = 0; k < 4; k++) {
        const u32 at = 4 * LANE + k;
        last = at < count && byte[at] != ZERO ? at + 1 : last;
    }
    return last;
}

/* Write a tile of bytes and its description. bytes: memory for them; the message itself if runs
 * are not shortened. */
KERNEL threelc_digits(GLOBAL float *residual, GLOBAL const float *x, u32 n, GLOBAL const float *m,
                      GLOBAL u8 *bytes, GLOBAL stretch *tiles) {
    LOCAL u8 byte[TILE];
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u32 lead;
    const u32 packed = positions_of(n), tile = GROUP * TILE;
    const u32 count = packed - tile < TILE ? packed - tile : TILE;
    const float sent = *m;
    if (4 * (u64)packed + tile + TILE <= n) {
        for (u32 at = LANE; at < TILE; at += GROUP_SIZE) {
            const u32 made = push_digits(residual, x, n, packed, tile + at, sent, 1);
            byte[at] = (u8)made;
            bytes[tile + at] = (u8)made;
        }
    } else {
        for (u32 at = LANE; at < count; at += GROUP_SIZE) {
            const u32 made = push_digits(residual, x, n, packed, tile + at, sent, 0);
            byte[at] = (u8)made;
            bytes[tile + at] = (u8)made;
        }
    }
    if (LANE == 0) {
        lead = count;
    }
    BARRIER();
    u32 end = 0, start = wg_scan_max(room, last_other(byte, count), &end), out = 0, all = 0;
    for (u32 k = 0; k < 4; k++) {
        const u32 at = 4 * LANE + k;
        if (at < end) {
            if (byte[at] != ZERO) {
                out += 1 + (start > 0 ? run_bytes(at - start) : 0);
                if (start == 0) {
                    lead = at;
                }
                start = at + 1;
            }
        }
    }
    (void)wg_scan(room, out, &all);
    if (LANE == 0) {
        stretch s = {lead, 0, 0, 0};
        if (end > 0) {
            s.trail = count - end;
            s.out = all;
            s.others = 1;
        }
        tiles[GROUP] = s;
    }
}

/* Launched with one work-group: replace each tile's description by that of all tiles before it. */
KERNEL threelc_offsets(u32 n, GLOBAL const float *m, GLOBAL stretch *tiles, GLOBAL head *h) {
    LOCAL stretch part[GROUP_SIZE];
    const u32 packed = positions_of(n), count = packed / TILE + (packed % TILE != 0);
    const stretch none = {0, 0, 0, 0};
    if (!(*m > 0.0f)) {
        return;
    }
    u32 first = 0, end = 0;
    lane_part(count, &first, &end);
    stretch s = none;
    for (u32 k = first; k < end; k++) {
        s = join(s, tiles[k]);
    }
    part[LANE] = s;
    BARRIER();
    for (u32 step = 1; step < GROUP_SIZE; step += step) {
        stretch before = none;
        if (LANE >= step) {
            before = part[LANE - step];
        }
        BARRIER();
        part[LANE] = join(before, part[LANE]);
        BARRIER();
    }
    const stretch whole = part[GROUP_SIZE - 1];
    s = none;
    if (LANE > 0) {
        s = part[LANE - 1];
    }
    for (u32 k = first; k < end; k++) {
        const stretch next = join(s, tiles[k]);
        tiles[k] = s;
        s = next;
    }
    if (LANE == 0) {
        h->len = HEAD + run_bytes(whole.lead) + whole.out + run_bytes(whole.trail);
    }
}

/* Return the output byte for a byte of the tile, or TILE if the byte adds no output. run: the
 * length of the run of zeros up to this byte. ends: is the byte the last zero of its run? */
FUNC u32 output_of(u32 byte, u32 run, int ends) {
    if (byte != ZERO) {
        return byte;
    }
    const u32 rest = run % RUN_MAX;
    return rest == 0 ? 255 : !ends ? TILE : rest == 1 ? ZERO : 241 + rest;
}

KERNEL threelc_runs(u32 n, GLOBAL const float *m, GLOBAL const u8 *bytes,
                    GLOBAL const stretch *tiles, GLOBAL u8 *dst) {
    LOCAL u8 byte[TILE + 4];
    LOCAL u8 out[TILE];
    LOCAL u32 room[GROUP_SIZE];
    const u32 packed = positions_of(n), tile = GROUP * TILE;
    const u32 count = packed - tile < TILE ? packed - tile : TILE;
    if (!(*m > 0.0f)) {
        return;
    }
    for (u32 at = LANE; at <= TILE; at += GROUP_SIZE) { /* also loads the next tile's first byte */
        byte[at] = tile + at < packed ? bytes[tile + at] : (u8)0;
    }
    BARRIER();
    const stretch before = tiles[GROUP];
    const u32 carried = before.others != 0 ? before.trail : before.lead;
    u32 most = 0, start = wg_scan_max(room, last_other(byte, count), &most), made = 0, total = 0;
    u32 value[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        const u32 at = 4 * LANE + k;
        value[k] = TILE;
        if (at < count) {
            const u32 run = at + 1 - start + (start == 0 ? carried : 0);
            value[k] = output_of(byte[at], run, byte[at + 1] != ZERO);
            start = byte[at] != ZERO ? at + 1 : start;
        }
        made += value[k] != TILE;
    }
    u32 to = wg_scan(room, made, &total);
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        if (value[k] != TILE) {
            out[to++] = (u8)value[k];
        }
    }
    BARRIER();
    /* Find where this tile's output begins. If a run of zeros goes on into the tile, the tiles
     * before have written only its bytes 255, of 14 zeros each. If the run ended just before the
     * tile, they have written all of it. */
    u64 offset = before.others != 0 ? run_bytes(before.lead) + before.out : 0;
    offset += byte[0] == ZERO ? carried / RUN_MAX : run_bytes(carried);
    for (u32 k = LANE; k < total; k += GROUP_SIZE) {
        dst[HEAD + offset + k] = out[k];
    }
}

/* The results of threelc_sizes for a message. All members begin as 0. */
typedef struct found {
    u64 positions; /* positions that all bytes stand for */
    u32 others;    /* 1 if some byte is not a run of zeros */
    u32 reserved;
} found;

FUNC u32 size_of(u32 byte) {
    return byte > 242 ? byte - 241 : 1;
}

/* Load the four bytes of a work-item, from offset at of the payload on; 0 past the end. */
FUNC u32 load_four(GLOBAL const u8 *payload, u32 at, u32 len) {
    if (at + 4 <= len) {
        return *(GLOBAL const u32 *)(payload + at);
    }
    u32 word = 0;
    for (u32 k = 0; at + k < len; k++) {
        word |= (u32)payload[at + k] << 8 * k;
    }
    return word;
}

/* Return the payload's length. If the head or the length is invalid, return 0 and set *bad. */
FUNC u32 payload_of(GLOBAL const u8 *src, u32 cap, u32 n, u32 len, int *bad) {
    *bad = 1;
    if (len < HEAD || len > cap) {
        return 0;
    }
    const u32 m = load_u32(src), packed = m > 0 ? positions_of(n) : 0;
    *bad = m >= 0x7f800000U || len - HEAD > packed || (m > 0 && len == HEAD);
    return *bad ? 0 : len - HEAD;
}

/* Store in the array tiles how many positions each tile of the message stands for, and check its
 * bytes. If the message has as many bytes as positions, its runs are not shortened. */
KERNEL threelc_sizes(GLOBAL const u8 *src, u32 cap, u32 n, GLOBAL u32 *tiles, GLOBAL found *f,
                     GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    int bad = 0;
    const u32 payload = payload_of(src, cap, n, h->len, &bad);
    const u32 at = GROUP * TILE + 4 * LANE;
    const int plain = payload == positions_of(n);
    u32 size = 0, others = 0, total = 0;
    if (at < payload) {
        const u32 word = load_four(src + HEAD, at, payload);
        u32 before = at > 0 ? src[HEAD + at - 1] : 0;
        for (u32 k = 0; k < 4 && at + k < payload; k++) {
            const u32 byte = word >> 8 * k & 0xffU, run = byte == ZERO || byte > 242;
            const u32 after_short = before == ZERO || (before > 242 && before < 255);
            bad |= plain ? byte > 242 : (run != 0 && after_short != 0);
            others |= run == 0;
            size += size_of(byte);
            before = byte;
        }
    }
    if (bad) {
        fail(h, FED_EFORMAT);
    }
    if (others != 0) {
        f->others = 1;
    }
    (void)wg_scan(room, size, &total);
    if (LANE == 0) {
        tiles[GROUP] = total;
        ATOMIC_ADD64(&f->positions, (u64)total);
    }
}

/* Are the digits after the n-th value other than zero? These digits are in the last bytes. */
FUNC int padding_bad(GLOBAL const u8 *payload, u32 len, u32 n, u32 packed) {
    u32 end = packed;
    while (len > 0 && 4 * (u64)packed + end > n) {
        const u32 byte = payload[--len], size = size_of(byte);
        end -= size;
        u32 rest = byte > 242 ? ZERO : byte;
        for (u32 k = 5; k-- > 0;) {
            if ((u64)k * packed + end >= n && rest % 3 != 1) {
                return 1;
            }
            rest /= 3;
        }
    }
    return 0;
}

/* Launched with one work-group: replace each tile's size by the sum of those before it, and finish
 * the check. */
KERNEL threelc_places(GLOBAL const u8 *src, u32 n, GLOBAL u32 *tiles, GLOBAL const found *f,
                      GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    const u32 good = h->status == 0, payload = good ? h->len - HEAD : 0;
    const u32 packed = good && load_u32(src) > 0 ? positions_of(n) : 0;
    const u32 other = good && (f->positions != packed || (payload > 0 && f->others == 0));
    /* scan_tiles has barriers, so all work-items have read the status before one changes it. */
    (void)scan_tiles(room, tiles, other ? 0 : payload / TILE + (payload % TILE != 0));
    if (LANE == 0 && good && (other || padding_bad(src + HEAD, payload, n, packed))) {
        fail(h, FED_EFORMAT);
    }
}

KERNEL threelc_clear(u32 n, GLOBAL float *y, GLOBAL const head *h) {
    const u32 first = GROUP * GROUP_SIZE * QUADS + LANE;
    if (h->status != 0) {
        return;
    }
    for (u32 k = 0; k < QUADS; k++) {
        const u32 at = first + k * GROUP_SIZE;
        quad_store(y, at, quad_count(at, n), F32X4(0.0f, 0.0f, 0.0f, 0.0f));
    }
}

FUNC void add_digits(GLOBAL float *y, u32 packed, u32 position, u32 byte, float step) {
#pragma unroll
    for (u32 k = 5; k-- > 0;) {
        const u32 digit = byte % 3;
        byte /= 3;
        if (digit != 1) {
            y[(u64)k * packed + position] += digit == 2 ? step : -step;
        }
    }
}

/* Add a tile to y. Bytes that are not ZERO are listed first, so that memory accesses coalesce. */
KERNEL threelc_add(GLOBAL const u8 *src, u32 n, float w, GLOBAL const u32 *tiles, GLOBAL float *y,
                   GLOBAL const head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u32 position[TILE];
    LOCAL u8 byte[TILE];
    if (h->status != 0 || GROUP * TILE >= h->len - HEAD) {
        return;
    }
    const u32 payload = h->len - HEAD, packed = positions_of(n), at = GROUP * TILE + 4 * LANE;
    const float step = w * FLOAT_OF(load_u32(src));
    const u32 word = at < payload ? load_four(src + HEAD, at, payload) : 0;
    const u32 mine = at < payload ? (payload - at < 4 ? payload - at : 4) : 0;
    u32 size = 0, listed = 0, total = 0;
    for (u32 k = 0; k < mine; k++) {
        const u32 b = word >> 8 * k & 0xffU;
        size += size_of(b);
        listed += b <= 242 && b != ZERO;
    }
    u32 place = tiles[GROUP] + wg_scan(room, size, &total);
    u32 to = wg_scan(room, listed, &total);
    for (u32 k = 0; k < mine; k++) {
        const u32 b = word >> 8 * k & 0xffU;
        if (b <= 242 && b != ZERO) {
            position[to] = place;
            byte[to++] = (u8)b;
        }
        place += size_of(b);
    }
    BARRIER();
    for (u32 k = LANE; k < total; k += GROUP_SIZE) {
        add_digits(y, packed, position[k], byte[k], step);
    }
}
