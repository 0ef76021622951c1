/* Bits and bytes of floats, largest magnitudes, fixed point. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codecs/prim/floats.h"
#include "fed/rng.h"

FED_TEST(floats_lie_little_endian) {
    uint8_t bytes[4];
    fedcodec_store_f32(bytes, -1.5f);
    assert_memory_equal(bytes, "\x00\x00\xc0\xbf", 4);
    assert_true(fedcodec_load_f32(bytes) == -1.5f);
}

FED_TEST(the_largest_magnitude_of_either_sign) {
    const float x[] = {1.0f, -3.0f, 2.0f}, y[] = {1.5f, 3.0f, -0.25f};
    assert_true(fedcodec_scan_sum(x, NULL, 3) == 3.0f);
    assert_true(fedcodec_scan_sum(x, y, 3) == 2.5f);
    assert_true(fedcodec_scan_sum(x, NULL, 0) == 0.0f);
}

FED_TEST(nan_and_infinity_are_larger_than_all_else) {
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t at = 0; at < 37; at++) {
        for (size_t i = 0; i < 4; i++) {
            float x[37] = {1.0f}, zero[37] = {0.0f};
            x[at] = bad[i];
            assert_true(!isfinite(fedcodec_scan_sum(x, NULL, 37)));
            assert_true(!isfinite(fedcodec_scan_sum(x, zero, 37)));
            assert_true(!isfinite(fedcodec_scan_sum(zero, x, 37)));
            assert_true(!isfinite(fedcodec_scan_added(x, NULL, 37)));
            assert_true(!isfinite(fedcodec_scan_added(zero, x, 37)));
        }
    }
}

FED_TEST(a_sum_that_overflows_is_found) {
    const float residual[] = {0.0f, FLT_MAX}, large[] = {0.0f, 0x1p103f}, less[] = {0.0f, 0x1p102f};
    assert_true(!isfinite(fedcodec_scan_added(residual, large, 2)));
    assert_true(isfinite(fedcodec_scan_added(residual, less, 2)));
    assert_true(isfinite(residual[1] + 0x1.fffffep102f));
}

FED_TEST(fixed_point_rounds_ties_to_even) {
    assert_int_equal(fedcodec_fixed(0.0f), 0);
    assert_int_equal(fedcodec_fixed(16.0f), INT64_C(1) << 34);
    assert_int_equal(fedcodec_fixed(-16.0f), -(INT64_C(1) << 34));
    assert_int_equal(fedcodec_fixed(0x0.8p-30f), 0);
    assert_int_equal(fedcodec_fixed(0x1.8p-30f), 2);
    assert_int_equal(fedcodec_fixed(-0x1.8p-30f), -2);
    assert_int_equal(fedcodec_fixed(-0x2.8p-30f), -2);
    fed_rng rng;
    fed_rng_init(&rng, 11, 0, 0);
    for (int i = 0; i < 100000; i++) {
        float v = ldexpf(fed_rng_float(&rng) - 0.5f, (int)fed_rng_below(&rng, 50) - 44);
        assert_int_equal(fedcodec_fixed(v), (int64_t)rint(ldexp((double)v, 30)));
    }
}
