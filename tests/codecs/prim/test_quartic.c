/* The table of base-3^5 bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "codecs/prim/quartic.h"

static void each_byte_is_the_sum_of_its_digits(void) {
    for (int byte = 0; byte < FEDCODEC_QUARTIC_BYTES; byte++) {
        const int8_t *v = fedcodec_quartic_values[byte];
        int sum = 81 * (v[0] + 1) + 27 * (v[1] + 1) + 9 * (v[2] + 1) + 3 * (v[3] + 1) + v[4] + 1;
        assert_int_equal(sum, byte);
        for (int k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            assert_true(v[k] >= -1 && v[k] <= 1);
        }
    }
}

static void byte_121_is_five_zeros(void) {
    static const int8_t zeros[FEDCODEC_QUARTIC_DIGITS] = {0};
    assert_memory_equal(fedcodec_quartic_values[FEDCODEC_QUARTIC_ZERO], zeros, sizeof zeros);
}

static void five_values_a_byte_rounded_up(void) {
    assert_int_equal(fedcodec_quartic_len(0), 0);
    assert_int_equal(fedcodec_quartic_len(1), 1);
    assert_int_equal(fedcodec_quartic_len(5), 1);
    assert_int_equal(fedcodec_quartic_len(6), 2);
    assert_int_equal(fedcodec_quartic_len(UINT32_MAX), 858993459);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(each_byte_is_the_sum_of_its_digits),
        fed_unit_test(byte_121_is_five_zeros),
        fed_unit_test(five_values_a_byte_rounded_up),
    };
    return cmocka_run_group_tests_name("base 3^5", tests, NULL, NULL);
}
