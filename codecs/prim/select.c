/*
 * Exact selection of the k greatest values in about one pass.
 *
 * A sample of the tensor gives a magnitude that the k-th value almost surely exceeds. One pass adds
 * x and collects the few values above this magnitude, the candidates. Among these the k-th is found
 * exactly. If the sample misled (adversarial data, many equal values), the k-th is sought in the
 * whole tensor, which is slower and has the same result. So the sample changes the time, never the
 * choice.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/select.h"

#include <assert.h>
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/lanes.h"
#include "codecs/prim/parts.h"
#include "codecs/prim/rank_impl.h"

enum {
    SMALL = 4096, /* of up to this many values all are candidates */
    LARGE = 1 << 20,
    SAMPLE_LOG2 = 11, /* log2 of the sample's size for fewer than LARGE values */
    SAMPLE_LOG2_MAX = 13,
    SAMPLE_MAX = 1 << SAMPLE_LOG2_MAX,
    BATCH = 64,          /* values added at once; also the spare entries at the end of a list */
    STRETCH = 16 * BATCH /* values handled at once, few enough for the first-level cache */
};

/* Values and their positions. index[i] is the position of value i; if index is NULL, the position
 * is i. */
typedef struct values {
    const float *value;
    const uint32_t *index;
    size_t count;
} values;

/* The lists in the work memory. Each has BATCH entries more than its room. */
typedef struct scratch {
    size_t room;
    uint32_t *index;
    float *value;
    float *key;               /* keys among which the k-th is sought, as floats */
    uint32_t *positive_index; /* with two sides: the result for positive values */
    float *positive_value;
} scratch;

static unsigned sample_log2(size_t n) {
    return n < LARGE ? SAMPLE_LOG2 : SAMPLE_LOG2_MAX;
}

static size_t sample_size(size_t n) {
    return n <= SMALL ? 0 : (size_t)1 << sample_log2(n);
}

/* Return a limit of how far a count is from its expected value: four standard deviations and some
 * more. */
static double deviation(double expected) {
    return 4.0 * sqrt(expected) + 4.0;
}

static double expected_in_sample(size_t n, size_t k) {
    return (double)k * (double)sample_size(n) / (double)n;
}

static size_t candidate_room(size_t n, size_t k, size_t sides) {
    if (n <= SMALL) {
        return n;
    }
    double in_sample = expected_in_sample(n, k);
    in_sample += deviation(in_sample);
    in_sample += deviation(in_sample);
    double room = (double)sides * (double)n / (double)sample_size(n) * in_sample + SAMPLE_MAX;
    return room < (double)n ? (size_t)room : n;
}

static size_t work_size(size_t n, size_t k, size_t sides) {
    return 4 * (3 * (candidate_room(n, k, sides) + BATCH) + (sides - 1) * 2 * (k + BATCH));
}

size_t fedcodec_select_work_size(size_t n, size_t k) {
    return work_size(n, k, 2);
}

size_t fedcodec_select_magnitude_work_size(size_t n, size_t k) {
    return work_size(n, k, 1);
}

static scratch lay_out(const fedcodec_job *job, size_t k, size_t sides) {
    scratch s = {.room = candidate_room(job->n, k, sides), .index = job->work};
    s.value = (float *)(void *)(s.index + s.room + BATCH);
    s.key = s.value + s.room + BATCH;
    if (sides == 2) {
        s.positive_value = s.key + s.room + BATCH;
        s.positive_index = (uint32_t *)(void *)(s.positive_value + k + BATCH);
    }
    return s;
}

/* List positions and values that the cut chooses. index and value may be the lists of v. */
static size_t take(values v, side of, cut c, uint32_t *index, float *value) {
    size_t i = 0, count = 0, ties = c.ties;
#ifdef FEDCODEC_LANES
    const fedcodec_lanes flip = fedcodec_lanes_all(of.flip), mask = fedcodec_lanes_all(of.mask);
    const fedcodec_lanes least = fedcodec_lanes_all(c.magnitude),
                         below = fedcodec_lanes_all(c.magnitude - 1);
    for (; i + FEDCODEC_LANES <= v.count; i += FEDCODEC_LANES) {
        fedcodec_lanes bits = fedcodec_lanes_load(v.value + i);
        fedcodec_lanes key = fedcodec_lanes_and(fedcodec_lanes_xor(bits, flip), mask);
        uint32_t chosen = fedcodec_lanes_above(key, least);
        uint32_t equal = fedcodec_lanes_above(key, below) & ~chosen;
        for (; equal != 0 && ties > 0; ties--, equal &= equal - 1) {
            chosen |= equal & -equal;
        }
        fedcodec_lanes where =
            v.index != NULL ? fedcodec_lanes_load(v.index + i) : fedcodec_lanes_from((uint32_t)i);
        (void)fedcodec_lanes_put(index + count, chosen, where);
        count += fedcodec_lanes_put(value + count, chosen, bits);
    }
#endif
    for (; i < v.count; i++) {
        uint32_t key = key_of(v.value[i], of);
        bool tie = (key == c.magnitude) & (ties > 0);
        index[count] = v.index != NULL ? v.index[i] : (uint32_t)i;
        value[count] = v.value[i];
        count += (key > c.magnitude && key <= KEY_MAX) | tie;
        ties -= tie;
    }
    return count;
}

/* Draw one value from each of many equal ranges of the tensor, at a scattered offset in the range.
 * With a fixed stride the sample could take all values from one column of a matrix. */
static size_t draw_sample(const fedcodec_job *job, float *sample) {
    const size_t size = sample_size(job->n);
    const unsigned shift = sample_log2(job->n);
    size_t first = 0;
    for (size_t i = 0; i < size; i++) {
        size_t next = (size_t)((uint64_t)(i + 1) * job->n >> shift);
        uint32_t scatter = (uint32_t)i * UINT32_C(2654435769) >> 8;
        size_t at = first + (size_t)((uint64_t)scatter * (next - first) >> 24);
        sample[i] = job->residual[at] + (job->x != NULL ? job->x[at] : 0.0f);
        first = next;
    }
    return size;
}

/* The sample's estimates for one side. low: candidates have at least this key, and the k-th
 * greatest key is almost surely above it. likely: a range that probably has the k-th key. */
typedef struct guess {
    uint32_t low;
    range likely;
} guess;

/* Return the rank-th greatest key of a sample, or low if that is greater. */
static uint32_t nth_key(const float *sample, size_t size, side of, uint32_t low, size_t rank,
                        float *few) {
    size_t above, among = narrow(sample, size, of, (range){low, KEY_MAX}, few, &above);
    return rank <= among ? find_among(few, among, low, rank).magnitude : low;
}

static guess make_guess(const float *sample, size_t size, side of, size_t n, size_t k, float *few) {
    const double rank = expected_in_sample(n, k), spread = 2.0 * sqrt(rank) + 2.0;
    guess g = {ALL.low, ALL};
    if (size == 0) {
        return g;
    }
    g.low = nth_key(sample, size, of, ALL.low, (size_t)(rank + deviation(rank)), few);
    g.likely.low = nth_key(sample, size, of, g.low, (size_t)(rank + spread), few);
    if (rank - spread >= 1.0) {
        g.likely.high = nth_key(sample, size, of, g.low, (size_t)(rank - spread), few);
    }
    return g;
}

typedef struct thresholds {
    uint32_t positive, negative;
} thresholds;

static bool reaches(float v, thresholds t) {
    uint32_t bits = fedcodec_bits(v), flipped = bits ^ NEGATIVE.flip;
    return ((int32_t)bits >= (int32_t)t.positive) | ((int32_t)flipped >= (int32_t)t.negative);
}

/* Add x[n] to e[n], n <= BATCH; x may be NULL. Bit i of the result says whether e[i] is a
 * candidate. */
#if FEDCODEC_AVX2 && !FEDCODEC_AVX512
/* As add_batch, of BATCH values. The signs of what compares are collected from four vectors at
 * once. */
static inline uint64_t add_whole_batch(float *e, const float *x, thresholds t) {
    enum { QUAD = 4 };
    const __m256i flip = _mm256_set1_epi32(INT32_MIN);
    const __m256i positive = _mm256_set1_epi32((int)t.positive - 1),
                  negative = _mm256_set1_epi32((int)t.negative - 1);
    uint64_t hits = 0;
    for (size_t i = 0; i < BATCH; i += QUAD * FEDCODEC_LANES) {
        __m256i hit[QUAD];
        for (size_t k = 0; k < QUAD; k++) {
            float *at = e + i + k * FEDCODEC_LANES;
            __m256i v = fedcodec_lanes_load(at);
            if (x != NULL) {
                v = fedcodec_lanes_add_floats(v, fedcodec_lanes_load(x + i + k * FEDCODEC_LANES));
                fedcodec_lanes_store(at, v);
            }
            hit[k] = _mm256_or_si256(_mm256_cmpgt_epi32(v, positive),
                                     _mm256_cmpgt_epi32(_mm256_xor_si256(v, flip), negative));
        }
        hits |= (uint64_t)fedcodec_lanes_signs(hit) << i;
    }
    return hits;
}
#endif

#ifdef FEDCODEC_LANES
static inline uint64_t add_batch(float *e, const float *x, size_t n, thresholds t) {
#if FEDCODEC_AVX2 && !FEDCODEC_AVX512
    if (n == BATCH) {
        return add_whole_batch(e, x, t);
    }
#endif
    uint64_t hits = 0;
    size_t i = 0;
    const fedcodec_lanes flip = fedcodec_lanes_all(NEGATIVE.flip);
    const fedcodec_lanes positive = fedcodec_lanes_all(t.positive - 1),
                         negative = fedcodec_lanes_all(t.negative - 1);
    for (; i + FEDCODEC_LANES <= n; i += FEDCODEC_LANES) {
        fedcodec_lanes v = fedcodec_lanes_load(e + i);
        if (x != NULL) {
            v = fedcodec_lanes_add_floats(v, fedcodec_lanes_load(x + i));
            fedcodec_lanes_store(e + i, v);
        }
        uint32_t hit = fedcodec_lanes_above(v, positive) |
                       fedcodec_lanes_above(fedcodec_lanes_xor(v, flip), negative);
        hits |= (uint64_t)hit << i;
    }
    for (; i < n; i++) {
        e[i] = x != NULL ? e[i] + x[i] : e[i];
        hits |= (uint64_t)reaches(e[i], t) << i;
    }
    return hits;
}
#else
static inline uint64_t add_batch(float *restrict e, const float *restrict x, size_t n,
                                 thresholds t) {
    uint8_t hit[BATCH] = {0};
    uint64_t hits = 0;
    fedcodec_add(e, x, n);
    for (size_t i = 0; i < n; i++) {
        hit[i] = reaches(e[i], t);
    }
    for (size_t i = 0; i < BATCH; i += 8) {
        hits = hits << 8 | fedcodec_bitmap_byte(hit + i);
    }
    return fedcodec_bitmap_reversed(hits);
}
#endif

/* Add x from index first to end and list the candidates. Returns their number. If that is more than
 * room, the list is incomplete and useless. */
static size_t collect(const fedcodec_job *job, size_t first, size_t end, thresholds t,
                      uint32_t *index, float *value, size_t room) {
    float *e = job->residual;
    const float *x = job->x;
    size_t i = first, count = 0;
    while (i < end && count <= room) {
        const size_t listed = count, stop = end - i < STRETCH ? end : i + STRETCH;
        for (size_t n; i < stop && count <= room; i += n) {
            n = stop - i < BATCH ? stop - i : BATCH;
            fedcodec_fetch_far(e + i, n, job->n);
            if (x != NULL) {
                fedcodec_fetch_far(x + i, n, job->n);
            }
            const float *from = x != NULL ? x + i : NULL;
            uint64_t hits =
                n == BATCH ? add_batch(e + i, from, BATCH, t) : add_batch(e + i, from, n, t);
            count += fedcodec_list_positions(index + count, hits, (uint32_t)i);
        }
        for (size_t k = listed; k < count; k++) { /* the values are still in the cache */
            value[k] = e[index[k]];
        }
    }
    fedcodec_add(e + i, x != NULL ? x + i : NULL, end - i);
    return count;
}

/* The pass over the tensor, in parts. Each part writes into its own piece of the lists. */
typedef struct pass {
    const fedcodec_job *job;
    const scratch *s;
    thresholds t;
    size_t parts, piece; /* number of parts; entries of a piece, of which BATCH are past its room */
    size_t found[FEDCODEC_PARTS_MAX];
} pass;

static void collect_part(void *arg, size_t k) {
    pass *p = arg;
    const size_t n = p->job->n, at = k * p->piece;
    p->found[k] = collect(p->job, fedcodec_part_start(n, p->parts, k, BATCH),
                          fedcodec_part_start(n, p->parts, k + 1, BATCH), p->t, p->s->index + at,
                          p->s->value + at, p->piece - BATCH);
}

/* Add x and list the candidates, in parts. Returns false if the candidates of a part exceed its
 * room. */
static bool collect_parts(const fedcodec_job *job, size_t parts, thresholds t, const scratch *s,
                          size_t *found) {
    pass p = {job, s, t, parts, (s->room + BATCH) / parts, {0}};
    size_t count = 0;
    fedcodec_run_parts(job->pool, parts, collect_part, &p);
    for (size_t k = 0; k < parts; k++) {
        if (p.found[k] > p.piece - BATCH) {
            return false;
        }
        if (k > 0) {
            memmove(s->index + count, s->index + k * p.piece, p.found[k] * sizeof *s->index);
            memmove(s->value + count, s->value + k * p.piece, p.found[k] * sizeof *s->value);
        }
        count += p.found[k];
    }
    *found = count;
    return true;
}

/* Add x and list all candidates. Returns false if there are too many. */
static bool collect_all(const fedcodec_job *job, thresholds t, const scratch *s, size_t *found) {
    const size_t parts = fedcodec_parts(job->pool, job->n);
    if (collect_parts(job, parts, t, s, found)) {
        return true;
    }
    fedcodec_job added = *job; /* the call above has added x */
    added.x = NULL;
    return parts > 1 && collect_parts(&added, 1, t, s, found);
}

/* Choose the k values of one side: from the candidates if these hold all k, else from the whole
 * tensor. complete: all values that compete are candidates. */
static fedcodec_chosen choose(const fedcodec_job *job, const scratch *s, values candidates, side of,
                              guess g, bool complete, size_t k, uint32_t *index, float *value) {
    cut c = EVERYTHING;
    range r = g.likely;
    size_t above, among = narrow(candidates.value, candidates.count, of, r, s->key, &above);
    if (k <= above || k > above + among) {
        r = (range){g.low, KEY_MAX};
        among = narrow(candidates.value, candidates.count, of, r, s->key, &above);
    }
    if (above < k && k <= above + among) {
        c = find_among(s->key, among, r.low, k - above);
    } else if (!complete) {
        candidates = (values){job->residual, NULL, job->n};
        (void)find_cut(job->residual, job->n, of, k, s->key, s->room, &c);
    }
    size_t count = take(candidates, of, c, index, value);
    return (fedcodec_chosen){index, value, count};
}

static range extremes(fedcodec_chosen chosen) {
    range r = {KEY_MAX, 0};
    for (size_t i = 0; i < chosen.count; i++) {
        uint32_t key = key_of(chosen.value[i], EITHER);
        r.low = key < r.low ? key : r.low;
        r.high = key > r.high ? key : r.high;
    }
    return r;
}

/* Are all chosen values finite? NaN and infinity have the greatest keys, so they get chosen. */
static bool finite(fedcodec_chosen chosen) {
    return isfinite(fedcodec_float(extremes(chosen).high));
}

fed_status fedcodec_select(const fedcodec_job *job, size_t k, fedcodec_chosen *positive,
                           fedcodec_chosen *negative) {
    const scratch s = lay_out(job, k, 2);
    values candidates = {s.value, s.index, 0};
    size_t size = draw_sample(job, s.value);
    guess up = make_guess(s.value, size, POSITIVE, job->n, k, s.key);
    guess down = make_guess(s.value, size, NEGATIVE, job->n, k, s.key);
    bool fits = collect_all(job, (thresholds){up.low, down.low}, &s, &candidates.count);
    *positive = choose(job, &s, candidates, POSITIVE, up, fits && up.low == ALL.low, k,
                       s.positive_index, s.positive_value);
    *negative = choose(job, &s, candidates, NEGATIVE, down, fits && down.low == ALL.low, k, s.index,
                       s.value);
    return finite(*positive) && finite(*negative) ? FED_OK : FED_ENONFINITE;
}

fed_status fedcodec_select_magnitude(const fedcodec_job *job, size_t k, fedcodec_chosen *chosen) {
    const scratch s = lay_out(job, k, 1);
    values candidates = {s.value, s.index, 0};
    size_t size = draw_sample(job, s.value);
    guess g = make_guess(s.value, size, EITHER, job->n, k, s.key);
    bool fits = collect_all(job, (thresholds){g.low, g.low}, &s, &candidates.count);
    *chosen = choose(job, &s, candidates, EITHER, g, fits && g.low == ALL.low, k, s.index, s.value);
    return finite(*chosen) ? FED_OK : FED_ENONFINITE;
}

size_t fedcodec_select_above_work_size(size_t n) {
    return 4 * 2 * (n + BATCH);
}

fed_status fedcodec_select_above(const fedcodec_job *job, float least, fedcodec_chosen *chosen) {
    scratch s = {.room = job->n, .index = job->work};
    s.value = (float *)(void *)(s.index + s.room + BATCH);
    const uint32_t key = fedcodec_bits(least);
    *chosen = (fedcodec_chosen){s.index, s.value, 0};
    bool fits = collect_all(job, (thresholds){key, key}, &s, &chosen->count);
    assert(fits); /* a single part has room for all n values */
    (void)fits;
    return finite(*chosen) ? FED_OK : FED_ENONFINITE;
}

double fedcodec_mean_magnitude(fedcodec_chosen chosen) {
    enum { LANES = 8, EXPONENT = 23 };
    const range r = extremes(chosen);
    const float *v = chosen.value;
    double lane[LANES] = {0.0}, sum = 0.0;
    size_t i = 0;
    /* Add in lanes only if that gives the same bits as adding in order. A double has 29 bits more
     * than a float. If these suffice for the range and number of the magnitudes, no addition
     * rounds. */
    if ((double)chosen.count <=
        ldexp(1.0, 29 - (int)(r.high >> EXPONENT) + (int)(r.low >> EXPONENT))) {
        for (; i + LANES <= chosen.count; i += LANES) {
            for (size_t j = 0; j < LANES; j++) {
                lane[j] += fabs((double)v[i + j]);
            }
        }
        for (size_t j = 0; j < LANES; j++) {
            sum += lane[j];
        }
    }
    for (; i < chosen.count; i++) {
        sum += fabs((double)v[i]);
    }
    return chosen.count > 0 ? sum / (double)chosen.count : 0.0;
}
