/* The table of links: each name finds its row, and names are unique. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "feddc/link.h"

FED_TEST(each_name_finds_its_own_row) {
    for (size_t k = 0; feddc_link_at(k) != NULL; k++) {
        assert_ptr_equal(feddc_link_named(feddc_link_at(k)->name), feddc_link_at(k));
        for (size_t j = 0; j < k; j++) {
            assert_int_not_equal(feddc_link_at(j)->id, feddc_link_at(k)->id);
        }
    }
}

FED_TEST(another_name_finds_none) {
    assert_null(feddc_link_named("pigeon"));
    assert_null(feddc_link_named(""));
}
