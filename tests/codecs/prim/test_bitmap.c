/* Bitmaps: the order of bits, and reading them back at every length. */
#include "fed_test.h"

#include "codecs/prim/bitmap.h"

static void the_first_flag_is_the_top_bit(void **state) {
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t flag[8];
        for (unsigned k = 0; k < 8; k++) {
            flag[k] = byte >> (7 - k) & 1;
        }
        assert_int_equal(fedcodec_bitmap_byte(flag), byte);
    }
}

static void ones_are_found_where_they_are(void **state) {
    (void)state;
    for (size_t n = 0; n <= 200; n++) {
        for (size_t stride = 1; stride < 200; stride += 13) {
            size_t len = fedcodec_bitmap_len(n), ones = 0;
            uint8_t *map = calloc(len + (len == 0), 1); /* so that a read past it is seen */
            assert_non_null(map);
            for (size_t i = stride / 2; i < n; i += stride, ones++) {
                map[i / 8] |= (uint8_t)(0x80 >> i % 8);
            }
            assert_int_equal(fedcodec_bitmap_count(map, len), ones);
            fedcodec_bitmap_reader r;
            fedcodec_bitmap_start(&r, map, len);
            for (size_t i = 0; i < ones; i++) {
                assert_int_equal(fedcodec_bitmap_next(&r), stride / 2 + i * stride);
            }
            free(map);
        }
    }
}

static void padding_is_zeros(void **state) {
    (void)state;
    const uint8_t map[2] = {0xff, 0xe0};
    assert_true(fedcodec_bitmap_padded(map, 11));
    assert_false(fedcodec_bitmap_padded(map, 10));
    assert_true(fedcodec_bitmap_padded(map, 8));
    assert_true(fedcodec_bitmap_padded(map, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_flag_is_the_top_bit),
        cmocka_unit_test(ones_are_found_where_they_are),
        cmocka_unit_test(padding_is_zeros),
    };
    return cmocka_run_group_tests_name("bitmap", tests, NULL, NULL);
}
