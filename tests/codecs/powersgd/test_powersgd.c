/* powersgd: what a product of low rank can send, tensors sent as they are, refused messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"
#include "fed/rng.h"

enum {
    POWERSGD = 20,
    ROWS = 60,
    COLUMNS = 100,
    N = ROWS * COLUMNS,
    CAP = 4 * N + 1,
    AS_IT_IS = 255
};

/* Fill x with a matrix that is the sum of `rank` products of a column and a row. Product k, from
 * 0, has the factor 2^-k. */
static void fill(float *x, unsigned rank, uint64_t seed) {
    fed_rng rng;
    fed_rng_init(&rng, seed, 0, 0);
    memset(x, 0, N * sizeof *x);
    for (unsigned k = 0; k < rank; k++) {
        float column[ROWS], row[COLUMNS];
        for (size_t i = 0; i < ROWS; i++) {
            column[i] = ldexpf(fed_rng_float(&rng) - 0.5f, -(int)k);
        }
        for (size_t j = 0; j < COLUMNS; j++) {
            row[j] = fed_rng_float(&rng) - 0.5f;
        }
        for (size_t i = 0; i < N; i++) {
            x[i] += column[i / COLUMNS] * row[i % COLUMNS];
        }
    }
}

static double norm(const float *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sqrt(sum);
}

/* Encode the matrix x. The residual gets what the message leaves out. Returns the message's
 * length. */
static size_t encode(const char *params, const float *x, float *residual, uint8_t *message) {
    char spec[FEDCODEC_SPEC];
    snprintf(spec, sizeof spec, "powersgd:%s,rows=%d", params, ROWS);
    memmove(residual, x, N * sizeof *x);
    return codec_case_encode(spec, residual, N, message, CAP);
}

/* Returns the norm of what one message leaves out of x, relative to the norm of x. */
static double error_of(const char *params, const float *x) {
    static float residual[N];
    static uint8_t message[CAP];
    (void)encode(params, x, residual, message);
    return norm(residual, N) / norm(x, N);
}

FED_TEST(a_matrix_of_the_rank_arrives_whole) {
    static float x[N];
    for (unsigned rank = 1; rank <= 3; rank++) {
        char params[32];
        fill(x, rank, rank);
        snprintf(params, sizeof params, "rank=%u", rank);
        assert_true(error_of(params, x) < 1e-5);
        snprintf(params, sizeof params, "rank=%u,values=bfloat16", rank);
        assert_true(error_of(params, x) < 0.01);
    }
}

FED_TEST(columns_that_say_nothing_are_not_sent) {
    static float x[N], residual[N];
    static uint8_t message[CAP];
    fill(x, 3, 9);
    assert_int_equal(encode("rank=20", x, residual, message), 6 + 3 * (ROWS + COLUMNS) * 4);
    assert_int_equal(message[0], 3);
    assert_true(norm(residual, N) < 1e-5 * norm(x, N));
}

FED_TEST(steps_of_iteration_come_nearer_to_the_best) {
    static float x[N];
    double one = 0.0, two = 0.0, four = 0.0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fill(x, 12, seed);
        one += error_of("rank=2", x) / 20.0;
        two += error_of("rank=2,power=2", x) / 20.0;
        four += error_of("rank=2,power=4", x) / 20.0;
    }
    assert_true(one > 1.1 * two && two >= four);
    assert_true(four > 0.2 && four < 0.3); /* singular values about halve each time */
}

/* P^T P is the identity, and Q is M^T P. So the residual is orthogonal to each column of P. */
FED_TEST(what_is_left_is_at_right_angles_to_p) {
    enum { RANK = 5 };
    static float x[N], residual[N];
    static uint8_t message[CAP];
    float p[RANK][ROWS];
    fill(x, 30, 4);
    (void)encode("rank=5", x, residual, message);
    memcpy(p, message + 6, sizeof p); /* little-endian machines only */
    for (size_t k = 0; k < RANK && *(const uint8_t *)&(uint16_t){1} == 1; k++) {
        for (size_t j = 0; j <= k; j++) {
            double product = 0.0;
            for (size_t i = 0; i < ROWS; i++) {
                product += (double)p[k][i] * (double)p[j][i];
            }
            assert_true(fabs(product - (j == k ? 1.0 : 0.0)) < 1e-6);
        }
        for (size_t j = 0; j < COLUMNS; j++) {
            double left = 0.0;
            for (size_t i = 0; i < ROWS; i++) {
                left += (double)p[k][i] * (double)residual[i * COLUMNS + j];
            }
            assert_true(fabs(left) < 1e-6);
        }
    }
}

FED_TEST(feedback_sends_the_rest) {
    static float x[N], residual[N];
    static uint8_t message[CAP];
    fill(x, 60, 5);
    for (int round = 0; round < 60; round++) {
        (void)encode("rank=2", round == 0 ? x : residual, residual, message);
    }
    assert_true(norm(residual, N) < 0.01 * norm(x, N));
}

static size_t len_of(const char *spec, const float *x, size_t n) {
    static float residual[N];
    static uint8_t message[CAP];
    memcpy(residual, x, n * sizeof *x);
    return codec_case_encode(spec, residual, n, message, CAP);
}

FED_TEST(without_a_shape_a_tensor_is_as_square_as_it_can_be) {
    static float x[N];
    fill(x, 60, 6);
    assert_int_equal(len_of("powersgd:rank=1", x, 6000), 6 + 4 * (75 + 80));
    assert_int_equal(len_of("powersgd:rank=1", x, 400), 6 + 4 * (20 + 20));
    assert_int_equal(len_of("powersgd:rank=1,rows=10", x, 400), 6 + 4 * (10 + 40));
    assert_int_equal(len_of("powersgd:rank=1,rows=10,values=bfloat16", x, 400), 6 + 2 * (10 + 40));
}

FED_TEST(what_a_product_does_not_make_shorter_is_sent_as_it_is) {
    static float x[N];
    fill(x, 60, 7);
    assert_int_equal(len_of("powersgd:rank=1", x, 397), 1 + 4 * 397);          /* 397 is a prime */
    assert_int_equal(len_of("powersgd:rank=1,rows=400", x, 400), 1 + 4 * 400); /* a vector */
    assert_int_equal(len_of("powersgd:rank=1,rows=7", x, 400), 1 + 4 * 400); /* no multiple of 7 */
    assert_int_equal(len_of("powersgd:rank=9", x, 400), 6 + 9 * 4 * 40);
    assert_int_equal(len_of("powersgd:rank=10", x, 400), 1 + 4 * 400);
}

FED_TEST(values_as_they_are_leave_nothing) {
    static const float x[5] = {FLT_MAX, -FLT_TRUE_MIN, 0.0f, -0.0f, 1.0f};
    codec_case c = codec_case_of("powersgd", x, 5);
    assert_int_equal(c.message[0], AS_IT_IS);
    assert_memory_equal(c.decoded, x, sizeof x);
    for (size_t i = 0; i < 5; i++) {
        assert_true(c.residual[i] == 0.0f);
    }
}

FED_TEST(zeros_and_values_out_of_range_are_one_byte) {
    static const float zeros[7] = {0.0f, -0.0f};
    float matrix[36] = {0x1p90f, 1.0f};
    codec_case c = codec_case_of("powersgd", zeros, 7);
    assert_int_equal(c.len, 1);
    c = codec_case_of("powersgd:rank=1", matrix, 36);
    assert_int_equal(c.len, 1);
    assert_memory_equal(c.residual, matrix, sizeof matrix);
    matrix[0] = 0x1.fffffep89f;
    assert_int_equal(codec_case_of("powersgd:rank=1", matrix, 36).len, 6 + 4 * 12);
    matrix[0] = 0x1p-100f;
    matrix[1] = 0.0f;
    assert_int_equal(codec_case_of("powersgd:rank=1", matrix, 36).len, 6 + 4 * 12);
    matrix[0] = 0x1.fffffep-101f;
    assert_int_equal(codec_case_of("powersgd:rank=1", matrix, 36).len, 1);
}

FED_TEST(a_wide_rank_is_refused_with_its_limit) {
    fedcodec codec;
    fed_error err = {.text = ""};
    assert_fed_status(fedcodec_parse("powersgd:rank=33", &codec, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "rank"));
    assert_non_null(strstr(err.text, "32"));
    assert_fed_status(fedcodec_parse("powersgd:values=int8", &codec, &err), FED_EINVAL);
}

FED_TEST(the_longest_spec_has_room) {
    fedcodec codec;
    char spec[FEDCODEC_SPEC];
    assert_fed_ok(
        fedcodec_parse("powersgd:rank=32,values=bfloat16,rows=999999999+entropy", &codec, NULL));
    fedcodec_format(&codec, spec);
    assert_string_equal(spec, "powersgd:rank=32,power=1,values=bfloat16,rows=999999999+entropy");
}

FED_TEST(malformed_messages_are_refused) {
#define ROW "\x00\x00\x80\x3f"
#define SIX ROW ROW ROW ROW ROW ROW
    assert_accepts(POWERSGD, "\x00", 9);
    assert_accepts(POWERSGD, "\x00", 0);
    assert_refuses(POWERSGD, "", 0);
    assert_refuses(POWERSGD, "\x00\x00", 9);
    assert_accepts(POWERSGD, "\xff" ROW, 1);
    assert_refuses(POWERSGD, "\xff" ROW, 2);
    assert_refuses(POWERSGD, "\xff", 0);
    assert_refuses(POWERSGD, "\xff\x00\x00\x00\x80", 1);             /* a plain value of -0 */
    assert_refuses(POWERSGD, "\xff\x00\x00\xc0\x7f", 1);             /* NaN */
    assert_accepts(POWERSGD, "\x01\x00\x03\x00\x00\x00" SIX, 9);     /* 3 rows of 3 */
    assert_refuses(POWERSGD, "\x02\x00\x03\x00\x00\x00" SIX SIX, 9); /* longer than plain values */
    assert_refuses(POWERSGD, "\x01\x00\x03\x00\x00\x00" SIX ROW, 9);
    assert_refuses(POWERSGD, "\x01\x00\x03\x00\x00\x00", 9);
    assert_refuses(POWERSGD, "\x01\x00\x03\x00\x00", 9);
    assert_refuses(POWERSGD, "\x01\x02\x03\x00\x00\x00" SIX, 9); /* an unknown form of values */
    assert_refuses(POWERSGD, "\x01\x00\x00\x00\x00\x00" SIX, 9); /* 0 rows */
    assert_refuses(POWERSGD, "\x01\x00\x02\x00\x00\x00" SIX, 9);
    assert_refuses(POWERSGD, "\x01\x00\x03\x00\x00\x01" SIX, 9);
    assert_refuses(POWERSGD, "\x01\x00\x01\x00\x00\x00" ROW, 0);
    assert_refuses(POWERSGD, "\x21\x00\x03\x00\x00\x00" SIX, 9);         /* a rank above 32 */
    assert_accepts(POWERSGD, "\x01\x01\x03\x00\x00\x00" ROW ROW ROW, 9); /* the form bfloat16 */
    assert_refuses(POWERSGD, "\x01\x00\x03\x00\x00\x00\x00\x00\x80\x7f" ROW ROW ROW ROW ROW, 9);
    /* the square of 2^126 is not finite */
    assert_refuses(
        POWERSGD, "\x01\x00\x03\x00\x00\x00\x00\x00\x80\x7e" ROW ROW "\x00\x00\x80\x7e" ROW ROW, 9);
}
