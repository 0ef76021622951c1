/* trunc: drop the b least significant bits of each value. Format: docs/codec-formats.md#trunc
 * Paper: INCEPTIONN, section III and figure 14 (there called "16b-T" and so on) */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/narrow.h"
#include "codecs/prim/parts.h"
#include "codecs/registry.h"
#include "codecs/trunc/shuffle_impl.h"

/* A message is b, then 32 - b bits for each value. A block of values fills whole bytes. */
enum { HEAD = 1, BITS_MAX = 31, BLOCK = 256 };

static const fedcodec_param trunc_params[] = {
    {.key = "b", .preset = 16, .low = 1, .high = BITS_MAX, .help = "bits dropped", .whole = true},
    {.key = NULL},
};

static uint64_t packed_bits(size_t n, unsigned b) {
    return (uint64_t)n * (32 - b);
}

static size_t packed_len(size_t n, unsigned b) {
    return (size_t)((packed_bits(n, b) + 7) / 8);
}

static size_t trunc_bound(const double *param, size_t n) {
    return HEAD + packed_len(n, (unsigned)param[0]);
}

static void store_u64(uint8_t *dst, uint64_t v) {
    for (int k = 0; k < 8; k++) {
        dst[k] = (uint8_t)(v >> (56 - 8 * k));
    }
}

/* Return how many values are joined to a unit. Loops that compilers vectorise join values to units
 * of at most 56 bits; then the units' bits are appended one after the other. 56 bits and 7 bits of
 * an unfinished byte fit into 64. */

static unsigned values_of_unit(unsigned width) {
    return width <= 7 ? 8 : width <= 14 ? 4 : width <= 28 ? 2 : 1;
}

static void join(const uint64_t *restrict halves, size_t n, unsigned width,
                 uint64_t *restrict joined) {
    for (size_t i = 0; i < n; i++) {
        joined[i] = halves[2 * i] << width | halves[2 * i + 1];
    }
}

static void split(const uint64_t *restrict joined, size_t n, unsigned width,
                  uint64_t *restrict halves) {
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    for (size_t i = 0; i < n; i++) {
        halves[2 * i] = joined[i] >> width;
        halves[2 * i + 1] = joined[i] & mask;
    }
}

static void put_units(const uint64_t *unit, size_t n, unsigned width, uint8_t *dst) {
    uint64_t carry = 0; /* the bits of an unfinished byte, in the top bits */
    unsigned full = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t word = carry | unit[i] << (64 - width) >> full;
        store_u64(dst, word);
        full += width;
        dst += full / 8;
        carry = word << (full & ~7u);
        full &= 7;
    }
}

static void get_units(const uint8_t *src, size_t n, unsigned width, uint64_t *unit) {
    unsigned read = 0;
    for (size_t i = 0; i < n; i++) {
        unit[i] = fedcodec_bitmap_word(src, 8, 0) << read >> (64 - width);
        read += width;
        src += read / 8;
        read &= 7;
    }
}

static void pack_bits(const float *x, unsigned b, uint8_t *dst) {
    uint64_t one[BLOCK], other[BLOCK / 2], *unit = one, *joined = other;
    unsigned width = 32 - b;
    size_t n = BLOCK;
    for (size_t i = 0; i < n; i++) {
        unit[i] = fedcodec_bits(x[i]) >> b;
    }
    for (unsigned left = values_of_unit(width); left > 1; left /= 2) {
        n /= 2;
        join(unit, n, width, joined);
        width *= 2;
        uint64_t *last = unit;
        unit = joined;
        joined = last;
    }
    put_units(unit, n, width, dst);
}

static void unpack_bits(const uint8_t *src, unsigned b, float *restrict x) {
    uint64_t one[BLOCK], other[BLOCK], *unit = one, *halves = other;
    const unsigned values = values_of_unit(32 - b);
    size_t n = BLOCK / values;
    get_units(src, n, values * (32 - b), unit);
    for (unsigned left = values; left > 1; left /= 2) {
        split(unit, n, left / 2 * (32 - b), halves);
        n *= 2;
        uint64_t *last = unit;
        unit = halves;
        halves = last;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        x[i] = fedcodec_float((uint32_t)unit[i] << b);
    }
}

typedef struct layout {
    unsigned b;
#if defined(FEDCODEC_SHUFFLE)
    shuffle moves;
#endif
} layout;

static layout layout_of(unsigned b) {
    layout l = {.b = b};
#if defined(FEDCODEC_SHUFFLE)
    l.moves = shuffle_of(32 - b);
#endif
    return l;
}

static void pack(const layout *l, const float *restrict x, uint8_t *restrict dst) {
    const unsigned b = l->b;
    if (b == 16) {
        for (size_t i = 0; i < BLOCK; i++) {
            uint32_t bits = fedcodec_bits(x[i]);
            fedcodec_store_u16(dst + 2 * i, (uint16_t)(bits >> 24 | (bits >> 8 & 0xff00)));
        }
        return;
    }
    if (b == 24) {
        for (size_t i = 0; i < BLOCK; i++) {
            dst[i] = (uint8_t)(fedcodec_bits(x[i]) >> 24);
        }
        return;
    }
#if defined(FEDCODEC_SHUFFLE)
    if (shuffles_pack(32 - b)) {
        for (size_t i = 0; i < BLOCK; i += 8, dst += 32 - b) {
            pack_eight(x + i, &l->moves, b, dst);
        }
        return;
    }
#endif
    pack_bits(x, b, dst);
}

static void unpack(const layout *l, const uint8_t *restrict src, float *restrict x) {
    const unsigned b = l->b;
#if defined(FEDCODEC_SHUFFLE)
    if (shuffles_unpack(32 - b)) {
        for (size_t i = 0; i < BLOCK; i += 8, src += 32 - b) {
            unpack_eight(src, &l->moves, b, x + i);
        }
        return;
    }
#endif
    if (b == 16) {
        for (size_t i = 0; i < BLOCK; i++) {
            x[i] = fedcodec_float((uint32_t)src[2 * i] << 24 | (uint32_t)src[2 * i + 1] << 16);
        }
    } else if (b == 24) {
        for (size_t i = 0; i < BLOCK; i++) {
            x[i] = fedcodec_float((uint32_t)src[i] << 24);
        }
    } else {
        unpack_bits(src, b, x);
    }
}

/* The bytes of a full block, and a few that may be stored and loaded after it. A shorter block is
 * handled like a full one. */
enum { BLOCK_BYTES = BLOCK * 4 + 16 };

static void encode_block(const layout *l, const float *x, size_t n, uint8_t *dst) {
    float padded[BLOCK];
    uint8_t packed[BLOCK_BYTES];
    if (n < BLOCK) {
        memcpy(padded, x, n * sizeof *x);
        memset(padded + n, 0, (BLOCK - n) * sizeof *x);
        x = padded;
    }
    pack(l, x, packed);
    memcpy(dst, packed, packed_len(n, l->b));
}

typedef struct encoding {
    const fedcodec_job *job;
    layout l;
    size_t parts;
    uint32_t max[FEDCODEC_PARTS_MAX];
} encoding;

static void encode_part(void *job, size_t part) {
    encoding *e = job;
    const size_t end = fedcodec_part_start(e->job->n, e->parts, part + 1, BLOCK);
    uint32_t max = 0;
    for (size_t i = fedcodec_part_start(e->job->n, e->parts, part, BLOCK); i < end; i += BLOCK) {
        const float *x = e->job->x + i;
        size_t count = end - i < BLOCK ? end - i : BLOCK;
        fedcodec_fetch_block(x, BLOCK);
        uint32_t m = fedcodec_bits(fedcodec_scan_sum(x, NULL, count));
        max = m > max ? m : max;
        encode_block(&e->l, x, count, e->job->dst + HEAD + i / 8 * (32 - e->l.b));
    }
    e->max[part] = max;
}

static fed_status trunc_encode(const fedcodec_job *job, size_t *len) {
    const unsigned b = (unsigned)job->param[0];
    encoding e = {.job = job, .l = layout_of(b), .parts = fedcodec_parts(job->pool, job->n)};
    job->dst[0] = (uint8_t)b;
    fedcodec_run_parts(job->pool, e.parts, encode_part, &e);
    for (size_t k = 0; k < e.parts; k++) {
        FED_REQUIRE(isfinite(fedcodec_float(e.max[k])), FED_ENONFINITE);
    }
    *len = HEAD + packed_len(job->n, b);
    return FED_OK;
}

/* Decode the block that begins with value first of n. `to` has room for a whole block. */
static void decode_block(const layout *l, const uint8_t *src, size_t first, size_t n, float *to) {
    src += HEAD + first / 8 * (32 - l->b);
    uint8_t packed[BLOCK_BYTES];
    if (n - first < 2 * BLOCK) { /* copy the last blocks, as some bytes after a block are read */
        size_t len = packed_len(n - first < BLOCK ? n - first : BLOCK, l->b);
        memcpy(packed, src, len);
        memset(packed + len, 0, sizeof packed - len);
        src = packed;
    }
    unpack(l, src, to);
}

static fed_status trunc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= HEAD && src[0] >= 1 && src[0] <= BITS_MAX, FED_EFORMAT);
    FED_REQUIRE(len - HEAD == packed_len(n, src[0]), FED_EFORMAT);
    unsigned padding = (unsigned)(8 * (len - HEAD) - packed_bits(n, src[0]));
    FED_REQUIRE((src[len - 1] & ((1u << padding) - 1)) == 0, FED_EFORMAT);
    const layout l = layout_of(src[0]);
    uint32_t max = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        float value[BLOCK];
        size_t count = n - i < BLOCK ? n - i : BLOCK;
        decode_block(&l, src, i, n, value);
        uint32_t m = fedcodec_bits(fedcodec_scan_sum(value, NULL, count));
        max = m > max ? m : max;
    }
    FED_REQUIRE(isfinite(fedcodec_float(max)), FED_EFORMAT);
    *max_abs = fedcodec_float(max);
    return FED_OK;
}

static void trunc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    const layout l = layout_of(src[0]);
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t count = n - i < BLOCK ? n - i : BLOCK;
        fedcodec_fetch_block(y + i, BLOCK);
        float value[BLOCK];
        decode_block(&l, src, i, n, count < BLOCK ? value : y + i);
        if (count < BLOCK) {
            memcpy(y + i, value, count * sizeof *y);
        }
    }
}

static void trunc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    const layout l = layout_of(src[0]);
    for (size_t i = 0; i < n; i += BLOCK) {
        float value[BLOCK];
        size_t count = n - i < BLOCK ? n - i : BLOCK;
        decode_block(&l, src, i, n, value);
        fedcodec_fetch_block(y + i, BLOCK);
        for (size_t k = 0; k < count; k++) {
            y[i + k] += w * value[k];
        }
    }
}

static void trunc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    const layout l = layout_of(src[0]);
    for (size_t i = 0; i < n; i += BLOCK) {
        float value[BLOCK];
        size_t count = n - i < BLOCK ? n - i : BLOCK;
        decode_block(&l, src, i, n, value);
        for (size_t k = 0; k < count; k++) {
            acc[i + k] += weight * fedcodec_fixed(value[k]);
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(trunc) = {
    .id = FEDCODEC_ID_trunc,
    .name = "trunc",
    .about = "each value without its b least significant bits (INCEPTIONN's baseline)",
    .params = trunc_params,
    .feedback = false,
    .bound = trunc_bound,
    .scan = fedcodec_scan_sum,
    .encode = trunc_encode,
    .check = trunc_check,
    .decode = trunc_decode,
    .axpy = trunc_axpy,
    .fold = trunc_fold,
};
