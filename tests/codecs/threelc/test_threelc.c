/* 3lc: its bytes worked out by hand, its rule at the edges, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codecs/registry.h"
#include "fed/rng.h"
#include "fedcodec/codec.h"

static size_t encode(const char *spec, float *x, size_t n, uint8_t *dst, size_t cap) {
    fedcodec codec;
    size_t len = 0;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    assert_fed_ok(fedcodec_encode(&codec, x, NULL, n, NULL, dst, cap, &len));
    return len;
}

static fed_status decode(const void *src, size_t len, float *y, size_t n) {
    return fedcodec_decode(fedcodec_by_id(2), src, len, y, n);
}

FED_TEST(five_partitions_the_first_most_significant) {
    /* Partitions have 2 values, so the bytes hold values 0 2 4 6 8 and 1 3 5 7 9. */
    float x[10] = {2.0f, 0.5f, -2.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.5f, -1.25f};
    uint8_t dst[16];
    assert_int_equal(encode("3lc", x, 10, dst, sizeof dst), 6);
    assert_memory_equal(dst, "\x00\x00\x00\x40", 4);
    assert_int_equal(dst[4], 2 * 81 + 0 * 27 + 1 * 9 + 1 * 3 + 2);
    assert_int_equal(dst[5], 1 * 81 + 1 * 27 + 1 * 9 + 1 * 3 + 0);
    const float left[10] = {0.0f, 0.5f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -0.5f, 0.75f};
    assert_memory_equal(x, left, sizeof left);
}

FED_TEST(padding_is_the_digit_of_zero) {
    float x[1] = {-3.0f};
    uint8_t dst[16];
    assert_int_equal(encode("3lc", x, 1, dst, sizeof dst), 5);
    assert_int_equal(dst[4], 0 * 81 + 40);
}

FED_TEST(an_all_zero_tensor_is_four_bytes) {
    float x[100] = {0.0f}, y[100];
    uint8_t dst[64];
    x[7] = -0.0f;
    assert_int_equal(encode("3lc:s=1.5", x, 100, dst, sizeof dst), 4);
    assert_memory_equal(dst, "\0\0\0\0", 4);
    assert_fed_ok(decode(dst, 4, y, 100));
    assert_true(y[0] == 0.0f && y[99] == 0.0f);
}

FED_TEST(just_half_is_not_sent) {
    float x[3] = {2.0f, 1.0f, -1.0f}, y[3];
    uint8_t dst[16];
    size_t len = encode("3lc", x, 3, dst, sizeof dst);
    assert_fed_ok(decode(dst, len, y, 3));
    assert_true(y[0] == 2.0f && y[1] == 0.0f && y[2] == 0.0f);
    x[0] = 2.0f, x[1] = nextafterf(1.0f, 2.0f), x[2] = nextafterf(-1.0f, -2.0f);
    len = encode("3lc", x, 3, dst, sizeof dst);
    assert_fed_ok(decode(dst, len, y, 3));
    assert_true(y[0] == 2.0f && y[1] == 2.0f && y[2] == -2.0f);
}

FED_TEST(the_largest_value_is_sent_whatever_s_and_scale) {
    static const float scales[] = {FLT_TRUE_MIN, 3 * FLT_TRUE_MIN, 1e-40f, FLT_MIN, 1.0f, FLT_MAX};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        float x[7] = {0.0f, 0.0f, -scales[i]}, y[7];
        uint8_t dst[16];
        size_t len = encode("3lc:s=1.999", x, 7, dst, sizeof dst);
        assert_fed_ok(decode(dst, len, y, 7));
        assert_true(y[2] < 0.0f && isfinite(y[2]) && isfinite(x[2]));
    }
}

/* Fill x with stretches of random lengths. Each has many, few or no large values. */
static void fill_stretches(float *x, size_t n, fed_rng *rng) {
    for (size_t i = 0, end; i < n; i = end) {
        uint32_t rarity = 1u << fed_rng_below(rng, 14);
        end = i + 1 + fed_rng_below(rng, 4000);
        end = end < n ? end : n;
        for (size_t j = i; j < end; j++) {
            float sign = fed_rng_below(rng, 2) ? 1.0f : -1.0f;
            x[j] = sign * (fed_rng_below(rng, rarity) == 0 ? 1.0f : 0.25f);
        }
    }
}

FED_TEST(each_unit_makes_of_dense_and_sparse_stretches_what_their_values_say) {
    enum { MOST = 60000 };
    static float x[MOST], e[MOST], y[MOST];
    static int64_t acc[MOST];
    static uint8_t dst[MOST], first[MOST];
    fed_rng rng;
    fed_rng_init(&rng, 8, 0, 0);
    for (size_t round = 0; round < 60; round++) {
        size_t n = round % 2 ? MOST - round : 300 + 77 * round, len = 0, first_len = 0;
        fill_stretches(x, n, &rng);
        x[fed_rng_below(&rng, (uint32_t)n)] = 1.0f;
        const fedcodec_unit *unit;
        for (size_t u = 0; (unit = fedcodec_unit_at(u)) != NULL; u++) {
            const fedcodec codec = {.vtable = unit->codecs[FEDCODEC_INDEX_threelc], .param = {1.0}};
            memset(e, 0, sizeof e);
            assert_fed_ok(fedcodec_encode(&codec, e, x, n, NULL, dst, sizeof dst, &len));
            assert_true(u == 0 || (len == first_len && memcmp(dst, first, len) == 0));
            memcpy(first, dst, first_len = len);
            for (size_t i = 0; i < n; i++) {
                y[i] = -0.0f;
                acc[i] = 5;
            }
            assert_fed_ok(fedcodec_axpy(codec.vtable, dst, len, -3.0f, y, n));
            assert_fed_ok(fedcodec_fold(codec.vtable, dst, len, 2, acc, n));
            for (size_t i = 0; i < n; i++) {
                float sent = truncf(x[i]);
                assert_true(e[i] == x[i] - sent && y[i] == -3.0f * sent);
                assert_true(sent != 0.0f || signbit(y[i]));
                assert_true(acc[i] == 5 + (int64_t)sent * (INT64_C(2) << FEDCODEC_FOLD_BITS));
            }
            memset(y, 0xff, sizeof y);
            assert_fed_ok(fedcodec_decode(codec.vtable, dst, len, y, n));
            for (size_t i = 0; i < n; i++) {
                assert_true(y[i] == truncf(x[i]) && (y[i] != 0.0f || !signbit(y[i])));
            }
        }
    }
}

/* With s = 1, the values of an accepted message encode to the same message. */
FED_TEST(an_accepted_message_is_the_one_of_its_values) {
    fed_rng rng;
    fed_rng_init(&rng, 3, 1, 4);
    int accepted = 0;
    for (int round = 0; round < 200000; round++) {
        size_t n = 1 + fed_rng_below(&rng, 12), len = 4 + 1 + fed_rng_below(&rng, 3);
        uint8_t src[8] = {0, 0, 0x80, 0x3f}, again[8];
        float y[12];
        for (size_t i = 4; i < sizeof src; i++) {
            src[i] = (uint8_t)(fed_rng_below(&rng, 2) ? fed_rng_below(&rng, 256)
                                                      : 119 + fed_rng_below(&rng, 4));
        }
        if (decode(src, len, y, n) == FED_OK) {
            const char *spec = len - 4 == (n + 4) / 5 ? "3lc:s=1,zre=0" : "3lc:s=1";
            accepted++;
            assert_int_equal(encode(spec, y, n, again, sizeof again), len);
            assert_memory_equal(again, src, len);
        }
    }
    assert_true(accepted > 1000);
}

#define assert_refused(text, n)                                                                    \
    do {                                                                                           \
        float y_[32] = {0.0f};                                                                     \
        assert_fed_status(decode(text, sizeof(text) - 1, y_, n), FED_EFORMAT);                     \
    } while (0)

FED_TEST(a_magnitude_that_no_tensor_has_is_refused) {
    assert_refused("\x00\x00\x80\x7f\xca", 1); /* infinity */
    assert_refused("\x00\x00\xc0\x7f\xca", 1); /* NaN */
    assert_refused("\x00\x00\x80\xbf\xca", 1); /* -1 */
    assert_refused("\x00\x00\x00\x80", 1);     /* -0 */
}

FED_TEST(zeros_and_magnitude_go_together) {
    assert_refused("\x00\x00\x00\x00\xca", 1); /* a magnitude of 0, but a value that is sent */
    assert_refused("\x00\x00\x00\x00\x79", 1); /* a magnitude of 0, followed by digits */
    assert_refused("\x00\x00\x80\x3f\x79", 1); /* a magnitude of 1, but no value that is sent */
}

FED_TEST(padding_other_than_zeros_is_refused) {
    float y[8];
    assert_fed_ok(decode("\x00\x00\x80\x3f\xca", 5, y, 1)); /* in base 3: 2 1 1 1 1 */
    assert_refused("\x00\x00\x80\x3f\xcb", 1);              /* in base 3: 2 1 1 1 2 */
    assert_refused("\x00\x00\x80\x3f\xaf", 1);              /* in base 3: 2 0 1 1 1 */
    assert_fed_ok(decode("\x00\x00\x80\x3f\xca\x79", 6, y, 6));
    assert_refused("\x00\x00\x80\x3f\xca\x7a", 6); /* a digit for value 9, of 6 values */
    assert_refused("\x00\x00\x80\x3f\x7c\x79", 6); /* a digit for value 6, of 6 values */
}
