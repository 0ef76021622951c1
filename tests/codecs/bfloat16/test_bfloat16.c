/* bfloat16: rounding to the upper half of a float32's bits, and both ends of the range. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"

FED_TEST(bytes_are_the_upper_halves) {
    const float x[4] = {1.0f, -2.0f, 0x1.fep+127f, -0.0f};
    assert_codec_message("bfloat16", x, x, 4, "\x80\x3f\x00\xc0\x7f\x7f\x00\x80", 8);
}

FED_TEST(between_two_of_them_the_even_one_is_sent) {
    const float x[4] = {1.0f + 0x1p-8f, 1.0f + 0x1.8p-7f, 0x1p-134f, -0x1.8p-133f};
    const float y[4] = {1.0f, 1.0f + 0x1p-6f, 0.0f, -0x1p-132f};
    codec_case c = codec_case_of("bfloat16", x, 4);
    assert_memory_equal(c.decoded, y, sizeof y);
    assert_true(c.residual[0] == 0x1p-8f && c.residual[2] == 0x1p-134f);
}

FED_TEST(what_would_round_to_infinity_is_the_largest) {
    const float x[2] = {FLT_MAX, -FLT_MAX};
    codec_case c = codec_case_of("bfloat16", x, 2);
    assert_true(c.decoded[0] == 0x1.fep+127f && c.decoded[1] == -0x1.fep+127f);
    assert_true(c.residual[0] == FLT_MAX - 0x1.fep+127f);
}

FED_TEST(infinity_and_nan_are_refused) {
    assert_accepts(5, "\x7f\x7f", 1);
    assert_refuses(5, "\x80\x7f", 1);
    assert_refuses(5, "\x81\xff", 1);
    assert_refuses(5, "\xff", 1);
    assert_refuses(5, "\x00\x00\x00", 1);
}
