/* Errors with a sentence. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fed/error.h"

static void test_fail_writes_the_sentence_and_returns_the_status(void **state) {
    (void)state;
    fed_error err = {0};
    assert_fed_status(fed_fail(&err, FED_ERANGE, "%s:%d: too large", "task.json", 7), FED_ERANGE);
    assert_fed_status(err.status, FED_ERANGE);
    assert_string_equal(err.text, "task.json:7: too large");
}

static void test_fail_without_an_error_only_returns_the_status(void **state) {
    (void)state;
    assert_fed_status(fed_fail(NULL, FED_EIO, "nobody reads %s", "this"), FED_EIO);
}

static void test_too_long_a_sentence_is_cut(void **state) {
    (void)state;
    fed_error err = {0};
    char word[1000];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_fed_status(fed_fail(&err, FED_EINVAL, "%s", word), FED_EINVAL);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_writes_the_sentence_and_returns_the_status),
        cmocka_unit_test(test_fail_without_an_error_only_returns_the_status),
        cmocka_unit_test(test_too_long_a_sentence_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
