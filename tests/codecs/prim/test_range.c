/* The limits of the range coder: the highest position, and the last bytes of a message. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/prim/range.h"
#include "fedcodec/codec.h"

FED_TEST(a_position_just_past_the_end_is_refused) {
    /* A message of sbc: 2 positions in the range coder's code, mean 1.5. The second position is
     * 100, but there are only 100 values. */
    static const uint8_t message[] = {0x02, 0x40, 0x00, 0x00, 0xc0, 0x3f, 0xec, 0xc8};
    float *y = malloc(100 * sizeof *y); /* so a sanitizer sees writes past the values */
    assert_non_null(y);
    assert_fed_status(fedcodec_decode(fedcodec_by_id(3), message, sizeof message, y, 100),
                      FED_EFORMAT);
    free(y);
    uint32_t position[2];
    fedcodec_range_reader r;
    fedcodec_range_start(&r, message + 6, 2, 2, 100);
    assert_false(fedcodec_range_read(&r, position, 2));
    assert_fed_status(fedcodec_range_end(&r), FED_EFORMAT);
}

FED_TEST(the_last_position_there_is_comes_back) {
    static const uint32_t sent[] = {0, 99};
    uint32_t position[2];
    uint8_t dst[16];
    size_t len = 0;
    fedcodec_range_reader r;
    assert_fed_ok(fedcodec_range_put(sent, 2, 100, dst, sizeof dst, &len));
    fedcodec_range_start(&r, dst, len, 2, 100);
    assert_true(fedcodec_range_read(&r, position, 2));
    assert_fed_ok(fedcodec_range_end(&r));
    assert_memory_equal(position, sent, sizeof sent);
}

FED_TEST(an_end_may_take_three_bytes) {
    static const uint32_t sent[] = {7, 31, 43};
    static const uint8_t expected[] = {0x9c, 0xff, 0xb6};
    uint32_t position[3];
    uint8_t dst[16];
    size_t len = 0;
    assert_fed_ok(fedcodec_range_put(sent, 3, 49, dst, sizeof dst, &len));
    assert_int_equal(len, sizeof expected);
    assert_memory_equal(dst, expected, sizeof expected);
    fedcodec_range_reader r;
    fedcodec_range_start(&r, expected, sizeof expected, 3, 49);
    assert_true(fedcodec_range_read(&r, position, 3));
    assert_fed_ok(fedcodec_range_end(&r));
    assert_memory_equal(position, sent, sizeof sent);
}
