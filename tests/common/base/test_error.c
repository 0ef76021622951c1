/* fed_error: its status and its sentence. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/error.h"

FED_TEST(test_fail_writes_the_sentence_and_returns_the_status) {
    fed_error err = {0};
    assert_fed_status(fed_fail(&err, FED_ERANGE, "%s:%d: too large", "task.json", 7), FED_ERANGE);
    assert_fed_status(err.status, FED_ERANGE);
    assert_string_equal(err.text, "task.json:7: too large");
}

FED_TEST(test_fail_without_an_error_only_returns_the_status) {
    assert_fed_status(fed_fail(NULL, FED_EIO, "nobody reads %s", "this"), FED_EIO);
}

FED_TEST(test_too_long_a_sentence_is_cut) {
    fed_error err = {0};
    char word[1000];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_fed_status(fed_fail(&err, FED_EINVAL, "%s", word), FED_EINVAL);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

FED_TEST(test_a_whole_sentence_is_taken_as_it_is) {
    fed_error err = {0};
    assert_fed_status(fed_fail_with(&err, FED_EBUSY, "100 %s of the battery"), FED_EBUSY);
    assert_fed_status(err.status, FED_EBUSY);
    assert_string_equal(fed_error_text(&err), "100 %s of the battery");
    assert_fed_status(fed_fail_with(&err, FED_ENOMEM, NULL), FED_ENOMEM);
    assert_string_equal(err.text, fed_status_text(FED_ENOMEM));
}

FED_TEST(test_an_error_without_a_sentence_has_its_statuss_words) {
    const fed_error err = {.status = FED_ENOSPC};
    assert_string_equal(fed_error_text(&err), fed_status_text(FED_ENOSPC));
}
