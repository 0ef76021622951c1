/* stoch3: the mean of the arriving values, its random numbers, and refused messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_case.h"
#include "fed/rng.h"

FED_TEST(the_largest_values_are_always_sent_and_zeros_never) {
    const float x[7] = {2.0f, 0.0f, -2.0f, 2.0f, -0.0f, 0.0f, -2.0f}, left[7] = {0.0f};
    const float y[7] = {2.0f, 0.0f, -2.0f, 2.0f, 0.0f, 0.0f, -2.0f};

    /* two bytes of base-3 digits: 2 0 1 0 1 and 1 2 1 1 1 */
    assert_codec_message("stoch3", x, y, 7, "\x00\x00\x00\x40\xac\x94", 6);
    codec_case c = codec_case_of("stoch3", x, 7);
    assert_memory_equal(c.residual, left, sizeof left);
}

enum { COUNT = 20000 };

/* Sends 1, x and a third value in many tensors. Returns the mean of the arriving x. */
static double mean_sent(float x) {
    double sum = 0.0;
    for (int i = 0; i < COUNT; i++) {
        const float values[3] = {1.0f, x, (float)i / COUNT};
        sum += (double)codec_case_of("stoch3", values, 3).decoded[1];
    }
    return sum / COUNT;
}

FED_TEST(the_mean_of_what_is_sent_is_the_value) {
    static const float values[] = {0.5f, -0.1f, 0.003f, -0.9f};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        double p = fabs((double)values[i]);
        double deviation = sqrt(p * (1.0 - p) / COUNT);
        assert_true(fabs(mean_sent(values[i]) - (double)values[i]) < 4.0 * deviation);
    }
}

FED_TEST(random_numbers_depend_on_the_seed_and_on_the_values_alone) {
    float x[60], other[60];
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    for (size_t i = 0; i < 60; i++) {
        x[i] = other[i] = fed_rng_float(&rng) - 0.5f;
    }
    other[7] = nextafterf(other[7], 1.0f);
    codec_case c = codec_case_of("stoch3:seed=5", x, 60),
               same = codec_case_of("stoch3:seed=5", x, 60);
    codec_case seed = codec_case_of("stoch3:seed=6", x, 60);
    codec_case value = codec_case_of("stoch3:seed=5", other, 60);
    assert_memory_equal(c.message, same.message, c.len);
    assert_memory_not_equal(c.message + 4, seed.message + 4, c.len - 4);
    assert_memory_not_equal(c.message + 4, value.message + 4, c.len - 4);
}

FED_TEST(a_seed_is_a_whole_number) {
    fedcodec codec;
    fed_error err;
    assert_fed_ok(fedcodec_parse("stoch3:seed=4294967295", &codec, &err));
    assert_fed_status(fedcodec_parse("stoch3:seed=1.5", &codec, &err), FED_EINVAL);
    assert_fed_status(fedcodec_parse("stoch3:seed=4294967296", &codec, &err), FED_EINVAL);
}

FED_TEST(malformed_messages_are_refused) {
    assert_accepts(7, "\x00\x00\x80\x3f\x28", 1); /* -1: digits 0 1 1 1 1 */
    assert_refuses(7, "\x00\x00\x80\x3f\x79", 1); /* no value is sent */
    assert_refuses(7, "\x00\x00\x80\x3f\x29", 4); /* a digit 2 past the fourth value */
    assert_accepts(7, "\x00\x00\x80\x3f\x29", 5);
    assert_refuses(7, "\x00\x00\x80\x3f\xf3", 5);     /* the byte 243, which no five digits have */
    assert_refuses(7, "\x00\x00\x80\x3f\x28\x79", 1); /* a trailing byte */
    assert_refuses(7, "\x00\x00\x80\x3f", 1);
    assert_refuses(7, "\x00\x00\x80\xbf\x28", 1); /* a negative magnitude */
    assert_refuses(7, "\x00\x00\x80\x7f\x28", 1); /* infinity */
    assert_refuses(7, "\x00\x00\xc0\x7f\x28", 1); /* NaN */
    assert_accepts(7, "\x00\x00\x00\x00", 1);
    assert_refuses(7, "\x00\x00\x00\x80", 1);     /* -0 */
    assert_refuses(7, "\x00\x00\x00\x00\x79", 1); /* digits with a magnitude of 0 */
    assert_refuses(7, "", 0);
}
