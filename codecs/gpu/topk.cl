/* topk: a work-item handles the 8 values of a byte of the bitmap. Format:
 * docs/codec-formats.md#topk */
/* SPDX-License-Identifier: Apache-2.0 */

#define NAMES 0x7fc00000U

FUNC u32 map_bytes(u32 n) {
    return n / 8 + (n % 8 != 0);
}

KERNEL topk_put(GLOBAL float *residual, u32 n, GLOBAL const side *chosen, GLOBAL const u32 *found,
                GLOBAL const u32 *index, GLOBAL const u32 *flag, GLOBAL const u32 *tiles,
                GLOBAL const u32 *totals, GLOBAL u8 *dst, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u32 more[WORDS];
    LOCAL u32 equal[WORDS];
    LOCAL u32 from[WORDS];
    u32 word = LANE / 4, first = 8 * (LANE % 4), i = GROUP * TILE + 8 * LANE, byte = 0;
    u32 map = map_bytes(n);
    mark_tile(more, equal, residual, n, 1, 0, chosen[0].low, found, index, *flag == 0);
    choose_tile(room, more, equal, from, tiles, 0, chosen[0].ties);
    u64 to = map + 4 * (u64)(from[word] + POPCOUNT(more[word] & ((1U << first) - 1)));
    for (u32 ones = more[word] >> first & 0xff, j = 0; ones != 0; ones >>= 1, j++) {
        if ((ones & 1) != 0) {
            store_u32(dst + to, BITS_OF(residual[i + j]));
            residual[i + j] = 0.0f;
            byte |= 0x80U >> j;
            to += 4;
        }
    }
    if (i < n) {
        dst[i / 8] = (u8)byte;
    }
    if (GROUP == 0 && LANE == 0) {
        h->len = h->status == 0 ? map + 4 * chosen_count(chosen, totals, 0) : 0;
    }
}

KERNEL topk_count(GLOBAL const u8 *src, u32 cap, u32 n, GLOBAL u32 *tiles, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    u32 at = GROUP * GROUP_SIZE + LANE, map = map_bytes(n), total, byte = 0;
    if (h->len < map || h->len > cap) {
        if (LANE == 0) {
            tiles[GROUP] = 0;
            fail(h, FED_EFORMAT);
        }
        return;
    }
    if (at < map) {
        byte = src[at];
    }
    if (at + 1 == map && n % 8 != 0 && (byte & 0xffU >> n % 8) != 0) {
        fail(h, FED_EFORMAT);
    }
    wg_scan(room, POPCOUNT(byte), &total);
    if (LANE == 0) {
        tiles[GROUP] = total;
    }
}

FUNC int names_narrow(GLOBAL const u8 *src, u32 cap, u32 map, u32 len) {
    return len <= cap && len >= map + 4 && IS_NARROW(load_u32(src + map) - NAMES);
}

/* Check that the length is right, and that each value is finite and not 0. Messages with bfloat16
 * or int8 values get FED_EVERSION: only the processor decodes them. */
KERNEL topk_check(GLOBAL const u8 *src, u32 cap, u32 n, GLOBAL const u32 *tiles,
                  GLOBAL const u32 *totals, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    u32 at = GROUP * GROUP_SIZE + LANE, map = map_bytes(n), total;
    if (GROUP == 0 && LANE == 0 && names_narrow(src, cap, map, h->len)) {
        fail(h, FED_EVERSION); /* wins over any other status */
    }
    if (h->len > cap || h->len != map + 4 * (u64)totals[0]) {
        fail(h, FED_EFORMAT);
        return;
    }
    u32 byte = at < map ? src[at] : 0, count = POPCOUNT(byte);
    u64 slot = tiles[GROUP] + wg_scan(room, count, &total);
    for (u32 j = 0; j < count; j++) {
        u32 key = load_u32(src + map + 4 * (slot + j)) & 0x7fffffffU;
        if (key == 0 || key >= INFINITE) {
            fail(h, FED_EFORMAT);
        }
    }
}

KERNEL topk_read(GLOBAL const u8 *src, u32 n, GLOBAL const u32 *tiles, float w, u32 set,
                 GLOBAL float *y, GLOBAL const head *h) {
    LOCAL u32 room[GROUP_SIZE];
    u32 at = GROUP * GROUP_SIZE + LANE, map = map_bytes(n), total;
    if (h->status != 0) {
        return;
    }
    u32 byte = at < map ? src[at] : 0;
    u64 slot = tiles[GROUP] + wg_scan(room, POPCOUNT(byte), &total);
    for (u32 j = 0; j < 8 && 8 * (u64)at + j < n; j++) {
        u32 one = byte >> (7 - j) & 1;
        float v = one != 0 ? FLOAT_OF(load_u32(src + map + 4 * slot)) : 0.0f;
        slot += one;
        if (set != 0) {
            y[8 * at + j] = v;
        } else if (one != 0) {
            y[8 * at + j] += w * v;
        }
    }
}
