/* Golomb coding: its parameter, its bits, its limits, and its size compared with the entropy. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codecs/prim/golomb.h"
#include "fed/rng.h"

FED_TEST(b_is_the_papers) {
    assert_int_equal(fedcodec_golomb_b(0.001), 9);
    assert_int_equal(fedcodec_golomb_b(0.01), 6);
    assert_int_equal(fedcodec_golomb_b(0.1), 3);
    assert_int_equal(fedcodec_golomb_b(0.5), 0);
    assert_int_equal(fedcodec_golomb_b(0.99), 0);
    assert_int_equal(fedcodec_golomb_b(1e-6), 19);
    assert_int_equal(fedcodec_golomb_b(1e-12), 31);
}

FED_TEST(bits_are_those_of_algorithm_3) {
    uint8_t dst[4];
    size_t len = 0;
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst, sizeof dst);
    fedcodec_golomb_put(&w, 0, 2);  /* 0 00 */
    fedcodec_golomb_put(&w, 7, 2);  /* 10 11 */
    fedcodec_golomb_put(&w, 13, 2); /* 1110 01 */
    assert_fed_ok(fed_bit_writer_finish(&w, &len));
    assert_int_equal(len, 2);
    assert_int_equal(dst[0], 0x17);
    assert_int_equal(dst[1], 0xcf); /* 110 01, and three ones to fill the byte */
}

static void assert_round_trip(const uint32_t *position, size_t k, size_t n, unsigned b) {
    size_t cap = fedcodec_golomb_bound(n, k, b), len = 0;
    uint8_t *dst = malloc(cap + 1);
    assert_non_null(dst);
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst, cap);
    uint32_t next = 0;
    for (size_t i = 0; i < k; i++) {
        fedcodec_golomb_put(&w, position[i] - next, b);
        next = position[i] + 1;
    }
    assert_fed_ok(fed_bit_writer_finish(&w, &len));
    fedcodec_golomb_reader r;
    fedcodec_golomb_start(&r, dst, len, n, b);
    for (size_t i = 0; i < k; i++) {
        assert_int_equal(fedcodec_golomb_next(&r), position[i]);
    }
    assert_fed_ok(fed_bit_reader_end(&r.bits));
    free(dst);
}

FED_TEST(any_parameter_carries_any_positions) {
    static const uint32_t dense[] = {0, 1, 2, 3, 4, 5, 6, 7}, ends[] = {0, 99999}, last[] = {99999};
    for (unsigned b = 0; b <= FEDCODEC_GOLOMB_B_MAX; b++) {
        assert_round_trip(dense, 8, 8, b);
        assert_round_trip(ends, 2, 100000, b);
        assert_round_trip(last, 1, 100000, b);
    }
}

FED_TEST(positions_up_to_the_largest_tensor) {
    static const uint32_t far[] = {0, 1u << 31, UINT32_MAX - 1};
    for (unsigned b = 16; b <= FEDCODEC_GOLOMB_B_MAX; b++) {
        assert_round_trip(far, 3, UINT32_MAX, b);
    }
}

FED_TEST(a_position_past_the_end_is_refused_for_good) {
    const uint8_t src[] = {0x50, 0x00}; /* b = 3: 0 101 is position 5, then 0 000 is 6 */
    fedcodec_golomb_reader r;
    fedcodec_golomb_start(&r, src, sizeof src, 7, 3);
    assert_int_equal(fedcodec_golomb_next(&r), 5);
    assert_int_equal(fedcodec_golomb_next(&r), 6);
    assert_fed_ok(r.bits.status);
    assert_int_equal(fedcodec_golomb_next(&r), 7);
    assert_fed_status(r.bits.status, FED_EFORMAT);
    fedcodec_golomb_start(&r, src, sizeof src, 5, 3);
    assert_int_equal(fedcodec_golomb_next(&r), 5);
    assert_fed_status(r.bits.status, FED_EFORMAT);
    assert_int_equal(fedcodec_golomb_next(&r), 5);
}

FED_TEST(endless_ones_are_refused) {
    uint8_t src[64];
    memset(src, 0xff, sizeof src);
    for (unsigned b = 0; b <= FEDCODEC_GOLOMB_B_MAX; b++) {
        fedcodec_golomb_reader r;
        fedcodec_golomb_start(&r, src, sizeof src, UINT32_MAX, b);
        assert_int_equal(fedcodec_golomb_next(&r), UINT32_MAX);
        assert_fed_status(r.bits.status, FED_EFORMAT);
    }
}

static double measure_bits(double p) {
    enum { N = 4000000 };
    static uint8_t dst[1000000];
    fed_rng rng;
    fed_rng_init(&rng, 2024, (uint32_t)(1.0 / p), 0);
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst, sizeof dst);
    unsigned b = fedcodec_golomb_b(p);
    uint32_t next = 0, limit = (uint32_t)(p * 4294967296.0);
    double count = 0.0;
    for (uint32_t i = 0; i < N; i++) {
        if (fed_rng_u32(&rng) < limit) {
            fedcodec_golomb_put(&w, i - next, b);
            next = i + 1;
            count += 1.0;
        }
    }
    size_t len = 0;
    assert_fed_ok(fed_bit_writer_finish(&w, &len));
    return 8.0 * (double)len / count;
}

FED_TEST(within_one_percent_of_the_entropy) {
    static const double ps[] = {0.01, 0.001};
    for (size_t i = 0; i < 2; i++) {
        double p = ps[i];
        double entropy = (-p * log2(p) - (1.0 - p) * log2(1.0 - p)) / p;
        double bits = measure_bits(p);
        /* Below 0.98, the random positions would be wrong. */
        if (!(bits < 1.01 * entropy && bits > 0.98 * entropy)) {
            fail_msg("p=%g: %.4f bits a position, the entropy is %.4f", p, bits, entropy);
        }
    }
}
