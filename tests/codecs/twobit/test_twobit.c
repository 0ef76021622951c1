/* twobit: its threshold, the order of its bits, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_case.h"

FED_TEST(bytes_are_the_threshold_and_four_codes_each) {
    const float x[6] = {1.5f, -1.0f, 0.5f, -0.25f, 0.0f, 7.0f};
    const float y[6] = {1.0f, -1.0f, 0.0f, 0.0f, 0.0f, 1.0f};
    /* the codes 11 10 00 00, then 00 11 and padding */
    assert_codec_message("twobit:t=1", x, y, 6, "\x00\x00\x80\x3f\xe0\x30", 6);
}

FED_TEST(just_the_threshold_is_sent) {
    float t = 0.1f, below = nextafterf(t, 0.0f);
    const float x[4] = {t, below, -t, -below}, y[4] = {t, 0.0f, -t, 0.0f};
    codec_case c = codec_case_of("twobit:t=0.1", x, 4);
    assert_memory_equal(c.decoded, y, sizeof y);
}

FED_TEST(what_is_more_or_less_than_the_threshold_stays_owed) {
    const float x[4] = {2.0f, 0.25f, -0.75f, -0.0f}, left[4] = {1.5f, 0.25f, -0.25f, -0.0f};
    codec_case c = codec_case_of("twobit", x, 4);
    assert_memory_equal(c.residual, left, sizeof left);
}

FED_TEST(malformed_messages_are_refused) {
#define T "\x00\x00\x00\x3f"
    assert_accepts(12, T "\xb0", 2);
    assert_refuses(12, T "\x70", 2);     /* code 01, which is not used */
    assert_refuses(12, T "\xb1", 4);     /* code 01 as the last one */
    assert_refuses(12, T "\xb8", 2);     /* a one in the padding */
    assert_refuses(12, T "\xb0\x00", 2); /* a trailing byte */
    assert_refuses(12, T, 2);
    assert_refuses(12, "\x00\x00\x00\x00\x00", 2); /* t = 0 */
    assert_refuses(12, "\x00\x00\x00\xbf\xb0", 2); /* a negative threshold */
    assert_refuses(12, "\x00\x00\x80\x7f\xb0", 2); /* infinity */
    assert_refuses(12, "\x00\x00\xc0\x7f\xb0", 2); /* NaN */
    assert_accepts(12, T, 0);
    assert_refuses(12, "", 0);
}

FED_TEST(a_threshold_that_no_value_has_is_folded_as_nothing) {
    int64_t acc[4] = {1, -2, 3, -4};
    const int64_t before[4] = {1, -2, 3, -4};
    fedcodec codec;
    assert_fed_ok(fedcodec_parse("twobit", &codec, NULL));
    assert_fed_ok(
        fedcodec_fold(codec.vtable, (const uint8_t *)"\xca\xf2\x49\x71\x00", 5, 1000, acc, 4));
    assert_memory_equal(acc, before, sizeof acc);
}
