/* inceptionn: a work-item handles a quad of four values, whose tags are one byte. A work-group
 * handles a tile of 1,024 values. Format: docs/codec-formats.md#inceptionn */
/* SPDX-License-Identifier: Apache-2.0 */

#define ONE  0x3f800000U /* bits of 1.0 */
#define SIGN 0x80000000U

FUNC u32 tags_of(u32 n) {
    return n / 4 + (n % 4 != 0);
}

FUNC u32 tag_size(u32 tag) {
    return 1U << tag >> 1;
}

FUNC u32 quad_size(u32 tags) {
    return tag_size(tags & 3) + tag_size(tags >> 2 & 3) + tag_size(tags >> 4 & 3) +
           tag_size(tags >> 6);
}

/* Return the tag of a value. low: bits of the least magnitude that is sent at all. middle: bits of
 * the least magnitude that is sent in 16 bits. */
FUNC u32 tag_of(float v, u32 low, u32 middle) {
    const u32 m = magnitude_of(v);
    return (u32)(m >= low) + (u32)(m >= low && m >= middle) + (u32)(m >= ONE);
}

FUNC u32 tags_of_quad(f32x4 v, u32 low, u32 middle) {
    return tag_of(v.x, low, middle) | tag_of(v.y, low, middle) << 2 |
           tag_of(v.z, low, middle) << 4 | tag_of(v.w, low, middle) << 6;
}

/* Return the word whose upper bytes are sent. Below 1.0 it is the sign and the magnitude times
 * 2^31, else the float's own bits. */
FUNC u32 word_of(float v) {
    const u32 m = magnitude_of(v);
    return m >= ONE ? BITS_OF(v) : (BITS_OF(v) & SIGN) | (u32)(i32)(FLOAT_OF(m) * 2147483648.0f);
}

/* Store each tile's number of bytes in the array tiles. bursts: count the tags too, and accept
 * values that are not finite. */
KERNEL inceptionn_sizes(GLOBAL const float *x, u32 n, u32 low, u32 middle, u32 bursts,
                        GLOBAL u32 *tiles, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    const u32 at = GROUP * GROUP_SIZE + LANE, count = quad_count(at, n);
    const f32x4 v = quad_load(x, at, count);
    u32 total = 0, size = quad_size(tags_of_quad(v, low, middle));
    size += bursts != 0 && count > 0 && at % 2 == 0 ? 2 : 0;
    (void)wg_scan(room, size, &total);
    if (bursts == 0 && !(is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w))) {
        fail(h, FED_ENONFINITE);
    }
    if (LANE == 0) {
        tiles[GROUP] = total;
    }
}

/* Launched with one work-group: compute where each tile begins, and the message's length. */
KERNEL inceptionn_places(u32 n, u32 bursts, GLOBAL u32 *tiles, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    const u32 count = tags_of(n) / GROUP_SIZE + (tags_of(n) % GROUP_SIZE != 0);
    const u32 total = scan_tiles(room, tiles, count);
    if (LANE == 0) {
        h->len = h->status != 0 ? 0 : total + (bursts != 0 ? 0 : tags_of(n));
    }
}

FUNC u32 put_value(LOCALP u8 *out, u32 at, float v, u32 tag) {
    const u32 size = tag_size(tag), word = word_of(v);
    const u32 sent = size > 0 ? word >> (32 - 8 * size) : 0;
    if (size > 0) {
        out[at] = (u8)sent;
    }
    if (size > 1) {
        out[at + 1] = (u8)(sent >> 8);
    }
    if (size > 2) {
        out[at + 2] = (u8)(sent >> 16);
        out[at + 3] = (u8)(sent >> 24);
    }
    return at + size;
}

KERNEL inceptionn_put(GLOBAL const float *x, u32 n, u32 low, u32 middle, u32 bursts,
                      GLOBAL const u32 *tiles, GLOBAL u8 *dst, GLOBAL const head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u8 tag[GROUP_SIZE];
    LOCAL u8 out[4 * 4 * GROUP_SIZE + GROUP_SIZE];
    if (h->status != 0) {
        return;
    }
    const u32 at = GROUP * GROUP_SIZE + LANE, count = quad_count(at, n);
    const f32x4 v = quad_load(x, at, count);
    const u32 tags = tags_of_quad(v, low, middle);
    const int first = bursts != 0 && count > 0 && at % 2 == 0;
    u32 total = 0, to = wg_scan(room, quad_size(tags) + (first ? 2 : 0), &total);
    tag[LANE] = (u8)tags;
    BARRIER();
    if (first) {
        out[to++] = (u8)tags;
        out[to++] = tag[LANE + 1];
    }
    if (bursts == 0 && count > 0) {
        dst[at] = (u8)tags;
    }
    to = put_value(out, to, v.x, tags & 3);
    to = put_value(out, to, v.y, tags >> 2 & 3);
    to = put_value(out, to, v.z, tags >> 4 & 3);
    (void)put_value(out, to, v.w, tags >> 6);
    BARRIER();
    GLOBAL u8 *payload = dst + (u64)(bursts != 0 ? 0 : tags_of(n)) + tiles[GROUP];
    for (u32 k = LANE; k < total; k += GROUP_SIZE) {
        payload[k] = out[k];
    }
}

/* The results of inceptionn_tags and inceptionn_look; 0 at first. For each class of 8, 16 and 32
 * bits, most[] has the largest magnitude, then MOST minus the least magnitude. MOST is MOST_32 for
 * 32 bits, else MOST_8. */
typedef struct found {
    u64 bytes; /* payload bytes according to the tags */
    u32 most[6];
} found;
#define IN8     0U
#define IN16    2U
#define IN32    4U
#define ENDS    6U
#define SIXTEEN 16U
#define MOST_8  0x7fffU
#define MOST_32 0x7fffffffU

FUNC u32 quad_tags(GLOBAL const u8 *src, u32 at, u32 count) {
    return count > 0 ? src[at] : 0;
}

KERNEL inceptionn_tags(GLOBAL const u8 *src, u32 cap, u32 n, GLOBAL u32 *tiles, GLOBAL found *f,
                       GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    const u32 at = GROUP * GROUP_SIZE + LANE, count = quad_count(at, n), len = h->len;
    u32 total = 0;
    if (len > cap || len < tags_of(n)) {
        fail(h, FED_EFORMAT);
        return;
    }
    const u32 tags = quad_tags(src, at, count);
    if (count > 0 && tags >> 2 * count != 0) {
        fail(h, FED_EFORMAT);
    }
    (void)wg_scan(room, quad_size(tags), &total);
    if (LANE == 0) {
        tiles[GROUP] = total;
        ATOMIC_ADD64(&f->bytes, (u64)total);
    }
}

/* Launched with one work-group: find where each tile's payload begins, and check the length of all
 * payload. */
KERNEL inceptionn_begins(u32 n, GLOBAL u32 *tiles, GLOBAL const found *f, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    const u32 count = tags_of(n) / GROUP_SIZE + (tags_of(n) % GROUP_SIZE != 0);
    (void)scan_tiles(room, tiles, count);
    if (LANE == 0 && (h->len < tags_of(n) || f->bytes != h->len - tags_of(n))) {
        fail(h, FED_EFORMAT);
    }
}

/* Load a value's word: the bytes sent are the word's upper bytes; its other bytes are 0. */
FUNC u32 load_word(GLOBAL const u8 *src, u32 size) {
    u32 word = 0;
    for (u32 k = 0; k < size; k++) {
        word |= (u32)src[k] << (32 - 8 * size + 8 * k);
    }
    return word;
}

KERNEL inceptionn_look(GLOBAL const u8 *src, u32 n, GLOBAL const u32 *tiles, GLOBAL found *f,
                       GLOBAL const head *h) {
    LOCAL u32 room[GROUP_SIZE];
    LOCAL u32 ends[ENDS * GROUP_SIZE];
    const u32 at = GROUP * GROUP_SIZE + LANE, count = quad_count(at, n);
    u32 end[ENDS] = {0, 0, 0, 0, 0, 0}, total = 0;
    if (h->status != 0) {
        return;
    }
    const u32 tags = quad_tags(src, at, count);
    GLOBAL const u8 *from =
        src + tags_of(n) + (u64)tiles[GROUP] + wg_scan(room, quad_size(tags), &total);
    for (u32 k = 0; k < 4; k++) {
        const u32 tag = tags >> 2 * k & 3, size = tag_size(tag);
        const u32 m = load_word(from, size) & ~SIGN, upper = m >> 16;
        end[IN8] = tag == 1 ? larger(end[IN8], upper) : end[IN8];
        end[IN8 + 1] = tag == 1 ? larger(end[IN8 + 1], MOST_8 - upper) : end[IN8 + 1];
        end[IN16] = tag == 2 ? larger(end[IN16], upper) : end[IN16];
        end[IN16 + 1] = tag == 2 ? larger(end[IN16 + 1], MOST_8 - upper) : end[IN16 + 1];
        end[IN32] = tag == 3 ? larger(end[IN32], m) : end[IN32];
        end[IN32 + 1] = tag == 3 ? larger(end[IN32 + 1], MOST_32 - m) : end[IN32 + 1];
        from += size;
    }
#pragma unroll
    for (u32 k = 0; k < ENDS; k++) {
        ends[k * GROUP_SIZE + LANE] = end[k];
    }
    BARRIER();
    if (LANE < ENDS * SIXTEEN) {
        for (u32 k = 1; k < SIXTEEN; k++) {
            ends[SIXTEEN * LANE] = larger(ends[SIXTEEN * LANE], ends[SIXTEEN * LANE + k]);
        }
    }
    BARRIER();
    if (LANE < ENDS) {
        u32 most = 0;
        for (u32 k = 0; k < GROUP_SIZE; k += SIXTEEN) {
            most = larger(most, ends[LANE * GROUP_SIZE + k]);
        }
        ATOMIC_MAX(&f->most[LANE], most);
    }
}

/* Return k with 2^-k <= m / 2^15 < 2^(1-k); 16 for m = 0. */
FUNC i32 exponent_of(u32 m) {
    return (i32)CLZ(m) - 16;
}

/* Return 1 if no parameter e from 1 to 15 puts all values into the classes that their tags say.
 * Also return 1 if a 32-bit value is below 1.0 or not finite. */
FUNC int classes_bad(GLOBAL const found *f) {
    const u32 least8 = MOST_8 - f->most[IN8 + 1], least16 = MOST_8 - f->most[IN16 + 1];
    const i32 in8 = exponent_of(least8) < 8 ? exponent_of(least8) : 8;
    const i32 in16 = f->most[IN16] == 0 && least16 != 0 ? 0 : 2 * exponent_of(least16);
    const i32 low = in8 > in16 ? in8 : in16, most = 2 * exponent_of(f->most[IN8]) - 1;
    return low > (most < 15 ? most : 15) || MOST_32 - f->most[IN32 + 1] < ONE ||
           f->most[IN32] >= 0x7f800000U;
}

FUNC float value_of(u32 word, u32 tag) {
    const float inside = (float)(i32)(word & ~SIGN) * 4.656612873077392578125e-10f;
    return FLOAT_OF(tag == 3 ? word : BITS_OF(inside) | (word & SIGN));
}

KERNEL inceptionn_read(GLOBAL const u8 *src, u32 n, float w, u32 set, GLOBAL const u32 *tiles,
                       GLOBAL const found *f, GLOBAL float *y, GLOBAL head *h) {
    LOCAL u32 room[GROUP_SIZE];
    const u32 at = GROUP * GROUP_SIZE + LANE, count = quad_count(at, n);
    u32 total = 0;
    if (h->status != 0) {
        return;
    }
    if (classes_bad(f)) {
        fail(h, FED_EFORMAT);
        return;
    }
    const u32 tags = quad_tags(src, at, count);
    GLOBAL const u8 *from =
        src + tags_of(n) + (u64)tiles[GROUP] + wg_scan(room, quad_size(tags), &total);
    GLOBAL float *to = y + 4 * (u64)at;
    for (u32 k = 0; k < 4; k++) {
        const u32 tag = tags >> 2 * k & 3, size = tag_size(tag);
        const float v = value_of(load_word(from, size), tag);
        if (k < count && set != 0) {
            to[k] = v;
        }
        if (k < count && set == 0 && (BITS_OF(v) & ~SIGN) != 0) { /* zeros leave y alone, even -0 */
            to[k] += w * v;
        }
        from += size;
    }
}
