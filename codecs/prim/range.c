/* An adaptive binary range coder. Each bit of a gap narrows an interval of 32-bit numbers in
 * proportion to the bit's probability. When both ends of the interval share their high byte, that
 * byte is written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/range.h"

enum {
    EXPONENTS = FEDCODEC_RANGE_EXPONENTS,
    HALF = 1 << 15,
    LEAST = 64, /* probabilities are LEAST to 2^16 - LEAST */
    PRIOR = 12, /* the prior has the weight of this many bits */
    FAST = 30,  /* number of bits that the fast estimate averages over */
    SLOW = FEDCODEC_RANGE_STEPS - 1,
    EXPONENT_BITS = 5,
    MODELLED = 2 /* mantissa bits with a model; lower bits have probability 1/2 */
};

static fedcodec_range_bit expect(uint64_t ones, uint64_t all) {
    uint16_t p = (uint16_t)(all == 0 ? HALF : (ones << 16) / all - (ones == all));
    return (fedcodec_range_bit){p, p, PRIOR};
}

/* Set the prior of the tree of exponents. Each node splits a range of exponents in two halves.
 * tail[e] is the probability of an exponent of e or more, so that differences of it are the
 * probabilities of the halves. */
static void start_exponents(fedcodec_range_bit *tree, const uint64_t *tail) {
    unsigned node = 1;
    for (unsigned span = EXPONENTS; span > 1; span /= 2) {
        for (unsigned first = 0; first < EXPONENTS; first += span) {
            uint64_t end = tail[first + span];
            tree[node++] = expect(tail[first + span / 2] - end, tail[first] - end);
        }
    }
}

/*
 * Set the priors to those of random positions, where each gap grows by one with probability
 * q = 1 - count / n. Then gap + 1 is at least 2^e with probability q^(2^e - 1). Of two neighbouring
 * ranges of 2^e gaps, the second is q^(2^e) times as probable as the first. All numbers are in
 * units of 2^-32.
 */
static void start_model(fedcodec_range_model *m, uint64_t count, uint64_t n) {
    const uint64_t one = UINT64_C(1) << 32;
    uint64_t power = one - (count << 32) / n; /* q^(2^e) */
    uint64_t tail[EXPONENTS + 1] = {one};
    fedcodec_range_bit halves[EXPONENTS];
    for (unsigned e = 0; e < EXPONENTS; e++) {
        tail[e + 1] = tail[e] * power >> 32;
        halves[e] = expect(power, one + power);
        power = power * power >> 32;
    }
    tail[EXPONENTS] = 0; /* no gap has more bits */
    start_exponents(m->exponent, tail);
    for (unsigned e = 1; e < EXPONENTS; e++) {
        m->mantissa[e][1] = halves[e - 1];
        m->mantissa[e][2] = m->mantissa[e][3] = halves[e > 1 ? e - 2 : 0];
    }
    for (uint32_t seen = 0; seen < FEDCODEC_RANGE_STEPS; seen++) {
        m->step[seen] = (uint16_t)(UINT32_C(131072) / (2 * seen + 3));
    }
}

static inline uint32_t probability(const fedcodec_range_bit *b) {
    uint32_t p = ((uint32_t)b->fast + b->slow) / 2;
    return p < LEAST ? LEAST : p > 65536 - LEAST ? 65536 - LEAST : p;
}

/* Move an estimate towards the bit: by p * step / 2^16 for a 0, by (65535 - p) * step / 2^16 for a
 * 1. There is no branch, since the bits of gaps can hardly be predicted. */
static inline uint16_t towards(uint32_t p, unsigned bit, uint32_t step) {
    const uint32_t flip = (0u - bit) & 65535u, distance = p ^ flip;
    return (uint16_t)((distance - (distance * step >> 16)) ^ flip);
}

/* Move both estimates towards the bit. The step is 1 / (seen + 1.5); for the fast estimate, seen
 * counts at most as FAST. */
static inline void learn(const fedcodec_range_model *m, fedcodec_range_bit *b, unsigned bit) {
    b->fast = towards(b->fast, bit, m->step[b->seen < FAST ? b->seen : FAST]);
    b->slow = towards(b->slow, bit, m->step[b->seen]);
    b->seen = (uint16_t)(b->seen + (b->seen < SLOW));
}

/* Return where the interval is split: up to this number the bit is 1. */
static inline uint32_t split(uint32_t low, uint32_t high, uint32_t p) {
    return low + (uint32_t)((uint64_t)(high - low) * p >> 16);
}

/* Narrow the interval to the bit's part, without a branch. */
static inline void narrow(uint32_t *low, uint32_t *high, uint32_t middle, unsigned bit) {
    const uint32_t one = 0u - bit;
    *low = (*low & one) | ((middle + 1) & ~one);
    *high = (middle & one) | (*high & ~one);
}

typedef struct range_writer {
    uint8_t *dst;
    size_t cap, len;
    uint32_t low, high;
    bool full;
    fedcodec_range_model model;
} range_writer;

static inline void put_bit(range_writer *w, unsigned bit, uint32_t p) {
    narrow(&w->low, &w->high, split(w->low, w->high, p), bit);
    while ((w->low ^ w->high) >> 24 == 0) {
        if (w->len == w->cap) {
            w->full = true;
        } else {
            w->dst[w->len++] = (uint8_t)(w->high >> 24);
        }
        w->low <<= 8;
        w->high = w->high << 8 | 0xff;
    }
}

/* Code the count low bits of value, highest first, by a tree of models; tree[0] is unused. */
static inline void put_tree(range_writer *w, fedcodec_range_bit *tree, uint32_t value,
                            unsigned count) {
    for (unsigned node = 1; count-- > 0;) {
        unsigned bit = value >> count & 1;
        put_bit(w, bit, probability(&tree[node]));
        learn(&w->model, &tree[node], bit);
        node = 2 * node + bit;
    }
}

static void put_gap(range_writer *w, uint32_t gap) {
    uint32_t value = gap + 1;
    unsigned exponent = 31u - (unsigned)__builtin_clz(value);
    unsigned modelled = exponent < MODELLED ? exponent : MODELLED, rest = exponent - modelled;
    put_tree(w, w->model.exponent, exponent, EXPONENT_BITS);
    put_tree(w, w->model.mantissa[exponent], value >> rest, modelled);
    while (rest-- > 0) {
        put_bit(w, value >> rest & 1, HALF);
    }
}

/* Find the fewest bytes that end a message: whatever bytes follow them, the number stays in the
 * interval. Returns how many bytes these are. *value has them, the first byte most significant. */
static unsigned last_bytes(uint32_t low, uint32_t high, uint32_t *value) {
    for (unsigned count = 0; count < 4; count++) {
        uint64_t step = UINT64_C(1) << (32 - 8 * count);
        uint64_t first = (low + step - 1) / step * step;
        if (first + step - 1 <= high) {
            *value = (uint32_t)first;
            return count;
        }
    }
    *value = low;
    return 4;
}

fed_status fedcodec_range_put(const uint32_t *position, size_t k, size_t n, uint8_t *dst,
                              size_t cap, size_t *len) {
    range_writer w = {.dst = dst, .cap = cap, .high = UINT32_MAX};
    start_model(&w.model, k, n);
    uint32_t next = 0, value = 0;
    for (size_t i = 0; i < k && !w.full; i++) {
        put_gap(&w, position[i] - next);
        next = position[i] + 1;
    }
    unsigned count = last_bytes(w.low, w.high, &value);
    FED_REQUIRE(!w.full && cap - w.len >= count, FED_ENOSPC);
    for (; count > 0; count--) {
        dst[w.len++] = (uint8_t)(value >> 24);
        value <<= 8;
    }
    *len = w.len;
    return FED_OK;
}

/* Return a byte of src, or 0 after its end, where the value does not matter. */
static inline uint32_t byte_at(const fedcodec_range_reader *r, size_t at) {
    return at < r->len ? r->src[at] : 0;
}

void fedcodec_range_start(fedcodec_range_reader *r, const uint8_t *src, size_t len, uint64_t count,
                          size_t n) {
    r->src = src;
    r->len = len;
    r->at = 0;
    r->low = 0;
    r->high = UINT32_MAX;
    r->code = byte_at(r, 0) << 24 | byte_at(r, 1) << 16 | byte_at(r, 2) << 8 | byte_at(r, 3);
    r->broken = false;
    r->n = n;
    r->next = 0;
    start_model(&r->model, count, n);
}

static inline unsigned get_bit(fedcodec_range_reader *r, uint32_t p) {
    uint32_t middle = split(r->low, r->high, p);
    unsigned bit = r->code <= middle;
    if (bit) {
        r->high = middle;
    } else {
        r->low = middle + 1;
    }
    while ((r->low ^ r->high) >> 24 == 0) {
        r->low <<= 8;
        r->high = r->high << 8 | 0xff;
        r->code = r->code << 8 | byte_at(r, r->at + 4);
        r->at++;
    }
    return bit;
}

static inline uint32_t get_tree(fedcodec_range_reader *r, fedcodec_range_bit *tree,
                                unsigned count) {
    uint32_t node = 1;
    for (; count > 0; count--) {
        unsigned bit = get_bit(r, probability(&tree[node]));
        learn(&r->model, &tree[node], bit);
        node = 2 * node + bit;
    }
    return node; /* the count bits read, after a leading 1 */
}

static inline uint32_t get_gap(fedcodec_range_reader *r) {
    unsigned exponent = get_tree(r, r->model.exponent, EXPONENT_BITS) - (1u << EXPONENT_BITS);
    unsigned modelled = exponent < MODELLED ? exponent : MODELLED;
    uint32_t value = get_tree(r, r->model.mantissa[exponent], modelled);
    for (unsigned rest = exponent - modelled; rest > 0; rest--) {
        value = 2 * value + get_bit(r, HALF);
    }
    return value - 1;
}

bool fedcodec_range_read(fedcodec_range_reader *r, uint32_t *position, size_t want) {
    for (size_t i = 0; i < want && !r->broken; i++) {
        uint64_t at = r->next + get_gap(r);
        r->broken = at >= r->n || r->at > r->len;
        position[i] = (uint32_t)at;
        r->next = at + 1;
    }
    return !r->broken;
}

fed_status fedcodec_range_end(const fedcodec_range_reader *r) {
    uint32_t value = 0;
    unsigned count = last_bytes(r->low, r->high, &value);
    FED_REQUIRE(!r->broken && r->len - r->at == count && r->at <= r->len, FED_EFORMAT);
    for (unsigned i = 0; i < count; i++) {
        FED_REQUIRE(r->src[r->at + i] == (uint8_t)(value >> (24 - 8 * i)), FED_EFORMAT);
    }
    return FED_OK;
}
