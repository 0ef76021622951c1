/* Codes of positions: they come back, malformed messages are refused, auto chooses no bad code. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codecs/prim/positions.h"
#include "fed/rng.h"
#include "reference_positions.h"

enum { MOST = 5000, CAP = 64 * 1024 };

typedef struct sample {
    uint32_t index[MOST];
    size_t k, n;
} sample;

static fedcodec_chosen chosen(sample *s) {
    return (fedcodec_chosen){s->index, NULL, s->k};
}

static size_t put_as(fedcodec_pos pos, sample *s, uint8_t *dst, size_t cap, uint8_t *how) {
    size_t len = 0;
    if (pos == FEDCODEC_POS_RANS) {
        unsigned detail = fedcodec_rans_detail(s->k);
        *how = (uint8_t)(32 + detail);
        assert_fed_ok(fedcodec_rans_put(s->index, s->k, detail, dst, cap, &len));
    } else if (pos == FEDCODEC_POS_RANGE) {
        *how = 64;
        assert_fed_ok(fedcodec_range_put(s->index, s->k, s->n, dst, cap, &len));
    } else {
        assert_fed_ok(fedcodec_positions_put(pos, 0.01, chosen(s), s->n, dst, cap, &len, how));
    }
    return len;
}

/* Read a message. Returns how many positions could be read. *status gets FED_OK, or why reading
 * ended. */
static size_t read_all(uint8_t how, const uint8_t *src, size_t len, size_t count, size_t n,
                       uint32_t *index, fed_status *status) {
    fedcodec_positions r;
    size_t k = 0;
    *status = fedcodec_positions_start(&r, how, src, len, count, n);
    if (*status != FED_OK) {
        return 0;
    }
    for (size_t got; (got = fedcodec_positions_next(&r)) > 0; k += got) {
        memcpy(index + k, r.index, got * sizeof *index);
    }
    *status = fedcodec_positions_end(&r);
    return k;
}

static void assert_reads(sample *s, uint8_t how, const uint8_t *src, size_t len) {
    static uint32_t index[MOST + FEDCODEC_POSITIONS_BLOCK];
    uint8_t *exact = malloc(len + (len == 0)); /* so a sanitizer sees reads past len */
    memcpy(exact, src, len);
    fed_status status;
    assert_int_equal(read_all(how, exact, len, s->k, s->n, index, &status), s->k);
    assert_fed_ok(status);
    assert_memory_equal(index, s->index, s->k * sizeof *index);
    free(exact);
}

static void assert_round_trip(sample *s) {
    static uint8_t dst[CAP];
    for (fedcodec_pos pos = FEDCODEC_POS_RICE; pos < FEDCODEC_POS_COUNT; pos++) {
        uint8_t how, expected_how;
        size_t len = put_as(pos, s, dst, sizeof dst, &how), expected_len;
        assert_reads(s, how, dst, len);
        uint8_t *expected =
            fed_reference_positions_put(pos, pos == FEDCODEC_POS_AUTO, 0.01, s->index, s->k, s->n,
                                        &expected_len, &expected_how);
        assert_int_equal(how, expected_how);
        assert_int_equal(len, expected_len);
        assert_memory_equal(dst, expected, len);
        free(expected);
    }
}

static void fill_random(sample *s, size_t n, double p, uint32_t seed) {
    fed_rng rng;
    fed_rng_init(&rng, 11, seed, 0);
    s->n = n;
    s->k = 0;
    uint32_t limit = (uint32_t)(p * 4294967295.0);
    for (size_t i = 0; i < n && s->k < MOST; i++) {
        if (fed_rng_u32(&rng) <= limit) {
            s->index[s->k++] = (uint32_t)i;
        }
    }
}

static void fill_clustered(sample *s, size_t n, double p, uint32_t seed) {
    fed_rng rng;
    fed_rng_init(&rng, 12, seed, 0);
    s->n = n;
    s->k = 0;
    uint32_t within = 0;
    for (size_t i = 0; i < n && s->k < MOST; i++) {
        within = within > 0
                     ? within - 1
                     : (fed_rng_float(&rng) < (float)p / 20.0f ? fed_rng_below(&rng, 40) : 0);
        if (within > 0 && fed_rng_below(&rng, 4) > 0) {
            s->index[s->k++] = (uint32_t)i;
        }
    }
}

static void fill_regular(sample *s, size_t n, size_t stride) {
    s->n = n;
    s->k = 0;
    for (size_t i = stride - 1; i < n && s->k < MOST; i += stride) {
        s->index[s->k++] = (uint32_t)i;
    }
}

FED_TEST(positions_of_any_shape_come_back) {
    static sample s;
    static const double ps[] = {0.001, 0.01, 0.1, 0.5, 0.97};
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        for (size_t n = 300; n <= 30000; n *= 10) {
            fill_random(&s, n, ps[i], (uint32_t)n);
            if (s.k > 0) {
                assert_round_trip(&s);
            }
            fill_clustered(&s, n, ps[i], (uint32_t)n);
            if (s.k > 0) {
                assert_round_trip(&s);
            }
        }
    }
}

FED_TEST(regular_and_full_ones_come_back) {
    static sample s;
    for (size_t stride = 1; stride <= 1000; stride = 3 * stride + 1) {
        fill_regular(&s, 5000, stride);
        assert_round_trip(&s);
    }
}

FED_TEST(a_single_position_anywhere_comes_back) {
    static const uint32_t at[] = {0,        1,
                                  2,        3,
                                  4,        5,
                                  7,        8,
                                  15,       100,
                                  1000,     65535,
                                  1u << 20, (1u << 31) - 1,
                                  1u << 31, UINT32_MAX - 1};
    static sample s;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        s = (sample){.index = {at[i]}, .k = 1, .n = (size_t)at[i] + 1};
        assert_round_trip(&s);
        s.n = UINT32_MAX;
        assert_round_trip(&s);
    }
}

FED_TEST(a_few_far_apart_in_the_largest_tensor_come_back) {
    static sample s = {.index = {0, 1, 2, 1u << 16, 1u << 31, (1u << 31) + 3, UINT32_MAX - 1},
                       .k = 7,
                       .n = UINT32_MAX};
    assert_round_trip(&s);
    s = (sample){.n = UINT32_MAX};
    for (uint32_t i = 0; i < 1000; i++) {
        s.index[s.k++] = i * 4294967u + i % 7;
    }
    assert_round_trip(&s);
}

FED_TEST(a_message_cut_anywhere_is_refused) {
    static sample s;
    static uint8_t dst[CAP];
    static uint32_t index[MOST + FEDCODEC_POSITIONS_BLOCK];
    for (uint32_t seed = 0; seed < 40; seed++) {
        fill_clustered(&s, 400, 0.4, seed);
        for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT && s.k > 0; pos++) {
            uint8_t how;
            size_t whole = put_as(pos, &s, dst, sizeof dst, &how);
            for (size_t len = 0; len < whole; len++) {
                uint8_t *cut = malloc(len + (len == 0));
                memcpy(cut, dst, len);
                fed_status status;
                read_all(how, cut, len, s.k, s.n, index, &status);
                assert_fed_status(status, FED_EFORMAT);
                free(cut);
            }
        }
    }
}

FED_TEST(no_byte_may_follow) {
    static sample s;
    static uint8_t dst[CAP];
    static uint32_t index[MOST + FEDCODEC_POSITIONS_BLOCK];
    for (uint32_t seed = 0; seed < 40; seed++) {
        fill_random(&s, 200, 0.2, seed);
        for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT && s.k > 0; pos++) {
            uint8_t how;
            size_t len = put_as(pos, &s, dst, sizeof dst, &how);
            for (unsigned byte = 0; byte < 256; byte++) {
                fed_status status;
                dst[len] = (uint8_t)byte;
                read_all(how, dst, len + 1, s.k, s.n, index, &status);
                assert_fed_status(status, FED_EFORMAT);
            }
        }
    }
}

/* A changed message must be refused, or give positions that ascend and are below n. */
static void assert_refused_or_well_formed(uint8_t how, const uint8_t *src, size_t len, sample *s) {
    static sample other;
    static uint32_t index[MOST + FEDCODEC_POSITIONS_BLOCK];
    static uint8_t again[CAP];
    fed_status status;
    size_t k = read_all(how, src, len, s->k, s->n, index, &status);
    if (status != FED_OK) {
        assert_fed_status(status, FED_EFORMAT);
        return;
    }
    assert_int_equal(k, s->k);
    for (size_t i = 0; i < k; i++) {
        assert_true(index[i] < s->n && (i == 0 || index[i] > index[i - 1]));
    }
    other.k = k;
    other.n = s->n;
    memcpy(other.index, index, k * sizeof *index);
    if (how == 64) { /* golomb and rans have several messages for the same positions */
        uint8_t same;
        assert_int_equal(put_as(FEDCODEC_POS_RANGE, &other, again, sizeof again, &same), len);
        assert_memory_equal(again, src, len);
    }
}

FED_TEST(a_flipped_bit_is_refused_or_means_other_positions) {
    static sample s;
    static uint8_t dst[CAP];
    for (uint32_t seed = 0; seed < 20; seed++) {
        fill_clustered(&s, 600, 0.4, seed);
        for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT && s.k > 0; pos++) {
            uint8_t how;
            size_t len = put_as(pos, &s, dst, sizeof dst, &how);
            for (size_t bit = 0; bit < 8 * len; bit++) {
                dst[bit / 8] ^= (uint8_t)(1u << bit % 8);
                assert_refused_or_well_formed(how, dst, len, &s);
                dst[bit / 8] ^= (uint8_t)(1u << bit % 8);
            }
        }
    }
}

FED_TEST(random_bytes_are_refused_or_mean_positions) {
    static sample s;
    fed_rng rng;
    fed_rng_init(&rng, 3, 1, 4);
    for (int i = 0; i < 30000; i++) {
        uint8_t src[24];
        size_t len = fed_rng_below(&rng, sizeof src + 1);
        for (size_t k = 0; k < len; k++) {
            uint32_t bits = fed_rng_u32(&rng);
            src[k] = (uint8_t)(bits & bits >> 8);
        }
        s.k = 1 + fed_rng_below(&rng, 60);
        s.n = s.k + fed_rng_below(&rng, i % 2 == 0 ? 500 : 2000000000);
        assert_refused_or_well_formed((uint8_t)(fed_rng_below(&rng, 4) << 5 | (unsigned)(i % 9)),
                                      src, len, &s);
    }
}

FED_TEST(unknown_codes_and_parameters_are_refused) {
    static sample s = {.index = {3, 5}, .k = 2, .n = 10};
    uint8_t dst[64], how;
    uint32_t index[FEDCODEC_POSITIONS_BLOCK];
    fed_status status;
    size_t len = put_as(FEDCODEC_POS_RANGE, &s, dst, sizeof dst, &how);
    for (unsigned other = 65; other < 256; other++) {
        read_all((uint8_t)other, dst, len, s.k, s.n, index, &status);
        assert_fed_status(status, FED_EFORMAT);
    }
    len = put_as(FEDCODEC_POS_RANS, &s, dst, sizeof dst, &how);
    for (unsigned detail = FEDCODEC_RANS_DETAIL_MAX + 1; detail < 32; detail++) {
        read_all((uint8_t)(32 + detail), dst, len, s.k, s.n, index, &status);
        assert_fed_status(status, FED_EFORMAT);
    }
}

FED_TEST(too_little_room_is_said) {
    static sample s;
    static uint8_t dst[CAP];
    fill_random(&s, 3000, 0.1, 1);
    uint8_t how;
    size_t rans = put_as(FEDCODEC_POS_RANS, &s, dst, sizeof dst, &how), len = 77;
    size_t range = put_as(FEDCODEC_POS_RANGE, &s, dst, sizeof dst, &how);
    memset(dst, 0xa5, sizeof dst);
    for (size_t cap = 0; cap < rans; cap++) {
        assert_fed_status(fedcodec_rans_put(s.index, s.k, 0, dst, cap, &len), FED_ENOSPC);
        assert_int_equal(dst[cap], 0xa5);
    }
    memset(dst, 0xa5, sizeof dst);
    for (size_t cap = 0; cap < range; cap++) {
        assert_fed_status(fedcodec_range_put(s.index, s.k, s.n, dst, cap, &len), FED_ENOSPC);
        assert_int_equal(dst[cap], 0xa5);
    }
    assert_int_equal(len, 77);
}

static size_t put_len(fedcodec_pos pos, double p, sample *s) {
    static uint8_t dst[CAP];
    size_t len = 0;
    uint8_t how;
    assert_fed_ok(fedcodec_positions_put(pos, p, chosen(s), s->n, dst,
                                         fedcodec_positions_bound(p, s->n, s->k), &len, &how));
    assert_reads(s, how, dst, len);
    return len;
}

static void fill_any(sample *s, uint32_t seed, double *p) {
    fed_rng rng;
    fed_rng_init(&rng, 21, seed, 0);
    size_t n = 1 + fed_rng_below(&rng, 1u << fed_rng_below(&rng, 15));
    *p = pow(10.0, -4.0 * (double)fed_rng_float(&rng)) / 2.0;
    if (seed % 3 == 0) {
        fill_random(s, n, *p, seed);
    } else if (seed % 3 == 1) {
        fill_clustered(s, n, *p, seed);
    } else {
        fill_regular(s, n, 1 + fed_rng_below(&rng, 300));
    }
    size_t most = fedcodec_select_most(*p, n);
    s->k = s->k < most ? s->k : most;
    if (s->k == 0) {
        s->index[s->k++] = fed_rng_below(&rng, (uint32_t)n);
    }
}

FED_TEST(auto_is_the_shortest_and_never_longer_than_golomb) {
    static sample s;
    for (uint32_t seed = 0; seed < 4000; seed++) {
        double p;
        fill_any(&s, seed, &p);
        size_t golomb = put_len(FEDCODEC_POS_GOLOMB, p, &s),
               rice = put_len(FEDCODEC_POS_RICE, p, &s);
        size_t rans = put_len(FEDCODEC_POS_RANS, p, &s), range = put_len(FEDCODEC_POS_RANGE, p, &s);
        size_t shortest = put_len(FEDCODEC_POS_AUTO, p, &s);
        assert_true(rice <= golomb && rans <= rice && range <= rice);
        assert_int_equal(shortest, rans < range ? rans : range);
    }
}

/* The entropy of a position in bits, H(p) / p, for k of n positions. */
static double entropy(double k, double n) {
    double p = k / n;
    return (-p * log2(p) - (1.0 - p) * log2(1.0 - p)) / p;
}

FED_TEST(random_positions_take_their_entropy_and_one_percent) {
    static sample s;
    static uint8_t dst[CAP];
    fill_random(&s, 450000, 0.01, 9);
    double least = entropy((double)s.k, (double)s.n) * (double)s.k / 8.0;
    uint8_t how;
    assert_true((double)put_as(FEDCODEC_POS_RANS, &s, dst, sizeof dst, &how) < 1.01 * least);
    assert_true((double)put_as(FEDCODEC_POS_RANGE, &s, dst, sizeof dst, &how) < 1.01 * least);
}

FED_TEST(clustered_positions_take_half_of_golombs_bytes) {
    static sample s;
    fill_clustered(&s, 300000, 0.01, 9);
    double p = (double)s.k / (double)s.n;
    size_t golomb = put_len(FEDCODEC_POS_GOLOMB, p, &s);
    assert_true(2 * put_len(FEDCODEC_POS_RANS, p, &s) < golomb);
    assert_true(2 * put_len(FEDCODEC_POS_RANGE, p, &s) < golomb);
}
