/* threshold: which values it sends, its bytes worked out by hand, its bound, refused messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_case.h"
#include "fed_cases.h"

enum { THRESHOLD = 19 };

FED_TEST(values_of_at_least_t_are_sent) {
    const float x[6] = {0.5f, -0.49999997f, 0.25f, -4.0f, 0.0f, 0.5f};
    const float y[6] = {0.5f, [3] = -4.0f, [5] = 0.5f};
    const float left[6] = {[1] = -0.49999997f, [2] = 0.25f};
    /* 3 of 6 values, so Golomb's b is 0; the gaps 0, 2 and 1 are the bits 0, 110 and 10; then ones
     * to the end of the byte */
    assert_codec_message("threshold:t=0.5", x, y, 6,
                         "\x03\x00\x00\x00\x00\x3f\x00\x00\x80\xc0\x00\x00\x00\x3f\x6b", 15);
    assert_memory_equal(codec_case_of("threshold:t=0.5", x, 6).residual, left, sizeof left);
}

FED_TEST(t_has_no_preset) {
    static const char *const specs[] = {"threshold", "threshold:values=int8", "threshold+entropy"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fedcodec codec;
        fed_error err = {0};
        assert_fed_status(fedcodec_parse(specs[k], &codec, &err), FED_EINVAL);
        assert_fed_says(err, "codec threshold needs t (");
        assert_fed_says(err, "such as 0.005");
    }
}

FED_TEST(nothing_large_is_one_byte) {
    const float x[5] = {0.25f, -0.125f}, y[5] = {0};
    assert_codec_message("threshold:t=0.5", x, y, 5, "\x00", 1);
}

FED_TEST(levels_of_0_are_not_sent) {
    const float x[4] = {127.0f, 0.25f, -1.0f, 0.75f}, y[4] = {127.0f, 0.0f, -1.0f, 1.0f};
    const float left[4] = {[1] = 0.25f, [3] = -0.25f};
    /* 3 of 4 values, so Golomb's b is 0; the scale 1; the levels 127, -1 and 1; the gaps 0, 1 and 0
     * are the bits 0, 10 and 0 */
    assert_codec_message("threshold:t=0.125,values=int8", x, y, 4,
                         "\x03\x62\x00\x00\x00\x80\x3f\x7f\xff\x01\x4f", 11);
    codec_case c = codec_case_of("threshold:t=0.125,values=int8", x, 4);
    assert_memory_equal(c.residual, left, sizeof left);
}

FED_TEST(all_values_take_no_more_than_the_bound) {
    enum { N = 64 };
    static const char *const specs[] = {"threshold:t=0.001", "threshold:t=0.001,values=bfloat16",
                                        "threshold:t=0.001,values=int8"};
    static const size_t most[] = {1 + 1 + 4 * N + N / 4, 1 + 2 + 2 * N + N / 4,
                                  1 + 2 + 4 + N + N / 4};
    float x[N];
    for (size_t i = 0; i < N; i++) {
        x[i] = 1.0f;
    }
    for (size_t k = 0; k < 3; k++) {
        fedcodec codec;
        assert_fed_ok(fedcodec_parse(specs[k], &codec, NULL));
        assert_int_equal(fedcodec_bound(&codec, N), most[k]);
        assert_int_equal(codec_case_of(specs[k], x, N).len, most[k] - N / 8);
    }
}

FED_TEST(malformed_messages_are_refused) {
    assert_accepts(THRESHOLD, "\x01\x00\x00\x00\x80\xbf\x7f", 1);
    /* two positions, but the tensor has one value */
    assert_refuses(THRESHOLD, "\x02\x00\x00\x00\x80\x3f\x00\x00\x80\x3f\x3f", 1);
    assert_refuses(THRESHOLD, "\x01\x00\x00\x00\x00\x00\x7f", 1); /* a value of 0 */
    /* an unknown form of values */
    assert_refuses(THRESHOLD, "\x01\x60\x00\x00\x00\x80\x3f\x7f", 1);
    assert_refuses(THRESHOLD, "\x00\x61", 1); /* a form of values, but no values */
}
