/* trunc: which bits it keeps, how they are packed, and the messages that it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"
#include "codecs/registry.h"
#include "fed/rng.h"

FED_TEST(bytes_are_b_and_the_upper_bits) {
    const float x[2] = {1.0f + 0x1p-8f, -2.5f}, y[2] = {1.0f, -2.5f};
    assert_codec_message("trunc:b=16", x, y, 2, "\x10\x3f\x80\xc0\x20", 5);
}

/* Ten bits a value: 0011111110 1100000000, and zeros to the end of the byte. */
FED_TEST(bits_are_packed_without_gaps) {
    const float x[2] = {1.25f, -2.5f}, y[2] = {1.0f, -2.0f};
    assert_codec_message("trunc:b=22", x, y, 2, "\x16\x3f\xb0\x00", 4);
}

/* With b = 24 the exponent's lowest bit is cut, so only every other power of two is left. */
FED_TEST(from_24_on_the_exponent_is_cut) {
    const float x[3] = {1.0f, -2.0f, 7.9f}, y[3] = {0.5f, -2.0f, 2.0f};
    assert_codec_message("trunc:b=24", x, y, 3, "\x18\x3f\xc0\x40", 4);
    const float signs[2] = {1.0f, -1.0f}, none[2] = {0.0f, -0.0f};
    assert_codec_message("trunc:b=31", signs, none, 2, "\x1f\x40", 2);
}

FED_TEST(what_is_cut_is_lost) {
    const float x[3] = {0.1f, -3.7f, FLT_MAX}, left[3] = {0.0f};
    codec_case c = codec_case_of("trunc", x, 3);
    assert_memory_equal(c.residual, left, sizeof left);
    assert_true(c.decoded[2] == 0x1.fep+127f);
}

FED_TEST(each_b_cuts_towards_zero) {
    for (unsigned b = 1; b < 32; b++) {
        char spec[16];
        float x[63];
        for (size_t i = 0; i < 63; i++) {
            x[i] = ldexpf(i % 2 ? -1.7f : 1.3f, (int)(4 * i) - 126);
        }
        snprintf(spec, sizeof spec, "trunc:b=%u", b);
        codec_case c = codec_case_of(spec, x, 63);
        assert_int_equal(c.len, 1 + (63 * (32 - b) + 7) / 8);
        for (size_t i = 0; i < 63; i++) {
            uint32_t before, after;
            memcpy(&before, &x[i], sizeof before);
            memcpy(&after, &c.decoded[i], sizeof after);
            assert_int_equal(after, before >> b << b);
        }
    }
}

enum { N = 800, CAP = 1 + 4 * N };

static void fill_random(float *x, size_t n, uint32_t stream) {
    fed_rng rng;
    fed_rng_init(&rng, 14, stream, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = fed_rng_below(&rng, 255) << 23 | fed_rng_below(&rng, 1u << 23) |
                        fed_rng_below(&rng, 2) << 31;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* Encode bit by bit, as docs/codec-formats.md says. `message` gets the bytes, and `left` the values
 * that arrive. */
static size_t by_bits(const float *x, size_t n, unsigned b, uint8_t *message, float *left) {
    size_t at = 8;
    memset(message, 0, CAP);
    message[0] = (uint8_t)b;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        for (unsigned k = 31; k >= b; k--, at++) {
            message[at / 8] |= (uint8_t)((bits >> k & 1) << (7 - at % 8));
        }
        bits = bits >> b << b;
        memcpy(&left[i], &bits, sizeof bits);
    }
    return (at + 7) / 8;
}

/* Encode and decode in memory of exactly the needed sizes. */
static void assert_message_on_unit(const fedcodec *codec, const float *x, size_t n,
                                   const uint8_t *message, size_t len, const float *left) {
    float *values = malloc(n * sizeof *values), max_abs = -1.0f, largest = 0.0f;
    uint8_t *dst = malloc(len);
    size_t dst_len = 0;
    assert_true(values != NULL && dst != NULL);
    assert_fed_ok(fedcodec_encode(codec, NULL, x, n, NULL, dst, len, &dst_len));
    assert_int_equal(dst_len, len);
    assert_memory_equal(dst, message, len);
    assert_fed_ok(fedcodec_decode(codec->vtable, dst, len, values, n));
    assert_memory_equal(values, left, n * sizeof *left);
    for (size_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf(left[i]));
    }
    assert_fed_ok(codec->vtable->check(dst, len, n, &max_abs));
    assert_true(max_abs == largest);
    free(values);
    free(dst);
}

FED_TEST(each_b_is_packed_bit_by_bit_on_each_unit) {
    static const size_t lengths[] = {1, 2, 7, 8, 9, 31, 255, 256, 257, 511, 512, 513, N};
    for (unsigned b = 1; b < 32; b++) {
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            float x[N], left[N];
            uint8_t message[CAP];
            fill_random(x, lengths[k], b);
            size_t len = by_bits(x, lengths[k], b, message, left);
            for (size_t u = 0; fedcodec_unit_at(u) != NULL; u++) {
                const fedcodec codec = {.vtable = fedcodec_unit_at(u)->codecs[FEDCODEC_INDEX_trunc],
                                        .param = {b}};
                assert_message_on_unit(&codec, x, lengths[k], message, len, left);
            }
        }
    }
}

FED_TEST(an_infinity_is_found_anywhere_with_each_b) {
    for (unsigned b = 1; b < 32; b++) {
        const fedcodec codec = {.vtable = fedcodec_by_id(14), .param = {b}};
        for (size_t i = 0; i < N; i += 37) {
            float x[N];
            uint8_t dst[CAP];
            size_t len = 12345;
            fill_random(x, N, b);
            x[i] = i % 2 ? INFINITY : -NAN;
            assert_fed_status(fedcodec_encode(&codec, NULL, x, N, NULL, dst, sizeof dst, &len),
                              FED_ENONFINITE);
            assert_int_equal(len, 12345);
        }
    }
}

FED_TEST(b_is_a_whole_number) {
    fedcodec codec;
    fed_error err = {0};
    assert_fed_status(fedcodec_parse("trunc:b=16.5", &codec, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "b=16.5 must be a whole number"));
    assert_fed_ok(fedcodec_parse("trunc:b=16", &codec, &err));
    codec.param[0] = 16.5;
    float x = 1.0f;
    uint8_t dst[8];
    size_t len;
    assert_fed_status(fedcodec_encode(&codec, &x, NULL, 1, NULL, dst, sizeof dst, &len),
                      FED_EINVAL);
}

FED_TEST(malformed_messages_are_refused) {
    assert_accepts(14, "\x10\x7f\x7f", 1);
    assert_refuses(14, "\x10\x7f\x80", 1);     /* infinity */
    assert_refuses(14, "\x10\xff\xc0", 1);     /* NaN */
    assert_accepts(14, "\x18\x7f", 1);         /* the exponent's last bit is 0 */
    assert_refuses(14, "\x10\x7f\x7f\x00", 1); /* a trailing byte */
    assert_refuses(14, "\x10\x7f", 1);
    assert_refuses(14, "\x00\x00\x00\x00\x00", 1); /* b = 0 */
    assert_refuses(14, "\x20", 1);                 /* b = 32 */
    assert_accepts(14, "\x16\x3f\xb0\x00", 2);
    assert_refuses(14, "\x16\x3f\xb0\x08", 2); /* a one in the padding */
    assert_accepts(14, "\x10", 0);
    assert_refuses(14, "", 0);
}
