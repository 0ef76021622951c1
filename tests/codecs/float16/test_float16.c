/* float16: every value of 16 bits, rounding, and both ends of the range. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"

FED_TEST(bytes_are_halves) {
    const float x[4] = {1.0f, -2.0f, 65504.0f, -0.0f};
    assert_codec_message("float16", x, x, 4, "\x00\x3c\x00\xc0\xff\x7b\x00\x80", 8);
}

FED_TEST(every_half_comes_back) {
    fedcodec codec;
    size_t len = 0;
    uint8_t half[2], again[2];
    float v;
    assert_fed_ok(fedcodec_parse("float16", &codec, NULL));
    for (unsigned bits = 0; bits < 65536; bits++) {
        if ((bits & 0x7c00) == 0x7c00) {
            continue; /* infinities and NaN */
        }
        half[0] = (uint8_t)bits;
        half[1] = (uint8_t)(bits >> 8);
        assert_fed_ok(fedcodec_decode(codec.vtable, half, 2, &v, 1));
        double magnitude = bits & 0x7c00 ? ldexp(1024 + (bits & 1023), (int)(bits >> 10 & 31) - 25)
                                         : ldexp(bits & 1023, -24);
        assert_true((double)fabsf(v) == magnitude && (signbit(v) != 0) == (bits >> 15));
        assert_fed_ok(fedcodec_encode(&codec, &v, NULL, 1, NULL, again, 2, &len));
        assert_true(memcmp(half, again, 2) == 0 && v == 0.0f);
    }
}

FED_TEST(between_two_halves_the_even_one_is_sent) {
    const float x[6] = {1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f, 0x1p-25f,
                        0x1.8p-24f,      0x1.8p-25f,        -0x1.002p-14f};
    const float y[6] = {1.0f, 1.0f + 0x1p-9f, 0.0f, 0x1p-23f, 0x1p-24f, -0x1p-14f};
    codec_case c = codec_case_of("float16", x, 6);
    assert_memory_equal(c.decoded, y, sizeof y);
    assert_true(c.residual[0] == 0x1p-11f && c.residual[2] == 0x1p-25f);
}

FED_TEST(what_is_past_the_largest_half_stays_owed) {
    const float x[3] = {65519.0f, -65520.0f, FLT_MAX};
    codec_case c = codec_case_of("float16", x, 3);
    assert_true(c.decoded[0] == 65504.0f && c.decoded[1] == -65504.0f && c.decoded[2] == 65504.0f);
    assert_true(c.residual[0] == 15.0f && c.residual[1] == -16.0f);
    assert_true(c.residual[2] == FLT_MAX - 65504.0f);
}

FED_TEST(infinity_and_nan_are_refused) {
    assert_accepts(4, "\xff\x7b", 1);
    assert_refuses(4, "\x00\x7c", 1);
    assert_refuses(4, "\x01\xfc", 1);
    assert_refuses(4, "\xff", 1);
    assert_refuses(4, "\x00\x00\x00", 1);
}
