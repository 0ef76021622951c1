/* Bitmaps: the order of bits, and reading them back at every length. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/prim/bitmap.h"

FED_TEST(the_first_flag_is_the_top_bit) {
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t flag[8];
        for (unsigned k = 0; k < 8; k++) {
            flag[k] = byte >> (7 - k) & 1;
        }
        assert_int_equal(fedcodec_bitmap_byte(flag), byte);
    }
}

FED_TEST(ones_are_found_where_they_are) {
    for (size_t n = 0; n <= 200; n++) {
        for (size_t stride = 1; stride < 200; stride += 13) {
            size_t len = fedcodec_bitmap_len(n), ones = 0;
            uint8_t *map = calloc(len + (len == 0), 1); /* sanitizers see reads past the end */
            assert_non_null(map);
            for (size_t i = stride / 2; i < n; i += stride, ones++) {
                map[i / 8] |= (uint8_t)(0x80 >> i % 8);
            }
            assert_int_equal(fedcodec_bitmap_count(map, len), ones);
            size_t next = stride / 2;
            for (size_t at = 0; at < len; at += 8) {
                uint64_t word = fedcodec_bitmap_word(map, len, at);
                uint64_t reversed = fedcodec_bitmap_reversed(word);
                for (; word != 0; next += stride, reversed &= reversed - 1) {
                    assert_int_equal(8 * at + (size_t)__builtin_ctzll(reversed), next);
                    assert_int_equal(8 * at + fedcodec_bitmap_take(&word), next);
                }
                assert_true(reversed == 0);
            }
            assert_int_equal(next, stride / 2 + ones * stride);
            free(map);
        }
    }
}

FED_TEST(a_map_of_positions) {
    const uint32_t position[] = {0, 1, 31, 32, 70};
    uint8_t map[9 + 3];
    memset(map, 0xa5, sizeof map);
    fedcodec_bitmap_put(position, 5, map, 9);
    assert_memory_equal(map, ((const uint8_t[]){0xc0, 0, 0, 1, 0x80, 0, 0, 0, 2}), 9);
    memset(map, 0xa5, sizeof map);
    fedcodec_bitmap_put(position, 0, map, 9);
    assert_memory_equal(map, ((const uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa5}), 10);
}

FED_TEST(padding_is_zeros) {
    const uint8_t map[2] = {0xff, 0xe0};
    assert_true(fedcodec_bitmap_padded(map, 11));
    assert_false(fedcodec_bitmap_padded(map, 10));
    assert_true(fedcodec_bitmap_padded(map, 8));
    assert_true(fedcodec_bitmap_padded(map, 0));
}
