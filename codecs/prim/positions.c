/* Write positions in one of several codes, and read them in any of these codes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/positions.h"

/* The three high bits of the byte `how` name a code. PARAMETER masks its other bits. */
enum { CODE_GOLOMB, CODE_RANS, CODE_RANGE, CODE_SHIFT = 5, PARAMETER = (1 << CODE_SHIFT) - 1 };

const char *const fedcodec_pos_names[FEDCODEC_POS_COUNT + 1] = {"golomb", "rice", "rans",
                                                                "range",  "auto", NULL};

static uint64_t golomb_bits(fedcodec_chosen chosen, unsigned b) {
    uint64_t bits = (uint64_t)chosen.count * (b + 1);
    uint32_t next = 0;
    for (size_t i = 0; i < chosen.count; i++) {
        bits += (chosen.index[i] - next) >> b;
        next = chosen.index[i] + 1;
    }
    return bits;
}

/* Return the b with the fewest bits; of equal ones the smallest. The number of bits is convex in
 * b, so moving from any b to fewer bits finds the minimum. */
static unsigned best_b(fedcodec_chosen chosen, unsigned b, uint64_t *bits) {
    *bits = golomb_bits(chosen, b);
    for (unsigned up = b; up < FEDCODEC_GOLOMB_B_MAX;) {
        uint64_t more = golomb_bits(chosen, ++up);
        if (more >= *bits) {
            break;
        }
        *bits = more;
        b = up;
    }
    while (b > 0) {
        uint64_t less = golomb_bits(chosen, b - 1);
        if (less > *bits) {
            break;
        }
        *bits = less;
        b--;
    }
    return b;
}

/* Try the other codes, rANS and range, as far as pos allows them. Returns false if none needs fewer
 * than *len bytes. */
static bool put_shorter(fedcodec_pos pos, fedcodec_chosen chosen, size_t n, uint8_t *dst,
                        size_t *len, uint8_t *how) {
    const unsigned detail = fedcodec_rans_detail(chosen.count);
    const bool any = pos == FEDCODEC_POS_AUTO;
    const size_t rice = *len;
    bool rans = (any || pos == FEDCODEC_POS_RANS) &&
                fedcodec_rans_put(chosen.index, chosen.count, detail, dst, rice - 1, len) == FED_OK;
    *how = (uint8_t)(CODE_RANS << CODE_SHIFT | detail);
    if (!any && pos != FEDCODEC_POS_RANGE) {
        return rans;
    }
    size_t shortest = *len;
    if (fedcodec_range_put(chosen.index, chosen.count, n, dst, shortest - 1, len) == FED_OK) {
        *how = CODE_RANGE << CODE_SHIFT;
        return true;
    }
    return rans && fedcodec_rans_put(chosen.index, chosen.count, detail, dst, rice - 1, len) ==
                       FED_OK; /* write rANS's code again, which the last attempt overwrote */
}

fed_status fedcodec_positions_put(fedcodec_pos pos, double p, fedcodec_chosen chosen, size_t n,
                                  uint8_t *dst, size_t cap, size_t *len, uint8_t *how) {
    unsigned b = fedcodec_golomb_b(p);
    if (pos != FEDCODEC_POS_GOLOMB) {
        uint64_t bits = 0;
        b = best_b(chosen, b, &bits);
        size_t rice = (size_t)((bits + 7) / 8);
        FED_REQUIRE(rice <= cap, FED_ENOSPC);
        size_t shorter = rice;
        if (pos != FEDCODEC_POS_RICE && put_shorter(pos, chosen, n, dst, &shorter, how)) {
            *len = shorter;
            return FED_OK;
        }
    }
    *how = (uint8_t)b;
    return fedcodec_golomb_write(chosen.index, chosen.count, b, dst, cap, len);
}

fed_status fedcodec_positions_start(fedcodec_positions *r, uint8_t how, const uint8_t *src,
                                    size_t len, uint64_t count, size_t n) {
    const unsigned parameter = how & PARAMETER;
    r->left = count;
    r->code = how >> CODE_SHIFT;
    switch (r->code) {
    case CODE_GOLOMB:
        fedcodec_golomb_start(&r->as.golomb, src, len, n, parameter);
        return FED_OK;
    case CODE_RANS:
        return fedcodec_rans_start(&r->as.rans, src, len, n, parameter);
    case CODE_RANGE:
        FED_REQUIRE(parameter == 0 && count > 0, FED_EFORMAT);
        fedcodec_range_start(&r->as.range, src, len, count, n);
        return FED_OK;
    default:
        return FED_EFORMAT;
    }
}

static bool read_block(fedcodec_positions *r, size_t want) {
    switch (r->code) {
    case CODE_RANS:
        return fedcodec_rans_read(&r->as.rans, r->index, want);
    case CODE_RANGE:
        return fedcodec_range_read(&r->as.range, r->index, want);
    default:
        return fedcodec_golomb_read(&r->as.golomb, r->index, want);
    }
}

size_t fedcodec_positions_next(fedcodec_positions *r) {
    size_t want = r->left < FEDCODEC_POSITIONS_BLOCK ? (size_t)r->left : FEDCODEC_POSITIONS_BLOCK;
    if (want == 0 || !read_block(r, want)) {
        return 0;
    }
    r->left -= want;
    return want;
}

fed_status fedcodec_positions_end(const fedcodec_positions *r) {
    FED_REQUIRE(r->left == 0, FED_EFORMAT);
    switch (r->code) {
    case CODE_RANS:
        return fedcodec_rans_end(&r->as.rans);
    case CODE_RANGE:
        return fedcodec_range_end(&r->as.range);
    default:
        return fed_bit_reader_end(&r->as.golomb.bits);
    }
}
