/* Readers and writers of bytes: their layout, their limits, and that a failure stays. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/bytes.h"

FED_TEST(test_integers_and_floats_are_little_endian) {
    static const uint8_t golden[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e, 0x0d,
                                     0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x00, 0x00, 0xc0, 0xbf};
    uint8_t bytes[sizeof golden];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_u8(&w, 0x01);
    fed_write_u16(&w, 0x0203);
    fed_write_u32(&w, 0x04050607);
    fed_write_u64(&w, 0x08090a0b0c0d0e0f);
    fed_write_f32(&w, -1.5f);
    assert_fed_ok(w.status);
    assert_int_equal(w.len, sizeof golden);
    assert_memory_equal(bytes, golden, sizeof golden);

    fed_reader r;
    fed_reader_init(&r, golden, sizeof golden);
    assert_int_equal(fed_read_u8(&r), 0x01);
    assert_int_equal(fed_read_u16(&r), 0x0203);
    assert_int_equal(fed_read_u32(&r), 0x04050607);
    assert_true(fed_read_u64(&r) == 0x08090a0b0c0d0e0f);
    assert_true(fed_read_f32(&r) == -1.5f);
    assert_fed_ok(fed_reader_end(&r));
}

FED_TEST(test_float_bits_survive_even_for_nan) {
    uint8_t bytes[4];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_f32(&w, NAN);
    fed_reader r;
    fed_reader_init(&r, bytes, sizeof bytes);
    assert_true(isnan(fed_read_f32(&r)));
}

static const struct {
    uint64_t value;
    size_t size;
    uint8_t bytes[10];
} varints[] = {
    {0, 1, {0x00}},
    {1, 1, {0x01}},
    {127, 1, {0x7f}},
    {128, 2, {0x80, 0x01}},
    {300, 2, {0xac, 0x02}},
    {16383, 2, {0xff, 0x7f}},
    {16384, 3, {0x80, 0x80, 0x01}},
    {UINT32_MAX, 5, {0xff, 0xff, 0xff, 0xff, 0x0f}},
    {(uint64_t)1 << 63, 10, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
    {UINT64_MAX, 10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
};

FED_TEST(test_varints_have_their_golden_bytes) {
    for (size_t i = 0; i < sizeof varints / sizeof varints[0]; i++) {
        uint8_t bytes[10];
        fed_writer w;
        fed_writer_fixed(&w, bytes, sizeof bytes);
        fed_write_varint(&w, varints[i].value);
        assert_int_equal(w.len, varints[i].size);
        assert_int_equal(fed_varint_size(varints[i].value), varints[i].size);
        assert_memory_equal(bytes, varints[i].bytes, w.len);
        fed_reader r;
        fed_reader_init(&r, bytes, w.len);
        assert_true(fed_read_varint(&r) == varints[i].value);
        assert_fed_ok(fed_reader_end(&r));
    }
}

FED_TEST(test_a_varint_that_is_not_the_shortest_is_refused) {
    static const struct {
        size_t len;
        uint8_t bytes[11];
    } bad[] = {
        {2, {0x80, 0x00}},                                                  /* 0 in two bytes */
        {3, {0xff, 0x80, 0x00}},                                            /* 127 in three bytes */
        {10, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02}}, /* 2^64 */
        {10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}}, /* above 2^64 */
        {11, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x81, 0x1}}, /* 11 bytes */
        {1, {0x80}},                                                             /* cut off */
        {0, {0}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fed_reader r;
        fed_reader_init(&r, bad[i].bytes, bad[i].len);
        assert_true(fed_read_varint(&r) == 0);
        assert_fed_status(r.status, FED_EFORMAT);
    }
}

FED_TEST(test_a_failed_reader_answers_zero_ever_after) {
    static const uint8_t bytes[] = {1, 2, 3, 4, 5};
    fed_reader r;
    fed_reader_init(&r, bytes, sizeof bytes);
    assert_true(fed_read_u64(&r) == 0);
    assert_fed_status(r.status, FED_EFORMAT);
    assert_int_equal(fed_read_u8(&r), 0);
    assert_null(fed_read_bytes(&r, 0));
    char text[8] = "before";
    fed_read_str(&r, text, sizeof text);
    assert_string_equal(text, "");
    assert_fed_status(fed_reader_end(&r), FED_EFORMAT);
}

FED_TEST(test_trailing_bytes_are_refused_at_the_end) {
    static const uint8_t bytes[] = {1, 2};
    fed_reader r;
    fed_reader_init(&r, bytes, sizeof bytes);
    (void)fed_read_u8(&r);
    assert_int_equal(fed_reader_left(&r), 1);
    assert_fed_status(fed_reader_end(&r), FED_EFORMAT);
}

FED_TEST(test_bytes_are_handed_out_in_place) {
    static const uint8_t bytes[] = {1, 2, 3};
    fed_reader r;
    fed_reader_init(&r, bytes, sizeof bytes);
    assert_ptr_equal(fed_read_bytes(&r, 2), bytes);
    assert_null(fed_read_bytes(&r, SIZE_MAX));
    assert_fed_status(r.status, FED_EFORMAT);
}

FED_TEST(test_an_empty_view_may_be_null) {
    fed_reader r;
    fed_reader_init(&r, NULL, 0);
    assert_non_null(fed_read_bytes(&r, 0));
    assert_fed_ok(fed_reader_end(&r));
}

FED_TEST(test_strings_round_trip) {
    uint8_t bytes[16];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_str(&w, "abc");
    fed_write_str(&w, "");
    static const uint8_t golden[] = {3, 'a', 'b', 'c', 0};
    assert_int_equal(w.len, sizeof golden);
    assert_memory_equal(bytes, golden, sizeof golden);
    fed_reader r;
    fed_reader_init(&r, bytes, w.len);
    char text[4];
    fed_read_str(&r, text, sizeof text);
    assert_string_equal(text, "abc");
    fed_read_str(&r, text, sizeof text);
    assert_string_equal(text, "");
    assert_fed_ok(fed_reader_end(&r));
}

FED_TEST(test_strings_that_do_not_fit_or_hold_a_nul_are_refused) {
    static const struct {
        size_t len;
        uint8_t bytes[10];
    } bad[] = {
        {5, {4, 'a', 'b', 'c', 'd'}},                                       /* no room */
        {4, {3, 'a', 0, 'c'}},                                              /* a NUL in the text */
        {3, {3, 'a', 'b'}},                                                 /* cut off */
        {10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}}, /* a huge length */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fed_reader r;
        fed_reader_init(&r, bad[i].bytes, bad[i].len);
        char text[4] = "xyz";
        fed_read_str(&r, text, sizeof text);
        assert_string_equal(text, "");
        assert_fed_status(r.status, FED_EFORMAT);
    }
}

FED_TEST(test_a_full_writer_writes_nothing_more) {
    uint8_t bytes[6] = {0, 0, 0, 0, 0, 0xee};
    fed_writer w;
    fed_writer_fixed(&w, bytes, 5);
    fed_write_u32(&w, 1);
    fed_write_u16(&w, 2);
    assert_fed_status(w.status, FED_ENOSPC);
    fed_write_u8(&w, 3); /* fits, but the writer has failed before */
    assert_int_equal(w.len, 4);
    assert_int_equal(bytes[4], 0);
    assert_int_equal(bytes[5], 0xee);
    assert_null(fed_writer_reserve(&w, 0));
}

FED_TEST(test_a_string_is_written_whole_or_not_at_all) {
    uint8_t bytes[3] = {9, 9, 9};
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_str(&w, "abc");
    assert_fed_status(w.status, FED_ENOSPC);
    assert_int_equal(w.len, 0);
    assert_int_equal(bytes[0], 9);
}

FED_TEST(test_a_growing_writer_grows) {
    fed_writer w;
    fed_writer_growing(&w);
    for (uint32_t i = 0; i < 10000; i++) {
        fed_write_u32(&w, i);
    }
    fed_write_bytes(&w, NULL, 0);
    assert_fed_ok(w.status);
    assert_int_equal(w.len, 40000);
    fed_reader r;
    fed_reader_init(&r, w.data, w.len);
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(fed_read_u32(&r), i);
    }
    fed_writer_free(&w);
    assert_null(w.data);
    assert_int_equal(w.len, 0);
    fed_write_u8(&w, 1);
    assert_fed_ok(w.status);
    fed_writer_free(&w);
}

FED_TEST(test_a_size_that_no_memory_has_fails_with_enomem) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, 1);
    assert_null(fed_writer_reserve(&w, SIZE_MAX));
    assert_fed_status(w.status, FED_ENOMEM);
    assert_int_equal(w.data[0], 1);
    fed_writer_free(&w);
}

FED_TEST(test_reserved_room_counts_only_as_far_as_it_was_used) {
    fed_writer w;
    fed_writer_growing(&w);
    uint8_t *at = fed_writer_reserve(&w, 100);
    assert_non_null(at);
    memcpy(at, "xy", 2);
    assert_int_equal(w.len, 0);
    fed_writer_advance(&w, 2);
    assert_int_equal(w.len, 2);
    assert_memory_equal(w.data, "xy", 2);
    fed_writer_free(&w);
}

FED_TEST(test_printf_counts_no_nul_but_needs_room_for_it) {
    char text[6];
    fed_writer w;
    fed_writer_fixed(&w, text, sizeof text);
    fed_write_printf(&w, "%s%d", "abc", 12);
    assert_fed_ok(w.status);
    assert_int_equal(w.len, 5);
    assert_string_equal(text, "abc12");
    fed_write_printf(&w, "%c", '!');
    assert_fed_status(w.status, FED_ENOSPC);
    assert_string_equal(text, "abc12");
}
