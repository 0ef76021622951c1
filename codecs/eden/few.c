/* Choose and write the values of largest magnitude of rotated buckets, and read them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/eden/few.h"

#include <assert.h>
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/lanes.h"
#include "codecs/prim/parts.h"

/*
 * What follows a message's lead:
 * - how many values of a whole bucket are sent;
 * - what to add to the bytes of the scales, then a byte for each bucket's scale; or, with one scale
 *   for the tensor, this scale as float32, then a bit for each bucket. Nothing of a bucket is sent
 *   whose byte or bit is 0;
 * - the signs of the values that are sent, the byte of the positions' code, and the positions.
 */
enum { MOST_LEN = 2, BASE_LEN = 2, ONE_LEN = 4 };

/* A scale's byte has the high bits of a float32, without its sign: all of the exponent and three
 * bits of the mantissa. LEAST is the number before that of the least normal float. */
enum { DROPPED = 20, BYTE_MOST = 255, LEAST = 7 };

/* The streams of random numbers of a draw: 0 and 1 are the signs of the rotations. */
enum { ROUNDING = 2 };

static size_t marks_at(const eden_layout *l) {
    return MOST_LEN + (l->one_scale ? ONE_LEN : BASE_LEN);
}

static size_t marks_len(const eden_layout *l) {
    return l->one_scale ? fedcodec_bitmap_len(l->buckets) : l->buckets;
}

size_t fedcodec_eden_few_bound(const double *param, const eden_layout *l) {
    const unsigned most = eden_most_of(param[EDEN_PARAM_P], l->shift);
    const size_t sent = eden_sent_of_all(most, l);
    return marks_at(l) + marks_len(l) + fedcodec_bitmap_len(sent) + 1 +
           fedcodec_positions_bound(eden_share_of(most, l), eden_width_of_all(l), sent);
}

/* The sums that give a bucket's scale, and the high bits of this scale. */
typedef struct bucket_sums {
    double squares, products;
    unsigned high;
} bucket_sums;

enum { MORE = 8 };

/* The work memory. Bucket k has `most` places of index and negative, from k * most on; negative has
 * MORE bytes at its end. */
typedef struct work {
    bucket_sums *sums;
    uint32_t *index;
    uint8_t *negative;
} work;

size_t fedcodec_eden_few_work(const double *param, const eden_layout *l) {
    const size_t places = l->buckets * eden_most_of(param[EDEN_PARAM_P], l->shift);
    return l->buckets * sizeof(bucket_sums) + places * (sizeof(uint32_t) + 1) + MORE;
}

static work work_of(void *memory, const eden_layout *l, size_t places) {
    work w = {.sums = memory};
    w.index = (uint32_t *)(void *)(w.sums + l->buckets);
    w.negative = (uint8_t *)(w.index + places);
    return w;
}

typedef struct chooser {
    eden_layout l;
    const float *x;
    uint32_t draw;
    unsigned most;
    float guess; /* standard deviations: somewhat more than `most` values should be larger */
    work work;
    size_t parts;
    bool wrong[FEDCODEC_PARTS_MAX]; /* [k]: part k of the tensor has a NaN or an infinity */
} chooser;

/* Return which magnitude, in standard deviations, a normally distributed value exceeds with this
 * probability (Abramowitz and Stegun, 26.2.23). The result decides how long a choice takes, not
 * which values are chosen. */
static float quantile(double probability) {
    if (probability >= 1.0) {
        return 0.0f;
    }
    const double t = sqrt(-2.0 * log(probability / 2.0));
    const double over = 2.515517 + t * (0.802853 + t * 0.010328);
    return (float)fmax(0.0, t - over / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
}

/* BATCH: values that are compared together. MORE_VALUES: room behind the values of a bucket, so
 * that only whole vectors are compared. */
enum { BATCH = 64, MORE_VALUES = 16 };

/* Bit i of the result says whether v[i] has at least this magnitude. n <= BATCH. */
static uint64_t mark_from(int32_t limit, const float *v, size_t n) {
    uint64_t marks = 0;
    size_t i = 0;
#ifdef FEDCODEC_LANES
    const fedcodec_lanes unsign = fedcodec_lanes_all(INT32_MAX);
    const fedcodec_lanes below = fedcodec_lanes_all((uint32_t)(limit - 1));
    for (; i + FEDCODEC_LANES <= n; i += FEDCODEC_LANES) {
        const fedcodec_lanes value = fedcodec_lanes_and(fedcodec_lanes_load(v + i), unsign);
        marks |= (uint64_t)fedcodec_lanes_above(value, below) << i;
    }
#endif
    for (; i < n; i++) {
        marks |= (uint64_t)(fedcodec_magnitude(v[i]) >= limit) << i;
    }
    return marks;
}

/* List the places of all values of at least this magnitude, in order. */
static size_t list_from(float least, const float *v, size_t wide, uint32_t *place) {
    const int32_t limit = fedcodec_magnitude(least);
    size_t count = 0;
    for (size_t start = 0; start < wide; start += BATCH) {
        const size_t n = wide - start < BATCH ? wide - start : BATCH;
        const uint64_t marks = mark_from(limit, v + start, n);
        count += fedcodec_list_positions(place + count, marks, (uint32_t)start);
    }
    return count;
}

/* Return how many of n values have at least this magnitude, which is not 0. Behind the values are
 * MORE_VALUES zeros. */
static size_t count_from(int32_t limit, const float *v, size_t n) {
    size_t count = 0;
    for (size_t start = 0; start < n; start += BATCH) {
        const size_t left = (n - start + MORE_VALUES - 1) / MORE_VALUES * MORE_VALUES;
        const uint64_t marks = mark_from(limit, v + start, left < BATCH ? left : BATCH);
        count += (size_t)__builtin_popcountll(marks);
    }
    return count;
}

/* Return bits of a magnitude that just k of n values have or exceed. If equal ones make that
 * impossible, return the k-th largest magnitude. Of the bits in which magnitudes differ the highest
 * is found first. Behind the values are MORE_VALUES zeros. */
static int32_t find_magnitude(const float *v, size_t n, size_t k) {
    int32_t all = INT32_MAX, any = 0;
    for (size_t i = 0; i < n; i++) {
        all &= fedcodec_magnitude(v[i]);
        any |= fedcodec_magnitude(v[i]);
    }
    if (all == any) {
        return all;
    }
    int32_t bit = (int32_t)(UINT32_C(1) << (31 - __builtin_clz((uint32_t)(all ^ any))));
    int32_t found = all & ~(bit | (bit - 1));
    for (; bit > 0; bit >>= 1) {
        const size_t as_large = count_from(found | bit, v, n);
        if (as_large == k) {
            return found | bit;
        }
        found |= as_large > k ? bit : 0;
    }
    return found;
}

/* Move the k values of largest magnitude to the front of v, and set place[] to where they were.
 * They keep their order; of equal ones the first are taken. least: a magnitude that somewhat more
 * than k values should have. v has room for MORE_VALUES behind a bucket. */
static void choose(float least, float *v, size_t wide, size_t k, uint32_t *place) {
    size_t count = list_from(least, v, wide, place), kept = 0, equal = k;
    if (count < k) {
        count = list_from(0.0f, v, wide, place);
    }
    for (size_t i = 0; i < count; i++) {
        v[i] = v[place[i]];
    }
    memset(v + count, 0, MORE_VALUES * sizeof *v);
    const int32_t limit = find_magnitude(v, count, k);
    for (size_t i = 0; i < count; i++) {
        equal -= fedcodec_magnitude(v[i]) > limit;
    }
    for (size_t i = 0; i < count; i++) {
        const int32_t magnitude = fedcodec_magnitude(v[i]);
        const bool taken = magnitude == limit && equal > 0;
        place[kept] = place[i];
        v[kept] = v[i];
        equal -= taken;
        kept += taken || magnitude > limit;
    }
    assert(kept == k);
}

/* Rotate bucket k, choose its values, and set its sums. largest: the bits of the largest
 * magnitude. */
static void choose_in_bucket(const chooser *c, size_t k, int32_t largest) {
    const size_t count = eden_count(&c->l, k), wide = eden_width(count);
    const size_t sent = eden_sent_of(c->most, c->l.shift, wide), first = k * c->most;
    float v[EDEN_BUCKET_MAX + MORE_VALUES], up = 1.0f;
    uint32_t place[EDEN_BUCKET_MAX + BATCH];
    if (!eden_copy(c->x + eden_first(&c->l, k), count, wide, largest, v, &up)) {
        c->work.sums[k] = (bucket_sums){.squares = 0.0};
        return;
    }
    const double squares = eden_squares(v, count);
    const double deviation = sqrt(c->l.twice ? squares * (double)wide : squares);
    double products = 0.0;
    eden_turn(&c->l, c->draw, k, v, wide);
    choose(c->guess * (float)deviation, v, wide, sent, place);
    for (size_t i = 0; i < sent; i++) {
        c->work.index[first + i] = (uint32_t)eden_first(&c->l, k) + place[i];
        c->work.negative[first + i] = v[i] < 0.0f;
        products += (double)fabsf(v[i]);
    }
    c->work.sums[k] = (bucket_sums){.squares = squares / (double)up / (double)up,
                                    .products = products / (double)up};
}

static void choose_in_part(void *job, size_t part) {
    chooser *c = job;
    const size_t end = fedcodec_part_start(c->l.buckets, c->parts, part + 1, 1);
    for (size_t k = fedcodec_part_start(c->l.buckets, c->parts, part, 1); k < end; k++) {
        const int32_t largest = fedcodec_largest(c->x + eden_first(&c->l, k), eden_count(&c->l, k));
        c->wrong[part] |= largest >= FEDCODEC_INFINITY;
        if (!c->wrong[part]) {
            choose_in_bucket(c, k, largest);
        }
    }
}

/* Return the scale with which what arrives has the right length in the direction of the values. */
static float scale_of(bucket_sums sums, float most) {
    const double scale = sums.squares > 0.0 ? sums.squares / sums.products : 0.0;
    return scale < (double)FLT_MIN ? 0.0f : (float)fmin(scale, (double)most);
}

/* Write one scale of the tensor, and a bit for each bucket that is sent. */
static void mark_with_one(const chooser *c, uint8_t *dst) {
    const eden_layout *l = &c->l;
    bucket_sums all = {.squares = 0.0};
    for (size_t k = 0; k < l->buckets; k++) {
        all.squares += c->work.sums[k].squares;
        all.products += c->work.sums[k].products;
    }
    const float scale = scale_of(all, eden_scale_max(l, (size_t)1 << l->shift));
    fedcodec_store_f32(dst, scale);
    for (size_t k = 0; k < l->buckets; k += 8) {
        uint8_t flag[8] = {0};
        for (size_t i = 0; i < 8 && k + i < l->buckets; i++) {
            flag[i] = scale > 0.0f && c->work.sums[k + i].squares > 0.0;
        }
        dst[ONE_LEN + k / 8] = fedcodec_bitmap_byte(flag);
    }
}

/* Return the high bits of a scale, rounded up or down at random, so that the mean is the scale. */
static unsigned round_scale(float scale, float most, uint32_t random) {
    const uint32_t below = (UINT32_C(1) << DROPPED) - 1;
    const uint32_t rounded = (fedcodec_bits(scale) + (random & below)) >> DROPPED;
    const uint32_t limit = fedcodec_bits(most) >> DROPPED;
    return scale == 0.0f ? 0 : rounded < limit ? rounded : limit;
}

/* Write what to add to the bytes of the scales, and a byte for each bucket. So scales are at least
 * 2^-31 of the largest one; buckets with smaller ones are not sent. */
static void mark_each(const chooser *c, uint8_t *dst) {
    const eden_layout *l = &c->l;
    fed_rng rng;
    fed_rng_init(&rng, c->draw, ROUNDING, 0);
    unsigned largest = 0;
    for (size_t k = 0; k < l->buckets; k++) {
        const float most = eden_scale_max(l, eden_width(eden_count(l, k)));
        const unsigned high = round_scale(scale_of(c->work.sums[k], most), most, fed_rng_u32(&rng));
        largest = high > largest ? high : largest;
        c->work.sums[k].high = high;
    }
    const unsigned base = largest > LEAST + BYTE_MOST ? largest - BYTE_MOST : LEAST;
    fedcodec_store_u16(dst, (uint16_t)(largest > 0 ? base : 0));
    for (size_t k = 0; k < l->buckets; k++) {
        const unsigned high = c->work.sums[k].high;
        dst[BASE_LEN + k] = (uint8_t)(high > base ? high - base : 0);
    }
}

static bool is_sent(const eden_layout *l, const uint8_t *marks, size_t k) {
    return l->one_scale ? (marks[k / 8] >> (7 - k % 8) & 1) != 0 : marks[k] != 0;
}

/* Move the places and signs of the buckets that are sent together. Returns their number. */
static size_t gather(const chooser *c, const uint8_t *marks) {
    const eden_layout *l = &c->l;
    size_t all = 0;
    for (size_t k = 0; k < l->buckets; k++) {
        if (is_sent(l, marks, k)) {
            const size_t sent = eden_sent_of(c->most, l->shift, eden_width(eden_count(l, k)));
            memmove(c->work.index + all, c->work.index + k * c->most, sent * sizeof(uint32_t));
            memmove(c->work.negative + all, c->work.negative + k * c->most, sent);
            all += sent;
        }
    }
    return all;
}

/* Write the signs, ones fill the last byte, and the positions. */
static fed_status put_sent(const fedcodec_job *job, const chooser *c, size_t sent, uint8_t *dst,
                           size_t *len) {
    const size_t signs = fedcodec_bitmap_len(sent);
    const fedcodec_chosen chosen = {.index = c->work.index, .count = sent};
    memset(c->work.negative + sent, 1, MORE);
    for (size_t i = 0; i < sent; i += 8) {
        dst[i / 8] = fedcodec_bitmap_byte(c->work.negative + i);
    }
    size_t size = 0;
    FED_TRY(fedcodec_positions_put((fedcodec_pos)job->param[EDEN_PARAM_POS],
                                   eden_share_of(c->most, &c->l), chosen, eden_width_of_all(&c->l),
                                   dst + signs + 1, job->cap - (size_t)(dst + signs + 1 - job->dst),
                                   &size, dst + signs));
    *len = signs + 1 + size;
    return FED_OK;
}

fed_status fedcodec_eden_few_encode(const fedcodec_job *job, const eden_layout *l, uint32_t draw,
                                    uint8_t *dst, size_t *len) {
    chooser c = {.l = *l, .x = job->x, .draw = draw};
    c.most = eden_most_of(job->param[EDEN_PARAM_P], l->shift);
    c.guess = quantile(((double)c.most + 3.0 * sqrt((double)c.most) + 2.0) /
                       (double)((size_t)1 << l->shift));
    c.work = work_of(job->work, l, l->buckets * c.most);
    c.parts = fedcodec_parts(job->pool, job->n);
    fedcodec_run_parts(job->pool, c.parts, choose_in_part, &c);
    for (size_t k = 0; k < c.parts; k++) {
        FED_REQUIRE(!c.wrong[k], FED_ENONFINITE);
    }
    fedcodec_store_u16(dst, (uint16_t)c.most);
    if (l->one_scale) {
        mark_with_one(&c, dst + MOST_LEN);
    } else {
        mark_each(&c, dst + MOST_LEN);
    }
    const size_t sent = gather(&c, dst + marks_at(l));
    *len = marks_at(l) + marks_len(l);
    if (sent > 0) {
        size_t more = 0;
        FED_TRY(put_sent(job, &c, sent, dst + *len, &more));
        *len += more;
    }
    return FED_OK;
}

/* Is the scale in range, and 0 exactly if no bucket is sent? */
static bool one_valid(const fedcodec_eden_few *r, const eden_layout *l) {
    const float most = eden_scale_max(l, (size_t)1 << l->shift);
    return fedcodec_bitmap_padded(r->marks, l->buckets) &&
           (r->sent == 0 ? fedcodec_bits(r->one) == 0 : r->one >= FLT_MIN && r->one <= most);
}

/* Do the bytes need what is added to them, and are all scales in range? */
static bool each_valid(const fedcodec_eden_few *r, const eden_layout *l) {
    unsigned largest = 0;
    bool within = true;
    for (size_t k = 0; k < l->buckets; k++) {
        const float most = eden_scale_max(l, eden_width(eden_count(l, k)));
        within &= r->marks[k] == 0 || r->base + r->marks[k] <= fedcodec_bits(most) >> DROPPED;
        largest = r->marks[k] > largest ? r->marks[k] : largest;
    }
    return within && (largest == 0       ? r->base == 0
                      : r->base == LEAST ? true
                                         : r->base > LEAST && largest == BYTE_MOST);
}

fed_status fedcodec_eden_few_open(fedcodec_eden_few *r, const eden_layout *l, const uint8_t *src,
                                  size_t len) {
    const size_t head = marks_at(l) + marks_len(l);
    FED_REQUIRE(len >= head, FED_EFORMAT);
    *r = (fedcodec_eden_few){.most = fedcodec_load_u16(src), .marks = src + marks_at(l)};
    FED_REQUIRE(r->most % 2 == 1 && r->most < 1u << l->shift, FED_EFORMAT);
    for (size_t k = 0; k < l->buckets; k++) {
        const size_t wide = eden_width(eden_count(l, k));
        r->sent += is_sent(l, r->marks, k) ? eden_sent_of(r->most, l->shift, wide) : 0;
    }
    if (l->one_scale) {
        r->one = fedcodec_load_f32(src + MOST_LEN);
    } else {
        r->base = fedcodec_load_u16(src + MOST_LEN);
    }
    FED_REQUIRE(l->one_scale ? one_valid(r, l) : each_valid(r, l), FED_EFORMAT);
    if (r->sent == 0) {
        FED_REQUIRE(len == head, FED_EFORMAT);
        return FED_OK;
    }
    const size_t signs = fedcodec_bitmap_len(r->sent);
    FED_REQUIRE(len - head > signs, FED_EFORMAT);
    r->signs = src + head;
    FED_REQUIRE(r->sent % 8 == 0 || (~r->signs[r->sent / 8] & 0xff >> r->sent % 8) == 0,
                FED_EFORMAT);
    return fedcodec_positions_start(&r->positions, r->signs[signs], r->signs + signs + 1,
                                    len - head - signs - 1, r->sent, eden_width_of_all(l));
}

/* Return the next position; SIZE_MAX at the end, or if it is malformed. */
static size_t next_position(fedcodec_eden_few *r) {
    if (r->at == r->have) {
        r->have = fedcodec_positions_next(&r->positions);
        r->at = 0;
        if (r->have == 0) {
            return SIZE_MAX;
        }
    }
    return r->positions.index[r->at++];
}

/* Return the scale of bucket k; 0 if it is not sent. */
static float scale_sent(const fedcodec_eden_few *r, const eden_layout *l, size_t k) {
    return !is_sent(l, r->marks, k) ? 0.0f
           : l->one_scale           ? r->one
                                    : fedcodec_float((r->base + r->marks[k]) << DROPPED);
}

float fedcodec_eden_few_read(fedcodec_eden_few *r, const eden_layout *l, size_t k, int16_t *v,
                             size_t wide) {
    memset(v, 0, (wide < EDEN_WHOLE_LANES ? EDEN_WHOLE_LANES : wide) * sizeof *v);
    if (!is_sent(l, r->marks, k)) {
        return 0.0f;
    }
    const size_t first = eden_first(l, k), sent = eden_sent_of(r->most, l->shift, wide);
    for (size_t i = 0; i < sent; i++, r->sign++) {
        const size_t place = next_position(r) - first; /* before the bucket: a large number */
        if (place >= wide) {
            return -1.0f;
        }
        v[place] = r->signs[r->sign / 8] >> (7 - r->sign % 8) & 1 ? -1 : 1;
    }
    return scale_sent(r, l, k);
}

float fedcodec_eden_few_skip(fedcodec_eden_few *r, const eden_layout *l, size_t k, size_t wide) {
    const size_t sent = is_sent(l, r->marks, k) ? eden_sent_of(r->most, l->shift, wide) : 0;
    for (size_t i = 0; i < sent; i++, r->sign++) {
        (void)next_position(r);
    }
    return scale_sent(r, l, k);
}

size_t fedcodec_eden_few_sent(const fedcodec_eden_few *r, const eden_layout *l, size_t wide) {
    return eden_sent_of(r->most, l->shift, wide);
}

/* The table has the fractions for a share of 1, 1/2, 1/4 and so on of the values, and many values.
 * Between two of them a straight line is within 6 %. For a single value of a bucket the fraction is
 * 12 % too large. */
double fedcodec_eden_few_kept(const double *param, const eden_layout *l) {
    static const double kept[] = {0.63662, 0.80786, 0.67801, 0.484,   0.31703, 0.19691,
                                  0.11797, 0.06887, 0.03943, 0.02223, 0.01238};
    const double share = eden_share_of(eden_most_of(param[EDEN_PARAM_P], l->shift), l);
    size_t k = 0;
    double larger = 1.0;
    for (; k + 2 < sizeof kept / sizeof kept[0] && share <= larger / 2.0; k++) {
        larger /= 2.0;
    }
    return kept[k + 1] + (kept[k] - kept[k + 1]) * (share - larger / 2.0) / (larger / 2.0);
}

bool fedcodec_eden_few_fits(const double *param, const eden_layout *l, const uint8_t *src) {
    return fedcodec_load_u16(src) == eden_most_of(param[EDEN_PARAM_P], l->shift);
}

fed_status fedcodec_eden_few_end(const fedcodec_eden_few *r) {
    FED_REQUIRE(r->sign == r->sent, FED_EFORMAT);
    return r->sent > 0 ? fedcodec_positions_end(&r->positions) : FED_OK;
}
