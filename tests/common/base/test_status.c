/* Status codes: their numbers, which must never change, their names and their texts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/status.h"

FED_TEST(test_values_are_pinned) {
    assert_int_equal(FED_OK, 0);
    assert_int_equal(FED_EFORMAT, 2);
    assert_int_equal(FED_EIO, 5);
    assert_int_equal(FED_ENONFINITE, 12);
    assert_int_equal(FED_ECANCELED, 16);
    assert_int_equal(FED_EDECLINED, 17);
}

FED_TEST(test_every_status_has_a_name_and_words) {
    for (int status = FED_OK; status <= FED_EDECLINED; status++) {
        assert_memory_equal(fed_status_name((fed_status)status), "FED_", 4);
        assert_string_not_equal(fed_status_name((fed_status)status), "FED_?");
        assert_true(strlen(fed_status_text((fed_status)status)) > 0);
    }
    assert_string_equal(fed_status_name(FED_EFORMAT), "FED_EFORMAT");
}

FED_TEST(test_an_unknown_status_still_has_a_name) {
    assert_string_equal(fed_status_name((fed_status)18), "FED_?");
    assert_string_equal(fed_status_name((fed_status)-1), "FED_?");
    assert_string_equal(fed_status_text((fed_status)1000), "unknown status");
}

static fed_status try_it(fed_status first, int *reached) {
    FED_TRY(first);
    ++*reached;
    FED_REQUIRE(*reached < 2, FED_ERANGE);
    return FED_OK;
}

FED_TEST(test_try_and_require_return_early) {
    int reached = 0;
    assert_fed_status(try_it(FED_EIO, &reached), FED_EIO);
    assert_int_equal(reached, 0);
    assert_fed_status(try_it(FED_OK, &reached), FED_OK);
    assert_fed_status(try_it(FED_OK, &reached), FED_ERANGE);
}
