/* The rare cases of the bit readers and writers: the last bytes, long runs and failures. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/bits.h"

void fed_bit_writer_init(fed_bit_writer *w, void *dst, size_t cap) {
    *w = (fed_bit_writer){.dst = dst, .cap = cap};
}

void fed_bit_flush_slow(fed_bit_writer *w) {
    while (w->pending >= 8) {
        if (w->len == w->cap) {
            w->status = FED_ENOSPC;
            w->cap = w->len;
            w->pending = 0;
            return;
        }
        w->pending -= 8;
        w->dst[w->len++] = (uint8_t)(w->acc >> w->pending);
    }
}

void fed_put_unary_slow(fed_bit_writer *w, uint64_t ones) {
    for (; ones >= 32 && w->status == FED_OK; ones -= 32) {
        fed_put_bits(w, UINT32_MAX, 32);
    }
    fed_put_bits(w, (uint32_t)((UINT64_C(2) << (ones & 31)) - 2), (unsigned)(ones & 31) + 1);
}

fed_status fed_bit_writer_finish(fed_bit_writer *w, size_t *len) {
    if (w->pending % 8 != 0) {
        fed_put_bits(w, 0xff, 8 - w->pending % 8);
    }
    fed_bit_flush_slow(w);
    FED_TRY(w->status);
    *len = w->len;
    return FED_OK;
}

void fed_bit_reader_init(fed_bit_reader *r, const void *src, size_t len) {
    *r = (fed_bit_reader){.src = src, .len = len};
}

static uint64_t bits_left(const fed_bit_reader *r) {
    return (uint64_t)r->len * 8 - r->pos;
}

static void fail(fed_bit_reader *r) {
    r->pos = (uint64_t)r->len * 8;
    r->status = FED_EFORMAT;
}

static unsigned next_bit(fed_bit_reader *r) {
    unsigned bit = (unsigned)r->src[r->pos >> 3] >> (7 - (r->pos & 7)) & 1;
    r->pos++;
    return bit;
}

uint32_t fed_get_bits_slow(fed_bit_reader *r, unsigned count) {
    if (count > bits_left(r)) {
        fail(r);
        return 0;
    }
    uint32_t value = 0;
    for (; count > 0; count--) {
        value = value << 1 | next_bit(r);
    }
    return value;
}

uint64_t fed_get_unary_slow(fed_bit_reader *r, uint64_t limit) {
    uint64_t ones = 0;
    while (ones <= limit && bits_left(r) > 0) {
        if ((r->pos & 7) == 0 && r->src[r->pos >> 3] == 0xff) {
            r->pos += 8;
            ones += 8;
        } else if (next_bit(r) == 0) {
            return ones;
        } else {
            ones++;
        }
    }
    fail(r);
    return 0;
}

fed_status fed_bit_reader_end(const fed_bit_reader *r) {
    FED_TRY(r->status);
    uint64_t left = bits_left(r);
    FED_REQUIRE(left < 8, FED_EFORMAT);
    unsigned padding = (1u << left) - 1;
    FED_REQUIRE(left == 0 || (r->src[r->len - 1] & padding) == padding, FED_EFORMAT);
    return FED_OK;
}
