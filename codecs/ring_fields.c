/* ring: whole numbers that add up modulo 2^w, at the same positions on all devices of a round.
 * Format: docs/codec-formats.md#ring   Papers: Bonawitz et al. 2017 (sums modulo 2^w), Suresh et
 * al. 2017, section 4 (the rotation), Kairouz et al. 2021 (rounding until the norm is bounded) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedcodec/ring.h"

#include <math.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed/rng.h"

enum { BLOCK = 1024, AT_ONCE = 64 /* random numbers */, POSITIONS = 0, SIGNS = 1, TRIES = 100 };

/* -- What the draw decides -- */

/* Number `index` of a stream of the draw, which has 2^34 numbers. */
static uint32_t number_at(const fedcodec_ring *ring, uint32_t stream, uint64_t index) {
    fed_reader r;
    fed_rng rng;
    uint32_t four[4];
    fed_reader_init(&r, ring->draw, sizeof ring->draw);
    fed_rng_init(&rng, fed_read_u64(&r), stream, 0);
    rng.counter[0] = (uint32_t)(index / 4);
    fed_rng_fill(&rng, four, 4);
    return four[index % 4];
}

/* The position of value i of those that are sent: one in each of k equal stretches. */
static size_t position(const fedcodec_ring *ring, size_t i) {
    const uint64_t n = ring->shape.n, k = ring->shape.sent;
    if (k == n) {
        return i;
    }
    const uint64_t begin = i * n / k, end = (i + 1) * n / k;
    return (size_t)(begin + ((end - begin) * number_at(ring, POSITIONS, i) >> 32));
}

/* Set minus[shape.block] for a block: is the sign of its value s changed? */
static void find_signs(const fedcodec_ring *ring, size_t block, bool *minus) {
    const size_t size = ring->shape.block;
    for (size_t s = 0; s < size; s += 32) {
        const uint32_t bits = number_at(ring, SIGNS, (block * size + s) / 32);
        for (size_t i = 0; i < 32; i++) {
            minus[s + i] = (bits >> i & 1) != 0;
        }
    }
}

static size_t blocks(const fedcodec_ring *ring) {
    return ring->shape.fields / ring->shape.block;
}

/* -- The rotation: the Hadamard matrix without its scale -- */

static void rotate(float *restrict v, size_t n) {
    for (size_t step = n / 2; step > 0; step /= 2) {
        for (size_t start = 0; start < n; start += 2 * step) {
            for (size_t i = start; i < start + step; i++) {
                const float a = v[i], b = v[i + step];
                v[i] = a + b;
                v[i + step] = a - b;
            }
        }
    }
}

static void rotate_sums(int64_t *restrict v, size_t n) {
    for (size_t step = n / 2; step > 0; step /= 2) {
        for (size_t start = 0; start < n; start += 2 * step) {
            for (size_t i = start; i < start + step; i++) {
                const int64_t a = v[i], b = v[i + step];
                v[i] = a + b;
                v[i + step] = a - b;
            }
        }
    }
}

/* sqrt(B): B is a power of 4. */
static double root(uint32_t block) {
    return block == 1024 ? 32 : block == 256 ? 16 : 8;
}

/* -- Fields, least significant bit first -- */

typedef struct packer {
    uint8_t *dst;
    uint64_t bits;
    unsigned held;
} packer;

static void put(packer *p, uint32_t value, unsigned width) {
    p->bits |= ((uint64_t)value & ((UINT64_C(1) << width) - 1)) << p->held;
    for (p->held += width; p->held >= 8; p->held -= 8) {
        *p->dst++ = (uint8_t)p->bits;
        p->bits >>= 8;
    }
}

typedef struct unpacker {
    const uint8_t *src;
    uint64_t bits;
    unsigned held;
} unpacker;

static uint32_t take(unpacker *u, unsigned width) {
    for (; u->held < width; u->held += 8) {
        u->bits |= (uint64_t)*u->src++ << u->held;
    }
    const uint32_t value = (uint32_t)(u->bits & ((UINT64_C(1) << width) - 1));
    u->bits >>= width;
    u->held -= width;
    return value;
}

/* A field as a signed number. */
static int32_t as_signed(uint32_t field, unsigned width) {
    const uint32_t half = UINT32_C(1) << (width - 1);
    const uint32_t low = width < 32 ? field & ((UINT32_C(1) << width) - 1) : field;
    return (int32_t)((int64_t)(low ^ half) - (int64_t)half);
}

/* -- Encode -- */

typedef struct encoding {
    const fedcodec_ring *ring;
    const float *x;
    double scale; /* from a value to the rotation's input, which ends in levels */
    fedcodec_ring_random random;
    void *user;
} encoding;

static fed_status find_norm(const fedcodec_ring *ring, const float *x, double *norm) {
    double squares = 0;
    for (size_t i = 0; i < ring->shape.sent; i++) {
        const double value = (double)x[position(ring, i)];
        squares += value * value;
    }
    FED_REQUIRE(isfinite(squares), FED_ENONFINITE);
    *norm = sqrt(squares);
    return FED_OK;
}

/* Gather a block's values, and rotate them. */
static void find_levels(const encoding *e, size_t block, float *v) {
    const fedcodec_ring *ring = e->ring;
    bool minus[BLOCK];
    find_signs(ring, block, minus);
    for (size_t s = 0; s < ring->shape.block; s++) {
        const size_t i = s * blocks(ring) + block;
        const double value = i < ring->shape.sent ? (double)e->x[position(ring, i)] * e->scale : 0;
        v[s] = (float)(minus[s] ? -value : value);
    }
    rotate(v, ring->shape.block);
}

static int32_t level_of(float v, uint32_t random, int32_t most) {
    const double level = floor((double)v + (double)random / 4294967296.0);
    return level > most ? most : level < -most ? -most : (int32_t)level;
}

/* Round all values at random. *squares: of the levels' norm. */
static fed_status round_all(const encoding *e, uint8_t *dst, double *squares) {
    const fed_privacy_fields *f = &e->ring->shape;
    packer p = {.dst = dst};
    float v[BLOCK] = {0};
    uint32_t random[AT_ONCE];
    int64_t sum = 0;
    for (size_t block = 0; block < blocks(e->ring); block++) {
        find_levels(e, block, v);
        for (size_t i = 0; i < f->block; i++) {
            if (i % AT_ONCE == 0) {
                FED_TRY(e->random(e->user, random, sizeof random));
            }
            const int32_t level = level_of(v[i], random[i % AT_ONCE], f->most);
            sum += (int64_t)level * level;
            put(&p, (uint32_t)level, f->width);
        }
    }
    *squares = (double)sum;
    return FED_OK;
}

/* Behind the values of a round that counts short updates: 1 for a short one, -1 for another. A
 * device that sends zeros instead of its training says neither. */
static void put_count(const fed_privacy_fields *f, bool is_short, uint8_t *dst) {
    packer p = {.dst = dst + f->fields / 8 * f->width};
    if (f->all > f->fields) {
        put(&p, is_short ? 1 : UINT32_MAX, f->width);
        put(&p, 0, (8 - p.held) % 8);
    }
}

fed_status fedcodec_ring_encode(const fedcodec_ring *ring, float clip, const float *x,
                                fedcodec_ring_random random, void *user, uint8_t *dst,
                                double *kept) {
    const fed_privacy_fields *f = &ring->shape;
    double norm = 0, squares = 0;
    FED_TRY(find_norm(ring, x, &norm));
    const double factor = norm > (double)clip ? (double)clip / norm : 1;
    const encoding e = {.ring = ring,
                        .x = x,
                        .scale = factor / ((double)f->step * root(f->block)),
                        .random = random,
                        .user = user};
    for (int k = 0; k < TRIES; k++) {
        FED_TRY(round_all(&e, dst, &squares));
        if (squares <= f->reach * f->reach) {
            if (kept != NULL) {
                *kept = factor;
            }
            put_count(f, factor == 1, dst);
            return FED_OK;
        }
    }
    return FED_EINVAL;
}

/* -- Read -- */

/* Is the count, if there is one, 1 or -1, with zeros behind it? */
static bool is_count(const fed_privacy_fields *f, const uint8_t *src) {
    unpacker u = {.src = src + f->fields / 8 * f->width};
    if (f->all == f->fields) {
        return true;
    }
    const int32_t count = as_signed(take(&u, f->width), f->width);
    return (count == 1 || count == -1) && u.bits == 0;
}

fed_status fedcodec_ring_check(const fedcodec_ring *ring, const uint8_t *src, size_t len,
                               fed_error *why) {
    const fed_privacy_fields *f = &ring->shape;
    if (len != f->bytes) {
        return fed_fail(why, FED_EFORMAT, "an update of this task has %zu bytes of fields, not %zu",
                        f->bytes, len);
    }
    unpacker u = {.src = src};
    int64_t squares = 0;
    for (size_t i = 0; i < f->fields; i++) {
        const int32_t level = as_signed(take(&u, f->width), f->width);
        if (level > f->most || level < -f->most) {
            return fed_fail(why, FED_EFORMAT, "field %zu has level %ld; up to %ld is allowed", i,
                            (long)level, (long)f->most);
        }
        squares += (int64_t)level * level;
    }
    if ((double)squares > f->reach * f->reach) {
        return fed_fail(why, FED_EFORMAT,
                        "the levels have norm %.6g; up to %.6g is allowed: the device did not clip",
                        sqrt((double)squares), f->reach);
    }
    return is_count(f, src)
               ? FED_OK
               : fed_fail(why, FED_EFORMAT, "the count behind the values is neither 1 nor -1");
}

void fedcodec_ring_add(const fedcodec_ring *ring, const uint8_t *src, uint32_t *y) {
    unpacker u = {.src = src};
    for (size_t i = 0; i < ring->shape.all; i++) {
        y[i] += take(&u, ring->shape.width);
    }
}

void fedcodec_ring_subtract(const fedcodec_ring *ring, const uint8_t *src, uint32_t *y) {
    unpacker u = {.src = src};
    for (size_t i = 0; i < ring->shape.all; i++) {
        y[i] -= take(&u, ring->shape.width);
    }
}

double fedcodec_ring_sums(const fedcodec_ring *ring, uint32_t *y) {
    double squares = 0;
    for (size_t i = 0; i < ring->shape.all; i++) {
        const int32_t sum = as_signed(y[i], ring->shape.width);
        squares += i < ring->shape.fields ? (double)sum * (double)sum : 0;
        y[i] = (uint32_t)sum;
    }
    return sqrt(squares);
}

void fedcodec_ring_change(const fedcodec_ring *ring, const uint32_t *sums, double divisor,
                          float *change) {
    const fed_privacy_fields *f = &ring->shape;
    const double scale = root(f->block) * divisor;
    int64_t v[BLOCK] = {0};
    bool minus[BLOCK];
    memset(change, 0, f->n * sizeof *change);
    for (size_t block = 0; block < blocks(ring); block++) {
        for (size_t s = 0; s < f->block; s++) {
            v[s] = as_signed(sums[block * f->block + s], 32);
        }
        rotate_sums(v, f->block);
        find_signs(ring, block, minus);
        for (size_t s = 0; s < f->block; s++) {
            const size_t i = s * blocks(ring) + block;
            if (i < f->sent) {
                const double value = (double)(minus[s] ? -v[s] : v[s]);
                change[position(ring, i)] = (float)(value * (double)f->step / scale);
            }
        }
    }
}

void fedcodec_ring_settle(const fedcodec_ring *ring, float *values) {
    for (size_t i = 0; i < ring->shape.sent; i++) {
        values[position(ring, i)] = 0;
    }
}
