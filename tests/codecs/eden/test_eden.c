/* eden with p = 1: the error and mean of the arriving values, numbers of bits, and refused
 * messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_case.h"
#include "codecs/eden/rotation.h"

enum { EDEN = 18 };

FED_TEST(a_rotation_is_its_own_inverse) {
    for (size_t n = EDEN_LANES; n <= 1024; n *= 2) {
        float v[1024];
        for (size_t i = 0; i < n; i++) {
            v[i] = (float)(i * 7 % 31) - 15.0f;
        }
        eden_signs signs;
        eden_signs_draw(&signs, 5, 0, 1024, n);
        eden_negate(&signs, v, n);
        eden_rotate(v, n);
        eden_rotate(v, n);
        eden_negate(&signs, v, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(v[i] == (float)n * ((float)(i * 7 % 31) - 15.0f));
        }
    }
}

/* The sign of a value depends only on its place in the whole array. */
FED_TEST(signs_belong_to_places) {
    enum { N = 992, LATER = 96 };
    float all[N], some[N - LATER], minus = 0.0f;
    for (size_t i = 0; i < N; i++) {
        all[i] = 1.0f;
    }
    memcpy(some, all, sizeof some);
    eden_signs signs;
    eden_signs_draw(&signs, 9, 1, 0, N);
    eden_negate(&signs, all, N);
    eden_signs_draw(&signs, 9, 1, LATER, N - LATER);
    eden_negate(&signs, some, N - LATER);
    assert_memory_equal(some, all + LATER, sizeof some);
    for (size_t i = 0; i < N; i++) {
        minus += all[i] < 0.0f;
    }
    assert_true(minus > 496.0f - 80.0f && minus < 496.0f + 80.0f); /* five standard deviations */
}

static double square(float v) {
    return (double)v * (double)v;
}

/* The papers' error is 1 / (1 - D) - 1, where D is the quantizer's distortion for a normal
 * distribution. */
FED_TEST(the_error_is_what_the_papers_say) {
    static const double distortion[4] = {0.3634, 0.1175, 0.03454, 0.009497};
    static const char *const specs[4] = {"eden", "eden:bits=2", "eden:bits=3", "eden:bits=4"};
    for (size_t k = 0; k < 4; k++) {
        double expected = 1.0 / (1.0 - distortion[k]) - 1.0;
        assert_true(fabs(codec_case_error(specs[k]) / expected - 1.0) < 0.03);
    }
}

FED_TEST(the_mean_of_what_arrives_is_the_value) {
    enum { N = 60, TIMES = 4000 };
    float x[N];
    double mean[N] = {0.0}, error = 0.0, whole = 0.0;
    for (size_t i = 0; i < N; i++) {
        x[i] = sinf((float)i) / (float)(1 + i % 7);
        whole += square(x[i]);
    }
    for (int k = 1; k <= TIMES; k++) {
        char spec[64];
        snprintf(spec, sizeof spec, "eden:seed=%d", k);
        codec_case c = codec_case_of(spec, x, N);
        for (size_t i = 0; i < N; i++) {
            mean[i] += (double)c.decoded[i] / TIMES;
        }
    }
    for (size_t i = 0; i < N; i++) {
        error += (mean[i] - (double)x[i]) * (mean[i] - (double)x[i]);
    }
    assert_true(error / whole < 0.002);
}

FED_TEST(a_value_alone_arrives_as_it_is) {
    static const float values[] = {-2.5f, 1e-30f, 7.0f};
    for (size_t i = 0; i < 3; i++) {
        codec_case c = codec_case_of("eden", &values[i], 1);
        assert_int_equal(c.len, 6 + 4 + 1);
        assert_true(c.decoded[0] == values[i] && c.residual[0] == 0.0f);
    }
}

FED_TEST(malformed_messages_are_refused) {
    assert_accepts(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x80\x3f\xa5", 1);
    assert_accepts(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x80\x3f\xa5", 8);
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x80\x3f\xa5", 9);
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x80\x3f\xa5\x00", 8);
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x80\x3f", 1);
    assert_refuses(EDEN, "\x00\x0a\x01\x02\x03\x04\x00\x00\x80\x3f", 1); /* 0 bits per value */
    assert_refuses(EDEN, "\x05\x0a\x01\x02\x03\x04\x00\x00\x80\x3f\x01\x02\x03\x04\x05", 1);
    /* the size of a block is out of range */
    assert_refuses(EDEN, "\x01\x05\x01\x02\x03\x04\x00\x00\x80\x3f\xa5", 1);
    assert_refuses(EDEN, "\x01\x0b\x01\x02\x03\x04\x00\x00\x80\x3f\xa5", 1);
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x80\xbf\xa5", 1); /* a negative scale */
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\xc0\x7f\xa5", 1); /* NaN */
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x40\x00\xa5", 1); /* a denormal scale */
    assert_accepts(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x80\x77\xa5", 1);
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x01\x00\x80\x77\xa5", 1);
    assert_accepts(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x00\x00\x00", 1);
    /* a code other than 0, although the scale is 0 */
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x00\x00\x01", 1);
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03\x04\x00\x00\x00\x80\x00", 1); /* -0 */
    assert_accepts(EDEN, "\x01\x0a\x01\x02\x03\x04", 0);
    assert_refuses(EDEN, "\x01\x0a\x01\x02\x03", 0);
    assert_accepts(EDEN, "\x09\x0a\x01\x02\x03\x04\x00\x00\x80\x75\xa5", 8); /* rotated twice */
    assert_refuses(EDEN, "\x09\x0a\x01\x02\x03\x04\x01\x00\x80\x76\xa5", 8);
    assert_refuses(EDEN, "\x21\x0a\x01\x02\x03\x04\x00\x00\x80\x3f\xa5", 8); /* one scale */
    assert_refuses(EDEN, "\x41\x0a\x01\x02\x03\x04\x00\x00\x80\x3f\xa5", 8); /* a flag of 64 */
}
