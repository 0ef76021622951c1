/* qsgd: the mean of the values that arrive, its buckets, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_case.h"

enum { QSGD = 16, COUNT = 20000 };

FED_TEST(multiples_of_the_scale_arrive_as_they_are) {
    const float x[5] = {7.0f, -3.0f, 0.0f, 1.0f, -7.0f};

    /* a scale of 1; levels 7, -3, 0, 1 and -7 in four bits each */
    assert_codec_message("qsgd", x, x, 5, "\x04\x09\x00\x00\x80\x3f\x7d\x01\x90", 9);
    codec_case c = codec_case_of("qsgd", x, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(c.residual[i] == 0.0f);
    }
}

/* Sends 1, x and a third value in many tensors. Returns how far the mean of the arriving x is
 * from x, in standard deviations. Levels are 1 / s apart. */
static double deviation(const char *spec, float x, double s) {
    double sum = 0.0, a = fabs((double)x) * s, p = a - floor(a);
    for (int i = 0; i < COUNT; i++) {
        const float values[3] = {1.0f, x, (float)i / COUNT};
        sum += (double)codec_case_of(spec, values, 3).decoded[1];
    }
    return fabs(sum / COUNT - (double)x) / (sqrt(p * (1.0 - p) / COUNT) / s);
}

FED_TEST(the_mean_of_what_arrives_is_the_value) {
    static const float values[] = {0.5f, -0.1f, 0.003f, -0.9f};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_true(deviation("qsgd:bits=2", values[i], 1.0) < 4.0);
        assert_true(deviation("qsgd:bits=4", values[i], 7.0) < 4.0);
        assert_true(deviation("qsgd:bits=8", values[i], 127.0) < 4.0);
    }
}

FED_TEST(no_value_moves_by_a_level_or_more) {
    float x[60];
    for (size_t i = 0; i < 60; i++) {
        x[i] = sinf((float)i) * 3.0f;
    }
    codec_case c = codec_case_of("qsgd:bits=5", x, 60);
    for (size_t i = 0; i < 60; i++) {
        assert_true(fabsf(c.decoded[i] - x[i]) < 3.0f / 15.0f);
    }
}

FED_TEST(a_bucket_has_a_scale_of_its_own) {
    enum { N = 128 };
    float x[N], y[N];
    uint8_t message[CODEC_CASE_BYTES];
    for (size_t i = 0; i < N; i++) {
        x[i] = (i % 2 == 0 ? 1.0f : -1.0f) * (i < N / 2 ? 1000.0f : 0.001f);
    }
    memcpy(y, x, sizeof y);
    size_t len = codec_case_encode("qsgd:bits=2,bucket=64", x, N, message, sizeof message);
    memcpy(x, y, sizeof x);
    assert_int_equal(len, 2 + 2 * 4 + N / 4);
    assert_fed_ok(fedcodec_decode(fedcodec_by_id(QSGD), message, len, y, N));
    assert_memory_equal(y, x, sizeof y);
}

FED_TEST(the_seed_and_the_values_choose_the_levels) {
    float x[60], other[60];
    for (size_t i = 0; i < 60; i++) {
        x[i] = other[i] = cosf((float)i);
    }
    other[7] = nextafterf(other[7], 1.0f);
    codec_case c = codec_case_of("qsgd:seed=5", x, 60), same = codec_case_of("qsgd:seed=5", x, 60);
    codec_case seed = codec_case_of("qsgd:seed=6", x, 60);
    codec_case value = codec_case_of("qsgd:seed=5", other, 60);
    assert_memory_equal(c.message, same.message, c.len);
    assert_memory_not_equal(c.message, seed.message, c.len);
    assert_memory_not_equal(c.message, value.message, c.len);
}

FED_TEST(a_bucket_is_one_of_some_powers_of_two) {
    fedcodec codec;
    fed_error err;
    assert_fed_ok(fedcodec_parse("qsgd:bits=8,bucket=8192,seed=4294967295+entropy", &codec, &err));
    assert_fed_status(fedcodec_parse("qsgd:bucket=100", &codec, &err), FED_EINVAL);
    assert_fed_says(err, "64, 128, 256, 512, 1024, 2048, 4096, 8192");
    assert_fed_status(fedcodec_parse("qsgd:bits=9", &codec, &err), FED_EINVAL);
    assert_fed_status(fedcodec_parse("qsgd:bits=3.5", &codec, &err), FED_EINVAL);
}

FED_TEST(malformed_messages_are_refused) {
    assert_accepts(QSGD, "\x04\x09\x00\x00\x80\x3f\x70", 1);
    assert_accepts(QSGD, "\x04\x09\x00\x00\x80\x3f\x90", 1); /* -7 */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x80\x3f\x80", 1); /* -8 */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x80\x3f\x60", 1); /* no value has the largest level */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x80\x3f\x71", 1); /* a one in the padding */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x80\x3f\x70\x00", 1); /* a trailing byte */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x80\x3f", 1);
    assert_refuses(QSGD, "\x01\x09\x00\x00\x80\x3f\x80", 1); /* bits per level out of range */
    assert_refuses(QSGD, "\x09\x09\x00\x00\x80\x3f\x7f\x80", 1);
    assert_refuses(QSGD, "\x04\x05\x00\x00\x80\x3f\x70", 1); /* the size of a bucket out of range */
    assert_refuses(QSGD, "\x04\x0e\x00\x00\x80\x3f\x70", 1);
    assert_refuses(QSGD, "\x04\x09\x00\x00\x80\xbf\x70", 1); /* a negative scale */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x80\x7f\x70", 1); /* infinity */
    assert_refuses(QSGD, "\x04\x09\x00\x00\xc0\x7f\x70", 1); /* NaN */
    assert_refuses(QSGD, "\x04\x09\xff\xff\x7f\x7f\x70", 1); /* 7 times this scale is infinite */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x40\x00\x70", 1); /* a denormal scale */
    assert_accepts(QSGD, "\x04\x09\x00\x00\x00\x00\x00", 1);
    assert_refuses(QSGD, "\x04\x09\x00\x00\x00\x00\x10", 1); /* a level, but a scale of 0 */
    assert_refuses(QSGD, "\x04\x09\x00\x00\x00\x80\x00", 1); /* a scale of -0 */
    assert_accepts(QSGD, "\x04\x09", 0);
    assert_refuses(QSGD, "\x04", 0);
}
