/* natural: the mean of the arriving values, its powers of two, and refused messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"

enum { NATURAL = 17, COUNT = 20000 };

FED_TEST(powers_of_two_arrive_as_they_are) {
    const float x[5] = {1.0f, -0.25f, 0.0f, 0.015625f, -0.5f};

    /* the highest power is 2^0; in four bits the levels are 7, -5, 0, 1 (2^-6) and -6 */
    assert_codec_message("natural:bits=4", x, x, 5, "\x04\x09\x7f\x7b\x01\xa0", 6);
    codec_case c = codec_case_of("natural:bits=4", x, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(c.residual[i] == 0.0f);
    }
}

/* Sends 1, x and a third value in many tensors. Returns how far the mean of the arriving x is
 * from x, in standard deviations. x lies between the powers low and high. */
static double deviation(const char *spec, float x, double low, double high) {
    double sum = 0.0, p = (fabs((double)x) - low) / (high - low);
    for (int i = 0; i < COUNT; i++) {
        const float values[3] = {1.0f, x, (float)i / COUNT};
        sum += (double)codec_case_of(spec, values, 3).decoded[1];
    }
    return fabs(sum / COUNT - (double)x) / (sqrt(p * (1.0 - p) / COUNT) * (high - low));
}

FED_TEST(the_mean_of_what_arrives_is_the_value) {
    assert_true(deviation("natural", 0.7f, 0.5, 1.0) < 4.0);
    assert_true(deviation("natural", -0.3f, 0.25, 0.5) < 4.0);
    assert_true(deviation("natural:bits=3", -0.1f, 0.0, 0.25) < 4.0); /* below the least power */
    assert_true(deviation("natural:bits=2", 0.03f, 0.0, 1.0) < 4.0);
}

FED_TEST(what_arrives_is_a_power_beside_the_value) {
    float x[60];
    for (size_t i = 0; i < 60; i++) {
        x[i] = expf((float)i - 40.0f) * (i % 3 == 0 ? -1.0f : 1.0f);
    }
    codec_case c = codec_case_of("natural", x, 60);
    for (size_t i = 0; i < 60; i++) {
        int exponent;
        assert_true(frexpf(fabsf(c.decoded[i]), &exponent) == 0.5f);
        assert_true(c.decoded[i] / x[i] > 0.5f && c.decoded[i] / x[i] < 2.0f);
    }
}

FED_TEST(denormals_become_zero_or_the_least_power) {
    float x[60];
    size_t sent = 0;
    for (size_t i = 0; i < 60; i++) {
        x[i] = FLT_MIN / 2.0f;
    }
    codec_case c = codec_case_of("natural", x, 60);
    for (size_t i = 0; i < 60; i++) {
        assert_true(c.decoded[i] == 0.0f || c.decoded[i] == FLT_MIN);
        sent += c.decoded[i] > 0.0f;
    }
    assert_in_range(sent, 15, 45); /* the mean is 30, the standard deviation 4 */
}

FED_TEST(the_seed_chooses_the_powers) {
    float x[60];
    for (size_t i = 0; i < 60; i++) {
        x[i] = cosf((float)i);
    }
    codec_case c = codec_case_of("natural:seed=5", x, 60);
    codec_case same = codec_case_of("natural:seed=5", x, 60);
    codec_case seed = codec_case_of("natural:seed=6", x, 60);
    assert_memory_equal(c.message, same.message, c.len);
    assert_memory_not_equal(c.message, seed.message, c.len);
}

FED_TEST(malformed_messages_are_refused) {
    assert_accepts(NATURAL, "\x04\x09\x7f\x70", 1);
    assert_accepts(NATURAL, "\x04\x09\x7f\x90", 1);
    assert_accepts(NATURAL, "\x04\x09\x7f\x60", 1);     /* the power below the highest one */
    assert_refuses(NATURAL, "\x04\x09\x7f\x50", 1);     /* no value of the two highest powers */
    assert_refuses(NATURAL, "\x04\x09\x7f\x80", 1);     /* -8 */
    assert_refuses(NATURAL, "\x04\x09\x7f\x71", 1);     /* a one in the padding */
    assert_refuses(NATURAL, "\x04\x09\x7f\x70\x00", 1); /* a trailing byte */
    assert_refuses(NATURAL, "\x04\x09\x7f", 1);
    assert_refuses(NATURAL, "\x01\x09\x7f\x80", 1); /* bits per level out of range */
    assert_refuses(NATURAL, "\x09\x09\x7f\x7f\x80", 1);
    assert_refuses(NATURAL, "\x04\x05\x7f\x70", 1); /* the size of a bucket out of range */
    assert_refuses(NATURAL, "\x04\x0e\x7f\x70", 1);
    assert_refuses(NATURAL, "\x04\x09\xff\x70", 1); /* infinity */
    assert_accepts(NATURAL, "\x04\x09\xfe\x70", 1);
    assert_accepts(NATURAL, "\x04\x09\x01\x10", 1);
    assert_refuses(NATURAL, "\x04\x09\x01\x20", 1); /* a level over the highest */
    assert_accepts(NATURAL, "\x04\x09\x00\x00", 1);
    assert_refuses(NATURAL, "\x04\x09\x00\x10", 1); /* a level, although the highest power is 0 */
    assert_accepts(NATURAL, "\x04\x09", 0);
    assert_refuses(NATURAL, "\x04", 0);
}
