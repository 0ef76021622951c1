/* onebit: its means, its signs, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"

FED_TEST(bytes_are_two_means_and_the_signs) {
    const float x[9] = {1.0f, -2.0f, 3.0f, 0.0f, -0.0f, -4.0f, 2.0f, 0.0f, -3.0f};
    const float y[9] = {1.0f, -3.0f, 1.0f, 1.0f, 1.0f, -3.0f, 1.0f, 1.0f, -3.0f};
    assert_codec_message("onebit", x, y, 9, "\x00\x00\x80\x3f\x00\x00\x40\xc0\x44\x80", 10);
}

FED_TEST(what_the_mean_misses_stays_owed) {
    const float x[4] = {1.0f, 5.0f, -1.0f, -2.0f}, left[4] = {-2.0f, 2.0f, 0.5f, -0.5f};
    codec_case c = codec_case_of("onebit", x, 4);
    assert_memory_equal(c.residual, left, sizeof left);
}

FED_TEST(a_mean_of_no_values_is_zero) {
    const float up[2] = {1.0f, 1.0f}, down[2] = {-1.0f, -1.0f};
    assert_codec_message("onebit", up, up, 2, "\x00\x00\x80\x3f\x00\x00\x00\x00\x00", 9);
    assert_codec_message("onebit", down, down, 2, "\x00\x00\x00\x00\x00\x00\x80\xbf\xc0", 9);
}

FED_TEST(means_of_the_largest_floats_are_finite) {
    float x[63];
    for (size_t i = 0; i < 63; i++) {
        x[i] = i % 3 ? FLT_MAX : -FLT_MAX;
    }
    codec_case c = codec_case_of("onebit", x, 63);
    assert_memory_equal(c.decoded, x, sizeof x);
}

FED_TEST(malformed_messages_are_refused) {
#define UP   "\x00\x00\x80\x3f"
#define DOWN "\x00\x00\x80\xbf"
#define NONE "\x00\x00\x00\x00"
    assert_accepts(8, UP DOWN "\x40", 2);
    assert_refuses(8, UP DOWN "\x60", 2);                 /* a one in the padding */
    assert_refuses(8, UP DOWN "\x40\x00", 2);             /* a trailing byte */
    assert_refuses(8, UP DOWN, 2);                        /* no signs */
    assert_refuses(8, UP DOWN "\x00", 2);                 /* no value is negative */
    assert_refuses(8, UP DOWN "\xc0", 2);                 /* all values are negative */
    assert_accepts(8, NONE DOWN "\x40", 2);               /* the values >= 0 have mean 0 */
    assert_refuses(8, UP NONE "\x40", 2);                 /* negative values of mean 0 */
    assert_refuses(8, UP UP "\x40", 2);                   /* negative values of positive mean */
    assert_refuses(8, DOWN DOWN "\x40", 2);               /* values >= 0 of negative mean */
    assert_refuses(8, "\x00\x00\x00\x80" DOWN "\x40", 2); /* -0 */
    assert_refuses(8, UP "\x00\x00\x00\x80\x00", 2);      /* -0 */
    assert_refuses(8, "\x00\x00\x80\x7f" DOWN "\x40", 2); /* infinity */
    assert_refuses(8, UP "\x00\x00\x80\xff\x40", 2);      /* infinity */
    assert_refuses(8, "\x00\x00\xc0\x7f" DOWN "\x40", 2); /* NaN */
    assert_refuses(8, UP "\x00\x00\xc0\xff\x40", 2);      /* NaN */
    assert_accepts(8, NONE NONE, 0);
    assert_refuses(8, UP NONE, 0);
}
