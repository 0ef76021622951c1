/* A model's text: word separators, its canonical form, and the positions that errors name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"

static void check_canonical(const char *text, const char *canonical) {
    fed_arch arch = arch_case_parse(text);
    assert_string_equal(arch.text, canonical);
    fed_arch again = arch_case_parse(arch.text);
    fed_error err = {0};
    assert_string_equal(again.text, arch.text);
    assert_fed_ok_err(fed_layout_match(&arch.layout, &again.layout, &err));
    fed_arch_free(&arch);
    fed_arch_free(&again);
}

FED_TEST(test_one_blank_is_between_words) {
    check_canonical("  input 784|dense 10 |  relu|dense   2 ",
                    "input 784 | dense 10 | relu | dense 2");
    check_canonical("input\t784\r\n|\n\n dense 10\n", "input 784 | dense 10");
}

FED_TEST(test_no_blank_is_within_labels_and_brackets) {
    check_canonical(
        "let  pair ( c , d )=conv c 3|conv d 3 ;input 1x9x9|x :2  pair ( 4 ,5 )|dense 2",
        "let pair(c,d) = conv c 3 | conv d 3; input 1x9x9 | x: 2 pair(4,5) | dense 2");
}

FED_TEST(test_comments_are_left_out) {
    check_canonical(
        "# a net, \xc3\xbc\xff\x01 and all\n#\ninput 784 # not | this\n| dense#10\n10\n#",
        "input 784 | dense 10");
    check_canonical("input 784 | dense 10 #", "input 784 | dense 10");
}

FED_TEST(test_an_error_in_one_line_names_the_column) {
    arch_case_refused("input 784 | danse 10", "model: column 13, \"danse\": expected a layer");
    arch_case_refused(" input 784 | dense", "model: the text ends at column 19: expected the");
}

FED_TEST(test_an_error_in_several_lines_names_the_line) {
    arch_case_refused("# x\ninput 784\n  | danse 10", "model: line 3, column 5, \"danse\"");
    arch_case_refused("input 784\n| dense\n", "model: the text ends at line 3, column 1: expected");
    arch_case_refused("\ninput 784 | dense # 10", "ends at line 2, column 23");
}

FED_TEST(test_only_what_can_be_shown_is_allowed) {
    arch_case_refused("input 5 | dense \x1b[31m", "column 17: expected only printable ASCII");
    arch_case_refused("input 5 |\n dense 3\x80", "line 2, column 9: expected only printable ASCII");
    arch_case_refused("lenet\x1b[31m", "column 6: expected only printable ASCII");
}

FED_TEST(test_long_words_are_cut_in_errors) {
    arch_case_refused("input 5 | aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbb",
                      "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\": expected");
}

FED_TEST(test_a_text_has_more_characters_than_a_task_holds) {
    static char text[2 * FED_ARCH_TEXT] = "input 9|dense 1 # a comment, which counts for nothing\n";
    size_t characters = strlen("input 9 | dense 1");
    while (characters + strlen(" | relu") < FED_ARCH_TEXT - strlen(" | dense 1")) {
        strcat(text, "|relu");
        characters += strlen(" | relu");
    }
    size_t len = strlen(text);
    /* leading zeros make the text exactly as long as the limit */
    snprintf(text + len, sizeof text - len, "|dense %0*d",
             (int)(FED_ARCH_TEXT - 1 - characters - strlen(" | dense ")), 3);
    fed_arch arch = arch_case_parse(text);
    assert_int_equal(strlen(arch.text), FED_ARCH_TEXT - 1);
    fed_arch_free(&arch);
    strcat(text, "|relu");
    arch = arch_case_parse(text);
    assert_int_equal(strlen(arch.text), FED_ARCH_TEXT - 1 + strlen(" | relu"));
    fed_arch_free(&arch);
}

FED_TEST(test_12582911_characters_are_the_most) {
    char *text = malloc(FED_ARCH_LONG + 1);
    assert_non_null(text);
    memset(text, 'a', FED_ARCH_LONG);
    memcpy(text, "vector ", strlen("vector "));
    text[FED_ARCH_LONG] = '\0';
    arch_case_refused(text, "at most 12,582,911 characters");
    text[FED_ARCH_LONG - 1] = '\0';
    arch_case_refused(text, "expected a tensor's shape");
    free(text);
}
