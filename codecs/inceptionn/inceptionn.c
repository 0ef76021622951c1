/* inceptionn: each value in 0, 8, 16 or 32 bits, as its magnitude needs; two-bit tags say which.
 * Format: docs/codec-formats.md#inceptionn   Paper: INCEPTIONN, algorithms 2 and 3 */
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/tags.h"
#include "codecs/registry.h"

/* The bits of 1.0, of infinity, and how many of them stand before the mantissa's. */
enum { ONE = 0x3f800000, INFINITE = 0x7f800000, MANTISSA = 23, BIAS = 127 };
enum { E_MIN = 1, E_MAX = 15, BLOCK = 64 };

static const fedcodec_param inceptionn_params[] = {
    {.key = "e",
     .preset = 10.0,
     .low = E_MIN,
     .high = E_MAX,
     .help = "values under 2^-e are not sent",
     .whole = true},
    {.key = NULL},
};

/* A block of values on its way: the compressed bit vectors, in the low bits, and their tags. */
typedef struct block {
    uint32_t word[BLOCK];
    uint32_t tag[BLOCK];
} block;

/* Choices by masks: a branch would be taken at random, and keep the loop from being vectorised. */

static uint32_t when(bool holds) {
    return 0u - (uint32_t)holds;
}

static uint32_t pick(uint32_t mask, uint32_t yes, uint32_t no) {
    return (yes & mask) | (no & ~mask);
}

static size_t inceptionn_bound(const double *param, size_t n) {
    (void)param;
    return fedcodec_tags_len(n) + 4 * n;
}

/* encode */

/*
 * Algorithm 2. Its shifted mantissa is the magnitude in fixed point: bits 22 to 8 of it are
 * trunc(|f| * 2^15), bits 22 to 16 trunc(|f| * 2^7). `low` and `middle` are the least magnitudes of
 * the 8 and the 16 bit class. Only values that need it are multiplied: denormals would be slow.
 */
static void compress(const float *x, size_t n, int32_t low, int32_t middle, block *b) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = fedcodec_bits(x[i]), sign = bits >> 31;
        int32_t m = (int32_t)(bits & FEDCODEC_MAGNITUDE);
        uint32_t sent = when(m >= low), middling = when(m >= middle), large = when(m >= ONE);
        float inside = fedcodec_float((uint32_t)m & sent & ~large);
        uint32_t fixed = (uint32_t)(int32_t)(inside * 0x1p15f);
        uint32_t word = pick(middling, sign << 15 | fixed, sign << 7 | fixed >> 8);
        b->word[i] = pick(large, bits, word);
        b->tag[i] = (sent & 1) + (middling & 1) + (large & 1);
    }
    for (size_t i = n; i < BLOCK; i++) {
        b->tag[i] = 0;
    }
}

/* Four bytes are stored whatever counts of them: there is room, since no value takes more. */
static uint8_t *put_words(const block *b, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++) {
        fedcodec_store_f32(out, fedcodec_float(b->word[i]));
        out += fedcodec_tag_bytes(b->tag[i]);
    }
    return out;
}

static void put_tags(const block *b, size_t n, uint8_t *tags) {
    for (size_t i = 0; i < n; i += FEDCODEC_TAGS) {
        const uint32_t *t = &b->tag[i];
        tags[i / FEDCODEC_TAGS] = (uint8_t)(t[0] | t[1] << 2 | t[2] << 4 | t[3] << 6);
    }
}

static fed_status inceptionn_encode(const fedcodec_job *job, size_t *len) {
    FED_REQUIRE(isfinite(fedcodec_scan_sum(job->x, NULL, job->n)), FED_ENONFINITE);
    const int32_t e = (int32_t)job->param[0];
    const int32_t low = (BIAS - e) * (1 << MANTISSA), middle = (BIAS - e / 2) * (1 << MANTISSA);
    uint8_t *out = job->dst + fedcodec_tags_len(job->n);
    for (size_t start = 0; start < job->n; start += BLOCK) {
        size_t count = job->n - start < BLOCK ? job->n - start : BLOCK;
        block b;
        compress(job->x + start, count, low, middle, &b);
        put_tags(&b, count, job->dst + start / FEDCODEC_TAGS);
        out = put_words(&b, count, out);
    }
    *len = (size_t)(out - job->dst);
    return FED_OK;
}

/* decode */

/* A message being read; its tags are known to call for just its payload. */
typedef struct reader {
    const uint8_t *tags;
    const uint8_t *at, *end; /* of the payload */
} reader;

static reader start_reading(const uint8_t *src, size_t len, size_t n) {
    return (reader){src, src + fedcodec_tags_len(n), src + len};
}

/* Words are loaded four bytes at a time: `src` has that many behind the last one. What a word has
 * too much is cleared later; the tags that fill the last byte are 0. */
static size_t get_words(const uint8_t *tags, size_t n, const uint8_t *src, block *b) {
    const uint8_t *at = src;
    for (size_t i = 0; i < n; i += FEDCODEC_TAGS) {
        unsigned four = tags[i / FEDCODEC_TAGS];
        for (size_t k = 0; k < FEDCODEC_TAGS; k++) {
            unsigned tag = four >> 2 * k & 3u;
            b->tag[i + k] = tag;
            b->word[i + k] = fedcodec_bits(fedcodec_load_f32(at));
            at += fedcodec_tag_bytes(tag);
        }
    }
    return (size_t)(at - src);
}

static void next_block(reader *r, size_t n, block *b) {
    uint8_t padded[4 * BLOCK + 4] = {0};
    size_t left = (size_t)(r->end - r->at);
    const uint8_t *src = r->at;
    if (left < sizeof padded) {
        memcpy(padded, src, left);
        src = padded;
    }
    r->at += get_words(r->tags, n, src, b);
    r->tags += BLOCK / FEDCODEC_TAGS;
}

/* The word's magnitude bits, without its sign and what was loaded of its neighbours. */
static int32_t magnitude_bits(uint32_t word, uint32_t tag) {
    return (int32_t)(word & ((when(tag == 1) & 0x7f) | (when(tag == 2) & 0x7fff) |
                             (when(tag == 3) & FEDCODEC_MAGNITUDE)));
}

/* Algorithm 3: the integer over its scale, which gives (+-)0 where there is no leading one. */
static float decompressed(uint32_t word, uint32_t tag) {
    uint32_t m = (uint32_t)magnitude_bits(word, tag);
    uint32_t fixed = (m << 8 & when(tag == 1)) | (m & when(tag == 2));
    uint32_t sign = (word << 24 & when(tag == 1)) | (word << 16 & when(tag == 2));
    uint32_t scaled = fedcodec_bits((float)(int32_t)fixed * 0x1p-15f);
    return fedcodec_float(pick(when(tag == 3), word, scaled | (sign & 0x80000000u)));
}

static void decompress(const block *b, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = decompressed(b->word[i], b->tag[i]);
    }
}

/* The ranges that a message's words are in. */
typedef struct ranges {
    int32_t least8, most8, least16, least32, most32;
} ranges;

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static void extend_ranges(const block *b, size_t n, ranges *seen) {
    ranges r = *seen;
    for (size_t i = 0; i < n; i++) {
        int32_t m = magnitude_bits(b->word[i], b->tag[i]);
        uint32_t in8 = when(b->tag[i] == 1), in16 = when(b->tag[i] == 2);
        uint32_t in32 = when(b->tag[i] == 3);
        r.least8 = smaller(r.least8, (int32_t)pick(in8, (uint32_t)m, INT32_MAX));
        r.most8 = larger(r.most8, (int32_t)pick(in8, (uint32_t)m, UINT32_MAX)); /* that is -1 */
        r.least16 = smaller(r.least16, (int32_t)pick(in16, (uint32_t)m, INT32_MAX));
        r.least32 = smaller(r.least32, (int32_t)pick(in32, (uint32_t)m, INT32_MAX));
        r.most32 = larger(r.most32, (int32_t)((uint32_t)m & in32));
    }
    *seen = r;
}

/* k where 2^-k <= m / 2^bits < 2^(1-k); one more than `bits` for 0. */
static int exponent(int32_t m, int bits) {
    int k = bits + 1;
    for (; m > 0; m >>= 1) {
        k--;
    }
    return k;
}

/* Is there an e for which a sender puts all these words into these classes? */
static bool have_an_e(const ranges *r) {
    int smallest16 = r->least16 <= 0x7fff ? exponent(r->least16, 15) : 0;
    int smallest8 = r->least8 <= 0x7f ? exponent(r->least8, 7) : 0;
    int largest8 = r->most8 >= 0 ? exponent(r->most8, 7) : E_MAX;
    int low = larger(2 * smallest16, smallest8);
    int high = smaller(2 * largest8 - 1, E_MAX);
    return low <= high;
}

static fed_status inceptionn_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= fedcodec_tags_len(n), FED_EFORMAT);
    FED_REQUIRE(fedcodec_tags_padded(src, n), FED_EFORMAT);
    FED_REQUIRE(fedcodec_tags_payload(src, n) == len - fedcodec_tags_len(n), FED_EFORMAT);
    reader r = start_reading(src, len, n);
    ranges seen = {.least8 = 0x80, .most8 = -1, .least16 = 0x8000, .least32 = ONE, .most32 = 0};
    float max = 0.0f;
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t count = n - start < BLOCK ? n - start : BLOCK;
        block b;
        float values[BLOCK];
        next_block(&r, count, &b);
        extend_ranges(&b, count, &seen);
        decompress(&b, count, values);
        max = fmaxf(max, fedcodec_scan_sum(values, NULL, count));
    }
    FED_REQUIRE(seen.least32 >= ONE && seen.most32 < INFINITE && have_an_e(&seen), FED_EFORMAT);
    *max_abs = max;
    return FED_OK;
}

static void inceptionn_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    reader r = start_reading(src, len, n);
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t count = n - start < BLOCK ? n - start : BLOCK;
        block b;
        next_block(&r, count, &b);
        decompress(&b, count, y + start);
    }
}

/* The next block's values, or false if they are all 0: no bits, no values. */
static bool next_values(reader *r, size_t n, float *values) {
    static const uint8_t zeros[BLOCK / FEDCODEC_TAGS] = {0};
    if (memcmp(r->tags, zeros, fedcodec_tags_len(n)) == 0) {
        r->tags += sizeof zeros;
        return false;
    }
    block b;
    next_block(r, n, &b);
    decompress(&b, n, values);
    return true;
}

static void inceptionn_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    reader r = start_reading(src, len, n);
    float values[BLOCK];
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t count = n - start < BLOCK ? n - start : BLOCK;
        if (next_values(&r, count, values)) {
            for (size_t i = 0; i < count; i++) {
                y[start + i] += w * values[i];
            }
        }
    }
}

static void inceptionn_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc,
                            size_t n) {
    reader r = start_reading(src, len, n);
    float values[BLOCK];
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t count = n - start < BLOCK ? n - start : BLOCK;
        if (next_values(&r, count, values)) {
            for (size_t i = 0; i < count; i++) {
                acc[start + i] += weight * fedcodec_fixed(values[i]);
            }
        }
    }
}

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
};
