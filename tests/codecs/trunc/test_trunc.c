/* trunc: which bits stay, how they are packed, and the messages that it refuses. */
#include "fed_test.h"

#include <float.h>
#include <math.h>

#include "codec_case.h"

static void bytes_are_b_and_the_upper_bits(void **state) {
    (void)state;
    const float x[2] = {1.0f + 0x1p-8f, -2.5f}, y[2] = {1.0f, -2.5f};
    assert_codec_message("trunc:b=16", x, y, 2, "\x10\x3f\x80\xc0\x20", 5);
}

/* Ten bits a value: 0011111110 1100000000, and zeros to the end of the byte. */
static void bits_are_packed_without_gaps(void **state) {
    (void)state;
    const float x[2] = {1.25f, -2.5f}, y[2] = {1.0f, -2.0f};
    assert_codec_message("trunc:b=22", x, y, 2, "\x16\x3f\xb0\x00", 4);
}

/* The exponent's last bit goes: only every other power of two is left. */
static void from_24_on_the_exponent_is_cut(void **state) {
    (void)state;
    const float x[3] = {1.0f, -2.0f, 7.9f}, y[3] = {0.5f, -2.0f, 2.0f};
    assert_codec_message("trunc:b=24", x, y, 3, "\x18\x3f\xc0\x40", 4);
    const float signs[2] = {1.0f, -1.0f}, none[2] = {0.0f, -0.0f};
    assert_codec_message("trunc:b=31", signs, none, 2, "\x1f\x40", 2);
}

static void what_is_cut_is_lost(void **state) {
    (void)state;
    const float x[3] = {0.1f, -3.7f, FLT_MAX}, left[3] = {0.0f};
    codec_case c = codec_case_of("trunc", x, 3);
    assert_memory_equal(c.residual, left, sizeof left);
    assert_true(c.decoded[2] == 0x1.fep+127f);
}

static void each_b_cuts_towards_zero(void **state) {
    (void)state;
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

static void b_is_a_whole_number(void **state) {
    (void)state;
    fedcodec codec;
    fed_error err = {0};
    assert_fed_status(fedcodec_parse("trunc:b=16.5", &codec, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "b=16.5 is not a whole number"));
    assert_fed_ok(fedcodec_parse("trunc:b=16", &codec, &err));
    codec.param[0] = 16.5;
    float x = 1.0f;
    uint8_t dst[8];
    size_t len;
    assert_fed_status(fedcodec_encode(&codec, &x, NULL, 1, NULL, dst, sizeof dst, &len),
                      FED_EINVAL);
}

static void malformed_messages_are_refused(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_b_and_the_upper_bits),
        cmocka_unit_test(bits_are_packed_without_gaps),
        cmocka_unit_test(from_24_on_the_exponent_is_cut),
        cmocka_unit_test(what_is_cut_is_lost),
        cmocka_unit_test(each_b_cuts_towards_zero),
        cmocka_unit_test(b_is_a_whole_number),
        cmocka_unit_test(malformed_messages_are_refused),
    };
    return cmocka_run_group_tests_name("trunc", tests, NULL, NULL);
}
