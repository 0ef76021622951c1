/* The table of bytes that hold five digits of base 3 each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/prim/quartic.h"

FED_TEST(each_byte_is_the_sum_of_its_digits) {
    for (int byte = 0; byte < FEDCODEC_QUARTIC_BYTES; byte++) {
        const int8_t *v = fedcodec_quartic_values[byte];
        int sum = 81 * (v[0] + 1) + 27 * (v[1] + 1) + 9 * (v[2] + 1) + 3 * (v[3] + 1) + v[4] + 1;
        assert_int_equal(sum, byte);
        for (int k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            assert_true(v[k] >= -1 && v[k] <= 1);
        }
    }
}

FED_TEST(byte_121_is_five_zeros) {
    static const int8_t zeros[FEDCODEC_QUARTIC_DIGITS] = {0};
    assert_memory_equal(fedcodec_quartic_values[FEDCODEC_QUARTIC_ZERO], zeros, sizeof zeros);
}

FED_TEST(five_values_a_byte_rounded_up) {
    assert_int_equal(fedcodec_quartic_len(0), 0);
    assert_int_equal(fedcodec_quartic_len(1), 1);
    assert_int_equal(fedcodec_quartic_len(5), 1);
    assert_int_equal(fedcodec_quartic_len(6), 2);
    assert_int_equal(fedcodec_quartic_len(UINT32_MAX), 858993459);
}
