/* Messages with a code of a few bits for each value. Neighbouring values form a bucket, which has a
 * head, such as a scale. Codes are drawn at random, so that the expected decoded value is the value
 * itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_BUCKETS_H
#define FEDCODEC_PRIM_BUCKETS_H

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/pack.h"
#include "codecs/prim/parts.h"
#include "codecs/prim/random.h"
#include "fedcodec/codec_vtable.h"

/*
 * A message is: the number of bits of a code; the binary logarithm of a bucket's size; the heads
 * of all buckets; the codes. A code is a level in two's complement, whose magnitude is below
 * 2^(bits - 1). FEDCODEC_BUCKET_LEAD: bytes before the heads. FEDCODEC_BUCKET_BLOCK: codes that
 * are handled at once. Each bucket but the last fills whole bytes.
 */
enum {
    FEDCODEC_BUCKET_LEAD = 2,
    FEDCODEC_BUCKET_BLOCK = 256,
    FEDCODEC_BUCKET_LEAST = 6, /* a bucket's size is 2^6 at least */
    FEDCODEC_BUCKET_MOST = 13
};

/** The parameters of these codecs, in this order. The bucket's size is a power of 2, which a spec
 * names by a word. The parameter is the index of that word, 512 by default. */
enum { FEDCODEC_BUCKET_BITS, FEDCODEC_BUCKET_VALUES, FEDCODEC_BUCKET_SEED };

#define FEDCODEC_BUCKET_WORDS                                                                      \
    { "64", "128", "256", "512", "1024", "2048", "4096", "8192", NULL }
#define FEDCODEC_BUCKET_PARAMS(bits_preset, bits_help, words)                                      \
    {                                                                                              \
        {.key = "bits",                                                                            \
         .preset = (bits_preset),                                                                  \
         .low = 2,                                                                                 \
         .high = 8,                                                                                \
         .help = (bits_help),                                                                      \
         .whole = true},                                                                           \
            {.key = "bucket",                                                                      \
             .preset = 3,                                                                          \
             .low = 0,                                                                             \
             .high = FEDCODEC_BUCKET_MOST - FEDCODEC_BUCKET_LEAST,                                 \
             .help = "values that share a head",                                                   \
             .names = (words)},                                                                    \
            {.key = "seed",                                                                        \
             .preset = 1,                                                                          \
             .low = 1,                                                                             \
             .high = UINT32_MAX,                                                                   \
             .help = "of the random numbers",                                                      \
             .whole = true},                                                                       \
        {                                                                                          \
            .key = NULL                                                                            \
        }                                                                                          \
    }

/** The offsets and sizes of a message's parts. */
typedef struct fedcodec_buckets {
    unsigned bits, shift; /* bits of a code; a bucket's size is 2^shift */
    size_t n, head;       /* number of values; bytes of a head */
    size_t heads, codes;  /* offsets of the heads and of the codes */
    size_t len;
    const uint8_t *message;
} fedcodec_buckets;

static inline size_t fedcodec_bucket_count(size_t n, unsigned shift) {
    return (n >> shift) + ((n & (((size_t)1 << shift) - 1)) != 0);
}

static inline fedcodec_buckets fedcodec_buckets_of(unsigned bits, unsigned shift, size_t n,
                                                   size_t head) {
    fedcodec_buckets b = {.bits = bits, .shift = shift, .n = n, .head = head};
    b.heads = FEDCODEC_BUCKET_LEAD;
    b.codes = b.heads + head * fedcodec_bucket_count(n, shift);
    b.len = b.codes + fedcodec_packed_len(n, bits);
    return b;
}

static inline fedcodec_buckets fedcodec_buckets_for(const double *param, size_t n, size_t head) {
    const unsigned shift = (unsigned)param[FEDCODEC_BUCKET_VALUES] + FEDCODEC_BUCKET_LEAST;
    return fedcodec_buckets_of((unsigned)param[FEDCODEC_BUCKET_BITS], shift, n, head);
}

/** Find the parts of src[len], and check its length and padding. */
static inline fed_status fedcodec_buckets_open(const uint8_t *src, size_t len, size_t n,
                                               size_t head, fedcodec_buckets *b) {
    FED_REQUIRE(len >= FEDCODEC_BUCKET_LEAD && src[0] >= 2 && src[0] <= 8, FED_EFORMAT);
    FED_REQUIRE(src[1] >= FEDCODEC_BUCKET_LEAST && src[1] <= FEDCODEC_BUCKET_MOST, FED_EFORMAT);
    *b = fedcodec_buckets_of(src[0], src[1], n, head);
    b->message = src;
    const unsigned used = (unsigned)((uint64_t)n * b->bits % 8);
    FED_REQUIRE(len == b->len && (used == 0 || (src[len - 1] & 0xff >> used) == 0), FED_EFORMAT);
    return FED_OK;
}

/** Find the parts of a message that was already checked. */
static inline fedcodec_buckets fedcodec_buckets_reopen(const uint8_t *src, size_t n, size_t head) {
    fedcodec_buckets b = fedcodec_buckets_of(src[0], src[1], n, head);
    b.message = src;
    return b;
}

/** Some levels of one bucket, and the bucket's head. */
typedef struct fedcodec_bucket_levels {
    size_t count;
    const uint8_t *head;
    unsigned bits;
    int8_t level[FEDCODEC_BUCKET_BLOCK + FEDCODEC_PACK_MORE];
} fedcodec_bucket_levels;

/** Load the levels from value start on: up to FEDCODEC_BUCKET_BLOCK, or to the end of the bucket.
 * start is 0, or where the last call's levels ended. */
static inline void fedcodec_bucket_load(const fedcodec_buckets *b, size_t start,
                                        fedcodec_bucket_levels *to) {
    uint8_t packed[FEDCODEC_BUCKET_BLOCK + FEDCODEC_PACK_MORE] = {0};
    uint8_t code[FEDCODEC_BUCKET_BLOCK + FEDCODEC_PACK_MORE];
    const size_t bucket = (size_t)1 << b->shift, left = b->n - start;
    const int sign = 1 << (b->bits - 1);
    size_t count = bucket < FEDCODEC_BUCKET_BLOCK ? bucket : FEDCODEC_BUCKET_BLOCK;
    count = count < left ? count : left;
    memcpy(packed, b->message + b->codes + start / 8 * b->bits,
           fedcodec_packed_len(count, b->bits));
    fedcodec_unpack(packed, count, b->bits, code);
    for (size_t i = 0; i < count; i++) {
        to->level[i] = (int8_t)((code[i] ^ sign) - sign);
    }
    to->count = count;
    to->bits = b->bits;
    to->head = b->message + b->heads + b->head * (start >> b->shift);
}

/** Return the largest magnitude of the levels; 2^(bits - 1) if a code occurs that no encoder
 * writes. */
static inline int fedcodec_bucket_largest(const fedcodec_bucket_levels *k) {
    int8_t most = 0, least = 0;
    for (size_t i = 0; i < k->count; i++) {
        most = k->level[i] > most ? k->level[i] : most;
        least = k->level[i] < least ? k->level[i] : least;
    }
    return most > -least ? most : -least;
}

/** Could an encoder write this head for a bucket with this largest level? If so, *max becomes the
 * largest magnitude of the bucket's values. */
typedef bool (*fedcodec_bucket_valid_fn)(const uint8_t *head, unsigned bits, int largest,
                                         float *max);

static inline fed_status fedcodec_buckets_check(const uint8_t *src, size_t len, size_t n,
                                                size_t head, fedcodec_bucket_valid_fn valid,
                                                float *max_abs) {
    fedcodec_buckets b;
    fedcodec_bucket_levels k;
    FED_TRY(fedcodec_buckets_open(src, len, n, head, &b));
    float most = 0.0f, max = 0.0f;
    int largest = 0;
    for (size_t start = 0; start < n; start += k.count) {
        fedcodec_bucket_load(&b, start, &k);
        const int found = fedcodec_bucket_largest(&k);
        const size_t end = start + k.count;
        largest = found > largest ? found : largest;
        if (end == n || end % ((size_t)1 << b.shift) == 0) {
            FED_REQUIRE(valid(k.head, b.bits, largest, &max), FED_EFORMAT);
            most = max > most ? max : most;
            largest = 0;
        }
    }
    *max_abs = most;
    return FED_OK;
}

typedef void (*fedcodec_bucket_values_fn)(const fedcodec_bucket_levels *k, float *value);

/** Decode the values from value start on. Returns the number of values. */
static inline size_t fedcodec_bucket_values(const fedcodec_buckets *b, size_t start,
                                            fedcodec_bucket_values_fn values, float *value) {
    fedcodec_bucket_levels k;
    fedcodec_bucket_load(b, start, &k);
    values(&k, value);
    return k.count;
}

static inline void fedcodec_buckets_decode(const uint8_t *src, size_t n, size_t head,
                                           fedcodec_bucket_values_fn values, float *y) {
    const fedcodec_buckets b = fedcodec_buckets_reopen(src, n, head);
    for (size_t start = 0; start < n;) {
        fedcodec_fetch_block(y + start, FEDCODEC_BUCKET_BLOCK);
        start += fedcodec_bucket_values(&b, start, values, y + start);
    }
}

static inline void fedcodec_buckets_axpy(const uint8_t *src, size_t n, size_t head,
                                         fedcodec_bucket_values_fn values, float w, float *y) {
    const fedcodec_buckets b = fedcodec_buckets_reopen(src, n, head);
    float value[FEDCODEC_BUCKET_BLOCK];
    for (size_t start = 0, count; start < n; start += count) {
        count = fedcodec_bucket_values(&b, start, values, value);
        for (size_t i = 0; i < count; i++) {
            y[start + i] += w * value[i];
        }
    }
}

static inline void fedcodec_buckets_fold(const uint8_t *src, size_t n, size_t head,
                                         fedcodec_bucket_values_fn values, int64_t weight,
                                         int64_t *acc) {
    const fedcodec_buckets b = fedcodec_buckets_reopen(src, n, head);
    float value[FEDCODEC_BUCKET_BLOCK];
    for (size_t start = 0, count; start < n; start += count) {
        count = fedcodec_bucket_values(&b, start, values, value);
        for (size_t i = 0; i < count; i++) {
            acc[start + i] += weight * fedcodec_fixed(value[i]);
        }
    }
}

/* ---- Writing ---- */

/** A bucket to write: its values, all of them finite, and where its bytes go. */
typedef struct fedcodec_bucket {
    const float *x;
    size_t n, first; /* number of values; index of the first */
    float largest;
    unsigned bits;
    const fed_rng *rng;
    uint8_t *head, *codes;
} fedcodec_bucket;

/** Choose the levels of n values. The random number of a value is fedcodec_bucket_lot(word, half).
 * level[] overlaps none of the other arrays. */
typedef void (*fedcodec_level_fn)(const float *x, const uint32_t *word, size_t n, unsigned half,
                                  const void *with, uint8_t *level);

/** Return a random number below 2^16: the lower half (0) or the upper half (1) of a random word. */
static inline int32_t fedcodec_bucket_lot(uint32_t word, unsigned half) {
    return (int32_t)(word >> 16 * half & 0xffff);
}

/** Write a bucket's codes. Of each 256 values of the tensor, the first 128 use the lower halves of
 * 128 random words, and the others use the upper halves. */
static inline void fedcodec_bucket_fill(const fedcodec_bucket *b, fedcodec_level_fn make,
                                        const void *with) {
    enum { BLOCK = FEDCODEC_BUCKET_BLOCK, WORDS = BLOCK / 2 };
    uint32_t room[WORDS + FEDCODEC_RANDOM_MORE];
    uint8_t code[BLOCK + FEDCODEC_PACK_MORE], packed[BLOCK + FEDCODEC_PACK_MORE];
    const uint8_t mask = (uint8_t)((1 << b->bits) - 1);
    for (size_t i = 0; i < b->n; i += BLOCK) {
        const float *x = b->x + i;
        const size_t at = b->first + i, count = b->n - i < BLOCK ? b->n - i : BLOCK;
        const size_t lower = count < WORDS ? count : WORDS;
        const uint32_t *word =
            fedcodec_random_draw(b->rng, at / BLOCK * WORDS + at % WORDS, lower, room);
        make(x, word, lower, at / WORDS % 2, with, code);
        make(x + lower, word, count - lower, 1, with, code + lower);
        for (size_t j = 0; j < count; j++) {
            code[j] &= mask;
        }
        fedcodec_pack(code, count, b->bits, packed);
        memcpy(b->codes + i / 8 * b->bits, packed, fedcodec_packed_len(count, b->bits));
    }
}

static inline void fedcodec_bucket_clear(const fedcodec_bucket *b) {
    memset(b->codes, 0, fedcodec_packed_len(b->n, b->bits));
}

typedef void (*fedcodec_bucket_fn)(const fedcodec_bucket *b);

typedef struct fedcodec_bucket_writer {
    fedcodec_buckets to;
    const float *x;
    uint8_t *dst;
    fed_rng rng;
    fedcodec_bucket_fn write;
    size_t parts;
    bool wrong[FEDCODEC_PARTS_MAX]; /* [k]: part k of the tensor has a NaN or an infinity */
} fedcodec_bucket_writer;

static inline void fedcodec_bucket_part(void *writer, size_t k) {
    fedcodec_bucket_writer *w = writer;
    const fedcodec_buckets *to = &w->to;
    const size_t bucket = (size_t)1 << to->shift;
    const size_t end = fedcodec_part_start(to->n, w->parts, k + 1, bucket);
    for (size_t i = fedcodec_part_start(to->n, w->parts, k, bucket); i < end; i += bucket) {
        fedcodec_bucket b = {.x = w->x + i, .n = end - i < bucket ? end - i : bucket, .first = i};
        const int32_t largest = fedcodec_largest(b.x, b.n);
        w->wrong[k] |= largest >= FEDCODEC_INFINITY;
        if (w->wrong[k]) {
            return;
        }
        b.largest = fedcodec_float((uint32_t)largest);
        b.bits = to->bits;
        b.rng = &w->rng;
        b.head = w->dst + to->heads + to->head * (i >> to->shift);
        b.codes = w->dst + to->codes + i / 8 * to->bits;
        w->write(&b);
    }
}

/** Encode the values of a job, for a codec without feedback. head: bytes of a bucket's head. */
static inline fed_status fedcodec_buckets_encode(const fedcodec_job *job, size_t head,
                                                 fedcodec_bucket_fn write, size_t *len) {
    fedcodec_bucket_writer w = {.to = fedcodec_buckets_for(job->param, job->n, head),
                                .x = job->x,
                                .dst = job->dst,
                                .write = write,
                                .parts = fedcodec_parts(job->pool, job->n)};
    fedcodec_random_start(&w.rng, job->param[FEDCODEC_BUCKET_SEED], job->x, job->n);
    fedcodec_run_parts(job->pool, w.parts, fedcodec_bucket_part, &w);
    for (size_t k = 0; k < w.parts; k++) {
        FED_REQUIRE(!w.wrong[k], FED_ENONFINITE);
    }
    job->dst[0] = (uint8_t)w.to.bits;
    job->dst[1] = (uint8_t)w.to.shift;
    *len = w.to.len;
    return FED_OK;
}

/** Define all functions of a vtable, from a codec's functions for a bucket.
 * FEDCODEC_BUCKET_MEMBERS puts them into the vtable. */
// clang-format off
#define FEDCODEC_BUCKET_FUNCTIONS(head, write, valid, values)                                      \
    static size_t bucket_bound(const double *param, size_t n) {                                    \
        return fedcodec_buckets_for(param, n, head).len;                                           \
    }                                                                                              \
    static fed_status bucket_encode(const fedcodec_job *job, size_t *len) {                        \
        return fedcodec_buckets_encode(job, head, write, len);                                     \
    }                                                                                              \
    static fed_status bucket_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {     \
        return fedcodec_buckets_check(src, len, n, head, valid, max_abs);                          \
    }                                                                                              \
    static void bucket_decode(const uint8_t *src, size_t len, float *y, size_t n) {                \
        (void)len;                                                                                 \
        fedcodec_buckets_decode(src, n, head, values, y);                                          \
    }                                                                                              \
    static void bucket_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {         \
        (void)len;                                                                                 \
        fedcodec_buckets_axpy(src, n, head, values, w, y);                                         \
    }                                                                                              \
    static void bucket_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc,          \
                            size_t n) {                                                            \
        (void)len;                                                                                 \
        fedcodec_buckets_fold(src, n, head, values, weight, acc);                                  \
    }

#define FEDCODEC_BUCKET_MEMBERS                                                                    \
    .feedback = false, .bound = bucket_bound, .scan = fedcodec_scan_sum, .encode = bucket_encode,  \
    .check = bucket_check, .decode = bucket_decode, .axpy = bucket_axpy, .fold = bucket_fold
// clang-format on

#endif
