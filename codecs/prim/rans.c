/* Static rANS coding of numbers, or of the gaps between positions. The state has 32 bits and is
 * refilled by 16 bits. The encoder works backwards, so that the decoder works forwards. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/rans.h"

#include <assert.h>
#include <string.h>

#include "fed/bits.h"

enum {
    SYMBOLS = FEDCODEC_RANS_SYMBOLS,
    SLOTS = FEDCODEC_RANS_SLOTS,
    SLOT_BITS = 12,
    WEIGHT_MAX = 8191, /* a weight's limit before it is rounded */
    LEVEL_MAX = 14,    /* the most bits of a weight */
    LAST_BITS = 7,     /* bits for the index of the last symbol used */
    WORD_BITS = 16,
    STATE_LOW = 1 << WORD_BITS, /* between symbols the state is at least this */
    STATE_LEN = 4
};

static inline unsigned symbol_of(uint32_t gap) {
    if (gap < 4) {
        return gap;
    }
    unsigned exponent = 31u - (unsigned)__builtin_clz(gap);
    return 4 * (exponent - 1) + (gap >> (exponent - 2) & 3);
}

/* Return how many low bits a gap has besides its symbol: 0 to 29. */
static inline unsigned low_bits(unsigned symbol) {
    return symbol < 4 ? 0 : symbol / 4 - 1;
}

static inline uint32_t gap_of(unsigned symbol) {
    return symbol < 4 ? symbol : (4u + symbol % 4) << low_bits(symbol);
}

/* The input: numbers as they are, or ascending positions, of which the gaps are coded. */
typedef enum kind { NUMBERS, POSITIONS } kind;

static inline uint32_t number_at(kind of, const uint32_t *value, size_t i) {
    return of == NUMBERS || i == 0 ? value[i] : value[i] - value[i - 1] - 1;
}

unsigned fedcodec_rans_detail(size_t k) {
    /* A bit of detail costs one bit for each symbol, which pays only for many numbers. */
    unsigned detail = 0;
    for (k >>= 11; k > 0 && detail < FEDCODEC_RANS_DETAIL_MAX; k >>= 2) {
        detail++;
    }
    return detail;
}

static unsigned bit_length(uint32_t v) {
    return v == 0 ? 0 : 32u - (unsigned)__builtin_clz(v);
}

/* Round to 1 + detail significant bits, halves up. */
static uint32_t round_weight(uint32_t weight, unsigned detail) {
    unsigned length = bit_length(weight);
    if (length <= detail + 1) {
        return weight;
    }
    unsigned drop = length - detail - 1;
    return (weight + (UINT32_C(1) << drop >> 1)) >> drop << drop;
}

static inline void count_symbols(kind of, const uint32_t *value, size_t k, uint32_t *count) {
    memset(count, 0, SYMBOLS * sizeof *count);
    for (size_t i = 0; i < k; i++) {
        count[symbol_of(number_at(of, value, i))]++;
    }
}

static void weigh(unsigned detail, uint32_t *weight) {
    uint32_t max = 0;
    for (size_t s = 0; s < SYMBOLS; s++) {
        max = weight[s] > max ? weight[s] : max;
    }
    for (size_t s = 0; s < SYMBOLS; s++) {
        if (max > WEIGHT_MAX && weight[s] > 0) {
            uint32_t scaled = (uint32_t)((uint64_t)weight[s] * WEIGHT_MAX / max);
            weight[s] = scaled > 0 ? scaled : 1;
        }
        weight[s] = round_weight(weight[s], detail);
    }
}

/* Give each symbol in use one slot, and its share of the other slots. Cumulative sums are rounded,
 * not single shares, so that the slots fill the table exactly. */
static void share_slots(const uint32_t *weight, uint16_t *start) {
    uint64_t total = 0, before = 0;
    unsigned used = 0, rank = 0;
    for (size_t s = 0; s < SYMBOLS; s++) {
        total += weight[s];
        used += weight[s] > 0;
    }
    for (size_t s = 0; s < SYMBOLS; s++) {
        start[s] = (uint16_t)(rank + before * (SLOTS - used) / total);
        before += weight[s];
        rank += weight[s] > 0;
    }
    start[SYMBOLS] = SLOTS;
}

/* Write the weights. Neighbouring weights are similar, so the length of each is sent as the
 * difference from the length before it. Then follow its mantissa bits. */
static fed_status put_weights(const uint32_t *weight, unsigned detail, uint8_t *dst, size_t cap,
                              size_t *len) {
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst, cap);
    unsigned last = SYMBOLS - 1, level = 0;
    while (weight[last] == 0) {
        last--;
    }
    fed_put_bits(&w, last, LAST_BITS);
    for (unsigned s = 0; s <= last; s++) {
        unsigned length = bit_length(weight[s]);
        fed_put_unary(&w, length > level ? 2 * (length - level) - 1 : 2 * (level - length));
        if (length > 1) {
            unsigned kept = length - 1 < detail ? length - 1 : detail;
            fed_put_bits(&w, weight[s] >> (length - 1 - kept), kept);
        }
        level = length;
    }
    return fed_bit_writer_finish(&w, len);
}

static fed_status get_weights(const uint8_t *src, size_t len, unsigned detail, uint32_t *weight,
                              size_t *used) {
    fed_bit_reader r;
    fed_bit_reader_init(&r, src, len);
    memset(weight, 0, SYMBOLS * sizeof *weight);
    unsigned last = fed_get_bits(&r, LAST_BITS), level = 0;
    FED_REQUIRE(last < SYMBOLS, FED_EFORMAT);
    for (unsigned s = 0; s <= last; s++) {
        unsigned step = (unsigned)fed_get_unary(&r, 2 * LEVEL_MAX);
        level = step % 2 ? level + (step + 1) / 2 : level - step / 2;
        FED_REQUIRE(level <= LEVEL_MAX, FED_EFORMAT); /* a level below 0 has wrapped around */
        if (level > 0) {
            unsigned kept = level - 1 < detail ? level - 1 : detail;
            weight[s] = (UINT32_C(1) << kept | fed_get_bits(&r, kept)) << (level - 1 - kept);
        }
    }
    FED_REQUIRE(r.status == FED_OK && level > 0, FED_EFORMAT);
    *used = (size_t)((r.pos + 7) / 8);
    r.len = *used; /* the unused bits of the last byte must be ones */
    return fed_bit_reader_end(&r);
}

/* Encoding goes from the last number to the first, and writes backwards from the buffer's end. */

typedef struct stack {
    uint8_t *dst; /* the next byte is written below this */
    size_t room;  /* free bytes below dst */
    uint32_t state;
    bool full;
} stack;

static inline void push_word(stack *s) {
    if (s->room < 2) {
        s->full = true;
        return;
    }
    s->room -= 2;
    *--s->dst = (uint8_t)(s->state >> 8);
    *--s->dst = (uint8_t)s->state;
    s->state >>= WORD_BITS;
}

/* Write up to 16 bits, each with probability 1/2. */
static inline void push_bits(stack *s, uint32_t value, unsigned count) {
    if ((uint64_t)s->state << count >> 32 != 0) {
        push_word(s);
    }
    s->state = s->state << count | (value & ((UINT32_C(1) << count) - 1));
}

static inline void push_symbol(stack *s, uint32_t first, uint32_t slots) {
    if (s->state >= (uint64_t)slots << (32 - SLOT_BITS)) {
        push_word(s);
    }
    s->state = (s->state / slots << SLOT_BITS) + s->state % slots + first;
}

static inline void push_number(stack *s, uint32_t gap, const uint16_t *start) {
    unsigned symbol = symbol_of(gap), low = low_bits(symbol);
    if (low > WORD_BITS) {
        push_bits(s, gap >> WORD_BITS, low - WORD_BITS);
        low = WORD_BITS;
    }
    push_bits(s, gap, low);
    push_symbol(s, start[symbol], (uint32_t)start[symbol + 1] - start[symbol]);
}

static inline fed_status put(kind of, const uint32_t *value, size_t k, unsigned detail,
                             uint8_t *dst, size_t cap, size_t *len) {
    uint32_t weight[SYMBOLS];
    uint16_t start[SYMBOLS + 1];
    size_t head = 0;
    count_symbols(of, value, k, weight);
    weigh(detail, weight);
    share_slots(weight, start);
    FED_TRY(put_weights(weight, detail, dst, cap, &head));
    FED_REQUIRE(cap - head >= STATE_LEN, FED_ENOSPC);

    stack s = {.dst = dst + cap, .room = cap - head - STATE_LEN, .state = STATE_LOW};
    for (size_t i = k; i-- > 0 && !s.full;) {
        push_number(&s, number_at(of, value, i), start);
    }
    FED_REQUIRE(!s.full, FED_ENOSPC);
    for (unsigned shift = 32; shift > 0; shift -= 8) {
        *--s.dst = (uint8_t)(s.state >> (shift - 8));
    }
    size_t body = (size_t)(dst + cap - s.dst);
    memmove(dst + head, s.dst, body);
    *len = head + body;
    return FED_OK;
}

fed_status fedcodec_rans_put(const uint32_t *position, size_t k, unsigned detail, uint8_t *dst,
                             size_t cap, size_t *len) {
    return put(POSITIONS, position, k, detail, dst, cap, len);
}

fed_status fedcodec_rans_put_numbers(const uint32_t *number, size_t k, unsigned detail,
                                     uint8_t *dst, size_t cap, size_t *len) {
    return put(NUMBERS, number, k, detail, dst, cap, len);
}

/* Return 256 * log2(v), interpolated linearly between powers of two. */
static uint64_t log2_256(uint32_t v) {
    assert(v > 0);
    unsigned exponent = bit_length(v) - 1;
    return 256 * exponent + (((uint64_t)v << 8 >> exponent) - 256);
}

uint64_t fedcodec_rans_cost(const uint32_t *number, size_t k) {
    uint32_t count[SYMBOLS];
    uint64_t cost = 0, all = log2_256((uint32_t)k);
    count_symbols(NUMBERS, number, k, count);
    for (unsigned s = 0; s < SYMBOLS; s++) {
        cost += count[s] > 0 ? count[s] * (256 * low_bits(s) + all - log2_256(count[s])) : 0;
    }
    return cost;
}

fed_status fedcodec_rans_start(fedcodec_rans_reader *r, const uint8_t *src, size_t len, size_t n,
                               unsigned detail) {
    uint32_t weight[SYMBOLS];
    size_t head = 0;
    FED_REQUIRE(detail <= FEDCODEC_RANS_DETAIL_MAX, FED_EFORMAT);
    FED_TRY(get_weights(src, len, detail, weight, &head));
    FED_REQUIRE(len - head >= STATE_LEN, FED_EFORMAT);
    const uint8_t *state = src + head;
    r->src = src;
    r->len = len;
    r->at = head + STATE_LEN;
    r->state = (uint32_t)state[0] | (uint32_t)state[1] << 8 | (uint32_t)state[2] << 16 |
               (uint32_t)state[3] << 24;
    r->broken = r->state < STATE_LOW;
    r->n = n;
    r->next = 0;
    share_slots(weight, r->start);
    for (size_t s = 0; s < SYMBOLS; s++) {
        memset(r->symbol + r->start[s], (int)s, (size_t)r->start[s + 1] - r->start[s]);
    }
    return FED_OK;
}

static inline void refill(fedcodec_rans_reader *r) {
    if (r->state >= STATE_LOW) {
        return;
    }
    if (r->len - r->at < 2) {
        r->broken = true;
        r->state = STATE_LOW;
        return;
    }
    r->state = r->state << WORD_BITS | (uint32_t)r->src[r->at + 1] << 8 | r->src[r->at];
    r->at += 2;
}

static inline uint32_t take_bits(fedcodec_rans_reader *r, unsigned count) {
    uint32_t value = r->state & ((UINT32_C(1) << count) - 1);
    r->state >>= count;
    refill(r);
    return value;
}

static inline uint64_t take_number(fedcodec_rans_reader *r) {
    uint32_t slot = r->state % SLOTS;
    unsigned symbol = r->symbol[slot], low = low_bits(symbol);
    uint32_t first = r->start[symbol], slots = r->start[symbol + 1] - first;
    r->state = slots * (r->state >> SLOT_BITS) + slot - first;
    refill(r);
    uint64_t gap = gap_of(symbol);
    if (low > WORD_BITS) {
        gap += take_bits(r, WORD_BITS);
        return gap + ((uint64_t)take_bits(r, low - WORD_BITS) << WORD_BITS);
    }
    return gap + take_bits(r, low);
}

bool fedcodec_rans_read(fedcodec_rans_reader *r, uint32_t *position, size_t want) {
    for (size_t i = 0; i < want && !r->broken; i++) {
        uint64_t at = r->next + take_number(r);
        r->broken |= at >= r->n;
        position[i] = (uint32_t)at;
        r->next = at + 1;
    }
    return !r->broken;
}

bool fedcodec_rans_read_numbers(fedcodec_rans_reader *r, uint32_t *number, size_t want) {
    for (size_t i = 0; i < want && !r->broken; i++) {
        number[i] = (uint32_t)take_number(r);
    }
    return !r->broken;
}

fed_status fedcodec_rans_end(const fedcodec_rans_reader *r) {
    FED_REQUIRE(!r->broken && r->at == r->len && r->state == STATE_LOW, FED_EFORMAT);
    return FED_OK;
}
