/* int8: its levels, its scale at both ends of the range, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"

FED_TEST(bytes_are_the_scale_and_the_levels) {
    const float x[4] = {254.0f, -254.0f, 0.0f, -2.0f};
    assert_codec_message("int8", x, x, 4, "\x00\x00\x00\x40\x7f\x81\x00\xff", 8);
}

FED_TEST(half_a_level_goes_to_the_even_one_and_stays_owed) {
    const float x[6] = {127.0f, 0.5f, 1.5f, -2.5f, 126.5f, -126.5f};
    codec_case c = codec_case_of("int8", x, 6);
    const float y[6] = {127.0f, 0.0f, 2.0f, -2.0f, 126.0f, -126.0f};
    const float left[6] = {0.0f, 0.5f, -0.5f, -0.5f, 0.5f, -0.5f};
    assert_memory_equal(c.decoded, y, sizeof y);
    assert_memory_equal(c.residual, left, sizeof left);
}

/* The rounding depends only on the mantissa of the largest value, so values from 1 to 2 are
 * enough. */
FED_TEST(the_largest_value_always_has_the_last_level) {
    for (uint32_t step = 0; step < 1u << 23; step += 97) {
        float x = 1.0f + (float)step * 0x1p-23f;
        codec_case c = codec_case_of("int8", &x, 1);
        assert_int_equal(c.message[4], 127);
    }
}

FED_TEST(zeros_and_what_is_next_to_them_are_a_scale_of_zero) {
    const float zeros[2] = {0.0f, -0.0f}, tiny[2] = {0x1p-121f, FLT_TRUE_MIN};
    assert_int_equal(codec_case_of("int8", zeros, 2).len, 4);
    codec_case c = codec_case_of("int8", tiny, 2);
    assert_memory_equal(c.message, "\0\0\0\0", c.len);
    assert_memory_equal(c.residual, tiny, sizeof tiny);
    const float least = 127.0f * FLT_MIN;
    assert_int_equal(codec_case_of("int8", &least, 1).len, 5);
}

FED_TEST(multiples_of_the_largest_scale_are_finite) {
    const float x[2] = {FLT_MAX, -FLT_MAX};
    codec_case c = codec_case_of("int8", x, 2);
    assert_true(isfinite(c.decoded[0]) && c.decoded[0] > 0.999f * FLT_MAX);
    assert_true(c.residual[0] == FLT_MAX - c.decoded[0]);
}

FED_TEST(malformed_messages_are_refused) {
    assert_accepts(6, "\x00\x00\x80\x3f\x7f", 1);
    assert_accepts(6, "\x00\x00\x80\x3f\x81", 1);
    assert_refuses(6, "\x00\x00\x80\x3f\x80", 1);     /* -128 */
    assert_refuses(6, "\x00\x00\x80\x3f\x80\x7f", 2); /* -128 beside a valid level */
    assert_refuses(6, "\x00\x00\x80\x3f\x7e", 1);     /* no value has level 127 */
    assert_refuses(6, "\x00\x00\x80\x3f", 0);         /* a scale, but no values */
    assert_refuses(6, "\x00\x00\x80\x3f\x7f\x00", 1); /* a trailing byte */
    assert_refuses(6, "\x00\x00\x80\xbf\x7f", 1);     /* a negative scale */
    assert_refuses(6, "\x00\x00\x80\x7f\x7f", 1);     /* infinity */
    assert_refuses(6, "\x00\x00\xc0\x7f\x7f", 1);     /* NaN */
    assert_refuses(6, "\x04\x02\x01\x7c\x7f", 1);     /* 127 times this scale is infinite */
    assert_accepts(6, "\x03\x02\x01\x7c\x7f", 1);     /* the largest scale that is allowed */
    assert_refuses(6, "\xff\xff\x7f\x00\x7f", 1);     /* a denormal scale */
    assert_accepts(6, "\x00\x00\x00\x00", 1);
    assert_refuses(6, "\x00\x00\x00\x80", 1);     /* -0 */
    assert_refuses(6, "\x00\x00\x00\x00\x00", 1); /* a scale of 0, followed by a level */
    assert_refuses(6, "\x00\x00\x80", 1);
    assert_refuses(6, "", 0);
}
