/* entropy: an adaptive range coder for the two nibbles of each byte. A nibble takes about as many
 * bits as its probability asks for. Made for 3lc's messages. Format:
 * docs/codec-formats.md#entropy */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "codecs/stage.h"

enum {
    NIBBLES = 16,
    ALL = 1 << 15, /* the probabilities of a nibble's values add up to this */
    LEAST = 8,     /* the least probability of a value */
    FIRST_STEP = 32767,
    LAST_STEP = 688, /* the lowest rate of the estimates, times 2^16 */
    WORD = 4         /* bytes that are written at once */
};

/* The probability of value v is bound[v + 1] - bound[v]. The first bound, 0, and the last one,
 * ALL, never move. An int16_t holds ALL as -ALL. */
typedef struct nibble_model {
    int16_t bound[NIBBLES + 1];
    int16_t step;
} nibble_model;

/* The class of a byte by the byte before it. In 3lc's messages a run can go on in the next byte
 * only after the byte 255. */
enum { AFTER_OTHERS, AFTER_RUN_END, AFTER_RUN, CLASSES };

typedef struct byte_model {
    nibble_model high[CLASSES], low[CLASSES][NIBBLES];
} byte_model;

static inline unsigned class_after(uint8_t byte) {
    return byte == 255 ? AFTER_RUN : byte > 242 || byte == 121 ? AFTER_RUN_END : AFTER_OTHERS;
}

static void start_nibble(nibble_model *m) {
    for (int i = 0; i <= NIBBLES; i++) {
        m->bound[i] = (int16_t)(i < NIBBLES ? i * (ALL / NIBBLES) : -ALL);
    }
    m->step = FIRST_STEP;
}

static void start_model(byte_model *m) {
    for (size_t k = 0; k < CLASSES; k++) {
        start_nibble(&m->high[k]);
        for (size_t v = 0; v < NIBBLES; v++) {
            start_nibble(&m->low[k][v]);
        }
    }
}

static inline uint32_t bound(const nibble_model *m, unsigned v) {
    return (uint16_t)m->bound[v];
}

/* The bounds if value v is almost certain. As they are in a table, compilers vectorise
 * move_bounds. */
#define AIM(v, i)   (int16_t)((i) <= (v) ? (i)*LEAST : ALL - (NIBBLES - (i)) * LEAST)
#define AIM_4(v, i) AIM(v, i), AIM(v, (i) + 1), AIM(v, (i) + 2), AIM(v, (i) + 3)
#define AIMS(v)                                                                                    \
    { AIM_4(v, 0), AIM_4(v, 4), AIM_4(v, 8), AIM_4(v, 12) }
static const int16_t aims[NIBBLES][NIBBLES] = {
    AIMS(0), AIMS(1), AIMS(2),  AIMS(3),  AIMS(4),  AIMS(5),  AIMS(6),  AIMS(7),
    AIMS(8), AIMS(9), AIMS(10), AIMS(11), AIMS(12), AIMS(13), AIMS(14), AIMS(15),
};

static inline void move_bounds(int16_t *restrict from, const int16_t *restrict to, int16_t step) {
    for (int i = 0; i < NIBBLES; i++) {
        int16_t way = (int16_t)(to[i] - from[i]);
        from[i] = (int16_t)(from[i] + (way * step >> 16));
    }
}

static inline void learn(nibble_model *m, unsigned v) {
    move_bounds(m->bound, aims[v], m->step);
    int step = m->step - (m->step * m->step >> 16);
    m->step = (int16_t)(step > LAST_STEP ? step : LAST_STEP);
}

/* Find the fewest bytes that end a message: whatever bytes follow them, the number that all these
 * bytes form lies in the interval from low on. Returns how many bytes these are. *more becomes the
 * number with zeros after them, minus low. The unpacker calls this function too, to check the
 * end. */
static unsigned last_bytes(uint64_t low, uint64_t range, uint64_t *more) {
    for (unsigned count = 1;; count++) {
        assert(count <= 8); /* 8 bytes can express low itself */
        uint64_t unit = UINT64_C(1) << (64 - 8 * count);
        *more = (0 - low) & (unit - 1);
        if (unit <= range && *more <= range - unit) {
            return count;
        }
    }
}

/* The interval begins at the number whose digits are the bytes written, then low. */
typedef struct packer {
    uint8_t *dst;
    size_t cap, len;
    uint64_t low, range;
    bool full;
} packer;

/* Add to low, and carry an overflow into the bytes written before. */
static inline void add_low(packer *p, uint64_t more) {
    p->low += more;
    if (p->low < more) {
        for (size_t i = p->len; i > 0 && ++p->dst[i - 1] == 0; i--) {
        }
    }
}

static inline void put_bytes(packer *p, unsigned count) {
    if (p->cap - p->len < count) {
        p->full = true;
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        p->dst[p->len++] = (uint8_t)(p->low >> (56 - 8 * i));
    }
}

static inline void put_nibble(packer *p, nibble_model *m, unsigned v) {
    const uint64_t share = p->range / ALL;
    const uint32_t from = bound(m, v), to = bound(m, v + 1);
    add_low(p, share * from);
    p->range = share * (to - from);
    if (p->range >> 32 == 0) {
        put_bytes(p, WORD);
        p->low <<= 32;
        p->range <<= 32;
    }
    learn(m, v);
}

static size_t entropy_pack(const uint8_t *src, size_t len, uint8_t *dst, size_t cap) {
    packer p = {.dst = dst, .cap = cap, .range = UINT64_MAX};
    byte_model m;
    start_model(&m);
    unsigned class = AFTER_OTHERS;
    for (size_t i = 0; i < len && !p.full; i++) {
        const unsigned high = src[i] / NIBBLES, low = src[i] % NIBBLES;
        put_nibble(&p, &m.high[class], high);
        put_nibble(&p, &m.low[class][high], low);
        class = class_after(src[i]);
    }
    uint64_t more;
    unsigned count = last_bytes(p.low, p.range, &more);
    add_low(&p, more);
    put_bytes(&p, count);
    return p.full ? 0 : p.len;
}

typedef struct unpacker {
    const uint8_t *src;
    size_t len, at;            /* bytes of src; bytes used up */
    uint64_t low, range, code; /* code: the next eight bytes, minus low */
    bool broken;               /* stays set: pack can't have written these bytes */
} unpacker;

/* Return the four bytes from index at on; after the end zeros, whose value does not matter. */
static inline uint32_t word_at(const unpacker *u, size_t at) {
    uint32_t word = 0;
    for (size_t i = at; i < at + WORD; i++) {
        word = word << 8 | (i < u->len ? u->src[i] : 0U);
    }
    return word;
}

/* Return the last value v with share * bound[v] <= code; share: the range divided by ALL. Compare
 * with every fourth bound first. */
static inline unsigned find_value(const nibble_model *m, uint64_t share, uint64_t code) {
    unsigned fourth = 0, v = 0;
    for (unsigned i = 4; i < NIBBLES; i += 4) {
        fourth += share * bound(m, i) <= code ? 4 : 0;
    }
    for (unsigned i = 1; i < 4; i++) {
        v += share * bound(m, fourth + i) <= code;
    }
    return fourth + v;
}

static inline unsigned get_nibble(unpacker *u, nibble_model *m) {
    const uint64_t share = u->range / ALL;
    const unsigned v = find_value(m, share, u->code);
    const uint32_t from = bound(m, v), to = bound(m, v + 1);
    u->low += share * from;
    u->code -= share * from;
    u->range = share * (to - from);
    u->broken |= u->code >= u->range;
    if (u->range >> 32 == 0) {
        u->code = u->code << 32 | word_at(u, u->at + 8);
        u->low <<= 32;
        u->range <<= 32;
        u->at += WORD;
    }
    learn(m, v);
    return v;
}

static fed_status entropy_unpack(const uint8_t *src, size_t len, uint8_t *dst, size_t plain_len) {
    unpacker u = {.src = src, .len = len, .range = UINT64_MAX};
    u.code = (uint64_t)word_at(&u, 0) << 32 | word_at(&u, WORD);
    byte_model m;
    start_model(&m);
    unsigned class = AFTER_OTHERS;
    for (size_t i = 0; i < plain_len; i++) {
        const unsigned high = get_nibble(&u, &m.high[class]);
        dst[i] = (uint8_t)(high * NIBBLES + get_nibble(&u, &m.low[class][high]));
        FED_REQUIRE(!u.broken && u.at <= len, FED_EFORMAT);
        class = class_after(dst[i]);
    }
    uint64_t more;
    unsigned count = last_bytes(u.low, u.range, &more);
    FED_REQUIRE(u.code == more && u.at + count == len, FED_EFORMAT);
    return FED_OK;
}

const fedcodec_stage fedcodec_stage_entropy = {
    .id = FEDCODEC_STAGE_ID_entropy,
    .name = "entropy",
    .pack = entropy_pack,
    .unpack = entropy_unpack,
};
