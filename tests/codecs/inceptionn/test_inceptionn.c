/* inceptionn: classes at their boundaries, compared bit by bit with the paper's algorithms. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codecs/registry.h"
#include "fed/rng.h"
#include "fedcodec/codec.h"
#include "reference_codecs.h"

enum { MOST = 4096 };

static fedcodec with_e(unsigned e) {
    fedcodec codec;
    char spec[FEDCODEC_SPEC];
    snprintf(spec, sizeof spec, "inceptionn:e=%u", e);
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    return codec;
}

static float from_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static size_t encode_on(const fedcodec_vtable *unit, unsigned e, const float *x, size_t n,
                        uint8_t *dst) {
    static float residual[MOST];
    fedcodec codec = with_e(e);
    codec.vtable = unit;
    size_t len = 0;
    memcpy(residual, x, n * sizeof *x);
    assert_fed_ok(
        fedcodec_encode(&codec, residual, NULL, n, NULL, dst, fedcodec_bound(&codec, n), &len));
    return len;
}

static size_t encode(unsigned e, const float *x, size_t n, uint8_t *dst) {
    return encode_on(fedcodec_by_id(13), e, x, n, dst);
}

static float through(unsigned e, float x) {
    uint8_t dst[5];
    float y = 42.0f;
    size_t len = encode(e, &x, 1, dst);
    assert_fed_ok(fedcodec_decode(fedcodec_by_id(13), dst, len, &y, 1));
    return y;
}

static void assert_as_the_paper_on(const fedcodec_vtable *unit, unsigned e, const float *x,
                                   size_t n) {
    static uint8_t dst[5 * MOST];
    static float y[MOST], expected[MOST], residual[MOST];
    fedcodec codec = with_e(e);
    size_t len = encode_on(unit, e, x, n, dst), expected_len = 0;
    memcpy(residual, x, n * sizeof *x);
    uint8_t *message = fed_reference_encode(&codec, residual, n, &expected_len);
    assert_int_equal(len, expected_len);
    assert_memory_equal(dst, message, len);
    assert_fed_ok(fedcodec_decode(unit, dst, len, y, n));
    fed_reference_decode(codec.vtable, message, len, expected, n);
    assert_memory_equal(y, expected, n * sizeof *y);
    free(message);
}

static void assert_as_the_paper(unsigned e, const float *x, size_t n) {
    assert_as_the_paper_on(fedcodec_by_id(13), e, x, n);
}

FED_TEST(every_exponent_is_coded_as_in_the_paper) {
    static const uint32_t mantissas[] = {0, 1, 0xff, 0x100, 0x3fffff, 0x400000, 0x5a5a5a, 0x7fffff};
    static float x[MOST];
    size_t n = 0;
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (size_t k = 0; k < 8; k++) {
            x[n++] = from_bits(exponent << 23 | mantissas[k]);
            x[n++] = from_bits(1u << 31 | exponent << 23 | mantissas[k]);
        }
    }
    for (unsigned e = 1; e <= 15; e++) {
        assert_as_the_paper(e, x, n);
    }
}

FED_TEST(random_bits_of_every_length_are_coded_as_in_the_paper) {
    static float x[MOST];
    fed_rng rng;
    fed_rng_init(&rng, 3, 1, 4);
    for (unsigned e = 1; e <= 15; e++) {
        for (size_t n = 0; n <= 200; n++) {
            for (size_t i = 0; i < n; i++) {
                /* Half of the values have magnitudes from 2^-20 to 2^2. The others have any
                 * finite exponent. */
                uint32_t exponent = fed_rng_below(&rng, 2) ? 107 + fed_rng_below(&rng, 22)
                                                           : fed_rng_below(&rng, 255);
                x[i] = from_bits(fed_rng_below(&rng, 2) << 31 | exponent << 23 |
                                 fed_rng_below(&rng, 1u << 23));
            }
            assert_as_the_paper(e, x, n);
        }
    }
}

FED_TEST(tags_stand_before_all_payloads) {
    /* With e = 10, values take 32 bits from 1 on, 16 bits from 2^-5 on, 8 bits from 2^-10 on.
     * Smaller values take none. */
    const float x[5] = {-1.0f, 0.5f, -0.015625f, 0.0f, 0.03125f};
    uint8_t dst[22];
    assert_int_equal(encode(10, x, 5, dst), 2 + 4 + 2 + 1 + 0 + 2);
    assert_memory_equal(dst, "\x1b\x02\x00\x00\x80\xbf\x00\x40\x82\x00\x04", 11);
}

FED_TEST(bits_past_the_class_are_cut_off) {
    assert_true(through(10, 0x1.fffffep-1f) == 0x1.fffcp-1f);
    assert_true(through(10, -0x1.fffffep-6f) == -0x1.8p-6f);
    assert_true(through(10, 1.2345678f) == 1.2345678f);
}

FED_TEST(what_the_eight_bits_cannot_hold_is_a_zero_of_its_sign) {
    float positive = through(10, 0x1.fffffep-8f), negative = through(10, -0x1p-10f);
    assert_true(positive == 0.0f && !signbit(positive));
    assert_true(negative == 0.0f && signbit(negative));
    assert_true(through(10, 0x1p-7f) == 0x1p-7f);
}

FED_TEST(under_the_bound_nothing_is_left_not_even_a_sign) {
    static const float small[] = {-0x1.fffffep-11f, -0.0f, -1e-45f, 1e-39f};
    for (size_t i = 0; i < 4; i++) {
        uint8_t dst[5];
        float y = through(10, small[i]);
        assert_true(y == 0.0f && !signbit(y));
        assert_int_equal(encode(10, &small[i], 1, dst), 1);
    }
}

FED_TEST(the_sixteen_bit_class_begins_half_way_rounded_up) {
    for (unsigned e = 1; e <= 15; e++) {
        uint8_t dst[5];
        float first = ldexpf(1.0f, -(int)(e / 2)), below = nextafterf(first, 0.0f);
        assert_int_equal(encode(e, &first, 1, dst), e == 1 ? 5 : 3);
        assert_int_equal(encode(e, &below, 1, dst), 2);
    }
}

/* Check that a message is refused, and that the first value stays unchanged. */
static void assert_refused(const char *message, size_t len, size_t n) {
    float y[4] = {42.0f};
    assert_fed_status(fedcodec_decode(fedcodec_by_id(13), (const uint8_t *)message, len, y, n),
                      FED_EFORMAT);
    assert_true(y[0] == 42.0f);
}

FED_TEST(a_value_in_another_class_than_its_own_is_refused) {
    assert_refused("\x03\xff\xff\x7f\x3f", 5, 1); /* just below 1, but in 32 bits */
    assert_refused("\x03\x00\x00\x00\x80", 5, 1); /* -0 */
    assert_refused("\x03\x00\x00\x80\x7f", 5, 1); /* infinity */
    assert_refused("\x03\x00\x00\xc0\xff", 5, 1); /* NaN */
    assert_refused("\x02\xff\x00", 3, 1);         /* below 2^-7, but in 16 bits */
    assert_refused("\x02\x00\x80", 3, 1);
}

FED_TEST(values_that_no_one_e_explains_are_refused) {
    float y[2];
    const fedcodec_vtable *codec = fedcodec_by_id(13);
    assert_refused("\x05\x40\x00", 3, 2);     /* in 8 bits, 1/2 needs e = 1, but 0 needs e >= 8 */
    assert_refused("\x06\x00\x40\x40", 4, 2); /* 1/2 in 16 bits, and 1/2 in 8 bits */
    assert_fed_ok(fedcodec_decode(codec, (const uint8_t *)"\x05\x40\x40", 3, y, 2));
    assert_true(y[0] == 0.5f && y[1] == 0.5f);
    /* 2^-7 in 16 bits needs e >= 14, -0 in 8 bits needs e >= 8 */
    assert_fed_ok(fedcodec_decode(codec, (const uint8_t *)"\x06\x00\x01\x80", 4, y, 2));
}

FED_TEST(tags_past_the_last_value_must_be_zero) {
    assert_refused("\x04\x01", 2, 1);
    assert_refused("\x40\x01", 2, 3);
    assert_refused("\x10", 1, 2);
}

FED_TEST(only_whole_exponents_from_1_to_15) {
    fedcodec codec = with_e(10);
    float residual = 1.0f;
    uint8_t dst[5];
    size_t len;
    codec.param[0] = 10.5;
    assert_fed_status(fedcodec_encode(&codec, &residual, NULL, 1, NULL, dst, 5, &len), FED_EINVAL);
    assert_fed_status(fedcodec_parse("inceptionn:e=0", &codec, NULL), FED_EINVAL);
    assert_fed_status(fedcodec_parse("inceptionn:e=16", &codec, NULL), FED_EINVAL);
    assert_fed_status(fedcodec_parse("inceptionn:e=2.5", &codec, NULL), FED_EINVAL);
}

/* The codec for the k-th unit of vector instructions, from k = 0; NULL past the last. */
static const fedcodec_vtable *on_unit(size_t k) {
    const fedcodec_unit *unit = fedcodec_unit_at(k);
    return unit == NULL ? NULL : unit->codecs[FEDCODEC_INDEX_inceptionn];
}

/* Returns whether a message is accepted. All vector units must agree. */
static bool accepted(const uint8_t *message, size_t len, size_t n, float *max_abs) {
    uint8_t *copy = malloc(len + (len == 0));
    assert_non_null(copy);
    memcpy(copy, message, len);
    bool first = on_unit(0)->check(copy, len, n, max_abs) == FED_OK;
    for (size_t k = 1; on_unit(k) != NULL; k++) {
        float max = -1.0f;
        assert_int_equal(on_unit(k)->check(copy, len, n, &max) == FED_OK, first);
        assert_true(!first || max == *max_abs);
    }
    free(copy);
    return first;
}

enum { N = 150, N_TAGS = (N + 3) / 4 };

static bool accepted_with(uint8_t tag, const char *word, size_t i, const char *other) {
    uint8_t message[N_TAGS + 4 * N];
    size_t bytes = tag == 3 ? 4 : tag;
    float max_abs;
    memset(message, tag * 0x55, N_TAGS);
    message[N_TAGS - 1] &= 0x0f; /* no tags after the last value */
    for (size_t k = 0; k < N; k++) {
        memcpy(message + N_TAGS + bytes * k, k == i ? other : word, bytes);
    }
    return accepted(message, N_TAGS + bytes * N, N, &max_abs);
}

FED_TEST(one_word_in_the_wrong_class_is_found_anywhere) {
    for (size_t i = 0; i < N; i++) {
        assert_true(accepted_with(1, "\x40", i, "\xc0"));
        assert_false(accepted_with(1, "\x40", i, "\x00"));
        assert_false(accepted_with(1, "\x40", i, "\x82"));
        assert_true(accepted_with(1, "\x08", i, "\x01"));
        assert_false(accepted_with(1, "\x08", i, "\x20")); /* 1/4 in 8 bits needs e <= 3 */
        assert_true(accepted_with(2, "\x00\x40", i, "\x00\x81"));
        assert_false(accepted_with(2, "\x00\x40", i, "\xff\x80"));
        assert_false(accepted_with(2, "\x00\x40", i, "\x00\x00"));
        assert_true(accepted_with(3, "\x00\x00\x80\x3f", i, "\xff\xff\x7f\xff"));
        assert_false(accepted_with(3, "\x00\x00\x80\x3f", i, "\xff\xff\x7f\x3f"));
        assert_false(accepted_with(3, "\x00\x00\x80\x3f", i, "\x00\x00\x80\xff"));
    }
}

FED_TEST(the_largest_magnitude_is_found_anywhere) {
    static const float largest[] = {0x1p-7f, 0x1.8p-6f, 0x1.04p-5f, 0x1.fffcp-1f, 1.0f, 0x1.8p90f};
    for (size_t k = 0; k < 2 * sizeof largest / sizeof largest[0]; k++) {
        for (size_t i = 0; i < N; i++) {
            uint8_t message[5 * N];
            float x[N], max_abs = -1.0f;
            for (size_t j = 0; j < N; j++) {
                x[j] = j % 3 ? 0x1p-8f : 0.0f;
            }
            x[i] = k % 2 ? -largest[k / 2] : largest[k / 2];
            assert_true(accepted(message, encode(10, x, N, message), N, &max_abs));
            assert_true(max_abs == largest[k / 2]);
        }
    }
}

FED_TEST(tags_that_call_for_more_than_there_is_are_refused) {
    enum { MANY = 1000, TAGS = MANY / 4 };
    static uint8_t message[TAGS + 4 * MANY + 1];
    float max_abs;
    memset(message, 0xff, TAGS);
    for (size_t i = 0; i < MANY; i++) {
        memcpy(message + TAGS + 4 * i, "\x00\x00\x80\x3f", 4);
    }
    assert_true(accepted(message, TAGS + 4 * MANY, MANY, &max_abs));
    assert_false(accepted(message, TAGS + 4 * MANY + 1, MANY, &max_abs));
    for (size_t cut = 1; cut <= 4 * MANY; cut += cut < 700 ? 1 : 61) {
        assert_false(accepted(message, TAGS + 4 * MANY - cut, MANY, &max_abs));
    }
}

FED_TEST(blocks_of_nothing_come_back) {
    enum { MANY = 3000 };
    static const float kinds[] = {0.0f, 0x1p-6f, -0.5f, 3.0f};
    for (size_t k = 0; k < 16; k++) {
        static float x[MANY], y[MANY];
        static uint8_t dst[5 * MANY];
        for (size_t i = 0; i < MANY; i++) {
            x[i] = kinds[i < 1111 ? k % 4 : k / 4];
        }
        size_t len = encode(10, x, MANY, dst);
        for (size_t u = 0; on_unit(u) != NULL; u++) {
            uint8_t *copy = malloc(len);
            assert_non_null(copy);
            memcpy(copy, dst, len);
            assert_fed_ok(fedcodec_decode(on_unit(u), copy, len, y, MANY));
            assert_memory_equal(y, x, sizeof y);
            assert_fed_ok(fedcodec_axpy(on_unit(u), copy, len, 2.0f, y, MANY));
            assert_true(y[0] == 3.0f * x[0] && y[MANY - 1] == 3.0f * x[MANY - 1]);
            free(copy);
        }
    }
}

FED_TEST(zeros_leave_what_they_are_added_to_alone) {
    enum { MANY = 3 * 64 + 5 };
    for (size_t filled = 0; filled <= MANY; filled++) { /* then a value that is not zero */
        float x[MANY], y[MANY];
        uint8_t dst[5 * MANY];
        for (size_t i = 0; i < MANY; i++) {
            x[i] = i == filled ? 0x1p-6f : i % 3 == 0 ? 0.0f : i % 3 == 1 ? 0x1p-9f : -0x1p-9f;
        }
        size_t len = encode(10, x, MANY, dst);
        for (size_t u = 0; on_unit(u) != NULL; u++) {
            for (size_t i = 0; i < MANY; i++) {
                y[i] = -0.0f;
            }
            assert_fed_ok(fedcodec_axpy(on_unit(u), dst, len, 2.0f, y, MANY));
            for (size_t i = 0; i < MANY; i++) {
                assert_true(i == filled ? y[i] == 0x1p-5f : y[i] == 0.0f && signbit(y[i]));
            }
        }
    }
}

/* Blocks of each kind, in any order and at any place of a message. */
FED_TEST(blocks_of_few_bits_and_of_many_are_coded_as_in_the_paper) {
    static const uint32_t least[] = {90, 117, 119, 121, 125}, most[] = {118, 120, 122, 126, 128};
    static float x[MOST];
    fed_rng rng;
    fed_rng_init(&rng, 5, 1, 4);
    for (unsigned e = 1; e <= 15; e++) {
        for (size_t i = 0, kind = 0; i < MOST; i++) {
            kind = i % 64 == 0 ? fed_rng_below(&rng, 5) : kind;
            uint32_t exponent = least[kind] + fed_rng_below(&rng, most[kind] - least[kind]);
            x[i] = from_bits(fed_rng_below(&rng, 2) << 31 | exponent << 23 |
                             fed_rng_below(&rng, 1u << 23));
        }
        for (size_t u = 0; on_unit(u) != NULL; u++) {
            assert_as_the_paper_on(on_unit(u), e, x, MOST - e);
        }
    }
}
