/* sbc: which values it sends, its bytes worked out by hand, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_case.h"
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "fed/rng.h"
#include "fedcodec/codec.h"

enum { SBC = 3 };

static fed_status decode(const void *src, size_t len, float *y, size_t n) {
    return fedcodec_decode(fedcodec_by_id(SBC), src, len, y, n);
}

static void assert_sends(const char *spec, const float *x, const float *sent, size_t n) {
    float residual[64], y[64];
    uint8_t dst[256];
    memcpy(residual, x, n * sizeof *x);
    size_t len = codec_case_encode(spec, residual, n, dst, sizeof dst);
    assert_fed_ok(decode(dst, len, y, n));
    assert_memory_equal(y, sent, n * sizeof *y);
}

FED_TEST(bytes_are_count_b_mean_and_gaps) {
    float x[20] = {[2] = 4.0f, [3] = 0.5f, [9] = -1.0f, [17] = 2.0f};
    uint8_t dst[64];
    assert_int_equal(codec_case_encode("sbc:p=0.1", x, 20, dst, sizeof dst), 8);
    /* The count of positions, 2; Golomb's parameter b, 3; the mean 3; the gaps 2 (bits 0 010)
     * and 14 (bits 10 110); ones to the end of the byte. */
    assert_memory_equal(dst, "\x02\x03\x00\x00\x40\x40\x2b\x7f", 7);
    assert_int_equal(dst[7], 0x7f);
    assert_true(x[2] == 1.0f && x[3] == 0.5f && x[9] == -1.0f && x[17] == -1.0f);
}

FED_TEST(the_side_of_larger_mean_wins_and_a_tie_is_positive) {
    assert_sends("sbc:p=0.25", (float[8]){3.0f, 1.0f, -2.0f, -2.5f},
                 (float[8]){0.0f, 0.0f, -2.25f, -2.25f}, 8);
    assert_sends("sbc:p=0.25", (float[8]){3.0f, 1.0f, -2.0f, -2.0f},
                 (float[8]){2.0f, 2.0f, 0.0f, 0.0f}, 8);
}

FED_TEST(of_equal_values_the_first_are_sent) {
    float x[20], sent[20] = {1.0f, 1.0f};
    for (size_t i = 0; i < 20; i++) {
        x[i] = 1.0f;
    }
    assert_sends("sbc:p=0.1", x, sent, 20);
}

FED_TEST(fewer_than_k_of_a_sign_are_all_sent) {
    assert_sends("sbc:p=0.5", (float[8]){[5] = 4.0f, [6] = -1.0f}, (float[8]){[5] = 4.0f}, 8);
}

FED_TEST(one_value_is_sent_however_small_p_is) {
    assert_sends("sbc:p=0.000001", (float[8]){0.5f, 1.0f, -2.0f}, (float[8]){[2] = -2.0f}, 8);
}

FED_TEST(zeros_are_one_byte) {
    float x[1000] = {[3] = -0.0f}, y[1000];
    uint8_t dst[256];
    assert_int_equal(codec_case_encode("sbc:p=0.1", x, 1000, dst, sizeof dst), 1);
    assert_int_equal(dst[0], 0);
    assert_fed_ok(decode(dst, 1, y, 1000));
    assert_true(y[3] == 0.0f);
}

FED_TEST(a_mean_of_the_largest_floats_is_finite) {
    float x[64], y[64];
    uint8_t dst[256];
    for (size_t i = 0; i < 64; i++) {
        x[i] = -FLT_MAX;
    }
    size_t len = codec_case_encode("sbc:p=0.5", x, 64, dst, sizeof dst);
    assert_fed_ok(decode(dst, len, y, 64));
    assert_true(y[0] == -FLT_MAX && x[0] == 0.0f);
}

/* A tensor with as many values as LeNet5-Caffe has. */
FED_TEST(size_is_near_the_papers_formula) {
    enum { N = 431080 };
    float *x = malloc(N * sizeof *x);
    uint8_t *dst = malloc(N);
    assert_true(x != NULL && dst != NULL);
    fed_rng rng;
    fed_rng_init(&rng, 8, 0, 0);
    for (size_t i = 0; i < N; i++) {
        x[i] = fed_rng_float(&rng) + fed_rng_float(&rng) - fed_rng_float(&rng) * 2.0f;
    }
    double bits = 8.0 * (double)codec_case_encode("sbc:p=0.01", x, N, dst, N);
    double formula = 6.0 + 1.0 / (1.0 - pow(0.99, 64.0)); /* the paper's equation 8, b* = 6 */
    assert_true(bits < 1.01 * formula * 4311.0 + 64.0);
    free(x);
    free(dst);
}

FED_TEST(malformed_messages_are_refused) {
    float y[32];
    assert_fed_ok(decode("\x01\x00\x00\x00\x80\x3f\x7f", 7, y, 1)); /* position 0, then ones */
    assert_refuses(SBC, "\x02\x00\x00\x00\x80\x3f\x3f", 1);         /* two positions, one value */
    assert_refuses(SBC, "\x81\x00\x00\x00\x00\x80\x3f\x7f", 1);     /* the count 1 in two bytes */
    assert_refuses(SBC, "\x01\x20\x00\x00\x80\x3f\x7f", 1);
    assert_refuses(SBC, "\x01\x00\x00\x00\x00\x00\x7f", 1);     /* a mean of 0 */
    assert_refuses(SBC, "\x01\x00\x00\x00\x00\x80\x7f", 1);     /* a mean of -0 */
    assert_refuses(SBC, "\x01\x00\x00\x00\x80\x7f\x7f", 1);     /* infinity */
    assert_refuses(SBC, "\x01\x00\x00\x00\xc0\x7f\x7f", 1);     /* NaN */
    assert_refuses(SBC, "\x01\x00\x00\x00\x80\x3f\xbf", 1);     /* position 1 is past the end */
    assert_refuses(SBC, "\x01\x00\x00\x00\x80\x3f\x7e", 1);     /* a zero in the padding */
    assert_refuses(SBC, "\x01\x00\x00\x00\x80\x3f\x7f\xff", 1); /* a whole byte of padding */
    assert_refuses(SBC, "\x00\xff", 1);                         /* bytes after the message */
    assert_refuses(SBC, "", 1);
    assert_refuses(SBC, "\x01", 1);
}
