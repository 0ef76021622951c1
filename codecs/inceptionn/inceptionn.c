/* inceptionn: each value in 0, 8, 16 or 32 bits, as its magnitude needs; two-bit tags say which.
 * Format: docs/codec-formats.md#inceptionn   Paper: INCEPTIONN, algorithms 2 and 3 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "codecs/inceptionn/block.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/parts.h"
#include "codecs/registry.h"

/* INFINITE: the bits of infinity. MANTISSA: mantissa bits. BIAS: the exponent's bias. */
enum { INFINITE = 0x7f800000, MANTISSA = 23, BIAS = 127 };
enum { E_MIN = 1, E_MAX = 15 };

static const fedcodec_param inceptionn_params[] = {
    {.key = "e",
     .preset = 10.0,
     .low = E_MIN,
     .high = E_MAX,
     .help = "values under 2^-e are not sent",
     .whole = true},
    {.key = NULL},
};

static size_t inceptionn_bound(const double *param, size_t n) {
    (void)param;
    return fedcodec_tags_len(n) + 4 * n;
}

/* Encode the last block of n values, filled up with zeros, which take no bytes. */
static uint8_t *encode_rest(const float *x, size_t n, classes c, uint8_t *tags, uint8_t *out,
                            largest *max) {
    float padded[BLOCK] = {0};
    uint8_t padded_tags[BLOCK_TAGS], payload[4 * BLOCK];
    memcpy(padded, x, n * sizeof *x);
    size_t len = (size_t)(encode_block(padded, c, padded_tags, payload, max) - payload);
    memcpy(tags, padded_tags, fedcodec_tags_len(n));
    memcpy(out, payload, len);
    return out + len;
}

/* An encode in parts, which may run in parallel. A part first writes its payload as if all values
 * before it took 4 bytes each. Then the payloads are moved together. */
typedef struct encoding {
    const fedcodec_job *job;
    classes c;
    size_t parts;
    size_t len[FEDCODEC_PARTS_MAX];
    int32_t max[FEDCODEC_PARTS_MAX];
} encoding;

static uint8_t *room_of(const encoding *e, size_t part) {
    size_t start = fedcodec_part_start(e->job->n, e->parts, part, BLOCK);
    return e->job->dst + fedcodec_tags_len(e->job->n) + 4 * start;
}

static void encode_part(void *job, size_t k) {
    encoding *e = job;
    const size_t n = e->job->n, end = fedcodec_part_start(n, e->parts, k + 1, BLOCK);
    const float *x = e->job->x;
    uint8_t *tags = e->job->dst, *out = room_of(e, k);
    largest max = {0};
    size_t i = fedcodec_part_start(n, e->parts, k, BLOCK);
    for (; end - i >= BLOCK; i += BLOCK) {
        fedcodec_fetch_far(x + i, BLOCK, n);
        out = encode_block(x + i, e->c, tags + i / FEDCODEC_TAGS, out, &max);
    }
    if (i < end) {
        out = encode_rest(x + i, end - i, e->c, tags + i / FEDCODEC_TAGS, out, &max);
    }
    e->len[k] = (size_t)(out - room_of(e, k));
    e->max[k] = largest_of(max);
}

static classes classes_of(int e) {
    return (classes){(BIAS - e) * (1 << MANTISSA), (BIAS - e / 2) * (1 << MANTISSA)};
}

static fed_status inceptionn_encode(const fedcodec_job *job, size_t *len) {
    encoding parts = {.job = job,
                      .c = classes_of((int)job->param[0]),
                      .parts = fedcodec_parts(job->pool, job->n)};
    fedcodec_run_parts(job->pool, parts.parts, encode_part, &parts);
    uint8_t *out = room_of(&parts, 0);
    for (size_t k = 0; k < parts.parts; k++) {
        FED_REQUIRE(parts.max[k] < INFINITE, FED_ENONFINITE);
        if (k > 0) {
            memmove(out, room_of(&parts, k), parts.len[k]);
        }
        out += parts.len[k];
    }
    *len = (size_t)(out - job->dst);
    return FED_OK;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

/* Return k with 2^-k <= m / 2^15 < 2^(1-k); 16 for m = 0. */
static int exponent(int m) {
    int k = 16;
    for (; m > 0; m >>= 1) {
        k--;
    }
    return k;
}

/* Is there a parameter e that puts all values into the classes that their tags say? */
static bool have_an_e(const ranges *r) {
    bool none16 = r->most16 == 0 && r->least16 != 0;
    int least8 = smaller(exponent(r->least8), 8); /* 8 bits keep a magnitude of 7 bits */
    int low = larger(none16 ? 0 : 2 * exponent(r->least16), least8);
    int high = smaller(2 * exponent(r->most8) - 1, E_MAX);
    return low <= high;
}

/* Return the tags of the next block of n values. padded: memory for the tags of a shorter block. */
static const uint8_t *next_tags(fedcodec_tags_reader *r, size_t n, uint8_t *padded) {
    const uint8_t *tags = r->tags;
    r->tags += BLOCK_TAGS;
    fedcodec_tags_ahead(r);
    if (n >= BLOCK) {
        return tags;
    }
    memset(padded, 0, BLOCK_TAGS);
    memcpy(padded, tags, fedcodec_tags_len(n));
    return padded;
}

/* Are FEDCODEC_TAGS_AHEAD bytes readable from at on, more than a block takes? Most blocks are read
 * while they are, with the two places in local variables, which the compiler keeps in registers. */
static inline bool is_far(const fedcodec_tags_reader *r, const uint8_t *at) {
    return (size_t)(r->end - at) >= FEDCODEC_TAGS_AHEAD;
}

/* Check the blocks that are far from the end. Returns how many values they have. */
static size_t check_far(fedcodec_tags_reader *r, size_t n, seen *all) {
    const uint8_t *tags = r->tags, *at = r->at;
    seen s = *all;
    size_t i = 0;
    for (; n - i >= BLOCK && is_far(r, at); i += BLOCK, tags += BLOCK_TAGS) {
        at = check_block(tags, at, &s);
    }
    *all = s;
    r->tags = tags;
    r->at = at;
    return i;
}

static fed_status inceptionn_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= fedcodec_tags_len(n), FED_EFORMAT);
    FED_REQUIRE(fedcodec_tags_padded(src, n), FED_EFORMAT);
    fedcodec_tags_reader r;
    fedcodec_tags_start(&r, src, len, n);
    seen s = nothing_seen();
    for (size_t i = check_far(&r, n, &s); i < n; i += BLOCK) {
        uint8_t padded[BLOCK_TAGS];
        const uint8_t *tags = next_tags(&r, n - i, padded);
        r.at = check_block(tags, r.at, &s);
        FED_REQUIRE(r.at <= r.end, FED_EFORMAT);
    }
    FED_REQUIRE(r.at == r.end, FED_EFORMAT);
    ranges all = ranges_seen(&s);
    FED_REQUIRE(all.least32 >= ONE && all.most32 < INFINITE && have_an_e(&all), FED_EFORMAT);
    float small = (float)larger(all.most8, all.most16) * 0x1p-15f;
    *max_abs = all.most32 > 0 ? fedcodec_float((uint32_t)all.most32) : small;
    return FED_OK;
}

static size_t decode_far(fedcodec_tags_reader *r, float *y, size_t n) {
    const uint8_t *tags = r->tags, *at = r->at;
    size_t i = 0;
    for (; n - i >= BLOCK && is_far(r, at); i += BLOCK, tags += BLOCK_TAGS) {
        fedcodec_fetch_far(y + i, BLOCK, n);
        at = decode_block(tags, at, y + i);
    }
    r->tags = tags;
    r->at = at;
    return i;
}

static void inceptionn_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    fedcodec_tags_reader r;
    fedcodec_tags_start(&r, src, len, n);
    for (size_t i = decode_far(&r, y, n); i < n; i += BLOCK) {
        uint8_t padded[BLOCK_TAGS];
        float values[BLOCK];
        const uint8_t *tags = next_tags(&r, n - i, padded);
        r.at = decode_block(tags, r.at, values);
        memcpy(y + i, values, (n - i < BLOCK ? n - i : BLOCK) * sizeof *y);
    }
}

/* Zeros leave y as it is, even -0. */
static void add_values(float w, const float *restrict values, float *restrict y, size_t n) {
    for (size_t k = 0; k < n; k++) {
        uint32_t some = when((fedcodec_bits(values[k]) & FEDCODEC_MAGNITUDE) != 0);
        float sum = y[k] + w * values[k];
        y[k] = fedcodec_float(pick(some, fedcodec_bits(sum), fedcodec_bits(y[k])));
    }
}

/* Add the blocks that are far from the end. Blocks of zeros are passed over. */
static size_t add_far(fedcodec_tags_reader *r, float w, float *y, size_t n) {
    const uint8_t *tags = r->tags, *at = r->at;
    size_t i = 0, len;
    for (; n - i >= BLOCK && is_far(r, at); i += BLOCK, tags += BLOCK_TAGS) {
        if (is_short(tags, &len) && only_zeros(at, len)) {
            at += len;
        } else {
            float values[BLOCK];
            fedcodec_fetch_far(y + i, BLOCK, n);
            at = decode_block(tags, at, values);
            add_values(w, values, y + i, BLOCK);
        }
    }
    r->tags = tags;
    r->at = at;
    return i;
}

static void inceptionn_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    fedcodec_tags_reader r;
    fedcodec_tags_start(&r, src, len, n);
    for (size_t i = add_far(&r, w, y, n); i < n; i += BLOCK) {
        uint8_t padded[BLOCK_TAGS];
        float values[BLOCK];
        const uint8_t *tags = next_tags(&r, n - i, padded);
        r.at = decode_block(tags, r.at, values);
        add_values(w, values, y + i, n - i < BLOCK ? n - i : BLOCK);
    }
}

static void fold_values(int64_t weight, const float *values, int64_t *acc, size_t n) {
    for (size_t k = 0; k < n; k++) {
        acc[k] += weight * fedcodec_fixed(values[k]);
    }
}

static size_t fold_far(fedcodec_tags_reader *r, int64_t weight, int64_t *acc, size_t n) {
    const uint8_t *tags = r->tags, *at = r->at;
    size_t i = 0, len;
    for (; n - i >= BLOCK && is_far(r, at); i += BLOCK, tags += BLOCK_TAGS) {
        if (is_short(tags, &len) && only_zeros(at, len)) {
            at += len;
        } else {
            float values[BLOCK];
            at = decode_block(tags, at, values);
            fold_values(weight, values, acc + i, BLOCK);
        }
    }
    r->tags = tags;
    r->at = at;
    return i;
}

static void inceptionn_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc,
                            size_t n) {
    fedcodec_tags_reader r;
    fedcodec_tags_start(&r, src, len, n);
    for (size_t i = fold_far(&r, weight, acc, n); i < n; i += BLOCK) {
        uint8_t padded[BLOCK_TAGS];
        float values[BLOCK];
        const uint8_t *tags = next_tags(&r, n - i, padded);
        r.at = decode_block(tags, r.at, values);
        fold_values(weight, values, acc + i, n - i < BLOCK ? n - i : BLOCK);
    }
}

/* Encode at most one block. Stop at the last value, or before a burst that dst has no room for.
 * Returns how many values are encoded. *at: the number of bytes in dst so far. */
static size_t encode_until_full(classes c, const uint8_t *x, size_t n, uint8_t *dst, size_t cap,
                                size_t *at) {
    uint8_t padded[4 * BLOCK] = {0}, bursts[BURSTS_MOST] = {0};
    const size_t values = n < BLOCK ? n : BLOCK;
    memcpy(padded, x, 4 * values);
    encode_bursts(padded, fedcodec_bursts(values), c, bursts);
    size_t i = 0, len = 0;
    while (i < values && len + fedcodec_burst_len(bursts + len) <= cap - *at) {
        len += fedcodec_burst_len(bursts + len);
        i += BURST;
    }
    memcpy(dst + *at, bursts, len);
    *at += len;
    return i < values ? i : values;
}

static size_t bursts_encode(int e, const void *x, size_t n, uint8_t *dst, size_t cap, size_t *len) {
    const classes c = classes_of(e);
    const uint8_t *value = x;
    size_t i = 0, at = 0;
    for (; n - i >= BLOCK && cap - at >= BURSTS_MOST; i += BLOCK) {
        at = (size_t)(encode_bursts(value + 4 * i, BURSTS, c, dst + at) - dst);
    }
    size_t more = BLOCK;
    for (; i < n && more == BLOCK; i += more) {
        more = encode_until_full(c, value + 4 * i, n - i, dst, cap, &at);
    }
    *len = at;
    return i;
}

static fed_status bursts_decode(const uint8_t *src, size_t len, void *x, size_t n) {
    FED_REQUIRE(len / BURST_TAGS >= fedcodec_bursts(n), FED_EFORMAT);
    uint8_t *value = x;
    fedcodec_tags_reader r;
    fedcodec_tags_start(&r, src, len, 0); /* n is 0, as the tags are in the bursts */
    while (n >= BURST) {
        const size_t count = n < BLOCK ? n / BURST : BURSTS;
        fedcodec_tags_ahead(&r);
        r.at = decode_bursts(r.at, count, value);
        FED_REQUIRE(r.at <= r.end, FED_EFORMAT);
        value += 4 * BURST * count;
        n -= BURST * count;
    }
    if (n > 0) {
        uint8_t padded[4 * BURST];
        fedcodec_tags_ahead(&r);
        FED_REQUIRE((r.at[0] | r.at[1] << 8) >> 2 * n == 0, FED_EFORMAT);
        r.at = decode_bursts(r.at, 1, padded);
        memcpy(value, padded, 4 * n);
    }
    FED_REQUIRE(r.at == r.end, FED_EFORMAT);
    return FED_OK;
}

/* Return what a value becomes by encoding and decoding: its class keeps only some of its bits. */
static inline uint32_t rounded(uint32_t bits, classes c) {
    int32_t m = (int32_t)(bits & FEDCODEC_MAGNITUDE);
    uint32_t sent = when(m >= c.low), middling = when(m >= c.middle), large = when(m >= ONE);
    float inside = fedcodec_float((uint32_t)m & sent & ~large);
    uint32_t kept = (uint32_t)(int32_t)(inside * 0x1p31f) & (0xff000000 | (middling & 0xff0000));
    return pick(large, bits, fedcodec_bits(signed_value((int32_t)kept, bits)));
}

static void bursts_round(int e, const float *x, float *y, size_t n) {
    const classes c = classes_of(e);
    for (size_t i = 0; i < n; i++) {
        y[i] = fedcodec_float(rounded(fedcodec_bits(x[i]), c));
    }
}

static const fedcodec_burst_coder bursts = {bursts_encode, bursts_decode, bursts_round};

const fedcodec_vtable FEDCODEC_VTABLE(inceptionn) = {
    .id = FEDCODEC_ID_inceptionn,
    .name = "inceptionn",
    .about = "each value in 0, 8, 16 or 32 bits, by its magnitude (INCEPTIONN)",
    .params = inceptionn_params,
    .feedback = false,
    .bound = inceptionn_bound,
    .scan = fedcodec_scan_sum,
    .encode = inceptionn_encode,
    .check = inceptionn_check,
    .decode = inceptionn_decode,
    .axpy = inceptionn_axpy,
    .fold = inceptionn_fold,
    .bursts = &bursts,
};
