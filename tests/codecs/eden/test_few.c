/* eden with p < 1: the bias and error of the arriving values, what zeros cost, and refused
 * messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_case.h"
#include "codecs/prim/golomb.h"
#include "fed/rng.h"

enum { EDEN = 18, MANY = 1 << 16 };

static double square(float v) {
    return (double)v * (double)v;
}

enum { DIMENSION = 1024, DRAWS = 1500 };

/* Return an unbiased estimate of the squared distance from the values to the mean of what arrives,
 * divided by the values' squared 2-norm. */
static double bias_of(const char *spec, const float *x) {
    fedcodec codec;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    static uint8_t message[8 * DIMENSION], work[16 * DIMENSION];
    static double sum[DIMENSION];
    double apart = 0.0, all = 0.0, whole = 0.0;
    assert_true(fedcodec_bound(&codec, DIMENSION) <= sizeof message);
    assert_true(fedcodec_work_size(&codec, DIMENSION) <= sizeof work);
    memset(sum, 0, sizeof sum);
    for (int k = 1; k <= DRAWS; k++) {
        float y[DIMENSION];
        size_t len = 0;
        codec.param[2] = k; /* the seed */
        assert_fed_ok(
            fedcodec_encode(&codec, NULL, x, DIMENSION, work, message, sizeof message, &len));
        assert_fed_ok(fedcodec_decode(codec.vtable, message, len, y, DIMENSION));
        for (size_t i = 0; i < DIMENSION; i++) {
            sum[i] += (double)y[i] - (double)x[i];
            apart += square(y[i] - x[i]);
        }
    }
    for (size_t i = 0; i < DIMENSION; i++) {
        all += sum[i] * sum[i];
        whole += square(x[i]);
    }
    return (all - apart) / ((double)DRAWS * (DRAWS - 1)) / whole;
}

/* Vectors that few values dominate. A random rotation makes most of them nearly normal, but not
 * one that two or twelve values carry. */
static void fill_hard(float *x, size_t kind) {
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    const size_t large = kind == 0 ? 1 : kind == 1 ? 2 : 12;
    for (size_t i = 0; i < DIMENSION; i++) {
        const float u = fed_rng_float(&rng) - 0.5f;
        x[i] = kind == 3 ? u / (0.501f - fabsf(u)) : 0.0f;
    }
    for (size_t i = 0; i < large && kind < 3; i++) {
        x[i * 83 + 5] = i % 2 == 0 ? 1.0f : -1.0f;
    }
}

FED_TEST(two_rotations_leave_no_bias) {
    static const char *const specs[] = {"eden:p=0.008", "eden:p=0.001", "eden:p=0.05,scale=tensor",
                                        "eden:rotations=2", "eden:rotations=2,bits=2"};
    static const double within[] = {0.002, 0.015, 0.0005, 0.0002, 0.0002};
    for (size_t kind = 0; kind < 4; kind++) {
        float x[DIMENSION];
        fill_hard(x, kind);
        for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
            const double bias = bias_of(specs[k], x);
            if (fabs(bias) > within[k]) {
                fail_msg("%s, values %zu: the bias is %g", specs[k], kind, bias);
            }
        }
    }
}

/* After one rotation, two values of unequal size give only two magnitudes. The larger one is sent,
 * which says as much of the one value as of the other. */
FED_TEST(one_rotation_is_not_enough_for_two_large_values) {
    float x[DIMENSION] = {[7] = 1.0f, [500] = 0.4f};
    assert_true(bias_of("eden:p=0.008,rotations=1", x) > 0.15);
    assert_true(bias_of("eden:p=0.008", x) < 0.002);
}

/* The error is d k / (the sum of the k largest magnitudes)^2 - 1 for d normal values. */
FED_TEST(the_error_of_few_values_is_that_of_the_largest_normal_ones) {
    assert_true(fabs(codec_case_error("eden:p=0.008") / 12.47 - 1.0) < 0.03);
    assert_true(fabs(codec_case_error("eden:p=0.05") / 2.69 - 1.0) < 0.03);
}

/* Also with a padded bucket, and with one that is not sent. */
FED_TEST(the_sum_of_squares_and_the_growth_of_the_norm_are_known) {
    static const char *const specs[] = {"eden:p=0.008",
                                        "eden:p=0.001",
                                        "eden:p=0.3",
                                        "eden:p=0.99",
                                        "eden",
                                        "eden:bits=2",
                                        "eden:bits=3",
                                        "eden:bits=4",
                                        "eden:p=0.05,scale=tensor",
                                        "eden:p=0.1,bucket=64",
                                        "eden:p=0.02,rotations=1"};
    enum { N = 50000 };
    static float x[N], y[N];
    static uint8_t message[2 * N];
    double before = 0.0;
    for (size_t i = 0; i < N; i++) {
        x[i] = i / 1024 == 1 ? 0.0f : sinf((float)i) / (float)(1 + i % 13);
        before += square(x[i]);
    }
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fedcodec codec;
        double after = 0.0;
        assert_fed_ok(fedcodec_parse(specs[k], &codec, NULL));
        memcpy(y, x, sizeof y);
        const size_t len = codec_case_encode(specs[k], y, N, message, sizeof message);
        assert_fed_ok(fedcodec_decode(codec.vtable, message, len, y, N));
        for (size_t i = 0; i < N; i++) {
            after += square(y[i]);
        }
        assert_true(fabs(codec.vtable->squares(message, len, N) / after - 1.0) < 1e-5);
        const double grown = sqrt(after / before), said = codec.vtable->stretch(codec.param);
        if (fabs(said / grown - 1.0) > 0.07) {
            fail_msg("%s: the norm grows by %g, not by %g", specs[k], grown, said);
        }
    }
}

FED_TEST(buckets_of_zeros_cost_a_byte) {
    static float x[MANY];
    static uint8_t message[MANY];
    static const char *const specs[] = {"eden:p=0.008", "eden:p=0.008,scale=tensor"};
    static const size_t empty[] = {6 + 2 + 2 + 64, 6 + 2 + 4 + 8};
    for (size_t k = 0; k < 2; k++) {
        memset(x, 0, sizeof x);
        assert_int_equal(codec_case_encode(specs[k], x, MANY, message, sizeof message), empty[k]);
        x[3000] = 1.0f; /* one of 64 buckets */
        const size_t len = codec_case_encode(specs[k], x, MANY, message, sizeof message);
        assert_true(len > empty[k] + 2 && len < empty[k] + 2 + 1 + 20);
    }
}

/* Of 8 values one is sent: a byte for the scale, the sign, the code of positions (b = 2), and
 * position 1 in three bits. */
#define HEAD "\x19\x0a\x01\x02\x03\x04"
FED_TEST(malformed_messages_of_few_values_are_refused) {
    assert_accepts(EDEN, HEAD "\x09\x00\x00\x03\xff\x7f\x02\x3f", 8);
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xff\x7f\x02", 8);
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xff\x7f", 8);
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xff\x7f\x02\x3f\xff", 8);
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xff\x7f\x02\x3f", 0);
    assert_refuses(EDEN, "\x1a\x0a\x01\x02\x03\x04\x09\x00\x00\x03\xff\x7f\x02\x3f",
                   8);                                                /* 2 bits */
    assert_refuses(EDEN, HEAD "\x08\x00\x00\x03\xff\x7f\x02\x3f", 8); /* an even number */
    assert_refuses(EDEN, HEAD "\x01\x04\x00\x03\xff\x7f\x02\x3f", 8); /* more than there are */
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xfe\x7f\x02\x3f",
                   8); /* a larger base than needed */
    assert_refuses(EDEN, HEAD "\x09\x00\x06\x00\xff\x7f\x02\x3f", 8); /* a base below 7 */
    assert_accepts(EDEN, HEAD "\x09\x00\x07\x00\x01\x7f\x02\x3f", 8);
    assert_refuses(EDEN, HEAD "\x09\x00\xff\x7f\xff\x7f\x02\x3f", 8); /* too large a scale */
    assert_accepts(EDEN, HEAD "\x09\x00\x00\x00\x00", 8);             /* nothing is sent */
    assert_refuses(EDEN, HEAD "\x09\x00\x07\x00\x00", 8);             /* but there is a base */
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x00\x00\x7f\x02\x3f", 8);
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xff\x7e\x02\x3f", 8); /* after the last sign */
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xff\x7f\x62\x3f", 8); /* no code of positions */
    assert_refuses(EDEN, HEAD "\x09\x00\x00\x03\xff\x7f\x02\xe9", 8); /* position 12 or more */
    assert_accepts(EDEN, HEAD "\x09\x00\x00\x00", 0);
    assert_refuses(EDEN, HEAD "\x09\x00\x00", 0);
}

/* The first of two buckets has two values, the second none. */
FED_TEST(a_bucket_with_another_number_of_values_is_refused) {
    float x[128], y[128];
    uint8_t message[128], changed[128];
    for (size_t i = 0; i < 128; i++) {
        x[i] = 1.0f;
    }
    const size_t len =
        codec_case_encode("eden:p=0.001,bucket=64,pos=golomb", x, 128, message, sizeof message);
    const fedcodec_vtable *codec = fedcodec_by_id(EDEN);
    assert_fed_ok(fedcodec_decode(codec, message, len, y, 128));
    const size_t how = 6 + 2 + 2 + 2 + 1;
    unsigned accepted = 0;
    for (unsigned first = 0; first < 128; first++) {
        for (unsigned second = first + 1; second < 128; second++) {
            fed_bit_writer w;
            size_t more = 0;
            memcpy(changed, message, how);
            changed[how] = 5;
            fed_bit_writer_init(&w, changed + how + 1, sizeof changed - how - 1);
            fedcodec_golomb_put(&w, first, 5);
            fedcodec_golomb_put(&w, second - first - 1, 5);
            assert_fed_ok(fed_bit_writer_finish(&w, &more));
            const bool one_each = first < 64 && second >= 64;
            const fed_status status = fedcodec_decode(codec, changed, how + 1 + more, y, 128);
            assert_int_equal(status, one_each ? FED_OK : FED_EFORMAT);
            accepted += status == FED_OK;
        }
    }
    assert_int_equal(accepted, 64 * 64);
}
