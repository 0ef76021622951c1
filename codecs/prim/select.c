/*
 * Exact selection in about one pass.
 *
 * A sample of the tensor gives a threshold that the k-th value surely exceeds; one pass collects
 * the few values beyond it, the candidates; a radix search among them finds the k-th exactly. Where
 * the sample misled (adversarial data, many equal values) the radix search runs over the whole
 * tensor: slower, the same result. So the sample decides the time, never the choice.
 */
#include "codecs/prim/select.h"

#include <math.h>
#include <stdbool.h>

#include "codecs/prim/floats.h"

enum {
    SAMPLE = 8192, /* values; a smaller tensor's candidates are all of its values */
    BLOCK = 256,   /* values that are compared at once */
    BINS = 4096,   /* of the radix search */
    KEY_MAX = 0x7fffffff
};

/* Which values compete, by their keys: one up to KEY_MAX is the magnitude of a value that does. */
typedef struct side {
    uint32_t flip, mask;
} side;

static const side POSITIVE = {0, 0xffffffff}, NEGATIVE = {0x80000000, 0xffffffff},
                  EITHER = {0, KEY_MAX};

static uint32_t key_of(float v, side of) {
    return (fedcodec_bits(v) ^ of.flip) & of.mask;
}

/* Which values of one side are chosen: every one with a greater magnitude, and the first `ties` of
 * those with just this one. 0 and 0: all but zeros. */
typedef struct cut {
    uint32_t magnitude; /* bits */
    size_t ties;
} cut;

/* Values, and where they come from: index[i], or i itself where index is NULL. */
typedef struct values {
    const float *value;
    const uint32_t *index;
    size_t count;
} values;

/* How the work memory is laid out. */
typedef struct scratch {
    uint32_t *positive, *negative; /* k each: the result */
    uint32_t *bins;
    float *value; /* room + BLOCK: first the sample, then the candidates */
    uint32_t *index;
    size_t room;
} scratch;

/* From the top of the sample, the rank whose value will do as the threshold: four standard
 * deviations below where the k-th should be. */
static size_t sample_rank(size_t n, size_t k) {
    double expected = (double)k * SAMPLE / (double)n;
    return (size_t)(expected + 4.0 * sqrt(expected)) + 4;
}

/* Candidates that there is room for: twice what is expected of both signs together. */
static size_t candidate_room(size_t n, size_t k) {
    if (n <= SAMPLE) {
        return n;
    }
    double room = 4.0 * (double)n * (double)sample_rank(n, k) / SAMPLE + SAMPLE;
    return room < (double)n ? (size_t)room : n;
}

size_t fedcodec_select_work_size(size_t n, size_t k) {
    return 4 * (2 * k + BINS + 2 * (candidate_room(n, k) + BLOCK));
}

static scratch lay_out(void *work, size_t n, size_t k) {
    scratch s = {.room = candidate_room(n, k)};
    s.positive = work;
    s.negative = s.positive + k;
    s.bins = s.negative + k;
    s.index = s.bins + BINS;
    s.value = (float *)(void *)(s.index + s.room + BLOCK);
    return s;
}

/*
 * One step of the radix search: among the keys that begin with `prefix` (all but their low
 * shift + width bits), find the next `width` bits of the *rank-th greatest one. *rank becomes its
 * rank among the keys that have these bits as well. False: there are fewer keys.
 */
static bool radix_step(values v, side of, uint32_t *prefix, unsigned shift, unsigned width,
                       size_t *rank, uint32_t *bins) {
    const uint32_t mask = (UINT32_C(1) << width) - 1;
    const uint32_t wanted = *prefix; /* 0 at first, and then there are no bits above to compare */
    memset(bins, 0, ((size_t)mask + 1) * sizeof *bins);
    for (size_t i = 0; i < v.count; i++) {
        uint32_t key = key_of(v.value[i], of);
        bins[key >> shift & mask] += (uint64_t)key >> (shift + width) == wanted;
    }
    size_t left = *rank;
    uint32_t top = KEY_MAX >> shift & mask; /* keys above KEY_MAX do not compete */
    for (uint32_t bin = top + 1; bin-- > 0;) {
        if (left <= bins[bin]) {
            *rank = left;
            *prefix = wanted << width | bin;
            return true;
        }
        left -= bins[bin];
    }
    return false;
}

static cut find_cut(values v, side of, size_t k, uint32_t *bins) {
    const cut everything = {0, 0};
    uint32_t key = 0;
    size_t rank = k;
    if (!radix_step(v, of, &key, 20, 12, &rank, bins) ||
        !radix_step(v, of, &key, 10, 10, &rank, bins) ||
        !radix_step(v, of, &key, 0, 10, &rank, bins) || key == 0) {
        return everything;
    }
    return (cut){.magnitude = key, .ties = rank};
}

/* Positions of the values that the cut chooses, at most k. */
static size_t take(values v, side of, cut c, size_t k, uint32_t *out) {
    size_t count = 0, ties = c.ties;
    for (size_t i = 0; i < v.count && count < k; i++) {
        uint32_t key = key_of(v.value[i], of);
        bool tie = key == c.magnitude && ties > 0;
        out[count] = v.index != NULL ? v.index[i] : (uint32_t)i;
        count += (key > c.magnitude && key <= KEY_MAX) | tie;
        ties -= tie;
    }
    return count;
}

/* Values from all over the tensor, one of each of SAMPLE equal stretches; which one is scattered,
 * since a fixed stride could always meet the same column of a matrix. None of a small tensor. */
static void draw_sample(const float *x, size_t n, float *sample) {
    if (n <= SAMPLE) {
        return;
    }
    for (size_t i = 0; i < SAMPLE; i++) {
        size_t first = (size_t)((uint64_t)i * n / SAMPLE);
        size_t next = (size_t)((uint64_t)(i + 1) * n / SAMPLE);
        uint32_t scatter = (uint32_t)i * UINT32_C(2654435769) >> 8; /* 24 bits */
        sample[i] = x[first + (size_t)((uint64_t)scatter * (next - first) >> 24)];
    }
}

/* The threshold for the candidates of a side, at least the least positive float: zeros are never
 * chosen. The sample lies in s->value. */
static float find_threshold(side of, size_t n, size_t k, const scratch *s) {
    cut c = {0, 0};
    if (n > SAMPLE) {
        c = find_cut((values){s->value, NULL, SAMPLE}, of, sample_rank(n, k), s->bins);
    }
    return fedcodec_float(c.magnitude > 0 ? c.magnitude : 1);
}

/* Positions within x[n], n <= BLOCK, of the values beyond the thresholds. `base` is added to them.
 * The comparisons come first, as bytes, eight of which can be dismissed at once. */
static size_t collect_block(const float *x, size_t n, float positive, float negative, uint32_t base,
                            uint32_t *index) {
    uint8_t hit[BLOCK];
    uint8_t group[BLOCK / 8];
    size_t groups = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        hit[i] = (x[i] >= positive) | (x[i] <= negative);
    }
    memset(hit + n, 0, (8 - n % 8) % 8);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t eight;
        memcpy(&eight, hit + i, sizeof eight);
        group[groups] = (uint8_t)i;
        groups += eight != 0;
    }
    for (size_t g = 0; g < groups; g++) {
        for (size_t i = group[g]; i < (size_t)group[g] + 8; i++) {
            index[count] = base + (uint32_t)i;
            count += hit[i];
        }
    }
    return count;
}

/* All candidates; false if there is no room for them. */
static bool collect(const float *x, size_t n, float positive, float negative, const scratch *s,
                    size_t *count) {
    size_t found = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t block = n - i < BLOCK ? n - i : BLOCK;
        if (found > s->room) {
            return false;
        }
        found += collect_block(x + i, block, positive, negative, (uint32_t)i, s->index + found);
    }
    for (size_t i = 0; i < found; i++) {
        s->value[i] = x[s->index[i]];
    }
    *count = found;
    return true;
}

/* The k of one side, from the candidates if these can hold them all, else from the whole tensor. */
static fedcodec_chosen choose(values candidates, values all, side of, bool complete, size_t k,
                              uint32_t *bins, uint32_t *out) {
    cut c = find_cut(candidates, of, k, bins);
    if (c.magnitude == 0 && !complete) { /* fewer than k of them */
        candidates = all;
        c = find_cut(all, of, k, bins);
    }
    return (fedcodec_chosen){.index = out, .count = take(candidates, of, c, k, out)};
}

void fedcodec_select(const float *x, size_t n, size_t k, void *work, fedcodec_chosen *positive,
                     fedcodec_chosen *negative) {
    const float least = fedcodec_float(1);
    scratch s = lay_out(work, n, k);
    values all = {x, NULL, n}, candidates = {s.value, s.index, 0};
    draw_sample(x, n, s.value);
    float up = find_threshold(POSITIVE, n, k, &s), down = find_threshold(NEGATIVE, n, k, &s);
    bool fits = collect(x, n, up, -down, &s, &candidates.count);
    *positive = choose(candidates, all, POSITIVE, fits && up == least, k, s.bins, s.positive);
    *negative = choose(candidates, all, NEGATIVE, fits && down == least, k, s.bins, s.negative);
}

void fedcodec_select_magnitude(const float *x, size_t n, size_t k, void *work,
                               fedcodec_chosen *chosen) {
    scratch s = lay_out(work, n, k);
    values all = {x, NULL, n}, candidates = {s.value, s.index, 0};
    draw_sample(x, n, s.value);
    float least = find_threshold(EITHER, n, k, &s);
    bool fits = collect(x, n, least, -least, &s, &candidates.count);
    bool complete = fits && least == fedcodec_float(1);
    *chosen = choose(candidates, all, EITHER, complete, k, s.bins, s.positive);
}
